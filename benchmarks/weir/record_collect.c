/* record_collect.c: reads what a recorded program tells and writes it as traces.
 *
 * Idea: events come by number from one ring (channel.h), so there is nothing to sort. Each is handed to a text of core's
 * recorder, which names blocks, streams and threads anew and keeps the trace sensible. Where it is not said which memory to
 * record, that of the host and that of devices go to two files, and in the end one of them is the trace.
 *
 * Guarantee: the file is a whole number of lines after each drain. A program that calls exec begins its trace anew: what was
 * live before is gone, and it was another program's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif

#include "record_collect.h"

#include "record_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A trace that is being written. */
struct target {
    weir__record_text text;
    char path[PATH_MAX];
    int fd;
    int failure;
    off_t written;
    bool begun;
};

struct collector {
    channel *channel;
    int fd;
    char channel_path[64];
    char source[512];
    enum collect_what what;
    uint64_t start_ns;
    uint64_t next; /* ticket */
    uint64_t lost; /* tickets that nobody published */
    weir__number_map streams; /* handle, or device + 1 for default streams -> number + 1 */
    weir__number_map threads; /* as told -> number + 1 */
    struct target *host;
    struct target *device; /* may be `host`; AUTO: made when there is something for it */
    int device_failure;    /* errno: it could not be made */
};

/* --- files --- */

static bool write_text(void *ctx, const char *text, size_t length)
{
    struct target *target = ctx;
    size_t done = 0;
    while (done < length) {
        const ssize_t count = write(target->fd, text + done, length - done);
        if (count > 0) {
            done += (size_t)count;
        } else if (count == 0 || errno != EINTR) {
            target->failure = count == 0 ? EIO : errno;
            if (ftruncate(target->fd, target->written) != 0) {
                return false; /* a pipe or a terminal: half a line has been seen already */
            }
            return false;
        }
    }
    target->written += (off_t)length;
    return true;
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
    (void)snprintf(name, sizeof name, "NPU %u", device);
    return name;
}

static void begin_text(struct target *target, const struct collector *collector)
{
    char note[96];
    const uint64_t least = collector->channel->least_bytes;
    memset(&target->text, 0, sizeof target->text);
    target->text.sink = write_text;
    target->text.sink_ctx = target;
    target->text.device_name = device_name;
    target->text.ids_return = true;
    target->text.counts_bytes = true;
    weir__record_text_begin(&target->text, collector->source, NULL);
    if (least != 0 && target == collector->host) {
        (void)snprintf(note, sizeof note, "host blocks below %" PRIu64 " bytes are left out", least);
        weir__record_text_note(&target->text, note);
    }
}

