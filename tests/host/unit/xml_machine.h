/* tests/host/unit/xml_machine.h: machines that do not exist, written as hwloc's XML (of version 2, which hwloc 3 reads
 * too).
 *
 * A machine consists of packages, and a package of nodes. A node with processors may be followed by nodes without,
 * which lie beside it. A device is connected behind a bridge of a node, of a whole package, or of the machine.
 */
#ifndef TESTS_UNIT_XML_MACHINE_H
#define TESTS_UNIT_XML_MACHINE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { XML_NODES = 16, XML_DEVICES = 16 };

struct xml_node {
    unsigned number;
    unsigned package; /* in rising order */
    unsigned cpus;    /* 0: no processors; the node lies beside the one before it */
    const char *kind; /* hwloc's subtype, or NULL */
    uint64_t bytes;
};

struct xml_device {
    const char *bus_id;
    const char *ids; /* class, vendor and device, as "1200 [19e5:d802]" */
    int node;        /* the device's place: number of a node; -1: the machine; -100 - n: package n */
};

struct xml_machine {
    struct xml_node nodes[XML_NODES];
    size_t node_count;
    struct xml_device devices[XML_DEVICES];
    size_t device_count;
    const unsigned *distances; /* node_count squared, or NULL */
    uint64_t forbidden_nodes;
};

static inline const char *xml_set(char *text, uint64_t set)
{
    (void)sprintf(text, "0x%08x,0x%08x", (unsigned)(set >> 32), (unsigned)(set & UINT32_MAX));
    return text;
}

static inline void xml_open(FILE *out, unsigned *id, const char *type, unsigned index, uint64_t cpus, uint64_t nodes)
{
    char c[32];
    char n[32];
    (void)fprintf(out,
                  "<object type=\"%s\" os_index=\"%u\" cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%s\" "
                  "complete_nodeset=\"%s\" gp_index=\"%u\"",
                  type, index, xml_set(c, cpus), c, xml_set(n, nodes), n, (*id)++);
}

static inline void xml_devices(FILE *out, unsigned *id, const struct xml_machine *m, int where)
{
    for (size_t i = 0; i < m->device_count; i++) {
        const struct xml_device *device = &m->devices[i];
        if (device->node == where) {
            (void)fprintf(out,
                          "<object type=\"Bridge\" gp_index=\"%u\" bridge_type=\"0-1\" depth=\"0\" "
                          "bridge_pci=\"%.4s:[%.2s-%.2s]\"><object type=\"PCIDev\" gp_index=\"%u\" "
                          "pci_busid=\"%s\" "
                          "pci_type=\"%s [0000:0000] 00\" pci_link_speed=\"31.507692\"/></object>\n",
                          *id, device->bus_id, device->bus_id + 5, device->bus_id + 5, *id + 1, device->bus_id,
                          device->ids);
            *id += 2;
        }
    }
}

static inline void xml_distances(FILE *out, const struct xml_machine *m)
{
    char text[4096];
    size_t length = 0;
    for (size_t i = 0; i < m->node_count; i++) {
        length += (size_t)sprintf(text + length, "%u ", m->nodes[i].number);
    }
    (void)fprintf(out,
                  "<distances2 type=\"NUMANode\" nbobjs=\"%zu\" kind=\"5\" name=\"NUMALatency\" "
                  "indexing=\"os\">"
                  "<indexes length=\"%zu\">%s</indexes>",
                  m->node_count, length, text);
    length = 0;
    for (size_t i = 0; i < m->node_count * m->node_count; i++) {
        length += (size_t)sprintf(text + length, "%u ", m->distances[i]);
    }
    (void)fprintf(out, "<u64values length=\"%zu\">%s</u64values></distances2>\n", length, text);
}

/* Returns the set of processors of the nodes from `from` to `to`. Processors are numbered in the order of the nodes. */
static inline uint64_t xml_cpus(const struct xml_machine *m, size_t from, size_t to)
{
    unsigned first = 0;
    unsigned end = 0;
    for (size_t i = 0; i < to; i++) {
        first += i < from ? m->nodes[i].cpus : 0;
        end += m->nodes[i].cpus;
    }
    return (end == 64 ? 0 : UINT64_C(1) << end) - (UINT64_C(1) << first);
}

static inline uint64_t xml_numbers(const struct xml_machine *m, size_t from, size_t to)
{
    uint64_t set = 0;
    for (size_t i = from; i < to; i++) {
        set |= UINT64_C(1) << m->nodes[i].number;
    }
    return set;
}

/* Writes a node with processors and the nodes beside it. */
static inline void xml_group(FILE *out, unsigned *id, const struct xml_machine *m, size_t from, size_t to)
{
    const uint64_t cpus = xml_cpus(m, from, to);
    const uint64_t nodes = xml_numbers(m, from, to);
    xml_open(out, id, "Die", m->nodes[from].number, cpus, nodes);
    (void)fprintf(out, ">\n");
    for (size_t i = from; i < to; i++) {
        xml_open(out, id, "NUMANode", m->nodes[i].number, cpus, UINT64_C(1) << m->nodes[i].number);
        (void)fprintf(out, " local_memory=\"%" PRIu64 "\"", m->nodes[i].bytes);
        if (m->nodes[i].kind != NULL) {
            (void)fprintf(out, " subtype=\"%s\"", m->nodes[i].kind);
        }
        (void)fprintf(out, "/>\n");
    }
    for (unsigned cpu = 0; cpu < 64; cpu++) {
        if ((cpus >> cpu & 1) != 0) {
            xml_open(out, id, "PU", cpu, UINT64_C(1) << cpu, nodes);
            (void)fprintf(out, "/>\n");
        }
    }
    xml_devices(out, id, m, (int)m->nodes[from].number);
    (void)fprintf(out, "</object>\n");
}

static inline void xml_write(FILE *out, const struct xml_machine *m)
{
    char c[32];
    char n[32];
    unsigned id = 1;
    (void)fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                       "<topology version=\"2.0\">\n");
    xml_open(out, &id, "Machine", 0, xml_cpus(m, 0, m->node_count), xml_numbers(m, 0, m->node_count));
    (void)fprintf(out, " allowed_cpuset=\"%s\" allowed_nodeset=\"%s\">\n", xml_set(c, xml_cpus(m, 0, m->node_count)),
                  xml_set(n, xml_numbers(m, 0, m->node_count) & ~m->forbidden_nodes));
    for (size_t from = 0; from < m->node_count;) {
        size_t to = from;
        while (to < m->node_count && m->nodes[to].package == m->nodes[from].package) {
            to++;
        }
        xml_open(out, &id, "Package", m->nodes[from].package, xml_cpus(m, from, to), xml_numbers(m, from, to));
        (void)fprintf(out, ">\n");
        for (size_t first = from; first < to;) {
            size_t end = first + 1;
            while (end < to && m->nodes[end].cpus == 0) {
                end++;
            }
            xml_group(out, &id, m, first, end);
            first = end;
        }
        xml_devices(out, &id, m, -100 - (int)m->nodes[from].package);
        (void)fprintf(out, "</object>\n");
        from = to;
    }
    xml_devices(out, &id, m, -1);
    (void)fprintf(out, "</object>\n");
    if (m->distances != NULL) {
        xml_distances(out, m);
    }
    (void)fprintf(out, "</topology>\n");
}

/* Writes the machine to a new file. `path` ends in XXXXXX, which is replaced. */
static inline bool xml_file(char *path, const struct xml_machine *m)
{
    const int file = mkstemp(path);
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    if (out == NULL) {
        return false;
    }
    xml_write(out, m);
    return fclose(out) == 0;
}

#endif
