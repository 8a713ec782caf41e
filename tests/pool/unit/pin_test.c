/* tests/pool/unit/pin_test.c: pinned memory stays, whatever becomes of its blocks (weir/pin.h).
 *
 * Each rule is tested with virtual memory and with regions. A second user of the device holds what the pool gives back,
 * so memory that went and came again would lie elsewhere.
 */
enum { A, B, streams };

#include "rig/pool.h"

#include <weir/bump.h>
#include <weir/capture.h>
#include <weir/observer.h>
#include <weir/pin.h>
#include <weir/size_class.h>

#include <stdio.h>
#include <string.h>

#define PAGE (128 * KIB)

/* The ways of a pool to get memory: handles of a page or of several, or regions. */
static const uint32_t kinds[] = {0, WEIR_POOL_REGIONS};

enum { kind_count = sizeof(kinds) / sizeof(kinds[0]) };

static struct world open_pool(uint32_t flags, uint64_t capacity, uint64_t limit)
{
    weir_sim *sim = new_sim(device_of_units(PAGE, capacity));
    const weir_caching_config caching = regions_of(PAGE, UINT64_MAX);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = flags | WEIR_POOL_NO_FRONT_CACHE;
    config.limit_bytes = limit;
    config.strategy_config = &caching;
    return world_over(sim, config);
}

static weir_memory_info memory_of(const struct world *w, uint64_t address)
{
    weir_memory_info info = WEIR_MEMORY_INFO_INIT;
    ok(weir_pool_find_memory(w->pool, address, &info));
    assert_true(address - info.address < info.size);
    return info;
}

static void must_be(const struct world *w, const weir_memory_info *then)
{
    const weir_memory_info now = memory_of(w, then->address);
    assert_int_equal(now.address, then->address);
    assert_int_equal(now.size, then->size);
    assert_int_equal(now.handle, then->handle);
}

static void put_idle(struct world *w, weir_block *block)
{
    weir_sim_block_free(w->sim, weir_block_address(block), NULL, "idle");
    ok(weir_pool_free_idle(w->pool, block));
}

static uint64_t trim_all(struct world *w)
{
    uint64_t released = 0;
    ok(weir_pool_trim(w->pool, 0, WEIR_TRIM_WAIT, &released));
    check(w);
    return released;
}

/* --- the promise --- */

TEST(test_pinned_memory_stays_after_its_block)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind], 64 * PAGE, 0);
        weir_block *block = get(&w, A, 3 * PAGE);
        weir_block *other = get(&w, A, 2 * PAGE);
        const uint64_t address = weir_block_address(block);
        ok(weir_pool_pin(w.pool, address, 3 * PAGE));
        const weir_memory_info then = memory_of(&w, address);
        assert_int_equal(then.handle != 0, kinds[kind] == 0);
        assert_int_equal(then.pins, 1);
        assert_int_equal(figures(&w).pinned_bytes, 3 * PAGE);
        put_idle(&w, block);
        put_idle(&w, other);
        assert_int_equal(trim_all(&w), 2 * PAGE);
        must_be(&w, &then);
        assert_int_equal(held(&w), 3 * PAGE);
        weir_block *again = get(&w, B, 3 * PAGE); /* pinned memory serves requests */
        assert_int_equal(weir_block_address(again), address);
        put_idle(&w, again);
        ok(weir_pool_unpin(w.pool, address, 3 * PAGE));
        assert_int_equal(figures(&w).pinned_bytes, 0);
        assert_int_equal(held(&w), 3 * PAGE); /* an unpin gives nothing back by itself */
        assert_int_equal(trim_all(&w), 3 * PAGE);
        close_world(&w);
    }
}

