/* config.c: the environment variables that describe the simulated machine. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "base/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX "WEIR_ASCENDCL_"

/* The simulator reserves twenty bytes of addresses for each byte of capacity. A program under the thread sanitizer has
 * few addresses, so its default capacity is smaller. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FEW_ADDRESSES 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(FEW_ADDRESSES)
#define DEFAULT_CAPACITY (UINT64_C(4) << 30)
#else
#define DEFAULT_CAPACITY (UINT64_C(32) << 30)
#endif

/* The vendor's runtime takes some 26 MiB of a device for arguments, stacks and queues when the device is set. */
#define DEFAULT_RUNTIME (UINT64_C(26) << 20)

enum { SHARED_LENGTH = 48 }; /* of a name, which the limits of the devices contain */

static bool refuse(const char *name, const char *text, const char *wanted)
{
    (void)fprintf(stderr, "weir ascendcl: %s%s=%s: %s is expected\n", PREFIX, name, text, wanted);
    return false;
}

/* Returns a variable's text, or NULL if it is not set or empty. */
static const char *variable(const char *name)
{
    char full[64];
    (void)snprintf(full, sizeof(full), "%s%s", PREFIX, name);
    const char *text = secure_getenv(full);
    return text != NULL && *text != '\0' ? text : NULL;
}

static bool parse_number(const char *text, uint64_t *number, const char **end)
{
    WEIR_ASSERT(text != NULL);
    if (*text < '0' || *text > '9') {
        return false;
    }
    char *stop = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &stop, 0);
    *number = value;
    *end = stop;
    return errno == 0;
}

static bool parse_size(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0},     {"B", 0},  {"KiB", 10}, {"MiB", 20}, {"GiB", 30},
                 {"TiB", 40}, {"K", 10}, {"M", 20},   {"G", 30},   {"T", 40}};
    const char *unit = NULL;
    uint64_t number = 0;
    if (!parse_number(text, &number, &unit)) {
        return false;
    }
    unit += strspn(unit, " ");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcasecmp(unit, units[i].name) == 0 && number <= UINT64_MAX >> units[i].shift) {
            *bytes = number << units[i].shift;
            return true;
        }
    }
    return false;
}

static bool read_size(const char *name, uint64_t *bytes)
{
    const char *text = variable(name);
    return text == NULL || parse_size(text, bytes) || refuse(name, text, "a size such as 64GiB");
}

static bool read_number(const char *name, uint64_t least, uint64_t most, uint64_t *number)
{
    WEIR_ASSERT(least <= most);
    const char *text = variable(name);
    const char *end = NULL;
    uint64_t value = 0;
    if (text == NULL) {
        return true;
    }
    if (!parse_number(text, &value, &end) || *end != '\0' || value < least || value > most) {
        char wanted[64];
        (void)snprintf(wanted, sizeof(wanted), "a number from %" PRIu64 " to %" PRIu64, least, most);
        return refuse(name, text, wanted);
    }
    *number = value;
    return true;
}

static bool read_u32(const char *name, uint32_t least, uint32_t most, uint32_t *number)
{
    uint64_t value = *number;
    const bool good = read_number(name, least, most, &value);
    *number = (uint32_t)value;
    return good;
}

static bool read_switch(const char *name, bool *value)
{
    uint64_t number = *value;
    const bool good = read_number(name, 0, 1, &number);
    *value = number != 0;
    return good;
}

/* --- WEIR_ASCENDCL_COSTS: a list of NAME=NANOSECONDS, separated by commas --- */

static uint64_t *price_of(weir_sim_costs *costs, const char *name, size_t length)
{
    static const struct {
        const char *name;
        size_t offset;
    } prices[] = {
        {"launch", offsetof(weir_sim_costs, launch_ns)},
        {"transfer", offsetof(weir_sim_costs, transfer_ns)},
        {"device_copy_per_mib", offsetof(weir_sim_costs, device_copy_ns_per_mib)},
        {"host_copy_per_mib", offsetof(weir_sim_costs, host_copy_ns_per_mib)},
        {"fill_per_mib", offsetof(weir_sim_costs, fill_ns_per_mib)},
        {"region_alloc_per_mib", offsetof(weir_sim_costs, region_alloc_ns_per_mib)},
        {"region_free_per_mib", offsetof(weir_sim_costs, region_free_ns_per_mib)},
        {"vm_create_per_mib", offsetof(weir_sim_costs, vm_create_ns_per_mib)},
    };
    for (size_t i = 0; i < sizeof(prices) / sizeof(prices[0]); i++) {
        if (strlen(prices[i].name) == length && memcmp(prices[i].name, name, length) == 0) {
            return (uint64_t *)(void *)((char *)costs + prices[i].offset);
        }
    }
    for (int call = 0; call < WEIR_CALL_COUNT; call++) {
        const char *known = weir_device_call_name((weir_device_call)call);
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            return &costs->call_ns[call];
        }
    }
    return NULL;
}