static struct target *target_open(const char *path, const char *suffix)
{
    struct target *target = calloc(1, sizeof *target);
    if (target == NULL) {
        return NULL;
    }
    const int length = snprintf(target->path, sizeof target->path, "%s%s", path, suffix);
    if (length < 0 || (size_t)length >= sizeof target->path) {
        errno = ENAMETOOLONG;
        free(target);
        return NULL;
    }
    target->fd = open(target->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (target->fd < 0) {
        free(target);
        return NULL;
    }
    return target;
}

static void target_close(struct target *target)
{
    if (close(target->fd) != 0 && target->failure == 0 && errno != EINTR) {
        target->failure = errno;
    }
    weir__record_text_fini(&target->text);
}

/* The program has become another one. */
static void begin_anew(struct collector *collector, struct target *target)
{
    if (target != NULL) {
        weir__record_text_fini(&target->text);
        target->written = 0;
        if (ftruncate(target->fd, 0) == 0 && lseek(target->fd, 0, SEEK_SET) == 0) {
            target->failure = 0;
        }
        begin_text(target, collector);
    }
}

/* --- events --- */

/* As they appear, from 0; all one without memory. */
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

static uint32_t stream_number(struct collector *collector, const channel_slot *event)
{
    return number_of(&collector->streams, event->stream != 0 ? event->stream : (uint64_t)event->device + 1);
}

static bool is_power_of_two(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

/* Host and device addresses are two spaces. */
static uint64_t block_name(const channel_slot *event, uint64_t address)
{
    return event->device == channel_host ? address : address ^ UINT64_C(1) << 63;
}

/* The slot as core's recorder knows events. */
static weir__record_entry entry_of(struct collector *collector, const channel_slot *event)
{
    weir__record_entry entry = { .kind = event->kind,
                                 .mode = event->mode,
                                 .device = event->device,
                                 .size = event->size,
                                 .stream = stream_number(collector, event),
                                 .time_ns = event->time_ns > collector->start_ns ? event->time_ns - collector->start_ns
                                                                                 : 0 };
    switch (event->kind) {
    case WEIR_TRACE_ALLOC:
        entry.id = block_name(event, event->id);
        entry.extra = is_power_of_two(event->extra) ? event->extra : 0; /* some allocators round up what is none */
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

static struct target *device_target(struct collector *collector)
{
    if (collector->device == NULL && collector->what == COLLECT_AUTO && collector->device_failure == 0) {
        collector->device = target_open(collector->host->path, ".device");
        if (collector->device == NULL) {
            collector->device_failure = errno != 0 ? errno : ENOMEM;
        } else {
            begin_text(collector->device, collector);
        }
    }
    return collector->device;
}

static void take(struct collector *collector, const channel_slot *event)
{
    if (event->kind == channel_image) {
        weir__number_map_fini(&collector->threads);
        begin_anew(collector, collector->host);
        begin_anew(collector, collector->device != collector->host ? collector->device : NULL);
        return;
    }
    struct target *target = event->device == channel_host ? collector->host : device_target(collector);
    if (target != NULL) {
        const weir__record_entry entry = entry_of(collector, event);
        target->text.least_bytes = event->device == channel_host ? collector->channel->least_bytes : 0;
        weir__record_text_add(&target->text, &entry, number_of(&collector->threads, event->thread));
    }
}

static void flush(struct target *target)
{
    if (target != NULL) {
        (void)weir__record_text_flush(&target->text); /* what fails is told at the end */
    }
}

size_t collector_drain(struct collector *collector, bool ended)
{
    channel *from = collector->channel;
    size_t count = 0;
    for (;;) {
        channel_slot *slot = &from->slots[collector->next % channel_slots];
        /* Read first: what is below it and not published then never will be. */
        const uint64_t image_first = atomic_load_explicit(&from->image_first, memory_order_acquire);
        const uint64_t tail = atomic_load_explicit(&from->tail, memory_order_relaxed);
        if (atomic_load_explicit(&slot->turn, memory_order_acquire) == collector->next + 1) {
            take(collector, slot);
        } else if (collector->next < image_first || (ended && collector->next < tail)) {
            collector->lost++;
        } else {
            break;
        }
        atomic_store_explicit(&slot->turn, collector->next + channel_slots, memory_order_release);
        collector->next++;
        count++;
    }
    if (count != 0) {
        flush(collector->host);
        flush(collector->device != collector->host ? collector->device : NULL);
    }
    return count;
}

/* --- beginning and end --- */

static bool make_channel(struct collector *collector, uint64_t least_bytes)
{
    collector->fd = memfd_create("weir-record", MFD_CLOEXEC);
    if (collector->fd < 0 || ftruncate(collector->fd, channel_bytes) != 0) {
        return false;
    }
    void *memory = mmap(NULL, channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, collector->fd, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    collector->channel = memory;
    collector->channel->magic = CHANNEL_MAGIC;
    collector->channel->least_bytes = least_bytes;
    collector->channel->reader = (int32_t)getpid();
    collector->channel->what = (collector->what != COLLECT_DEVICE ? channel_records_host : 0u) |
                               (collector->what != COLLECT_HOST ? channel_records_device : 0u);
    for (uint64_t i = 0; i < channel_slots; i++) {
        atomic_init(&collector->channel->slots[i].turn, i);
    }
    (void)snprintf(collector->channel_path, sizeof collector->channel_path, "/proc/%ld/fd/%d", (long)getpid(),
                   collector->fd);
    return true;
}

static bool open_targets(struct collector *collector, const char *path)
{
    if (collector->what != COLLECT_DEVICE) {
        collector->host = target_open(path, "");
    }
    switch (collector->what) {
    case COLLECT_DEVICE:
        collector->device = target_open(path, "");
        return collector->device != NULL;
    case COLLECT_ALL:
        collector->device = collector->host;
        return collector->host != NULL;
    case COLLECT_HOST:
    case COLLECT_AUTO:
    default:
        return collector->host != NULL;
    }
}

static void release(struct collector *collector)
{
    if (collector->channel != NULL) {
        (void)munmap(collector->channel, channel_bytes);
    }
    if (collector->fd >= 0) {
        (void)close(collector->fd);
    }
    weir__number_map_fini(&collector->streams);
    weir__number_map_fini(&collector->threads);
    free(collector->device != collector->host ? collector->device : NULL);
    free(collector->host);
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

struct collector *collector_open(const char *path, const char *source, enum collect_what what, uint64_t least_bytes,
                                 const char **failed)
{
    struct collector *collector = calloc(1, sizeof *collector);
    struct timespec now;
    *failed = "memory";
    if (collector == NULL) {
        return NULL;
    }
    collector->what = what;
    (void)snprintf(collector->source, sizeof collector->source, "%s", source);
    make_one_line(collector->source);
    *failed = "shared memory";
    if (make_channel(collector, least_bytes)) {
        *failed = path;
        if (open_targets(collector, path)) {
            begin_anew(collector, collector->host);
            begin_anew(collector, collector->device != collector->host ? collector->device : NULL);
            clock_gettime(CLOCK_MONOTONIC, &now);
            collector->start_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
            return collector;
        }
    }
    const int why = errno;
    release(collector);
    errno = why;
    return NULL;
}

channel *collector_channel(struct collector *collector)
{
    return collector->channel;
}

const char *collector_channel_path(const struct collector *collector)
{
    return collector->channel_path;
}

/* Devices and pipes are not ours to remove. */
static void remove_file(const struct target *target)
{
    struct stat facts;
    if (stat(target->path, &facts) == 0 && S_ISREG(facts.st_mode)) {
        (void)unlink(target->path);
    }
}

/* Completes the file; one that tells nothing is removed. */
static void finish(struct target *target, struct collected *result)
{
    result->lost += target->text.lost;
    weir__record_text_note_lost(&target->text, result->lost);
    flush(target);
    result->events = target->text.events_added;
    result->peak_bytes = target->text.peak_bytes;
    target_close(target);
    result->failure = target->failure;
    if (result->events == 0) {
        remove_file(target);
    }
}

/* The device's traffic takes the place of the host's where there is any. */
static void choose(struct collector *collector, struct collected *result)
{
    struct target *device = collector->device;
    result->failure = collector->device_failure;
    if (device == NULL) {
        return;
    }
    result->device = device->text.peak_bytes != 0;
    struct target *other = result->device ? collector->host : device;
    target_close(other);
    remove_file(other);
}

void collector_close(struct collector *collector, struct collected *result)
{
    *result = (struct collected){ .lost = collector->lost, .images = atomic_load(&collector->channel->images) };
    if (collector->what == COLLECT_AUTO) {
        choose(collector, result);
    }
    const int failure = result->failure;
    struct target *kept = result->device || collector->host == NULL ? collector->device : collector->host;
    finish(kept, result);
    if (result->device && rename(kept->path, collector->host->path) != 0 && result->failure == 0) {
        result->failure = errno;
    }
    result->failure = result->failure != 0 ? result->failure : failure;
    release(collector);
}
