/* tests/ascend/mstx/check.c: the checking tool: each kind of bad announcement gets its finding and no other, good ones
 * get none.
 *
 * The tool is loaded and called as any program does it; addresses are numbers. The test clears the state after each
 * mistake.
 */
#include "rig/test.h"

#include "checker.h"
#include "mstx_tool.h"

#define AT(number) ((const void *)(uintptr_t)(number))

static const struct weir__mstx_tool *tool;

/* Checks that `call` adds exactly one finding, of this kind. */
#define finds(kind, call)                                                                                              \
    do {                                                                                                               \
        const uint64_t all_before = check_findings(NULL);                                                              \
        const uint64_t before = check_findings(kind);                                                                  \
        call;                                                                                                          \
        assert_int_equal(check_findings(NULL) - all_before, 1);                                                        \
        assert_int_equal(check_findings(kind) - before, 1);                                                            \
    } while (0)

#define finds_nothing(call)                                                                                            \
    do {                                                                                                               \
        const uint64_t all_before = check_findings(NULL);                                                              \
        call;                                                                                                          \
        assert_int_equal(check_findings(NULL) - all_before, 0);                                                        \
    } while (0)

static mstxMemHeapHandle_t heap_on(mstxDomainHandle_t domain, uint32_t device, uint64_t start, uint64_t size)
{
    const mstxMemVirtualRangeDesc_t range = {.deviceId = device, .ptr = AT(start), .size = size};
    const mstxMemHeapDesc_t desc = {.typeSpecificDesc = &range};
    return tool->heap_register(domain, &desc);
}

static mstxMemRegionHandle_t region_on(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap, uint32_t device,
                                       uint64_t start, uint64_t size)
{
    const mstxMemVirtualRangeDesc_t range = {.deviceId = device, .ptr = AT(start), .size = size};
    mstxMemRegionHandle_t handle = NULL;
    const mstxMemRegionsRegisterBatch_t batch = {
        .heap = heap, .regionCount = 1, .regionDescArray = &range, .regionHandleArrayOut = &handle};
    tool->regions_register(domain, &batch);
    return handle;
}

static mstxMemHeapHandle_t heap(uint64_t start, uint64_t size)
{
    return heap_on(NULL, 0, start, size);
}

static mstxMemRegionHandle_t region(mstxMemHeapHandle_t of, uint64_t start, uint64_t size)
{
    return region_on(NULL, of, 0, start, size);
}

static void withdraw(mstxDomainHandle_t domain, mstxMemRegionHandle_t handle)
{
    const mstxMemRegionRef_t ref = {.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE, .handle = handle};
    const mstxMemRegionsUnregisterBatch_t batch = {.refCount = 1, .refArray = &ref};
    tool->regions_unregister(domain, &batch);
}

static void withdraw_at(mstxDomainHandle_t domain, uint64_t start)
{
    const mstxMemRegionRef_t ref = {.refType = MSTX_MEM_REGION_REF_TYPE_POINTER, .pointer = AT(start)};
    const mstxMemRegionsUnregisterBatch_t batch = {.refCount = 1, .refArray = &ref};
    tool->regions_unregister(domain, &batch);
}

static void is_empty(void)
{
    uint64_t heaps = 1;
    uint64_t regions = 1;
    check_announced(&heaps, &regions);
    assert_int_equal(heaps, 0);
    assert_int_equal(regions, 0);
}

