/* allocators/src/config.c: see config.h. A strategy sees nothing of core but its contract, so what core does with its
 * own structs stands here once more, for all strategies. */
#include "config.h"

#include <string.h>

static bool is_zero(const unsigned char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

weir_status weir__strategy_config(void *own, size_t size, const void *given, const char *name)
{
    size_t claimed = sizeof(claimed);
    if (given != NULL) {
        memcpy(&claimed, given, sizeof(claimed));
    }
    if (claimed < sizeof(claimed)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: %s has no struct_size: its ..._INIT macro sets it", name);
    }
    if (given != NULL && !is_zero(given, size, claimed)) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_pool_create: %s sets members beyond the %zu bytes that this library, %s, knows", name, size,
                           weir_version());
    }
    memset(own, 0, size);
    if (given != NULL) {
        memcpy(own, given, claimed < size ? claimed : size);
    }
    memcpy(own, &size, sizeof(size));
    return WEIR_OK;
}
