/* topo.c: `weir topo`: prints a machine's NUMA nodes and devices, the host memory that can be pinned, and remedies for
 * restrictions, as text or as JSON.
 */
#include "acl_devices.h"
#include "command.h"
#include "json.h"
#include "machine.h"
#include "options.h"
#include "units.h"

#include <weir/topology.h>

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct subcommand subcommand = {
    .name = "topo",
    .head =
        "weir topo: print NUMA nodes, devices, and the host memory that can be pinned here\n"
        "\n"
        "Prints the nodes, their distances, the nodes that this process may use, and the accelerators with the node next\n"
        "to each. Then it tries to pin 2 MiB of each kind of page and prints the results, the obstacles and their\n"
        "remedies.\n"
        "\n",
    .tail = "\n"
            "For another machine it prints nodes, distances and devices only.\n"
            "\n"
            "  weir topo\n"
            "  weir topo --json | jq '.devices[] | {bus_id, node}'\n",
};

/* --- remedies --- */

static bool locks_freely(const struct machine *m)
{
    return m->can_lock_all || m->lock_soft_bytes == UINT64_MAX;
}

static bool may_bind(const struct machine *m)
{
    return m->calls[CALL_MBIND] == 0;
}

enum { ADVICE_MOST = 8, ADVICE_BYTES = 400 };

