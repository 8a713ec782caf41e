/* torch_snapshot.c: imports a PyTorch or torch_npu memory snapshot as a trace.
 *
 * Promise: every snapshot yields a trace that obeys the rules of the format. Gaps and contradictions in the record are
 * counted and reported in notes; only input that is not a snapshot is refused.
 *
 * A snapshot holds the heap at the END of the window (`segments`, with their blocks) and the events inside it
 * (`device_traces`, one list for each device). The heap at the START follows by walking the events backwards:
 *
 *     final map:    live blocks L, segments S, mapped ranges M (expandable segments)
 *     backwards:    alloc           removes its address from L
 *                   free_completed  puts its block into L
 *                   segment_alloc   removes from S        segment_free    puts into S
 *                   segment_map     removes from M        segment_unmap   puts into M
 *     the rest:     the heap before the first event
 *
 * Then the lines are, in this order: `s` and `z` for the segments of the heap before the first event, `p` for its
 * blocks by address, and the events. `f` stands at free_completed, the time from which the block is free; with one
 * stream that is right behind free_requested, and if it is later, another stream still used the block. A free_requested
 * without a completion in the record leaves its block live.
 */
#include "shared/round_up.h"
#include "torch_tags.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SIZE (UINT64_C(1) << 62) /* sizes above this, and addresses above MOST_ADDRESS, are invalid */
#define MOST_ADDRESS (UINT64_C(1) << 63)
#define UNKNOWN_ACTIONS 8
#define NO_POOL UINT64_MAX

enum action {
    ACTION_ALLOC,
    ACTION_FREE_REQUESTED,
    ACTION_FREE_COMPLETED,
    ACTION_SEGMENT_ALLOC,
    ACTION_SEGMENT_FREE,
    ACTION_SEGMENT_MAP,
    ACTION_SEGMENT_UNMAP,
    ACTION_OOM,
    ACTION_MARK,
};

struct entry {
    enum action action;
    uint32_t device;
    uint32_t tag;
    const char *mark; /* MARK: its name; `mode` is B, E or I */
    char mode;
    uint64_t address; /* OOM: free bytes of the device */
    uint64_t size;
    uint64_t stream;
    uint64_t pool; /* both numbers of the pool id, or NO_POOL */
    uint64_t time_us;
    /* sort key for the merged events: time_us, raised where needed so that it never decreases within a device */
    uint64_t key;
    size_t position;
};

/* A segment, a mapped range or a block. */
struct range {
    uint64_t address;
    uint64_t size;
    uint64_t stream;
    uint64_t pool;
    /* requested size, if the backward pass restored the block from its free; 0 = `size` is exact */
    uint64_t requested;
    uint32_t tag; /* tag of a block; unused otherwise */
    bool gone;
};

struct range_list {
    struct range *items;
    size_t count;
    size_t capacity;
};

/* Ranges by start address. `items` keeps removed ranges, with `gone` set. */
struct range_set {
    struct range_list list;
    struct id_map by_address;
};

struct device {
    bool seen;
    struct range_list segments; /* final map, by address */
    struct range_set live;
    struct range_set reserved;
    struct range_list mapped; /* disjoint, by address */
    struct id_map streams;    /* stream pointer -> number */
    struct id_map pools;      /* pool id -> number */
    struct id_map blocks;     /* forward pass: address -> block index while the block is live */
    size_t event_count;
};

struct anomalies {
    uint64_t malformed;     /* entries, segments or blocks that lack a required field */
    uint64_t alloc;         /* backward pass: allocations of blocks that are not live afterwards */
    uint64_t segment;       /* backward pass: new segments or mappings that do not exist afterwards */
    uint64_t twice;         /* backward pass: blocks or segments that would exist twice */
    uint64_t implied_frees; /* forward pass: allocs at the address of a live block */
    uint64_t lost_frees;    /* forward pass: frees of a block that is not live */
    uint64_t misplaced;     /* blocks that are live before the first event and overlap or lie outside all segments */
    uint64_t unknown;
    uint64_t annotations; /* annotations that lack a name, a stage, a time, or a device that has events */
};

struct importer {
    struct trace_builder builder;
    struct trace_error *error;
    const char *path;
    /* The walk takes at most one step for each byte of the pickle, because a snapshot stores each entry once. */
    struct pickle_walk walk;
    struct torch_tags tags;

    struct device *devices;
    uint32_t device_count;
    struct entry *entries; /* events of all devices */
    size_t entry_count;
    size_t entry_capacity;
    bool has_map; /* the snapshot has segments; without them the backward pass starts from an empty heap */
    bool has_time;
    bool has_annotations;
    bool expandable;
    uint64_t pad_proof_0; /* number of live blocks in the snapshot with sizes that prove that no padding was added */
    uint64_t pad_proof_32;

    uint32_t stream_count;
    uint32_t pool_count;
    uint32_t block_count;
    /* requested sizes of blocks from before the recording, by block index; 0 = the event's size is exact */
    uint64_t *requested;
    size_t requested_capacity;
    uint32_t *block_stream; /* [block_count] */
    size_t block_stream_capacity;

    struct anomalies anomalies;
    char unknown[UNKNOWN_ACTIONS][32];
    size_t unknown_count;
};

static bool no_memory(struct importer *importer)
{
    return trace_say(importer->error, WEIR_ERR_NO_MEMORY, importer->path, "out of memory");
}

static bool spend(struct importer *importer, uint64_t steps)
{
    return pickle_walk_spend(&importer->walk, steps);
}

/* --- reading values --- */

static bool is_true(const struct pickle_value *value)
{
    return value != NULL && value->kind == PICKLE_BOOL && value->as.boolean;
}

