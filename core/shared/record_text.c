/* core/shared/record_text.c: see record_text.h. `weir record` compiles this source too. */
#include "record_text.h"

#include "shared/assert.h"
#include "shared/cancel.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define LINE_BYTES 512u /* longer than any line that this file writes */

/* --- lines --- */

/* Passes the text to the sink. If the sink refuses, the events in the text are lost, and so are all later ones. */
bool weir__record_text_flush(weir__record_text *text)
{
    if (text->length != 0 && !text->sink_failed) {
        text->sink_failed = !UNCANCELLED(text->sink(text->sink_ctx, text->text, text->length));
    }
    if (text->sink_failed) {
        text->lost += text->events_in_text;
    }
    text->length = 0;
    text->events_in_text = 0;
    return !text->sink_failed;
}

/* Returns the end of the text, with room for a line of LINE_BYTES. */
static char *room(weir__record_text *text)
{
    WEIR_ASSERT(text->length <= WEIR__TEXT_BYTES);
    if (WEIR__TEXT_BYTES - text->length < LINE_BYTES) {
        (void)weir__record_text_flush(text);
    }
    WEIR_ASSERT(WEIR__TEXT_BYTES - text->length >= LINE_BYTES);
    return text->text + text->length;
}

__attribute__((format(printf, 2, 3))) static void add(weir__record_text *text, const char *format, ...)
{
    char *const line = room(text);
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, LINE_BYTES, format, arguments);
    va_end(arguments);
    if (length > 0) {
        text->length += (size_t)length < LINE_BYTES ? (size_t)length : LINE_BYTES - 1;
    }
}

/* Counts live bytes and their peak. During a realloc both blocks count. If there is no memory to enter a block's size
 * into `sizes`, the block is not counted. */
static void count_bytes(weir__record_text *text, const weir_trace_event *event)
{
    WEIR_ASSERT(text->counts_bytes);
    const bool moves = event->kind == WEIR_TRACE_REALLOC;
    const bool begins = event->kind == WEIR_TRACE_PRIOR || event->kind == WEIR_TRACE_ALLOC || moves;
    if (begins && event->size != 0 && weir__number_map_put(&text->sizes, event->id, event->size)) {
        text->live_bytes += event->size;
        text->peak_bytes = text->live_bytes > text->peak_bytes ? text->live_bytes : text->peak_bytes;
    }
    if (moves || event->kind == WEIR_TRACE_FREE) {
        text->live_bytes -= weir__number_map_take(&text->sizes, moves ? event->old_id : event->id);
    }
}

static void add_event(weir__record_text *text, const weir_trace_event *event)
{
    if (text->counts_bytes) {
        count_bytes(text, event);
    }
    text->events_added++;
    char *const line = room(text);
    text->length += weir_trace_format(event, line, LINE_BYTES);
    WEIR_ASSERT(text->length <= WEIR__TEXT_BYTES);
    text->events_in_text += event->kind != WEIR_TRACE_PRIOR;
}

/* --- numbers of the recording threads become numbers of the trace --- */

/* Numbers keys in the order of first appearance, from 0. Returns false when out of memory. */
static bool renumber(weir__number_map *numbers, uint64_t key, uint64_t *number)
{
    uint64_t found = weir__number_map_get(numbers, key);
    if (found == 0) {
        found = numbers->count + 1;
        if (!weir__number_map_put(numbers, key, found)) {
            return false;
        }
    }
    WEIR_ASSERT(found != 0 && found <= numbers->count);
    *number = found - 1;
    return true;
}

static bool renumber_stream(weir__record_text *text, uint32_t stream, uint32_t *number)
{
    uint64_t found = WEIR_TRACE_NONE;
    if (stream != WEIR_TRACE_NONE && !renumber(&text->streams, stream, &found)) {
        return false;
    }
    *number = (uint32_t)found;
    return true;
}

/* Numbers a tag. The tag's own line comes before the first event that has the tag. */
static bool renumber_tag(weir__record_text *text, uint32_t tag, uint32_t *number)
{
    const size_t known = text->tags.count;
    uint64_t found = WEIR_TRACE_NONE;
    if (tag != 0 && text->tag_name != NULL && !renumber(&text->tags, tag, &found)) {
        return false;
    }
    if (text->tags.count > known) {
        add(text, "@%" PRIu64 " %s\n", found, text->tag_name(text->pool, tag));
    }
    *number = (uint32_t)found;
    return true;
}

