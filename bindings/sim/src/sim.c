/* sim.c: create and destroy, statistics, and the public functions of the auditor.
 *
 * The parts: stream.c (time, streams, events, work), effects.c (effects of work at their virtual time), memory.c and
 * backing.c (addresses and bytes), share.c (memory of several processes), sim_device.c (the device table), prices.c,
 * fault.c, and the separate auditor (audit.c, report.c). The auditor is told of operations and ignores their times.
 * ranges.c and slab.c are the two data structures.
 */
#include "sim_internal.h"

#include <stdlib.h>
#include <unistd.h>

/* --- defaults --- */

static void fill_config(weir_sim_config *config)
{
    bool backed = config->mode == WEIR_SIM_BACKED;
    if (config->capacity_bytes == 0 && config->shared_limit != NULL) {
        config->capacity_bytes = weir__shared_limit_bytes(config->shared_limit);
    }
    if (config->capacity_bytes == 0) {
        config->capacity_bytes = (uint64_t)(backed ? 1 : 64) << 30;
    }
    if (config->region_granularity_bytes == 0) {
        config->region_granularity_bytes = (uint64_t)2 << 20;
    }
    if (config->page_bytes == 0) {
        config->page_bytes = (uint64_t)2 << 20;
    }
    if (config->address_base == 0) {
        config->address_base = 0x100000000000u;
    }
    if (config->max_findings == 0) {
        config->max_findings = 1000;
    }
}

static bool is_granularity(uint64_t bytes, const weir_sim_config *config)
{
    bool is_power_of_two = bytes != 0 && (bytes & (bytes - 1)) == 0;
    bool is_whole_page = config->mode != WEIR_SIM_BACKED || bytes % (uint64_t)sysconf(_SC_PAGESIZE) == 0;
    return is_power_of_two && is_whole_page && bytes <= (uint64_t)1 << 40;
}

static const char creating[] = "weir_sim_create";

static weir_status bad(const char *member, uint64_t value, const char *why)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: config's %s %llu %s", creating, member, (unsigned long long)value, why);
}

static weir_status check(const weir_sim_config *config)
{
    const uint64_t capacity = config->capacity_bytes;
    const uint64_t region = config->region_granularity_bytes;
    const uint64_t base = config->address_base;
    if (config->mode != WEIR_SIM_ACCOUNTING && config->mode != WEIR_SIM_BACKED) {
        return bad("mode", config->mode, "is no weir_sim_mode");
    }
    if (!is_granularity(region, config)) {
        return bad("region_granularity_bytes", region,
                   "is no power of two up to 1 TiB, or in backed mode less than a page");
    }
    if (!is_granularity(config->page_bytes, config)) {
        return bad("page_bytes", config->page_bytes,
                   "is no power of two up to 1 TiB, or in backed mode less than a page");
    }
    if (capacity < region || capacity > (uint64_t)1 << 44) {
        return bad("capacity_bytes", capacity, "is less than region_granularity_bytes or more than 16 TiB");
    }
    if (base % region != 0 || base % config->page_bytes != 0 || base > (uint64_t)1 << 62) {
        return bad("address_base", base, "is no multiple of region_granularity_bytes and page_bytes, or above 2^62");
    }
    return WEIR_OK;
}

/* A price that is 0 comes from the file that WEIR_SIM_PRICES names, else from the defaults. */
static weir_status fill_costs(weir_sim_costs *costs)
{
    weir_sim_costs table;
    const weir_status status = weir__sim_costs_of_environment(&table);
    if (status == WEIR_OK) {
        weir__sim_fill_costs(costs, &table);
    }
    return status;
}

/* --- create and destroy --- */

/* Called to destroy the device. A device that is still in use is not destroyed, and so keeps its simulator. */
static void end(void *ctx)
{
    weir_sim *sim = ctx;
    weir__sim_effects_fini(sim);
    weir__sim_audit_destroy(sim->audit);
    weir__sim_memory_fini(sim);
    weir__sim_streams_fini(sim);
    free(sim->faults.armed);
    (void)pthread_cond_destroy(&sim->effects.done);
    (void)pthread_mutex_destroy(&sim->lock);
    free(sim);
}