TEST(accepts_correct_announcements)
{
    const uint64_t before = check_findings(NULL);
    const mstxDomainHandle_t domain = tool->domain_create("right_1");
    assert_non_null(domain);
    assert_ptr_equal(tool->domain_create("right_1"), domain);
    /* The following announcements are correct: adjacent heaps, equal addresses in another domain and on another device,
     * handles and pointers. */
    const mstxMemHeapHandle_t a = heap_on(domain, 0, 0x10000, 0x1000);
    const mstxMemHeapHandle_t b = heap_on(domain, 0, 0x11000, 0x1000);
    const mstxMemHeapHandle_t c = heap_on(domain, 1, 0x10000, 0x1000);
    const mstxMemHeapHandle_t d = heap(0x10000, 0x2000);
    const mstxMemRegionHandle_t first = region_on(domain, a, 0, 0x10000, 0x800);
    (void)region_on(domain, a, 0, 0x10800, 0x800);
    const mstxMemRegionHandle_t third = region_on(domain, b, 0, 0x11000, 0x1000);
    assert_true(a != NULL && b != NULL && c != NULL && d != NULL && first != NULL && third != NULL && first != third);
    assert_true(check_covers(AT(0x10000), 0x2000));
    assert_true(check_covers(AT(0x10fff), 2));
    assert_false(check_covers(AT(0x10000), 0x2001));
    assert_false(check_covers(AT(0xffff), 2));
    const mstxMemRegionHandle_t elsewhere = region_on(domain, c, 1, 0x10000, 0x1000);
    assert_false(check_covers(AT(0x10000), 0x10)); /* covered twice */
    assert_true(check_covers(AT(0x11000), 0x10));
    const mstxMemPermissionsAssignRegionsDesc_t permission = {
        .flags = MSTX_MEM_PERMISSIONS_REGION_FLAGS_READ,
        .region = {.refType = MSTX_MEM_REGION_REF_TYPE_HANDLE, .handle = first},
    };
    const mstxMemPermissionsAssignBatch_t permissions = {.regionCount = 1, .regionDescArray = &permission};
    tool->permissions_assign(domain, &permissions);
    withdraw(domain, first);
    assert_false(check_covers(AT(0x10000), 0x1000));
    /* the region on device 1 covers a part of these addresses too */
    assert_true(check_covers(AT(0x10800), 0x1800) == false);
    withdraw(domain, elsewhere);
    assert_true(check_covers(AT(0x10800), 0x1800));
    withdraw_at(domain, 0x10800);
    withdraw(domain, third);
    tool->heap_unregister(domain, a);
    tool->heap_unregister(domain, b);
    tool->heap_unregister(domain, c);
    tool->heap_unregister(NULL, d);
    tool->domain_destroy(domain);
    is_empty();
    assert_int_equal(check_findings(NULL), before);
}

TEST(finds_bad_domains)
{
    char long_name[1100];
    memset(long_name, 'a', sizeof(long_name));
    long_name[1024] = '\0';
    finds("domain-name", assert_null(tool->domain_create("")));
    finds("domain-name", assert_null(tool->domain_create(NULL)));
    finds("domain-name", assert_null(tool->domain_create("a b")));
    finds("domain-name", assert_null(tool->domain_create("atb-2")));
    finds("domain-name", assert_null(tool->domain_create(long_name)));
    long_name[1023] = '\0';
    mstxDomainHandle_t domain = NULL;
    finds_nothing(domain = tool->domain_create(long_name));
    tool->domain_destroy(domain);
    finds("domain-unknown", tool->domain_destroy(domain));
    finds("domain-unknown", tool->domain_destroy(NULL));
    finds("domain-unknown", assert_null(heap_on(domain, 0, 0x1000, 16)));
    finds("domain-unknown", tool->heap_unregister((mstxDomainHandle_t)(void *)long_name, NULL));
    domain = tool->domain_create("in_use");
    const mstxMemHeapHandle_t held = heap_on(domain, 0, 0x1000, 64);
    (void)region_on(domain, held, 0, 0x1000, 16);
    finds("domain-in-use", tool->domain_destroy(domain));
    is_empty();
    mstxDomainHandle_t again = NULL;
    finds_nothing(again = tool->domain_create("in_use"));
    assert_true(again != NULL && again != domain);
    tool->domain_destroy(again);
}

TEST(finds_bad_heaps)
{
    const mstxMemVirtualRangeDesc_t range = {.ptr = AT(0x5000), .size = 64};
    mstxMemHeapDesc_t desc = {.typeSpecificDesc = NULL};
    finds("argument", assert_null(tool->heap_register(NULL, NULL)));
    finds("argument", assert_null(tool->heap_register(NULL, &desc)));
    finds("range", assert_null(heap(0x1000, 0)));
    finds("range", assert_null(heap(0, 64)));
    finds("range", assert_null(heap(UINT64_MAX - 10, 64)));
    desc.typeSpecificDesc = &range;
    memset(&desc.usage, 0x7b, sizeof(desc.usage)); /* like uninitialised memory */
    mstxMemHeapHandle_t made = NULL;
    finds("argument", made = tool->heap_register(NULL, &desc));
    tool->heap_unregister(NULL, made);

    const mstxMemHeapHandle_t a = heap(0x1000, 0x1000);
    mstxMemHeapHandle_t b = NULL;
    finds("heap-overlap", b = heap(0x1fff, 0x1000));
    assert_non_null(b);
    finds("heap-unknown", tool->heap_unregister(NULL, NULL));
    finds("heap-unknown", tool->heap_unregister(NULL, (mstxMemHeapHandle_t)(void *)&desc));
    finds_nothing(tool->heap_unregister(NULL, b));
    finds("heap-withdrawn-again", tool->heap_unregister(NULL, b));
    const mstxDomainHandle_t domain = tool->domain_create("other");
    finds("heap-unknown", tool->heap_unregister(domain, a));
    tool->domain_destroy(domain);
    const mstxMemRegionHandle_t inside = region(a, 0x1000, 16);
    finds("heap-in-use", tool->heap_unregister(NULL, a));
    finds("region-withdrawn-again", withdraw(NULL, inside)); /* withdrawn with its heap */
    is_empty();
}

