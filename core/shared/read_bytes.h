/* core/shared/read_bytes.h: reads a number of bytes from the text of a setting: "4096", "4096B", "512MiB", "2TiB". */
#ifndef WEIR_SHARED_READ_BYTES_H
#define WEIR_SHARED_READ_BYTES_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Returns false, and leaves *bytes unchanged, if the text is not a number of this form or the number is not
 * below 2^64. */
static inline bool weir__read_bytes(const char *text, uint64_t *bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char *end = NULL;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9') {
        return false;
    }
    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(*end != '\0' ? end : "B", units[i]) == 0 && number <= UINT64_MAX >> (10 * i)) {
            *bytes = (uint64_t)number << (10 * i);
            return true;
        }
    }
    return false;
}

#endif
