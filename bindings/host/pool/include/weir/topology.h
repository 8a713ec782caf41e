/* weir/topology.h: the machine's host memory: NUMA nodes, their distances, the nodes that this process may use, and the
 * node nearest to a device.
 *
 * A node is named by the number that the operating system gives it (os index); numbers may have gaps. A device is named
 * by its PCI bus id and never by an index: an index changes its meaning with ASCEND_RT_VISIBLE_DEVICES.
 *
 * Thread safety: a topology never changes after its creation; every function may be called from any thread.
 */
#ifndef WEIR_TOPOLOGY_H
#define WEIR_TOPOLOGY_H

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_topology weir_topology;

#define WEIR_NODE_NONE (-1) /* no affinity, or unknown */

typedef struct weir_topology_config {
    size_t struct_size;
    const char *xml;       /* path of a file that lstopo wrote; NULL: the machine itself */
    const char *synthetic; /* hwloc's synthetic description, such as "pack:2 [numa] core:4 pu:1"; NULL: the machine
                              itself */
} weir_topology_config;

#define WEIR_TOPOLOGY_CONFIG_INIT WEIR_STRUCT_INIT(weir_topology_config)

/* Reads the machine's topology, in 3 to 60 ms; starts no device's runtime. NULL for the config: the machine itself,
 * even if HWLOC_... environment variables are set. WEIR_ERR_INVALID: both members of the config are set, or the
 * description cannot be read. WEIR_ERR_UNSUPPORTED: a description is given, and weir was built without hwloc or the
 * process runs with another user's rights (set-uid, file capabilities); or the system reports nothing about its memory.
 * WEIR_ERR_NO_MEMORY: no host memory. */
WEIR_API weir_status weir_topology_create(const weir_topology_config *config, weir_topology **topology);
/* Ends the caller's use of the topology; the caller must not use it any more. Host pools that were given the topology
 * keep it until they end. NULL is allowed. */
WEIR_API void weir_topology_destroy(weir_topology *topology);

/* True if the topology describes this machine. Memory is never bound by any other topology: such a binding would seem
 * to work and do nothing. */
WEIR_API bool weir_topology_is_this_machine(const weir_topology *topology);

typedef struct weir_node_info {
    size_t struct_size;
    int32_t node;
    bool is_allowed;          /* cpusets let this process take memory on the node */
    bool is_host_memory;      /* the node has ordinary memory. False if its memory is of a device, or is
                                 high-bandwidth or far memory in a node of its own, which is recognized by having no
                                 processors */
    uint32_t cpus;            /* processors of the node that this process may run on; 0 if there are none */
    uint64_t memory_bytes;    /* total */
    uint64_t free_bytes;      /* free memory at the moment of the call; 0 where it cannot be read */
    uint64_t huge_pages;      /* number of huge pages of 2 MiB; 0 where it cannot be read */
    uint64_t free_huge_pages; /* number of free huge pages of 2 MiB; 0 where it cannot be read */
} weir_node_info;

#define WEIR_NODE_INFO_INIT WEIR_STRUCT_INIT(weir_node_info)

/* Returns the number of nodes of the machine, including nodes that this process may not use. */
WEIR_API size_t weir_topology_node_count(const weir_topology *topology);
/* Describes the node with the given index, in the order of node numbers. WEIR_ERR_INVALID: there is no node with this
 * index. */
WEIR_API weir_status weir_topology_node(const weir_topology *topology, size_t index, weir_node_info *info);
/* Returns the relative cost of access that the firmware reports (10 = the same node); 0 if it is unknown, or if `from`
 * or `to` is not a node. */
WEIR_API uint32_t weir_topology_distance(const weir_topology *topology, int32_t from, int32_t to);

typedef struct weir_topology_device {
    size_t struct_size;
    char bus_id[16]; /* "0000:c1:00.0" */
    uint32_t vendor; /* 0x19e5: Huawei */
    uint32_t device;
    uint32_t pci_class; /* 0x1200: processing accelerator */
    int32_t node;       /* the node nearest to the device; WEIR_NODE_NONE: all nodes are equally near */
} weir_topology_device;

#define WEIR_TOPOLOGY_DEVICE_INIT WEIR_STRUCT_INIT(weir_topology_device)

/* Accelerators: PCI devices of class 0x12, and display controllers (0x03) other than plain consoles. */
WEIR_API size_t weir_topology_device_count(const weir_topology *topology);
WEIR_API weir_status weir_topology_device_at(const weir_topology *topology, size_t index, weir_topology_device *device);

/* Returns in *node the node that the kernel reports for the PCI device with a bus id ("0000:c1:00.0", or without the
 * domain), from the file numa_node of the device in sysfs: it reads this file alone, and needs no topology. The process
 * may be forbidden to use the node: weir_topology_nearest takes that into account. WEIR_NODE_NONE: the kernel reports
 * no affinity. WEIR_ERR_INVALID: NULL, or not a bus id. WEIR_ERR_UNSUPPORTED: the machine has no such device, or shows
 * none to the process, as in some containers. */
WEIR_API weir_status weir_topology_device_node(const char *bus_id, int32_t *node);

/* Finds the node of host memory nearest to the device with a PCI bus id ("0000:c1:00.0", or without the domain): any
 * PCI device, accelerator or not. If several nodes are equally near, the one with the least distance from `from`
 * (WEIR_NODE_NONE: from the calling thread) wins, then the lowest number. If this process may use none of them, the
 * nearest allowed node is chosen. *node is WEIR_NODE_NONE when the machine reports no affinity and there is more than
 * one node to choose from; weir_topology_slice then gives each device a node of its own. WEIR_ERR_INVALID: no such
 * device, or not a bus id. */
WEIR_API weir_status weir_topology_nearest(const weir_topology *topology, const char *bus_id, int32_t from,
                                           int32_t *node);
/* Returns the node for one of `of` devices that are equally near to all nodes. The devices are spread over the allowed
 * nodes in order, so that neighbouring devices share a node. `index` is the device's position among the `of` devices,
 * sorted by bus id. Returns WEIR_NODE_NONE if `index` is not below `of`, or if no node is allowed. */
WEIR_API int32_t weir_topology_slice(const weir_topology *topology, uint32_t index, uint32_t of);

/* Returns the node that the calling thread runs on now. If this process has no host memory there, returns the nearest
 * node with host memory; WEIR_NODE_NONE if it is unknown. Costs a query of the processor's number and a table
 * lookup. */
WEIR_API int32_t weir_topology_thread_node(const weir_topology *topology);

#ifdef __cplusplus
}
#endif

#endif
