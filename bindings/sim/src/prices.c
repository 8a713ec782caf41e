/* prices.c: price tables: the defaults, and tables in files.
 *
 * Idea: one list names every price and its place in weir_sim_costs. The reader, the writer and the defaults use it, so
 * a new price needs only an entry in the list.
 *
 * The file's format is described in weir/sim.h, at weir_sim_costs_read.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "sim_internal.h"

#include "shared/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(member, default in ns): all prices except the fixed prices of calls. Sources: bindings/sim/README.md. */
#define OTHER_PRICES(X)                                                                                                \
    X(region_alloc_ns_per_mib, 1000)                                                                                   \
    X(region_free_ns_per_mib, 500)                                                                                     \
    X(vm_create_ns_per_mib, 1000)                                                                                      \
    X(launch_ns, 2900)                                                                                                 \
    X(transfer_ns, 1200)                                                                                               \
    X(device_copy_ns_per_mib, 1400)                                                                                    \
    X(host_copy_ns_per_mib, 42000)                                                                                     \
    X(fill_ns_per_mib, 700)

static const uint64_t default_call_ns[WEIR_CALL_COUNT] = {
    [WEIR_CALL_REGION_ALLOC] = 100000, [WEIR_CALL_REGION_FREE] = 60000,      [WEIR_CALL_VM_RESERVE] = 19000,
    [WEIR_CALL_VM_RELEASE] = 19000,    [WEIR_CALL_VM_CREATE] = 100000,       [WEIR_CALL_VM_DESTROY] = 60000,
    [WEIR_CALL_VM_MAP] = 37000,        [WEIR_CALL_VM_UNMAP] = 26000,         [WEIR_CALL_EVENT_CREATE] = 400,
    [WEIR_CALL_EVENT_DESTROY] = 400,   [WEIR_CALL_EVENT_RECORD] = 2000,      [WEIR_CALL_EVENT_QUERY] = 1000,
    [WEIR_CALL_EVENT_SYNC] = 2300,     [WEIR_CALL_STREAM_WAIT_EVENT] = 2000, [WEIR_CALL_STREAM_SYNC] = 2300,
    [WEIR_CALL_COPY] = 2300,
};

static const struct {
    const char *name;
    size_t offset;
    uint64_t usual;
} others[] = {
#define PRICE(member, usual) {#member, offsetof(weir_sim_costs, member), usual},
    OTHER_PRICES(PRICE)
#undef PRICE
};

enum {
    other_count = sizeof(others) / sizeof(others[0]),
    price_count = WEIR_CALL_COUNT + other_count,
    most_prices = 10000, /* lines of a file */
};

static uint64_t *price_at(weir_sim_costs *costs, size_t index)
{
    WEIR_ASSERT(index < price_count);
    return index < WEIR_CALL_COUNT ? &costs->call_ns[index]
                                   : (uint64_t *)(void *)((char *)costs + others[index - WEIR_CALL_COUNT].offset);
}

/* Writes the name of a price (the simulated time of a call): the call's name with "_ns" for a fixed price, otherwise
 * the member's name. */
static void name_of(char *name, size_t size, size_t index)
{
    WEIR_ASSERT(index < price_count);
    if (index < WEIR_CALL_COUNT) {
        (void)snprintf(name, size, "%s_ns", weir_device_call_name((weir_device_call)index));
    } else {
        (void)snprintf(name, size, "%s", others[index - WEIR_CALL_COUNT].name);
    }
}

/* --- defaults --- */

void weir__sim_fill_costs(weir_sim_costs *costs, const weir_sim_costs *table)
{
    weir_sim_costs from_table = *table;
    for (size_t i = 0; i < price_count; i++) {
        const uint64_t usual = i < WEIR_CALL_COUNT ? default_call_ns[i] : others[i - WEIR_CALL_COUNT].usual;
        const uint64_t listed = *price_at(&from_table, i);
        uint64_t *price = price_at(costs, i);
        WEIR_ASSERT(usual != 0);
        *price = *price != 0 ? *price : listed != 0 ? listed : usual;
        *price = *price == WEIR_SIM_FREE_OF_CHARGE ? 0 : *price;
    }
}

size_t weir_sim_costs_assumed(const weir_sim_costs *costs)
{
    weir_sim_costs own = *costs;
    size_t assumed = 0;
    for (size_t i = 0; i < price_count; i++) {
        assumed += *price_at(&own, i) == 0;
    }
    return assumed;
}

/* --- files --- */

struct reader {
    const char *function; /* begins every sentence */
    const char *path;
    unsigned line;
    weir_sim_costs costs;
};

__attribute__((format(printf, 2, 3))) static weir_status bad_line(const struct reader *reader, const char *format, ...)
{
    WEIR_ASSERT(reader->line > 0);
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    return weir_refuse(WEIR_ERR_INVALID, "%s: %s:%u: %s", reader->function, reader->path, reader->line, why);
}