static weir_status start(weir_sim *sim)
{
    WEIR_ASSERT(sim->device == NULL && sim->audit == NULL);
    weir_status status = weir__sim_streams_init(sim);
    if (status == WEIR_OK) {
        status = weir__sim_memory_init(sim);
    }
    if (status == WEIR_OK && !sim->config.no_audit) {
        sim->audit = weir__sim_audit_create(sim->config.max_findings, sim->config.direct_access);
        status = sim->audit != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    }
    if (status == WEIR_OK) {
        weir__sim_device_ops(sim);
        sim->ops.destroy = end;
        status = weir_device_create(&sim->ops, sim, &sim->device);
    }
    return status;
}

weir_status weir_sim_create(const weir_sim_config *config, weir_sim **sim)
{
    static const weir_sim_config defaults = WEIR_SIM_CONFIG_INIT;
    if (sim == NULL) {
        return weir__sim_null(creating, "sim");
    }
    weir_sim_config filled;
    weir_status status =
        weir_struct_adopt(&filled, sizeof(filled), config != NULL ? config : &defaults, "weir_sim_create: config");
    if (status != WEIR_OK) {
        return status;
    }
    fill_config(&filled);
    status = check(&filled);
    if (status == WEIR_OK) {
        status = fill_costs(&filled.costs);
    }
    if (status != WEIR_OK) {
        return status;
    }
    weir_sim *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    created->config = filled;
    if (pthread_mutex_init(&created->lock, NULL) != 0) {
        free(created);
        return WEIR_ERR_NO_MEMORY;
    }
    if (pthread_cond_init(&created->effects.done, NULL) != 0) {
        (void)pthread_mutex_destroy(&created->lock);
        free(created);
        return WEIR_ERR_NO_MEMORY;
    }
    status = start(created);
    if (status != WEIR_OK) {
        end(created);
        return status;
    }
    *sim = created;
    return WEIR_OK;
}

weir_status weir_sim_destroy(weir_sim *sim)
{
    const weir_status status = sim != NULL ? weir_device_destroy(sim->device) : WEIR_OK;
    return status == WEIR_ERR_BUSY
               ? weir_refuse(status, "weir_sim_destroy: a pool or an adaptor stands on the simulator's device")
               : status;
}

weir_device *weir_sim_device(weir_sim *sim)
{
    return sim->device;
}

/* --- memory, for tests to inspect --- */

void *weir_sim_bytes(weir_sim *sim, uint64_t address, uint64_t size)
{
    weir__sim_lock(sim);
    void *bytes = weir__sim_memory_bytes(sim, address, size);
    weir__sim_unlock(sim);
    return bytes;
}

void weir_sim_set_capacity(weir_sim *sim, uint64_t capacity_bytes)
{
    weir__sim_lock(sim);
    sim->memory.capacity = capacity_bytes;
    weir__sim_unlock(sim);
}

/* --- announcements to the auditor --- */

/* Returns the number of `stream`, or WEIR__SIM_HOST if it is no stream. Fills in the time of an alloc or a free in
 * stream order: the end of the stream's queued work. */
static uint32_t announcer(weir_sim *sim, weir_sim_stream *stream, weir__sim_op_info *info)
{
    WEIR_ASSERT_HELD(&sim->lock);
    const weir_sim_stream *found = stream != NULL ? weir__sim_stream_find(sim, stream) : NULL;
    info->start_ns = found != NULL ? weir__sim_later(found->tail, sim->now) : sim->now;
    info->end_ns = info->start_ns;
    return found != NULL ? found->number : WEIR__SIM_HOST;
}

static void announce(weir_sim *sim, uint64_t address, uint64_t size, bool unit, weir_sim_stream *stream,
                     const char *tag)
{
    if (sim->audit == NULL) {
        return;
    }
    weir__sim_lock(sim);
    weir__sim_op_info info = {.what = "alloc", .tag = tag};
    uint32_t number = announcer(sim, stream, &info);
    weir__sim_audit_block_alloc(sim->audit, address, size, unit, number, &info);
    weir__sim_unlock(sim);
}

void weir_sim_block_alloc(weir_sim *sim, uint64_t address, uint64_t size, weir_sim_stream *stream, const char *tag)
{
    announce(sim, address, size, false, stream, tag);
}

