/* sim_device.c: the simulator as a weir_device: each operation counts the call, checks for faults, charges the call's
 * time, then acts.
 *
 * An operation acts between enter and leave, which take and release the lock. A call that an armed fault makes fail
 * (fault.c) costs its time and changes nothing else.
 */
#include "shared/device_calls.h"
#include "sim_internal.h"

#include <string.h>

static uint64_t price(const weir_sim *sim, weir_device_call call, uint64_t bytes)
{
    WEIR_ASSERT(call < WEIR_CALL_COUNT);
    const weir_sim_costs *costs = &sim->config.costs;
    uint64_t per_mib = call == WEIR_CALL_REGION_ALLOC  ? costs->region_alloc_ns_per_mib
                       : call == WEIR_CALL_REGION_FREE ? costs->region_free_ns_per_mib
                       : call == WEIR_CALL_VM_CREATE   ? costs->vm_create_ns_per_mib
                                                       : 0;
    return weir__sim_price(costs->call_ns[call], per_mib, bytes);
}

/* Takes the lock, counts the call and charges its fixed time. Returns WEIR_OK, or an injected failure that the caller
 * must return. */
static weir_status enter(weir_sim *sim, weir_device_call call, uint64_t *began)
{
    weir__sim_lock(sim);
    *began = sim->now;
    sim->stats.calls[call]++;
    uint64_t ns = price(sim, call, 0);
    weir_status status = sim->faults.count == 0 ? WEIR_OK : weir__sim_fault_strike(&sim->faults, call, &ns);
    weir__sim_reach(sim, weir__sim_plus(sim->now, ns));
    return status;
}

/* Releases the lock at the end of a device call. Charges the time per MiB unless the call failed. */
static weir_status leave(weir_sim *sim, weir_device_call call, uint64_t bytes, uint64_t began, weir_status status)
{
    WEIR_ASSERT_HELD(&sim->lock);
    WEIR_ASSERT(sim->now >= began);
    if (status == WEIR_OK) {
        uint64_t ns = price(sim, call, bytes) - price(sim, call, 0);
        weir__sim_reach(sim, weir__sim_plus(sim->now, ns));
    }
    sim->stats.call_ns[call] += sim->now - began;
    weir__sim_unlock(sim);
    return status;
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const weir_sim *sim = ctx;
    info->capacity_bytes = sim->config.capacity_bytes;
    info->region_granularity_bytes = sim->config.region_granularity_bytes;
    info->region_alignment_bytes = sim->config.region_granularity_bytes;
    info->page_bytes = sim->config.no_virtual_memory ? 0 : sim->config.page_bytes;
    info->abilities = (sim->config.no_ordering ? 0 : (uint32_t)WEIR_DEVICE_ORDERED) |
                      (sim->config.no_virtual_memory ? 0 : (uint32_t)WEIR_DEVICE_VIRTUAL_MEMORY);
    info->host_numa_node = -1;
    static const char name[] = "weir simulator";
    memcpy(info->name, name, sizeof(name));
    return WEIR_OK;
}