/* Returns a pool id, a pair of numbers, as one number: 0 for (0, 0), the ordinary pool; NO_POOL if it is missing. */
static uint64_t get_pool(const struct pickle_value *dict, const char *key)
{
    const struct pickle_value *pair = pickle_get(dict, key);
    uint64_t first;
    uint64_t second;
    if (!pickle_is_sequence(pair) || pair->count != 2 || !pickle_number(pair->as.items[0], &first) ||
        !pickle_number(pair->as.items[1], &second) || first >= UINT32_MAX || second >= UINT32_MAX) {
        return NO_POOL;
    }
    return first << 32 | second;
}

static bool fits(uint64_t address, uint64_t size)
{
    return address < MOST_ADDRESS && size < MOST_SIZE;
}

/* --- ranges --- */

static bool add_range(struct range_list *list, struct range range)
{
    struct range *items = grow_array(list->items, list->count, &list->capacity, sizeof(*items));
    if (items == NULL) {
        return false;
    }
    list->items = items;
    items[list->count++] = range;
    return true;
}

static int by_address(const void *a, const void *b)
{
    const struct range *left = a;
    const struct range *right = b;
    return (left->address > right->address) - (left->address < right->address);
}

static void sort_ranges(struct range_list *list)
{
    if (list->count > 1) {
        qsort(list->items, list->count, sizeof(*list->items), by_address);
    }
}

/* Returns the position of the first range that begins behind `address`. */
static size_t upper_bound(const struct range_list *list, uint64_t address)
{
    return trace_up_to(list->items, list->count, sizeof(*list->items), address);
}

static const struct range *range_around(const struct range_list *list, uint64_t address)
{
    size_t position = upper_bound(list, address);
    if (position == 0) {
        return NULL;
    }
    const struct range *range = &list->items[position - 1];
    return address - range->address < range->size ? range : NULL;
}

static bool set_put(struct importer *importer, struct range_set *set, struct range range)
{
    uint32_t known;
    if (id_map_get(&set->by_address, range.address, &known)) {
        importer->anomalies.twice++;
        return true;
    }
    uint32_t position = (uint32_t)set->list.count;
    return (add_range(&set->list, range) && id_map_put(&set->by_address, range.address, position)) ||
           no_memory(importer);
}

static bool set_remove(struct range_set *set, uint64_t address)
{
    uint32_t position;
    if (!id_map_get(&set->by_address, address, &position)) {
        return false;
    }
    set->list.items[position].gone = true;
    id_map_remove(&set->by_address, address);
    return true;
}

/* Drops the removed ranges and sorts the other ranges by address. */
static void set_settle(struct range_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->list.count; i++) {
        if (!set->list.items[i].gone) {
            set->list.items[kept++] = set->list.items[i];
        }
    }
    set->list.count = kept;
    sort_ranges(&set->list);
}

/* --- mapped ranges: disjoint pieces in address order --- */

static bool insert_piece(struct range_list *list, size_t position, struct range piece)
{
    if (!add_range(list, piece)) {
        return false;
    }
    memmove(list->items + position + 1, list->items + position, (list->count - 1 - position) * sizeof(*list->items));
    list->items[position] = piece;
    return true;
}

static void remove_piece(struct range_list *list, size_t position)
{
    list->count--;
    memmove(list->items + position, list->items + position + 1, (list->count - position) * sizeof(*list->items));
}

/* Removes [address, address + size) from the mapped ranges; *removed is the number of bytes that were mapped. */
static bool unmap_range(struct range_list *list, uint64_t address, uint64_t size, uint64_t *removed)
{
    uint64_t end = address + size;
    *removed = 0;
    size_t i = upper_bound(list, address);
    i -= i > 0;
    while (i < list->count && list->items[i].address < end) {
        struct range piece = list->items[i];
        uint64_t piece_end = piece.address + piece.size;
        if (piece_end <= address) {
            i++;
            continue;
        }
        uint64_t from = piece.address > address ? piece.address : address;
        uint64_t to = piece_end < end ? piece_end : end;
        *removed += to - from;
        remove_piece(list, i);
        if (piece.address < from) {
            struct range before = piece;
            before.size = from - piece.address;
            if (!insert_piece(list, i++, before)) {
                return false;
            }
        }
        if (piece_end > to) {
            struct range behind = piece;
            behind.address = to;
            behind.size = piece_end - to;
            if (!insert_piece(list, i++, behind)) {
                return false;
            }
        }
    }
    return true;
}

/* Adds a mapped range and merges it with adjacent ranges of the same stream. *covered is the number of its bytes that
 * were mapped before. */
static bool map_range(struct range_list *list, struct range range, uint64_t *covered)
{
    if (!unmap_range(list, range.address, range.size, covered)) {
        return false;
    }
    size_t i = upper_bound(list, range.address);
    if (i < list->count && list->items[i].address == range.address + range.size &&
        list->items[i].stream == range.stream) {
        range.size += list->items[i].size;
        remove_piece(list, i);
    }
    if (i > 0 && list->items[i - 1].address + list->items[i - 1].size == range.address &&
        list->items[i - 1].stream == range.stream) {
        list->items[i - 1].size += range.size;
        return true;
    }
    return insert_piece(list, i, range);
}

/* --- the final map --- */

static struct device *device_of(struct importer *importer, uint64_t number)
{
    if (number >= importer->device_count) {
        return NULL;
    }
    importer->devices[number].seen = true;
    return &importer->devices[number];
}

static bool reach_device(struct importer *importer, uint64_t number)
{
    if (number >= TRACE_MAX_DEVICES) {
        return true; /* device_of returns NULL for so large a number; its caller then counts an anomaly */
    }
    if (number < importer->device_count) {
        return true;
    }
    size_t count = (size_t)number + 1;
    struct device *devices = realloc(importer->devices, count * sizeof(*devices));
    if (devices == NULL) {
        return no_memory(importer);
    }
    memset(devices + importer->device_count, 0, (count - importer->device_count) * sizeof(*devices));
    importer->devices = devices;
    importer->device_count = (uint32_t)count;
    return true;
}

