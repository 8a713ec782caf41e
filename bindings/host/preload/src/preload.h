/* preload.h: declarations that the files of libweir_preload.so share, grouped by the file that defines them.
 *
 * Lock order, outermost first: `making` of preload.c, the lock of holders.c. No lock of a heap is taken under the lock
 * of holders.c. Memory that this library itself needs is the C library's: every function here runs either with the mark
 * `inside` set (preload.c), or calls nothing that allocates.
 */
#ifndef WEIR_PRELOAD_H
#define WEIR_PRELOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/heap.h>

/* --- preload.c --- */

/* The environment of the program, read once, before the first heap is made. */
struct preload_options {
    uint64_t limit_bytes;    /* WEIR_PRELOAD_LIMIT; 0: none */
    const char *report_path; /* WEIR_PRELOAD_REPORT; NULL: no report */
    int signal_number;       /* WEIR_PRELOAD_SIGNAL; 0: none */
};

/* Returns the options; all zero before the heap is made and in a process with another user's rights. */
const struct preload_options *preload_options(void);
/* Returns the heap that replaces malloc in this process; NULL: none has been made. */
weir_heap *preload_heap(void);
/* Returns how many frees of the heap were refused because the block is the C library's or was made before a fork. */
uint64_t preload_foreign_frees(void);
/* Marks the calling thread as inside of this library: its calls of malloc go to the C library. Returns false if it was
 * marked before. */
bool preload_enter(void);
void preload_leave(void);
/* As malloc and memalign, for the code at `caller`. */
void *preload_alloc(size_t size, const void *caller);
void *preload_alloc_aligned(size_t align, size_t size, const void *caller);

/* --- holders.c: who holds the memory --- */

/* The least size of which each block is noted. A smaller block is noted with a probability of about its size over this
 * one. */
enum { HOLDERS_STEP = 64 << 10 };

/* A noted block. */
struct holders_note {
    uintptr_t caller; /* the code that asked for it */
    uint64_t weight;  /* the bytes that it stands for */
};

/* The memory that the code at one address holds. */
struct holders_site {
    uintptr_t caller;
    uint64_t live_bytes;
    uint64_t peak_bytes; /* when all sites together held the most */
};

/* Begins anew in a child of fork, which holds no noted block. */
void holders_restart(void);
/* Notes a new block, if it is one of those that are. */
void holders_note_slow(const void *block, size_t size, const void *caller);
/* Forgets a block that is about to be freed. Returns true, with the note, if there was one. */
bool holders_forget_slow(const void *block, struct holders_note *note);
/* Notes a block again that was forgotten and not freed. */
void holders_restore(const void *block, const struct holders_note *note);
/* Copies the sites. Returns their number; *sites is from the C library's malloc, or NULL. Called with the mark set. */
size_t holders_copy(struct holders_site **sites);

extern bool holders_are_noted;             /* set once, before the first heap is made */
extern _Thread_local int64_t holders_left; /* bytes until the thread's next small block is noted */
enum { HOLDERS_FILTER_BITS = 16 };
extern _Atomic uint8_t holders_filter[1 << HOLDERS_FILTER_BITS];

static inline size_t holders_slot(const void *block)
{
    return (size_t)(((uint64_t)(uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - HOLDERS_FILTER_BITS));
}

static inline void holders_note(const void *block, size_t size, const void *caller)
{
    if (__builtin_expect(holders_are_noted, false)) {
        if (block != NULL && (size >= HOLDERS_STEP || (holders_left -= (int64_t)size) < 0)) {
            holders_note_slow(block, size, caller);
        }
    }
}

static inline bool holders_forget(const void *block, struct holders_note *note)
{
    return __builtin_expect(holders_are_noted, false) &&
           atomic_load_explicit(&holders_filter[holders_slot(block)], memory_order_relaxed) != 0 &&
           holders_forget_slow(block, note);
}

/* --- report.c --- */

/* Starts the thread that writes a report for each signal of the options. */
void report_start(void);
/* Writes the report at the end of the process, if one is asked for. */
void report_end(void);
/* Says on standard error, once in a process, that a request of `size` bytes has failed at the limit, and why. */
void report_refusal(size_t size);
/* Writes a report to standard error (malloc_stats). */
void report_to_error(void);
/* Says a sentence on standard error and aborts, as the C library does for a bad free. */
_Noreturn void report_bad_free(const void *block);
/* Says a sentence on standard error. */
void report_sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
