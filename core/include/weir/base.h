/* weir/base.h: version, status codes, and the macros that every other header needs.
 *
 * Two rules hold for the whole library and are not repeated at each function:
 *   - The returned weir_status is the only channel for results. Out-parameters come last and are untouched on
 *     failure.
 *   - A public struct that the caller fills begins with `struct_size`; its *_INIT macro sets it. Zero in any other
 *     member means "the default". If the caller's header is newer than the library, the library refuses members that
 *     it does not know and that are not zero (WEIR_ERR_UNSUPPORTED). If the caller's header is older, the library
 *     reads the missing members as zero.
 */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/* Declares a function that the shared library exports. The library exports no other symbol. */
#if defined(_WIN32)
#define WEIR_API
#else
#define WEIR_API __attribute__((visibility("default")))
#endif

#if defined(__clang__) && !defined(__cplusplus)
#define WEIR_NODISCARD __attribute__((warn_unused_result))
#elif defined(__cplusplus) || defined(__GNUC__)
#define WEIR_NODISCARD [[nodiscard]]
#else
#define WEIR_NODISCARD
#endif

#if defined(__GNUC__)
#define WEIR_EXTENSION __extension__
#else
#define WEIR_EXTENSION
#endif

#if defined(__GNUC__)
#define WEIR_PRINTF(text, values) __attribute__((format(printf, text, values)))
#else
#define WEIR_PRINTF(text, values)
#endif

/* Initialises a size-first struct: struct_size is set and every other member is zero. (In C++ the macro is a function
 * call, because C++17 has no designated initialisers.) */
#if defined(__cplusplus)
#define WEIR_STRUCT_INIT(type)                                                                                         \
    ([] {                                                                                                              \
        type init = type();                                                                                            \
        init.struct_size = sizeof(type);                                                                               \
        return init;                                                                                                   \
    }())
#else
#define WEIR_STRUCT_INIT(type)                                                                                         \
    {                                                                                                                  \
        .struct_size = sizeof(type)                                                                                    \
    }
#endif

/* X(name, value, text): the list from which the enum, weir_status_name and weir_status_text are made. */
#define WEIR_STATUS_LIST(X)                                                                                            \
    X(OK, 0, "success")                                                                                                \
    X(ERR_NO_MEMORY, -1, "out of memory")                                                                              \
    X(ERR_INVALID, -2, "invalid argument or handle")                                                                   \
    X(ERR_UNSUPPORTED, -3, "not supported here")                                                                       \
    X(ERR_LIMIT, -4, "a configured limit forbids it")                                                                  \
    X(ERR_BUSY, -5, "still in use")                                                                                    \
    X(ERR_DEVICE, -6, "the device reported an error")                                                                  \
    X(ERR_INTERNAL, -7, "an internal invariant is broken")

WEIR_EXTENSION typedef enum WEIR_NODISCARD weir_status {
#define WEIR_STATUS_ENUM(name, value, text) WEIR_##name = (value),
    WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
} weir_status;

/* Returns the name of a status: "WEIR_ERR_BUSY" for WEIR_ERR_BUSY. Returns "WEIR_UNKNOWN" for a value that is not in
 * the list, never NULL. Thread-safe. */
WEIR_API const char *weir_status_name(weir_status status);

/* Returns a short description of a status for a person, without a full stop. Never returns NULL. Thread-safe. */
WEIR_API const char *weir_status_text(weir_status status);

/* Returns the sentence that explains the calling thread's last refusal. A refusal is a call that returned
 * WEIR_ERR_INVALID, WEIR_ERR_BUSY or WEIR_ERR_UNSUPPORTED. The sentence names the function and the refused argument or
 * state, without a full stop: "weir_pool_alloc: align 24 is not a power of two". Successful calls and other failures do
 * not change it, so read it right after the refused call. (weir_pool_get_oom explains WEIR_ERR_NO_MEMORY and
 * WEIR_ERR_LIMIT; weir_device_error explains WEIR_ERR_DEVICE. A device may also store its runtime's text for a failed
 * call here, as weir/acl.h does: "aclrtMallocAlign32: 207001 ...".) The string stays valid until the thread's next
 * refusal or the thread's end. Returns "" if no call of this thread was refused, never NULL. Thread-safe: each thread
 * has its own sentence. */
WEIR_API const char *weir_last_error(void);

/* Stores the sentence that weir_last_error returns, and returns `status`. For authors of devices, strategies and
 * bindings. The sentence is formatted as by printf and cut at 255 bytes. With it a refusal is one statement:
 *     return weir_refuse(WEIR_ERR_INVALID, "my_device_create: port %d is closed", port);
 * Allocates nothing and takes no lock. Thread-safe. */
WEIR_API weir_status weir_refuse(weir_status status, const char *format, ...) WEIR_PRINTF(2, 3);

/* Convert size-first structs between versions of a header. For authors of devices, strategies and bindings. The first
 * member of the caller's struct states its size in the caller's header. `name`, such as "my_device_create: config",
 * begins the sentence of a refusal. Thread-safe.
 *
 * weir_struct_adopt copies the caller's struct `given` into `own`, a struct of `own_size` bytes: members that only the
 * library knows become zero, and the size member becomes `own_size`. Returns WEIR_ERR_INVALID if `given` is NULL or has
 * no size, WEIR_ERR_UNSUPPORTED if `given` has bytes beyond `own_size` that are not zero. `own` is then untouched.
 *
 * weir_struct_report copies `own` into the caller's struct `wanted`: members that only the caller knows become zero,
 * and the size member stays. Returns WEIR_ERR_INVALID if `wanted` is NULL or has no size. */
WEIR_API weir_status weir_struct_adopt(void *own, size_t own_size, const void *given, const char *name);
WEIR_API weir_status weir_struct_report(void *wanted, const void *own, size_t own_size, const char *name);

/* Returns the version of the library, "major.minor.patch". It may differ from the version of the header. Never returns
 * NULL. Thread-safe. */
WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif

#endif
