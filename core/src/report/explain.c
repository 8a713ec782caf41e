/* core/src/report/explain.c: the words of a record: its cause in one line, and the report of weir_oom_explain.
 *
 * Idea: the cause follows from the sums of the record alone, so a record of another allocator is judged in the same way
 * (weir_oom_judge). The request is compared with what the allocator can reach, for one allocator after the other: the
 * best that there can be, one that rounds as this one does, and one that has its pieces.
 */
#include "report/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- text --- */

struct text {
    char *at;
    size_t left;   /* at least 1, unless the buffer has no room at all */
    size_t length; /* length of the whole text, even if it does not fit */
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    size_t wrote = length < 0 ? 0 : (size_t)length;
    text->length += wrote;
    if (text->left > 0) {
        wrote = wrote >= text->left ? text->left - 1 : wrote;
        text->at += wrote;
        text->left -= wrote;
    }
}

#define SIZE_TEXT 32

static const char *plain_size(uint64_t bytes, char *buffer)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024.0;
        unit++;
    }
    (void)snprintf(buffer, SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return buffer;
}

static const weir_oom_advice *find_advice(const weir_oom_record *record, weir_advice_kind kind)
{
    WEIR_ASSERT(record->advice_count <= WEIR_OOM_ADVICE);
    for (uint32_t i = 0; i < record->advice_count; i++) {
        if (record->advice[i].kind == kind) {
            return &record->advice[i];
        }
    }
    return NULL;
}

/* --- the cause --- */

/* A request that the limit forbade was not made of the device. */
static bool is_limited(const weir_oom_record *record)
{
    return record->region_asked_bytes == 0 && record->limit_bytes != 0;
}

static bool knows_device(const weir_oom_record *record)
{
    return record->device_total_bytes != 0;
}

/* The summands may be of any size: a request, or what a program has filled in. */
static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Returns the most bytes that the allocator could hold now. If neither limit nor device tells: what it holds. */
static uint64_t reach_of(const weir_oom_record *record)
{
    if (is_limited(record)) {
        return record->limit_bytes;
    }
    return sum_of(record->reserved_bytes, record->device_free_bytes);
}

/* Returns the bytes of the device that are neither the allocator's nor free. */
static uint64_t outside_of(const weir_oom_record *record)
{
    const uint64_t known = sum_of(record->reserved_bytes, record->device_free_bytes);
    return record->device_total_bytes > known ? record->device_total_bytes - known : 0;
}

static bool waits_for_work(const weir_oom_record *record)
{
    return find_advice(record, WEIR_ADVICE_WAIT) != NULL ||
           (record->free_bytes < record->size && record->pending_bytes != 0 &&
            sum_of(record->free_bytes, record->pending_bytes) >= record->size);
}

/* Returns the part of `more` that is above `less`; 0 if none is. */
static uint64_t beyond(uint64_t more, uint64_t less)
{
    return more > less ? more - less : 0;
}

/* Finds the largest part of the memory that is not live. */
static weir_oom_cause cause_of_waste(const weir_oom_record *record)
{
    WEIR_ASSERT(record->size == 0);
    static const weir_oom_cause causes[] = {WEIR_OOM_CAUSE_FRAGMENTED, WEIR_OOM_CAUSE_OTHER_STREAMS,
                                            WEIR_OOM_CAUSE_WAITS, WEIR_OOM_CAUSE_ROUNDING};
    const uint64_t parts[] = {record->usable_free_bytes, beyond(record->free_bytes, record->usable_free_bytes),
                              record->pending_bytes, beyond(record->live_bytes, record->requested_bytes)};
    size_t most = 0;
    for (size_t i = 1; i < sizeof(parts) / sizeof(parts[0]); i++) {
        most = parts[i] > parts[most] ? i : most;
    }
    const uint64_t waste = beyond(record->reserved_bytes, record->requested_bytes);
    return waste > record->reserved_bytes / 20 && parts[most] != 0 ? causes[most] : WEIR_OOM_CAUSE_NONE;
}

