/* core/src/base/config.c: size-first structs across versions.
 *
 * The first member of a caller's struct is the size of the struct in the caller's header. On input, the library copies
 * the members that both sides know and zeroes the rest of its own struct. A newer caller may pass bytes that the
 * library does not know; they must be zero, because otherwise a setting would be ignored silently. On output, the
 * caller gets as much as its struct holds. So there is no version number, and no branch on one.
 */
#include <weir/base.h>

#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the size in the struct's first member. Returns 0 if there is no struct, or if the size does not even cover
 * that member. */
static size_t claimed_size(const void *object)
{
    size_t size = 0;
    if (object != NULL) {
        memcpy(&size, object, sizeof(size));
    }
    return size < sizeof(size) ? 0 : size;
}

static bool is_zero(const unsigned char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static weir_status refuse_size(const void *object, const char *name)
{
    return weir_refuse(WEIR_ERR_INVALID,
                       object == NULL ? "%s is NULL" : "%s has no struct_size: its ..._INIT macro sets it", name);
}

weir_status weir_struct_adopt(void *own, size_t own_size, const void *given, const char *name)
{
    const size_t given_size = claimed_size(given);
    if (given_size == 0) {
        return refuse_size(given, name);
    }
    if (!is_zero(given, own_size, given_size)) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "%s sets members beyond the %zu bytes that this library, %s, knows",
                           name, own_size, weir_version());
    }
    memset(own, 0, own_size);
    memcpy(own, given, smaller(given_size, own_size));
    memcpy(own, &own_size, sizeof(own_size));
    return WEIR_OK;
}

/* Keeps the caller's own size, so that the same struct can be filled again. A longer struct is zeroed beyond the
 * library's part: the caller asked for a value that this library does not have. */
weir_status weir_struct_report(void *wanted, const void *own, size_t own_size, const char *name)
{
    const size_t wanted_size = claimed_size(wanted);
    if (wanted_size == 0) {
        return refuse_size(wanted, name);
    }
    memset(wanted, 0, wanted_size);
    memcpy(wanted, own, smaller(own_size, wanted_size));
    memcpy(wanted, &wanted_size, sizeof(wanted_size));
    return WEIR_OK;
}
