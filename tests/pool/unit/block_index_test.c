/* tests/pool/unit/block_index_test.c: blocks by address, read without a lock.
 *
 * The owner of a block always finds it, while other threads change its chain. An address that is no block's is never
 * found. The threads here allocate and free all the time without a front cache, so descriptors and chains change
 * constantly. The index is created and grows while it is read, and its requests for host memory fail.
 *
 * Linked so that calloc goes through the test's own function.
 */
#include "rig/test.h"
#include "fake_device.h"
#include "state/state.h"

#include <weir/caching.h>
#include <weir/pool.h>

/* --- failing host memory --- */

/* The index calls calloc for one large element, tables call it for many entries. The stand-in below refuses only single
 * elements larger than this. */
static _Atomic size_t largest_piece; /* bytes; 0: no limit */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    const size_t most = atomic_load(&largest_piece);
    return most != 0 && count == 1 && size > most ? NULL : __real_calloc(count, size);
}

/* --- a pool without a front cache --- */

struct world {
    struct fake_device fake;
    weir_device *device;
    weir_pool *pool;
};

typedef weir_status take_region(void *ctx, uint64_t size, uint64_t *address);

static void open_world_on(struct world *w, take_region *region_alloc, uint64_t region_bytes)
{
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    fake_init(&w->fake);
    w->fake.ops.region_alloc = region_alloc;
    assert_int_equal(weir_device_create(&w->fake.ops, &w->fake, &w->device), WEIR_OK);
    caching.small_region_bytes = region_bytes;
    config.device = w->device;
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    config.flags = WEIR_POOL_REGIONS | WEIR_POOL_NO_FRONT_CACHE;
    assert_int_equal(weir_pool_create(&config, &w->pool), WEIR_OK);
}

static void open_world(struct world *w)
{
    open_world_on(w, fake_region_alloc, 0);
}

static void close_world(struct world *w)
{
    const char *why = "";
    if (weir_pool_check(w->pool, &why) != WEIR_OK) {
        print_error("check: %s\n", why);
        fail();
    }
    assert_int_equal(weir_pool_destroy(w->pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->device), WEIR_OK);
}

static weir_stream *stream_of(const struct world *w, uintptr_t native)
{
    weir_stream *stream = NULL;
    assert_int_equal(weir_pool_stream(w->pool, (void *)native, &stream), WEIR_OK);
    return stream;
}

static bool finds(weir_pool *pool, const weir_block *block)
{
    weir_block *found = NULL;
    return weir_pool_find(pool, weir_block_address(block), &found) == WEIR_OK && found == block;
}

/* True if no address inside the block, except its own, is found. */
static bool finds_nothing_inside(weir_pool *pool, const weir_block *block)
{
    weir_block *found = NULL;
    return weir_pool_find(pool, weir_block_address(block) + 256, &found) == WEIR_ERR_INVALID && found == NULL;
}

/* --- lookups while other threads allocate and free --- */

enum { churners = 2, keepers = 2, held_each = 64 };

struct shared {
    struct world world;
    atomic_bool done;
    atomic_uint errors;
};

struct part {
    struct shared *shared;
    weir_stream *stream;
    uint64_t random;
    uint64_t rounds; /* 0: until the other threads are done */
    unsigned most;   /* maximum of held blocks */
    weir_block *held[6000];
};

static uint64_t below(struct part *part, uint64_t n)
{
    part->random = part->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (part->random >> 33) % n;
}

static void expect(struct part *part, bool condition)
{
    if (!condition) {
        atomic_fetch_add(&part->shared->errors, 1);
    }
}

/* Allocates and frees, so that descriptors leave their chains and enter other chains. */
static void *churn(void *ctx)
{
    struct part *part = ctx;
    weir_pool *pool = part->shared->world.pool;
    while (!atomic_load(&part->shared->done)) {
        weir_block **place = &part->held[below(part, part->most)];
        if (*place != NULL) {
            expect(part, weir_pool_free(pool, *place, part->stream) == WEIR_OK);
            *place = NULL;
        } else {
            expect(part, weir_pool_alloc(pool, part->stream, 512 + below(part, 4 * KIB), 0, place) == WEIR_OK);
        }
    }
    for (unsigned i = 0; i < part->most; i++) {
        expect(part, part->held[i] == NULL || weir_pool_free(pool, part->held[i], part->stream) == WEIR_OK);
    }
    return NULL;
}

/* A keeper: holds blocks and looks them up, looks up addresses that are in no block, and sometimes replaces a block by
 * a new one. */
static void *keep(void *ctx)
{
    struct part *part = ctx;
    weir_pool *pool = part->shared->world.pool;
    for (uint64_t round = 0; round < part->rounds; round++) {
        weir_block **place = &part->held[below(part, part->most)];
        if (*place != NULL && below(part, 16) == 0) {
            expect(part, weir_pool_free(pool, *place, part->stream) == WEIR_OK);
            *place = NULL;
        }
        if (*place == NULL) {
            expect(part, weir_pool_alloc(pool, part->stream, 512 + below(part, 4 * KIB), 0, place) == WEIR_OK);
        }
        expect(part, finds(pool, *place));
        expect(part, finds_nothing_inside(pool, *place));
    }
    for (unsigned i = 0; i < part->most; i++) {
        expect(part, part->held[i] == NULL || weir_pool_free(pool, part->held[i], part->stream) == WEIR_OK);
    }
    return NULL;
}