/* Counts a live block as evidence for or against 32 bytes of padding. A request is evidence only if its rounded size
 * depends on the padding; only live blocks have their requested size in the snapshot. */
static void weigh_pad(struct importer *importer, uint64_t requested, uint64_t size)
{
    if (requested == 0 || requested >= MOST_SIZE || round_up(requested, 512) == round_up(requested + 32, 512)) {
        return;
    }
    importer->pad_proof_0 += size == round_up(requested, 512);
    importer->pad_proof_32 += size == round_up(requested + 32, 512);
}

static bool is_active(const struct pickle_value *block)
{
    const struct pickle_value *state = pickle_get(block, "state");
    return state != NULL && state->kind == PICKLE_STR && state->count >= 6 && memcmp(state->as.text, "active", 6) == 0;
}

/* Reads a block of a segment. Old snapshots have no addresses of blocks: their blocks fill a segment in order. */
static bool read_block(struct importer *importer, struct device *device, const struct range *segment,
                       const struct pickle_value *block, uint64_t *next)
{
    struct range range = {.address = *next, .stream = segment->stream, .pool = segment->pool, .tag = WEIR_TRACE_NONE};
    if (block == NULL || block->kind != PICKLE_DICT || !pickle_get_number(block, "size", &range.size) ||
        range.size == 0) {
        importer->anomalies.malformed++;
        return true;
    }
    if (!spend(importer, block->count)) {
        return false;
    }
    range.address = pickle_get_number_or(block, "address", *next);
    if (!fits(range.address, range.size)) {
        importer->anomalies.malformed++;
        return true;
    }
    *next = range.address + range.size;
    if (!is_active(block)) {
        return true;
    }
    weigh_pad(importer, pickle_get_number_or(block, "requested_size", 0), range.size);
    return torch_tags_find(&importer->tags, block, &range.tag) && set_put(importer, &device->live, range);
}

static bool read_blocks(struct importer *importer, struct device *device, const struct range *segment,
                        const struct pickle_value *blocks)
{
    uint64_t next = segment->address;
    for (uint32_t i = 0; pickle_is_sequence(blocks) && i < blocks->count; i++) {
        if (!spend(importer, 1) || !read_block(importer, device, segment, blocks->as.items[i], &next)) {
            return false;
        }
    }
    return true;
}

static bool sum_blocks(struct importer *importer, const struct pickle_value *blocks, uint64_t *sum)
{
    *sum = 0;
    for (uint32_t i = 0; pickle_is_sequence(blocks) && i < blocks->count; i++) {
        uint64_t size = pickle_get_number_or(blocks->as.items[i], "size", 0);
        if (!spend(importer, 1)) {
            return false;
        }
        *sum += size < MOST_SIZE && *sum < MOST_SIZE ? size : 0;
    }
    return true;
}

static bool read_segment(struct importer *importer, const struct pickle_value *value)
{
    struct range segment = {.pool = NO_POOL};
    if (!spend(importer, value != NULL ? (uint64_t)value->count + 1 : 1)) {
        return false;
    }
    const struct pickle_value *blocks = pickle_get(value, "blocks");
    if (!pickle_get_number(value, "total_size", &segment.size) && !sum_blocks(importer, blocks, &segment.size)) {
        return false;
    }
    uint64_t number = pickle_get_number_or(value, "device", 0);
    if (!reach_device(importer, number)) {
        return false;
    }
    struct device *device = device_of(importer, number);
    if (device == NULL || !pickle_get_number(value, "address", &segment.address) || segment.size == 0 ||
        !fits(segment.address, segment.size)) {
        importer->anomalies.malformed++;
        return true;
    }
    segment.stream = pickle_get_number_or(value, "stream", 0);
    segment.pool = get_pool(value, "segment_pool_id");
    if (!add_range(&device->segments, segment)) {
        return no_memory(importer);
    }
    if (is_true(pickle_get(value, "is_expandable"))) {
        uint64_t covered;
        importer->expandable = true;
        if (!map_range(&device->mapped, segment, &covered)) {
            return no_memory(importer);
        }
        importer->anomalies.twice += covered > 0;
    } else if (!set_put(importer, &device->reserved, segment)) {
        return false;
    }
    return read_blocks(importer, device, &segment, blocks);
}

static bool read_segments(struct importer *importer, const struct pickle_value *segments)
{
    importer->has_map = segments->count > 0;
    for (uint32_t i = 0; i < segments->count; i++) {
        if (!read_segment(importer, segments->as.items[i])) {
            return false;
        }
    }
    for (uint32_t d = 0; d < importer->device_count; d++) {
        sort_ranges(&importer->devices[d].segments);
    }
    return true;
}

/* --- the events --- */

struct action_name {
    const char *name;
    enum action action;
};

static const struct action_name action_names[] = {
    {"alloc", ACTION_ALLOC},
    {"free_requested", ACTION_FREE_REQUESTED},
    {"free_completed", ACTION_FREE_COMPLETED},
    {"segment_alloc", ACTION_SEGMENT_ALLOC},
    {"segment_free", ACTION_SEGMENT_FREE},
    {"segment_map", ACTION_SEGMENT_MAP},
    {"segment_unmap", ACTION_SEGMENT_UNMAP},
    {"oom", ACTION_OOM},
    {"snapshot", ACTION_MARK},
    {"workspace_snapshot", ACTION_MARK},
};

static const struct action_name *find_action(const struct pickle_value *name)
{
    for (size_t i = 0; i < sizeof(action_names) / sizeof(*action_names); i++) {
        if (pickle_is_text(name, action_names[i].name)) {
            return &action_names[i];
        }
    }
    return NULL;
}

