/* meter.h: what the programs of this folder share: an engine under its own allocator and under weir, side by side.
 *
 *     meter_run(&engine, &options) == 0
 *
 * A program says how its engine is opened, how one inference is run and how it is closed; everything else happens here. Each
 * side lives in a process of its own, so that neither the engine's global state nor the other's memory is in the way. The
 * first round of inferences is counted, and the digests of its outputs are compared; the rounds after it are timed, one side
 * after the other, never at once, and the ratio is taken round by round: what the machine does meanwhile falls on both.
 *
 * Requests are seen between the binding and the heap (the linker's --wrap of the weir_heap functions), so rounding, slack and
 * the heap's caches are not in the figures called "requested". What the process takes past weir is seen in malloc itself
 * (outside.c). Both cost one branch when they do not count.
 */
#ifndef WEIR_BENCHMARKS_METER_H
#define WEIR_BENCHMARKS_METER_H

#include <weir/heap.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From this size on a block counts as memory of tensors: the share of weir is that of the bytes in such blocks. */
#define METER_LARGE_BYTES 4096

enum meter_side { METER_OWN, METER_WEIR };

/* What the program supplies. A function that fails says why on standard error; the meter ends that side. */
struct meter_engine {
    const char *name; /* for people: engine, version, graph */
    size_t steps;     /* inferences in a round; the shape of each depends on its number only */
    void *ctx;
    /* Makes the engine ready to run, weights included. With METER_WEIR the heap is made here too. */
    bool (*open)(void *ctx, enum meter_side side);
    /* One inference. *digest, when it is not NULL, becomes the digest of all bytes of all outputs (meter_digest). */
    bool (*step)(void *ctx, size_t step, uint64_t *digest);
    /* The heap, while it is open under METER_WEIR; else NULL. */
    weir_heap *(*heap)(void *ctx);
    /* Ends the engine and then the heap. False: blocks were left, or it could not end. */
    bool (*close)(void *ctx);
};

struct meter_options {
    size_t rounds; /* timed rounds of each side; 0: no times */
    bool once;            /* one side alone, in this process, a warm round and one inside meter_round: for callgrind */
    enum meter_side side; /* which, with `once` */
    const char *record; /* file for the requests of the counted round, as .wtr; NULL: none */
};

#define METER_OPTIONS_INIT                                                                         \
    {                                                                                              \
        .rounds = 15                                                                               \
    }

/* What every program takes: --rounds N, --once own|weir, --record FILE. Returns how many arguments from `arguments` on it took: 2, or 0 when
 * the first is not one of its own, or -1 after it has said what is wrong. `arguments` ends with NULL. */
int meter_options_take(char **arguments, struct meter_options *options);
/* For programs that take no others: the index of the first argument that is not one of these, or -1. */
int meter_options_parse(int argc, char **argv, struct meter_options *options);
/* Those options for a --help, whole lines. */
const char *meter_options_help(void);

/* Runs, prints the table and returns an exit status: 0, or 1 when outputs differ, something was left or a side failed. */
int meter_run(const struct meter_engine *engine, const struct meter_options *options);

/* Goes on from `digest` (0 to begin with) over `size` more bytes. */
uint64_t meter_digest(uint64_t digest, const void *bytes, size_t size);

/* Processor time of this process, all threads, nanoseconds. */
uint64_t meter_cpu_ns(void);

/* --- counting, for programs that do it themselves (tests) --- */

/* Of one kind of block source. */
struct meter_flow {
    uint64_t requests;
    uint64_t bytes;          /* as requested */
    uint64_t large_requests; /* of METER_LARGE_BYTES and more */
    uint64_t large_bytes;
    uint64_t largest;
};

struct meter_counts {
    struct meter_flow weir; /* weir_heap_alloc and its like; a realloc counts as a request of the new size */
    struct meter_flow outside; /* malloc and its like, from METER_LARGE_BYTES on only; zero under a sanitizer */
    struct meter_flow bookkeeping; /* the same, by weir itself */
    uint64_t live_bytes; /* as requested, of weir's blocks */
    uint64_t peak_live_bytes;
    uint64_t long_lived_bytes; /* of live_bytes */
};

/* From now on requests are counted, from zero; blocks from before are not known. One thread may call it. */
void meter_count_start(void);
/* What has been counted so far. */
struct meter_counts meter_count_read(void);
void meter_count_stop(void);

#endif