/* Runs the keepers for their rounds, and the churners until the keepers are done. */
static void run(struct shared *shared, struct part *parts, unsigned churner_count, uint64_t rounds)
{
    pthread_t threads[churners + keepers];
    const unsigned count = keepers + churner_count;
    for (unsigned i = 0; i < count; i++) {
        parts[i].shared = shared;
        parts[i].stream = stream_of(&shared->world, i + 1);
        parts[i].random = i + 1;
        parts[i].rounds = rounds;
        assert_int_equal(pthread_create(&threads[i], NULL, i < keepers ? keep : churn, &parts[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        atomic_store(&shared->done, i + 1 >= keepers);
    }
    assert_int_equal(atomic_load(&shared->errors), 0);
}

/* The first lookup creates the index, while the churners are at work, and it grows with the number of blocks. */
TEST(test_what_is_held_is_found)
{
    struct part *parts = calloc(churners + keepers, sizeof(*parts));
    assert_non_null(parts);
    for (int round = 0; round < 4; round++) {
        struct shared shared = {.errors = 0};
        memset(parts, 0, (churners + keepers) * sizeof(*parts));
        open_world(&shared.world);
        for (unsigned i = 0; i < churners + keepers; i++) {
            parts[i].most = i < keepers ? held_each : 6000u >> (2 * round);
        }
        run(&shared, parts, churners, 20000);
        close_world(&shared.world);
    }
    free(parts);
}

/* --- growing --- */

TEST(test_an_index_grows_under_its_reader)
{
    enum { many = 30000 };
    struct shared shared = {.errors = 0};
    struct part *reader = calloc(1, sizeof(*reader));
    weir_block **blocks = calloc(many, sizeof(weir_block *));
    pthread_t thread;
    assert_non_null(reader);
    assert_non_null(blocks);
    open_world(&shared.world);
    weir_stream *stream = stream_of(&shared.world, 1);
    *reader = (struct part){.shared = &shared, .stream = stream_of(&shared.world, 2), .rounds = 50000, .most = 64};
    assert_int_equal(pthread_create(&thread, NULL, keep, reader), 0);
    for (unsigned i = 0; i < many; i++) {
        assert_int_equal(weir_pool_alloc(shared.world.pool, stream, 512, 0, &blocks[i]), WEIR_OK);
        assert_true(finds(shared.world.pool, blocks[i]));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&shared.errors), 0);
    for (unsigned i = 0; i < many; i++) {
        assert_true(finds(shared.world.pool, blocks[i]));
        const uint64_t address = weir_block_address(blocks[i]);
        weir_block *found = NULL;
        assert_int_equal(weir_pool_free(shared.world.pool, blocks[i], stream), WEIR_OK);
        assert_int_equal(weir_pool_find(shared.world.pool, address, &found), WEIR_ERR_INVALID);
    }
    close_world(&shared.world);
    free(blocks);
    free(reader);
}

/* --- no host memory --- */

TEST(test_no_memory_for_an_index)
{
    struct world w;
    weir_block *block = NULL;
    weir_block *found = NULL;
    if (WEIR_CHECKS >= 3) {
        skip(); /* a check after every call has already created the index */
    }
    open_world(&w);
    weir_stream *stream = stream_of(&w, 1);
    assert_int_equal(weir_pool_alloc(w.pool, stream, 512, 0, &block), WEIR_OK);
    atomic_store(&largest_piece, 1);
    assert_int_equal(weir_pool_find(w.pool, weir_block_address(block), &found), WEIR_ERR_NO_MEMORY);
    assert_null(found);
    atomic_store(&largest_piece, 0);
    assert_true(finds(w.pool, block));
    assert_int_equal(weir_pool_free(w.pool, block, stream), WEIR_OK);
    close_world(&w);
}

/* Every region begins at a multiple of 2^52 and holds one block: all of them are in the same chain. */
static weir_status far_apart(void *ctx, uint64_t size, uint64_t *address)
{
    struct fake_device *fake = fake_begin(ctx, WEIR_CALL_REGION_ALLOC);
    (void)size;
    *address = fake->calls[WEIR_CALL_REGION_ALLOC] << 52;
    return fake_end(fake);
}

/* An index that cannot grow has long chains, and still finds every block. */
TEST(test_chains_longer_than_the_index)
{
    enum { many = 1000 };
    struct world w;
    weir_block *block[many];
    open_world_on(&w, far_apart, FAKE_GRANULE);
    weir_stream *stream = stream_of(&w, 1);
    for (unsigned i = 0; i < many; i++) {
        assert_int_equal(weir_pool_alloc(w.pool, stream, FAKE_GRANULE, 0, &block[i]), WEIR_OK);
        assert_true(finds(w.pool, block[i]));
        atomic_store(&largest_piece, KIB); /* the first index exists, and no larger one can be made */
    }
    for (unsigned i = 0; i < many; i++) {
        assert_true(finds(w.pool, block[i]));
        assert_true(finds_nothing_inside(w.pool, block[i]));
    }
    atomic_store(&largest_piece, 0);
    for (unsigned i = 0; i < many; i++) {
        assert_int_equal(weir_pool_free(w.pool, block[i], stream), WEIR_OK);
    }
    close_world(&w);
}
