/* core/src/device/shared_limit.c: one limit for several pools, of one process or of several.
 *
 * Idea: a page of counters, in shared memory if the limit has a name. Each process has a slot in it and a lock on one
 * byte of the file for as long as it lives: byte 1 + slot. The kernel drops that lock when the process ends in any way,
 * so a slot whose byte is not locked belongs to no process, and its bytes are free. Byte 0 is locked while a process
 * joins or leaves. A process refuses a file that another user owns or may open, because its owner could cut it, and an
 * access to a page that is cut off ends the process.
 * Memory that a process has exported to others is a piece of its own in the page, with a bit for each slot that holds
 * it.
 * Guarantee: the processes together never hold more than the limit, and nothing that an ended process held is lost to
 * it. A process that is killed inside a function leaves a page that the next one mends (the lock is robust).
 * Cost: memory that is taken or given locks the page once; blocks inside of it cost nothing.
 */
#include "shared/shared_limit.h"

#include "shared/assert.h"
#include "shared/cancel.h"
#include "shared/descriptor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linux's locks of an open file description. They belong to the open file and not to the process, so two limits of the
 * same name in one process count as two processes. The numbers are those of the kernel (fcntl(2)). */
#ifndef F_OFD_SETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

enum { NO_FILE = -1, NO_SLOT = WEIR_SHARED_LIMIT_PROCESSES, JOINING = 0 };

struct weir_shared_limit {
    weir__limit_page *page;
    int file;      /* NO_FILE: of this process only */
    size_t slot;   /* this process's index in page->held_of; NO_SLOT: none yet */
    long process;  /* process id: a child of fork has another one */
    char path[96]; /* for shm_open */
    pthread_mutex_t members_lock;
    weir__limit_member *members;        /* of this process, linked by next */
    uint32_t holds[WEIR__LIMIT_COMMON]; /* by this process, of the pieces held in common; protected by page->lock */
    weir_shared_limit *next_named;
};

/* --- byte-range locks of the shared file --- */

static bool lock_byte(int file, size_t byte, int command)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    int result = 0;
    do {
        result = fcntl(file, command, &lock);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

static void unlock_byte(int file, size_t byte)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    (void)fcntl(file, F_OFD_SETLK, &lock);
}

/* Releases all locks of the file. Closing the file would not release them while a child of fork has it open too. */
static void unlock_all(int file)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET}; /* l_start and l_len are 0: the whole file */
    (void)fcntl(file, F_OFD_SETLK, &lock);
}

static bool is_in_use(const weir_shared_limit *limit, size_t slot)
{
    WEIR_ASSERT(slot < WEIR_SHARED_LIMIT_PROCESSES);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(1 + slot), .l_len = 1};
    return slot == limit->slot || fcntl(limit->file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* Returns the number of processes that use the limit, this one included. */
static uint64_t processes_of(const weir_shared_limit *limit)
{
    uint64_t count = limit->file == NO_FILE;
    for (size_t i = 0; limit->file != NO_FILE && i < WEIR_SHARED_LIMIT_PROCESSES; i++) {
        count += is_in_use(limit, i);
    }
    return count;
}

/* --- the page --- */

static bool init_page(weir__limit_page *page)
{
    pthread_mutexattr_t kind;
    memset(page, 0, sizeof(*page));
    if (pthread_mutexattr_init(&kind) != 0) {
        return false;
    }
    const bool fits = pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED) == 0 &&
                      pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0 &&
                      pthread_mutex_init(&page->lock, &kind) == 0;
    (void)pthread_mutexattr_destroy(&kind);
    __atomic_store_n(&page->magic, fits ? WEIR__LIMIT_MAGIC : 0, __ATOMIC_RELEASE);
    return fits;
}

static bool is_held(const weir__limit_common *piece)
{
    uint64_t holders = 0;
    for (size_t i = 0; i < WEIR__LIMIT_WORDS; i++) {
        holders |= piece->holders[i];
    }
    return holders != 0;
}

