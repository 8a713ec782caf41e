/* collect.c: reads the events of a recorded program and writes them as traces.
 *
 * Idea: events come in order from one ring buffer (channel.h), so no sorting is needed. Each event is passed to a text
 * of core's recorder, which renumbers blocks, streams and threads and keeps the trace consistent. With COLLECT_AUTO the
 * events of host and device memory go to two files, and at the end one of them becomes the trace.
 *
 * Guarantee: the file is a whole number of lines after each drain. It has a temporary name until the recording ends
 * (trace/out_file.h), so no existing file is opened, truncated or removed. If a program calls exec, its trace starts
 * again: the blocks of the old program no longer exist.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif

#include "collect.h"

#include "shared/clock.h"
#include "shared/descriptor.h"
#include "shared/record_text.h"
#include "trace/out_file.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A trace that is being written. */
struct target {
    weir__record_text text;
    struct out_file file;
    /* -1: the collector opens the file for each write, because a recording may have more processes than the collector
     * may have open files */
    int fd;
    int failure;
    off_t written;
    bool begun;
};

/* A recorded process, from its start or an exec to its end (an "image" in channel.h). */
struct image {
    bool open;
    char source[600];
    weir__number_map streams; /* map: stream handle, or device + 1 for a default stream, to number in the trace + 1 */
    weir__number_map threads; /* map: thread number in the channel to number in the trace + 1 */
    struct target *host;
    struct target *device; /* trace of device memory; may equal `host`; COLLECT_AUTO creates it at its first event */
    int failure;           /* errno of a file that could not be created */
    struct target *kept;   /* at the end: the trace that stays, `host` or `device`; NULL if that has no events */
    struct collected result;
};

struct collector {
    struct channel *channel;
    int fd;
    char channel_path[64];
    struct collect_options options;
    char source[512];
    uint64_t start_ns;
    uint64_t next;     /* ticket of the next event */
    uint64_t stuck_ns; /* when the wait for event `next`, reserved but not yet written, began; 0 = no wait */
    uint64_t lost;     /* events that a process reserved in the channel and never wrote */
    struct image *images;
    unsigned image_count;
    unsigned files; /* number of file names in use */
};

enum { most_images = 9999 };
/* how long the reader waits for a process that has reserved an event in the channel and does not write it */
static const uint64_t patience_ns = UINT64_C(3000000000);

/* --- files --- */

static bool write_piece(struct target *target, int fd, const char *text, size_t length)
{
    size_t done = 0;
    while (done < length) {
        const ssize_t count = write(fd, text + done, length - done);
        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0 || errno != EINTR) {
            target->failure = count == 0 ? EIO : errno;
            if (ftruncate(fd, target->written) != 0) {
                /* `fd` is a pipe or a terminal, so the part of the text that was written cannot be taken back */
                return false;
            }
            return false;
        }
    }
    target->written += (off_t)length;
    return true;
}

