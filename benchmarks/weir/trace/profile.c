/* profile.c: makes a trace from the records of a profiler (profile.h has the rules).
 *
 * profile_finish takes these steps: it gives work the host time of its launch, sorts by time, finds the devices that
 * have memory, sweeps over the ranges for tags, finds streams in a backward and a forward pass, pairs frees with
 * allocations, and writes the events.
 */
#include "profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_ITEM UINT32_MAX
#define NO_DEVICE UINT32_MAX
#define MOST_RECORDS (UINT32_MAX - 1)
#define SHOWN_NAME 200
#define SHOWN_STREAMS 12

struct name {
    const char *text;
    uint32_t tag; /* tag in the trace; WEIR_TRACE_NONE until an event uses the name */
};

struct stream {
    uint64_t number; /* stream number in the file */
    uint64_t works;
    uint32_t device;
    uint32_t index; /* stream number in the trace; WEIR_TRACE_NONE until an event uses the stream */
    bool has_memory;
};

struct call {
    int64_t time_ns;
    uint32_t thread;
    uint32_t name;
};

struct range {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t thread;
    uint32_t name;
    uint32_t order;
    uint32_t outer; /* enclosing range; valid while the sweep over the ranges is inside this range */
};

struct space {
    uint64_t process;
    uint32_t device;
    struct id_map live; /* key -> item of the allocation */
};

struct thread {
    uint32_t number; /* thread number in the trace; WEIR_TRACE_NONE until an event uses the thread */
    uint32_t range;  /* during the sweep over the ranges: the innermost open range */
    uint32_t stream; /* during a pass over the events: stream of the latest work of this thread */
};

struct profile {
    struct trace_builder builder;
    struct trace_error *error;
    const char *path;
    struct profile_options options;
    struct arena arena; /* names */

    struct name *names;
    size_t name_count;
    size_t name_capacity;
    struct id_map name_by_hash;

    struct stream *streams;
    size_t stream_count;
    size_t stream_capacity;
    struct id_map stream_by_key;

    struct thread *threads;
    size_t thread_count;
    size_t thread_capacity;
    struct id_map thread_by_key;

    struct space *spaces;
    size_t space_count;
    size_t space_capacity;
    struct id_map space_by_hash;

    struct profile_item *items;
    size_t item_count;
    size_t item_capacity;

    struct call *calls;
    size_t call_count;
    size_t call_capacity;
    struct id_map call_by_correlation;

    struct range *ranges;
    size_t range_count;
    size_t range_capacity;

    struct id_map object_by_key; /* event objects that the trace names */
    uint32_t object_count;
    struct id_map device_used; /* set of the devices that have memory records */
    size_t device_count;
    uint32_t only_device;
    uint32_t used_streams; /* number of streams that events of the trace use */
    uint32_t used_threads;

    struct before before;
    uint64_t unnamed_bytes; /* live before the recording, and in no record of the file */
    uint64_t stayed_bytes;  /* of them, and of the blocks that the file frees, those that are not freed */

    uint32_t block_count;
    uint64_t prior_bytes;
    uint64_t priors;
    uint64_t implied_frees;
    uint64_t lone_frees;
    uint64_t unlaunched;
    uint64_t elsewhere;
    uint64_t guessed;
};

/* --- records of the readers --- */

/* Signed times as unsigned numbers of the same order, and back. */
static uint64_t time_order(int64_t time_ns)
{
    return (uint64_t)time_ns ^ UINT64_C(1) << 63;
}

static int64_t time_of_order(uint64_t order)
{
    return (int64_t)(order ^ UINT64_C(1) << 63);
}

bool profile_no_memory(struct profile *profile)
{
    return trace_say(profile->error, WEIR_ERR_NO_MEMORY, profile->path, "out of memory");
}

bool profile_start(struct profile **out, const char *path, const struct profile_options *options,
                   const struct trace_limits *limits, struct trace_error *error)
{
    struct profile *profile = calloc(1, sizeof(*profile));
    if (profile == NULL) {
        return trace_say(error, WEIR_ERR_NO_MEMORY, path, "out of memory");
    }
    profile->error = error;
    profile->path = path;
    profile->options = *options;
    if (!builder_start(&profile->builder, path, limits, error)) {
        free(profile);
        return false;
    }
    *out = profile;
    return true;
}

