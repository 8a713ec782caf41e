/* tests/pool/fault/failing.h: makes each request for host memory and each device call of a program fail in turn:
 * failing_host.h, and a device of which every n-th call fails. */
#ifndef TESTS_FAULT_FAILING_H
#define TESTS_FAULT_FAILING_H

#include "failing_host.h"

#include "../../../core/shared/device_calls.h"

/* --- a device that does not count --- */

/* A device that passes every call on. It does not count the simulator's requests for host memory, only the pool's.
 * Every `fail_every`-th call fails; 0: no call fails. In an outage the calls of one kind, or of any, fail from number
 * `outage.first` on; 0: there is none. */
static weir_device *inner;
static uint64_t fail_every;
static uint64_t device_calls;
static struct {
    weir_device_call call;
    weir_status status;
    uint64_t first;
    uint64_t count;
    uint64_t calls;
    bool struck;
} outage;

/* Returns WEIR_OK if the next call may be passed on. */
static weir_status strike(weir_device_call call)
{
    if (outage.first != 0 && (outage.call == WEIR_CALL_ANY || outage.call == call) && ++outage.calls >= outage.first &&
        outage.calls - outage.first < outage.count) {
        outage.struck = true;
        return outage.status;
    }
    return fail_every != 0 && ++device_calls % fail_every == 0 ? WEIR_ERR_DEVICE : WEIR_OK;
}

#define PASS(NAME, call)                                                                                               \
    do {                                                                                                               \
        const bool was = counting;                                                                                     \
        counting = false;                                                                                              \
        (void)ctx;                                                                                                     \
        const weir_status struck = strike(WEIR_CALL_##NAME);                                                           \
        const weir_status status = struck != WEIR_OK ? struck : (call);                                                \
        counting = was;                                                                                                \
        return status;                                                                                                 \
    } while (0)

static weir_status pass_get_info(void *ctx, weir_device_info *info)
{
    (void)ctx;
    return weir_device_get_info(inner, info);
}

#define CALL(NAME, slot, n, ...)                                                                                       \
    static weir_status pass_##slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__))                              \
    {                                                                                                                  \
        PASS(NAME, weir_device_##slot(inner WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__)));                              \
    }
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    static weir_status pass_##slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__), WEIR__TYPE_##result *result) \
    {                                                                                                                  \
        PASS(NAME, weir_device_##slot(inner WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__), result));                      \
    }
WEIR__DEVICE_CALLS(CALL, GIVING)
#undef CALL
#undef GIVING

#define SLOT(NAME, slot, ...) .slot = pass_##slot,
static const weir_device_ops pass_ops = {
    .struct_size = sizeof(pass_ops), .get_info = pass_get_info, WEIR__DEVICE_CALLS(SLOT, SLOT)};
#undef SLOT

/* A call of weir. Only requests for host memory during such a call are counted. */
#define POOL(call) (counting = true, pool_result(call))

static inline weir_status pool_result(weir_status status)
{
    counting = false;
    return status;
}

#endif
