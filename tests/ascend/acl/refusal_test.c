/* refusal_test.c: the refusals of weir::acl, each with its sentence: bad arguments, states, and streams that belong to
 * another device or to a context in which weir could not order work on them. */
#include "acl_test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <weir/adaptor.h>
#include <weir/host.h>

/* Checks that the last refusal's sentence contains all parts, the first at its start, and that weir_acl_error returns
 * the same sentence. */
static void expect_sentence(const char *const *parts)
{
    const char *sentence = weir_last_error();
    const char *text = NULL;
    if (strncmp(sentence, parts[0], strlen(parts[0])) != 0 || strncmp(sentence + strlen(parts[0]), ": ", 2) != 0) {
        fail_msg("\"%s\" is not of %s", sentence, parts[0]);
    }
    for (size_t i = 1; parts[i] != NULL; i++) {
        if (strstr(sentence, parts[i]) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", parts[i], sentence);
        }
    }
    ok(weir_acl_error(NULL, &text));
    assert_string_equal(text, sentence);
}

#define refuses(status, call, ...)                                                                                     \
    do {                                                                                                               \
        static const char *const parts_[] = {__VA_ARGS__, NULL};                                                       \
        fails(call, status);                                                                                           \
        expect_sentence(parts_);                                                                                       \
    } while (0)

#define BAD WEIR_ERR_INVALID