static weir_oom_cause cause_of(const weir_oom_record *record)
{
    WEIR_ASSERT(record->size != 0);
    const bool bounded = is_limited(record) || knows_device(record);
    const uint64_t asked = sum_of(record->requested_bytes, record->size);
    const uint64_t reach = reach_of(record);
    if (bounded && asked > (is_limited(record) ? record->limit_bytes : record->device_total_bytes)) {
        return WEIR_OOM_CAUSE_TOO_BIG;
    }
    if (bounded && asked > reach) {
        return WEIR_OOM_CAUSE_OUTSIDE;
    }
    if (waits_for_work(record)) {
        return WEIR_OOM_CAUSE_WAITS;
    }
    if (find_advice(record, WEIR_ADVICE_END_GRAPH) != NULL) {
        return WEIR_OOM_CAUSE_GRAPH;
    }
    if (find_advice(record, WEIR_ADVICE_UNPIN) != NULL) {
        return WEIR_OOM_CAUSE_PINNED;
    }
    if (record->largest_free_bytes >= record->size && record->usable_bytes < record->size) {
        return WEIR_OOM_CAUSE_OTHER_STREAMS;
    }
    if (bounded && sum_of(record->live_bytes, record->size) > reach) {
        return WEIR_OOM_CAUSE_ROUNDING;
    }
    const bool has_room = !is_limited(record) && record->device_free_bytes >= record->region_asked_bytes;
    return has_room || record->free_bytes == 0 || (!bounded && record->free_bytes < record->size)
               ? WEIR_OOM_CAUSE_REFUSED
               : WEIR_OOM_CAUSE_FRAGMENTED;
}

/* --- one line --- */

static void say_free(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    say(text, "%s free in ", plain_size(record->free_bytes, a));
    if (record->free_pieces == 1) {
        say(text, "one piece");
    } else if (record->free_pieces != 0) {
        say(text, "%" PRIu64 " pieces of at most %s", record->free_pieces, plain_size(record->largest_free_bytes, b));
    } else {
        say(text, "pieces");
    }
}

static void say_too_big(struct text *text, const weir_oom_record *record)
{
    WEIR_ASSERT(record->cause == WEIR_OOM_CAUSE_TOO_BIG);
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    const uint64_t most = is_limited(record) ? record->limit_bytes : record->device_total_bytes;
    say(text, "too big by %s for any allocator: %s are live as asked, and the %s",
        plain_size(sum_of(record->requested_bytes, record->size) - most, a), plain_size(record->requested_bytes, b),
        is_limited(record) ? "limit is " : "device gives at most ");
    say(text, "%s", plain_size(most, a));
}

static void say_outside(struct text *text, const weir_oom_record *record)
{
    WEIR_ASSERT(knows_device(record) && outside_of(record) != 0);
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    say(text, "held outside of this pool: %s of the device's %s belong to other pools, libraries or processes",
        plain_size(outside_of(record), a), plain_size(record->device_total_bytes, b));
    say(text, ", %s are free", plain_size(record->device_free_bytes, a));
}

/* Names the stream whose work is waited for, as far as the record knows it. */
static void say_waits(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    const weir_oom_advice *advice = find_advice(record, WEIR_ADVICE_WAIT);
    uint32_t stream = advice != NULL ? advice->stream : 0;
    for (uint32_t i = 0; i < record->lane_count && stream == 0; i++) {
        stream = record->lanes[i].waits_for != 0 ? record->lanes[i].stream : 0;
    }
    if (stream != 0) {
        say(text, "waits for stream %u", stream);
    } else {
        say(text, "waits for several streams");
    }
    if (record->pending_bytes != 0) {
        say(text, ": %s were freed, and queued work may still use them", plain_size(record->pending_bytes, a));
    } else {
        say(text, ": it freed memory that its queued work may still use");
    }
}

