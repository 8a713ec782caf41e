/* topology.c: the machine as plain tables, and the answers computed from them.
 *
 * Idea: a reader fills the tables once (hwloc if weir was built with it, else sysfs). Every query is answered from the
 * tables: without a lock, without hwloc, and the same for both readers.
 * Guarantee: a node that is returned for a device or a thread is one from which this process may take ordinary memory.
 * Cost: creation 3 to 60 ms; afterwards a binary search, or a table lookup by processor number.
 */
#define _GNU_SOURCE /* sched_getcpu */
#include "topology_internal.h"

#include "shared/assert.h"
#include "shared/cancel.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A node's distance from itself, as the firmware's table (ACPI SLIT) defines it. */
enum { LOCAL_DISTANCE = 10 };

/* --- filling --- */

weir_topology *weir__topology_begin(bool is_this_machine)
{
    weir_topology *t = calloc(1, sizeof(*t));
    if (t != NULL) {
        atomic_init(&t->owners, 1);
        t->is_this_machine = is_this_machine;
    }
    return t;
}

/* Makes room for one more entry in a growing table. Returns false if there is no memory. */
static bool make_room(void **table, size_t *room, size_t count, size_t entry)
{
    WEIR_ASSERT(count <= *room && entry != 0);
    if (count < *room) {
        return true;
    }
    const size_t more = *room == 0 ? 8 : *room * 2;
    void *grown = realloc(*table, more * entry);
    if (grown == NULL) {
        return false;
    }
    *table = grown;
    *room = more;
    return true;
}

bool weir__topology_add_node(weir_topology *t, int32_t number, uint64_t memory_bytes, bool is_special)
{
    WEIR_ASSERT(t->distances == NULL);
    void *table = t->nodes;
    const bool fits = make_room(&table, &t->node_room, t->node_count, sizeof(*t->nodes));
    t->nodes = table;
    if (fits) {
        t->nodes[t->node_count++] = (struct topology_node){
            .number = number,
            .memory_bytes = memory_bytes,
            .is_special = is_special,
            .is_allowed = true,
            .home = WEIR_NODE_NONE,
        };
    }
    return fits;
}

static int compare_nodes(const void *left, const void *right)
{
    const int32_t a = ((const struct topology_node *)left)->number;
    const int32_t b = ((const struct topology_node *)right)->number;
    return a < b ? -1 : a > b;
}

bool weir__topology_seal_nodes(weir_topology *t)
{
    WEIR_ASSERT(t->distances == NULL);
    if (t->node_count > 0) {
        qsort(t->nodes, t->node_count, sizeof(*t->nodes), compare_nodes);
    }
    t->near_words = (t->node_count + 63) / 64;
    t->distances = calloc(t->node_count * t->node_count + 1, sizeof(*t->distances));
    for (size_t i = 0; t->distances != NULL && i < t->node_count; i++) {
        t->distances[i * t->node_count + i] = LOCAL_DISTANCE;
    }
    return t->distances != NULL;
}

struct topology_node *weir__topology_find(const weir_topology *t, int32_t number)
{
    const struct topology_node key = {.number = number};
    if (t->node_count == 0) {
        return NULL;
    }
    return bsearch(&key, t->nodes, t->node_count, sizeof(*t->nodes), compare_nodes);
}

static size_t place_of(const weir_topology *t, const struct topology_node *node)
{
    WEIR_ASSERT(node >= t->nodes && node < t->nodes + t->node_count);
    return (size_t)(node - t->nodes);
}

void weir__topology_set_distance(weir_topology *t, int32_t from, int32_t to, uint64_t distance)
{
    const struct topology_node *a = weir__topology_find(t, from);
    const struct topology_node *b = weir__topology_find(t, to);
    if (a != NULL && b != NULL) {
        t->distances[place_of(t, a) * t->node_count + place_of(t, b)] =
            distance <= UINT32_MAX ? (uint32_t)distance : UINT32_MAX;
    }
}