/* Counts an event with an action of unknown name, and keeps the first few such names for a note. */
static void count_unknown(struct importer *importer, const struct pickle_value *name)
{
    char shown[32];
    importer->anomalies.unknown++;
    if (name == NULL || name->kind != PICKLE_STR || importer->unknown_count == UNKNOWN_ACTIONS) {
        return;
    }
    trace_quote(shown, sizeof(shown), name->as.text, name->count);
    for (size_t i = 0; i < importer->unknown_count; i++) {
        if (strcmp(importer->unknown[i], shown) == 0) {
            return;
        }
    }
    memcpy(importer->unknown[importer->unknown_count++], shown, sizeof(shown));
}

/* Reads the fields that the entry's action needs; returns false if one is missing. Old snapshots have the free memory
 * of an OOM under `addr`. */
static bool read_place(const struct pickle_value *value, struct entry *entry)
{
    switch (entry->action) {
    case ACTION_MARK:
        return true;
    case ACTION_OOM:
        entry->address = pickle_get_number_or(value, "device_free", pickle_get_number_or(value, "addr", 0));
        return pickle_get_number(value, "size", &entry->size);
    default:
        break;
    }
    if (!pickle_get_number(value, "addr", &entry->address) || !pickle_get_number(value, "size", &entry->size)) {
        return false;
    }
    bool zero_allowed = entry->action == ACTION_ALLOC || entry->action == ACTION_FREE_COMPLETED ||
                        entry->action == ACTION_FREE_REQUESTED;
    if (entry->size == 0 && !zero_allowed) {
        return false;
    }
    return fits(entry->address, entry->size);
}

static bool add_entry(struct importer *importer, const struct entry *entry)
{
    struct entry *entries =
        grow_array(importer->entries, importer->entry_count, &importer->entry_capacity, sizeof(*entries));
    if (entries == NULL) {
        return no_memory(importer);
    }
    importer->entries = entries;
    entries[importer->entry_count] = *entry;
    entries[importer->entry_count].position = importer->entry_count;
    importer->entry_count++;
    return true;
}

/* Reads one event. *clock is the latest time of the device. An entry without a time gets *clock as its time; an entry
 * with an earlier time gets *clock as its sort key. */
static bool read_entry(struct importer *importer, const struct pickle_value *value, uint32_t number, uint64_t *clock)
{
    if (value == NULL || value->kind != PICKLE_DICT) {
        importer->anomalies.malformed++;
        return spend(importer, 1);
    }
    if (!spend(importer, value->count)) {
        return false;
    }
    const struct pickle_value *name = pickle_get(value, "action");
    const struct action_name *known = find_action(name);
    if (known == NULL) {
        count_unknown(importer, name);
        return true;
    }
    struct entry entry = {.action = known->action, .device = number, .mark = known->name, .mode = 'I'};
    if (!read_place(value, &entry)) {
        importer->anomalies.malformed++;
        return true;
    }
    entry.stream = pickle_get_number_or(value, "stream", 0);
    entry.pool = get_pool(value, "pool_id");
    uint64_t time_us;
    if (pickle_get_number(value, "time_us", &time_us)) {
        importer->has_time = true;
        *clock = time_us > *clock ? time_us : *clock;
    } else {
        time_us = *clock;
    }
    entry.time_us = time_us;
    entry.key = *clock;
    entry.tag = WEIR_TRACE_NONE;
    if (entry.action == ACTION_ALLOC && !torch_tags_find(&importer->tags, value, &entry.tag)) {
        return false;
    }
    importer->devices[number].event_count++;
    return add_entry(importer, &entry);
}

static bool read_history(struct importer *importer, const struct pickle_value *histories)
{
    for (uint32_t d = 0; d < histories->count; d++) {
        const struct pickle_value *history = histories->as.items[d];
        if (!spend(importer, 1)) {
            return false;
        }
        if (!pickle_is_sequence(history)) {
            importer->anomalies.malformed++;
            continue;
        }
        if (history->count == 0) {
            continue;
        }
        if (!reach_device(importer, d)) {
            return false;
        }
        if (device_of(importer, d) == NULL) {
            importer->anomalies.malformed += history->count;
            continue;
        }
        uint64_t clock = 0;
        for (uint32_t i = 0; i < history->count; i++) {
            if (!read_entry(importer, history->as.items[i], d, &clock)) {
                return false;
            }
        }
    }
    return true;
}

/* --- annotations: marks of the program, in a list of their own --- */

/* Reads {"stage": "START" or "END", "name", "device", "time_us"}. `first` is the time of the first event: annotations
 * before `first` are left out. A snapshot keeps as many annotations as events, so most annotations may be older than
 * the first event. */
static bool read_annotation(struct importer *importer, const struct pickle_value *value, uint64_t first)
{
    const struct pickle_value *name = pickle_get(value, "name");
    const struct pickle_value *stage = pickle_get(value, "stage");
    const uint64_t device = pickle_get_number_or(value, "device", 0);
    const bool begins = pickle_is_text(stage, "START");
    struct entry entry = {.action = ACTION_MARK, .tag = WEIR_TRACE_NONE, .mode = begins ? 'B' : 'E'};
    if (!spend(importer, value != NULL ? (uint64_t)value->count + 1 : 1)) {
        return false;
    }
    if (name == NULL || name->kind != PICKLE_STR || (!begins && !pickle_is_text(stage, "END")) ||
        !pickle_get_number(value, "time_us", &entry.time_us) || device >= importer->device_count ||
        !importer->devices[device].seen) {
        importer->anomalies.annotations++;
        return true;
    }
    if (entry.time_us < first) {
        return true;
    }
    entry.key = entry.time_us;
    entry.device = (uint32_t)device;
    const bool named = trimmed_length(name->as.text, name->count) > 0;
    entry.mark = builder_text(&importer->builder, named ? name->as.text : "-", named ? name->count : 1);
    return entry.mark != NULL ? add_entry(importer, &entry) : no_memory(importer);
}

