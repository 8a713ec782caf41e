/* topology_internal.h: what a topology is, and how its readers fill one.
 *
 * A reader (topology_hwloc.c, topology_sysfs.c) tells nodes, distances, processors and PCI devices; what follows from
 * them, topology.c works out once. Then the reader's own objects are gone: a weir_topology is plain tables.
 *
 * A node is meant for host memory when it is not marked special, has memory and has processors of its own: memory without
 * processors is a device's, high-bandwidth memory, or far away. (Where that leaves none, all with memory are.)
 */
#ifndef WEIR_HOST_TOPOLOGY_INTERNAL_H
#define WEIR_HOST_TOPOLOGY_INTERNAL_H

#include <stdatomic.h>
#include <weir/topology.h>

/* More processors than there are: what a file says may be endless. */
enum { WEIR__CPUS_MOST = 1 << 16 };

struct topology_node {
    int32_t number;
    bool is_special; /* a device's memory, high-bandwidth memory, ...: the reader knows */
    bool is_allowed;
    bool is_host_memory;
    uint32_t own_cpus;     /* processors that lie here, whoever may use them */
    uint32_t allowed_cpus; /* of them, this process's */
    uint64_t memory_bytes;
    uint64_t huge_pages; /* of 2 MiB */
    int32_t home; /* the usable node next to it, most often itself; WEIR_NODE_NONE: there is none */
};

struct topology_pci {
    uint64_t address; /* domain, bus, device, function: 32, 8, 5 and 3 bits */
    uint32_t vendor, device, pci_class;
};

struct weir_topology {
    _Atomic uint32_t owners; /* the caller and host pools that were given it */
    bool is_this_machine;
    struct topology_node *nodes; /* by number */
    size_t node_count, node_room;
    uint32_t *distances; /* node_count squared, [from * node_count + to]; 0: not known */
    int32_t *cpu_node;   /* the number of each processor's node, or WEIR_NODE_NONE */
    int32_t *cpu_home;   /* likewise that node's home */
    size_t cpu_count, cpu_room;
    struct topology_pci *pci; /* by address */
    size_t pci_count, pci_room;
    uint64_t *
        near; /* pci_count sets of `near_words` words: the nodes, by place in `nodes`, that a device is next to */
    size_t near_words;
    size_t *accelerators; /* places in `pci` */
    size_t accelerator_count;
};

/* --- topology.c: shares of a topology --- */

/* One more call of weir_topology_destroy is needed before the topology is gone. */
void weir__topology_keep(const weir_topology *topology);

/* --- topology.c: for readers, in this order; false: no host memory --- */

weir_topology *weir__topology_begin(bool is_this_machine);
bool weir__topology_add_node(weir_topology *t, int32_t number, uint64_t memory_bytes,
                             bool is_special);
/* All nodes are there. */
bool weir__topology_seal_nodes(weir_topology *t);
/* NULL: no such node. */
struct topology_node *weir__topology_find(const weir_topology *t, int32_t number);
void weir__topology_set_distance(weir_topology *t, int32_t from, int32_t to, uint64_t distance);
/* A processor that several nodes claim lies in the first that is not special. */
bool weir__topology_add_cpu(weir_topology *t, uint32_t cpu, int32_t node);
/* The nodes near the device last added are named after it. */
bool weir__topology_add_pci(weir_topology *t, const struct topology_pci *pci);
void weir__topology_near_last(weir_topology *t, int32_t node);
/* `status_root`: where proc/self/status says what the process may use ("" on the machine itself), NULL: all of it. Ends
 * the topology, whatever it returns but WEIR_OK. */
weir_status weir__topology_finish(weir_topology *t, const char *status_root,
                                  weir_topology **topology);

/* A bus id as text to an address; false: it is none. */
bool weir__topology_parse_bus_id(const char *text, uint64_t *address);

/* --- topology.c: for place.c --- */

bool weir__topology_cpu_is_on(const weir_topology *t, size_t cpu, int32_t node);

/* --- topology_hwloc.c --- */

/* WEIR_ERR_UNSUPPORTED: weir was built without hwloc, or (for the machine itself) the environment would make hwloc look at
 * something else. */
weir_status weir__topology_read_hwloc(const weir_topology_config *config, weir_topology **topology);

/* --- topology_sysfs.c --- */

/* `root`: "" for the machine, or a folder that holds such a tree of sys/ and proc/; then it is not this machine.
 * WEIR_ERR_UNSUPPORTED: nothing there tells of memory. */
weir_status weir__topology_read_sysfs(const char *root, weir_topology **topology);

/* Reads a file of the kernel's below `root` as text, ended by a zero. False: it is not there, or empty. */
bool weir__sysfs_text(const char *root, const char *path, char *text, size_t size);
/* "Node 0 MemFree:  1234 kB" in a node's meminfo, in bytes; 0 when it is not there. */
uint64_t weir__sysfs_node_memory(const char *root, int32_t node, const char *key);
/* A number that is a file's whole text, 0 when it is not. `name` below the node's folder. */
uint64_t weir__sysfs_node_number(const char *root, int32_t node, const char *name);
/* The numbers of a list such as "0-3,8". True as long as `each` says so and the list is one. */
bool weir__sysfs_list(const char *text, bool (*each)(void *ctx, uint32_t number), void *ctx);

#endif
