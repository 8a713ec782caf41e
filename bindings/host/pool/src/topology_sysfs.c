/* topology_sysfs.c: reads the machine from the kernel's own files, without hwloc.
 *
 * The answers for the machine itself are the same as hwloc's, except for memory of a special kind that has processors
 * of its own, which only hwloc recognizes. Every file may be missing: a kernel without NUMA gives one node 0, a kernel
 * without PCI no devices, and where /proc is hidden all nodes and processors count as allowed.
 */
#include "topology_internal.h"

#include "shared/cancel.h"
#include "shared/descriptor.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES_MOST = 1024, LINE_MOST = 8192, PATH_MOST = 512 };

/* --- small files --- */

static bool read_text(const char *root, const char *path, char *text, size_t size)
{
    char full[PATH_MOST];
    const int length = snprintf(full, sizeof(full), "%s%s", root, path);
    if (length < 0 || (size_t)length >= sizeof(full)) {
        return false;
    }
    const int file = above_standard(open(full, O_RDONLY | O_CLOEXEC));
    if (file < 0) {
        return false;
    }
    size_t have = 0;
    ssize_t got = 1;
    while (got > 0 && have + 1 < size) {
        got = read(file, text + have, size - 1 - have);
        have += got > 0 ? (size_t)got : 0;
    }
    (void)close(file);
    text[have] = '\0';
    return have > 0;
}

bool weir__sysfs_text(const char *root, const char *path, char *text, size_t size)
{
    return UNCANCELLED(read_text(root, path, text, size));
}

static bool node_text(const char *root, int32_t node, const char *name, char *text, size_t size)
{
    char path[PATH_MOST];
    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%" PRId32 "/%s", node, name);
    return weir__sysfs_text(root, path, text, size);
}

/* Returns the value in bytes of a line "MemFree: 123 kB" in a text. */
static uint64_t kilobytes(const char *text, const char *key)
{
    const size_t length = strlen(key);
    for (const char *at = strstr(text, key); at != NULL; at = strstr(at + 1, key)) {
        if (at[length] == ':' && (at == text || isspace((unsigned char)at[-1]))) {
            return strtoull(at + length + 1, NULL, 10) * 1024;
        }
    }
    return 0;
}

uint64_t weir__sysfs_node_memory(const char *root, int32_t node, const char *key)
{
    char text[LINE_MOST];
    return node_text(root, node, "meminfo", text, sizeof(text)) ? kilobytes(text, key) : 0;
}

uint64_t weir__sysfs_node_number(const char *root, int32_t node, const char *name)
{
    char text[64];
    return node_text(root, node, name, text, sizeof(text)) ? strtoull(text, NULL, 0) : 0;
}

static bool take_number(const char **text, uint32_t *number)
{
    char *end = NULL;
    if (!isdigit((unsigned char)**text)) {
        return false;
    }
    const unsigned long long value = strtoull(*text, &end, 10);
    *text = end;
    *number = (uint32_t)value;
    return value <= UINT32_MAX;
}

bool weir__sysfs_list(const char *text, bool (*each)(void *ctx, uint32_t number), void *ctx)
{
    text += strspn(text, " \t");
    while (*text != '\0' && *text != '\n') {
        uint32_t first = 0;
        uint32_t last = 0;
        if (!take_number(&text, &first)) {
            return false;
        }
        last = first;
        if (*text == '-') {
            text++;
            if (!take_number(&text, &last)) {
                return false;
            }
        }
        for (uint64_t number = first; number <= last; number++) {
            if (!each(ctx, (uint32_t)number)) {
                return false;
            }
        }
        if (*text == ',') {
            text++;
        }
    }
    return true;
}

/* --- nodes --- */

struct reading {
    const char *root;
    weir_topology *t;
    int32_t order[NODES_MOST]; /* nodes in the order in which the kernel lists them; a line of distances has the same
                                  order */
    size_t count;
    int32_t node; /* read_cpu adds processors to this node */
    bool no_memory;
};

static bool read_node(void *ctx, uint32_t number)
{
    struct reading *reading = ctx;
    const int32_t node = (int32_t)number;
    if (number > INT32_MAX || reading->count == NODES_MOST) {
        return false;
    }
    if (!weir__topology_add_node(reading->t, node, weir__sysfs_node_memory(reading->root, node, "MemTotal"), false)) {
        reading->no_memory = true;
        return false;
    }
    reading->order[reading->count++] = node;
    return true;
}

static bool read_cpu(void *ctx, uint32_t cpu)
{
    struct reading *reading = ctx;
    if (cpu >= WEIR__CPUS_MOST) {
        return false;
    }
    reading->no_memory |= !weir__topology_add_cpu(reading->t, cpu, reading->node);
    return !reading->no_memory;
}

static void read_distances(struct reading *reading, int32_t from)
{
    char text[LINE_MOST];
    const char *at = text;
    if (!node_text(reading->root, from, "distance", text, sizeof(text))) {
        return;
    }
    for (size_t i = 0; i < reading->count; i++) {
        char *end = NULL;
        const unsigned long long distance = strtoull(at, &end, 10);
        if (end == at) {
            return;
        }
        weir__topology_set_distance(reading->t, from, reading->order[i], distance);
        at = end;
    }
}