static bool read_annotations(struct importer *importer, const struct pickle_value *annotations)
{
    uint64_t first = UINT64_MAX;
    if (!importer->has_time) { /* annotations cannot be ordered among events that have no times */
        return true;
    }
    for (size_t i = 0; i < importer->entry_count; i++) {
        first = importer->entries[i].time_us < first ? importer->entries[i].time_us : first;
    }
    const size_t events = importer->entry_count;
    for (uint32_t i = 0; i < annotations->count; i++) {
        if (!read_annotation(importer, annotations->as.items[i], first)) {
            return false;
        }
    }
    importer->has_annotations = importer->entry_count > events;
    return true;
}

/* --- one order of all events --- */

/* Orders entries by key, which is a time. Among entries of equal time the begin of a mark comes first; the end of a
 * mark comes last, because its position is larger. */
static int by_key(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    if ((left->mode == 'B') != (right->mode == 'B')) {
        return left->mode == 'B' ? -1 : 1;
    }
    return (left->position > right->position) - (left->position < right->position);
}

/* Merges the devices' events and the annotations by time. Within a device the list order stays even if times
 * decrease: it is the order in which the allocator worked. */
static void merge_devices(struct importer *importer)
{
    uint32_t with_events = 0;
    for (uint32_t d = 0; d < importer->device_count; d++) {
        with_events += importer->devices[d].event_count > 0;
    }
    if ((with_events > 1 && importer->has_time) || importer->has_annotations) {
        qsort(importer->entries, importer->entry_count, sizeof(*importer->entries), by_key);
    }
}

/* --- backwards --- */

static bool step_back(struct importer *importer, const struct entry *entry)
{
    struct device *device = &importer->devices[entry->device];
    struct range range = {
        .address = entry->address,
        .size = entry->size,
        .stream = entry->stream,
        .pool = NO_POOL,
        .tag = WEIR_TRACE_NONE,
    };
    uint64_t bytes;
    switch (entry->action) {
    case ACTION_ALLOC:
        importer->anomalies.alloc += !set_remove(&device->live, entry->address) && importer->has_map;
        return true;
    case ACTION_FREE_COMPLETED:
        range.requested = entry->size > 0 ? entry->size : 1;
        range.size = round_up(range.requested, 512);
        return set_put(importer, &device->live, range);
    case ACTION_SEGMENT_ALLOC:
        importer->anomalies.segment += !set_remove(&device->reserved, entry->address) && importer->has_map;
        return true;
    case ACTION_SEGMENT_FREE:
        return set_put(importer, &device->reserved, range);
    case ACTION_SEGMENT_MAP:
        if (!unmap_range(&device->mapped, entry->address, entry->size, &bytes)) {
            return no_memory(importer);
        }
        importer->anomalies.segment += bytes != entry->size && importer->has_map;
        return true;
    case ACTION_SEGMENT_UNMAP:
        if (!map_range(&device->mapped, range, &bytes)) {
            return no_memory(importer);
        }
        importer->anomalies.twice += bytes != 0;
        return true;
    default:
        return true;
    }
}

/* Counts the blocks that were live before the first event and do not lie in one segment, or overlap the previous
 * block. */
static void check_placement(struct importer *importer, const struct device *device)
{
    uint64_t end = 0;
    for (size_t i = 0; i < device->live.list.count; i++) {
        const struct range *block = &device->live.list.items[i];
        const struct range *segment = range_around(&device->reserved.list, block->address);
        if (segment == NULL) {
            segment = range_around(&device->mapped, block->address);
        }
        bool inside = segment != NULL && block->address + block->size <= segment->address + segment->size;
        importer->anomalies.misplaced += !inside || block->address < end;
        end = block->address + block->size > end ? block->address + block->size : end;
    }
}

static bool walk_back(struct importer *importer)
{
    for (size_t i = importer->entry_count; i > 0; i--) {
        if (!step_back(importer, &importer->entries[i - 1])) {
            return false;
        }
    }
    for (uint32_t d = 0; d < importer->device_count; d++) {
        struct device *device = &importer->devices[d];
        set_settle(&device->live);
        set_settle(&device->reserved);
        if (importer->has_map) {
            check_placement(importer, device);
        }
    }
    return true;
}

/* --- forwards --- */

static bool number_of(struct importer *importer, struct id_map *map, uint64_t key, uint32_t *next, uint32_t limit,
                      const char *what, uint32_t *number)
{
    if (id_map_get(map, key, number)) {
        return true;
    }
    if (*next >= limit) {
        return trace_say(importer->error, WEIR_ERR_LIMIT, importer->path, "more than %" PRIu32 " %s", limit, what);
    }
    *number = (*next)++;
    return id_map_put(map, key, *number) || no_memory(importer);
}

static bool stream_of(struct importer *importer, uint32_t device, uint64_t stream, uint32_t *number)
{
    return number_of(importer, &importer->devices[device].streams, stream, &importer->stream_count, TRACE_MAX_STREAMS,
                     "streams", number);
}

/* Finds the pool of an event: newer snapshots name the pool in the event; for older ones the pool is that of the
 * segment around the address in the final map. */
static bool pool_of(struct importer *importer, const struct entry *entry, uint32_t *number)
{
    struct device *device = &importer->devices[entry->device];
    uint64_t pool = entry->pool;
    if (pool == NO_POOL) {
        const struct range *segment = range_around(&device->segments, entry->address);
        pool = segment != NULL ? segment->pool : NO_POOL;
    }
    *number = WEIR_TRACE_NONE;
    if (pool == NO_POOL || pool == 0) {
        return true;
    }
    return number_of(importer, &device->pools, pool, &importer->pool_count, TRACE_MAX_POOLS, "private pools", number);
}

