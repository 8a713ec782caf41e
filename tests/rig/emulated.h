/* tests/rig/emulated.h: tells if the program runs under QEMU. */
#ifndef WEIR_RIG_EMULATED_H
#define WEIR_RIG_EMULATED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Under QEMU (tests/project/arm64) the kernel sees the emulator's calls, addresses and limits, and not the program's
 * own. */
static inline bool is_emulated(void)
{
    if (getenv("WEIR_EMULATED") != NULL) {
        puts("the emulator's calls and limits are not this program's");
        return true;
    }
    return false;
}

#endif