/* Defines a function for each device call. If a call has a size, its time depends on the size. */
#define BYTES(word) BYTES_##word
#define BYTES_address
#define BYTES_size bytes = size;
#define BYTES_handle
#define BYTES_event
#define BYTES_native_stream
#define SLOT(NAME, call, n, ...)                                                                                       \
    {                                                                                                                  \
        uint64_t began = 0;                                                                                            \
        uint64_t bytes = 0;                                                                                            \
        WEIR__EACH(n, BYTES, __VA_ARGS__)                                                                              \
        weir_status status = enter(ctx, WEIR_CALL_##NAME, &began);                                                     \
        if (status == WEIR_OK) {                                                                                       \
            status = call;                                                                                             \
        }                                                                                                              \
        return leave(ctx, WEIR_CALL_##NAME, bytes, began, status);                                                     \
    }
#define CALL(NAME, slot, n, ...)                                                                                       \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__))                                     \
        SLOT(NAME, weir__sim_##slot(ctx WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__)), n, __VA_ARGS__)
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__), WEIR__TYPE_##result *result)        \
        SLOT(NAME, weir__sim_##slot(ctx WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__), result), n, __VA_ARGS__)
WEIR__REGION_CALLS(CALL, GIVING)
WEIR__VM_CALLS(CALL, GIVING)
WEIR__ORDERING_CALLS(CALL, GIVING)

/* --- copies: queued in pieces on streams of the simulator's own, so that the auditor sees them --- */

#define COPY_PIECE (UINT64_C(32) << 20) /* bytes */

/* Creates the streams for copies. Another thread may do so at the same time. */
static weir_status make_copy_streams(weir_sim *sim)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < WEIR__SIM_COPY_STREAMS && status == WEIR_OK; i++) {
        weir__sim_lock(sim);
        const bool is_made = sim->copying[i] != NULL;
        weir__sim_unlock(sim);
        weir_sim_stream *stream = NULL;
        status = is_made ? WEIR_OK : weir_sim_stream_create(sim, &stream);
        weir__sim_lock(sim);
        const bool is_first = stream != NULL && sim->copying[i] == NULL;
        sim->copying[i] = is_first ? stream : sim->copying[i];
        weir__sim_unlock(sim);
        if (stream != NULL && !is_first) {
            (void)!weir_sim_stream_destroy(sim, stream);
        }
    }
    return status;
}

static weir_status queue_piece(weir_sim *sim, weir_sim_stream *stream, const weir_copy *copy, uint64_t done,
                               uint64_t size)
{
    static const char tag[] = "copy of the device";
    const uint64_t address = copy->address + done;
    char *host = copy->host != NULL ? (char *)copy->host + done : NULL;
    return host == NULL    ? weir_sim_fill(sim, stream, address, size, copy->value, tag)
           : copy->to_host ? weir_sim_copy_to_host(sim, stream, host, address, size, tag)
                           : weir_sim_copy_from_host(sim, stream, address, host, size, tag);
}

static weir_status queue_pieces(weir_sim *sim, const weir_copy *copies, size_t count)
{
    weir_status status = WEIR_OK;
    unsigned turn = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint64_t done = 0; done < copies[i].size && status == WEIR_OK; turn++) {
            const uint64_t rest = copies[i].size - done;
            const uint64_t size = rest < COPY_PIECE ? rest : COPY_PIECE;
            status = queue_piece(sim, sim->copying[turn % WEIR__SIM_COPY_STREAMS], &copies[i], done, size);
            done += size;
        }
    }
    return status;
}

static weir_status copy(void *ctx, const weir_copy *copies, size_t count)
{
    weir_sim *sim = ctx;
    uint64_t began = 0;
    weir_status status = enter(sim, WEIR_CALL_COPY, &began);
    status = leave(sim, WEIR_CALL_COPY, 0, began, status);
    if (status == WEIR_OK && count > 0) {
        status = make_copy_streams(sim);
    }
    if (status != WEIR_OK || count == 0) {
        return status;
    }
    status = queue_pieces(sim, copies, count);
    for (int i = 0; i < WEIR__SIM_COPY_STREAMS; i++) {
        weir__sim_lock(sim);
        const weir_status ended = weir__sim_stream_sync(sim, sim->copying[i]);
        weir__sim_unlock(sim);
        status = status == WEIR_OK ? ended : status;
    }
    return status;
}

/* Checks a stream handle. Costs no time and cannot be made to fail. */
static weir_status stream_check(void *ctx, void *native_stream)
{
    weir__sim_lock(ctx);
    const weir_status status = weir__sim_stream_check(ctx, native_stream);
    weir__sim_unlock(ctx);
    return status;
}

/* Costs no time and cannot be made to fail. */
static weir_status memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    weir_sim *sim = ctx;
    weir__sim_lock(sim);
    *free_bytes = sim->memory.capacity > sim->memory.held ? sim->memory.capacity - sim->memory.held : 0;
    *total_bytes = sim->memory.capacity;
    if (sim->config.shared_limit != NULL) {
        weir__shared_limit_lower(sim->config.shared_limit, free_bytes, total_bytes);
    }
    weir__sim_unlock(sim);
    return WEIR_OK;
}

void weir__sim_device_ops(weir_sim *sim)
{
    WEIR_ASSERT(sim->device == NULL);
    weir_device_ops *ops = &sim->ops;
    ops->struct_size = sizeof(*ops);
    ops->get_info = get_info;
    ops->memory_info = memory_info;
#define SET(NAME, slot, ...) ops->slot = slot;
    WEIR__REGION_CALLS(SET, SET)
    WEIR__COPY_CALLS(SET, SET)
    if (!sim->config.no_virtual_memory) {
        WEIR__VM_CALLS(SET, SET)
    }
    if (!sim->config.no_ordering) {
        WEIR__ORDERING_CALLS(SET, SET)
        ops->stream_check = stream_check;
    }
}