TEST(test_bad_arguments)
{
    struct world w = make_world();
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_acl_attachment *attachment = NULL;
    weir_device *device = NULL;
    weir_stream *stream = NULL;
    bool complete = false;
    char nothing = 0;

    refuses(BAD, weir_acl_device_create(NULL, NULL), "weir_acl_device_create", "device is NULL");
    config.device_id = -3;
    refuses(BAD, weir_acl_device_create(&config, &device), "weir_acl_device_create", "device_id is -3");
    config.device_id = 5;
    refuses(BAD, weir_acl_device_create(&config, &device), "weir_acl_device_create", "device_id 5", "107001");
    config.device_id = 0;
    config.memory = (weir_acl_memory)7;
    refuses(BAD, weir_acl_device_create(&config, &device), "weir_acl_device_create", "memory 7");
    config.memory = WEIR_ACL_MEMORY_HOST;
    refuses(WEIR_ERR_UNSUPPORTED, weir_acl_device_create(&config, &device), "weir_acl_device_create", "memory");
    config.memory = WEIR_ACL_MEMORY_DEVICE;
    config.pages = (weir_acl_pages)9;
    refuses(BAD, weir_acl_device_create(&config, &device), "weir_acl_device_create", "pages 9");
    config.pages = WEIR_ACL_PAGES_SMALL;
    config.flags = 1u << 9;
    refuses(BAD, weir_acl_device_create(&config, &device), "weir_acl_device_create", "flags 0x200");
    config.struct_size = 2;
    refuses(BAD, weir_acl_device_create(&config, &device), "weir_acl_device_create", "has no struct_size");
    struct {
        weir_acl_device_config known;
        uint64_t newer;
    } longer = {.known = WEIR_ACL_DEVICE_CONFIG_INIT, .newer = 1};
    longer.known.struct_size = sizeof(longer);
    refuses(WEIR_ERR_UNSUPPORTED, weir_acl_device_create(&longer.known, &device), "weir_acl_device_create", "config");

    weir_acl_device_info place = WEIR_ACL_DEVICE_INFO_INIT;
    refuses(BAD, weir_acl_device_get_info(NULL, &place), "weir_acl_device_get_info", "device is NULL");
    refuses(BAD, weir_acl_device_get_info((const weir_device *)(const void *)&nothing, &place),
            "weir_acl_device_get_info", "not of weir_acl_device_create");
    place.struct_size = 2;
    refuses(BAD, weir_acl_device_get_info(w.device, &place), "weir_acl_device_get_info", "info");
    refuses(BAD, weir_acl_host_runtime(NULL, &runtime), "weir_acl_host_runtime", "device is NULL");
    refuses(BAD, weir_acl_host_runtime(w.device, NULL), "weir_acl_host_runtime", "runtime is NULL");
    refuses(BAD, weir_acl_attach(NULL, w.stream[0], &attachment), "weir_acl_attach", "pool is NULL");
    refuses(BAD, weir_acl_attach(w.pool, NULL, &attachment), "weir_acl_attach", "acl_stream");
    refuses(BAD, weir_acl_attach(w.pool, w.stream[0], NULL), "weir_acl_attach", "attachment is NULL");
    refuses(BAD, weir_acl_follow(NULL, w.stream[0], &attachment), "weir_acl_follow", "pool is NULL");
    refuses(BAD, weir_acl_attach_device(NULL, &attachment), "weir_acl_attach_device", "pool is NULL");
    refuses(BAD, weir_acl_attach_device(w.pool, NULL), "weir_acl_attach_device", "attachment is NULL");
    refuses(BAD, weir_acl_notify_idle(NULL, NULL, NULL), "weir_acl_notify_idle", "attachment is NULL");
    refuses(BAD, weir_acl_notify_idle((weir_acl_attachment *)(void *)&nothing, NULL, NULL), "weir_acl_notify_idle",
            "no attachment");
    void *workspace = NULL;
    refuses(BAD, weir_acl_workspace(NULL, NULL, 1, &workspace), "weir_acl_workspace", "pool is NULL");
    refuses(BAD, weir_acl_workspace(w.pool, NULL, 1, NULL), "weir_acl_workspace", "workspace is NULL");
    refuses(BAD, weir_acl_workspace(w.pool, w.stream[0], UINT64_MAX, &workspace), "weir_acl_workspace", "size");
    weir_block *block = NULL;
    weir_acl_attachment *follows = NULL;
    ok(weir_acl_follow(w.pool, w.stream[0], &follows));
    refuses(BAD, weir_acl_attachment_alloc(NULL, 1, &block), "weir_acl_attachment_alloc", "attachment is NULL");
    refuses(BAD, weir_acl_attachment_alloc(follows, 1, NULL), "weir_acl_attachment_alloc", "block is NULL");
    refuses(BAD, weir_acl_attachment_alloc(follows, 0, &block), "weir_acl_attachment_alloc", "size 0");
    refuses(BAD, weir_acl_attachment_alloc(follows, UINT64_MAX, &block), "weir_acl_attachment_alloc", "too large");
    refuses(BAD, weir_acl_attachment_free(NULL, (weir_block *)(void *)&nothing), "weir_acl_attachment_free",
            "attachment is NULL");
    refuses(BAD, weir_acl_attachment_free(follows, NULL), "weir_acl_attachment_free", "block is NULL");
    ok(weir_acl_attachment_alloc(follows, 100, &block));
    refuses(WEIR_ERR_BUSY, weir_acl_detach(follows), "weir_acl_detach", "holds 1 blocks");
    ok(weir_acl_attachment_free(follows, block));
    ok(weir_acl_attachment_alloc(follows, 100, &block)); /* the refused detach changed nothing */
    ok(weir_acl_attachment_free(follows, block));
    refuses(BAD, weir_acl_attachment_free(follows, block), "weir_acl_attachment_free", "no live block");
    ok(weir_acl_detach(follows));
    refuses(BAD, weir_acl_attachment_alloc(follows, 100, &block), "weir_acl_attachment_alloc", "was detached");
    refuses(BAD, weir_acl_workspace_release(NULL), "weir_acl_workspace_release", "pool is NULL");
    refuses(BAD, weir_acl_detach((weir_acl_attachment *)(void *)&nothing), "weir_acl_detach", "no attachment");
    refuses(BAD, weir_acl_attachment_get_info(NULL, &info), "weir_acl_attachment_get_info", "attachment is NULL");
    refuses(BAD, weir_acl_attachment_get_info((weir_acl_attachment *)(void *)&nothing, &info),
            "weir_acl_attachment_get_info", "no attachment");
    refuses(BAD, weir_acl_stream(NULL, NULL, &stream), "weir_acl_stream", "pool is NULL");
    refuses(BAD, weir_acl_stream(w.pool, NULL, NULL), "weir_acl_stream", "stream is NULL");
    refuses(BAD, weir_acl_record_event(w.pool, NULL, NULL), "weir_acl_record_event", "acl_event is NULL");
    refuses(BAD, weir_acl_wait_event(NULL, NULL, &nothing), "weir_acl_wait_event", "pool is NULL");
    refuses(BAD, weir_acl_query_event(w.pool, &nothing, NULL), "weir_acl_query_event", "complete is NULL");
    refuses(BAD, weir_acl_query_event(w.pool, NULL, &complete), "weir_acl_query_event", "acl_event is NULL");
    refuses(BAD, weir_acl_sync_event(w.pool, NULL), "weir_acl_sync_event", "acl_event is NULL");
    refuses(BAD, weir_acl_sync_stream(NULL, NULL), "weir_acl_sync_stream", "pool is NULL");
    refuses(BAD, weir_acl_destroy_event(NULL, &nothing), "weir_acl_destroy_event", "pool is NULL");
    end_world(&w);
}