static bool add_event(struct importer *importer, const weir_trace_event *event, uint32_t index)
{
    return builder_event(&importer->builder, event, index, TRACE_NO_INDEX, event->stream != WEIR_TRACE_NONE);
}

static weir_trace_event make_event(weir_trace_kind kind, uint32_t device, uint64_t time_ns)
{
    weir_trace_event event = blank_event(kind);
    event.device = device;
    event.time_ns = time_ns;
    return event;
}

static bool add_segment(struct importer *importer, weir_trace_kind kind, char mode, uint32_t device, uint64_t time_ns,
                        uint64_t address, uint64_t size, uint64_t stream)
{
    weir_trace_event event = make_event(kind, device, time_ns);
    event.mode = mode;
    event.address = address;
    event.size = size;
    return stream_of(importer, device, stream, &event.stream) && add_event(importer, &event, TRACE_NO_INDEX);
}

/* Gives a block that begins to live at the address a new index. */
static bool begin_block(struct importer *importer, uint32_t device, uint64_t address, uint32_t stream, uint32_t *block)
{
    uint32_t *streams =
        grow_array(importer->block_stream, importer->block_count, &importer->block_stream_capacity, sizeof(*streams));
    if (streams == NULL) {
        return no_memory(importer);
    }
    importer->block_stream = streams;
    *block = importer->block_count++;
    streams[*block] = stream;
    return id_map_put(&importer->devices[device].blocks, address, *block) || no_memory(importer);
}

static bool add_prior(struct importer *importer, uint32_t device, const struct range *range)
{
    weir_trace_event event = make_event(WEIR_TRACE_PRIOR, device, 0);
    uint32_t block;
    event.address = range->address;
    event.size = range->size;
    event.tag = range->tag;
    if (!stream_of(importer, device, range->stream, &event.stream) ||
        !begin_block(importer, device, range->address, event.stream, &block)) {
        return false;
    }
    uint64_t *requested = grow_array(importer->requested, block, &importer->requested_capacity, sizeof(*requested));
    if (requested == NULL) {
        return no_memory(importer);
    }
    importer->requested = requested;
    requested[block] = range->requested;
    event.id = block;
    return add_event(importer, &event, block);
}

static bool add_start(struct importer *importer, uint32_t d)
{
    const struct device *device = &importer->devices[d];
    for (size_t i = 0; i < device->reserved.list.count; i++) {
        const struct range *range = &device->reserved.list.items[i];
        if (!add_segment(importer, WEIR_TRACE_SEGMENT, '+', d, 0, range->address, range->size, range->stream)) {
            return false;
        }
    }
    for (size_t i = 0; i < device->mapped.count; i++) {
        const struct range *range = &device->mapped.items[i];
        if (!add_segment(importer, WEIR_TRACE_MAPPING, '+', d, 0, range->address, range->size, range->stream)) {
            return false;
        }
    }
    return true;
}

static bool add_starts(struct importer *importer)
{
    for (uint32_t d = 0; d < importer->device_count; d++) {
        if (!add_start(importer, d)) {
            return false;
        }
    }
    for (uint32_t d = 0; d < importer->device_count; d++) {
        const struct range_list *live = &importer->devices[d].live.list;
        for (size_t i = 0; i < live->count; i++) {
            if (!add_prior(importer, d, &live->items[i])) {
                return false;
            }
        }
    }
    return true;
}

static bool add_free(struct importer *importer, uint32_t device, uint64_t time_ns, uint64_t address, uint32_t block,
                     uint32_t stream)
{
    weir_trace_event event = make_event(WEIR_TRACE_FREE, device, time_ns);
    event.device = 0; /* FREE has no device: its block has it */
    event.id = block;
    event.stream = stream;
    id_map_remove(&importer->devices[device].blocks, address);
    return builder_event(&importer->builder, &event, block, TRACE_NO_INDEX, false);
}

/* Adds a free that the recording lacks, if the entry allocates the address of a block that is still live. */
static bool free_before(struct importer *importer, const struct entry *entry, uint64_t time_ns)
{
    uint32_t block;
    if (!id_map_get(&importer->devices[entry->device].blocks, entry->address, &block)) {
        return true;
    }
    importer->anomalies.implied_frees++;
    return add_free(importer, entry->device, time_ns, entry->address, block, importer->block_stream[block]);
}

static bool add_alloc(struct importer *importer, const struct entry *entry, uint64_t time_ns)
{
    weir_trace_event event = make_event(WEIR_TRACE_ALLOC, entry->device, time_ns);
    uint32_t block;
    event.size = entry->size > 0 ? entry->size : 1;
    event.address = entry->address;
    event.tag = entry->tag;
    if (!free_before(importer, entry, time_ns) || !stream_of(importer, entry->device, entry->stream, &event.stream) ||
        !pool_of(importer, entry, &event.pool) ||
        !begin_block(importer, entry->device, entry->address, event.stream, &block)) {
        return false;
    }
    event.id = block;
    return add_event(importer, &event, block);
}

static bool add_completed(struct importer *importer, const struct entry *entry, uint64_t time_ns)
{
    uint32_t block;
    uint32_t stream;
    if (!id_map_get(&importer->devices[entry->device].blocks, entry->address, &block)) {
        importer->anomalies.lost_frees++;
        return true;
    }
    return stream_of(importer, entry->device, entry->stream, &stream) &&
           add_free(importer, entry->device, time_ns, entry->address, block, stream);
}