bool weir__topology_add_cpu(weir_topology *t, uint32_t cpu, int32_t node)
{
    WEIR_ASSERT(t->distances != NULL);
    while (cpu >= t->cpu_count) {
        void *table = t->cpu_node;
        const bool fits = make_room(&table, &t->cpu_room, t->cpu_count, sizeof(*t->cpu_node));
        t->cpu_node = table;
        if (!fits) {
            return false;
        }
        t->cpu_node[t->cpu_count++] = WEIR_NODE_NONE;
    }
    struct topology_node *claims = weir__topology_find(t, node);
    struct topology_node *has = weir__topology_find(t, t->cpu_node[cpu]);
    if (claims == NULL || (has != NULL && (!has->is_special || claims->is_special))) {
        return true;
    }
    if (has != NULL) {
        WEIR_ASSERT(has->own_cpus != 0);
        has->own_cpus--;
    }
    claims->own_cpus++;
    t->cpu_node[cpu] = node;
    return true;
}

bool weir__topology_add_pci(weir_topology *t, const struct topology_pci *pci)
{
    WEIR_ASSERT(t->distances != NULL);
    const size_t old_room = t->pci_room;
    void *table = t->pci;
    const bool fits = make_room(&table, &t->pci_room, t->pci_count, sizeof(*t->pci));
    t->pci = table;
    if (!fits) {
        return false;
    }
    if (t->pci_room != old_room || t->near == NULL) {
        uint64_t *grown = realloc(t->near, (t->pci_room * t->near_words + 1) * sizeof(*grown));
        if (grown == NULL) {
            t->pci_room = old_room; /* so that the next call enlarges `pci` and `near` again */
            return false;
        }
        t->near = grown;
    }
    memset(t->near + t->pci_count * t->near_words, 0, t->near_words * sizeof(*t->near));
    t->pci[t->pci_count++] = *pci;
    return true;
}

static uint64_t *near_of(const weir_topology *t, size_t pci)
{
    WEIR_ASSERT(pci < t->pci_count);
    return t->near + pci * t->near_words;
}

static bool is_near(const weir_topology *t, size_t pci, size_t node)
{
    WEIR_ASSERT(node < t->node_count);
    return (near_of(t, pci)[node / 64] >> (node % 64) & 1) != 0;
}

void weir__topology_near_last(weir_topology *t, int32_t node)
{
    WEIR_ASSERT(t->pci_count != 0);
    const struct topology_node *found = weir__topology_find(t, node);
    if (found != NULL) {
        const size_t place = place_of(t, found);
        near_of(t, t->pci_count - 1)[place / 64] |= UINT64_C(1) << (place % 64);
    }
}

/* --- values derived from the tables --- */

/* Returns the value of one line of proc/self/status, such as "Mems_allowed_list:\t0-1", or NULL. */
static const char *status_line(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line != NULL ? line + strlen(name) : NULL;
}

static bool allow_node(void *ctx, uint32_t number)
{
    struct topology_node *node = number <= INT32_MAX ? weir__topology_find(ctx, (int32_t)number) : NULL;
    if (node != NULL) {
        node->is_allowed = true;
    }
    return true;
}

static bool allow_cpu(void *ctx, uint32_t cpu)
{
    const weir_topology *t = ctx;
    struct topology_node *node = cpu < t->cpu_count ? weir__topology_find(t, t->cpu_node[cpu]) : NULL;
    if (node != NULL) {
        node->allowed_cpus++;
    }
    return cpu < t->cpu_count;
}

/* Marks the nodes and processors that this process may use, as the kernel reports them. (hwloc reads the cgroup's
 * files, which a container may not show, and the reader of sysfs has no other source.) */
static void apply_process(weir_topology *t, const char *root)
{
    char status[16384];
    const char *nodes = NULL;
    const char *cpus = NULL;
    if (root != NULL && weir__sysfs_text(root, "/proc/self/status", status, sizeof(status))) {
        nodes = status_line(status, "\nMems_allowed_list:");
        cpus = status_line(status, "\nCpus_allowed_list:");
    }
    for (size_t i = 0; i < t->node_count; i++) {
        t->nodes[i].is_allowed = nodes == NULL && t->nodes[i].is_allowed;
        t->nodes[i].allowed_cpus = cpus == NULL ? t->nodes[i].own_cpus : 0;
    }
    if (nodes != NULL) {
        (void)weir__sysfs_list(nodes, allow_node, t);
    }
    if (cpus != NULL) {
        (void)weir__sysfs_list(cpus, allow_cpu, t);
    }
}

static bool always(const struct topology_node *node)
{
    return node->memory_bytes > 0;
}