struct advice {
    char lines[ADVICE_MOST][ADVICE_BYTES];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void advise(struct advice *advice, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (advice->count < ADVICE_MOST) {
        (void)vsnprintf(advice->lines[advice->count++], ADVICE_BYTES, format, arguments);
    }
    va_end(arguments);
}

static void find_advice(const weir_topology *t, const struct machine *m, struct advice *advice)
{
    char limit[UNIT_TEXT];
    uint64_t huge_pages = 0;
    size_t usable = 0;
    for (size_t i = 0; i < weir_topology_node_count(t); i++) {
        weir_node_info node = WEIR_NODE_INFO_INIT;
        if (weir_topology_node(t, i, &node) == WEIR_OK) {
            huge_pages += node.huge_pages;
            usable += node.is_allowed && node.is_host_memory;
        }
    }
    if (!locks_freely(m)) {
        advise(advice,
               "Only %s can be locked (RLIMIT_MEMLOCK): raise it with ulimit -l, LimitMEMLOCK= of "
               "the service or --ulimit "
               "memlock=-1 of the container, or run with CAP_IPC_LOCK. Memory that a device's "
               "runtime pins may not count.",
               format_size(limit, m->lock_soft_bytes));
    }
    if (!may_bind(m) && usable > 1) {
        advise(advice,
               "mbind is forbidden%s: pages are put on a node by moving the thread there. "
               "CAP_SYS_NICE allows it.",
               m->has_filter ? " by a seccomp filter" : "");
    }
    if (!may_bind(m) && m->calls[CALL_AFFINITY] != 0 && usable > 1) {
        advise(advice, "Threads cannot be moved either: memory lies where the kernel puts it.");
    }
    if (huge_pages == 0) {
        advise(advice, "No huge pages of 2 MiB are set aside: hugepages-2048kB/nr_hugepages saves "
                       "most of the time that pinning takes.");
    }
    if (!m->trials[TRIAL_TRANSPARENT].pinned || m->trials[TRIAL_TRANSPARENT].huge_bytes == 0) {
        advise(advice, "The kernel gives no transparent huge pages: write madvise to "
                       "/sys/kernel/mm/transparent_hugepage/enabled.");
    }
    if (m->limit_bytes != UINT64_MAX) {
        advise(advice, "The control group may hold %s in all: pinning more ends the process.",
               format_size(limit, m->limit_bytes));
    }
    if (usable == 0) {
        advise(advice, "No node of host memory is allowed here: look at the cpuset of the control group.");
    }
}

/* --- text --- */

static void print_nodes(const weir_topology *t)
{
    char all[UNIT_TEXT];
    char unused[UNIT_TEXT];
    const bool is_here = weir_topology_is_this_machine(t);
    (void)printf("nodes\n");
    for (size_t i = 0; i < weir_topology_node_count(t); i++) {
        weir_node_info node = WEIR_NODE_INFO_INIT;
        if (weir_topology_node(t, i, &node) != WEIR_OK) {
            continue;
        }
        (void)printf("  node %-3" PRId32 " %10s", node.node, format_size(all, node.memory_bytes));
        if (is_here) {
            (void)printf(", %s free", format_size(unused, node.free_bytes));
        }
        (void)printf(", %" PRIu32 " processor%s", node.cpus, node.cpus == 1 ? "" : "s");
        if (is_here) {
            (void)printf(", %" PRIu64 " of %" PRIu64 " huge pages free", node.free_huge_pages, node.huge_pages);
        } else if (node.huge_pages != 0) {
            (void)printf(", %" PRIu64 " huge pages", node.huge_pages);
        }
        (void)printf("%s%s\n", node.is_allowed ? "" : "; forbidden to this process",
                     node.is_host_memory ? "" : "; not for host memory");
    }
}

static int32_t node_number(const weir_topology *t, size_t index)
{
    weir_node_info node = WEIR_NODE_INFO_INIT;
    return weir_topology_node(t, index, &node) == WEIR_OK ? node.node : WEIR_NODE_NONE;
}

static bool has_distances(const weir_topology *t)
{
    const size_t count = weir_topology_node_count(t);
    return count > 1 && weir_topology_distance(t, node_number(t, 0), node_number(t, 1)) != 0;
}

static void print_distances(const weir_topology *t)
{
    const size_t count = weir_topology_node_count(t);
    if (count < 2) {
        return;
    }
    if (!has_distances(t)) {
        (void)printf("distances\n  not told\n");
        return;
    }
    (void)printf("distances\n      ");
    for (size_t to = 0; to < count; to++) {
        (void)printf(" %4" PRId32, node_number(t, to));
    }
    (void)printf("\n");
    for (size_t from = 0; from < count; from++) {
        (void)printf("  %4" PRId32, node_number(t, from));
        for (size_t to = 0; to < count; to++) {
            (void)printf(" %4" PRIu32, weir_topology_distance(t, node_number(t, from), node_number(t, to)));
        }
        (void)printf("\n");
    }
}

static void print_devices(const weir_topology *t)
{
    const size_t count = weir_topology_device_count(t);
    (void)printf("accelerators\n");
    if (count == 0) {
        (void)printf("  none\n");
    }
    for (size_t i = 0; i < count; i++) {
        weir_topology_device device = WEIR_TOPOLOGY_DEVICE_INIT;
        if (weir_topology_device_at(t, i, &device) != WEIR_OK) {
            continue;
        }
        (void)printf("  %-12s  %04x:%04x  class %04x  ", device.bus_id, device.vendor, device.device, device.pci_class);
        if (device.node != WEIR_NODE_NONE) {
            (void)printf("node %" PRId32 "\n", device.node);
        } else {
            (void)printf("as near to all nodes; shared out: node %" PRId32 "\n",
                         weir_topology_slice(t, (uint32_t)i, (uint32_t)count));
        }
    }
}

/* Returns the NUMA node of an ACL device; WEIR_NODE_NONE if the machine does not show the device or its node. */
static int32_t acl_node(const weir_topology *t, const struct acl_device *device, bool *is_shown)
{
    int32_t node = WEIR_NODE_NONE;
    *is_shown = weir_topology_nearest(t, device->bus_id, WEIR_NODE_NONE, &node) == WEIR_OK;
    return node;
}

static void print_acl_devices(const weir_topology *t, const struct acl_devices *acl)
{
    (void)printf("devices of ACL\n");
    for (size_t i = 0; i < acl->count; i++) {
        const struct acl_device *device = &acl->devices[i];
        bool is_shown = false;
        const int32_t node = acl_node(t, device, &is_shown);
        (void)printf("  %-3zu %-12s  ", i, device->bus_id[0] != '\0' ? device->bus_id : "not on PCI");
        if (node != WEIR_NODE_NONE) {
            (void)printf("node %" PRId32 "\n", node);
        } else if (device->bus_id[0] != '\0' && !is_shown) {
            (void)printf("the machine shows no such device\n");
        } else {
            (void)printf("as near to all nodes; shared out: node %" PRId32 "\n",
                         weir_topology_slice(t, (uint32_t)i, (uint32_t)acl->count));
        }
    }
}

static void print_trials(const struct machine *m)
{
    (void)printf("pinning, tried with 2 MiB\n");
    for (int kind = 0; kind < TRIAL_COUNT; kind++) {
        const struct trial *trial = &m->trials[kind];
        (void)printf("  %-22s ", machine_trial_text((enum machine_trial)kind));
        if (!trial->pinned) {
            (void)printf("no: %s says %s\n", trial->failed, strerror(trial->number));
            continue;
        }
        (void)printf("yes");
        if (trial->node >= 0) {
            (void)printf(", on node %" PRId32, trial->node);
        }
        (void)printf("%s\n", kind == TRIAL_TRANSPARENT && trial->huge_bytes == 0 ? ", but in small pages" : "");
    }
}

static void print_limits(const struct machine *m)
{
    char a[UNIT_TEXT];
    char b[UNIT_TEXT];
    (void)printf("limits\n  locked memory          ");
    if (locks_freely(m)) {
        (void)printf("none%s\n", m->can_lock_all ? ", by CAP_IPC_LOCK" : "");
    } else {
        (void)printf("%s, which can be raised to %s\n", format_size(a, m->lock_soft_bytes),
                     m->lock_hard_bytes == UINT64_MAX ? "any" : format_size(b, m->lock_hard_bytes));
    }
    (void)printf("  memory of the group    %s\n",
                 m->limit_bytes == UINT64_MAX ? "none" : format_size(a, m->limit_bytes));
    (void)printf("  transparent huge pages %s\n", m->transparent[0] != '\0' ? m->transparent : "the kernel has none");
    (void)printf("  container              %s%s\n", m->container[0] != '\0' ? m->container : "none that shows",
                 m->has_filter ? ", system calls are filtered" : "");
    for (int call = 0; call < CALL_COUNT; call++) {
        (void)printf("  %-22s %s\n", machine_call_name((enum machine_call)call),
                     m->calls[call] == 0 ? "allowed" : strerror(m->calls[call]));
    }
}

static void print_all(const weir_topology *t, const struct acl_devices *acl)
{
    print_nodes(t);
    print_distances(t);
    print_devices(t);
    if (acl != NULL) {
        print_acl_devices(t, acl);
    }
    if (weir_topology_is_this_machine(t)) {
        struct machine machine;
        struct advice advice = {.count = 0};
        machine_look(&machine);
        print_trials(&machine);
        print_limits(&machine);
        find_advice(t, &machine, &advice);
        (void)printf("%s", advice.count > 0 ? "what to do\n" : "");
        for (size_t i = 0; i < advice.count; i++) {
            (void)printf("  %s\n", advice.lines[i]);
        }
    }
}

/* --- JSON --- */

static json_t *bytes_json(uint64_t bytes)
{
    return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *node_json(int32_t node)
{
    return node == WEIR_NODE_NONE ? json_null() : json_integer(node);
}

static json_t *nodes_json(const weir_topology *t)
{
    json_t *nodes = json_array();
    for (size_t i = 0; i < weir_topology_node_count(t); i++) {
        weir_node_info node = WEIR_NODE_INFO_INIT;
        json_t *distances = json_array();
        if (weir_topology_node(t, i, &node) != WEIR_OK) {
            json_decref(distances);
            continue;
        }
        for (size_t to = 0; to < weir_topology_node_count(t); to++) {
            (void)json_array_append_new(distances,
                                        json_integer(weir_topology_distance(t, node.node, node_number(t, to))));
        }
        (void)json_array_append_new(
            nodes, json_pack("{s:i, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "node", (int)node.node, "allowed",
                             node.is_allowed, "host_memory", node.is_host_memory, "cpus", (json_int_t)node.cpus,
                             "memory_bytes", (json_int_t)node.memory_bytes, "free_bytes", (json_int_t)node.free_bytes,
                             "huge_pages", (json_int_t)node.huge_pages, "free_huge_pages",
                             (json_int_t)node.free_huge_pages, "distances", distances));
    }
    return nodes;
}

static json_t *devices_json(const weir_topology *t)
{
    json_t *devices = json_array();
    const size_t count = weir_topology_device_count(t);
    for (size_t i = 0; i < count; i++) {
        weir_topology_device device = WEIR_TOPOLOGY_DEVICE_INIT;
        if (weir_topology_device_at(t, i, &device) == WEIR_OK) {
            (void)json_array_append_new(devices,
                                        json_pack("{s:o, s:i, s:i, s:i, s:o, s:o}", "bus_id", json_text(device.bus_id),
                                                  "vendor", (int)device.vendor, "device", (int)device.device, "class",
                                                  (int)device.pci_class, "node", node_json(device.node), "slice",
                                                  node_json(weir_topology_slice(t, (uint32_t)i, (uint32_t)count))));
        }
    }
    return devices;
}

static json_t *acl_devices_json(const weir_topology *t, const struct acl_devices *acl)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < acl->count; i++) {
        bool is_shown = false;
        const int32_t node = acl_node(t, &acl->devices[i], &is_shown);
        const char *bus_id = acl->devices[i].bus_id;
        (void)json_array_append_new(devices, json_pack("{s:i, s:s?, s:o}", "device", (int)i, "bus_id",
                                                       bus_id[0] != '\0' ? bus_id : NULL, "node", node_json(node)));
    }
    return devices;
}