static void say_others(struct text *text, const weir_oom_record *record)
{
    WEIR_ASSERT(record->usable_bytes < record->size && record->size <= record->largest_free_bytes);
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    say(text, "idle for other streams: %s are free in one piece, at most %s of them for this stream",
        plain_size(record->largest_free_bytes, a), plain_size(record->usable_bytes, b));
}

static void say_fragmented(struct text *text, const weir_oom_record *record)
{
    WEIR_ASSERT(record->size != 0 && record->free_bytes != 0);
    char a[SIZE_TEXT];
    const weir_oom_advice *freeing = find_advice(record, WEIR_ADVICE_FREE_BLOCKS);
    const uint64_t reach = reach_of(record);
    say(text, "fragmented: ");
    say_free(text, record);
    if (reach > record->reserved_bytes) {
        say(text, " and %s not taken", plain_size(reach - record->reserved_bytes, a));
    }
    if (freeing != NULL) {
        say(text, "; in the way are %s in %" PRIu64 " block%s", plain_size(freeing->bytes, a), freeing->blocks,
            freeing->blocks == 1 ? "" : "s");
        say(text, record->in_the_way[0] != '\0' ? " of \"%s\"" : "%s", record->in_the_way);
    }
    if (record->virtual_memory_would_do) {
        say(text, "; virtual memory would bring the pieces together");
    }
}

static void say_cause(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    switch (record->cause) {
    case WEIR_OOM_CAUSE_RECORDS:
        say(text, "no host memory for weir's own records");
        break;
    case WEIR_OOM_CAUSE_TOO_BIG:
        say_too_big(text, record);
        break;
    case WEIR_OOM_CAUSE_OUTSIDE:
        say_outside(text, record);
        break;
    case WEIR_OOM_CAUSE_WAITS:
        say_waits(text, record);
        break;
    case WEIR_OOM_CAUSE_GRAPH:
        WEIR_ASSERT(find_advice(record, WEIR_ADVICE_END_GRAPH) != NULL);
        say(text, "held by the graph that was captured on stream %u",
            find_advice(record, WEIR_ADVICE_END_GRAPH)->stream);
        break;
    case WEIR_OOM_CAUSE_PINNED:
        say(text, "pinned: pins keep %s of idle memory", plain_size(record->pinned_idle_bytes, a));
        break;
    case WEIR_OOM_CAUSE_OTHER_STREAMS:
        say_others(text, record);
        break;
    case WEIR_OOM_CAUSE_FRAGMENTED:
        say_fragmented(text, record);
        break;
    case WEIR_OOM_CAUSE_ROUNDING:
        say(text, "rounding: the live blocks take %s more than was asked for",
            plain_size(record->live_bytes - record->requested_bytes, a));
        break;
    case WEIR_OOM_CAUSE_REFUSED:
    case WEIR_OOM_CAUSE_NONE:
    case WEIR_OOM_CAUSE_COUNT:
    default:
        say(text, "the device gave no more");
        break;
    }
}

/* Names the tag with the most live bytes, unless the blocks have no tags. */
static void say_largest_holder(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    const weir_oom_holder *most = &record->holders[0];
    if (record->holder_count != 0 && strcmp(most->name, "untagged") != 0) {
        say(text, "; \"%s\" holds the most, %s in %" PRIu64 " block%s", most->name,
            plain_size(most->requested_bytes, a), most->blocks, most->blocks == 1 ? "" : "s");
    }
}

/* True if a part of the reserved memory is worth a word. */
static bool is_notable(const weir_oom_record *record, uint64_t bytes)
{
    return bytes > record->reserved_bytes / 256;
}

