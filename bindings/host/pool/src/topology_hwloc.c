/* topology_hwloc.c: reads a topology by hwloc, 2.1 and later or 3. The only file that includes hwloc.h.
 *
 * hwloc knows more than sysfs says: which nodes are high-bandwidth memory, a device's or far memory; and it reads other
 * machines, from an XML file of lstopo or a synthetic description.
 *
 * Traps that this file avoids:
 *   - HWLOC_XMLFILE, HWLOC_SYNTHETIC and other environment variables silently replace the machine, and with
 *     HWLOC_THISSYSTEM hwloc claims that they did not. If one is set, hwloc is not used for the machine.
 *   - HWLOC_PLUGINS_PATH makes hwloc load code, also in a process with another user's rights (set-uid, file
 *     capabilities): such a process does not use hwloc.
 *   - Components for devices start their runtimes, and the x86 component moves the calling thread from processor to
 *     processor: all of them are disabled.
 *   - A topology of another machine accepts every binding and does nothing. weir binds nothing through hwloc.
 *   - A device has no affinity if its ancestor is the whole machine, or has no node at all.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "topology_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#if !WEIR_HWLOC

weir_status weir__topology_read_hwloc(const weir_topology_config *config, weir_topology **topology)
{
    (void)config;
    (void)topology;
    return WEIR_ERR_UNSUPPORTED;
}

#else

#include <hwloc.h>

#if HWLOC_API_VERSION < 0x00020100 || HWLOC_API_VERSION >= 0x00040000
#error "weir knows hwloc 2.1 and later, and 3: configure with -DWEIR_HWLOC=OFF"
#endif

static bool environment_replaces_machine(void)
{
    static const char *const names[] = {"HWLOC_XMLFILE",          "HWLOC_SYNTHETIC",  "HWLOC_FSROOT",
                                        "HWLOC_CPUID_PATH",       "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM",
                                        "HWLOC_DUMPED_HWDATA_DIR"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (secure_getenv(names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static weir_status failure(void)
{
    return errno == ENOMEM ? WEIR_ERR_NO_MEMORY : WEIR_ERR_INVALID;
}

static weir_status load(hwloc_topology_t h, const weir_topology_config *config)
{
    static const char *const left_out[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl", "x86", "pci"};
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020500
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
    for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++) {
        (void)hwloc_topology_set_components(h, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, left_out[i]);
    }
    if (hwloc_topology_set_flags(h, flags) != 0 ||
        hwloc_topology_set_type_filter(h, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        (config->xml != NULL && hwloc_topology_set_xml(h, config->xml) != 0) ||
        (config->synthetic != NULL && hwloc_topology_set_synthetic(h, config->synthetic) != 0) ||
        hwloc_topology_load(h) != 0) {
        return failure();
    }
    return WEIR_OK;
}

static uint64_t huge_pages(hwloc_obj_t node)
{
    for (unsigned i = 0; i < node->attr->numanode.page_types_len; i++) {
        if (node->attr->numanode.page_types[i].size == UINT64_C(2) << 20) {
            return node->attr->numanode.page_types[i].count;
        }
    }
    return 0;
}

static hwloc_obj_t next_node(hwloc_topology_t h, hwloc_obj_t last)
{
    return hwloc_get_next_obj_by_type(h, HWLOC_OBJ_NUMANODE, last);
}

static bool take_nodes(weir_topology *t, hwloc_topology_t h)
{
    for (hwloc_obj_t node = next_node(h, NULL); node != NULL; node = next_node(h, node)) {
        const bool is_special = node->subtype != NULL && strcmp(node->subtype, "DRAM") != 0;
        if (!weir__topology_add_node(t, (int32_t)node->os_index, node->attr->numanode.local_memory, is_special)) {
            return false;
        }
    }
    return weir__topology_seal_nodes(t);
}

/* Stores the facts about nodes that need the whole list of nodes, and the processors in the order of node numbers. */
static bool take_node_facts(weir_topology *t, hwloc_topology_t h)
{
    hwloc_const_nodeset_t allowed = hwloc_topology_get_allowed_nodeset(h);
    for (size_t i = 0; i < t->node_count; i++) {
        hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(h, (unsigned)t->nodes[i].number);
        t->nodes[i].is_allowed = hwloc_bitmap_isset(allowed, node->os_index) == 1;
        t->nodes[i].huge_pages = huge_pages(node);
        for (int cpu = hwloc_bitmap_first(node->cpuset); cpu >= 0 && cpu < WEIR__CPUS_MOST;
             cpu = hwloc_bitmap_next(node->cpuset, cpu)) {
            if (!weir__topology_add_cpu(t, (uint32_t)cpu, t->nodes[i].number)) {
                return false;
            }
        }
    }
    return true;
}