TEST(finds_bad_regions)
{
    const mstxMemHeapHandle_t a = heap(0x1000, 0x1000);
    const mstxMemVirtualRangeDesc_t range = {.ptr = AT(0x1100), .size = 16};
    mstxMemRegionHandle_t handle = NULL;
    mstxMemRegionsRegisterBatch_t batch = {.heap = a, .regionCount = 1, .regionHandleArrayOut = &handle};
    finds("argument", tool->regions_register(NULL, NULL));
    finds("argument", tool->regions_register(NULL, &batch));
    batch.regionDescArray = &range;
    batch.regionHandleArrayOut = NULL;
    finds("no-handles", tool->regions_register(NULL, &batch));
    finds_nothing(withdraw_at(NULL, 0x1100));
    batch.regionHandleArrayOut = &handle;
    memset(&batch.regionType, 0x7b, sizeof(batch.regionType));
    finds("argument", tool->regions_register(NULL, &batch));
    finds_nothing(withdraw(NULL, handle));
    finds("range", assert_null(region(a, 0x1000, 0)));

    mstxMemRegionHandle_t r = NULL;
    finds("region-outside-heap", r = region(a, 0xfff, 16));
    withdraw(NULL, r);
    finds("region-outside-heap", r = region(a, 0x1ff8, 16));
    withdraw(NULL, r);
    finds("region-outside-heap", r = region_on(NULL, a, 3, 0x1000, 16)); /* on another device */
    finds_nothing(withdraw_at(NULL, 0x1000));
    finds("heap-unknown", r = region(NULL, 0x1000, 16));
    assert_false(check_covers(AT(0x1000), 16)); /* a region, but of no heap */
    withdraw(NULL, r);
    const mstxMemHeapHandle_t gone = heap(0x9000, 16);
    tool->heap_unregister(NULL, gone);
    finds("heap-withdrawn-again", r = region(gone, 0x9000, 16));
    withdraw(NULL, r);

    r = region(a, 0x1000, 32);
    mstxMemRegionHandle_t over = NULL;
    finds("region-overlap", over = region(a, 0x101f, 16));
    assert_false(check_covers(AT(0x1000), 32));
    finds_nothing(withdraw(NULL, over));
    assert_true(check_covers(AT(0x1000), 32));
    finds("region-overlap", over = region(a, 0x1000, 32));
    withdraw(NULL, over);
    finds_nothing(withdraw(NULL, r));
    finds("region-withdrawn-again", withdraw(NULL, r));
    finds("region-unknown", withdraw(NULL, (mstxMemRegionHandle_t)(void *)&batch));
    finds("region-unknown", withdraw_at(NULL, 0x1000));
    finds("argument", tool->regions_unregister(NULL, NULL));
    mstxMemRegionRef_t ref = {.pointer = AT(0x1000)};
    memset(&ref.refType, 0x7b, sizeof(ref.refType));
    const mstxMemRegionsUnregisterBatch_t refs = {.refCount = 1, .refArray = &ref};
    finds("argument", tool->regions_unregister(NULL, &refs));

    const mstxMemPermissionsAssignRegionsDesc_t permission = {.flags = 8, .region = {.pointer = AT(0x1100)}};
    const mstxMemPermissionsAssignBatch_t permissions = {.regionCount = 1, .regionDescArray = &permission};
    r = region(a, 0x1100, 32);
    finds("argument", tool->permissions_assign(NULL, &permissions));
    withdraw(NULL, r);
    finds("argument", tool->permissions_assign(NULL, NULL));
    tool->heap_unregister(NULL, a);
    is_empty();
}

/* The regions of a heap are withdrawn with it, even if they were announced on another device. */
TEST(withdraws_a_whole_batch)
{
    const mstxMemHeapHandle_t a = heap(0x1000, 0x1000);
    mstxMemRegionRef_t refs[3];
    for (size_t i = 0; i < 3; i++) {
        refs[i].refType = MSTX_MEM_REGION_REF_TYPE_HANDLE;
        refs[i].handle = region(a, 0x1000 + 0x100 * i, 0x100);
    }
    const mstxMemRegionsUnregisterBatch_t batch = {.refCount = 3, .refArray = refs};
    finds_nothing(tool->regions_unregister(NULL, &batch));
    finds_nothing(tool->heap_unregister(NULL, a));
}