static bool write_text(void *ctx, const char *text, size_t length)
{
    struct target *target = ctx;
    if (target->fd >= 0) {
        return write_piece(target, target->fd, text, length);
    }
    const int fd = above_standard(open(out_file_path(&target->file), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0) {
        target->failure = errno;
        return false;
    }
    const bool written = write_piece(target, fd, text, length);
    if (close(fd) != 0 && errno != EINTR) {
        target->failure = errno;
        return false;
    }
    return written;
}

static const char *device_name(uint16_t device)
{
    static char name[32];
    if (device == channel_host) {
        return "host memory";
    }
    if (device == channel_pinned) {
        return "pinned host memory";
    }
    (void)snprintf(name, sizeof(name), "NPU %u", device);
    return name;
}

static void begin_text(struct target *target, const struct image *image, uint64_t least)
{
    char note[96];
    memset(&target->text, 0, sizeof(target->text));
    target->text.sink = write_text;
    target->text.sink_ctx = target;
    target->text.device_name = device_name;
    target->text.counts_bytes = true;
    weir__record_text_begin(&target->text, image->source, NULL);
    if (least != 0 && target == image->host) {
        (void)snprintf(note, sizeof(note), "host blocks below %" PRIu64 " bytes are left out", least);
        weir__record_text_note(&target->text, note);
    }
}

static struct target *target_open(const char *path, bool stays_open)
{
    struct target *target = calloc(1, sizeof(*target));
    if (target == NULL) {
        return NULL;
    }
    if (!out_file_open(&target->file, path)) {
        free(target);
        return NULL;
    }
    target->fd = out_file_take(&target->file);
    if (!stays_open) {
        (void)close(target->fd); /* no data is written yet, so a failed close loses none */
        target->fd = -1;
    }
    return target;
}

static void target_close(struct target *target)
{
    if (target->fd >= 0 && close(target->fd) != 0 && target->failure == 0 && errno != EINTR) {
        target->failure = errno;
    }
    target->fd = -1;
    weir__record_text_fini(&target->text);
}

/* most device memory that the run took, by the driver's count of free memory */
static void begin_anew(struct target *target, const struct image *image, uint64_t least)
{
    if (target != NULL) {
        weir__record_text_fini(&target->text);
        target->written = 0;
        if (ftruncate(target->fd, 0) == 0 && lseek(target->fd, 0, SEEK_SET) == 0) {
            target->failure = 0;
        }
        begin_text(target, image, least);
    }
}

/* --- events --- */

/* Returns the number of a stream or thread, counted from 0 in the order of first use; 0 when out of host memory. */
static uint32_t number_of(weir__number_map *numbers, uint64_t key)
{
    uint64_t number = weir__number_map_get(numbers, key);
    if (number == 0) {
        number = numbers->count + 1;
        if (!weir__number_map_put(numbers, key, number)) {
            return 0;
        }
    }
    return (uint32_t)(number - 1);
}

static uint32_t stream_number(struct image *image, const struct channel_slot *event)
{
    return number_of(&image->streams, event->stream != 0 ? event->stream : (uint64_t)event->device + 1);
}

static bool is_power_of_two(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

/* Returns an id of the block that is unique, although a host block and a device block may have the same address. */
static uint64_t block_name(const struct channel_slot *event, uint64_t address)
{
    return event->device == channel_host ? address : address ^ UINT64_C(1) << 63;
}

/* Converts an event of the shared ring buffer to an event of core's recorder. */
static weir__record_entry entry_of(struct image *image, const struct channel_slot *event, uint64_t start_ns)
{
    weir__record_entry entry = {.kind = event->kind,
                                .mode = event->mode,
                                .device = event->device,
                                .size = event->size,
                                .stream = stream_number(image, event),
                                .time_ns = event->time_ns > start_ns ? event->time_ns - start_ns : 0};
    switch (event->kind) {
    case WEIR_TRACE_ALLOC:
        entry.id = block_name(event, event->id);
        /* Some allocators accept an alignment that is not a power of two and round it up. The trace gets no alignment
         * then. */
        entry.extra = is_power_of_two(event->extra) ? event->extra : 0;
        break;
    case WEIR_TRACE_FREE:
        entry.id = block_name(event, event->id);
        entry.stream = event->extra != 0 ? WEIR_TRACE_NONE : entry.stream;
        break;
    case WEIR_TRACE_REALLOC:
        entry.id = event->id != 0 ? block_name(event, event->id) : 0;
        entry.extra = block_name(event, event->extra);
        break;
    case WEIR_TRACE_SYNC:
        entry.id = event->id;
        entry.stream = event->mode == 's' ? entry.stream : WEIR_TRACE_NONE;
        break;
    default:
        entry.id = event->id;
        break;
    }
    return entry;
}

/* Makes the path of trace number `number`, from 1. Returns false with errno if it is too long. */
static bool trace_path(char *path, size_t size, const char *first, unsigned number)
{
    const int length = number == 1 ? snprintf(path, size, "%s", first) : snprintf(path, size, "%s.%u", first, number);
    errno = ENAMETOOLONG;
    return length > 0 && (size_t)length < size;
}

/* Opens the trace file of a process: options->path, or that path with .2, .3, ... for further processes. */
static void open_image(struct collector *collector, struct image *image)
{
    const struct collect_options *options = &collector->options;
    char path[PATH_MAX];
    const bool named = trace_path(path, sizeof(path), options->path, ++collector->files);
    struct target *target = named ? target_open(path, collector->files == 1) : NULL;
    image->open = true;
    if (target == NULL) {
        image->failure = errno != 0 ? errno : ENOMEM;
        return;
    }
    if (options->what != COLLECT_DEVICE) {
        image->host = target;
    }
    if (options->what == COLLECT_DEVICE || options->what == COLLECT_ALL) {
        image->device = target;
    }
    begin_anew(target, image, options->least_bytes);
}

/* Returns the trace file for an event; NULL if events of this kind are not recorded or the file cannot be created. */
static struct target *target_of(struct collector *collector, struct image *image, const struct channel_slot *event)
{
    if (!image->open) {
        open_image(collector, image);
    }
    if (event->device == channel_host) {
        return image->host;
    }
    if (image->device == NULL && image->host != NULL && collector->options.what == COLLECT_AUTO &&
        image->failure == 0) {
        image->device = target_open(image->host->file.target, image->host->fd >= 0);
        if (image->device == NULL) {
            image->failure = errno != 0 ? errno : ENOMEM;
        } else {
            begin_text(image->device, image, 0);
        }
    }
    return image->device;
}

/* Begins the traces of a process, at its start or after an exec. If only one process is recorded, empties its files. */
static void take_image(struct collector *collector, struct image *image, const struct channel_slot *event)
{
    const uint64_t least = collector->options.least_bytes;
    weir__number_map_fini(&image->threads);
    (void)snprintf(image->source, sizeof(image->source), "%s", collector->source);
    if (collector->options.children && event->image > 0) {
        (void)snprintf(image->source, sizeof(image->source), "%s (process %" PRIu64 ")", collector->source, event->id);
    }
    begin_anew(image->host, image, least);
    begin_anew(image->device != image->host ? image->device : NULL, image, least);
}

static struct image *image_of(struct collector *collector, const struct channel_slot *event)
{
    const unsigned number = collector->options.children ? event->image : 0;
    if (number >= most_images) {
        return NULL;
    }
    if (number >= collector->image_count) {
        struct image *more = realloc(collector->images, (number + 1) * sizeof(*more));
        if (more == NULL) {
            return NULL;
        }
        memset(more + collector->image_count, 0, (number + 1 - collector->image_count) * sizeof(*more));
        collector->images = more;
        collector->image_count = number + 1;
    }
    return &collector->images[number];
}

static void take(struct collector *collector, const struct channel_slot *event)
{
    struct image *image = image_of(collector, event);
    if (image == NULL) {
        collector->lost++;
        return;
    }
    if (event->kind == channel_image) {
        take_image(collector, image, event);
        return;
    }
    struct target *target = target_of(collector, image, event);
    if (target != NULL) {
        const weir__record_entry entry = entry_of(image, event, collector->start_ns);
        target->text.least_bytes = event->device == channel_host ? collector->options.least_bytes : 0;
        weir__record_text_add(&target->text, &entry, number_of(&image->threads, event->thread));
    }
}

static void flush(struct target *target)
{
    if (target != NULL) {
        (void)weir__record_text_flush(&target->text); /* a write error stays in target->failure */
    }
}

/* True if the reader gives up waiting for event `next`, which a process reserved but has not written: it is lost. */
static bool is_given_up(struct collector *collector, uint64_t image_first, uint64_t tail, bool ended)
{
    if (collector->next < image_first || (ended && collector->next < tail)) {
        return true;
    }
    if (!collector->options.children || collector->next >= tail) {
        return false;
    }
    const uint64_t now = wall_ns();
    collector->stuck_ns = collector->stuck_ns != 0 ? collector->stuck_ns : now;
    return now - collector->stuck_ns > patience_ns;
}

static void flush_images(struct collector *collector)
{
    for (unsigned i = 0; i < collector->image_count; i++) {
        struct image *image = &collector->images[i];
        flush(image->host);
        flush(image->device != image->host ? image->device : NULL);
    }
}

size_t collector_drain(struct collector *collector, bool ended)
{
    struct channel *from = collector->channel;
    size_t count = 0;
    for (;;) {
        struct channel_slot *slot = &from->slots[collector->next % channel_slots];
        /* Reads image_first (number of the first event since the latest exec) before the slot: an event with a lower
         * number that is still unwritten afterwards is never written. */
        const uint64_t image_first = atomic_load_explicit(&from->image_first, memory_order_acquire);
        const uint64_t tail = atomic_load_explicit(&from->tail, memory_order_relaxed);
        if (atomic_load_explicit(&slot->turn, memory_order_acquire) == collector->next + 1) {
            take(collector, slot);
        } else if (is_given_up(collector, image_first, tail, ended)) {
            collector->lost++;
        } else {
            break;
        }
        atomic_store_explicit(&slot->turn, collector->next + channel_slots, memory_order_release);
        collector->stuck_ns = 0;
        collector->next++;
        count++;
    }
    if (count != 0) {
        flush_images(collector);
    }
    return count;
}

/* --- beginning and end --- */

static bool make_channel(struct collector *collector)
{
    const struct collect_options *options = &collector->options;
    collector->fd = above_standard(memfd_create("weir-record", MFD_CLOEXEC));
    if (collector->fd < 0 || ftruncate(collector->fd, channel_bytes) != 0) {
        return false;
    }
    void *memory = mmap(NULL, channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, collector->fd, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    collector->channel = memory;
    collector->channel->magic = CHANNEL_MAGIC;
    collector->channel->least_bytes = options->least_bytes;
    collector->channel->children = options->children;
    collector->channel->reader = (int32_t)getpid();
    collector->channel->what = (options->what != COLLECT_DEVICE ? channel_records_host : 0u) |
                               (options->what != COLLECT_HOST ? channel_records_device : 0u);
    for (uint64_t i = 0; i < channel_slots; i++) {
        atomic_init(&collector->channel->slots[i].turn, i);
    }
    (void)snprintf(collector->channel_path, sizeof(collector->channel_path), "/proc/%ld/fd/%d", (long)getpid(),
                   collector->fd);
    return true;
}

/* Frees the state of a trace file. A file that was neither renamed nor kept has no events, and is removed. */
static void free_target(struct target *target)
{
    if (target != NULL && target->file.target != NULL) {
        target_close(target);
        out_file_drop(&target->file);
    }
    free(target);
}

static void release(struct collector *collector)
{
    if (collector->channel != NULL) {
        (void)munmap(collector->channel, channel_bytes);
    }
    if (collector->fd >= 0) {
        (void)close(collector->fd);
    }
    for (unsigned i = 0; i < collector->image_count; i++) {
        struct image *image = &collector->images[i];
        weir__number_map_fini(&image->streams);
        weir__number_map_fini(&image->threads);
        free_target(image->device != image->host ? image->device : NULL);
        free_target(image->host);
    }
    free(collector->images);
    free(collector);
}

static void make_one_line(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
}

/* Creates the first file before the program starts: if that fails, the program is not run. */
static bool open_first(struct collector *collector)
{
    const struct channel_slot first = {.image = 0};
    struct image *image = image_of(collector, &first);
    if (image == NULL) {
        errno = ENOMEM;
        return false;
    }
    take_image(collector, image, &first);
    open_image(collector, image);
    errno = image->failure;
    return image->failure == 0;
}

struct collector *collector_open(const struct collect_options *options, const char **failed)
{
    struct collector *collector = calloc(1, sizeof(*collector));
    *failed = "memory";
    if (collector == NULL) {
        return NULL;
    }
    collector->options = *options;
    (void)snprintf(collector->source, sizeof(collector->source), "%s", options->source);
    make_one_line(collector->source);
    collector->start_ns = wall_ns();
    *failed = "shared memory";
    if (make_channel(collector)) {
        *failed = options->path;
        if (open_first(collector)) {
            return collector;
        }
    }
    const int why = errno;
    release(collector);
    errno = why;
    return NULL;
}

struct channel *collector_channel(struct collector *collector)
{
    return collector->channel;
}

const char *collector_channel_path(const struct collector *collector)
{
    return collector->channel_path;
}

/* Writes the end of a trace and closes its file. A file without events is removed. */
static void finish(struct target *target, struct collected *result)
{
    result->lost += target->text.lost;
    weir__record_text_note_lost(&target->text, result->lost);
    flush(target);
    result->events = target->text.events_added;
    result->peak_bytes = target->text.peak_bytes;
    target_close(target);
    result->failure = target->failure != 0 ? target->failure : result->failure;
    if (result->events == 0) {
        out_file_drop(&target->file);
    }
}

/* Chooses between the traces of host and of device memory: the device's trace if it has allocations. Drops the other
 * file and returns the trace that is kept. */
static struct target *choose(const struct image *image, struct collected *result)
{
    if (image->host == NULL || image->device == NULL || image->host == image->device) {
        return image->host != NULL ? image->host : image->device;
    }
    result->device = image->device->text.peak_bytes != 0;
    struct target *other = result->device ? image->host : image->device;
    target_close(other);
    out_file_drop(&other->file);
    return result->device ? image->device : image->host;
}

static void add(struct collected *total, const struct collected *one)
{
    total->events += one->events;
    total->lost += one->lost;
    total->peak_bytes = one->peak_bytes > total->peak_bytes ? one->peak_bytes : total->peak_bytes;
    total->device |= one->device;
    total->failure = total->failure != 0 ? total->failure : one->failure;
    total->traces += one->events != 0;
}

__attribute__((format(printf, 2, 3))) static void say(struct collected *total, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (total->problem[0] == '\0') {
        (void)vsnprintf(total->problem, sizeof(total->problem), format, arguments);
    }
    va_end(arguments);
}

/* Renames a complete trace to `path`, compressed if the suffix asks for it. If that fails, the trace keeps its
 * temporary name. */
static void place(const struct collector *collector, struct target *kept, const char *path, struct collected *total)
{
    struct trace_error error = {0};
    const bool packs = trace_packs(collector->options.path) && kept->file.beside != NULL;
    const int failure = kept->failure;
    if (failure != 0 && packs) {
        say(total, "%s: %s; the trace ends there", out_file_path(&kept->file), strerror(failure));
    } else if (packs && trace_pack(out_file_path(&kept->file), path, &error) != WEIR_OK) {
        say(total, "%s; the trace is in %s", error.message, out_file_path(&kept->file));
    } else if (packs) {
        out_file_drop(&kept->file);
    } else if (!out_file_aim(&kept->file, path) || !out_file_finish(&kept->file)) {
        say(total, "%s: %s; the trace is in %s", path, strerror(errno), out_file_path(&kept->file));
    } else if (failure != 0) {
        say(total, "%s: %s; the trace ends there", path, strerror(failure));
    }
    out_file_leave(&kept->file); /* a file that was neither renamed nor removed keeps its temporary name */
}

/* Renames the traces to their final names. A process opened its file at its first event, but the traces are numbered in
 * the order in which the processes began. */
static void place_traces(struct collector *collector, struct collected *total,
                         void (*each)(void *ctx, const char *path, const struct collected *one), void *ctx)
{
    char path[PATH_MAX];
    unsigned number = 0;
    for (unsigned i = 0; i < collector->image_count; i++) {
        struct image *image = &collector->images[i];
        if (image->kept == NULL) {
            continue;
        }
        if (!trace_path(path, sizeof(path), collector->options.path, ++number)) {
            say(total, "%s: %s; the trace is in %s", collector->options.path, strerror(errno),
                out_file_path(&image->kept->file));
            out_file_leave(&image->kept->file);
            continue;
        }
        place(collector, image->kept, path, total);
        if (image->result.failure == 0 && total->problem[0] == '\0') {
            each(ctx, path, &image->result);
        }
    }
}

void collector_close(struct collector *collector,
                     void (*each)(void *ctx, const char *path, const struct collected *one), void *ctx,
                     struct collected *total)
{
    *total = (struct collected){.images = atomic_load(&collector->channel->images),
                                .bypassed = atomic_load(&collector->channel->bypassed)};
    for (unsigned i = 0; i < collector->image_count; i++) {
        struct image *image = &collector->images[i];
        image->result = (struct collected){.lost = i == 0 ? collector->lost : 0, .failure = image->failure};
        struct target *kept = choose(image, &image->result);
        if (kept != NULL) {
            finish(kept, &image->result);
        }
        image->kept = image->result.events != 0 ? kept : NULL;
        add(total, &image->result);
    }
    if (total->failure != 0 && total->events == 0) {
        say(total, "%s: %s", collector->options.path, strerror(total->failure));
    }
    place_traces(collector, total, each, ctx);
    if (total->failure != 0) {
        say(total, "%s: %s; a trace is missing or cut", collector->options.path, strerror(total->failure));
    }
    release(collector);
}