void weir_sim_unit_alloc(weir_sim *sim, uint64_t address, uint64_t size, weir_sim_stream *stream, const char *tag)
{
    announce(sim, address, size, true, stream, tag);
}

void weir_sim_block_free(weir_sim *sim, uint64_t address, weir_sim_stream *stream, const char *tag)
{
    if (sim->audit == NULL) {
        return;
    }
    weir__sim_lock(sim);
    weir__sim_op_info info = {.what = "free", .tag = tag};
    uint32_t number = announcer(sim, stream, &info);
    weir__sim_audit_block_free(sim->audit, address, number, &info);
    weir__sim_unlock(sim);
}

void weir_sim_host_alloc(weir_sim *sim, const void *start, uint64_t size)
{
    weir__sim_lock(sim);
    WEIR__SIM_TELL(sim, weir__sim_audit_host_alloc(sim->audit, (uint64_t)(uintptr_t)start, size));
    weir__sim_unlock(sim);
}

void weir_sim_host_written(weir_sim *sim, const void *start, uint64_t size)
{
    weir__sim_lock(sim);
    weir__sim_effects_host_written(sim, start, size);
    weir__sim_unlock(sim);
}

void weir_sim_host_free(weir_sim *sim, const void *start, uint64_t size, const char *tag)
{
    weir__sim_lock(sim);
    weir__sim_op_info info = {.what = "free", .tag = tag, .start_ns = sim->now, .end_ns = sim->now};
    WEIR__SIM_TELL(sim, weir__sim_audit_host_free(sim->audit, (uint64_t)(uintptr_t)start, size, &info));
    weir__sim_effects_host_freed(sim, start, size);
    weir__sim_unlock(sim);
}

void weir_sim_set_reach(weir_sim *sim, weir_sim_reaches reaches, void *ctx)
{
    weir__sim_lock(sim);
    WEIR__SIM_TELL(sim, weir__sim_audit_set_reach(sim->audit, reaches, ctx));
    weir__sim_unlock(sim);
}

void weir_sim_audit_leaks(weir_sim *sim)
{
    if (sim->audit == NULL) {
        return;
    }
    weir__sim_lock(sim);
    weir__sim_audit_leaks(sim->audit);
    weir__sim_memory_leaks(sim);
    weir__sim_unlock(sim);
}

uint64_t weir_sim_finding_count(weir_sim *sim, weir_sim_finding_kind kind)
{
    if (sim->audit == NULL || (unsigned)kind > WEIR_SIM_FINDING_KINDS) {
        return 0;
    }
    weir__sim_lock(sim);
    const weir__sim_report *report = weir__sim_audit_report(sim->audit);
    uint64_t count = kind == WEIR_SIM_FINDING_KINDS ? report->total : report->counts[kind];
    weir__sim_unlock(sim);
    return count;
}

bool weir_sim_finding_at(weir_sim *sim, size_t index, weir_sim_finding *finding)
{
    if (sim->audit == NULL || finding == NULL) {
        return false;
    }
    weir__sim_lock(sim);
    const weir__sim_report *report = weir__sim_audit_report(sim->audit);
    bool kept = index < report->kept_count;
    if (kept) {
        *finding = report->kept[index];
    }
    weir__sim_unlock(sim);
    return kept;
}

/* --- statistics --- */

weir_status weir_sim_get_stats(weir_sim *sim, weir_sim_stats *stats)
{
    if (sim == NULL || stats == NULL) {
        return weir__sim_null("weir_sim_get_stats", sim == NULL ? "sim" : "stats");
    }
    weir__sim_lock(sim);
    weir_sim_stats now = sim->stats;
    now.struct_size = sizeof(now);
    now.held_bytes = sim->memory.held;
    now.peak_held_bytes = sim->memory.peak;
    now.operations = sim->operations;
    now.audit_lost = sim->audit != NULL ? weir__sim_audit_lost(sim->audit) : 0;
    WEIR_ASSERT(now.held_bytes <= now.peak_held_bytes);
    weir__sim_unlock(sim);
    return weir_struct_report(stats, &now, sizeof(now), "weir_sim_get_stats: stats");
}