static void take_distances(weir_topology *t, hwloc_topology_t h)
{
    struct hwloc_distances_s *matrix = NULL;
    unsigned count = 1;
    if (hwloc_distances_get_by_name(h, "NUMALatency", &count, &matrix, 0) != 0 || count == 0 || matrix == NULL) {
        return;
    }
    for (unsigned i = 0; i < matrix->nbobjs * matrix->nbobjs; i++) {
        hwloc_obj_t from = matrix->objs[i / matrix->nbobjs];
        hwloc_obj_t to = matrix->objs[i % matrix->nbobjs];
        if (from != NULL && to != NULL) {
            weir__topology_set_distance(t, (int32_t)from->os_index, (int32_t)to->os_index, matrix->values[i]);
        }
    }
    hwloc_distances_release(h, matrix);
}

static bool take_devices(weir_topology *t, hwloc_topology_t h)
{
    for (hwloc_obj_t device = hwloc_get_next_pcidev(h, NULL); device != NULL;
         device = hwloc_get_next_pcidev(h, device)) {
        const struct hwloc_pcidev_attr_s *facts = &device->attr->pcidev;
        const struct topology_pci pci = {
            .address =
                (uint64_t)facts->domain << 16 | (uint64_t)facts->bus << 8 | (uint64_t)facts->dev << 3 | facts->func,
            .vendor = facts->vendor_id,
            .device = facts->device_id,
            .pci_class = facts->class_id,
        };
        hwloc_obj_t ancestor = hwloc_get_non_io_ancestor_obj(h, device);
        if (!weir__topology_add_pci(t, &pci)) {
            return false;
        }
        for (size_t i = 0; ancestor != NULL && ancestor->nodeset != NULL && i < t->node_count; i++) {
            if (hwloc_bitmap_isset(ancestor->nodeset, (unsigned)t->nodes[i].number) == 1) {
                weir__topology_near_last(t, t->nodes[i].number);
            }
        }
    }
    return true;
}

weir_status weir__topology_read_hwloc(const weir_topology_config *config, weir_topology **topology)
{
    const bool is_machine = config->xml == NULL && config->synthetic == NULL;
    hwloc_topology_t h = NULL;
    /* The library that the process loads may be of another version than the headers. */
    if (getauxval(AT_SECURE) != 0 || hwloc_get_api_version() >> 16 != HWLOC_API_VERSION >> 16 ||
        (is_machine && environment_replaces_machine())) {
        return WEIR_ERR_UNSUPPORTED;
    }
    if (hwloc_topology_init(&h) != 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = load(h, config);
    weir_topology *t = NULL;
    if (status == WEIR_OK && is_machine && hwloc_topology_is_thissystem(h) != 1) {
        status = WEIR_ERR_UNSUPPORTED;
    }
    if (status == WEIR_OK) {
        t = weir__topology_begin(is_machine);
        if (t != NULL && take_nodes(t, h) && take_node_facts(t, h) && take_devices(t, h)) {
            take_distances(t, h);
            status = weir__topology_finish(t, is_machine ? "" : NULL, topology);
        } else {
            weir_topology_destroy(t);
            status = WEIR_ERR_NO_MEMORY;
        }
    }
    hwloc_topology_destroy(h);
    return status;
}

#endif