static bool read_costs(weir_sim_costs *costs)
{
    const char *text = variable("COSTS");
    for (const char *at = text; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, "=,");
        uint64_t *price = price_of(costs, at, length);
        uint64_t ns = 0;
        const char *end = NULL;
        if (price == NULL || at[length] != '=' || !parse_number(at + length + 1, &ns, &end) ||
            (*end != '\0' && *end != ',')) {
            return refuse("COSTS", at, "a list such as region_alloc=100000,launch=2900, in nanoseconds,");
        }
        *price = ns == 0 ? WEIR_SIM_FREE_OF_CHARGE : ns;
        at = *end == ',' ? end + 1 : end;
    }
    return true;
}

/* The bus ids lie in PCI domain ffff, which real machines seldom have, so no simulated device is taken for a real
 * one. */
#define DEFAULT_BUS_IDS                                                                                                \
    "ffff:c1:00.0,ffff:c2:00.0,ffff:81:00.0,ffff:82:00.0,ffff:41:00.0,ffff:42:00.0,ffff:01:00.0,ffff:02:00.0,"         \
    "ffff:c3:00.0,ffff:c4:00.0,ffff:83:00.0,ffff:84:00.0,ffff:43:00.0,ffff:44:00.0,ffff:03:00.0,ffff:04:00.0"

bool acl__config_read(acl__config *config, weir_sim_config *sim)
{
    *config = (acl__config){
        .capacity_bytes = DEFAULT_CAPACITY,
        .runtime_bytes = DEFAULT_RUNTIME,
        .devices = 2,
        .audit = true,
        .reuse_pools = true,
        .pin_default = true,
        .idle_time = true,
        .driver_cache = true,
        .model_page_bytes = UINT64_C(64) << 10,
        .pin_page_bytes = 4096,
        .stream_limit = 1984,
        .event_limit = 65536,
        .handle_rest = 4096,
        .report = "stderr",
        .bus_ids = DEFAULT_BUS_IDS,
    };
    uint64_t exit_code = 0;
    uint64_t nodes = 0;
    const char *bus_ids = variable("PCI_BUS_IDS");
    if (bus_ids != NULL) {
        config->bus_ids = bus_ids;
    }
    const char *report = variable("REPORT");
    if (report != NULL) {
        config->report = report;
    }
    config->shared = variable("SHARED");
    const bool good =
        read_size("CAPACITY", &config->capacity_bytes) && read_size("RUNTIME_MEMORY", &config->runtime_bytes) &&
        read_u32("DEVICES", 1, ACL__DEVICES, &config->devices) && read_number("SEED", 0, UINT64_MAX, &config->seed) &&
        read_switch("AUDIT", &config->audit) && read_switch("STRICT", &config->strict) &&
        read_switch("POOL_REUSE", &config->reuse_pools) && read_switch("IDLE_TIME", &config->idle_time) &&
        read_switch("PIN_DEFAULT_ALLOCATOR", &config->pin_default) && read_switch("SPAN_CACHE", &config->span_cache) &&
        read_switch("REFRESH_WEIGHTS", &config->refresh_weights) && read_switch("OLD_DRIVER", &config->old_driver) &&
        read_switch("DRIVER_CACHE", &config->driver_cache) && read_switch("PINNED_ZERO", &config->pinned_zero) &&
        read_size("MODEL_PAGE", &config->model_page_bytes) && read_size("HOST_CAPACITY", &config->host_bytes) &&
        read_size("PIN_LIMIT", &config->pin_limit_bytes) && read_size("PIN_PAGE", &config->pin_page_bytes) &&
        read_u32("STREAMS", 1, UINT32_MAX, &config->stream_limit) &&
        read_u32("EVENTS", 1, UINT32_MAX, &config->event_limit) &&
        read_u32("HANDLE_REST", 0, UINT32_MAX, &config->handle_rest) && read_number("NUMA_NODES", 0, 1024, &nodes) &&
        read_number("EXIT_CODE", 0, 255, &exit_code) && read_costs(&sim->costs) && acl__faults_read(variable("FAULTS"));
    config->numa_nodes = (int32_t)nodes;
    config->exit_code = (int32_t)exit_code;
    if (!good) {
        return false;
    }
    if (config->capacity_bytes < ACL__HUGE_PAGE || config->capacity_bytes > UINT64_C(1) << 40) {
        (void)fprintf(stderr, "weir ascendcl: " PREFIX "CAPACITY: between 2 MiB and 1 TiB is expected\n");
        return false;
    }
    if (config->pin_page_bytes < 4096 || (config->pin_page_bytes & (config->pin_page_bytes - 1)) != 0) {
        (void)fprintf(stderr, "weir ascendcl: " PREFIX "PIN_PAGE: a power of two from 4 KiB is expected\n");
        return false;
    }
    if (config->runtime_bytes > config->capacity_bytes) {
        config->runtime_bytes = config->capacity_bytes;
    }
    if (config->shared != NULL && strlen(config->shared) > SHARED_LENGTH) {
        return refuse("SHARED", config->shared, "a name of at most 48 bytes");
    }
    sim->mode = WEIR_SIM_BACKED;
    sim->capacity_bytes = config->capacity_bytes * config->devices;
    sim->region_granularity_bytes = ACL__NORMAL_PAGE;
    sim->page_bytes = ACL__HUGE_PAGE;
    sim->seed = config->seed;
    sim->no_audit = !config->audit;
    WEIR_ASSERT(config->devices >= 1 && config->devices <= ACL__DEVICES);
    WEIR_ASSERT(config->stream_limit > 0 && config->event_limit > 0);
    return true;
}
