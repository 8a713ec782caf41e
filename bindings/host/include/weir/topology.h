/* weir/topology.h: the machine as far as host memory goes: NUMA nodes, how far they are from each other, which of them
 * this process may use, and which lies next to a device.
 *
 * A node is named by the number that the operating system gives it (os index); numbers may have gaps. A device is named by
 * its PCI bus id and never by an index: an index changes its meaning with ASCEND_RT_VISIBLE_DEVICES.
 *
 * Thread safety: a topology does not change once it is there; every function may be called from any thread.
 */
#ifndef WEIR_TOPOLOGY_H
#define WEIR_TOPOLOGY_H

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_topology weir_topology;

#define WEIR_NODE_NONE (-1) /* no affinity, or not known */

typedef struct weir_topology_config {
    size_t struct_size;
    const char *xml;       /* path of a file that lstopo wrote; NULL: the machine itself */
    const char *synthetic; /* of hwloc, such as "pack:2 [numa] core:4 pu:1"; NULL likewise */
} weir_topology_config;

#define WEIR_TOPOLOGY_CONFIG_INIT WEIR_STRUCT_INIT(weir_topology_config)

/* Looks at the machine, in 3 to 60 ms; no device's runtime is started. NULL for the config: the machine itself, whatever
 * HWLOC_... says in the environment. WEIR_ERR_INVALID: both members set, or what they describe cannot be read.
 * WEIR_ERR_UNSUPPORTED: another machine, and weir was built without hwloc or the process runs with another user's rights
 * (set-uid, file capabilities); or the system tells nothing of its memory. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_topology_create(const weir_topology_config *config, weir_topology **topology);
/* NULL is allowed. Host pools that were given the topology keep it until they end; the caller uses it no more. */
WEIR_API void weir_topology_destroy(weir_topology *topology);

/* Whether it describes this machine. Memory is never bound by one that does not: such bindings seem to work and do
 * nothing. */
WEIR_API bool weir_topology_is_this_machine(const weir_topology *topology);

typedef struct weir_node_info {
    size_t struct_size;
    int32_t node;
    bool is_allowed;       /* cpusets let this process take memory there */
    bool is_host_memory;   /* ordinary memory: not a device's, not high-bandwidth or far memory that is a node of its own
                              (which shows in that such a node has no processors), and not none at all */
    uint32_t cpus;         /* that lie here and that this process may run on; 0 also where it may on none of them */
    uint64_t memory_bytes; /* in all */
    uint64_t free_bytes;       /* at the moment of the call; 0 where it cannot be read */
    uint64_t huge_pages;       /* of 2 MiB, in all and free; 0 where it cannot be read */
    uint64_t free_huge_pages;
} weir_node_info;

#define WEIR_NODE_INFO_INIT WEIR_STRUCT_INIT(weir_node_info)

/* Nodes that this machine has, whoever may use them. */
WEIR_API size_t weir_topology_node_count(const weir_topology *topology);
/* The i-th in the order of their numbers. WEIR_ERR_INVALID: past the end. */
WEIR_API weir_status weir_topology_node(const weir_topology *topology, size_t index, weir_node_info *info);
/* Relative cost as the firmware tells it (10 = the same node); 0 when it is not known, or one of them is no node. */
WEIR_API uint32_t weir_topology_distance(const weir_topology *topology, int32_t from, int32_t to);

typedef struct weir_topology_device {
    size_t struct_size;
    char bus_id[16];   /* "0000:c1:00.0" */
    uint32_t vendor;   /* 0x19e5: Huawei */
    uint32_t device;
    uint32_t pci_class; /* 0x1200: processing accelerator */
    int32_t node;       /* nearest; WEIR_NODE_NONE: as near to all */
} weir_topology_device;

#define WEIR_TOPOLOGY_DEVICE_INIT WEIR_STRUCT_INIT(weir_topology_device)

/* Accelerators: PCI devices of class 0x12 and display controllers (0x03) that are no mere console. */
WEIR_API size_t weir_topology_device_count(const weir_topology *topology);
WEIR_API weir_status weir_topology_device_at(const weir_topology *topology, size_t index, weir_topology_device *device);

/* The node of host memory nearest to the device with a PCI bus id ("0000:c1:00.0", or without the domain): any PCI device,
 * accelerator or not. Several equally near: the one with the least distance from `from` (WEIR_NODE_NONE: from the calling
 * thread), then the lowest. Where this process may use none of them, the allowed one that is the least far from them. *node
 * is WEIR_NODE_NONE when the machine tells of no affinity and there is more than one node to choose from; then
 * weir_topology_slice gives each device a node of its own. WEIR_ERR_INVALID: no such device, or no bus id. */
WEIR_API weir_status weir_topology_nearest(const weir_topology *topology, const char *bus_id, int32_t from, int32_t *node);
/* For devices that are as near to all nodes: spreads `of` devices over the allowed nodes in order, so that neighbours share
 * a node. `index` is the device's place among them by bus id. WEIR_NODE_NONE: `index` is not below `of`, or no node is
 * allowed. */
WEIR_API int32_t weir_topology_slice(const weir_topology *topology, uint32_t index, uint32_t of);

/* The node that the calling thread runs on now or, where that has no host memory for this process, the one that has with
 * the least distance; WEIR_NODE_NONE when it cannot be told. A look at the processor's number and into a table. */
WEIR_API int32_t weir_topology_thread_node(const weir_topology *topology);

#ifdef __cplusplus
}
#endif

#endif