TEST(test_pins_count)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind], 64 * PAGE, 0);
        weir_block *block = get(&w, A, 2 * PAGE);
        const uint64_t address = weir_block_address(block);
        ok(weir_pool_pin(w.pool, address, 2 * PAGE));
        ok(weir_pool_pin(w.pool, address, 1000)); /* a part, in the first page */
        ok(weir_pool_pin(w.pool, address, 2 * PAGE));
        assert_int_equal(memory_of(&w, address).pins, 3);
        assert_int_equal(memory_of(&w, address + 2 * PAGE - 1).pins, kinds[kind] == 0 ? 2 : 3);
        put_idle(&w, block);
        ok(weir_pool_unpin(w.pool, address, 2 * PAGE));
        ok(weir_pool_unpin(w.pool, address, 2 * PAGE));
        assert_int_equal(figures(&w).pinned_bytes, kinds[kind] == 0 ? PAGE : 2 * PAGE);
        assert_int_equal(trim_all(&w), kinds[kind] == 0 ? PAGE : 0);
        ok(weir_pool_unpin(w.pool, address, 1000));
        fails(weir_pool_unpin(w.pool, address, 1000), WEIR_ERR_INVALID);
        assert_int_equal(trim_all(&w), kinds[kind] == 0 ? PAGE : 2 * PAGE);
        close_world(&w);
    }
}

/* A pin of a few bytes keeps all of the handle, which is what another process gets. */
TEST(test_a_pin_keeps_the_whole_handle)
{
    weir_sim *sim = new_sim(device_of_units(64 * KIB, 4096 * MIB));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    struct world w = world_over(sim, config);
    weir_block *base = get(&w, A, 256 * MIB); /* handles are up to 1/32 of what is held */
    weir_block *block = get(&w, A, 8 * MIB);
    const uint64_t middle = weir_block_address(block) + 4 * MIB;
    const weir_memory_info then = memory_of(&w, middle);
    assert_true(then.size > 64 * KIB);
    ok(weir_pool_pin(w.pool, middle, 1));
    put_idle(&w, block);
    put_idle(&w, base);
    (void)trim_all(&w);
    must_be(&w, &then);
    assert_int_equal(held(&w), then.size);
    assert_int_equal(figures(&w).pinned_bytes, then.size);
    ok(weir_pool_unpin(w.pool, then.address + then.size - 1, 1)); /* the same handle */
    (void)trim_all(&w);
    assert_int_equal(held(&w), 0);
    close_world(&w);
}

/* An exporter's walk over the handles of a block: they lie side by side and cover it. */
TEST(test_the_handles_of_a_block)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind], 64 * PAGE, 0);
        weir_block *block = get_aligned(&w, A, 3 * PAGE - 512, PAGE);
        const uint64_t address = weir_block_address(block);
        uint64_t count = 0;
        uint64_t at = address + 512; /* in the first handle, not at its start */
        for (weir_memory_info info; at < address + 3 * PAGE - 512; at = info.address + info.size) {
            info = memory_of(&w, at);
            assert_true(count == 0 ? info.address == address : info.address == at);
            assert_int_equal(info.handle == 0, kinds[kind] != 0);
            count++;
        }
        assert_int_equal(count, kinds[kind] != 0 ? 1 : 3);
        assert_true(at >= address + 3 * PAGE);
        close_world(&w);
    }
}

/* --- what is refused --- */