TEST(forgets_regions_elsewhere)
{
    const mstxMemHeapHandle_t a = heap(0x1000, 0x1000);
    finds("region-outside-heap", (void)region_on(NULL, a, 7, 0x1000, 16));
    finds("heap-in-use", tool->heap_unregister(NULL, a));
    is_empty();
}

/* In the domains of msMemScope a program may set only the ranges of a request, and gets no handles. */
TEST(follows_rules_of_totals)
{
    static const char *const names[] = {"ptaCaching", "msleaks", "ptaWorkspace", "mindsporeMemPool"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const mstxDomainHandle_t domain = tool->domain_create(names[i]);
        mstxMemVirtualRangeDesc_t range = {.ptr = AT(0x5000), .size = 0x1000};
        mstxMemHeapDesc_t desc;
        mstxMemRegionsRegisterBatch_t batch;
        mstxMemRegionRef_t ref;
        memset(&desc, 0x7b, sizeof(desc));
        memset(&batch, 0x7b, sizeof(batch));
        memset(&ref, 0x7b, sizeof(ref));
        desc.typeSpecificDesc = &range;
        finds_nothing(assert_null(tool->heap_register(domain, &desc)));
        range.size = 0x3000;
        finds_nothing(assert_null(tool->heap_register(domain, &desc)));
        range.size = 0x100;
        batch.regionCount = 1;
        batch.regionDescArray = &range;
        finds_nothing(tool->regions_register(domain, &batch));
        assert_true(check_covers(AT(0x5000), 0x100));
        finds("region-overlap", tool->regions_register(domain, &batch));
        assert_false(check_covers(AT(0x5000), 0x100));
        ref.pointer = AT(0x5000);
        const mstxMemRegionsUnregisterBatch_t refs = {.refCount = 1, .refArray = &ref};
        finds_nothing(tool->regions_unregister(domain, &refs));
        finds_nothing(tool->regions_unregister(domain, &refs));
        finds("region-unknown", tool->regions_unregister(domain, &refs));
        finds_nothing(tool->heap_unregister(domain, NULL));
        finds("heap-unknown", tool->heap_unregister(domain, (mstxMemHeapHandle_t)(void *)&desc));
        range.size = 0;
        finds("range", tool->regions_register(domain, &batch));
        finds_nothing(tool->domain_destroy(domain));
        is_empty();
    }
}

/* The tool knows memory that the runtime has given. */
TEST(knows_real_memory)
{
    mstxMemHeapHandle_t a = NULL;
    mstxMemHeapHandle_t b = NULL;
    finds_nothing(check_given(AT(0x100000), 0x2000));
    finds_nothing(check_given(AT(0x102000), 0x1000));
    finds_nothing(a = heap(0x100000, 0x1000));
    finds("memory-missing", b = heap(0x101000, 0x1800)); /* across two pieces */
    tool->heap_unregister(NULL, b);
    finds_nothing(b = heap(0x102000, 0x1000));
    tool->heap_unregister(NULL, b);
    finds("memory-in-use", check_taken(AT(0x100000)));
    finds_nothing(check_kept(AT(0x100000)));
    finds_nothing(b = heap(0x101000, 0x1000));
    tool->heap_unregister(NULL, b);
    tool->heap_unregister(NULL, a);
    finds_nothing(check_taken(AT(0x100000)));
    finds("memory-missing", a = heap(0x100800, 0x1000));     /* already taken back */
    finds("memory-late", check_given(AT(0x100000), 0x4000)); /* given again, over both */
    finds_nothing(b = heap(0x102000, 0x2000));
    tool->heap_unregister(NULL, a);
    tool->heap_unregister(NULL, b);
    finds_nothing(check_taken(AT(0x100000)));
    finds_nothing(check_taken(AT(0x100000)));
    finds_nothing(check_taken(AT(0x300000))); /* the tool does not know it */
    finds_nothing(check_kept(AT(0x300000)));
    finds_nothing(check_given(AT(0x400000), 0));
    is_empty();
}

TEST(answers_marks)
{
    uint64_t id = 0;
    finds_nothing(tool->get_tool_id(&id));
    assert_int_not_equal(id, 0);
    assert_int_not_equal(tool->range_start("a", NULL), 0);
    assert_int_not_equal(tool->domain_range_start(NULL, "a", NULL), tool->range_start("a", NULL));
    finds_nothing(tool->range_end(1));
    finds_nothing(tool->domain_range_end(NULL, 1));
    finds_nothing(tool->mark("a", NULL));
    finds_nothing(tool->domain_mark(NULL, "a", NULL));
}

int main(void)
{
    load_checker("/dev/null");
    tool = weir__mstx_tool();
    return run_all_tests("tests");
}
