/* share.c: memory that several processes hold in common.
 *
 * Idea: the physical memory of a process is ranges of one file in memory, which has no name. Exported memory is a piece
 * under the shared limit (core/src/device/shared_limit.c), whose note says where its bytes are: the exporter's process,
 * the file's descriptor there, and the range. An importer opens that file through /proc and maps the range. A region
 * that is exported moves into the file first (memory.c).
 * Guarantee: the bytes count once and live until the last holder has dropped the piece or has ended: the kernel keeps a
 * file that a process maps. The exporter does not use a range again while others hold it.
 * Cost: a file descriptor for each imported handle.
 */
#include "sim_internal.h"

#include "shared/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADMITTED = 15 };

/* The exporter's note of a piece. */
struct note {
    int32_t process;
    int32_t file; /* its descriptor in that process; -1: accounting mode */
    uint64_t inode;
    uint64_t offset;
    uint64_t size;
    uint32_t admitted_count; /* of `admitted`; ALL: every process */
    int32_t admitted[ADMITTED];
};

#define ALL UINT32_MAX

_Static_assert(sizeof(struct note) <= WEIR__LIMIT_NOTE_BYTES, "the limit keeps the note");

static weir_shared_limit *limit_for(const weir_sim *sim, weir_shared_limit *limit)
{
    return limit != NULL || sim == NULL ? limit : sim->config.shared_limit;
}

/* Returns false if there is no piece of the key. */
static bool find_note(weir_shared_limit *limit, uint64_t key, struct note *note)
{
    char bytes[WEIR__LIMIT_NOTE_BYTES];
    uint64_t held = 0;
    const bool found = weir__shared_limit_find(limit, key, bytes, &held);
    if (found) {
        memcpy(note, bytes, sizeof(*note));
    }
    return found;
}

static uint64_t inode_of(int file)
{
    struct stat facts;
    return fstat(file, &facts) == 0 ? (uint64_t)facts.st_ino : 0;
}

/* --- export --- */

/* Shares memory of which `bytes` count under the limit. */
static weir_status share(weir_sim *sim, weir_shared_limit *limit, weir__sim_physical *physical, uint64_t bytes)
{
    WEIR_ASSERT_HELD(&sim->lock);
    WEIR_ASSERT(physical->size >= bytes && physical->key == 0);
    const int file = sim->memory.backing.on ? sim->memory.backing.physical_file : -1;
    const struct note note = {.process = (int32_t)getpid(),
                              .file = file,
                              .inode = file >= 0 ? inode_of(file) : 0,
                              .offset = physical->offset,
                              .size = physical->size};
    char text[WEIR__LIMIT_NOTE_BYTES] = {0};
    memcpy(text, &note, sizeof(note));
    const weir_status status = weir__shared_limit_share(limit, bytes, text, &physical->key);
    if (status == WEIR_OK) {
        physical->limit = limit;
        sim->memory.common += bytes;
    }
    if (status == WEIR_ERR_BUSY) {
        return weir_refuse(status, "weir_sim_export: %d pieces of memory are exported", (int)WEIR__LIMIT_COMMON);
    }
    return status == WEIR_ERR_INVALID
               ? weir_refuse(status, "weir_sim_export: the memory does not count under the limit as this process's")
               : status;
}

static weir_status no_memory(const char *function, const char *what, uint64_t number)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: %s %#llx is not one of this simulator's, or not its own", function, what,
                       (unsigned long long)number);
}

static weir_status check_export(const weir_sim *sim, const weir_shared_limit *limit, const uint64_t *key,
                                const char *function)
{
    return sim == NULL     ? weir__sim_null(function, "sim")
           : key == NULL   ? weir__sim_null(function, "key")
           : limit == NULL ? weir__sim_null(function, "limit")
                           : WEIR_OK;
}

