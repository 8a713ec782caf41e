/* topology_internal.h: the tables of a topology, and the functions by which readers fill them.
 *
 * A reader (topology_hwloc.c, topology_sysfs.c) adds nodes, distances, processors and PCI devices; topology.c then
 * computes the derived values once. After that the reader's own objects are freed: a weir_topology is plain tables.
 *
 * A node counts as host memory when it is not marked special, has memory and has processors of its own: memory without
 * processors belongs to a device, is high-bandwidth memory, or is far away. (If no node qualifies, the rule is relaxed:
 * first processors are not required, then special nodes count too.)
 */
#ifndef WEIR_HOST_TOPOLOGY_INTERNAL_H
#define WEIR_HOST_TOPOLOGY_INTERNAL_H

#include <stdatomic.h>
#include <weir/topology.h>

/* More than any machine has processors. The bound is needed because a list in a file may be endless. */
enum { WEIR__CPUS_MOST = 1 << 16 };

struct topology_node {
    int32_t number;
    bool is_special; /* device memory, high-bandwidth memory or the like */
    bool is_allowed;
    bool is_host_memory;
    uint32_t own_cpus;     /* processors of the node, including those this process may not use */
    uint32_t allowed_cpus; /* processors of the node that this process may use */
    uint64_t memory_bytes;
    uint64_t huge_pages; /* of 2 MiB */
    int32_t home;        /* the usable node nearest to this node, usually the node itself; WEIR_NODE_NONE: none */
};

struct topology_pci {
    uint64_t address; /* domain, bus, device, function: 32, 8, 5 and 3 bits */
    uint32_t vendor, device, pci_class;
};

struct weir_topology {
    _Atomic uint32_t owners; /* number of owners: the creator, and the host pools that were given the topology */
    bool is_this_machine;
    struct topology_node *nodes; /* sorted by number */
    size_t node_count, node_room;
    uint32_t *distances; /* distance between two nodes: [from * node_count + to]; 0: unknown */
    int32_t *cpu_node;   /* the number of each processor's node, or WEIR_NODE_NONE */
    int32_t *cpu_home;   /* for each processor, the `home` of the processor's node */
    size_t cpu_count, cpu_room;
    struct topology_pci *pci; /* sorted by address */
    size_t pci_count, pci_room;
    uint64_t *near; /* one bit set of `near_words` words for each of the pci_count devices; it holds the indices in
                       `nodes` of the nodes near that device */
    size_t near_words;
    size_t *accelerators; /* indices in `pci` */
    size_t accelerator_count;
};

/* --- topology.c: shared ownership --- */

/* Adds a reference: one more call of weir_topology_destroy is needed before the topology is freed. */
void weir__topology_keep(const weir_topology *topology);

/* --- topology.c: fills a topology by calls in this order; they return false or NULL if there is no host memory --- */

weir_topology *weir__topology_begin(bool is_this_machine);
bool weir__topology_add_node(weir_topology *t, int32_t number, uint64_t memory_bytes, bool is_special);
/* Sorts the nodes and makes the table of distances. Called after the last node was added. */
bool weir__topology_seal_nodes(weir_topology *t);
/* Returns NULL if there is no such node. */
struct topology_node *weir__topology_find(const weir_topology *t, int32_t number);
void weir__topology_set_distance(weir_topology *t, int32_t from, int32_t to, uint64_t distance);
/* Adds a processor to a node. If several nodes claim a processor, it belongs to the first one that is not special. */
bool weir__topology_add_cpu(weir_topology *t, uint32_t cpu, int32_t node);
/* Adds a device. Calls of weir__topology_near_last then name the nodes near it. */
bool weir__topology_add_pci(weir_topology *t, const struct topology_pci *pci);
void weir__topology_near_last(weir_topology *t, int32_t node);
/* Computes the derived values. `status_root` is the root of the proc/self/status that lists the allowed nodes and
 * processors: "" for the machine itself; if NULL, all are allowed. Frees the topology unless it returns WEIR_OK. */
weir_status weir__topology_finish(weir_topology *t, const char *status_root, weir_topology **topology);

/* Parses a bus id. Returns false if the text is not a bus id. */
bool weir__topology_parse_bus_id(const char *text, uint64_t *address);

/* --- topology.c: for numa_pages.c --- */

bool weir__topology_cpu_is_on(const weir_topology *t, size_t cpu, int32_t node);

/* --- topology_hwloc.c --- */

/* Reads a topology by hwloc. WEIR_ERR_UNSUPPORTED: weir was built without hwloc, or (for the machine itself) the
 * environment would make hwloc read another description. */
weir_status weir__topology_read_hwloc(const weir_topology_config *config, weir_topology **topology);

/* --- topology_sysfs.c --- */

/* Reads a topology from sysfs. `root` is "" for this machine, or a folder with a copy of sys/ and proc/; in the latter
 * case the topology is not that of this machine. WEIR_ERR_UNSUPPORTED: no file below the root describes memory. */
weir_status weir__topology_read_sysfs(const char *root, weir_topology **topology);

/* Like weir_topology_device_node, but reads the files below `root`. */
weir_status weir__sysfs_device_node(const char *root, const char *bus_id, int32_t *node);
/* Writes a bus id as sysfs names it: with the domain, in lower case. */
void weir__topology_format_bus_id(uint64_t address, char text[16]);

/* Reads a file of sysfs or procfs below `root` as text, ended by a zero. Returns false if it is missing or empty. */
bool weir__sysfs_text(const char *root, const char *path, char *text, size_t size);
/* Returns a value of a node's meminfo, "Node 0 MemFree: 1234 kB", in bytes; 0 if it is missing. */
uint64_t weir__sysfs_node_memory(const char *root, int32_t node, const char *key);
/* Returns the number in the file `name` below the node's folder; 0 if it is missing. */
uint64_t weir__sysfs_node_number(const char *root, int32_t node, const char *name);
/* Calls `each` for the numbers of a list such as "0-3,8". Returns true if the text is a list and every call returned
 * true. */
bool weir__sysfs_list(const char *text, bool (*each)(void *ctx, uint32_t number), void *ctx);

#endif
