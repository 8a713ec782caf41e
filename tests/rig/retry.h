/* tests/rig/retry.h: for programs in which the calls below weir fail: each call is tried again, and must fail with a
 * status that the device or the host may cause. The including file has a function that reports any other status:
 *
 *     static void wrong(const char *call, int status);
 */
#ifndef WEIR_RIG_RETRY_H
#define WEIR_RIG_RETRY_H

#include <stdbool.h>
#include <weir/base.h>

enum { tries = 8 }; /* more than the calls of an outage */

static bool given_up; /* a call failed each time that it was tried */

static inline bool may_fail_with(weir_status status)
{
    return status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_DEVICE || status == WEIR_ERR_UNSUPPORTED ||
           status == WEIR_ERR_BUSY;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        weir_status status_ = (call);                                                                                  \
        for (int i_ = 1; i_ < tries && status_ != WEIR_OK; i_++) {                                                     \
            if (!may_fail_with(status_)) {                                                                             \
                wrong(#call, status_);                                                                                 \
            }                                                                                                          \
            status_ = (call);                                                                                          \
        }                                                                                                              \
        given_up |= status_ != WEIR_OK;                                                                                \
    } while (0)

/* A call of the vendor's runtime, which returns 0 for success. */
#define TRY_NATIVE(call)                                                                                               \
    do {                                                                                                               \
        int code_ = (int)(call);                                                                                       \
        for (int i_ = 1; i_ < tries && code_ != 0; i_++) {                                                             \
            code_ = (int)(call);                                                                                       \
        }                                                                                                              \
        given_up |= code_ != 0;                                                                                        \
    } while (0)

#endif