weir_status weir_sim_export(weir_sim *sim, weir_shared_limit *limit, weir_vm_handle handle, uint64_t *key)
{
    static const char function[] = "weir_sim_export";
    limit = limit_for(sim, limit);
    weir_status status = check_export(sim, limit, key, function);
    if (status != WEIR_OK) {
        return status;
    }
    uint32_t index = 0;
    weir__sim_lock(sim);
    weir__sim_physical *physical = weir__sim_physical_of(&sim->memory, handle, &index);
    if (physical == NULL || physical->imported) {
        status = no_memory(function, "handle", handle);
    } else if (physical->key == 0) {
        status = share(sim, limit, physical, physical->size);
    }
    if (status == WEIR_OK) {
        *key = physical->key;
    }
    weir__sim_unlock(sim);
    return status;
}

weir_status weir_sim_export_region(weir_sim *sim, weir_shared_limit *limit, uint64_t address, uint64_t *key)
{
    static const char function[] = "weir_sim_export_region";
    limit = limit_for(sim, limit);
    weir_status status = check_export(sim, limit, key, function);
    if (status != WEIR_OK) {
        return status;
    }
    weir__sim_physical *physical = NULL;
    uint64_t size = 0;
    weir__sim_lock(sim);
    status = weir__sim_region_physical(sim, address, &physical, &size);
    if (status == WEIR_OK && physical == NULL) {
        status = no_memory(function, "region", address);
    } else if (status == WEIR_OK && physical->key == 0) {
        status = share(sim, limit, physical, size);
    }
    if (status == WEIR_OK) {
        *key = physical->key;
    }
    weir__sim_unlock(sim);
    return status;
}

/* Adds processes to a note. Returns false if there is no room for them. */
static bool admit(struct note *note, const int32_t *processes, size_t count)
{
    if (count == 0 || note->admitted_count == ALL) {
        note->admitted_count = ALL;
        return true;
    }
    if (count > ADMITTED - note->admitted_count) {
        return false;
    }
    memcpy(&note->admitted[note->admitted_count], processes, count * sizeof(*processes));
    note->admitted_count += (uint32_t)count;
    return true;
}

weir_status weir_sim_admit(weir_sim *sim, weir_shared_limit *limit, uint64_t key, const int32_t *processes,
                           size_t count)
{
    static const char function[] = "weir_sim_admit";
    limit = limit_for(sim, limit);
    if (sim == NULL || limit == NULL || (processes == NULL && count > 0)) {
        return weir__sim_null(function, sim == NULL ? "sim" : limit == NULL ? "limit" : "processes");
    }
    struct note note;
    char text[WEIR__LIMIT_NOTE_BYTES] = {0};
    weir_status status = WEIR_OK;
    weir__sim_lock(sim);
    if (!find_note(limit, key, &note) || note.process != (int32_t)getpid()) {
        status = weir_refuse(WEIR_ERR_INVALID, "%s: this process exports nothing of key %llu", function,
                             (unsigned long long)key);
    } else if (!admit(&note, processes, count)) {
        status = weir_refuse(WEIR_ERR_BUSY, "%s: %d processes are admitted already", function, (int)ADMITTED);
    } else {
        memcpy(text, &note, sizeof(note));
        weir__shared_limit_note(limit, key, text);
    }
    weir__sim_unlock(sim);
    return status;
}

/* --- import --- */

static bool is_admitted(const struct note *note)
{
    for (uint32_t i = 0; note->admitted_count != ALL && i < note->admitted_count; i++) {
        if (note->admitted[i] == (int32_t)getpid()) {
            return true;
        }
    }
    return note->admitted_count == ALL;
}

/* Opens the exporter's file. Another process that has got the exporter's number has another file of that number. */
static weir_status open_file(const struct note *note, int *file)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)note->process, (int)note->file);
    *file = above_standard(open(path, O_RDWR | O_CLOEXEC));
    if (*file >= 0 && inode_of(*file) == note->inode) {
        return WEIR_OK;
    }
    if (*file >= 0) {
        (void)close(*file);
        *file = -1;
        errno = ENOENT;
    }
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM
               ? WEIR_ERR_NO_MEMORY
               : weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_sim_import: the memory of process %d cannot be reached: %s",
                             (int)note->process, strerror(errno));
}

static weir_status check_note(const weir_sim *sim, const struct note *note)
{
    if (!is_admitted(note)) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_sim_import: process %d has not admitted this one",
                           (int)note->process);
    }
    if (sim->memory.backing.on && note->file < 0) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_sim_import: the exporter has no bytes: it is in accounting mode");
    }
    if (note->size % sim->config.page_bytes != 0) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_sim_import: the exporter has smaller pages");
    }
    return WEIR_OK;
}