static json_t *machine_json(const weir_topology *t)
{
    struct machine m;
    struct advice advice = {.count = 0};
    json_t *trials = json_object();
    json_t *calls = json_object();
    json_t *lines = json_array();
    machine_look(&m);
    find_advice(t, &m, &advice);
    for (int kind = 0; kind < TRIAL_COUNT; kind++) {
        const struct trial *trial = &m.trials[kind];
        (void)json_object_set_new(trials, machine_trial_name((enum machine_trial)kind),
                                  json_pack("{s:b, s:s?, s:s?, s:I, s:o}", "pinned", trial->pinned, "failed",
                                            trial->failed, "error", trial->pinned ? NULL : strerror(trial->number),
                                            "huge_bytes", (json_int_t)trial->huge_bytes, "node",
                                            node_json(trial->node)));
    }
    for (int call = 0; call < CALL_COUNT; call++) {
        (void)json_object_set_new(calls, machine_call_name((enum machine_call)call), json_boolean(m.calls[call] == 0));
    }
    for (size_t i = 0; i < advice.count; i++) {
        (void)json_array_append_new(lines, json_text(advice.lines[i]));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:b, s:o, s:o, s:b, s:o, s:I, s:o}", "trials", trials, "calls_allowed",
                     calls, "lock_soft_bytes", bytes_json(m.lock_soft_bytes), "lock_hard_bytes",
                     bytes_json(m.lock_hard_bytes), "locked_bytes", (json_int_t)m.locked_bytes, "can_lock_all",
                     m.can_lock_all, "group_limit_bytes", bytes_json(m.limit_bytes), "transparent_huge_pages",
                     json_text(m.transparent), "seccomp_filter", m.has_filter, "container", json_text(m.container),
                     "page_bytes", (json_int_t)m.page_bytes, "advice", lines);
}

