/* bindings/torch/src/recording.c: the requests to a device's pools, as a `.wtr` file that can be replayed.
 *
 * Idea: each device has one recorder. This file notes the events of all pools of the device in it. So the blocks of
 * graphs are in the same file, and the pools need no observer and keep their fast path.
 *
 * Guarantee: the files are complete after weir_torch_record(NULL), and at the exit of a program that never calls it.
 * The destructor below is the only code of this library that runs at exit; a free after it is not recorded.
 *
 * Cost: one load for an alloc or a free while nothing is recorded; otherwise a lock, a search of the list of streams
 * and one note.
 */
#include "torch_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/trace.h>

#define PATH_BYTES 4096

struct known_stream {
    const void *native;
    struct known_stream *next;
    uint32_t number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool active;
static char *path; /* protected by the lock, like `files`; NULL while nothing is recorded */
static struct {
    weir_recorder *recorder;
    struct known_stream *streams;
    uint32_t stream_count;
} files[WEIR__TORCH_DEVICES];

/* --- writing events (the lock is held) --- */

static uint32_t number_of(int device, const void *native)
{
    WEIR_ASSERT_HELD(&lock);
    struct known_stream *known = files[device].streams;
    while (known != NULL && known->native != native) {
        known = known->next;
    }
    if (known == NULL && (known = malloc(sizeof(*known))) != NULL) {
        known->native = native;
        WEIR_ASSERT(files[device].recorder != NULL);
        known->number = files[device].stream_count++;
        known->next = files[device].streams;
        files[device].streams = known;
    }
    return known != NULL ? known->number : WEIR_TRACE_NONE;
}

static weir_trace_event event_of(weir_trace_kind kind, int device, uint64_t address)
{
    return (weir_trace_event){
        .kind = kind,
        .device = (uint32_t)device,
        .stream = WEIR_TRACE_NONE,
        .tag = WEIR_TRACE_NONE,
        .pool = WEIR_TRACE_NONE,
        .id = address,
    };
}

static void note(int device, weir_trace_kind kind, uint64_t address, uint64_t size, const void *native)
{
    WEIR_ASSERT_HELD(&lock);
    weir_trace_event event = event_of(kind, device, address);
    event.size = size;
    event.address = kind == WEIR_TRACE_ALLOC ? address : 0;
    event.stream = number_of(device, native);
    weir_recorder_note(files[device].recorder, &event);
}

static bool note_prior(void *ctx, const weir_walk_entry *entry)
{
    const struct torch_device *at = ctx;
    if (entry->state == WEIR_WALK_LIVE) {
        weir_trace_event event = event_of(WEIR_TRACE_PRIOR, at->id, weir_block_address(entry->block));
        event.size = entry->requested;
        event.address = event.id;
        event.stream = number_of(at->id, NULL);
        weir_recorder_note(files[at->id].recorder, &event);
    }
    return true;
}

static bool note_gone(void *ctx, const weir_walk_entry *entry)
{
    const struct torch_device *at = ctx;
    if (entry->state == WEIR_WALK_LIVE) {
        const weir_trace_event event = event_of(WEIR_TRACE_FREE, at->id, weir_block_address(entry->block));
        weir_recorder_note(files[at->id].recorder, &event);
    }
    return true;
}

static void note_pools(struct torch_device *at, weir_walk_visitor visit)
{
    WEIR_ASSERT_HELD(&lock);
    struct torch_pool *own = atomic_load(&at->own);
    weir_status status = own != NULL ? weir_pool_walk(own->pool, visit, at) : WEIR_OK;
    for (struct torch_pool *other = atomic_load(&at->others); other != NULL; other = other->next) {
        if (!atomic_load(&other->lost) && status == WEIR_OK) {
            status = weir_pool_walk(other->pool, visit, at);
        }
    }
    /* an incomplete walk does no harm: the recorder accepts an alloc of a block that it knows and a free of a block
     * that it does not know */
    (void)status;
}

/* --- events that the other files report --- */

/* Returns true, with the lock held, if the device is being recorded. */
static bool begin_note(const struct torch_device *at)
{
    if (!atomic_load_explicit(&active, memory_order_relaxed)) {
        return false;
    }
    (void)pthread_mutex_lock(&lock);
    if (files[at->id].recorder == NULL) {
        (void)pthread_mutex_unlock(&lock);
        return false;
    }
    return true;
}

void weir__torch_note_alloc(const struct torch_device *at, const weir_block *block, const void *native)
{
    if (begin_note(at)) {
        note(at->id, WEIR_TRACE_ALLOC, weir_block_address(block), weir_block_size(block), native);
        (void)pthread_mutex_unlock(&lock);
    }
}

void weir__torch_note_free(const struct torch_device *at, const weir_block *block, const void *native)
{
    if (begin_note(at)) {
        note(at->id, WEIR_TRACE_FREE, weir_block_address(block), 0, native);
        (void)pthread_mutex_unlock(&lock);
    }
}

void weir__torch_note_use(const struct torch_device *at, const weir_block *block, const void *native)
{
    if (begin_note(at)) {
        note(at->id, WEIR_TRACE_USE, weir_block_address(block), 0, native);
        (void)pthread_mutex_unlock(&lock);
    }
}

void weir__torch_note_trim(const struct torch_device *at)
{
    if (begin_note(at)) {
        const weir_trace_event event = event_of(WEIR_TRACE_TRIM, at->id, 0);
        weir_recorder_note(files[at->id].recorder, &event);
        (void)pthread_mutex_unlock(&lock);
    }
}

void weir__torch_note_lost(struct torch_device *at)
{
    if (begin_note(at)) {
        note_pools(at, note_gone);
        (void)pthread_mutex_unlock(&lock);
    }
}

/* --- beginning and ending --- */

/* Makes the name of a device's file: "run.wtr" becomes run.device0.wtr for device 0, and a path without the ending
 * ".wtr" gets ".device0" appended. Returns false if the name is too long. */
static bool file_name(int device, char *name, size_t size)
{
    WEIR_ASSERT_HELD(&lock);
    const size_t length = strlen(path);
    const bool has_end = length >= 4 && strcmp(path + length - 4, ".wtr") == 0;
    const int stem = (int)(has_end ? length - 4 : length);
    const int needed = snprintf(name, size, "%.*s.device%d%s", stem, path, device, path + stem);
    return needed > 0 && (size_t)needed < size;
}

/* Opens the device's file, if a recording is under way and the file is not open yet. The lock is held. */
static weir_status open_file(struct torch_device *at)
{
    WEIR_ASSERT_HELD(&lock);
    char name[PATH_BYTES + 32];
    char source[32];
    if (path == NULL || files[at->id].recorder != NULL) {
        return WEIR_OK;
    }
    if (!file_name(at->id, name, sizeof(name))) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_torch_record: path is too long");
    }
    (void)snprintf(source, sizeof(source), "weir torch device %d", at->id);
    const weir_status status = weir_recorder_create_file(name, source, &files[at->id].recorder);
    if (status == WEIR_OK) {
        note_pools(at, note_prior);
    }
    return status;
}

