/* workloads.c: see workloads.h. */
#include "micro/workloads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT32_C(1) << 20)

/* --- random numbers --- */

/* Returns a random number (SplitMix64): the same on every machine, and good enough for sizes. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint32_t below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(((next_random(state) >> 32) * bound) >> 32);
}

static uint32_t log_uniform(uint64_t *state, uint32_t least, uint32_t most)
{
    const double part = (double)(next_random(state) >> 11) * 0x1p-53;
    return (uint32_t)((double)least * exp2(part * log2((double)most / (double)least)));
}

/* --- generating operations --- */

/* A workload that is being generated. `failed` is set when host memory runs out. */
struct writer {
    struct workload *workload;
    size_t room;
    bool failed;
};

static void write_op(struct writer *writer, uint32_t slot, uint32_t size)
{
    struct workload *workload = writer->workload;
    if (workload->count == writer->room) {
        const size_t room = writer->room != 0 ? writer->room * 2 : 4096;
        struct workload_op *ops = realloc(workload->ops, room * sizeof(*ops));
        if (ops == NULL) {
            writer->failed = true;
            return;
        }
        workload->ops = ops;
        writer->room = room;
    }
    workload->ops[workload->count++] = (struct workload_op){slot, size};
    workload->slots = slot >= workload->slots ? slot + 1 : workload->slots;
}

static void write_pair(struct writer *writer, uint32_t size)
{
    enum { blocks = 64 };
    for (uint32_t slot = 0; slot < blocks; slot++) {
        write_op(writer, slot, size);
    }
    for (uint32_t slot = 0; slot < blocks; slot += 2) {
        write_op(writer, slot, 0);
    }
    writer->workload->start = writer->workload->count;
    writer->workload->pair_bytes = size;
}

struct mix {
    uint32_t live;
    uint32_t most;
    bool uniform; /* true: sizes are uniform from 1 byte; false: log-uniform from 512 bytes */
    uint32_t warm_up;
    uint32_t steps;
};

static uint32_t mix_size(const struct mix *mix, uint64_t *random)
{
    return mix->uniform ? 1 + below(random, mix->most) : log_uniform(random, 512, mix->most);
}

static void write_mix(struct writer *writer, const struct mix *mix, uint64_t random)
{
    for (uint32_t slot = 0; slot < mix->live; slot++) {
        write_op(writer, slot, mix_size(mix, &random));
    }
    for (uint32_t step = 0; step < mix->warm_up + mix->steps; step++) {
        if (step == mix->warm_up) {
            writer->workload->start = writer->workload->count;
        }
        const uint32_t slot = below(&random, mix->live);
        write_op(writer, slot, 0);
        write_op(writer, slot, mix_size(mix, &random));
    }
    writer->workload->batch_pairs = mix->steps % 1000 == 0 ? 1000 : mix->steps;
}

/* Writes phases of small and of large blocks in turn. A phase allocates `live` blocks, replaces a random one `steps`
 * times, and frees all of them. */
static void write_phases(struct writer *writer, uint32_t steps, uint64_t random)
{
    static const struct phase {
        uint32_t live;
        uint32_t least;
        uint32_t most;
    } phases[] = {{640, 4096, MIB}, {10, 2 * MIB, 32 * MIB}};
    enum { replacements = 100000, fewest_phases = 20 };
    const uint32_t count = replacements / steps > fewest_phases ? replacements / steps : fewest_phases;
    for (uint32_t i = 0; i < count; i++) {
        const struct phase phase = phases[i % 2];
        for (uint32_t slot = 0; slot < phase.live; slot++) {
            write_op(writer, slot, log_uniform(&random, phase.least, phase.most));
        }
        for (uint32_t step = 0; step < steps; step++) {
            const uint32_t slot = below(&random, phase.live);
            write_op(writer, slot, 0);
            write_op(writer, slot, log_uniform(&random, phase.least, phase.most));
        }
        for (uint32_t slot = 0; slot < phase.live; slot++) {
            write_op(writer, slot, 0);
        }
    }
}

