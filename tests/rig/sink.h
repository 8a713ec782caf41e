/* tests/rig/sink.h: a sink that keeps the text of a recorder. A program that expects more text defines KEPT_BYTES
 * before the include. */
#ifndef WEIR_RIG_SINK_H
#define WEIR_RIG_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifndef KEPT_BYTES
#define KEPT_BYTES (1 << 16)
#endif

struct kept {
    size_t length;
    char text[KEPT_BYTES]; /* ends with a NUL once the sink has been called */
};

/* The sink; `ctx` is a struct kept. Refuses text that has no room. */
static inline bool keep(void *ctx, const char *text, size_t length)
{
    struct kept *kept = ctx;
    if (length >= sizeof(kept->text) - kept->length) {
        return false;
    }
    memcpy(kept->text + kept->length, text, length);
    kept->length += length;
    kept->text[kept->length] = '\0';
    return true;
}

#endif
