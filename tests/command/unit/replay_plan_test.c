/* replay_plan_test.c: the row "plan" and its packing, and the steps of a program that repeat. */
#include "rig/wtr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/plan.h"
#include "replay/steps.h"

static bool overlap(const struct packing_block *a, const struct packing_block *b)
{
    return a->from < b->to && b->from < a->to && a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

/* Checks the answer against its rules, one block with each other. */
static void check_packing(const struct packing_block *blocks, size_t count, const struct packing *packing)
{
    uint64_t extent = 0;
    uint64_t bound = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t live = 0;
        for (size_t k = 0; k < count; k++) {
            assert_true(i == k || !overlap(&blocks[i], &blocks[k]));
            live += blocks[k].from <= blocks[i].from && blocks[i].from < blocks[k].to ? blocks[k].size : 0;
        }
        assert_int_equal(blocks[i].offset % blocks[i].alignment, 0);
        bound = live > bound ? live : bound;
        extent = blocks[i].offset + blocks[i].size > extent ? blocks[i].offset + blocks[i].size : extent;
    }
    assert_true(packing->found);
    assert_int_equal(packing->bound, bound);
    assert_int_equal(packing->extent, extent);
    assert_true(extent >= bound);
}

/* In order of their allocation, first fit would take 5: block 2 fits neither before nor behind block 1. */
TEST(a_packing_knows_what_comes)
{
    struct packing_block blocks[] = {
        {.size = 2, .alignment = 1, .from = 0, .to = 1},
        {.size = 1, .alignment = 1, .from = 0, .to = 2},
        {.size = 3, .alignment = 1, .from = 1, .to = 2},
    };
    struct packing packing;
    assert_true(packing_find(blocks, 3, &packing));
    check_packing(blocks, 3, &packing);
    assert_int_equal(packing.extent, 4);
}

TEST(random_packings_obey_the_rules)
{
    enum { most = 120 };
    struct packing_block blocks[most];
    struct packing packing;
    for (uint64_t seed = 5; seed <= 20; seed += 5) {
        uint64_t state = seed;
        const size_t count = (size_t)(seed * 6);
        for (size_t i = 0; i < count; i++) {
            uint64_t drawn[4];
            for (size_t k = 0; k < 4; k++) {
                state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                drawn[k] = state >> 33;
            }
            const uint32_t from = (uint32_t)(drawn[0] % count);
            blocks[i] = (struct packing_block){.size = 1 + drawn[1] % 40,
                                               .alignment = UINT64_C(1) << drawn[2] % 4,
                                               .from = from,
                                               .to = from + 1 + (uint32_t)(drawn[3] % (count - from))};
        }
        assert_true(packing_find(blocks, count, &packing));
        check_packing(blocks, count, &packing);
    }
}

TEST(nothing_and_too_much_to_pack)
{
    struct packing packing;
    assert_true(packing_find(NULL, 0, &packing));
    assert_true(packing.found);
    assert_int_equal(packing.extent, 0);
    assert_true(packing_find(NULL, (size_t)1 << 32, &packing)); /* it looks at no block */
    assert_false(packing.found);
}

/* 64 KiB from before, 1 MiB which is reallocated to 2 MiB: both live for a moment; the request of 4 MiB was refused. */
TEST(the_plan_of_a_trace)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "p 9 65536 0\n"
                                        "a 0 0 1048576 0 0\n"
                                        "r 1 0 1 2097152 0\n"
                                        "f 2 1 0 0\n"
                                        "a 3 2 100 0 0\n"
                                        "o 4 4194304 1000\n");
    struct replay_result result;
    bool found = false;
    assert_true(plan_run(trace, true, &result, &found));
    assert_true(found);
    assert_true(plan_is(&result));
    assert_int_equal(result.prior_blocks, 1);
    assert_int_equal(result.allocs, 3);
    assert_int_equal(result.frees, 2);
    assert_int_equal(result.peak_live_bytes, 65536 + 100 + 4194304);
    assert_int_equal(result.peak_reserved_bytes, 65536 + 128 + 4194304); /* blocks begin at multiples of 64 bytes */
    assert_int_equal(result.region_count, 1);
    assert_int_equal(result.regions[0].size, result.peak_reserved_bytes);
    for (uint32_t i = 0; i < trace->block_count; i++) {
        assert_true(result.places[i].address >= result.regions[0].address);
        assert_int_equal(result.places[i].address % 64, 0);
    }
    replay_result_free(&result);
    trace_free(trace);
}

/* A request before the steps, then steps of four requests, of which the last one leaks 16 bytes. */
static struct trace *trace_of_equal_steps(size_t count)
{
    static const unsigned sizes[] = {100, 200, 200, 16};
    char *text = NULL;
    size_t size = 0;
    size_t block = 1;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fputs("#wtr 1\na 0 0 5 0 0\n", out);
    for (size_t step = 0; step < count; step++) {
        for (size_t i = 0; i < 4; i++, block++) {
            (void)fprintf(out, "a %zu %zu %u 0 0\n", block, block, sizes[i]);
            if (i < 3) {
                (void)fprintf(out, "f %zu %zu 0 0\n", block, block);
            }
        }
    }
    (void)fclose(out);
    struct trace *trace = trace_of_text(text);
    free(text);
    return trace;
}

TEST(steps_that_repeat)
{
    struct trace *trace = trace_of_equal_steps(7);
    struct steps steps;
    assert_true(steps_find(trace, &steps));
    assert_int_equal(steps.count, 7);
    assert_int_equal(steps.requests, 4);
    assert_int_equal(steps.all, 29);
    assert_int_equal(steps.first_event, 1);
    assert_int_equal(steps.last_event, 49);
    assert_int_equal(steps.growth_bytes, 16);
    trace_free(trace);

    trace = trace_of_text("#wtr 1\na 0 0 5 0 0\na 1 1 6 0 0\na 2 2 7 0 0\n");
    assert_true(steps_find(trace, &steps));
    assert_int_equal(steps.count, 0);
    trace_free(trace);
}