enum {
    infer_steps = 400,
    layers = 24,
    width = 1024,
    element_bytes = 2,
    heads = 16,
    kept_tokens = 16, /* tokens in one block of the KV cache */
    kept_steps = 32,  /* a block of the KV cache lives for fewer steps than this */
    least_tokens = 256,
    most_tokens = 4096,
    walk_tokens = 64,
    kept_blocks = layers * kept_steps,
};

/* Slots for the blocks of a step: each slot names one live block. The slots below kept_blocks are for blocks of the KV
 * cache: a ring of slots for each layer. */
enum {
    RESIDUAL = kept_blocks,
    NEXT,
    NORMAL,
    STATISTICS,
    FUSED,
    QUERY,
    ATTENDED,
    PROJECTED,
    WIDE,
    ACTIVE,
    LOGITS,
    TOKEN_IDS,
};

static void write_layer(struct writer *writer, uint32_t tokens)
{
    const uint32_t row = tokens * width * element_bytes;
    const uint32_t few = tokens * heads * 4u;
    write_op(writer, STATISTICS, tokens * 8u);
    write_op(writer, NORMAL, row);
    write_op(writer, STATISTICS, 0);
    write_op(writer, FUSED, 3 * row);
    write_op(writer, NORMAL, 0);
    write_op(writer, QUERY, row);
    write_op(writer, STATISTICS, few);
    write_op(writer, ATTENDED, row);
    write_op(writer, STATISTICS, 0);
    write_op(writer, QUERY, 0);
    write_op(writer, FUSED, 0);
    write_op(writer, PROJECTED, row);
    write_op(writer, ATTENDED, 0);
    write_op(writer, NEXT, row);
    write_op(writer, PROJECTED, 0);
    write_op(writer, RESIDUAL, 0);
    write_op(writer, NORMAL, row);
    write_op(writer, WIDE, 4 * row);
    write_op(writer, NORMAL, 0);
    write_op(writer, ACTIVE, 4 * row);
    write_op(writer, WIDE, 0);
    write_op(writer, RESIDUAL, row);
    write_op(writer, ACTIVE, 0);
    write_op(writer, NEXT, 0);
}

/* Returns the next number of tokens: up to walk_tokens more or fewer, within least_tokens and most_tokens. */
static uint32_t walk(uint32_t tokens, uint64_t *random)
{
    const uint32_t moved = tokens + below(random, 2 * walk_tokens + 1);
    const uint32_t least = least_tokens + walk_tokens;
    const uint32_t most = most_tokens + walk_tokens;
    return (moved < least ? least : moved > most ? most : moved) - walk_tokens;
}

static void write_infer(struct writer *writer, uint64_t random)
{
    uint32_t ends[kept_blocks] = {0}; /* for each slot: the step before which its block is freed; 0: no block */
    uint32_t tokens = 1024;
    for (uint32_t step = 1; step <= infer_steps; step++) {
        for (uint32_t slot = 0; slot < kept_blocks; slot++) {
            if (ends[slot] == step) {
                write_op(writer, slot, 0);
                ends[slot] = 0;
            }
        }
        tokens = walk(tokens, &random);
        write_op(writer, TOKEN_IDS, tokens * 8u);
        write_op(writer, RESIDUAL, tokens * width * element_bytes);
        for (uint32_t layer = 0; layer < layers; layer++) {
            const uint32_t slot = layer * kept_steps + step % kept_steps;
            write_op(writer, slot, 2u * kept_tokens * width * element_bytes);
            ends[slot] = step + 1 + below(&random, kept_steps - 1);
            write_layer(writer, tokens);
        }
        write_op(writer, LOGITS, 50304u * element_bytes);
        write_op(writer, RESIDUAL, 0);
        write_op(writer, LOGITS, 0);
        write_op(writer, TOKEN_IDS, 0);
    }
    for (uint32_t slot = 0; slot < kept_blocks; slot++) {
        if (ends[slot] != 0) {
            write_op(writer, slot, 0);
        }
    }
}

/* --- workloads by name --- */

/* The parameters of the named workloads. `pair_bytes` selects write_pair, `mix.live` write_mix, `phase_steps`
 * write_phases; a plan without them is for write_infer. */