/* The parts of the reserved memory that are not live, but for the one that is the cause. */
static void say_parts(struct text *text, const weir_oom_record *record, const char *joint)
{
    char a[SIZE_TEXT];
    const uint64_t others = beyond(record->free_bytes, record->usable_free_bytes);
    const uint64_t rounding = beyond(record->live_bytes, record->requested_bytes);
    if (is_notable(record, record->free_bytes) && record->cause != WEIR_OOM_CAUSE_FRAGMENTED) {
        say(text, "%s", joint);
        say_free(text, record);
        joint = ", ";
    }
    if (record->size == 0 && is_notable(record, others) && record->cause != WEIR_OOM_CAUSE_OTHER_STREAMS) {
        say(text, "%s%s of it for other streams", joint, plain_size(others, a));
        joint = ", ";
    }
    if (is_notable(record, record->pinned_idle_bytes) && record->cause != WEIR_OOM_CAUSE_PINNED) {
        say(text, "%s%s idle but pinned", joint, plain_size(record->pinned_idle_bytes, a));
        joint = ", ";
    }
    if (is_notable(record, record->pending_bytes) && record->cause != WEIR_OOM_CAUSE_WAITS) {
        say(text, "%s%s freed but still in use by several streams", joint, plain_size(record->pending_bytes, a));
        joint = ", ";
    }
    if (is_notable(record, rounding) && record->cause != WEIR_OOM_CAUSE_ROUNDING) {
        say(text, "%s%s rounding", joint, plain_size(rounding, a));
    }
}

/* Names the part of the memory that the cause of a survey stands for. */
static void say_waste(struct text *text, const weir_oom_record *record)
{
    WEIR_ASSERT(record->cause == WEIR_OOM_CAUSE_NONE ||
                (record->cause >= WEIR_OOM_CAUSE_WAITS && record->cause <= WEIR_OOM_CAUSE_ROUNDING));
    char a[SIZE_TEXT];
    switch (record->cause) {
    case WEIR_OOM_CAUSE_WAITS:
        say(text, "%s are freed, and queued work may still use them", plain_size(record->pending_bytes, a));
        break;
    case WEIR_OOM_CAUSE_OTHER_STREAMS:
        say(text, "%s are idle for other streams",
            plain_size(beyond(record->free_bytes, record->usable_free_bytes), a));
        break;
    case WEIR_OOM_CAUSE_FRAGMENTED:
        say_free(text, record);
        break;
    case WEIR_OOM_CAUSE_ROUNDING:
        say(text, "%s rounding", plain_size(beyond(record->live_bytes, record->requested_bytes), a));
        break;
    default:
        say(text, "nearly all of it is live");
        break;
    }
}

static void judge_survey(weir_oom_record *record)
{
    WEIR_ASSERT(record->size == 0);
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    struct text text = {record->text, sizeof(record->text), 0};
    record->cause = cause_of_waste(record);
    say(&text, "%s reserved for %s live as asked: ", plain_size(record->reserved_bytes, a),
        plain_size(record->requested_bytes, b));
    say_waste(&text, record);
    say_parts(&text, record, "; ");
    say_largest_holder(&text, record);
}

static void judge(weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    struct text text = {record->text, sizeof(record->text), 0};
    if (record->size == 0) {
        judge_survey(record);
        return;
    }
    record->cause = record->cause == WEIR_OOM_CAUSE_RECORDS ? record->cause : cause_of(record);
    say(&text, "%s asked on stream %u: ", plain_size(record->size, a), record->stream);
    say_cause(&text, record);
    say(&text, "; %s reserved, %s live", plain_size(record->reserved_bytes, a), plain_size(record->live_bytes, b));
    say_parts(&text, record, ", ");
    say_largest_holder(&text, record);
}

void weir_oom_judge(weir_oom_record *given)
{
    weir_oom_record record;
    if (weir_struct_adopt(&record, sizeof(record), given, "weir_oom_judge: record") == WEIR_OK) {
        judge(&record);
        (void)weir_struct_report(given, &record, sizeof(record), "weir_oom_judge: record");
    }
}

/* Adds the pool's own facts to the line: the device's or the limit's answer, and the missing bytes. They are those of a
 * whole region, without subtracting free memory: one new region always satisfies the
 * request, but scattered free memory may not. */
