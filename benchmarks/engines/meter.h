/* meter.h: code that the programs of this folder share: runs an engine with its own allocator and with weir, and
 * compares.
 *
 *     meter_run(&engine, &options) == 0
 *
 * A program supplies functions that open its engine, run one inference and close the engine; the meter does the rest.
 * Each side runs in its own process, so that neither the engine's global state nor the memory of the other side
 * disturbs it. The meter counts the requests of the first round of inferences and compares the digests of its outputs.
 * It times the later rounds, first one side and then the other, never both at once, and takes the ratio of each round,
 * so that a disturbance of the machine affects both sides.
 *
 * Requests are counted between the binding and the heap (the linker's --wrap of the weir_heap functions), so the
 * figures called "requested" exclude rounding, slack and the heap's caches. Memory that the process takes without weir
 * is counted in malloc (outside.c). Both cost one branch while counting is off.
 */
#ifndef WEIR_BENCHMARKS_METER_H
#define WEIR_BENCHMARKS_METER_H

#include <weir/heap.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A block of this size or more counts as tensor memory. weir's share in the table is the share of the bytes of such
 * blocks that weir served. */
#define METER_LARGE_BYTES 4096

enum meter_side { METER_OWN, METER_WEIR };

/* The engine under measurement, as callbacks. A callback that fails prints the reason on standard error, and the meter
 * then ends that measurement. */
struct meter_engine {
    const char *name; /* heading of the table: engine, version, graph */
    size_t steps;     /* inferences in a round; the shape of each depends on its number only */
    void *ctx;
    /* Makes the engine ready to run, weights included. With METER_WEIR it also creates the heap. */
    bool (*open)(void *ctx, enum meter_side side);
    /* Runs one inference. If `digest` is not NULL, *digest becomes the digest of all bytes of all outputs
     * (meter_digest). */
    bool (*step)(void *ctx, size_t step, uint64_t *digest);
    /* Returns the heap while the engine is open with METER_WEIR; else NULL. */
    weir_heap *(*heap)(void *ctx);
    /* Ends the engine and then the heap. Returns false if blocks were left or the engine could not be ended. */
    bool (*close)(void *ctx);
};

struct meter_options {
    size_t rounds;        /* timed rounds of each side; 0: no times */
    bool alone;           /* runs one allocator only, in this process: a first round, then the timed rounds */
    enum meter_side side; /* the side for `alone` */
    const char *record;   /* path of the .wtr file for the requests of the counted round; NULL: no file */
};

#define METER_OPTIONS_INIT                                                                                             \
    {                                                                                                                  \
        .rounds = 15                                                                                                   \
    }

/* Parses an option that every program takes: --rounds N, --alone own|weir, --record FILE. Returns the number of
 * arguments that it took: 2, or 0 if the first is not such an option, or -1 after an error message. `arguments` ends
 * with NULL. */
int meter_options_take(char **arguments, struct meter_options *options);
/* Returns the lines of --help for these options. */
const char *meter_options_help(void);

/* Measures the engine with its own allocator and with weir, or with one of them; prints the table. Returns an exit
 * status: 0, or 1 if outputs differ, blocks were left or a run failed. */
int meter_run(const struct meter_engine *engine, const struct meter_options *options);

/* Parses the options of a program without further options, and runs the engine. Returns the exit status: that of
 * meter_run, or 2 after a message. */
int meter_main(const char *program, const struct meter_engine *engine, int argc, char **argv);

/* Continues a digest (0 at first) over `size` more bytes. */
uint64_t meter_digest(uint64_t digest, const void *bytes, size_t size);

/* Returns the processor time of this process, all threads, in nanoseconds. */
uint64_t meter_cpu_ns(void);

/* --- counting, for programs that do not use meter_run (tests) --- */

/* Counters of requests to one kind of memory: weir's heap, or the malloc family. */
struct meter_flow {
    uint64_t requests;
    uint64_t bytes;          /* as requested */
    uint64_t large_requests; /* requests of METER_LARGE_BYTES and more */
    uint64_t large_bytes;
    uint64_t largest;
};

struct meter_counts {
    struct meter_flow weir; /* weir_heap_alloc and its variants; a realloc counts as a request of the new size */
    /* requests of other code to the malloc family, METER_LARGE_BYTES or more; zero under a sanitizer */
    struct meter_flow outside;
    struct meter_flow bookkeeping; /* requests of weir to the malloc family, METER_LARGE_BYTES or more */
    uint64_t live_bytes;           /* requested bytes of weir's live blocks */
    uint64_t peak_live_bytes;
    uint64_t long_lived_bytes; /* part of live_bytes in long-lived blocks */
};

/* Starts counting from zero; blocks allocated earlier are not counted. Only one thread may call it. */
void meter_count_start(void);
/* Returns the counts so far. */
struct meter_counts meter_count_read(void);
void meter_count_stop(void);

#ifdef __cplusplus
}
#endif

#endif