static bool add_oom(struct importer *importer, const struct entry *entry, uint64_t time_ns)
{
    weir_trace_event event = make_event(WEIR_TRACE_OOM, entry->device, time_ns);
    event.size = entry->size;
    event.extra = entry->address;
    return add_event(importer, &event, TRACE_NO_INDEX);
}

static bool add_mark(struct importer *importer, const struct entry *entry, uint64_t time_ns)
{
    weir_trace_event event = make_event(WEIR_TRACE_MARK, 0, time_ns);
    event.mode = entry->mode;
    event.name = builder_text(&importer->builder, entry->mark, strlen(entry->mark));
    return event.name != NULL ? add_event(importer, &event, TRACE_NO_INDEX) : no_memory(importer);
}

static bool step_forward(struct importer *importer, const struct entry *entry, uint64_t time_ns)
{
    switch (entry->action) {
    case ACTION_ALLOC:
        return add_alloc(importer, entry, time_ns);
    case ACTION_FREE_COMPLETED:
        return add_completed(importer, entry, time_ns);
    case ACTION_SEGMENT_ALLOC:
    case ACTION_SEGMENT_FREE:
        return add_segment(importer, WEIR_TRACE_SEGMENT, entry->action == ACTION_SEGMENT_ALLOC ? '+' : '-',
                           entry->device, time_ns, entry->address, entry->size, entry->stream);
    case ACTION_SEGMENT_MAP:
    case ACTION_SEGMENT_UNMAP:
        return add_segment(importer, WEIR_TRACE_MAPPING, entry->action == ACTION_SEGMENT_MAP ? '+' : '-', entry->device,
                           time_ns, entry->address, entry->size, entry->stream);
    case ACTION_OOM:
        return add_oom(importer, entry, time_ns);
    case ACTION_MARK:
        return add_mark(importer, entry, time_ns);
    case ACTION_FREE_REQUESTED:
        break;
    }
    return true;
}

static uint64_t time_of(const struct importer *importer, size_t i)
{
    if (!importer->has_time) {
        return i;
    }
    uint64_t start = importer->entries[0].time_us;
    uint64_t now = importer->entries[i].time_us;
    uint64_t since = now > start ? now - start : 0;
    return since > UINT64_MAX / 1000 ? UINT64_MAX : since * 1000;
}

static bool walk_forward(struct importer *importer)
{
    if (!add_starts(importer)) {
        return false;
    }
    for (size_t i = 0; i < importer->entry_count; i++) {
        if (!step_forward(importer, &importer->entries[i], time_of(importer, i))) {
            return false;
        }
    }
    return true;
}

/* --- bytes added before rounding --- */

/* Decides pad_bytes. A live block of the snapshot that is too small for 32 bytes of padding proves that none were
 * added; adjacent blocks can prove it as well. Without such a proof, evidence of the padding decides. */
static bool settle_pad(struct importer *importer)
{
    struct trace *trace = importer->builder.trace;
    if (importer->pad_proof_0 > 0) {
        trace->pad_bytes = 0;
    } else if (!trace_infer_pad(trace)) {
        return no_memory(importer);
    } else if (trace->pad_bytes == TRACE_PAD_UNKNOWN && importer->pad_proof_32 > 0) {
        trace->pad_bytes = 32;
    }
    return true;
}

/* Adds the padding to blocks that are live before the first event and are freed later: the recording has only their
 * requested size. */
static void apply_pad(struct importer *importer)
{
    struct trace *trace = importer->builder.trace;
    if (trace->pad_bytes != 32) {
        return;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        weir_trace_event *event = &trace->events[i].event;
        if (event->kind == WEIR_TRACE_PRIOR && importer->requested[event->id] != 0) {
            event->size = round_up(importer->requested[event->id] + 32, 512);
        }
    }
}

/* --- notes --- */

static bool add_header(struct importer *importer)
{
    char text[640];
    size_t used = 0;
    const char *base = strrchr(importer->path, '/');
    char name[300];
    base = base != NULL ? base + 1 : importer->path;
    trace_quote(name, sizeof(name), base, strlen(base));
    used += (size_t)snprintf(text, sizeof(text), "torch-snapshot %s", name);
    for (uint32_t d = 0; d < importer->device_count; d++) {
        if (!importer->devices[d].seen) {
            continue;
        }
        struct trace_device *device = builder_device(&importer->builder, d);
        if (device == NULL) {
            return no_memory(importer);
        }
        device->declared = true;
        if (used + 16 < sizeof(text)) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, " dev%" PRIu32, d);
        }
    }
    return builder_source(&importer->builder, text, used);
}

static bool note_count(struct importer *importer, uint64_t count, const char *what)
{
    return count == 0 || builder_note_format(&importer->builder, "%" PRIu64 " %s", count, what);
}

static bool note_unknown(struct importer *importer)
{
    char names[UNKNOWN_ACTIONS * 36] = "";
    size_t used = 0;
    if (importer->anomalies.unknown == 0) {
        return true;
    }
    for (size_t i = 0; i < importer->unknown_count; i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "", importer->unknown[i]);
    }
    return builder_note_format(&importer->builder, "%" PRIu64 " entries with unknown actions left out: %s",
                               importer->anomalies.unknown, used > 0 ? names : "no name");
}

static bool add_notes(struct importer *importer)
{
    const struct anomalies *found = &importer->anomalies;
    return note_unknown(importer) &&
           note_count(importer, found->malformed, "entries left out that lack an address or a size") &&
           note_count(importer, found->implied_frees,
                      "frees added where an address was handed out while its block was live") &&
           note_count(importer, found->lost_frees, "frees of blocks that were not live left out") &&
           note_count(importer, found->annotations,
                      "annotations left out that lack a name, a stage, a time or a device");
}