static bool is_plain(const struct topology_node *node)
{
    return node->memory_bytes > 0 && !node->is_special;
}

static bool is_plain_with_cpus(const struct topology_node *node)
{
    return is_plain(node) && node->own_cpus > 0;
}

/* Decides which nodes hold ordinary host memory, by the first rule that matches any node. */
static void find_host_memory(weir_topology *t)
{
    static bool (*const rules[])(const struct topology_node *) = {is_plain_with_cpus, is_plain, always};
    size_t found = 0;
    for (size_t rule = 0; rule < 3 && found == 0; rule++) {
        for (size_t i = 0; i < t->node_count; i++) {
            t->nodes[i].is_host_memory = rules[rule](&t->nodes[i]);
            found += t->nodes[i].is_host_memory;
        }
    }
}

static bool is_usable(const struct topology_node *node)
{
    return node->is_host_memory && node->is_allowed;
}

static uint64_t far(const weir_topology *t, size_t from, size_t to)
{
    WEIR_ASSERT(from < t->node_count && to < t->node_count);
    const uint32_t distance = t->distances[from * t->node_count + to];
    return distance != 0 ? distance : UINT64_MAX;
}

/* Returns the index of the usable node with the least distance from node `which` or, if `of_device`, from the nodes
 * near PCI device `which`. Returns node_count if no node is usable. */
static size_t nearest_usable(const weir_topology *t, bool of_device, size_t which)
{
    WEIR_ASSERT(which < (of_device ? t->pci_count : t->node_count));
    size_t best = t->node_count;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < t->node_count; i++) {
        if (!is_usable(&t->nodes[i])) {
            continue;
        }
        uint64_t distance = of_device ? UINT64_MAX : far(t, which, i);
        for (size_t near = 0; of_device && near < t->node_count; near++) {
            const uint64_t way = is_near(t, which, near) ? far(t, near, i) : UINT64_MAX;
            distance = way < distance ? way : distance;
        }
        if (best == t->node_count || distance < least) {
            best = i;
            least = distance;
        }
    }
    return best;
}

static bool find_homes(weir_topology *t)
{
    WEIR_ASSERT(t->cpu_home == NULL);
    for (size_t i = 0; i < t->node_count; i++) {
        const size_t home = is_usable(&t->nodes[i]) ? i : nearest_usable(t, false, i);
        t->nodes[i].home = home < t->node_count ? t->nodes[home].number : WEIR_NODE_NONE;
    }
    t->cpu_home = malloc((t->cpu_count + 1) * sizeof(*t->cpu_home));
    for (size_t cpu = 0; t->cpu_home != NULL && cpu < t->cpu_count; cpu++) {
        const struct topology_node *node = weir__topology_find(t, t->cpu_node[cpu]);
        t->cpu_home[cpu] = node != NULL ? node->home : WEIR_NODE_NONE;
    }
    return t->cpu_home != NULL;
}

struct pci_order {
    struct topology_pci pci;
    size_t place;
};

static int compare_pci(const void *left, const void *right)
{
    const uint64_t a = ((const struct pci_order *)left)->pci.address;
    const uint64_t b = ((const struct pci_order *)right)->pci.address;
    return a < b ? -1 : a > b;
}

static bool sort_pci(weir_topology *t)
{
    struct pci_order *order = malloc((t->pci_count + 1) * sizeof(*order));
    uint64_t *near = malloc((t->pci_count * t->near_words + 1) * sizeof(*near));
    const bool enough = order != NULL && near != NULL;
    if (enough) {
        for (size_t i = 0; i < t->pci_count; i++) {
            order[i] = (struct pci_order){t->pci[i], i};
        }
        qsort(order, t->pci_count, sizeof(*order), compare_pci);
        for (size_t i = 0; i < t->pci_count; i++) {
            t->pci[i] = order[i].pci;
            memcpy(near + i * t->near_words, near_of(t, order[i].place), t->near_words * sizeof(*near));
        }
        free(t->near);
        t->near = near;
        near = NULL;
    }
    free(order);
    free(near);
    return enough;
}

/* True for display controllers that only draw a server's console. Device 0 in the table matches all devices of the
 * vendor. */