/* Computes the sums anew after a holder of the lock has died, and frees a piece of which it was the last holder. */
static void mend_page(weir__limit_page *page)
{
    page->held_bytes = 0;
    page->common_bytes = 0;
    page->common_count = 0;
    for (size_t i = 0; i < WEIR_SHARED_LIMIT_PROCESSES; i++) {
        page->held_bytes += page->held_of[i];
    }
    for (size_t i = 0; i < WEIR__LIMIT_COMMON; i++) {
        weir__limit_common *piece = &page->common[i];
        piece->key = is_held(piece) ? piece->key : 0;
        page->common_bytes += piece->key != 0 ? piece->bytes : 0;
        page->common_count += piece->key != 0;
    }
    page->held_bytes += page->common_bytes;
}

static void lock_page(weir__limit_page *page)
{
    if (pthread_mutex_lock(&page->lock) == EOWNERDEAD) {
        mend_page(page);
        (void)pthread_mutex_consistent(&page->lock);
    }
}

static void unlock_page(weir__limit_page *page)
{
    (void)pthread_mutex_unlock(&page->lock);
}

/* Takes a slot's bit out of a piece. Returns the bytes that are free now: those of the piece if no bit is left. The
 * shared page is locked. */
static uint64_t drop_bit(weir__limit_page *page, weir__limit_common *piece, size_t slot)
{
    WEIR_ASSERT(slot < WEIR_SHARED_LIMIT_PROCESSES && piece->key != 0);
    piece->holders[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    if (is_held(piece)) {
        return 0;
    }
    WEIR_ASSERT(page->common_count > 0 && page->common_bytes >= piece->bytes && page->held_bytes >= piece->bytes);
    piece->key = 0;
    page->common_count--;
    page->common_bytes -= piece->bytes;
    page->held_bytes -= piece->bytes;
    return piece->bytes;
}

/* Gives the bytes that a slot's ended process held back to the limit. The shared page is locked. */
static void return_slot(weir__limit_page *page, size_t slot)
{
    WEIR_ASSERT(slot < WEIR_SHARED_LIMIT_PROCESSES && page->held_of[slot] <= page->held_bytes);
    const uint64_t held = page->held_of[slot];
    uint64_t common = 0;
    page->held_of[slot] = 0;
    page->held_bytes -= held;
    for (size_t i = 0; page->common_count > 0 && i < WEIR__LIMIT_COMMON; i++) {
        common += page->common[i].key != 0 ? drop_bit(page, &page->common[i], slot) : 0;
    }
    page->ended_processes += held + common != 0;
    page->returned_bytes += held + common;
}

/* Adds the slots that hold common pieces to the set. The shared page is locked. */
static void add_holders(const weir__limit_page *page, uint64_t *slots)
{
    for (size_t i = 0; page->common_count > 0 && i < WEIR__LIMIT_COMMON; i++) {
        for (size_t word = 0; page->common[i].key != 0 && word < WEIR__LIMIT_WORDS; word++) {
            slots[word] |= page->common[i].holders[word];
        }
    }
}

/* Gives the bytes of all ended processes back to the limit. The shared page is locked. */
static void return_ended(weir_shared_limit *limit)
{
    WEIR_ASSERT(limit->slot != NO_SLOT && limit->page->common_bytes <= limit->page->held_bytes);
    weir__limit_page *page = limit->page;
    uint64_t holders[WEIR__LIMIT_WORDS] = {0};
    add_holders(page, holders);
    for (size_t i = 0; limit->file != NO_FILE && i < WEIR_SHARED_LIMIT_PROCESSES; i++) {
        const bool holds = page->held_of[i] != 0 || (holders[i / 64] >> i % 64 & 1) != 0;
        if (holds && !is_in_use(limit, i)) {
            return_slot(page, i);
        }
    }
}

static uint64_t room_of(const weir__limit_page *page)
{
    WEIR_ASSERT(page->limit_bytes != 0);
    return page->held_bytes < page->limit_bytes ? page->limit_bytes - page->held_bytes : 0;
}

bool weir__shared_limit_take(weir_shared_limit *limit, uint64_t bytes, uint64_t *missing)
{
    WEIR_ASSERT(bytes != 0 && limit->slot != NO_SLOT);
    weir__limit_page *page = limit->page;
    lock_page(page);
    if (bytes > room_of(page)) {
        return_ended(limit);
    }
    const bool fits = bytes <= room_of(page);
    if (!fits && missing != NULL) {
        *missing = bytes - room_of(page);
    }
    if (fits) {
        page->held_of[limit->slot] += bytes;
        page->held_bytes += bytes;
        page->peak_held_bytes = page->held_bytes > page->peak_held_bytes ? page->held_bytes : page->peak_held_bytes;
    }
    unlock_page(page);
    return fits;
}

void weir__shared_limit_give(weir_shared_limit *limit, uint64_t bytes)
{
    weir__limit_page *page = limit->page;
    lock_page(page);
    WEIR_ASSERT(page->held_of[limit->slot] >= bytes && page->held_bytes >= bytes);
    page->held_of[limit->slot] -= bytes;
    page->held_bytes -= bytes;
    unlock_page(page);
}

uint64_t weir__shared_limit_bytes(weir_shared_limit *limit)
{
    lock_page(limit->page);
    const uint64_t bytes = limit->page->limit_bytes;
    unlock_page(limit->page);
    return bytes;
}

void weir__shared_limit_lower(weir_shared_limit *limit, uint64_t *left, uint64_t *total)
{
    lock_page(limit->page);
    return_ended(limit);
    if (room_of(limit->page) < *left) {
        *left = room_of(limit->page);
        *total = limit->page->limit_bytes;
    }
    unlock_page(limit->page);
}

/* --- memory that processes hold in common --- */

/* Returns the piece of a key, NULL if there is none. The shared page is locked. */
static weir__limit_common *piece_of(weir__limit_page *page, uint64_t key)
{
    weir__limit_common *piece = &page->common[key % WEIR__LIMIT_COMMON];
    WEIR_ASSERT(piece->key == 0 || (piece->bytes != 0 && is_held(piece)));
    return key != 0 && piece->key == key ? piece : NULL;
}

/* Returns the index of a free entry; WEIR__LIMIT_COMMON if there is none. The shared page is locked. */
static size_t free_piece(const weir__limit_page *page)
{
    size_t index = 0;
    while (index < WEIR__LIMIT_COMMON && page->common[index].key != 0) {
        index++;
    }
    WEIR_ASSERT(index < WEIR__LIMIT_COMMON || page->common_count == WEIR__LIMIT_COMMON);
    return index;
}

/* Makes bytes of this process the piece of that index. Returns its key. The shared page is locked. */
static uint64_t share_locked(weir_shared_limit *limit, size_t index, uint64_t bytes, const char *note)
{
    weir__limit_page *page = limit->page;
    weir__limit_common *piece = &page->common[index];
    WEIR_ASSERT(piece->key == 0 && bytes <= page->held_of[limit->slot]);
    *piece = (weir__limit_common){.bytes = bytes};
    piece->holders[limit->slot / 64] = UINT64_C(1) << limit->slot % 64;
    memcpy(piece->note, note, sizeof(piece->note));
    limit->holds[index] = 1;
    __atomic_store_n(&piece->key, ++page->last_number * WEIR__LIMIT_COMMON + index, __ATOMIC_RELEASE);
    page->held_of[limit->slot] -= bytes;
    page->common_bytes += bytes;
    page->common_count++;
    return piece->key;
}

weir_status weir__shared_limit_share(weir_shared_limit *limit, uint64_t bytes, const char *note, uint64_t *key)
{
    WEIR_ASSERT(bytes != 0 && note != NULL);
    weir__limit_page *page = limit->page;
    lock_page(page);
    return_ended(limit);
    const size_t index = free_piece(page);
    const bool is_held_here = bytes <= page->held_of[limit->slot];
    if (is_held_here && index < WEIR__LIMIT_COMMON) {
        *key = share_locked(limit, index, bytes, note);
    }
    unlock_page(page);
    return !is_held_here ? WEIR_ERR_INVALID : index < WEIR__LIMIT_COMMON ? WEIR_OK : WEIR_ERR_BUSY;
}

bool weir__shared_limit_find(weir_shared_limit *limit, uint64_t key, char *note, uint64_t *bytes)
{
    lock_page(limit->page);
    return_ended(limit);
    const weir__limit_common *piece = piece_of(limit->page, key);
    if (piece != NULL) {
        memcpy(note, piece->note, sizeof(piece->note));
        *bytes = piece->bytes;
    }
    unlock_page(limit->page);
    return piece != NULL;
}

void weir__shared_limit_note(weir_shared_limit *limit, uint64_t key, const char *note)
{
    lock_page(limit->page);
    weir__limit_common *piece = piece_of(limit->page, key);
    WEIR_ASSERT(piece != NULL);
    memcpy(piece->note, note, sizeof(piece->note));
    unlock_page(limit->page);
}

bool weir__shared_limit_hold(weir_shared_limit *limit, uint64_t key)
{
    WEIR_ASSERT(limit->slot != NO_SLOT);
    lock_page(limit->page);
    weir__limit_common *piece = piece_of(limit->page, key);
    if (piece != NULL) {
        piece->holders[limit->slot / 64] |= UINT64_C(1) << limit->slot % 64;
        limit->holds[piece - limit->page->common]++;
    }
    unlock_page(limit->page);
    return piece != NULL;
}

bool weir__shared_limit_drop(weir_shared_limit *limit, uint64_t key)
{
    lock_page(limit->page);
    weir__limit_common *piece = piece_of(limit->page, key);
    WEIR_ASSERT(piece != NULL && limit->holds[piece - limit->page->common] > 0);
    const bool is_last = --limit->holds[piece - limit->page->common] == 0;
    const bool is_free = is_last && drop_bit(limit->page, piece, limit->slot) != 0;
    unlock_page(limit->page);
    return is_free;
}

/* --- joining and leaving --- */
/* --- joining and leaving --- */

#define OTHER_VERSION "shared memory %s was made by another version of weir"
#define REFUSE_CREATE(status, ...) weir_refuse((status), "weir_shared_limit_create: " __VA_ARGS__)

static weir_status check_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t length = strlen(name);
    if (length == 0 || length > WEIR_SHARED_LIMIT_NAME_LENGTH || strspn(name, allowed) != length) {
        return REFUSE_CREATE(WEIR_ERR_INVALID, "config.name \"%.80s\" is not 1 to %d letters, digits, '.', '_' or '-'",
                             name, WEIR_SHARED_LIMIT_NAME_LENGTH);
    }
    return WEIR_OK;
}