/* Adds a note to the trace: why the state before the first event, derived from the snapshot, may be incomplete. */
static bool add_recorded_note(struct importer *importer)
{
    static const char no_map[] = "there is no final map: what was reserved or live during the whole window is unknown";
    const struct anomalies *found = &importer->anomalies;
    if (importer->entry_count > 0 && !importer->has_map) {
        return builder_recorded_note(&importer->builder, no_map, sizeof(no_map) - 1);
    }
    if (importer->entry_count == 0 ||
        (found->alloc | found->segment | found->twice | found->misplaced | found->malformed) == 0) {
        return true;
    }
    char text[400];
    int length =
        snprintf(text, sizeof(text),
                 "the events do not lead back from the final map: %" PRIu64 " allocations and %" PRIu64
                 " segments or mappings are missing there, %" PRIu64 " are there twice, %" PRIu64
                 " blocks at the start overlap or lie outside the segments, %" PRIu64 " entries are incomplete",
                 found->alloc, found->segment, found->twice, found->misplaced, found->malformed);
    return builder_recorded_note(&importer->builder, text, (size_t)length);
}

/* Keeps the text of the allocator's settings, which newer releases write into the snapshot. An empty text, the
 * defaults, is not kept. */
static bool keep_settings(struct importer *importer, const struct pickle_value *root)
{
    static const char *const names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                                        "PYTORCH_NPU_ALLOC_CONF"};
    const struct pickle_value *settings = pickle_get(root, "allocator_settings");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct pickle_value *text = pickle_get(settings, names[i]);
        if (text != NULL && text->kind == PICKLE_STR && text->count > 0) {
            return builder_allocator_settings(&importer->builder, text->as.text, text->count);
        }
    }
    return true;
}

/* --- the whole --- */

static bool refuse(struct importer *importer, const struct pickle_value *root)
{
    return trace_say(importer->error, WEIR_ERR_INVALID, importer->path,
                     "byte 0: the pickle holds %s that is no PyTorch memory snapshot; expected a dict with "
                     "\"segments\" or \"device_traces\"",
                     pickle_kind_name(root));
}

/* True if the root is a list of segments, the form of the oldest snapshots. */
static bool is_segment_list(const struct pickle_value *root)
{
    return pickle_is_sequence(root) && root->count > 0 && pickle_get(root->as.items[0], "total_size") != NULL;
}

static bool read_root(struct importer *importer, const struct pickle_value *root)
{
    if (is_segment_list(root)) {
        return read_segments(importer, root);
    }
    const struct pickle_value *segments = pickle_get(root, "segments");
    const struct pickle_value *histories = pickle_get(root, "device_traces");
    if (!pickle_is_sequence(segments) && !pickle_is_sequence(histories)) {
        return refuse(importer, root);
    }
    if (pickle_is_sequence(segments) && !read_segments(importer, segments)) {
        return false;
    }
    const struct pickle_value *annotations = pickle_get(root, "external_annotations");
    return (!pickle_is_sequence(histories) || read_history(importer, histories)) &&
           (!pickle_is_sequence(annotations) || read_annotations(importer, annotations));
}

/* True if the file tells of no memory at all. */
static bool is_empty(const struct importer *importer)
{
    for (uint32_t d = 0; d < importer->device_count; d++) {
        if (importer->devices[d].segments.count > 0) {
            return false;
        }
    }
    return importer->entry_count + importer->anomalies.unknown + importer->anomalies.malformed +
               importer->anomalies.annotations ==
           0;
}

static bool import(struct importer *importer, const struct pickle *pickle, struct trace **out)
{
    if (!read_root(importer, pickle->root)) {
        return false;
    }
    merge_devices(importer);
    if (is_empty(importer)) {
        return trace_say(importer->error, WEIR_ERR_INVALID, importer->path,
                         "the snapshot has no segments and no events: nothing was allocated on a GPU, or its history "
                         "was not recorded; call torch.cuda.memory._record_memory_history() before the allocations");
    }
    if (!add_header(importer) || !walk_back(importer) || !walk_forward(importer) || !settle_pad(importer)) {
        return false;
    }
    apply_pad(importer);
    struct trace *trace = importer->builder.trace;
    trace->clock = importer->has_time || importer->entry_count == 0 ? TRACE_CLOCK_NS : TRACE_CLOCK_ORDER;
    trace->expandable = trace->expandable || importer->expandable;
    return add_notes(importer) && add_recorded_note(importer) && keep_settings(importer, pickle->root) &&
           builder_finish(&importer->builder, out);
}

static void free_device(struct device *device)
{
    free(device->segments.items);
    free(device->live.list.items);
    free(device->reserved.list.items);
    free(device->mapped.items);
    id_map_free(&device->live.by_address);
    id_map_free(&device->reserved.by_address);
    id_map_free(&device->streams);
    id_map_free(&device->pools);
    id_map_free(&device->blocks);
}

static void free_importer(struct importer *importer)
{
    for (uint32_t d = 0; d < importer->device_count; d++) {
        free_device(&importer->devices[d]);
    }
    free(importer->devices);
    free(importer->entries);
    free(importer->requested);
    free(importer->block_stream);
    torch_tags_free(&importer->tags);
}

bool torch_snapshot_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                          struct trace_error *error)
{
    struct pickle pickle;
    if (!pickle_parse(source, &pickle, error)) {
        return false;
    }
    struct importer importer = {
        .error = error,
        .path = source->path,
        .walk = {.steps = source->size, .path = source->path, .error = error},
    };
    importer.tags = (struct torch_tags){.builder = &importer.builder, .walk = &importer.walk};
    bool done = builder_start(&importer.builder, source->path, limits, error);
    if (done) {
        done = import(&importer, &pickle, out);
        if (!done) {
            builder_drop(&importer.builder);
        }
    }
    free_importer(&importer);
    pickle_free(&pickle);
    return done;
}