TEST(test_busy)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment *second = NULL;
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
    refuses(WEIR_ERR_BUSY, weir_acl_attach(w.pool, w.stream[0], &second), "weir_acl_attach", "attachment already");
    refuses(WEIR_ERR_BUSY, weir_acl_follow(w.pool, w.stream[0], &second), "weir_acl_follow", "this pool already");
    const struct registration r = registration_of(w.stream[0]);
    void *block = r.alloc(r.object, 1000);
    refuses(WEIR_ERR_BUSY, weir_acl_detach(attachment), "weir_acl_detach", "holds 1 blocks");
    r.free(r.object, block);
    ok(weir_acl_detach(attachment));
    refuses(BAD, weir_acl_detach(attachment), "weir_acl_detach", "was detached before");
    refuses(BAD, weir_acl_attachment_get_info(attachment, &info), "weir_acl_attachment_get_info",
            "was detached before");

    aclrtStream home = NULL;
    acl_ok(aclrtCtxGetCurrentDefaultStream(&home));
    ok(weir_acl_attach_device(w.pool, &attachment));
    refuses(WEIR_ERR_BUSY, weir_acl_attach_device(w.pool, &second), "weir_acl_attach_device", "device 0", "already");
    const struct registration of_home = registration_of(home);
    block = of_home.alloc(of_home.object, 1000);
    refuses(WEIR_ERR_BUSY, weir_acl_detach(attachment), "weir_acl_detach", "holds 1 blocks", "device 0");
    of_home.free(of_home.object, block);
    ok(weir_acl_detach(attachment));
    ok(weir_acl_attach(w.pool, home, &attachment));
    refuses(WEIR_ERR_BUSY, weir_acl_attach_device(w.pool, &second), "weir_acl_attach_device", "attachment already");
    ok(weir_acl_detach(attachment));

    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    acl_ok(aclrtAllocatorSetObjToDesc(desc, &w));
    acl_ok(aclrtAllocatorSetAllocFuncToDesc(desc, r.alloc));
    acl_ok(aclrtAllocatorSetFreeFuncToDesc(desc, r.free));
    acl_ok(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, r.address));
    acl_ok(aclrtAllocatorRegister(w.stream[1], desc));
    refuses(WEIR_ERR_BUSY, weir_acl_attach(w.pool, w.stream[1], &second), "weir_acl_attach", "not weir's");
    acl_ok(aclrtAllocatorUnregister(w.stream[1]));
    acl_ok(aclrtAllocatorDestroyDesc(desc));
    weir_stream *met = NULL;
    ok(weir_pool_stream(w.pool, w.stream[1], &met));
    ok(weir_stream_retire(w.pool, met));
    end_world(&w);
}