static const struct plan {
    const char *name;
    uint32_t pair_bytes;
    struct mix mix;
    uint32_t phase_steps;
} plans[] = {
    {.name = "pair512", .pair_bytes = 512},
    {.name = "pair1M", .pair_bytes = MIB},
    {"mix1k", 0, {1000, 64 * MIB, false, 50000, 200000}, 0},
    {"mix100k", 0, {100000, 64 * MIB, false, 200000, 200000}, 0},
    {"mix1M", 0, {1000000, MIB, false, 300000, 400000}, 0},
    {"live10", 0, {10, MIB, false, 50000, 300000}, 0},
    {"live100", 0, {100, MIB, false, 50000, 300000}, 0},
    {"live1k", 0, {1000, MIB, false, 50000, 300000}, 0},
    {"live10k", 0, {10000, MIB, false, 50000, 300000}, 0},
    {"live100k", 0, {100000, MIB, false, 50000, 300000}, 0},
    {.name = "infer"},
    {.name = "phases100", .phase_steps = 100},
    {.name = "phases1k", .phase_steps = 1000},
    {.name = "phases10k", .phase_steps = 10000},
    {"log1k", 0, {1000, 32 * MIB, false, 0, 29500}, 0},
    {"log10k", 0, {10474, 32 * MIB, false, 0, 24763}, 0},
    {"uniform1k", 0, {1000, MIB, true, 0, 29500}, 0},
    {"uniform11k", 0, {11091, MIB, true, 0, 24454}, 0},
};

enum { plan_count = sizeof(plans) / sizeof(plans[0]) };

static const struct plan *plan_of(const char *name)
{
    for (size_t i = 0; i < plan_count; i++) {
        if (strcmp(plans[i].name, name) == 0) {
            return &plans[i];
        }
    }
    return NULL;
}

/* Computes peak_bytes, the highest sum of live bytes. Returns false when out of memory. */
static bool find_peak(struct workload *workload)
{
    uint32_t *sizes = calloc(workload->slots, sizeof(*sizes));
    uint64_t live = 0;
    for (size_t i = 0; i < workload->count && sizes != NULL; i++) {
        const struct workload_op *op = &workload->ops[i];
        live = live - sizes[op->slot] + op->size;
        sizes[op->slot] = op->size;
        workload->peak_bytes = live > workload->peak_bytes ? live : workload->peak_bytes;
    }
    free(sizes);
    return sizes != NULL;
}

bool workload_make(const char *name, uint64_t seed, struct workload *workload)
{
    *workload = (struct workload){0};
    struct writer writer = {.workload = workload};
    const struct plan *plan = plan_of(name);
    if (plan == NULL) {
        return false;
    }
    if (plan->pair_bytes != 0) {
        write_pair(&writer, plan->pair_bytes);
    } else if (plan->mix.live != 0) {
        write_mix(&writer, &plan->mix, seed);
    } else {
        if (plan->phase_steps != 0) {
            write_phases(&writer, plan->phase_steps, seed);
        } else {
            write_infer(&writer, seed);
        }
        workload->batch_pairs = workload->count / 2;
    }
    workload->batch_ops = 2 * (size_t)workload->batch_pairs;
    if (writer.failed || !find_peak(workload)) {
        workload_free(workload);
        return false;
    }
    return true;
}

void workload_free(struct workload *workload)
{
    free(workload->ops);
    *workload = (struct workload){0};
}

/* --- playing --- */

bool workload_play(const struct workload *workload, size_t from, size_t to, void **blocks,
                   const struct workload_user *user)
{
    for (size_t i = from; i < to; i++) {
        const struct workload_op op = workload->ops[i];
        if (op.size != 0) {
            blocks[op.slot] = user->alloc(user->ctx, op.size);
            if (blocks[op.slot] == NULL) {
                return false;
            }
        } else {
            user->free(user->ctx, blocks[op.slot]);
            blocks[op.slot] = NULL;
        }
    }
    return true;
}

void workload_clear(const struct workload *workload, void **blocks, const struct workload_user *user)
{
    for (uint32_t slot = 0; slot < workload->slots; slot++) {
        if (blocks[slot] != NULL) {
            user->free(user->ctx, blocks[slot]);
            blocks[slot] = NULL;
        }
    }
}
