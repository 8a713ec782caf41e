/* capture_tight_test.c: captures beside a second stream over a pool whose limit is tight.
 *
 * A program of 60 captures: each of 60 steps allocates or frees on the captured stream or on the other one. Memory
 * that a capture frees serves no other work before the graph is destroyed, so captures need more memory than the same
 * program without them. How much more is computed: an allocator that moves memory at will, in handles that belong to
 * the capture or to the other work, refuses a request only if no room is left for the most that the capture has had at
 * once and for the bytes of the other stream.
 */
#include "acl_test.h"

enum { CAPTURES = 60, STEPS = 60, MOST = 40, LIMIT = 32 << 20, HANDLE = 2 << 20 };

static uint64_t random_state;

static uint64_t rnd(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* The blocks of a stream, the last one first to go. `most` are the most bytes at once since the capture began. */
struct side {
    weir_block *block[MOST];
    uint64_t size[MOST];
    size_t count;
    uint64_t bytes;
    uint64_t most;
};

struct run {
    weir_pool *pool; /* NULL: the bound is computed */
    bool captures;
    aclrtStream native[2];
    weir_stream *stream[2];
    void *host;
    struct side side[2]; /* of the captured stream and of the other one */
    int refused;
};

static uint64_t handles(uint64_t bytes)
{
    return (bytes + HANDLE - 1) / HANDLE * HANDLE;
}

static bool fits(const struct run *r, size_t at, uint64_t size)
{
    uint64_t needed[2] = {r->side[0].bytes, r->side[1].bytes};
    needed[at] += size;
    if (r->captures && needed[0] < r->side[0].most) {
        needed[0] = r->side[0].most;
    }
    return handles(needed[0]) + handles(needed[1]) <= LIMIT;
}

static void take(struct run *r, size_t at, uint64_t size)
{
    struct side *side = &r->side[at];
    weir_block *block = NULL;
    if (side->count == MOST) {
        return;
    }
    const bool served =
        r->pool != NULL ? weir_pool_alloc(r->pool, r->stream[at], size, 0, &block) == WEIR_OK : fits(r, at, size);
    if (!served) {
        r->refused++;
        return;
    }
    if (block != NULL) {
        acl_ok(aclrtMemcpyAsync((void *)(uintptr_t)weir_block_address(block), 64, r->host, 64,
                                ACL_MEMCPY_HOST_TO_DEVICE, r->native[at]));
    }
    side->block[side->count] = block;
    side->size[side->count++] = size;
    side->bytes += size;
    side->most = side->bytes > side->most ? side->bytes : side->most;
}

static void give(struct run *r, size_t at)
{
    struct side *side = &r->side[at];
    if (side->count > 0) {
        side->bytes -= side->size[--side->count];
        if (r->pool != NULL) {
            ok(weir_pool_free(r->pool, side->block[side->count], r->stream[at]));
        }
    }
}

static void capture(struct run *r)
{
    aclmdlRI graph = NULL;
    const bool captures = r->pool != NULL && r->captures;
    if (captures) {
        acl_ok(aclrtSynchronizeDevice());
        acl_ok(aclmdlRICaptureBegin(r->native[0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    }
    r->side[0].most = 0;
    for (int i = 0; i < STEPS; i++) {
        const uint64_t size = (rnd(6) << 20) + rnd(100000) + 1;
        const uint64_t kind = rnd(4);
        if (kind % 2 == 0) {
            take(r, kind / 2, size);
        } else {
            give(r, kind / 2);
        }
    }
    if (captures) {
        acl_ok(aclmdlRICaptureEnd(r->native[0], &graph)); /* the capture is not broken */
        acl_ok(aclrtSynchronizeStream(r->native[1]));     /* and has not drawn the other stream in */
    }
    for (size_t at = 0; at < 2; at++) {
        while (r->side[at].count > 0) {
            give(r, at);
        }
    }
    if (captures) {
        acl_ok(aclmdlRIDestroy(graph));
    }
}

/* Returns the requests that a pool with these flags refuses. */
static int refused(uint64_t seed, uint32_t flags, bool captures)
{
    struct run r = {.captures = captures};
    weir_device *device = NULL;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    acl_ok(aclrtSetDevice(0));
    ok(weir_acl_device_create(NULL, &device));
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.limit_bytes = LIMIT;
    config.flags = flags;
    ok(weir_pool_create(&config, &r.pool));
    acl_ok(aclrtMallocHost(&r.host, 64));
    for (size_t i = 0; i < 2; i++) {
        acl_ok(aclrtCreateStream(&r.native[i]));
        ok(weir_acl_stream(r.pool, r.native[i], &r.stream[i]));
    }
    random_state = seed;
    for (int i = 0; i < CAPTURES; i++) {
        capture(&r);
    }
    acl_ok(aclrtSynchronizeDevice());
    ok(weir_pool_destroy(r.pool));
    for (size_t i = 0; i < 2; i++) {
        acl_ok(aclrtDestroyStream(r.native[i]));
    }
    acl_ok(aclrtFreeHost(r.host));
    ok(weir_device_destroy(device));
    return r.refused;
}

static int bound(uint64_t seed, bool captures)
{
    struct run r = {.captures = captures};
    random_state = seed;
    for (int i = 0; i < CAPTURES; i++) {
        capture(&r);
    }
    return r.refused;
}

/* Captures make the pool no worse, beside what is possible, than the program without them does. */
TEST(captures_at_a_tight_limit)
{
    int sums[2][3] = {{0}};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        for (int captures = 0; captures < 2; captures++) {
            const int found[3] = {bound(seed, captures == 1), refused(seed, 0, captures == 1),
                                  refused(seed, WEIR_POOL_REGIONS, captures == 1)};
            print_message("seed %d, %s captures: bound %d, virtual memory %d, regions %d\n", (int)seed,
                          captures ? "with" : "without", found[0], found[1], found[2]);
            for (size_t i = 0; i < 3; i++) {
                sums[captures][i] += found[i];
            }
        }
    }
    for (size_t i = 1; i < 3; i++) {
        const double with = (double)sums[1][i] / sums[1][0];
        const double without = (double)sums[0][i] / sums[0][0];
        assert_true(with <= 1.3 * without);
    }
}