static bool is_of_this_user_alone(const struct stat *facts)
{
    return S_ISREG(facts->st_mode) && facts->st_uid == geteuid() && (facts->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static weir_status open_locked(weir_shared_limit *limit, struct stat *facts)
{
    limit->file = above_standard(shm_open(limit->path, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (limit->file == NO_FILE) {
        return REFUSE_CREATE(WEIR_ERR_UNSUPPORTED, "shared memory %s: %s", limit->path, strerror(errno));
    }
    if (fstat(limit->file, facts) == 0 && !is_of_this_user_alone(facts)) {
        return REFUSE_CREATE(WEIR_ERR_UNSUPPORTED,
                             "shared memory %s belongs to user %" PRIuMAX " with mode %o, not to this user alone",
                             limit->path, (uintmax_t)facts->st_uid, (unsigned)facts->st_mode & 07777);
    }
    if (!lock_byte(limit->file, JOINING, F_OFD_SETLKW) || fstat(limit->file, facts) != 0) {
        return REFUSE_CREATE(WEIR_ERR_UNSUPPORTED, "lock of shared memory %s: %s", limit->path, strerror(errno));
    }
    return WEIR_OK;
}

/* Opens the file and locks byte JOINING. The file is opened anew if the last process that left has removed it between
 * these two steps, or if it is of another version and in no use. */
static weir_status open_file(weir_shared_limit *limit)
{
    for (;;) {
        struct stat facts;
        const weir_status status = open_locked(limit, &facts);
        const bool is_page = facts.st_size == 0 || facts.st_size == (off_t)sizeof(weir__limit_page);
        if (status != WEIR_OK || (is_page && facts.st_nlink != 0)) {
            return status;
        }
        if (!is_page && processes_of(limit) != 0) {
            return REFUSE_CREATE(WEIR_ERR_UNSUPPORTED, OTHER_VERSION, limit->path);
        }
        if (!is_page && facts.st_nlink != 0) {
            (void)shm_unlink(limit->path);
        }
        unlock_all(limit->file);
        (void)close(limit->file);
    }
}

/* Maps the shared page, and initialises it if no process has done so. posix_fallocate takes the memory now. Otherwise
 * the first access could end the process if the file system is full. */
static weir_status map_page(weir_shared_limit *limit)
{
    WEIR_ASSERT(limit->file != NO_FILE && limit->page == NULL);
    if (posix_fallocate(limit->file, 0, sizeof(weir__limit_page)) != 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    void *page = mmap(NULL, sizeof(weir__limit_page), PROT_READ | PROT_WRITE, MAP_SHARED, limit->file, 0);
    if (page == MAP_FAILED) {
        return WEIR_ERR_NO_MEMORY;
    }
    limit->page = page;
    if (__atomic_load_n(&limit->page->magic, __ATOMIC_ACQUIRE) == WEIR__LIMIT_MAGIC) {
        return WEIR_OK;
    }
    if (processes_of(limit) != 0) {
        return REFUSE_CREATE(WEIR_ERR_UNSUPPORTED, OTHER_VERSION, limit->path);
    }
    return init_page(limit->page) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static weir_status take_slot(weir_shared_limit *limit)
{
    WEIR_ASSERT(limit->slot == NO_SLOT && limit->page->magic == WEIR__LIMIT_MAGIC);
    for (size_t i = 0; i < WEIR_SHARED_LIMIT_PROCESSES; i++) {
        if (lock_byte(limit->file, 1 + i, F_OFD_SETLK)) {
            limit->slot = i;
            lock_page(limit->page);
            return_slot(limit->page, i); /* frees the bytes of an ended process that had this slot before */
            unlock_page(limit->page);
            return WEIR_OK;
        }
    }
    return REFUSE_CREATE(WEIR_ERR_BUSY, "config.name: %d processes share the limit", WEIR_SHARED_LIMIT_PROCESSES);
}

/* Sets the limit if no other process uses it. */
static weir_status agree(weir_shared_limit *limit, uint64_t wanted)
{
    WEIR_ASSERT(is_in_use(limit, limit->slot));
    if (processes_of(limit) == 1) {
        return wanted != 0
                   ? weir_shared_limit_set(limit, wanted)
                   : REFUSE_CREATE(WEIR_ERR_INVALID, "config.limit_bytes is 0, and no other process uses the name");
    }
    const uint64_t current = weir__shared_limit_bytes(limit);
    return wanted == 0 || wanted == current
               ? WEIR_OK
               : REFUSE_CREATE(WEIR_ERR_BUSY, "config.limit_bytes is %llu, but other processes use %llu",
                               (unsigned long long)wanted, (unsigned long long)current);
}

/* Removes the file if no other process uses it. Byte JOINING is locked, so no process joins meanwhile. */
static void remove_if_last(const weir_shared_limit *limit)
{
    WEIR_ASSERT(limit->file != NO_FILE);
    if (processes_of(limit) == (limit->slot != NO_SLOT)) {
        (void)shm_unlink(limit->path);
    }
}

/* Removes a file of shared memory that no process uses any more. Without byte JOINING locked, or if the file has lost
 * its name already, the name may be another file's. */
static void remove_if_left(const char *name)
{
    struct stat facts;
    weir_shared_limit left = {.slot = NO_SLOT};
    const int length = snprintf(left.path, sizeof(left.path), "/%s", name);
    if (length < 0 || (size_t)length >= sizeof(left.path)) {
        return;
    }
    left.file = above_standard(shm_open(left.path, O_RDWR | O_CLOEXEC, 0));
    if (left.file == NO_FILE) {
        return;
    }
    if (fstat(left.file, &facts) == 0 && is_of_this_user_alone(&facts) && lock_byte(left.file, JOINING, F_OFD_SETLK) &&
        fstat(left.file, &facts) == 0 && facts.st_nlink != 0) {
        remove_if_last(&left);
    }
    unlock_all(left.file);
    (void)close(left.file);
}

/* Removes the files of this user's limits whose last process was killed. The kernel removes no name. */
static void remove_all_left(const char *prefix)
{
    const int file = above_standard(open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = file >= 0 ? fdopendir(file) : NULL;
    if (folder == NULL) {
        if (file >= 0) {
            (void)close(file);
        }
        return;
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            remove_if_left(entry->d_name);
        }
    }
    (void)closedir(folder);
}

static weir_status join_named(weir_shared_limit *limit, const weir_shared_limit_config *config)
{
    (void)snprintf(limit->path, sizeof(limit->path), "/weir-limit-%lu-", (unsigned long)geteuid());
    remove_all_left(limit->path + 1);
    const size_t prefix = strlen(limit->path);
    (void)snprintf(limit->path + prefix, sizeof(limit->path) - prefix, "%s", config->name);
    weir_status status = open_file(limit);
    if (status != WEIR_OK) {
        return status;
    }
    status = map_page(limit);
    status = status == WEIR_OK ? take_slot(limit) : status;
    status = status == WEIR_OK ? agree(limit, config->limit_bytes) : status;
    if (status != WEIR_OK) {
        remove_if_last(limit);
    }
    unlock_byte(limit->file, JOINING);
    return status;
}

static weir_status make_own(weir_shared_limit *limit, const weir_shared_limit_config *config)
{
    WEIR_ASSERT(limit->file == NO_FILE && config->name == NULL);
    if (config->limit_bytes == 0) {
        return REFUSE_CREATE(WEIR_ERR_INVALID, "config.limit_bytes is 0, and config.name is NULL");
    }
    limit->page = malloc(sizeof(*limit->page));
    if (limit->page == NULL || !init_page(limit->page)) {
        return WEIR_ERR_NO_MEMORY;
    }
    limit->slot = 0;
    limit->page->limit_bytes = config->limit_bytes;
    return WEIR_OK;
}

static weir_status join(weir_shared_limit *limit, const weir_shared_limit_config *config)
{
    if (config->name == NULL) {
        return make_own(limit, config);
    }
    const weir_status status = check_name(config->name);
    return status == WEIR_OK ? join_named(limit, config) : status;
}

/* --- limits with a name that the process leaves to its end --- */

static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static weir_shared_limit *named; /* linked by next_named */
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void lock_named(void)
{
    (void)pthread_mutex_lock(&named_lock);
}

static void unlock_named(void)
{
    (void)pthread_mutex_unlock(&named_lock);
}

/* Locks the list during fork, because a child may create limits of its own. */
static void watch_forks(void)
{
    (void)pthread_atfork(lock_named, unlock_named, unlock_named);
}

static void note_named(weir_shared_limit *limit)
{
    WEIR_ASSERT(limit->file != NO_FILE && limit->slot != NO_SLOT);
    (void)pthread_once(&watched, watch_forks);
    (void)pthread_mutex_lock(&named_lock);
    limit->next_named = named;
    named = limit;
    (void)pthread_mutex_unlock(&named_lock);
}

static void forget_named(const weir_shared_limit *limit)
{
    (void)pthread_mutex_lock(&named_lock);
    weir_shared_limit **link = &named;
    while (*link != limit) {
        WEIR_ASSERT(*link != NULL);
        link = &(*link)->next_named;
    }
    *link = limit->next_named;
    (void)pthread_mutex_unlock(&named_lock);
}

/* Removes the names of which this process is the last user. Waits for no lock: the process must end. */
__attribute__((destructor)) static void remove_names_at_exit(void)
{
    if (pthread_mutex_trylock(&named_lock) != 0) {
        return;
    }
    for (const weir_shared_limit *limit = named; limit != NULL; limit = limit->next_named) {
        if (limit->process == (long)getpid() && lock_byte(limit->file, JOINING, F_OFD_SETLK)) {
            remove_if_last(limit);
            unlock_byte(limit->file, JOINING);
        }
    }
    (void)pthread_mutex_unlock(&named_lock);
}

/* Frees all that the limit has. */
static void end(weir_shared_limit *limit)
{
    WEIR_ASSERT(limit->members == NULL);
    if (limit->file != NO_FILE) {
        if (limit->page != NULL) {
            (void)munmap(limit->page, sizeof(*limit->page));
        }
        unlock_all(limit->file);
        (void)close(limit->file);
    } else {
        free(limit->page);
    }
    (void)pthread_mutex_destroy(&limit->members_lock);
    free(limit);
}

weir_status weir_shared_limit_create(const weir_shared_limit_config *config, weir_shared_limit **out)
{
    weir_shared_limit_config own = WEIR_SHARED_LIMIT_CONFIG_INIT;
    weir_status status = weir_struct_adopt(&own, sizeof(own), config, "weir_shared_limit_create: config");
    if (status != WEIR_OK) {
        return status;
    }
    if (out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_shared_limit_create: limit is NULL");
    }
    weir_shared_limit *limit = calloc(1, sizeof(*limit));
    if (limit == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    limit->file = NO_FILE;
    limit->slot = NO_SLOT;
    limit->process = (long)getpid();
    (void)pthread_mutex_init(&limit->members_lock, NULL);
    const int state = cancel_disable();
    status = join(limit, &own);
    if (status != WEIR_OK) {
        end(limit);
    } else {
        if (limit->file != NO_FILE) {
            note_named(limit);
        }
        *out = limit;
    }
    cancel_restore(state);
    return status;
}

weir_status weir_shared_limit_destroy(weir_shared_limit *limit)
{
    if (limit == NULL || limit->process != (long)getpid()) {
        return WEIR_OK; /* a child of fork leaves the limit unchanged */
    }
    (void)pthread_mutex_lock(&limit->members_lock);
    const bool is_used = limit->members != NULL;
    (void)pthread_mutex_unlock(&limit->members_lock);
    if (is_used) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_shared_limit_destroy: pools, heaps or devices use the limit");
    }
    const int state = cancel_disable();
    if (limit->file != NO_FILE) {
        forget_named(limit);
        if (lock_byte(limit->file, JOINING, F_OFD_SETLKW)) {
            remove_if_last(limit);
        }
    }
    end(limit);
    cancel_restore(state);
    return WEIR_OK;
}

/* --- memory of the program's own --- */

static weir_status refuse_bytes(const char *call, const weir_shared_limit *limit)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: %s", call, limit == NULL ? "limit is NULL" : "bytes is 0");
}

weir_status weir_shared_limit_take(weir_shared_limit *limit, uint64_t bytes)
{
    if (limit == NULL || bytes == 0) {
        return refuse_bytes("weir_shared_limit_take", limit);
    }
    return weir__shared_limit_take(limit, bytes, NULL) ? WEIR_OK : WEIR_ERR_LIMIT;
}

weir_status weir_shared_limit_give(weir_shared_limit *limit, uint64_t bytes)
{
    if (limit == NULL || bytes == 0) {
        return refuse_bytes("weir_shared_limit_give", limit);
    }
    lock_page(limit->page);
    const uint64_t own = limit->page->held_of[limit->slot];
    unlock_page(limit->page);
    if (bytes > own) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_shared_limit_give: %" PRIu64 " bytes, and the process holds %" PRIu64, bytes, own);
    }
    weir__shared_limit_give(limit, bytes);
    return WEIR_OK;
}

/* --- figures --- */

weir_status weir_shared_limit_set(weir_shared_limit *limit, uint64_t limit_bytes)
{
    if (limit == NULL || limit_bytes == 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_shared_limit_set: %s",
                           limit == NULL ? "limit is NULL" : "limit_bytes is 0");
    }
    lock_page(limit->page);
    limit->page->limit_bytes = limit_bytes;
    unlock_page(limit->page);
    return WEIR_OK;
}

weir_status weir_shared_limit_get_stats(weir_shared_limit *limit, weir_shared_limit_stats *stats)
{
    if (limit == NULL || stats == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_shared_limit_get_stats: %s is NULL",
                           limit == NULL ? "limit" : "stats");
    }
    const weir__limit_page *page = limit->page;
    lock_page(limit->page);
    return_ended(limit);
    const weir_shared_limit_stats found = {
        .struct_size = sizeof(found),
        .limit_bytes = page->limit_bytes,
        .held_bytes = page->held_bytes,
        .own_bytes = page->held_of[limit->slot],
        .peak_held_bytes = page->peak_held_bytes,
        .processes = processes_of(limit),
        .ended_processes = page->ended_processes,
        .returned_bytes = page->returned_bytes,
        .common_bytes = page->common_bytes,
    };
    unlock_page(limit->page);
    return weir_struct_report(stats, &found, sizeof(found), "weir_shared_limit_get_stats: stats");
}

size_t weir__shared_limit_explain(weir_shared_limit *limit, char *text, size_t size)
{
    weir_shared_limit_stats stats = WEIR_SHARED_LIMIT_STATS_INIT;
    if (weir_shared_limit_get_stats(limit, &stats) != WEIR_OK) {
        return 0;
    }
    const int length =
        snprintf(text, size, "shared limit: %llu of %llu bytes are held, %llu by this process, %llu by %llu others\n",
                 (unsigned long long)stats.held_bytes, (unsigned long long)stats.limit_bytes,
                 (unsigned long long)stats.own_bytes, (unsigned long long)(stats.held_bytes - stats.own_bytes),
                 (unsigned long long)(stats.processes - 1));
    return length > 0 ? (size_t)length : 0;
}

/* --- the members of this process --- */

void weir__shared_limit_join(weir_shared_limit *limit, weir__limit_member *member)
{
    WEIR_ASSERT(member->next == NULL);
    (void)pthread_mutex_lock(&limit->members_lock);
    member->next = limit->members;
    limit->members = member;
    (void)pthread_mutex_unlock(&limit->members_lock);
}

void weir__shared_limit_leave(weir_shared_limit *limit, weir__limit_member *member)
{
    (void)pthread_mutex_lock(&limit->members_lock);
    weir__limit_member **link = &limit->members;
    while (*link != NULL && *link != member) {
        link = &(*link)->next;
    }
    WEIR_ASSERT(*link == member);
    if (*link != NULL) {
        *link = member->next;
    }
    (void)pthread_mutex_unlock(&limit->members_lock);
}

void weir__shared_limit_trim_others(weir_shared_limit *limit, const weir__limit_member *member)
{
    WEIR_ASSERT(member != NULL);
    (void)pthread_mutex_lock(&limit->members_lock);
    for (weir__limit_member *other = limit->members; other != NULL; other = other->next) {
        if (other != member && other->trim != NULL) {
            other->trim(other);
        }
    }
    (void)pthread_mutex_unlock(&limit->members_lock);
}
