/* weir/base.h: version, status codes, and the macros every other header needs.
 *
 * Two rules hold for the whole library and are not repeated at each function:
 *   - One channel for results: the returned weir_status. Out-parameters come last and are untouched on failure.
 *   - A public struct that a caller fills begins with `struct_size`; its *_INIT macro sets it. Zero in any other
 *     member means "the default". A library that is older than the caller's header refuses bytes it does not know
 *     (WEIR_ERR_UNSUPPORTED) instead of ignoring them; a newer one treats what the caller lacks as zero.
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

/* Every symbol the shared library exports is declared with WEIR_API; nothing else is visible. */
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

/* A size-first struct with everything else zero. (In C++ a call, since C++17 has no designated initialisers.) */
#if defined(__cplusplus)
#define WEIR_STRUCT_INIT(type) ([] { type init = type(); init.struct_size = sizeof(type); return init; }())
#else
#define WEIR_STRUCT_INIT(type) { .struct_size = sizeof(type) }
#endif

/* X(name, value, text): the one list behind the enum, weir_status_name and weir_status_text. */
#define WEIR_STATUS_LIST(X)                                                                        \
    X(OK, 0, "success")                                                                            \
    X(ERR_NO_MEMORY, -1, "out of memory")                                                          \
    X(ERR_INVALID, -2, "invalid argument or handle")                                               \
    X(ERR_UNSUPPORTED, -3, "not supported here")                                                   \
    X(ERR_LIMIT, -4, "a configured limit forbids it")                                              \
    X(ERR_BUSY, -5, "still in use")                                                                \
    X(ERR_DEVICE, -6, "the device reported an error")                                              \
    X(ERR_INTERNAL, -7, "an internal invariant is broken")

WEIR_EXTENSION typedef enum WEIR_NODISCARD weir_status {
#define WEIR_STATUS_ENUM(name, value, text) WEIR_##name = (value),
    WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
} weir_status;

/* "WEIR_ERR_BUSY" for WEIR_ERR_BUSY; "WEIR_UNKNOWN" for a value that is none of the list. Thread-safe, never NULL. */
WEIR_API const char *weir_status_name(weir_status status);

/* A few words for a person, without a full stop. Thread-safe, never NULL. */
WEIR_API const char *weir_status_text(weir_status status);

/* The sentence behind the calling thread's last refusal: a call that returned WEIR_ERR_INVALID, WEIR_ERR_BUSY or
 * WEIR_ERR_UNSUPPORTED. It names the function and the argument or state that was refused, without a full stop:
 * "weir_pool_alloc: align 24 is not a power of two". Successful calls and other failures leave it as it is, so it is read
 * right after the refused call. (WEIR_ERR_NO_MEMORY and WEIR_ERR_LIMIT are explained by weir_pool_oom,
 * WEIR_ERR_DEVICE by weir_device_error. A device may also leave its runtime's text of a failed call here, as
 * weir/acl.h does: "aclrtMallocAlign32: 207001 ...".)
 * Results: never NULL; "" when no call of this thread was refused. Valid until the thread's next refusal or its end.
 * Threads: each thread has its own sentence. */
WEIR_API const char *weir_last_error(void);

/* For authors of devices, strategies and bindings: stores the sentence that weir_last_error returns, made from `format`
 * as by printf and cut at 255 bytes, and returns `status`, so that a refusal is one statement:
 *     return weir_refuse(WEIR_ERR_INVALID, "my_device_create: port %d is closed", port);
 * Threads: any; allocates nothing and takes no lock. */
WEIR_API weir_status weir_refuse(weir_status status, const char *format, ...) WEIR_PRINTF(2, 3);

/* For authors of devices, strategies and bindings: size-first structs across versions, by the second rule above. A
 * caller's struct says in its first member how large the caller's header made it.
 *
 * weir_struct_adopt takes a struct in: fills `own`, a struct of `own_size` bytes, with the members that both sides know
 * and with zero beyond, and sets its size. WEIR_ERR_INVALID: `given` is NULL or has no size. WEIR_ERR_UNSUPPORTED: it
 * has bytes beyond `own` that are not zero. `own` is then untouched. weir_struct_report gives one out: fills the
 * caller's struct with as much of `own` as it holds and with zero beyond; its size stays. WEIR_ERR_INVALID: `wanted` is
 * NULL or has no size. `name`, "my_device_create: config", begins the sentence of a refusal. Threads: any. */
WEIR_API weir_status weir_struct_adopt(void *own, size_t own_size, const void *given, const char *name);
WEIR_API weir_status weir_struct_report(void *wanted, const void *own, size_t own_size, const char *name);

/* The library's own version, "major.minor.patch", which may differ from the header's. Thread-safe, never NULL. */
WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif

#endif
