/* bindings/mstx/src/domain_name.h: what a domain's name says: whether the tools take it, and by which rules. */
#ifndef WEIR_MSTX_DOMAIN_NAME_H
#define WEIR_MSTX_DOMAIN_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { weir__domain_name_most = 1023 };

/* Letters, digits and '_', and not too many; the empty name passes. */
static inline bool weir__domain_name_is_good(const char *name)
{
    const size_t length = strnlen(name, weir__domain_name_most + 1);
    return length <= weir__domain_name_most &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* msMemScope's domains in which it gives no handles and takes the size of a heap for that of all of them. */
static inline bool weir__domain_wants_totals(const char *name)
{
    static const char *const names[] = { "ptaCaching", "msleaks", "ptaWorkspace", "mindsporeMemPool" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

#endif