TEST(test_refusals)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind], 64 * PAGE, 0);
        weir_memory_info info = WEIR_MEMORY_INFO_INIT;
        weir_block *block = get(&w, A, 2 * PAGE);
        const uint64_t address = weir_block_address(block);
        fails(weir_pool_pin(NULL, address, 1), WEIR_ERR_INVALID);
        fails(weir_pool_pin(w.pool, address, 0), WEIR_ERR_INVALID);
        fails(weir_pool_pin(w.pool, address, UINT64_MAX), WEIR_ERR_INVALID);
        fails(weir_pool_pin(w.pool, address, 64 * PAGE), WEIR_ERR_INVALID); /* the end is no memory of the pool */
        fails(weir_pool_pin(w.pool, address - 1, 2), WEIR_ERR_INVALID);
        fails(weir_pool_pin(w.pool, 0x10, 1), WEIR_ERR_INVALID);
        assert_int_equal(figures(&w).pinned_bytes, 0);
        ok(weir_pool_pin(w.pool, address, 1));
        fails(weir_pool_unpin(w.pool, address, 64 * PAGE), WEIR_ERR_INVALID);
        fails(weir_pool_unpin(NULL, address, 1), WEIR_ERR_INVALID);
        fails(weir_pool_unpin(w.pool, address, 0), WEIR_ERR_INVALID);
        assert_int_equal(memory_of(&w, address).pins, 1);
        fails(weir_pool_find_memory(w.pool, 0x10, &info), WEIR_ERR_INVALID);
        fails(weir_pool_find_memory(w.pool, address, NULL), WEIR_ERR_INVALID);
        fails(weir_pool_find_memory(NULL, address, &info), WEIR_ERR_INVALID);
        close_world(&w); /* the end of a pool ends its pins */
    }
}

/* The limit falls below what is pinned: the pinned memory stays, and the pool is healthy. */
TEST(test_limits_leave_pinned_memory)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind], 64 * PAGE, 0);
        weir_block *blocks[2] = {get(&w, A, 4 * PAGE), get(&w, A, 4 * PAGE)};
        const uint64_t address = weir_block_address(blocks[0]);
        ok(weir_pool_pin(w.pool, address, 4 * PAGE));
        put_idle(&w, blocks[0]);
        put_idle(&w, blocks[1]);
        ok(weir_pool_set_limits(w.pool, PAGE, 2 * PAGE));
        assert_int_equal(held(&w), 4 * PAGE);
        check(&w);
        ok(weir_pool_unpin(w.pool, address, 4 * PAGE));
        ok(weir_pool_set_limits(w.pool, PAGE, 2 * PAGE));
        assert_true(held(&w) <= PAGE);
        close_world(&w);
    }
}

/* --- what pins cost --- */

/* Four free blocks lie around a live one, and two of them are pinned: the others make room, and where they do not
 * suffice, the report says what to do. */
TEST(test_a_full_device_keeps_pinned_memory)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind], 9 * PAGE, 0);
        weir_block *blocks[4];
        weir_memory_info then[2];
        uint64_t fit = 0;
        for (int i = 0; i < 4; i++) {
            blocks[i] = get(&w, A, 2 * PAGE);
            (void)(i == 1 ? get(&w, A, PAGE) : NULL);
        }
        for (int i = 0; i < 2; i++) {
            then[i] = memory_of(&w, weir_block_address(blocks[3 * i]));
            ok(weir_pool_pin(w.pool, weir_block_address(blocks[3 * i]), 2 * PAGE));
        }
        for (int i = 0; i < 4; i++) {
            put_idle(&w, blocks[i]);
        }
        weir_block *some = get(&w, A, 4 * PAGE);
        must_be(&w, &then[0]);
        must_be(&w, &then[1]);
        put_idle(&w, some);
        ok(weir_pool_would_fit(w.pool, w.stream[A], 8 * PAGE, 1, &fit));
        const weir_oom_record record = refused(&w, A, 8 * PAGE);
        assert_int_equal(record.pinned_idle_bytes, 4 * PAGE);
        assert_int_equal(record.cause, WEIR_OOM_CAUSE_PINNED);
        assert_int_equal(fit, 0);
        assert_int_equal(record.advice[record.advice_count - 1].kind, WEIR_ADVICE_UNPIN);
        assert_int_equal(record.advice[record.advice_count - 1].bytes, 4 * PAGE);
        must_be(&w, &then[0]);
        must_be(&w, &then[1]);
        check(&w);
        char report[2048];
        assert_true(weir_oom_explain(&record, report, sizeof(report)) < sizeof(report));
        assert_non_null(strstr(report, "end the pins, which keep 512.00 KiB of idle memory"));
        for (int i = 0; i < 2; i++) {
            ok(weir_pool_unpin(w.pool, then[i].address, 2 * PAGE));
        }
        weir_block *all = get(&w, A, 8 * PAGE);
        check(&w);
        put_idle(&w, all);
        close_world(&w);
    }
}

