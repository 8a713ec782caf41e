/* calls.h: the calls that a record of another program lists, in its own order and by its own names, and the trace of
 * them. The CSV readers share it.
 *
 * A reader adds calls, sorts them if the file is not in order, and has them written. Writing pairs each free with the
 * block that is live under its key:
 *   - a free under a key that no call named before is of a block from before the record: it becomes a `p`
 *   - a second free under a key, without an alloc between, is left out
 *   - an alloc under the key of a live block frees that block first
 * Notes in the trace have the numbers of these. So every record gives a consistent trace.
 */
#ifndef WEIR_BENCHMARKS_CALLS_H
#define WEIR_BENCHMARKS_CALLS_H

#include "trace_internal.h"

/* Numbers for texts, in the order of their first appearance. The texts must stay valid. */
struct name_list {
    weir__number_map by_hash; /* number + 1 */
    struct name *names;
    uint32_t count;
    size_t capacity;
};

/* Sets *number to the number of the text, which is added if it is new. *fresh, if `fresh` is not NULL, becomes true for
 * a new text. Returns false when out of memory. */
bool name_number(struct name_list *list, const char *text, size_t length, uint32_t *number, bool *fresh);
void name_list_free(struct name_list *list);

struct call {
    uint64_t time; /* time by the file's clock */
    uint64_t order;
    uint64_t key;    /* PRIOR, ALLOC, FREE: identifies the block while it is live */
    uint32_t block;  /* set by calls_write, like `freed` and `outcome` */
    uint32_t freed;  /* ALLOC: live block with the same key, freed first */
    uint8_t outcome; /* enum outcome in calls.c */
    /* calls_write fills in time_ns and id. A FREE also has the data of its block, which may be older than the
     * recording; size 0 = not known */
    weir_trace_event event;
};

struct call_list {
    struct trace_builder *builder;
    struct call *calls;
    size_t count;
    size_t capacity;
    struct id_map live;
    uint32_t births;
    uint32_t priors;
    uint64_t unknown;  /* frees that are left out */
    uint64_t repeated; /* allocs under the key of a block that is still live */
};

bool calls_add(struct call_list *list, uint64_t time, uint64_t key, const weir_trace_event *event);

/* Sorts the calls by time. Calls of equal time keep their order, or with `frees_first` all their frees come before
 * their allocs. */
void calls_sort(struct call_list *list, bool frees_first);

/* Leaves out the counters whose reserved bytes are those of the counters before them in the list, or with `none` all
 * counters. */
void calls_keep_changes(struct call_list *list, bool none);

/* Returns the earliest time of a call other than PRIOR (a block from before the recording); 0 if there is none. */
uint64_t calls_begin(const struct call_list *list);

/* Writes all calls to the builder, in the order of the list. The time of an event is the time since `begin`. */
bool calls_write(struct call_list *list, uint64_t begin);
void calls_free(struct call_list *list);

/* Sets *tag to the tag of the text; WEIR_TRACE_NONE if the text is empty. */
bool calls_tag(struct trace_builder *builder, struct name_list *tags, const char *text, size_t length, uint32_t *tag);

#endif