/* Makes the handle of memory that this process holds now. */
static weir_status adopt(weir_sim *sim, weir_shared_limit *limit, uint64_t key, weir_vm_handle *handle, uint64_t *size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    struct note note;
    weir__sim_physical physical = {.key = key, .limit = limit, .imported = true, .file = -1};
    weir_status status = find_note(limit, key, &note) ? check_note(sim, &note) : WEIR_ERR_INTERNAL;
    if (status == WEIR_OK && sim->memory.backing.on) {
        status = open_file(&note, &physical.file);
    }
    if (status != WEIR_OK) {
        return status;
    }
    physical.size = note.size;
    physical.offset = note.offset;
    status = weir__sim_physical_adopt(&sim->memory, &physical, handle);
    if (status == WEIR_OK) {
        *size = note.size;
    } else if (physical.file >= 0) {
        (void)close(physical.file);
    }
    return status;
}

weir_status weir_sim_import(weir_sim *sim, weir_shared_limit *limit, uint64_t key, weir_vm_handle *handle,
                            uint64_t *size)
{
    static const char function[] = "weir_sim_import";
    limit = limit_for(sim, limit);
    if (sim == NULL || limit == NULL || handle == NULL || size == NULL) {
        return weir__sim_null(function, sim == NULL      ? "sim"
                                        : limit == NULL  ? "limit"
                                        : handle == NULL ? "handle"
                                                         : "size");
    }
    weir_status status = WEIR_OK;
    weir__sim_lock(sim);
    /* The process becomes a holder first, so that the memory stays while its note is read. */
    if (!weir__shared_limit_hold(limit, key)) {
        status = weir_refuse(WEIR_ERR_INVALID, "%s: key %llu names no memory of the limit", function,
                             (unsigned long long)key);
    } else {
        status = adopt(sim, limit, key, handle, size);
        if (status != WEIR_OK) {
            (void)weir__shared_limit_drop(limit, key);
        }
    }
    weir__sim_unlock(sim);
    return status;
}

/* --- the end --- */

bool weir__sim_share_drop(weir_sim *sim, const weir__sim_physical *physical)
{
    WEIR_ASSERT(physical->key != 0 && physical->limit != NULL);
    const bool is_free = weir__shared_limit_drop(physical->limit, physical->key);
    if (physical->imported) {
        if (is_free && physical->file >= 0) {
            weir__sim_backing_discard(&sim->memory.backing, physical->offset, physical->size, physical->file);
        }
        if (physical->file >= 0) {
            (void)close(physical->file);
        }
        return false;
    }
    if (is_free) {
        return false;
    }
    weir__sim_lent *lent = malloc(sizeof(*lent));
    if (lent != NULL) { /* when out of host memory, the range stays unused; enough others are left */
        *lent = (weir__sim_lent){.next = sim->memory.lent,
                                 .limit = physical->limit,
                                 .key = physical->key,
                                 .offset = physical->offset,
                                 .size = physical->size};
        sim->memory.lent = lent;
    }
    return true;
}

void weir__sim_share_collect(weir__sim_memory *memory,
                             void (*take_back)(weir__sim_memory *memory, uint64_t offset, uint64_t size))
{
    struct note note;
    for (weir__sim_lent **link = &memory->lent; *link != NULL;) {
        weir__sim_lent *lent = *link;
        if (find_note(lent->limit, lent->key, &note)) {
            link = &lent->next;
        } else {
            *link = lent->next;
            take_back(memory, lent->offset, lent->size);
            free(lent);
        }
    }
}

void weir__sim_share_fini(weir_sim *sim)
{
    weir__sim_memory *memory = &sim->memory;
    for (uint32_t i = 0; i < memory->physical_count; i++) {
        if (memory->physical[i].size != 0 && memory->physical[i].key != 0) {
            (void)weir__sim_share_drop(sim, &memory->physical[i]);
        }
    }
    while (memory->lent != NULL) {
        weir__sim_lent *next = memory->lent->next;
        free(memory->lent);
        memory->lent = next;
    }
}