static bool is_console(const struct topology_pci *pci)
{
    static const struct {
        uint32_t vendor, device;
    } consoles[] = {
        {0x1a03, 0},      /* ASPEED: the graphics in most boards' management controllers */
        {0x19e5, 0x1711}, /* Huawei iBMC */
        {0x102b, 0},      /* Matrox */
        {0x1013, 0},      /* Cirrus */
        {0x126f, 0},      /* Silicon Motion */
        {0x18ca, 0},      /* XGI */
        {0x1234, 0},      /* QEMU */
        {0x1b36, 0},      /* QXL */
        {0x1af4, 0},      /* virtio */
        {0x15ad, 0},      /* VMware */
        {0x1414, 0},      /* Hyper-V */
        {0x80ee, 0},      /* VirtualBox */
    };
    for (size_t i = 0; i < sizeof(consoles) / sizeof(*consoles); i++) {
        if (pci->vendor == consoles[i].vendor && (consoles[i].device == 0 || pci->device == consoles[i].device)) {
            return true;
        }
    }
    return false;
}

static bool is_accelerator(const struct topology_pci *pci)
{
    return pci->pci_class >> 8 == 0x12 || (pci->pci_class >> 8 == 0x03 && !is_console(pci));
}

static bool find_accelerators(weir_topology *t)
{
    WEIR_ASSERT(t->accelerators == NULL && t->accelerator_count == 0);
    t->accelerators = malloc((t->pci_count + 1) * sizeof(*t->accelerators));
    for (size_t i = 0; t->accelerators != NULL && i < t->pci_count; i++) {
        if (is_accelerator(&t->pci[i])) {
            t->accelerators[t->accelerator_count++] = i;
        }
    }
    return t->accelerators != NULL;
}

weir_status weir__topology_finish(weir_topology *t, const char *status_root, weir_topology **topology)
{
    WEIR_ASSERT(t->distances != NULL);
    apply_process(t, status_root);
    find_host_memory(t);
    if (!find_homes(t) || !sort_pci(t) || !find_accelerators(t)) {
        weir_topology_destroy(t);
        return WEIR_ERR_NO_MEMORY;
    }
    *topology = t;
    return WEIR_OK;
}

/* --- creation --- */

static weir_status refuse_create(const weir_topology_config *config, weir_status status)
{
    if (config->xml == NULL && config->synthetic == NULL) {
        return weir_refuse(status, "weir_topology_create: the system tells nothing of its memory");
    }
    const char *member = config->xml != NULL ? "xml" : "synthetic";
    const char *value = config->xml != NULL ? config->xml : config->synthetic;
    return status == WEIR_ERR_UNSUPPORTED
               ? weir_refuse(status, "weir_topology_create: config.%s is set, and no hwloc that weir knows is there",
                             member)
               : weir_refuse(status, "weir_topology_create: config.%s \"%s\" cannot be read", member, value);
}

weir_status weir_topology_create(const weir_topology_config *config, weir_topology **topology)
{
    weir_topology_config c = WEIR_TOPOLOGY_CONFIG_INIT;
    if (topology == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_topology_create: topology is NULL");
    }
    if (config != NULL) {
        const weir_status adopted = weir_struct_adopt(&c, sizeof(c), config, "weir_topology_create: config");
        if (adopted != WEIR_OK) {
            return adopted;
        }
    }
    if (c.xml != NULL && c.synthetic != NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_topology_create: config.xml and config.synthetic are both set");
    }
    const bool is_machine = c.xml == NULL && c.synthetic == NULL;
    /* Without sysfs, as in a bare chroot, hwloc prints a complaint and reports a machine without memory. */
    const bool is_seen = !is_machine || access("/sys/devices/system/cpu", F_OK) == 0;
    weir_status status = is_seen ? UNCANCELLED(weir__topology_read_hwloc(&c, topology)) : WEIR_ERR_UNSUPPORTED;
    if (is_machine && status != WEIR_OK && status != WEIR_ERR_NO_MEMORY) {
        /* The kernel's own files may be readable even if hwloc cannot see the machine. */
        status = UNCANCELLED(weir__topology_read_sysfs("", topology));
    }
    return status == WEIR_OK || status == WEIR_ERR_NO_MEMORY ? status : refuse_create(&c, status);
}

void weir__topology_keep(const weir_topology *topology)
{
    WEIR_ASSERT(atomic_load(&topology->owners) != 0);
    (void)atomic_fetch_add(&((weir_topology *)(uintptr_t)topology)->owners, 1);
}