/* Returns the index of the price with that name, or price_count if there is none. */
static size_t find_price(const char *name)
{
    char known[64];
    size_t index = 0;
    for (; index < price_count; index++) {
        name_of(known, sizeof(known), index);
        if (strcmp(name, known) == 0) {
            break;
        }
    }
    return index;
}

/* Reads a decimal number of ns without a sign, at most an hour. */
static bool read_ns(const char *text, uint64_t *ns)
{
    const uint64_t most = UINT64_C(3600) * 1000 * 1000 * 1000;
    *ns = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && *ns <= most; at++) {
        *ns = *ns * 10 + (uint64_t)(*at - '0');
    }
    return at != text && *at == '\0' && *ns <= most;
}

static weir_status read_line(struct reader *reader, char *line)
{
    static const char blanks[] = " \t\r\n";
    char *rest = NULL;
    line[strcspn(line, "#")] = '\0';
    const char *name = strtok_r(line, blanks, &rest);
    const char *value = name != NULL ? strtok_r(NULL, blanks, &rest) : NULL;
    const char *more = value != NULL ? strtok_r(NULL, blanks, &rest) : NULL;
    uint64_t ns = 0;
    if (name == NULL) {
        return WEIR_OK;
    }
    const size_t index = find_price(name);
    if (index == price_count) {
        return bad_line(reader, "there is no price '%.60s'", name);
    }
    if (value == NULL || more != NULL) {
        return bad_line(reader, "'%s' needs one number: nanoseconds", name);
    }
    if (!read_ns(value, &ns)) {
        return bad_line(reader, "'%.60s' is not a number of nanoseconds from 0 to an hour", value);
    }
    uint64_t *price = price_at(&reader->costs, index);
    if (*price != 0) {
        return bad_line(reader, "'%s' has a price already", name);
    }
    *price = ns == 0 ? WEIR_SIM_FREE_OF_CHARGE : ns;
    return WEIR_OK;
}

static weir_status read_lines(struct reader *reader, FILE *file)
{
    char line[256];
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && fgets(line, sizeof(line), file) != NULL) {
        reader->line++;
        if (strchr(line, '\n') == NULL && !feof(file)) {
            status = bad_line(reader, "the line is longer than %zu bytes", sizeof(line) - 2);
        } else if (reader->line > most_prices) {
            status = bad_line(reader, "the file has more than %d lines", most_prices);
        } else {
            status = read_line(reader, line);
        }
    }
    if (status == WEIR_OK && ferror(file) != 0) {
        status = weir_refuse(WEIR_ERR_INVALID, "%s: %s: %s", reader->function, reader->path, strerror(errno));
    }
    if (status == WEIR_OK && weir_sim_costs_assumed(&reader->costs) == price_count) {
        status = weir_refuse(WEIR_ERR_INVALID, "%s: %s: no price in the file", reader->function, reader->path);
    }
    return status;
}

static weir_status read_file(const char *function, const char *path, weir_sim_costs *costs)
{
    struct reader reader = {.function = function, .path = path};
    FILE *file = open_stream_above_standard(path, O_RDONLY, "r");
    if (file == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s: %s", function, path, strerror(errno));
    }
    const weir_status status = read_lines(&reader, file);
    (void)fclose(file);
    if (status == WEIR_OK) {
        *costs = reader.costs;
    }
    return status;
}

weir_status weir_sim_costs_read(const char *path, weir_sim_costs *costs)
{
    static const char function[] = "weir_sim_costs_read";
    if (path == NULL || costs == NULL) {
        return weir__sim_null(function, path == NULL ? "path" : "costs");
    }
    return read_file(function, path, costs);
}

weir_status weir__sim_costs_of_environment(weir_sim_costs *costs)
{
    const char *path = secure_getenv("WEIR_SIM_PRICES");
    *costs = (weir_sim_costs){.launch_ns = 0};
    return path != NULL && path[0] != '\0' ? read_file("weir_sim_create: WEIR_SIM_PRICES", path, costs) : WEIR_OK;
}

size_t weir_sim_costs_format(const weir_sim_costs *costs, char *text, size_t size)
{
    weir_sim_costs own = *costs;
    size_t used = 0;
    if (size != 0) {
        text[0] = '\0';
    }
    for (size_t i = 0; i < price_count; i++) {
        char name[64];
        char line[128];
        const uint64_t price = *price_at(&own, i);
        name_of(name, sizeof(name), i);
        const int length =
            snprintf(line, sizeof(line), "%s %" PRIu64 "\n", name, price == WEIR_SIM_FREE_OF_CHARGE ? 0 : price);
        if (price != 0) {
            WEIR_ASSERT((size_t)length < sizeof(line));
            if (used < size) {
                (void)snprintf(text + used, size - used, "%s", line);
            }
            used += (size_t)length;
        }
    }
    return used;
}