/* weir_acl_error reports a failed ACL call until weir refuses a call, and the other way round. */
TEST(test_the_later_of_two_reasons_is_reported)
{
    struct world w = make_world();
    aclrtStream gone = w.stream[1];
    aclrtEvent event = NULL;
    int code = 0;
    const char *text = NULL;
    acl_ok(aclrtDestroyStream(gone));
    w.stream[1] = NULL;
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    for (int i = 0; i < 2; i++) {
        fails(weir_acl_record_event(w.pool, event, gone), WEIR_ERR_DEVICE);
        ok(weir_acl_error(&code, &text));
        assert_int_equal(code, ACL_ERROR_RT_INVALID_HANDLE);
        assert_non_null(strstr(text, "aclrtRecordEvent: 107017"));
        assert_string_equal(weir_last_error(), text);
        refuses(BAD, weir_acl_sync_event(w.pool, NULL), "weir_acl_sync_event", "acl_event is NULL");
        ok(weir_acl_error(&code, &text));
        assert_int_equal(code, 0);
        int64_t device_code = 0;
        /* weir_device_error reports failed calls of the device only */
        ok(weir_device_error(w.device, &device_code, &text));
        assert_int_equal(device_code, ACL_ERROR_RT_INVALID_HANDLE);
    }
    acl_ok(aclrtDestroyEvent(event));
    end_world(&w);
}

/* --- streams of elsewhere --- */

static aclrtContext current(void)
{
    aclrtContext context = NULL;
    acl_ok(aclrtGetCurrentContext(&context));
    return context;
}

#define ELSEWHERE(function) function, "is on ACL device 1", "the pool on ACL device 0"

static void expect_another_device(weir_pool *pool, aclrtStream stream)
{
    weir_acl_attachment *attachment = NULL;
    weir_stream *found = NULL;
    aclrtEvent event = NULL;
    struct registration none;
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    refuses(BAD, weir_acl_attach(pool, stream, &attachment), ELSEWHERE("weir_acl_attach"));
    refuses(BAD, weir_acl_follow(pool, stream, &attachment), ELSEWHERE("weir_acl_follow"));
    refuses(BAD, weir_acl_stream(pool, stream, &found), ELSEWHERE("weir_acl_stream"));
    refuses(BAD, weir_acl_stream(pool, NULL, &found), ELSEWHERE("weir_acl_stream"));
    refuses(BAD, weir_acl_record_event(pool, event, stream), ELSEWHERE("weir_acl_record_event"));
    refuses(BAD, weir_acl_wait_event(pool, stream, event), ELSEWHERE("weir_acl_wait_event"));
    refuses(BAD, weir_acl_sync_stream(pool, stream), ELSEWHERE("weir_acl_sync_stream"));
    refuses(BAD, weir_pool_stream(pool, stream, &found), ELSEWHERE("weir_pool_stream"));
    assert_false(read_registration(stream, &none));
    acl_ok(aclrtDestroyEvent(event));
}

TEST(test_stream_of_another_device)
{
    struct world w = make_world();
    const aclrtContext home = current();
    weir_device *counted = NULL;
    ok(weir_count_create(w.device, &counted));
    weir_pool *wrapped = make_pool(counted);
    aclrtStream stream = NULL;
    acl_ok(aclrtSetDevice(1));
    const aclrtContext other = current();
    acl_ok(aclrtCreateStream(&stream));
    expect_another_device(w.pool, stream);
    expect_another_device(wrapped, stream); /* an adaptor lets the device that it wraps check the stream */
    assert_ptr_equal(current(), other);

    /* The pool of the stream's own device accepts the stream. After that weir knows the stream and need not try any
     * context. */
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment *none = NULL;
    weir_device *device = NULL;
    config.device_id = 1;
    ok(weir_acl_device_create(&config, &device));
    weir_pool *pool = make_pool(device);
    ok(weir_acl_attach(pool, stream, &attachment));
    acl_ok(aclrtSetCurrentContext(home));
    refuses(BAD, weir_acl_follow(w.pool, stream, &none), ELSEWHERE("weir_acl_follow"));
    ok(weir_acl_detach(attachment));
    ok(weir_acl_attach(pool, stream, &attachment)); /* the stream is found in the primary context of device 1 */
    assert_ptr_equal(current(), home);
    ok(weir_acl_detach(attachment));

    ok(weir_pool_destroy(pool));
    ok(weir_device_destroy(device));
    ok(weir_pool_destroy(wrapped));
    ok(weir_device_destroy(counted));
    acl_ok(aclrtSetCurrentContext(other));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetCurrentContext(home));
    end_world(&w);
}