void weir__oom_conclude(weir_oom_record *record, bool maps, uint64_t more)
{
    char a[SIZE_TEXT];
    WEIR_ASSERT(record->failure == 0 && record->size != 0);
    judge(record);
    const size_t used = strlen(record->text);
    WEIR_ASSERT(used < sizeof(record->text));
    struct text text = {record->text + used, sizeof(record->text) - used, used};
    if (record->cause == WEIR_OOM_CAUSE_RECORDS) {
        return;
    }
    if (maps) {
        say(&text, ", %s in handles that are in use",
            plain_size(record->reserved_bytes - record->idle_region_bytes, a));
    }
    if (is_limited(record)) {
        say(&text, "; the pool's limit of %s forbids to take more", plain_size(record->limit_bytes, a));
    } else {
        say(&text, "; the device refused %s %s (%s)", maps ? "to map" : "a region of",
            plain_size(record->region_asked_bytes, a), weir_status_text(record->device_status));
    }
    say(&text, "; it would fit with %" PRIu64 " more bytes %s", more,
        is_limited(record) ? "under the limit" : "on the device");
    const weir_oom_advice *freeing = find_advice(record, WEIR_ADVICE_FREE_BLOCKS);
    if (freeing != NULL) {
        say(&text, ", or with %s freed in the right place", plain_size(freeing->bytes, a));
    }
}

/* --- the report --- */

static void say_sums(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    say(text, "  reserved  %s in %" PRIu64 " region%s", plain_size(record->reserved_bytes, a), record->regions,
        record->regions == 1 ? "" : "s");
    if (record->limit_bytes != 0) {
        say(text, ", limit %s", plain_size(record->limit_bytes, a));
    }
    if (record->region_asked_bytes != 0) {
        say(text, "; the device refused %s more (%s)", plain_size(record->region_asked_bytes, a),
            weir_status_text(record->device_status));
    }
    say(text, "\n  live      %s, %s as asked\n", plain_size(record->live_bytes, a),
        plain_size(record->requested_bytes, b));
    say(text, "  free      %s, at most %s in one piece for this stream\n", plain_size(record->free_bytes, a),
        plain_size(record->usable_bytes, b));
    if (record->pending_bytes + record->cached_bytes != 0) {
        say(text, "  neither   %s waiting for several streams, %s in front caches\n",
            plain_size(record->pending_bytes, a), plain_size(record->cached_bytes, b));
    }
}

static void say_pins(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    if (record->pinned_idle_bytes != 0) {
        say(text, "  pinned    %s of the free memory is idle and kept by pins\n",
            plain_size(record->pinned_idle_bytes, a));
    }
}

static void say_holders(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    for (uint32_t i = 0; i < record->holder_count; i++) {
        const weir_oom_holder *holder = &record->holders[i];
        say(text, "  %-9s %s in %" PRIu64 " block%s: %s\n", i == 0 ? "held by" : "",
            plain_size(holder->requested_bytes, a), holder->blocks, holder->blocks == 1 ? "" : "s", holder->name);
    }
}

static void say_lanes(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    for (uint32_t i = 0; i < record->lane_count; i++) {
        const weir_oom_lane *lane = &record->lanes[i];
        say(text, "  %-9s ", i == 0 ? "free on" : "");
        if (lane->stream == 0) {
            say(text, "any stream");
        } else {
            say(text, lane->of_graph ? "a graph of stream %u%s" : "stream %u%s", lane->stream,
                lane->lent ? ", lent to it" : "");
        }
        say(text, ": %s, the largest %s", plain_size(lane->free_bytes, a), plain_size(lane->largest_bytes, b));
        if (lane->largest_bytes < record->size) {
            say(text, ", too small by %s", plain_size(record->size - lane->largest_bytes, a));
        }
        if (lane->waits_for != 0) {
            say(text, ", waits for tick %" PRIu64 " of its stream", lane->waits_for);
        }
        say(text, "\n");
    }
}