/* Numbers a device. The device's own line comes before the first event that names the device. */
static bool renumber_device(weir__record_text *text, uint16_t device, uint32_t *number)
{
    const size_t known = text->devices.count;
    uint64_t found = device;
    if (text->device_name != NULL && !renumber(&text->devices, device, &found)) {
        return false;
    }
    if (text->devices.count > known) {
        add(text, "#dev %" PRIu64 " name=\"%s\"\n", found, text->device_name(device));
    }
    *number = (uint32_t)found;
    return true;
}

/* --- live blocks --- */

typedef enum verdict {
    WRITE, /* the event is the next line */
    KNOWN, /* the trace needs no line for this event, or another event will write one */
    DROP   /* the event is not valid at this point of the trace, and is lost */
} verdict;

/* Writes a free for a block whose free event was lost. The loss becomes known when an alloc reports another block under
 * the same name (its address, as a rule), or when a realloc of the block has no record of its result. */
static void end_life(weir__record_text *text, uint64_t number, const weir_trace_event *line)
{
    WEIR_ASSERT(number < text->blocks);
    const weir_trace_event end = {.kind = WEIR_TRACE_FREE,
                                  .stream = WEIR_TRACE_NONE,
                                  .tag = WEIR_TRACE_NONE,
                                  .pool = WEIR_TRACE_NONE,
                                  .thread = line->thread,
                                  .time_ns = line->time_ns,
                                  .id = number};
    add_event(text, &end);
    text->events_in_text--; /* this free was not recorded, so it does not count as an event */
}

/* Gives the block with the recorded name `id` a new number in the trace, and stores the number in line->id. */
static verdict begin_life(weir__record_text *text, uint64_t id, weir_trace_event *line)
{
    WEIR_ASSERT(line->kind == WEIR_TRACE_PRIOR || line->kind == WEIR_TRACE_ALLOC || line->kind == WEIR_TRACE_REALLOC);
    const uint64_t known = weir__number_map_get(&text->live, id);
    if (known != 0 && line->kind == WEIR_TRACE_PRIOR) {
        return KNOWN;
    }
    line->id = text->blocks;
    if (!weir__number_map_put(&text->live, id, line->id + 1)) {
        return DROP;
    }
    if (known != 0) {
        end_life(text, known - 1, line);
    }
    text->blocks++;
    return WRITE;
}

/* Records a realloc. If the trace does not know the old block, the result is written as an alloc. */
static verdict move(weir__record_text *text, uint64_t moved, const weir__record_entry *event, weir_trace_event *line)
{
    WEIR_ASSERT(event->kind == WEIR_TRACE_REALLOC && moved <= text->blocks);
    if (event->size < text->least_bytes) { /* the block shrinks below the least size that is recorded */
        *line = (weir_trace_event){.kind = WEIR_TRACE_FREE,
                                   .stream = line->stream,
                                   .tag = WEIR_TRACE_NONE,
                                   .pool = WEIR_TRACE_NONE,
                                   .thread = line->thread,
                                   .time_ns = line->time_ns,
                                   .id = moved - 1};
        return moved != 0 ? WRITE : KNOWN;
    }
    if (moved == 0) {
        line->kind = WEIR_TRACE_ALLOC;
        line->stream = line->stream != WEIR_TRACE_NONE ? line->stream : 0;
        line->extra = 0;
        return begin_life(text, event->id, line);
    }
    line->old_id = moved - 1;
    line->extra = 0;
    const verdict what = begin_life(text, event->id, line);
    if (what == DROP) {
        end_life(text, moved - 1, line);
    }
    return what;
}