static bool read_node_facts(struct reading *reading)
{
    char text[LINE_MOST];
    for (size_t i = 0; i < reading->count; i++) {
        reading->node = reading->order[i];
        weir__topology_find(reading->t, reading->node)->huge_pages =
            weir__sysfs_node_number(reading->root, reading->node, "hugepages/hugepages-2048kB/nr_hugepages");
        read_distances(reading, reading->node);
        if (node_text(reading->root, reading->node, "cpulist", text, sizeof(text))) {
            (void)weir__sysfs_list(text, read_cpu, reading);
        }
    }
    return !reading->no_memory;
}

/* Reads a kernel without NUMA: node 0 has all memory and processors. */
static bool read_single_node(struct reading *reading)
{
    char text[LINE_MOST];
    uint64_t bytes = 0;
    if (weir__sysfs_text(reading->root, "/proc/meminfo", text, sizeof(text))) {
        bytes = kilobytes(text, "MemTotal");
    }
    if (bytes == 0) {
        return false;
    }
    reading->no_memory =
        !weir__topology_add_node(reading->t, 0, bytes, false) || !weir__topology_seal_nodes(reading->t);
    if (!reading->no_memory && weir__sysfs_text(reading->root, "/sys/devices/system/cpu/online", text, sizeof(text))) {
        (void)weir__sysfs_list(text, read_cpu, reading);
    } else if (!reading->no_memory && reading->root[0] == '\0') { /* a chroot without sysfs */
        const long cpus = sysconf(_SC_NPROCESSORS_CONF);
        for (long cpu = 0; cpu < cpus && cpu < WEIR__CPUS_MOST; cpu++) {
            (void)read_cpu(reading, (uint32_t)cpu);
        }
    }
    return true;
}

/* --- devices --- */

static bool device_number(const char *root, const char *bus_id, const char *name, long long *number)
{
    char path[PATH_MOST];
    char text[64];
    (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bus_id, name);
    if (!weir__sysfs_text(root, path, text, sizeof(text))) {
        return false;
    }
    *number = strtoll(text, NULL, 0);
    return true;
}

static int32_t device_node(const char *root, const char *bus_id)
{
    long long node = WEIR_NODE_NONE;
    const bool found = device_number(root, bus_id, "numa_node", &node);
    return found && node >= 0 && node <= INT32_MAX ? (int32_t)node : WEIR_NODE_NONE;
}

weir_status weir__sysfs_device_node(const char *root, const char *bus_id, int32_t *node)
{
    uint64_t address = 0;
    long long vendor = 0;
    char name[16];
    if (!weir__topology_parse_bus_id(bus_id, &address)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_topology_device_node: bus_id \"%s\" is not one", bus_id);
    }
    weir__topology_format_bus_id(address, name);
    if (!device_number(root, name, "vendor", &vendor)) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_topology_device_node: there is no PCI device %s here", name);
    }
    *node = device_node(root, name);
    return WEIR_OK;
}

weir_status weir_topology_device_node(const char *bus_id, int32_t *node)
{
    if (bus_id == NULL || node == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_topology_device_node: %s is NULL",
                           bus_id == NULL ? "bus_id" : "node");
    }
    return weir__sysfs_device_node("", bus_id, node);
}

static bool read_device(struct reading *reading, const char *bus_id)
{
    struct topology_pci pci = {0};
    long long pci_class = 0;
    long long vendor = 0;
    long long device = 0;
    if (!weir__topology_parse_bus_id(bus_id, &pci.address) ||
        !device_number(reading->root, bus_id, "class", &pci_class)) {
        return true;
    }
    (void)device_number(reading->root, bus_id, "vendor", &vendor);
    (void)device_number(reading->root, bus_id, "device", &device);
    pci.vendor = (uint32_t)vendor;
    pci.device = (uint32_t)device;
    pci.pci_class = (uint32_t)(pci_class >> 8); /* the lowest byte, the programming interface, is left out */
    if (!weir__topology_add_pci(reading->t, &pci)) {
        return false;
    }
    const int32_t node = device_node(reading->root, bus_id);
    if (node != WEIR_NODE_NONE) {
        weir__topology_near_last(reading->t, node);
    }
    return true;
}

static bool read_devices(struct reading *reading)
{
    char path[PATH_MOST];
    (void)snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", reading->root);
    errno = 0;
    const int file = above_standard(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = file >= 0 ? fdopendir(file) : NULL;
    if (folder == NULL) {
        const bool enough = errno != ENOMEM;
        if (file >= 0) {
            (void)close(file);
        }
        return enough;
    }
    bool enough = true;
    for (const struct dirent *entry = readdir(folder); enough && entry != NULL; entry = readdir(folder)) {
        enough = read_device(reading, entry->d_name);
    }
    (void)closedir(folder);
    return enough;
}

/* --- the machine --- */

weir_status weir__topology_read_sysfs(const char *root, weir_topology **topology)
{
    char text[LINE_MOST];
    struct reading reading = {.root = root, .t = weir__topology_begin(root[0] == '\0')};
    bool found = true;
    if (reading.t == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (weir__sysfs_text(root, "/sys/devices/system/node/online", text, sizeof(text))) {
        (void)weir__sysfs_list(text, read_node, &reading);
    }
    if (reading.count == 0 && !reading.no_memory) {
        found = read_single_node(&reading);
    } else if (!reading.no_memory) {
        reading.no_memory = !weir__topology_seal_nodes(reading.t) || !read_node_facts(&reading);
    }
    if (found && !reading.no_memory && read_devices(&reading)) {
        return weir__topology_finish(reading.t, root, topology);
    }
    weir_topology_destroy(reading.t);
    return found ? WEIR_ERR_NO_MEMORY : WEIR_ERR_UNSUPPORTED;
}