static void say_regions(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    char b[SIZE_TEXT];
    char c[SIZE_TEXT];
    for (uint32_t i = 0; i < record->region_count; i++) {
        const weir_oom_region *region = &record->worst[i];
        say(text, "  %-9s 0x%" PRIx64 ", %s: %s free, the largest %s, between %" PRIu64 " block%s\n",
            i == 0 ? "region" : "", region->address, plain_size(region->size, a), plain_size(region->free_bytes, b),
            plain_size(region->largest_bytes, c), region->blocks, region->blocks == 1 ? "" : "s");
    }
}

static void say_freeing(struct text *text, const weir_oom_record *record, const weir_oom_advice *advice)
{
    char a[SIZE_TEXT];
    say(text, "free %" PRIu64 " block%s, %s, between 0x%" PRIx64 " and 0x%" PRIx64, advice->blocks,
        advice->blocks == 1 ? "" : "s", plain_size(advice->bytes, a), advice->address, advice->address + advice->size);
    if (record->in_the_way[0] != '\0') {
        say(text, ", most of it: %s", record->in_the_way);
    }
}

static void say_advice(struct text *text, const weir_oom_record *record, const weir_oom_advice *advice)
{
    char a[SIZE_TEXT];
    switch (advice->kind) {
    case WEIR_ADVICE_RAISE_LIMIT:
        say(text, "raise the limit to %" PRIu64 " bytes (%s)", advice->bytes, plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_DEVICE_ROOM:
        say(text, "have %s free on the device, in one piece", plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_FREE_BLOCKS:
        say_freeing(text, record, advice);
        break;
    case WEIR_ADVICE_WAIT:
        if (advice->stream == 0) {
            say(text, "synchronise every stream and say so, or retire them");
        } else {
            say(text, "synchronise stream %u and say so, or retire it", advice->stream);
        }
        break;
    case WEIR_ADVICE_ASK_LESS:
        say(text, "ask for at most %" PRIu64 " bytes (%s)", advice->bytes, plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_END_GRAPH:
        say(text, "destroy the graph that was captured on stream %u, release its capture pool, or lend its memory",
            advice->stream);
        break;
    case WEIR_ADVICE_UNPIN:
        say(text, "end the pins, which keep %s of idle memory", plain_size(advice->bytes, a));
        break;
    case WEIR_ADVICE_COUNT:
    default:
        break;
    }
    say(text, "\n");
}

static void say_refusal(struct text *text, const weir_oom_record *record)
{
    char a[SIZE_TEXT];
    say(text, "out of memory: %s asked on stream %u", plain_size(record->size, a), record->stream);
    if (record->tag != 0) {
        say(text, " for %s", record->tag_name);
    }
    if (record->align > 4096) {
        say(text, ", aligned to %s", plain_size(record->align, a));
    }
    say(text, "\n  cause     ");
    say_cause(text, record);
    say(text, "\n");
}

size_t weir_oom_explain(const weir_oom_record *source, char *buffer, size_t size)
{
    weir_oom_record record;
    struct text text = {buffer, size, 0};
    if (weir_struct_adopt(&record, sizeof(record), source, "weir_oom_explain: record") != WEIR_OK ||
        (record.failure == 0 && record.text[0] == '\0')) {
        say(&text, "no request has failed\n");
        return text.length;
    }
    if (record.size == 0) { /* a survey */
        say(&text, "%s\n", record.text);
    } else {
        judge(&record); /* a program may have filled it in */
        say_refusal(&text, &record);
    }
    say_sums(&text, &record);
    say_pins(&text, &record);
    say_holders(&text, &record);
    say_lanes(&text, &record);
    say_regions(&text, &record);
    for (uint32_t i = 0; i < record.advice_count; i++) {
        say(&text, "  %-9s ", i == 0 ? "would do" : "or");
        say_advice(&text, &record, &record.advice[i]);
    }
    return text.length;
}