static verdict account_realloc(weir__record_text *text, const weir__record_entry *event, weir_trace_event *line)
{
    WEIR_ASSERT(event->kind == WEIR_TRACE_REALLOC);
    uint64_t moved = 0;
    switch (event->mode) {
    case 'B':
        moved = weir__number_map_take(&text->live, event->extra);
        /* Without memory to note that the block moves, the block stays in `live`, and the second half of the realloc
         * finds it in that map. */
        if (moved != 0 && !weir__number_map_put(&text->moving, line->thread, moved)) {
            (void)weir__number_map_put(&text->live, event->extra, moved); /* cannot fail: the map has kept room */
        }
        return KNOWN;
    case 'E':
        moved = weir__number_map_take(&text->moving, line->thread);
        if (moved == 0 && event->id != 0) {
            moved = weir__number_map_take(&text->live, event->extra);
        }
        if (event->id == 0) { /* the realloc failed */
            return moved == 0 || weir__number_map_put(&text->live, event->extra, moved) ? KNOWN : DROP;
        }
        return move(text, moved, event, line);
    default:
        return move(text, weir__number_map_take(&text->live, event->extra), event, line);
    }
}

/* --- captures --- */

/* Writes the end of a capture whose end was lost: the capture of `pool` that is under way, if there is one. */
static void end_capture(weir__record_text *text, uint64_t pool, const weir_trace_event *line)
{
    const uint64_t stream = weir__number_map_take(&text->capturing, pool);
    if (stream != 0) {
        (void)weir__number_map_take(&text->captured, stream - 1);
        weir_trace_event end = *line;
        end.mode = 'E';
        end.stream = (uint32_t)(stream - 1);
        end.pool = (uint32_t)pool;
        add_event(text, &end);
        text->events_in_text--; /* the end was not recorded, so it does not count as an event */
    }
}

/* Gives a capture pool a number at its first capture. Without memory there is no capture in the trace. */
static verdict begin_capture(weir__record_text *text, uint64_t id, weir_trace_event *line)
{
    WEIR_ASSERT(line->mode == 'B' && line->stream != WEIR_TRACE_NONE);
    const uint64_t known = weir__number_map_get(&text->pools, id);
    const uint64_t pool = known != 0 ? known - 1 : text->capture_pools;
    const uint64_t captor = weir__number_map_get(&text->captured, line->stream);
    end_capture(text, pool, line);
    if (captor != 0) {
        end_capture(text, captor - 1, line);
    }
    if (!weir__number_map_reserve(&text->capturing, text->capturing.count + 1) ||
        !weir__number_map_reserve(&text->captured, text->captured.count + 1) ||
        !weir__number_map_put(&text->pools, id, pool + 1)) {
        return DROP;
    }
    (void)weir__number_map_put(&text->capturing, pool, (uint64_t)line->stream + 1); /* cannot fail: there is room */
    (void)weir__number_map_put(&text->captured, line->stream, pool + 1);
    text->capture_pools += known == 0;
    line->pool = (uint32_t)pool;
    return WRITE;
}

static verdict account_capture(weir__record_text *text, const weir__record_entry *event, weir_trace_event *line)
{
    if (event->mode == 'B') {
        return begin_capture(text, event->id, line);
    }
    const uint64_t pool = event->mode == 'R' ? weir__number_map_take(&text->pools, event->id)
                                             : weir__number_map_get(&text->pools, event->id);
    if (pool == 0) {
        return KNOWN;
    }
    line->pool = (uint32_t)(pool - 1);
    if (event->mode == 'R') {
        end_capture(text, pool - 1, line);
        line->stream = WEIR_TRACE_NONE;
        return WRITE;
    }
    const uint64_t stream = weir__number_map_take(&text->capturing, pool - 1);
    if (stream != 0) {
        line->stream = (uint32_t)(stream - 1);
        (void)weir__number_map_take(&text->captured, stream - 1);
    }
    return stream != 0 ? WRITE : KNOWN;
}

/* --- all events --- */

/* Updates the map of live blocks, and decides whether the event becomes a line. */
static verdict account(weir__record_text *text, const weir__record_entry *event, weir_trace_event *line)
{
    uint64_t number = 0;
    switch (event->kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
        return event->size >= text->least_bytes ? begin_life(text, event->id, line) : KNOWN;
    case WEIR_TRACE_FREE:
        number = event->mode == 'E' ? weir__number_map_take(&text->moving, line->thread)
                                    : weir__number_map_take(&text->live, event->id);
        break;
    case WEIR_TRACE_USE:
        number = weir__number_map_get(&text->live, event->id);
        break;
    case WEIR_TRACE_REALLOC:
        return account_realloc(text, event, line);
    case WEIR_TRACE_CAPTURE:
        return account_capture(text, event, line);
    default:
        return WRITE;
    }
    line->id = number - 1;
    if (number == 0) {
        return text->least_bytes != 0 ? KNOWN : DROP;
    }
    return WRITE;
}