/* The strategy names one idle region, which is pinned: the pool finds the others. */
TEST(test_a_pinned_region_hides_no_other)
{
    struct world w = open_pool(WEIR_POOL_REGIONS, 64 * PAGE, 0);
    weir_block *blocks[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = get(&w, A, PAGE + 512 * (uint64_t)(i + 1));
    }
    for (int i = 0; i < 8; i += 7) {
        ok(weir_pool_pin(w.pool, weir_block_address(blocks[i]), 1));
    }
    for (int i = 0; i < 8; i++) {
        put_idle(&w, blocks[i]);
    }
    (void)trim_all(&w);
    assert_int_equal(held(&w), figures(&w).pinned_bytes);
    assert_true(held(&w) != 0);
    close_world(&w);
}

/* --- reports --- */

static bool add_pinned(void *ctx, const weir_walk_entry *entry)
{
    assert_true(entry->pinned_bytes <= entry->size);
    *(uint64_t *)ctx += entry->pinned_bytes;
    return true;
}

static void find_words(void *ctx, const char *line)
{
    *(int *)ctx += strstr(line, "pinned") != NULL;
}

TEST(test_walk_and_dump_show_pins)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind], 64 * PAGE, 0);
        uint64_t bytes = 0;
        int lines = 0;
        weir_block *block = get(&w, A, 3 * PAGE);
        (void)get(&w, A, 3 * PAGE);
        ok(weir_pool_walk(w.pool, add_pinned, &bytes));
        ok(weir_pool_dump(w.pool, find_words, &lines));
        assert_true(bytes == 0 && lines == 0);
        ok(weir_pool_pin(w.pool, weir_block_address(block) + PAGE, PAGE + 1));
        ok(weir_pool_walk(w.pool, add_pinned, &bytes));
        ok(weir_pool_dump(w.pool, find_words, &lines));
        assert_int_equal(bytes, kinds[kind] == 0 ? 2 * PAGE : 3 * PAGE);
        assert_int_equal(bytes, figures(&w).pinned_bytes);
        assert_int_equal(lines, 2);
        close_world(&w);
    }
}

/* --- captures --- */

/* A library has registered a buffer of a graph. The memory belongs to the graph until that is gone, and stays in its
 * place after that until the pin ends. */
TEST(test_a_pin_outlives_a_graph)
{
    for (int kind = 0; kind < kind_count; kind++) {
        struct world w = open_pool(kinds[kind] | WEIR_POOL_CAPTURES_TOLD, 64 * PAGE, 0);
        weir_capture_pool *captures = NULL;
        ok(weir_capture_pool_create(w.pool, &captures));
        ok(weir_capture_begin(captures, w.stream[A]));
        weir_block *block = get(&w, A, 2 * PAGE);
        const uint64_t address = weir_block_address(block);
        ok(weir_pool_pin(w.pool, address, 2 * PAGE));
        const weir_memory_info then = memory_of(&w, address);
        put(&w, block, A);
        ok(weir_capture_end(captures));
        assert_int_equal(trim_all(&w), 0);
        weir_block *outside = get(&w, A, 2 * PAGE);
        assert_true(weir_block_address(outside) != address); /* the graph's, although it is free */
        ok(weir_capture_pool_release(captures));
        put_idle(&w, outside);
        (void)trim_all(&w);
        must_be(&w, &then);
        assert_int_equal(held(&w), 2 * PAGE);
        ok(weir_pool_unpin(w.pool, address, 2 * PAGE));
        assert_int_equal(trim_all(&w), 2 * PAGE);
        close_world(&w);
    }
}