static weir_status close_file(int device)
{
    WEIR_ASSERT_HELD(&lock);
    weir_status status = WEIR_OK;
    if (files[device].recorder != NULL) {
        status = weir_recorder_stop(files[device].recorder, NULL);
        files[device].recorder = NULL;
    }
    for (struct known_stream *known = files[device].streams, *next; known != NULL; known = next) {
        next = known->next;
        free(known);
    }
    files[device].streams = NULL;
    files[device].stream_count = 0;
    return status;
}

static weir_status close_all(void)
{
    WEIR_ASSERT_HELD(&lock);
    weir_status first = WEIR_OK;
    atomic_store(&active, false);
    for (int device = 0; device < WEIR__TORCH_DEVICES; device++) {
        const weir_status status = close_file(device);
        first = first == WEIR_OK ? status : first;
    }
    free(path);
    path = NULL;
    return first;
}

/* Begins a recording with the files of all devices that have a pool. The file of any other device is opened when the
 * device gets its pool. */
static weir_status open_all(const char *wanted)
{
    WEIR_ASSERT(path == NULL);
    WEIR_ASSERT_HELD(&lock);
    path = strdup(wanted);
    weir_status status = path != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    for (int device = 0; device < WEIR__TORCH_DEVICES && status == WEIR_OK; device++) {
        struct torch_device *at = weir__torch_device(device);
        status = atomic_load(&at->own) != NULL ? open_file(at) : WEIR_OK;
    }
    atomic_store(&active, status == WEIR_OK);
    if (status != WEIR_OK) {
        const int why = errno;
        const weir_status closed = close_all();
        (void)closed; /* the first failure is reported */
        errno = why;
    }
    return status;
}

weir_status weir__torch_record_locked(const char *wanted)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    if (wanted != NULL && (wanted[0] == '\0' || strlen(wanted) >= PATH_BYTES)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_torch_record: path %s",
                           wanted[0] == '\0' ? "is empty" : "is too long");
    }
    weir_status status = WEIR_OK;
    (void)pthread_mutex_lock(&lock);
    if (wanted == NULL) {
        status = close_all();
    } else if (path == NULL) {
        status = open_all(wanted);
    } else {
        status = weir_refuse(WEIR_ERR_BUSY, "weir_torch_record: there is a recording, to %s", path);
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

weir_status weir__torch_record_device_locked(struct torch_device *at)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    (void)pthread_mutex_lock(&lock);
    const weir_status status = open_file(at);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

weir_status weir_torch_record(const char *wanted)
{
    (void)pthread_mutex_lock(&weir__torch_lock);
    const weir_status status = weir__torch_record_locked(wanted);
    (void)pthread_mutex_unlock(&weir__torch_lock);
    return status;
}

__attribute__((destructor)) static void complete_files(void)
{
    (void)pthread_mutex_lock(&lock);
    const weir_status status = close_all();
    (void)status; /* at exit no caller is left to receive the failure */
    (void)pthread_mutex_unlock(&lock);
}