static int print_json(const weir_topology *t, const struct acl_devices *acl)
{
    json_t *all = json_pack("{s:b, s:o, s:o}", "this_machine", weir_topology_is_this_machine(t), "nodes", nodes_json(t),
                            "devices", devices_json(t));
    if (acl != NULL) {
        (void)json_object_set_new(all, "acl_devices", acl_devices_json(t, acl));
    }
    if (weir_topology_is_this_machine(t)) {
        (void)json_object_set_new(all, "host_memory", machine_json(t));
    }
    const int status = json_print("topo", all, JSON_INDENT(2));
    json_decref(all);
    return status;
}

int command_topo(int argc, char **argv)
{
    weir_topology_config config = WEIR_TOPOLOGY_CONFIG_INIT;
    weir_topology *topology = NULL;
    static struct acl_devices acl;
    bool json = false;
    bool with_acl = false;
    const struct option_row rows[] = {
        {.name = "json", .text = "print JSON", .flag = &json},
        {.name = "acl",
         .text = "print the devices of Ascend's ACL runtime too, by their numbers (opens libascendcl.so)",
         .flag = &with_acl},
        {.name = "xml",
         .value = "FILE",
         .word = &config.xml,
         .text = "describe another machine, from a file of lstopo (lstopo --of xml FILE)"},
        {.name = "synthetic",
         .value = "TEXT",
         .word = &config.synthetic,
         .text = "describe an imaginary machine, as for lstopo: \"pack:2 [numa] core:4 pu:1\""},
        OPTION_HELP,
        {.name = NULL},
    };
    const int read = read_options(&subcommand, rows, NULL, argc, argv);
    if (read != EXIT_DONE) {
        return read < 0 ? EXIT_DONE : read;
    }
    if (optind < argc) {
        return complain("topo", true, "takes no argument %s", argv[optind]);
    }
    if (config.xml != NULL && config.synthetic != NULL) {
        return complain("topo", true, "--xml and --synthetic are two machines");
    }
    if (with_acl && (config.xml != NULL || config.synthetic != NULL)) {
        return complain("topo", true, "--acl asks this machine, not %s",
                        config.xml != NULL ? config.xml : config.synthetic);
    }
    if (with_acl && !acl_devices_read(&acl)) {
        return complain("topo", false, "--acl: %s", acl.why);
    }
    const weir_status status = weir_topology_create(&config, &topology);
    const char *const other = config.xml != NULL ? config.xml : config.synthetic;
    if (status == WEIR_ERR_UNSUPPORTED && other != NULL) {
        return complain("topo", false, "%s: this weir was built without hwloc and knows its own machine only", other);
    }
    if (status != WEIR_OK) {
        return complain("topo", false, "%s: %s", other != NULL ? other : "this machine",
                        status == WEIR_ERR_INVALID ? "not a machine that hwloc can read" : weir_status_text(status));
    }
    int written = EXIT_DONE;
    if (json) {
        written = print_json(topology, with_acl ? &acl : NULL);
    } else {
        print_all(topology, with_acl ? &acl : NULL);
    }
    weir_topology_destroy(topology);
    return written;
}
