/* bindings/ascend/mstx/src/domain_name.h: checks the name of a domain, and whether the tools apply special rules to
 * it. */
#ifndef WEIR_MSTX_DOMAIN_NAME_H
#define WEIR_MSTX_DOMAIN_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { weir__domain_name_most = 1023 };

/* True for letters, digits and '_', at most weir__domain_name_most of them, and for the empty name. */
static inline bool weir__domain_name_is_good(const char *name)
{
    const size_t length = strnlen(name, weir__domain_name_most + 1);
    return length <= weir__domain_name_most &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* True for the domains in which msMemScope returns no handles and takes the size of a heap for the size of all
 * heaps. */
static inline bool weir__domain_wants_totals(const char *name)
{
    static const char *const names[] = {"ptaCaching", "msleaks", "ptaWorkspace", "mindsporeMemPool"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

#endif