void weir_topology_destroy(weir_topology *topology)
{
    if (topology != NULL && atomic_fetch_sub(&topology->owners, 1) == 1) {
        free(topology->nodes);
        free(topology->distances);
        free(topology->cpu_node);
        free(topology->cpu_home);
        free(topology->pci);
        free(topology->near);
        free(topology->accelerators);
        free(topology);
    }
}

bool weir_topology_is_this_machine(const weir_topology *topology)
{
    return topology != NULL && topology->is_this_machine;
}

/* --- nodes --- */

size_t weir_topology_node_count(const weir_topology *topology)
{
    return topology != NULL ? topology->node_count : 0;
}

static weir_status refuse_index(const char *call, const weir_topology *topology, size_t index, size_t count)
{
    WEIR_ASSERT(topology == NULL || index >= count);
    return topology == NULL ? weir_refuse(WEIR_ERR_INVALID, "%s: topology is NULL", call)
                            : weir_refuse(WEIR_ERR_INVALID, "%s: index %zu is not below %zu", call, index, count);
}

weir_status weir_topology_node(const weir_topology *topology, size_t index, weir_node_info *info)
{
    if (topology == NULL || index >= topology->node_count) {
        return refuse_index("weir_topology_node", topology, index, topology != NULL ? topology->node_count : 0);
    }
    const struct topology_node *node = &topology->nodes[index];
    weir_node_info facts = {
        .node = node->number,
        .is_allowed = node->is_allowed,
        .is_host_memory = node->is_host_memory,
        .cpus = node->allowed_cpus,
        .memory_bytes = node->memory_bytes,
        .huge_pages = node->huge_pages,
    };
    if (topology->is_this_machine) {
        facts.free_bytes = weir__sysfs_node_memory("", node->number, "MemFree");
        if (facts.free_bytes == 0 && topology->node_count == 1) {
            facts.free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        }
        facts.huge_pages = weir__sysfs_node_number("", node->number, "hugepages/hugepages-2048kB/nr_hugepages");
        facts.free_huge_pages = weir__sysfs_node_number("", node->number, "hugepages/hugepages-2048kB/free_hugepages");
    }
    return weir_struct_report(info, &facts, sizeof(facts), "weir_topology_node: info");
}

uint32_t weir_topology_distance(const weir_topology *topology, int32_t from, int32_t to)
{
    const struct topology_node *a = topology != NULL ? weir__topology_find(topology, from) : NULL;
    const struct topology_node *b = topology != NULL ? weir__topology_find(topology, to) : NULL;
    return a == NULL || b == NULL
               ? 0
               : topology->distances[place_of(topology, a) * topology->node_count + place_of(topology, b)];
}

bool weir__topology_cpu_is_on(const weir_topology *t, size_t cpu, int32_t node)
{
    return cpu < t->cpu_count && t->cpu_node[cpu] == node;
}

int32_t weir_topology_thread_node(const weir_topology *topology)
{
    const int cpu = topology != NULL && topology->is_this_machine ? sched_getcpu() : -1;
    return cpu >= 0 && (size_t)cpu < topology->cpu_count ? topology->cpu_home[cpu] : WEIR_NODE_NONE;
}

/* --- devices --- */

/* Reads a number of one to `most` hexadecimal digits. The character after the number must be `end`. */
static bool take_hex(const char **text, unsigned most, char end, uint64_t *value)
{
    WEIR_ASSERT(most != 0);
    unsigned digits = 0;
    *value = 0;
    for (; digits < most; digits++, (*text)++) {
        const char c = **text;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            break;
        }
        *value = *value * 16 + (uint64_t)digit;
    }
    if (digits == 0 || **text != end) {
        return false;
    }
    *text += end != '\0';
    return true;
}

/* Parses [domain:]bus:device.function. */
bool weir__topology_parse_bus_id(const char *text, uint64_t *address)
{
    uint64_t domain = 0;
    uint64_t bus = 0;
    uint64_t device = 0;
    uint64_t function = 0;
    const char *first = text != NULL ? strchr(text, ':') : NULL;
    if (first == NULL || (strchr(first + 1, ':') != NULL && !take_hex(&text, 8, ':', &domain))) {
        return false;
    }
    if (!take_hex(&text, 2, ':', &bus) || !take_hex(&text, 2, '.', &device) || !take_hex(&text, 1, '\0', &function) ||
        device > 31 || function > 7) {
        return false;
    }
    *address = domain << 16 | bus << 8 | device << 3 | function;
    return true;
}