void profile_drop(struct profile *profile)
{
    if (profile == NULL) {
        return;
    }
    for (size_t i = 0; i < profile->space_count; i++) {
        id_map_free(&profile->spaces[i].live);
    }
    builder_drop(&profile->builder);
    arena_free(&profile->arena);
    id_map_free(&profile->name_by_hash);
    id_map_free(&profile->stream_by_key);
    id_map_free(&profile->thread_by_key);
    id_map_free(&profile->space_by_hash);
    id_map_free(&profile->call_by_correlation);
    id_map_free(&profile->object_by_key);
    id_map_free(&profile->device_used);
    before_free(&profile->before);
    free(profile->names);
    free(profile->streams);
    free(profile->threads);
    free(profile->spaces);
    free(profile->items);
    free(profile->calls);
    free(profile->ranges);
    free(profile);
}

/* Makes room for an element in the array `name`s of the profile. Without memory the calling function returns false. */
#define NEED(profile, name)                                                                                            \
    do {                                                                                                               \
        void *grown = grow_array((profile)->name##s, (profile)->name##_count, &(profile)->name##_capacity,             \
                                 sizeof(*(profile)->name##s));                                                         \
        if (grown == NULL) {                                                                                           \
            return profile_no_memory(profile);                                                                         \
        }                                                                                                              \
        (profile)->name##s = grown;                                                                                    \
    } while (0)

bool profile_name(struct profile *profile, const char *text, size_t length, uint32_t *name)
{
    char shown[SHOWN_NAME + 8];
    *name = WEIR_TRACE_NONE;
    length = trimmed_length(text, length);
    if (length == 0) {
        return true;
    }
    trace_quote(shown, SHOWN_NAME, text, length);
    const size_t shown_length = strlen(shown);
    const uint64_t hash = trace_hash(shown, shown_length);
    if (id_map_get(&profile->name_by_hash, hash, name) && strcmp(profile->names[*name].text, shown) == 0) {
        return true;
    }
    NEED(profile, name);
    char *copy = arena_text(&profile->arena, shown, shown_length);
    *name = (uint32_t)profile->name_count;
    if (copy == NULL || !id_map_put(&profile->name_by_hash, hash, *name)) {
        return profile_no_memory(profile);
    }
    profile->names[profile->name_count++] = (struct name){.text = copy, .tag = WEIR_TRACE_NONE};
    return true;
}

bool profile_thread(struct profile *profile, uint64_t key, uint32_t *thread)
{
    if (id_map_get(&profile->thread_by_key, key, thread)) {
        return true;
    }
    if (profile->thread_count >= TRACE_MAX_THREADS) {
        return trace_say(profile->error, WEIR_ERR_LIMIT, profile->path, "more than %u host threads, which is the limit",
                         TRACE_MAX_THREADS);
    }
    NEED(profile, thread);
    *thread = (uint32_t)profile->thread_count;
    if (!id_map_put(&profile->thread_by_key, key, *thread)) {
        return profile_no_memory(profile);
    }
    profile->threads[profile->thread_count++] =
        (struct thread){.number = WEIR_TRACE_NONE, .range = NO_ITEM, .stream = WEIR_TRACE_NONE};
    return true;
}

bool profile_stream(struct profile *profile, uint32_t device, uint64_t number, uint32_t *stream)
{
    const uint64_t key = (uint64_t)device << 52 | (number & PROFILE_MAX_STREAM);
    if (id_map_get(&profile->stream_by_key, key, stream)) {
        return true;
    }
    if (profile->stream_count >= TRACE_MAX_STREAMS) {
        return trace_say(profile->error, WEIR_ERR_LIMIT, profile->path, "more than %u streams, which is the limit",
                         TRACE_MAX_STREAMS);
    }
    NEED(profile, stream);
    *stream = (uint32_t)profile->stream_count;
    if (!id_map_put(&profile->stream_by_key, key, *stream)) {
        return profile_no_memory(profile);
    }
    profile->streams[profile->stream_count++] =
        (struct stream){.number = number, .device = device, .index = WEIR_TRACE_NONE};
    return true;
}

bool profile_space(struct profile *profile, uint64_t process, uint32_t device, uint32_t *space)
{
    const uint64_t hash = (process ^ (uint64_t)device << 52) * UINT64_C(0x9E3779B97F4A7C15);
    if (id_map_get(&profile->space_by_hash, hash, space) && profile->spaces[*space].process == process &&
        profile->spaces[*space].device == device) {
        return true;
    }
    if (profile->space_count >= PROFILE_MAX_SPACES) {
        return trace_say(profile->error, WEIR_ERR_LIMIT, profile->path,
                         "more than %u pairs of a process and a device, which is the limit", PROFILE_MAX_SPACES);
    }
    NEED(profile, space);
    *space = (uint32_t)profile->space_count;
    if (!id_map_put(&profile->space_by_hash, hash, *space)) {
        return profile_no_memory(profile);
    }
    profile->spaces[profile->space_count++] = (struct space){.process = process, .device = device};
    return true;
}

bool profile_add(struct profile *profile, struct profile_item item)
{
    if (profile->item_count >= MOST_RECORDS) {
        return trace_say(profile->error, WEIR_ERR_LIMIT, profile->path, "more than 2^32 records, which is the limit");
    }
    NEED(profile, item);
    item.order = (uint32_t)profile->item_count;
    item.block = NO_ITEM;
    item.launched = false;
    item.prior = false;
    item.unnamed = false;
    item.dropped = false;
    profile->items[profile->item_count++] = item;
    return true;
}

bool profile_total(struct profile *profile, int64_t time_ns, int64_t change, uint64_t total)
{
    return before_add(&profile->before, time_order(time_ns), change, total) || profile_no_memory(profile);
}

bool profile_launch(struct profile *profile, uint64_t correlation, int64_t time_ns, uint32_t thread, uint32_t name)
{
    if (correlation == 0) {
        return true;
    }
    NEED(profile, call);
    if (profile->call_count >= MOST_RECORDS ||
        !id_map_put(&profile->call_by_correlation, correlation, (uint32_t)profile->call_count)) {
        return profile_no_memory(profile);
    }
    profile->calls[profile->call_count++] = (struct call){.time_ns = time_ns, .thread = thread, .name = name};
    return true;
}

bool profile_has_launch(const struct profile *profile, uint64_t correlation)
{
    uint32_t any;
    return id_map_get(&profile->call_by_correlation, correlation, &any);
}

bool profile_range(struct profile *profile, uint32_t thread, int64_t start_ns, int64_t end_ns, uint32_t name)
{
    NEED(profile, range);
    if (profile->range_count >= MOST_RECORDS) {
        return profile_no_memory(profile);
    }
    profile->ranges[profile->range_count] = (struct range){
        .start_ns = start_ns,
        .end_ns = end_ns,
        .thread = thread,
        .name = name,
        .order = (uint32_t)profile->range_count,
    };
    profile->range_count++;
    return true;
}

bool profile_note(struct profile *profile, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return builder_note(&profile->builder, text, strlen(text));
}

bool profile_note_count(struct profile *profile, uint64_t count, const char *text)
{
    return builder_note_count(&profile->builder, count, text);
}

/* --- order --- */

static bool takes_memory(const struct profile_item *item)
{
    return item->kind == PROFILE_ALLOC || item->kind == PROFILE_FREE;
}

/* True for a lone free: the file has no allocation for it. The first lone free of a key shows that its block was live
 * before the recording; a later one repeats a free. */
static bool is_lone(const struct profile_item *item)
{
    return item->kind == PROFILE_FREE && item->block == NO_ITEM;
}

/* Copies data of the host call that caused a record: work and waits get its time, memory gets its name as a tag. */
static void apply_call(struct profile_item *item, const struct call *call)
{
    item->thread = call->thread;
    if (!takes_memory(item)) {
        item->time_ns = call->time_ns;
        item->launched = true;
    } else if (item->name == WEIR_TRACE_NONE) {
        item->name = call->name;
    }
}

static void apply_calls(struct profile *profile)
{
    for (size_t i = 0; i < profile->item_count; i++) {
        struct profile_item *item = &profile->items[i];
        uint32_t found;
        if (item->kind == PROFILE_COUNTERS) {
            continue;
        }
        if (item->extra != 0 && id_map_get(&profile->call_by_correlation, item->extra, &found)) {
            apply_call(item, &profile->calls[found]);
        } else {
            profile->unlaunched += item->kind == PROFILE_WORK;
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const struct profile_item *left = a;
    const struct profile_item *right = b;
    if (left->time_ns != right->time_ns) {
        return left->time_ns < right->time_ns ? -1 : 1;
    }
    return left->order < right->order ? -1 : left->order > right->order;
}

/* Orders ranges by start. Of ranges that start together the longest comes first, because it encloses the shorter
 * ones. */
static int by_start(const void *a, const void *b)
{
    const struct range *left = a;
    const struct range *right = b;
    if (left->start_ns != right->start_ns) {
        return left->start_ns < right->start_ns ? -1 : 1;
    }
    if (left->end_ns != right->end_ns) {
        return left->end_ns > right->end_ns ? -1 : 1;
    }
    return left->order < right->order ? -1 : left->order > right->order;
}

/* --- devices --- */

static bool find_devices(struct profile *profile)
{
    for (size_t i = 0; i < profile->item_count; i++) {
        uint32_t any;
        const struct profile_item *item = &profile->items[i];
        if (takes_memory(item) && !id_map_get(&profile->device_used, item->device, &any)) {
            if (!id_map_put(&profile->device_used, item->device, 0)) {
                return profile_no_memory(profile);
            }
            profile->only_device = item->device;
            profile->device_count++;
        }
    }
    return true;
}

/* Returns the only device of the work, or NO_DEVICE if work is on several devices or there is none. */
static uint32_t only_device_of_work(const struct profile *profile)
{
    uint32_t device = NO_DEVICE;
    for (size_t i = 0; i < profile->item_count; i++) {
        const struct profile_item *item = &profile->items[i];
        if (item->kind != PROFILE_WORK || item->device == device) {
            continue;
        }
        if (device != NO_DEVICE) {
            return NO_DEVICE;
        }
        device = item->device;
    }
    return device;
}

/* Gives the work and its streams the device of the memory, if the file numbers the two differently and has one device
 * of each. */
static bool join_agent(struct profile *profile)
{
    const uint32_t agent = only_device_of_work(profile);
    if (!profile->options.agents || profile->device_count != 1 || agent == NO_DEVICE || agent == profile->only_device) {
        return true;
    }
    for (size_t i = 0; i < profile->item_count; i++) {
        struct profile_item *item = &profile->items[i];
        item->device = item->device == agent ? profile->only_device : item->device;
    }
    for (size_t i = 0; i < profile->stream_count; i++) {
        struct stream *stream = &profile->streams[i];
        stream->device = stream->device == agent ? profile->only_device : stream->device;
    }
    return profile_note(profile,
                        "work is on device %" PRIu32 " of the file and memory on device %" PRIu32
                        ", as ROCm numbers them: they are taken for one device",
                        agent, profile->only_device);
}

/* True if the trace can tell the device of the stream. A line of a trace binds a stream to a device when the stream
 * allocates; a stream that never allocates belongs to the device if there is only one. */
static bool shows_device(const struct profile *profile, const struct stream *stream)
{
    return profile->device_count == 1 ? stream->device == profile->only_device : stream->has_memory;
}

/* Leaves out work and waits of devices without memory records, and of streams if the trace cannot tell their device. */
static void drop_elsewhere(struct profile *profile)
{
    for (size_t i = 0; i < profile->item_count; i++) {
        const struct profile_item *item = &profile->items[i];
        if (!item->dropped && (item->kind == PROFILE_ALLOC || is_lone(item))) {
            profile->streams[item->stream].has_memory = true;
        }
    }
    for (size_t i = 0; i < profile->item_count; i++) {
        struct profile_item *item = &profile->items[i];
        if (takes_memory(item)) {
            continue;
        }
        if (item->kind == PROFILE_COUNTERS || item->kind == PROFILE_SYNC_DEVICE) {
            item->dropped = profile->device_count != 1;
        } else if (item->stream != WEIR_TRACE_NONE && !shows_device(profile, &profile->streams[item->stream])) {
            item->dropped = true;
            profile->elsewhere++;
        }
    }
}

/* --- tags --- */

/* Closes the ranges of a thread that end before `time`, and returns the innermost open one. */
static uint32_t close_ranges(struct profile *profile, uint32_t thread, int64_t time)
{
    uint32_t *top = &profile->threads[thread].range;
    while (*top != NO_ITEM && profile->ranges[*top].end_ns < time) {
        *top = profile->ranges[*top].outer;
    }
    return *top;
}

static void find_tags(struct profile *profile)
{
    size_t next = 0;
    if (profile->range_count > 1) {
        qsort(profile->ranges, profile->range_count, sizeof(*profile->ranges), by_start);
    }
    for (size_t i = 0; i < profile->item_count; i++) {
        struct profile_item *item = &profile->items[i];
        if (item->kind != PROFILE_ALLOC) {
            continue;
        }
        for (; next < profile->range_count && profile->ranges[next].start_ns <= item->time_ns; next++) {
            struct range *range = &profile->ranges[next];
            range->outer = close_ranges(profile, range->thread, range->start_ns);
            profile->threads[range->thread].range = (uint32_t)next;
        }
        const uint32_t around = close_ranges(profile, item->thread, item->time_ns);
        item->name = around != NO_ITEM ? profile->ranges[around].name : item->name;
    }
}

/* --- memory from before the recording --- */

/* Adds the free of a block that only the totals of the file show, in a space of its own. */
static bool add_unnamed(void *ctx, uint64_t bytes, uint64_t freed)
{
    struct profile *profile = ctx;
    struct profile_item item = {.kind = PROFILE_FREE,
                                .device = profile->only_device,
                                .stream = WEIR_TRACE_NONE,
                                .name = WEIR_TRACE_NONE,
                                .size = bytes,
                                .key = profile->item_count};
    if (freed == BEFORE_NEVER) {
        profile->stayed_bytes = bytes;
        return true;
    }
    item.time_ns = time_of_order(freed);
    profile->unnamed_bytes += bytes;
    if (!profile_thread(profile, 0, &item.thread) || !profile_space(profile, UINT64_MAX, item.device, &item.space) ||
        !profile_add(profile, item)) {
        return false;
    }
    profile->items[profile->item_count - 1].unnamed = true;
    return true;
}

/* --- streams --- */

static void forget_streams(struct profile *profile)
{
    for (size_t i = 0; i < profile->thread_count; i++) {
        profile->threads[i].stream = WEIR_TRACE_NONE;
    }
}

static void visit_for_stream(struct profile *profile, struct profile_item *item)
{
    struct thread *thread = &profile->threads[item->thread];
    if (item->kind == PROFILE_WORK && item->launched) {
        thread->stream = item->stream;
    } else if (item->kind == PROFILE_ALLOC && item->stream == WEIR_TRACE_NONE && thread->stream != WEIR_TRACE_NONE &&
               profile->streams[thread->stream].device == item->device) {
        item->stream = thread->stream;
        profile->guessed++;
    }
}

/* Finds for each device the stream that runs the most work. */
static bool find_main_streams(struct profile *profile, struct id_map *main_of)
{
    for (size_t i = 0; i < profile->stream_count; i++) {
        const struct stream *stream = &profile->streams[i];
        uint32_t best;
        if ((!id_map_get(main_of, stream->device, &best) || stream->works > profile->streams[best].works) &&
            !id_map_put(main_of, stream->device, (uint32_t)i)) {
            return profile_no_memory(profile);
        }
    }
    return true;
}

/* Puts a record without a stream on the main stream of its device, or on stream 0 of a device without streams. */
static bool use_main_stream(struct profile *profile, struct id_map *main_of, struct profile_item *item)
{
    profile->guessed += item->kind == PROFILE_ALLOC;
    return id_map_get(main_of, item->device, &item->stream) ||
           (profile_stream(profile, item->device, 0, &item->stream) &&
            (id_map_put(main_of, item->device, item->stream) || profile_no_memory(profile)));
}

static bool use_main_streams(struct profile *profile)
{
    struct id_map main_of = {0}; /* device -> stream */
    bool done = find_main_streams(profile, &main_of);
    for (size_t i = 0; i < profile->item_count && done; i++) {
        struct profile_item *item = &profile->items[i];
        if ((item->kind == PROFILE_ALLOC || is_lone(item)) && item->stream == WEIR_TRACE_NONE) {
            done = use_main_stream(profile, &main_of, item);
        }
    }
    id_map_free(&main_of);
    return done;
}

static bool find_streams(struct profile *profile)
{
    for (size_t i = 0; i < profile->item_count; i++) {
        const struct profile_item *item = &profile->items[i];
        if (item->kind == PROFILE_WORK) {
            profile->streams[item->stream].works++;
        }
    }
    forget_streams(profile);
    for (size_t i = profile->item_count; i-- > 0;) {
        visit_for_stream(profile, &profile->items[i]);
    }
    forget_streams(profile);
    for (size_t i = 0; i < profile->item_count; i++) {
        visit_for_stream(profile, &profile->items[i]);
    }
    return use_main_streams(profile);
}

/* --- blocks --- */

/* Pairs frees with allocations: a free's `block` becomes the index of its allocation, or stays NO_ITEM without one. */
static bool pair_blocks(struct profile *profile)
{
    for (size_t i = 0; i < profile->item_count; i++) {
        struct profile_item *item = &profile->items[i];
        struct id_map *live = takes_memory(item) ? &profile->spaces[item->space].live : NULL;
        if (live != NULL && item->kind == PROFILE_ALLOC) {
            if (!id_map_put(live, item->key, (uint32_t)i)) {
                return profile_no_memory(profile);
            }
        } else if (live != NULL) {
            uint32_t from;
            if (id_map_get(live, item->key, &from)) {
                item->block = from;
                id_map_remove(live, item->key);
            }
        }
    }
    return true;
}

static void forget_live(struct profile *profile)
{
    for (size_t i = 0; i < profile->space_count; i++) {
        id_map_free(&profile->spaces[i].live);
    }
}

/* --- events --- */

static weir_trace_event make_event(const struct profile *profile, weir_trace_kind kind, const struct profile_item *item)
{
    weir_trace_event event = blank_event(kind);
    event.time_ns = (uint64_t)item->time_ns - (uint64_t)profile->items[0].time_ns;
    return event;
}

static bool tag_of(struct profile *profile, uint32_t name, uint32_t *tag)
{
    *tag = WEIR_TRACE_NONE;
    if (name == WEIR_TRACE_NONE) {
        return true;
    }
    struct name *entry = &profile->names[name];
    if (entry->tag == WEIR_TRACE_NONE &&
        !builder_tag(&profile->builder, entry->text, strlen(entry->text), &entry->tag)) {
        return false;
    }
    *tag = entry->tag;
    return true;
}

/* Numbers the streams and threads of the trace in the order in which its events name them. */
static uint32_t stream_number(struct profile *profile, uint32_t stream)
{
    struct stream *entry = &profile->streams[stream];
    if (entry->index == WEIR_TRACE_NONE) {
        entry->index = profile->used_streams++;
    }
    return entry->index;
}

static uint32_t thread_number(struct profile *profile, uint32_t thread)
{
    struct thread *entry = &profile->threads[thread];
    if (entry->number == WEIR_TRACE_NONE) {
        entry->number = profile->used_threads++;
    }
    return entry->number;
}

static bool object_number(struct profile *profile, uint64_t key, uint32_t *object)
{
    if (id_map_get(&profile->object_by_key, key, object)) {
        return true;
    }
    *object = profile->object_count++;
    return id_map_put(&profile->object_by_key, key, *object) || profile_no_memory(profile);
}

/* Sets *tag to the tag of the memory from before the recording. */
static bool before_tag(struct profile *profile, uint32_t *tag)
{
    uint32_t name;
    return profile_name(profile, BEFORE_TAG, strlen(BEFORE_TAG), &name) && tag_of(profile, name, tag);
}

static bool emit_block(struct profile *profile, weir_trace_kind kind, struct profile_item *item)
{
    weir_trace_event event = make_event(profile, kind, item);
    const uint32_t block = profile->block_count++;
    event.id = block;
    event.device = item->device;
    event.size = item->size;
    event.address = profile->options.addresses && !item->unnamed ? item->key : 0;
    event.stream = stream_number(profile, item->stream);
    if (kind == WEIR_TRACE_PRIOR) {
        event.time_ns = 0;
        if (item->unnamed && !before_tag(profile, &event.tag)) {
            return false;
        }
    } else {
        event.thread = thread_number(profile, item->thread);
        if (!tag_of(profile, item->name, &event.tag)) {
            return false;
        }
    }
    item->block = block;
    return builder_event(&profile->builder, &event, block, TRACE_NO_INDEX, true);
}

static bool emit_free(struct profile *profile, const struct profile_item *item, uint32_t block, uint32_t stream)
{
    weir_trace_event event = make_event(profile, WEIR_TRACE_FREE, item);
    event.id = block;
    event.stream = stream_number(profile, stream);
    event.thread = thread_number(profile, item->thread);
    return builder_event(&profile->builder, &event, block, TRACE_NO_INDEX, false);
}

static int by_device_and_key(const void *a, const void *b)
{
    const struct profile_item *left = *(struct profile_item *const *)a;
    const struct profile_item *right = *(struct profile_item *const *)b;
    if (left->device != right->device) {
        return left->device < right->device ? -1 : 1;
    }
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return left->order < right->order ? -1 : 1;
}

/* Marks frees without an allocation if the file freed or allocated their key before: they repeat a free and are left
 * out. */
static bool drop_repeated_frees(struct profile *profile)
{
    forget_live(profile);
    for (size_t i = 0; i < profile->item_count; i++) {
        struct profile_item *item = &profile->items[i];
        uint32_t any;
        if (!takes_memory(item)) {
            continue;
        }
        struct id_map *seen = &profile->spaces[item->space].live;
        const bool known = id_map_get(seen, item->key, &any);
        if (is_lone(item) && (known || !profile->options.lone_frees || item->size == 0)) {
            item->dropped = true;
            profile->lone_frees++;
        }
        if (!known && !id_map_put(seen, item->key, 0)) {
            return profile_no_memory(profile);
        }
    }
    return true;
}

/* Emits a block for the memory that was live before the recording and is not freed. The totals count the blocks too
 * that the file frees. The block is on the stream that runs most work. */
static bool emit_stayed(struct profile *profile)
{
    struct id_map main_of = {0};
    struct profile_item item = {
        .kind = PROFILE_FREE, .device = profile->only_device, .stream = WEIR_TRACE_NONE, .unnamed = true};
    if (profile->stayed_bytes <= profile->prior_bytes) {
        return true;
    }
    item.size = profile->stayed_bytes - profile->prior_bytes;
    profile->unnamed_bytes += item.size;
    const bool done = find_main_streams(profile, &main_of) && use_main_stream(profile, &main_of, &item) &&
                      emit_block(profile, WEIR_TRACE_PRIOR, &item);
    id_map_free(&main_of);
    return done;
}

static bool emit_priors(struct profile *profile)
{
    size_t count = 0;
    for (size_t i = 0; i < profile->item_count; i++) {
        count += is_lone(&profile->items[i]) && !profile->items[i].dropped;
    }
    struct profile_item **priors = malloc((count + 1) * sizeof(struct profile_item *));
    if (priors == NULL) {
        return profile_no_memory(profile);
    }
    count = 0;
    for (size_t i = 0; i < profile->item_count; i++) {
        if (is_lone(&profile->items[i]) && !profile->items[i].dropped) {
            priors[count++] = &profile->items[i];
        }
    }
    qsort(priors, count, sizeof(struct profile_item *), by_device_and_key);
    bool done = true;
    for (size_t i = 0; i < count && done; i++) {
        profile->prior_bytes += priors[i]->unnamed ? 0 : priors[i]->size;
        profile->priors += !priors[i]->unnamed;
        /* emit_block stores the block's number in the item of its free, where emit_memory reads it */
        done = emit_block(profile, WEIR_TRACE_PRIOR, priors[i]);
        priors[i]->prior = true;
    }
    free(priors);
    return done && emit_stayed(profile);
}

/* If the item allocates at the address of a live block, emits a free of that block first. */
static bool free_before(struct profile *profile, const struct profile_item *item)
{
    uint32_t old;
    struct id_map *live = &profile->spaces[item->space].live;
    if (!id_map_get(live, item->key, &old)) {
        return true;
    }
    profile->implied_frees++;
    return emit_free(profile, item, profile->items[old].block, profile->items[old].stream);
}

static bool emit_memory(struct profile *profile, size_t i)
{
    struct profile_item *item = &profile->items[i];
    struct id_map *live = &profile->spaces[item->space].live;
    if (item->kind == PROFILE_ALLOC) {
        return free_before(profile, item) && emit_block(profile, WEIR_TRACE_ALLOC, item) &&
               (id_map_put(live, item->key, (uint32_t)i) || profile_no_memory(profile));
    }
    if (item->prior) { /* frees a block that was live before the recording */
        return emit_free(profile, item, item->block, item->stream);
    }
    const struct profile_item *birth = &profile->items[item->block];
    id_map_remove(live, item->key);
    return emit_free(profile, item, birth->block, item->stream != WEIR_TRACE_NONE ? item->stream : birth->stream);
}

static bool emit_work(struct profile *profile, const struct profile_item *item)
{
    weir_trace_event event = make_event(profile, WEIR_TRACE_WORK, item);
    event.stream = stream_number(profile, item->stream);
    event.size = item->size;
    return tag_of(profile, item->name, &event.tag) &&
           builder_event(&profile->builder, &event, TRACE_NO_INDEX, TRACE_NO_INDEX, false);
}

static bool emit_order(struct profile *profile, weir_trace_kind kind, char mode, const struct profile_item *item)
{
    uint32_t object = TRACE_NO_INDEX;
    weir_trace_event event = make_event(profile, kind, item);
    event.mode = mode;
    if (item->stream != WEIR_TRACE_NONE && mode != 'e') {
        event.stream = stream_number(profile, item->stream);
    }
    if (mode == 0 || mode == 'e') {
        if (!object_number(profile, item->key, &object)) {
            return false;
        }
        event.id = object;
    }
    return builder_event(&profile->builder, &event, object, TRACE_NO_INDEX, false);
}

static bool emit_counters(struct profile *profile, const struct profile_item *item)
{
    weir_trace_event event = make_event(profile, WEIR_TRACE_COUNTERS, item);
    event.size = item->size;
    event.extra = item->extra;
    return builder_event(&profile->builder, &event, TRACE_NO_INDEX, TRACE_NO_INDEX, false);
}

static bool emit_item(struct profile *profile, size_t i)
{
    const struct profile_item *item = &profile->items[i];
    switch ((enum profile_kind)item->kind) {
    case PROFILE_ALLOC:
    case PROFILE_FREE:
        return emit_memory(profile, i);
    case PROFILE_WORK:
        return emit_work(profile, item);
    case PROFILE_RECORD:
        return emit_order(profile, WEIR_TRACE_RECORD, 0, item);
    case PROFILE_WAIT:
        return emit_order(profile, WEIR_TRACE_WAIT, 0, item);
    case PROFILE_SYNC_DEVICE:
        return emit_order(profile, WEIR_TRACE_SYNC, '*', item);
    case PROFILE_SYNC_STREAM:
        return emit_order(profile, WEIR_TRACE_SYNC, 's', item);
    case PROFILE_SYNC_EVENT:
        return emit_order(profile, WEIR_TRACE_SYNC, 'e', item);
    case PROFILE_COUNTERS:
        break;
    }
    return emit_counters(profile, item);
}

static bool emit_all(struct profile *profile)
{
    if (!emit_priors(profile)) {
        return false;
    }
    forget_live(profile);
    for (size_t i = 0; i < profile->item_count; i++) {
        if (!profile->items[i].dropped && !emit_item(profile, i)) {
            return false;
        }
    }
    return true;
}

/* --- notes --- */

static bool note_streams(struct profile *profile)
{
    char text[SHOWN_STREAMS * 48 + 16] = "";
    size_t used = 0;
    uint32_t shown = 0;
    for (uint32_t want = 0; want < profile->used_streams && shown < SHOWN_STREAMS; want++) {
        for (size_t i = 0; i < profile->stream_count; i++) {
            if (profile->streams[i].index == want) {
                used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%" PRIu32 " = %" PRIu64,
                                         shown++ > 0 ? ", " : "", want, profile->streams[i].number);
                break;
            }
        }
    }
    return shown == 0 ||
           profile_note(profile, "streams of the file: %s%s", text, profile->used_streams > shown ? ", ..." : "");
}

static bool add_notes(struct profile *profile)
{
    if (profile->priors > 0 &&
        !profile_note(profile, "%" PRIu64 " blocks of %" PRIu64 " bytes were live before the window and freed in it",
                      profile->priors, profile->prior_bytes)) {
        return false;
    }
    return profile_note_count(profile, profile->unnamed_bytes,
                              "bytes were live before the recording and have no records: the totals of the file show "
                              "them") &&
           note_streams(profile) &&
           profile_note_count(
               profile, profile->guessed,
               profile->call_count > 0
                   ? "allocations have no stream in the file: each is on the stream of the next work that "
                     "its thread launches, else of the last, else of most work"
                   : "allocations have no stream in the file: each is on the stream of its device that "
                     "runs most work") &&
           profile_note_count(profile, profile->unlaunched,
                              "kernels and copies without their launch: each is at the time at which it ran") &&
           profile_note_count(profile, profile->elsewhere,
                              "kernels, copies and waits left out: their stream is of a device without memory events, "
                              "or of one of several devices and without allocations") &&
           profile_note_count(profile, profile->implied_frees,
                              "frees added where an address was handed out while its block was live") &&
           profile_note_count(profile, profile->lone_frees, "frees of blocks that were not live left out");
}

static bool add_source(struct profile *profile)
{
    char name[300];
    char text[360];
    const char *base = strrchr(profile->path, '/');
    base = base != NULL ? base + 1 : profile->path;
    trace_quote(name, sizeof(name), base, strlen(base));
    const int length = snprintf(text, sizeof(text), "%s %s", profile->options.format, name);
    return builder_source(&profile->builder, text, (size_t)length);
}

/* --- the whole --- */

static bool build(struct profile *profile, struct trace **out)
{
    if (!find_devices(profile)) {
        return false;
    }
    if (profile->device_count == 0) {
        return trace_say(profile->error, WEIR_ERR_INVALID, profile->path, "%s", profile->options.no_memory);
    }
    if (!join_agent(profile)) {
        return false;
    }
    apply_calls(profile);
    if (profile->device_count == 1 && !before_find(&profile->before, add_unnamed, profile)) {
        return false;
    }
    if (profile->item_count > 1) {
        qsort(profile->items, profile->item_count, sizeof(*profile->items), by_time);
    }
    find_tags(profile);
    if (!pair_blocks(profile) || !find_streams(profile) || !drop_repeated_frees(profile)) {
        return false;
    }
    drop_elsewhere(profile);
    return emit_all(profile) && add_source(profile) && add_notes(profile) && builder_finish(&profile->builder, out);
}

bool profile_finish(struct profile *profile, struct trace **out)
{
    const bool done = build(profile, out);
    profile_drop(profile);
    return done;
}
