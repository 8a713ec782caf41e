/* slab_test.c: core/shared/slab.h. */
#include "rig/test.h"
#include "shared/slab.h"

#include <string.h>

enum { COUNT = 100 };

struct record {
    uint64_t kept[4];
    void *link;
};

static weir__slab make_slab(void)
{
    return (weir__slab)WEIR__SLAB_INIT(struct record, offsetof(struct record, link), 4);
}

TEST(test_records_are_apart_and_begin_with_zeros)
{
    static const struct record zeros;
    struct record *records[COUNT];
    weir__slab slab = make_slab();
    assert_null(weir__slab_at(&slab, 0));
    for (size_t i = 0; i < COUNT; i++) {
        records[i] = weir__slab_get(&slab);
        assert_non_null(records[i]);
        assert_memory_equal(records[i], &zeros, sizeof(zeros));
        memset(records[i], (int)i, sizeof(*records[i]));
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(((unsigned char *)records[i])[sizeof(*records[i]) - 1], i);
        assert_ptr_equal(weir__slab_at(&slab, i), records[i]);
    }
    assert_null(weir__slab_at(&slab, COUNT));
    weir__slab_fini(&slab);
    assert_non_null(weir__slab_get(&slab)); /* usable again */
    weir__slab_fini(&slab);
}

TEST(test_the_record_returned_last_comes_first)
{
    weir__slab slab = make_slab();
    struct record *first = weir__slab_get(&slab);
    struct record *second = weir__slab_get(&slab);
    struct record *third = weir__slab_get(&slab);
    if (first == NULL || second == NULL || third == NULL) {
        fail_msg("no host memory");
        return; /* not reached; but the compiler does not know that fail_msg does not return */
    }
    memset(first->kept, 1, sizeof(first->kept));
    weir__slab_put(&slab, first);
    weir__slab_put(&slab, third);
    assert_ptr_equal(weir__slab_get(&slab), third);
    assert_ptr_equal(weir__slab_get(&slab), first);
    assert_int_equal(first->kept[0], UINT64_C(0x0101010101010101)); /* only the link was written */
    assert_int_equal(first->kept[3], UINT64_C(0x0101010101010101));
    struct record *fourth = weir__slab_get(&slab);
    assert_true(fourth != first && fourth != second && fourth != third);
    weir__slab_fini(&slab);
}

/* A record that was retired with rest 2 is handed out again only after two later records were retired. With rest 0 it
 * is handed out again at once. */
TEST(test_a_retired_record_rests)
{
    weir__slab slab = make_slab();
    struct record *records[4];
    for (int i = 0; i < 4; i++) {
        records[i] = weir__slab_get(&slab);
        assert_non_null(records[i]);
    }
    for (int i = 0; i < 4; i++) {
        weir__slab_retire(&slab, records[i], 2);
        assert_true(weir__slab_owns(&slab, records[i]));
    }
    assert_ptr_equal(weir__slab_get(&slab), records[1]);
    assert_ptr_equal(weir__slab_get(&slab), records[0]);
    struct record *next = weir__slab_get(&slab);
    assert_true(next != records[2] && next != records[3]);
    weir__slab_retire(&slab, next, 2);
    assert_ptr_equal(weir__slab_get(&slab), records[2]);
    weir__slab_fini(&slab);
    next = weir__slab_get(&slab);
    if (next == NULL) { /* for the compiler, which does not know that a failed assertion does not return */
        fail();
        return;
    }
    weir__slab_retire(&slab, next, 0);
    assert_ptr_equal(weir__slab_get(&slab), next);
    weir__slab_fini(&slab);
}

TEST(test_a_slab_knows_its_records)
{
    weir__slab slab = make_slab();
    char *record = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        record = weir__slab_get(&slab);
        assert_true(weir__slab_owns(&slab, record));
        assert_false(weir__slab_owns(&slab, record + 8));
    }
    assert_false(weir__slab_owns(&slab, record + sizeof(struct record))); /* never handed out */
    assert_false(weir__slab_owns(&slab, &slab));
    assert_false(weir__slab_owns(&slab, NULL));
    weir__slab_put(&slab, record);
    assert_true(weir__slab_owns(&slab, record)); /* readable for as long as the slab is */
    weir__slab_fini(&slab);
    assert_false(weir__slab_owns(&slab, record));
}

struct aligned {
    _Alignas(256) void *link;
    char rest[100];
};

TEST(test_records_are_aligned)
{
    weir__slab slab = WEIR__SLAB_INIT(struct aligned, 0, 16);
    for (size_t i = 0; i < COUNT; i++) {
        const struct aligned *record = weir__slab_get(&slab);
        assert_int_equal((uintptr_t)record % 256, 0);
        assert_true(record->link == NULL && record->rest[99] == 0);
    }
    weir__slab_fini(&slab);
}