TEST(test_stream_of_a_foreign_context)
{
    struct world w = make_world();
    const aclrtContext home = current();
    aclrtContext own = NULL;
    aclrtStream stream = NULL;
    weir_acl_attachment *attachment = NULL;
    weir_stream *found = NULL;
    acl_ok(aclrtCreateContext(&own, 0));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtSetCurrentContext(home));
    refuses(BAD, weir_acl_attach(w.pool, stream, &attachment), "weir_acl_attach", "current context", "ACL device 0");
    refuses(BAD, weir_acl_follow(w.pool, stream, &attachment), "weir_acl_follow", "current context", "ACL device 0");
    refuses(BAD, weir_acl_stream(w.pool, stream, &found), "weir_acl_stream", "current context", "ACL device 0");

    /* In a context of the program's own, weir accepts a stream of that context and a stream of the primary context.
     * After that weir knows both streams. */
    acl_ok(aclrtSetCurrentContext(own));
    ok(weir_acl_attach(w.pool, stream, &attachment));
    weir_acl_attachment *first = attach(w.pool, w.stream[0]);
    assert_ptr_equal(current(), own);
    acl_ok(aclrtSetCurrentContext(home));
    const struct registration r = registration_of(stream);
    void *block = r.alloc(r.object, 1000);
    assert_non_null(block);
    acl_ok(aclrtSetCurrentContext(own));
    acl_ok(aclrtMemsetAsync(r.address(block), 1000, 1, 1000, stream));
    r.free(r.object, block);
    acl_ok(aclrtSetCurrentContext(home));
    ok(weir_acl_detach(attachment));
    ok(weir_acl_detach(first));
    acl_ok(aclrtDestroyContext(own));
    end_world(&w);
}

static void *attach_without_context(void *argument)
{
    struct world *w = argument;
    weir_acl_attachment *attachment = NULL;
    const bool done =
        weir_acl_attach(w->pool, w->stream[0], &attachment) == WEIR_OK && weir_acl_detach(attachment) == WEIR_OK;
    return done ? w : NULL;
}

TEST(test_a_thread_without_a_context)
{
    struct world w = make_world();
    pthread_t thread;
    void *done = NULL;
    assert_int_equal(pthread_create(&thread, NULL, attach_without_context, &w), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_non_null(done);
    end_world(&w);
}

/* Host memory is freed in the order of a stream of another device. Events of this device cannot be recorded on that
 * stream. */
TEST(test_host_memory_after_a_stream_of_another_device)
{
    struct world w = make_world();
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    aclrtStream stream = NULL;
    ok(weir_acl_host_runtime(w.device, &runtime));
    config.runtime = &runtime;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    ok(weir_host_pool_create(&config, &pool));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateStream(&stream));
    void *memory = NULL;
    ok(weir_host_alloc(pool, 4 * MIB, WEIR_HOST_ANY_NODE, &memory));
    fails(weir_host_free_after(pool, memory, stream), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "is on ACL device 1"));
    ok(weir_host_free_after(pool, memory, w.stream[0])); /* it was still live */
    void *small = NULL;
    ok(weir_host_alloc(pool, 1000, WEIR_HOST_ANY_NODE, &small));
    fails(weir_host_free_after(pool, small, stream), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "is on ACL device 1"));
    ok(weir_host_free_after(pool, small, w.stream[0]));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetDevice(0));
    ok(weir_host_stream_retire(pool, w.stream[0]));
    ok(weir_host_pool_destroy(pool));
    acl_ok(aclrtResetDevice(0));
    end_world(&w);
}