void weir__topology_format_bus_id(uint64_t address, char text[16])
{
    (void)snprintf(text, 16, "%04x:%02x:%02x.%x", (unsigned)(address >> 16 & UINT32_MAX),
                   (unsigned)(address >> 8 & 0xff), (unsigned)(address >> 3 & 0x1f), (unsigned)(address & 7));
}

/* Returns the usable node near a device with the least distance from `from`; of equally distant nodes, the one with the
 * lowest number. */
static int32_t nearest_to_device(const weir_topology *t, size_t pci, const struct topology_node *from)
{
    WEIR_ASSERT(pci < t->pci_count);
    size_t usable = 0;
    size_t host = 0;
    size_t near_host = 0;
    size_t best = t->node_count;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < t->node_count; i++) {
        const bool near = t->nodes[i].is_host_memory && is_near(t, pci, i);
        host += t->nodes[i].is_host_memory;
        near_host += near;
        usable += is_usable(&t->nodes[i]);
        if (near && t->nodes[i].is_allowed) {
            const uint64_t distance = from != NULL ? far(t, place_of(t, from), i) : UINT64_MAX;
            if (best == t->node_count || distance < least) {
                best = i;
                least = distance;
            }
        }
    }
    if (usable > 1 && (near_host == 0 || near_host == host)) {
        return WEIR_NODE_NONE;
    }
    if (best == t->node_count) { /* no node near the device is allowed, or there is only one node */
        best = nearest_usable(t, true, pci);
    }
    return best < t->node_count ? t->nodes[best].number : WEIR_NODE_NONE;
}

size_t weir_topology_device_count(const weir_topology *topology)
{
    return topology != NULL ? topology->accelerator_count : 0;
}

weir_status weir_topology_device_at(const weir_topology *topology, size_t index, weir_topology_device *device)
{
    if (topology == NULL || index >= topology->accelerator_count) {
        return refuse_index("weir_topology_device_at", topology, index,
                            topology != NULL ? topology->accelerator_count : 0);
    }
    const size_t place = topology->accelerators[index];
    const struct topology_pci *pci = &topology->pci[place];
    weir_topology_device facts = {
        .vendor = pci->vendor,
        .device = pci->device,
        .pci_class = pci->pci_class,
        .node = nearest_to_device(topology, place, NULL),
    };
    weir__topology_format_bus_id(pci->address, facts.bus_id);
    return weir_struct_report(device, &facts, sizeof(facts), "weir_topology_device_at: device");
}

weir_status weir_topology_nearest(const weir_topology *topology, const char *bus_id, int32_t from, int32_t *node)
{
    struct pci_order key = {.place = 0};
    if (topology == NULL || node == NULL || bus_id == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_topology_nearest: %s is NULL",
                           topology == NULL ? "topology"
                           : node == NULL   ? "node"
                                            : "bus_id");
    }
    if (!weir__topology_parse_bus_id(bus_id, &key.pci.address)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_topology_nearest: bus_id \"%s\" is no PCI bus id", bus_id);
    }
    size_t low = 0;
    size_t high = topology->pci_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (topology->pci[middle].address < key.pci.address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == topology->pci_count || topology->pci[low].address != key.pci.address) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_topology_nearest: bus_id %s names no device of the topology",
                           bus_id);
    }
    const int32_t caller = from != WEIR_NODE_NONE ? from : weir_topology_thread_node(topology);
    *node = nearest_to_device(topology, low, weir__topology_find(topology, caller));
    return WEIR_OK;
}

int32_t weir_topology_slice(const weir_topology *topology, uint32_t index, uint32_t of)
{
    uint64_t usable = 0;
    for (size_t i = 0; topology != NULL && i < topology->node_count; i++) {
        usable += is_usable(&topology->nodes[i]);
    }
    if (index >= of || usable == 0) {
        return WEIR_NODE_NONE;
    }
    uint64_t skip = index * usable / of;
    for (size_t i = 0;; i++) {
        if (is_usable(&topology->nodes[i]) && skip-- == 0) {
            return topology->nodes[i].number;
        }
    }
}