/* --- one event --- */

static char sync_mode(const weir__record_entry *event)
{
    if (event->mode != 0) {
        return event->mode;
    }
    if (event->id != 0) {
        return 'e';
    }
    return event->stream != WEIR_TRACE_NONE ? 's' : '*';
}

/* Replaces the recorded names of streams, tags, devices, events and blocks by their numbers in the trace. */
static verdict translate(weir__record_text *text, const weir__record_entry *event, weir_trace_event *line)
{
    if (!renumber_stream(text, event->stream, &line->stream) || !renumber_tag(text, event->tag, &line->tag)) {
        return DROP;
    }
    if (event->kind == WEIR_TRACE_SYNC) {
        line->mode = sync_mode(event);
    }
    const bool begins = event->kind == WEIR_TRACE_PRIOR || event->kind == WEIR_TRACE_ALLOC ||
                        (event->kind == WEIR_TRACE_REALLOC && event->mode != 'B');
    if (begins && event->size >= text->least_bytes && !renumber_device(text, event->device, &line->device)) {
        return DROP;
    }
    const bool names_event = event->kind == WEIR_TRACE_RECORD || event->kind == WEIR_TRACE_WAIT || line->mode == 'e';
    if (names_event && !renumber(&text->events, event->id, &line->id)) {
        return DROP;
    }
    return account(text, event, line);
}

void weir__record_text_add(weir__record_text *text, const weir__record_entry *event, uint32_t thread)
{
    if (text->sink_failed) {
        text->lost++;
        return;
    }
    if (event->time_ns > text->last_time_ns) {
        text->last_time_ns = event->time_ns;
    }
    weir_trace_event line = {.kind = (weir_trace_kind)event->kind,
                             .mode = event->mode,
                             .device = event->device,
                             .thread = thread,
                             .tag = WEIR_TRACE_NONE,
                             .pool = WEIR_TRACE_NONE,
                             .time_ns = text->last_time_ns,
                             .id = event->id,
                             .size = event->size,
                             .extra = event->extra,
                             .address = event->address};
    const verdict what = translate(text, event, &line);
    if (what == WRITE) {
        add_event(text, &line);
    }
    text->lost += what == DROP;
}

/* --- beginning and end --- */

static void add_device(weir__record_text *text, const weir_device_info *device)
{
    WEIR_ASSERT(device->struct_size != 0);
    add(text, "#dev 0");
    if (device->capacity_bytes != 0) {
        add(text, " cap=%" PRIu64, device->capacity_bytes);
    }
    add(text, " gran=%" PRIu64, device->region_granularity_bytes);
    if (device->name[0] != '\0') {
        add(text, " name=\"%s\"", device->name);
    }
    add(text, "\n");
}

void weir__record_text_begin(weir__record_text *text, const char *source, const weir_device_info *device)
{
    WEIR_ASSERT(text->length == 0 && text->blocks == 0);
    add(text, "#wtr 1\n");
    add(text, "#src %.400s\n", source);
    add(text, "#clock ns\n");
    if (device != NULL) {
        add_device(text, device);
    }
}

void weir__record_text_note(weir__record_text *text, const char *note)
{
    add(text, "#note %.400s\n", note);
}

void weir__record_text_note_lost(weir__record_text *text, uint64_t lost)
{
    if (lost != 0) {
        add(text, "#note lost %" PRIu64 " events\n", lost);
    }
}

void weir__record_text_fini(weir__record_text *text)
{
    weir__number_map_fini(&text->live);
    weir__number_map_fini(&text->moving);
    weir__number_map_fini(&text->sizes);
    weir__number_map_fini(&text->streams);
    weir__number_map_fini(&text->events);
    weir__number_map_fini(&text->devices);
    weir__number_map_fini(&text->pools);
    weir__number_map_fini(&text->capturing);
    weir__number_map_fini(&text->captured);
    weir__number_map_fini(&text->tags);
}
