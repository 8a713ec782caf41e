/* notify.c: order without events: words in device memory that are written and waited for, and notifies.
 *
 * Both kinds of waits are held tasks. Once its stream has reached it, a wait checks its condition, and checks again
 * after every change until it holds. Each write and each record of a notify has a mark: a recording on the stream that
 * made it. The waiting stream joins that recording, which gives it the right time, and gives the auditor the order.
 *
 * Guarantee: a wait ends at the virtual time of the write or record that ends it, or when its stream reaches the wait,
 * if that is later. A word that was written in another way, by a copy for example, ends a wait as well, but gives no
 * order. Cost: a held wait is checked after each change anywhere; a written word keeps a few words of host memory until
 * its device memory is gone.
 */
#include "actions/actions.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- marks --- */

struct mark {
    uint32_t references; /* reference count: the queued kernel, and each word and notify that has the mark */
    acl__record *record; /* NULL: no order is known */
};

static struct mark *mark_new(void)
{
    struct mark *m = calloc(1, sizeof(*m));
    if (m != NULL) {
        m->references = 1;
    } else {
        (void)acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a mark");
    }
    return m;
}

static void mark_release(struct mark *m)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(m == NULL || m->references > 0);
    if (m != NULL && --m->references == 0) {
        acl__record_release(m->record);
        free(m);
    }
}

/* Stores the mark `m` in *place with a new reference, and drops the reference of the mark that was there. */
static void mark_give(struct mark **place, struct mark *m)
{
    WEIR_ASSERT(m->references > 0);
    m->references++;
    mark_release(*place);
    *place = m;
}

/* --- words --- */

/* A word of device memory that aclrtValueWrite wrote, with the mark (recording) of the last write. */
struct word {
    weir__interval range; /* first member; the addresses of the word's eight bytes */
    struct mark *last;
};

enum { WORD_BYTES = 8, FIRST_SWEEP = 256 };

static weir__intervals words;
static size_t word_count;
static size_t sweep_at = FIRST_SWEEP;

static struct word *word_at(uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct word *w = (struct word *)(void *)weir__intervals_floor(&words, address);
    return w != NULL && w->range.start == address ? w : NULL;
}

static bool is_device_word(uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *range = acl__range_at(&acl__rt.device_memory, (const void *)(uintptr_t)address);
    return range != NULL && range->range.end - address >= WORD_BYTES &&
           weir_sim_bytes(acl__rt.sim, address, WORD_BYTES) != NULL; /* an address of an aclrtMemPool may lack memory */
}

static void word_forget(struct word *w)
{
    WEIR_ASSERT(word_count > 0);
    weir__intervals_remove(&words, &w->range);
    mark_release(w->last);
    free(w);
    word_count--;
}

/* Frees the entries of words that no longer lie in device memory. */
static void sweep_words(void)
{
    for (weir__interval *range = weir__intervals_first(&words); range != NULL;) {
        weir__interval *next = weir__intervals_next(range);
        if (!is_device_word(range->start)) {
            word_forget((struct word *)(void *)range);
        }
        range = next;
    }
    WEIR_ASSERT(word_count > 0 || weir__intervals_first(&words) == NULL);
    sweep_at = 2 * word_count + FIRST_SWEEP;
}

/* Frees the entries of words that share some of the bytes at the address: a write is about to change these words. */
static void forget_overlapped(uint64_t address)
{
    for (weir__interval *range = weir__intervals_floor(&words, address + WORD_BYTES - 1);
         range != NULL && range->end > address; range = weir__intervals_floor(&words, address + WORD_BYTES - 1)) {
        word_forget((struct word *)(void *)range);
    }
}

/* Finds or creates the entry of the word at an address. NULL: out of host memory. */
static struct word *word_get(uint64_t address)
{
    struct word *w = word_at(address);
    if (w != NULL) {
        return w;
    }
    if (word_count >= sweep_at) {
        sweep_words();
    }
    forget_overlapped(address);
    w = calloc(1, sizeof(*w));
    if (w != NULL) {
        w->range.start = address;
        w->range.end = address + WORD_BYTES;
        weir__intervals_insert(&words, &w->range);
        word_count++;
    }
    return w;
}

/* Refuses an address that is not device memory. The reference wants an alignment of 8 bytes, which the vendor's runtime
 * does not check. */
static aclError check_word(const void *address, const char *name)
{
    ACL_FAIL_IF(acl__rt.config.strict && ((uintptr_t)address % WORD_BYTES) != 0, ACL_ERROR_RT_ADDR_UNALIGNED,
                "%s: %p is not aligned to 8 bytes", name, address);
    ACL_FAIL_IF(!is_device_word((uint64_t)(uintptr_t)address), ACL_ERROR_RT_PARAM_INVALID,
                "%s: %p is not device memory", name, address);
    return ACL_SUCCESS;
}

/* --- writing a word --- */

struct value_write {
    uint64_t address;
    uint64_t value;
    struct mark *mark;
};

static aclError write_now(void *ctx)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct value_write *w = ctx;
    if (!is_device_word(w->address)) {
        return ACL_ERROR_RT_DEVICE_MEM_ERROR;
    }
    memcpy((void *)(uintptr_t)w->address, &w->value, sizeof(w->value));
    struct word *to = word_get(w->address);
    if (to != NULL) { /* NULL (out of host memory): streams that wait for the word are not ordered after this write */
        mark_give(&to->last, w->mark);
    }
    return ACL_SUCCESS;
}

static void write_end(void *ctx)
{
    struct value_write *w = ctx;
    mark_release(w->mark);
    free(w);
}

/* Queues a write of a word, then a recording. A stream that waited for the recording is ordered after the write and may
 * write the word too. */
static aclError queue_write(acl__stream *on, uint64_t address, uint64_t value)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct value_write *w = calloc(1, sizeof(*w));
    struct mark *m = mark_new();
    if (w == NULL || m == NULL) {
        free(w);
        mark_release(m);
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for writing a value");
    }
    *w = (struct value_write){.address = address, .value = value, .mark = m};
    m->references++; /* this function's own reference */
    const weir_sim_access access = {.address = address, .size = WORD_BYTES, .write = true};
    const acl__kernel kernel = {
        .tag = "value write", .accesses = &access, .access_count = 1, .compute = write_now, .end = write_end, .ctx = w};
    aclError error = acl__launch(on, &kernel);
    if (error == ACL_SUCCESS) {
        m->record = acl__record_queue(on, &error);
        error = ACL_SUCCESS; /* the write stays queued even if no recording follows it */
    }
    mark_release(m);
    return error;
}

/* The arguments of a captured write of a value, or of a wait for one. */
struct value_step {
    uint64_t address;
    uint64_t value;
    uint32_t how;
};

static aclError write_again(acl__stream *on, void *args)
{
    const struct value_step *v = args;
    return queue_write(on, v->address, v->value);
}

static const acl__step_ops write_step = {.name = "value write", .again = write_again};

ACL_EXPORT aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream)
{
    ACL_ENTER_LOCKED(aclrtValueWrite);
    ACL_NEED(devAddr);
    ACL_REFUSE_IF(flag != 0, ACL_ERROR_RT_PARAM_INVALID, "flag is %u and has to be 0", flag);
    ACL_TRY(check_word(devAddr, __func__));
    ACL_NEED_STREAM(on, stream);
    const struct value_step v = {.address = (uint64_t)(uintptr_t)devAddr, .value = value};
    return on->leg != NULL ? acl__capture(on, &write_step, &v, sizeof(v)) : queue_write(on, v.address, value);
}

/* --- waiting for a word --- */

struct value_wait {
    acl__task task; /* first member */
    uint64_t address;
    uint64_t value;
    uint32_t how;
};

static bool is_satisfied(const struct value_wait *w)
{
    uint64_t found = 0;
    memcpy(&found, (const void *)(uintptr_t)w->address, sizeof(found));
    switch (w->how) {
    case ACL_STREAM_WAIT_VALUE_GEQ:
        return (int64_t)(found - w->value) >= 0;
    case ACL_STREAM_WAIT_VALUE_EQ:
        return found == w->value;
    case ACL_STREAM_WAIT_VALUE_AND:
        return (found & w->value) != 0;
    default: /* ACL_STREAM_WAIT_VALUE_NOR */
        return ~(found | w->value) != 0;
    }
}

/* Orders the stream after the last write of the word, and queues the stream's read of the word. */
static aclError join_writer(acl__stream *stream, uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct word *w = word_at(address);
    if (w == NULL || w->last == NULL || w->last->record == NULL) {
        return ACL_SUCCESS;
    }
    ACL_TRY(acl__record_join(stream, w->last->record));
    return acl__read_word(stream, address, WORD_BYTES, "value wait");
}

static aclError value_wait_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct value_wait *w = (const struct value_wait *)(const void *)task;
    if (!acl__has_arrived(stream)) {
        return ACL__HELD;
    }
    if (!is_device_word(w->address)) {
        return ACL_ERROR_RT_DEVICE_MEM_ERROR;
    }
    return is_satisfied(w) ? join_writer(stream, w->address) : ACL__HELD;
}

static void value_wait_end(acl__task *task)
{
    free(task);
}

static const acl__task_ops value_wait_ops = {
    .submit = value_wait_submit, .end = value_wait_end, .awaits = "a value in memory"};

static aclError queue_wait(acl__stream *stream, const struct value_step *v)
{
    struct value_wait *w = calloc(1, sizeof(*w));
    ACL_FAIL_IF(w == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for waiting for a value");
    w->task.ops = &value_wait_ops;
    w->address = v->address;
    w->value = v->value;
    w->how = v->how;
    return acl__queue(stream, &w->task);
}

static aclError wait_again(acl__stream *on, void *args)
{
    return queue_wait(on, args);
}

static const acl__step_ops wait_step = {.name = "value wait", .again = wait_again};

ACL_EXPORT aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclrtValueWait);
    ACL_NEED(devAddr);
    ACL_REFUSE_IF(flag > ACL_STREAM_WAIT_VALUE_NOR, ACL_ERROR_RT_PARAM_INVALID, "there is no way %u to compare", flag);
    ACL_TRY(check_word(devAddr, __func__));
    ACL_NEED_STREAM(stream, handle);
    const struct value_step v = {.address = (uint64_t)(uintptr_t)devAddr, .value = value, .how = flag};
    return stream->leg != NULL ? acl__capture(stream, &wait_step, &v, sizeof(v)) : queue_wait(stream, &v);
}

/* --- notifies --- */

/* A notify: one bit, set by a record task and cleared by a wait task. */
struct notify {
    void *link;          /* used by the slab */
    struct notify *next; /* list of live notifies */
    struct notify *previous;
    uint32_t references; /* reference count: one for the handle, one for each queued task */
    bool live;
    int32_t device;
    struct mark *set; /* the recording that follows the task by which the notify was set; NULL: not set */
};

enum { NOTIFIES = 8192 }; /* limit of one device */

static weir__slab notifies = WEIR__SLAB_INIT(struct notify, 0, 64);
static uint32_t notify_counts[ACL__DEVICES];
static struct notify *first_notify;

static void notify_release(struct notify *n)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(n->references > 0);
    if (--n->references == 0) {
        mark_release(n->set);
        n->set = NULL;
        weir__slab_put(&notifies, n);
    }
}

/* Ends a notify. Streams that wait for the notify get an error, unless the notify is set already. */
static void notify_end(struct notify *n)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(n->live && notify_counts[n->device] > 0);
    n->live = false;
    notify_counts[n->device]--;
    ACL_LIST_REMOVE(first_notify, n);
    notify_release(n);
}

void acl__notify_reset(int32_t device)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (struct notify *n = first_notify; n != NULL;) {
        struct notify *next = n->next;
        if (n->device == device) {
            notify_end(n);
        }
        n = next;
    }
}

static aclError notify_of(aclrtNotify handle, struct notify **n)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(!weir__slab_owns(&notifies, handle) || !((const struct notify *)handle)->live,
                ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live notify", handle);
    *n = handle;
    return ACL_SUCCESS;
}

static aclError notify_create_locked(struct notify **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_NEED_CONTEXT(context);
    ACL_FAIL_IF(notify_counts[context->device] >= NOTIFIES, ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
                "device %d has %d notifies and no more", context->device, (int)NOTIFIES);
    struct notify *n = weir__slab_get(&notifies);
    ACL_FAIL_IF(n == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a notify");
    *n = (struct notify){.references = 1, .live = true, .device = context->device};
    ACL_LIST_ADD(first_notify, n);
    notify_counts[context->device]++;
    *out = n;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtCreateNotify(aclrtNotify *handle, uint64_t flag)
{
    ACL_ENTER_LOCKED(aclrtCreateNotify);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "notify is NULL");
    ACL_REFUSE_IF(flag != ACL_NOTIFY_DEFAULT && flag != ACL_NOTIFY_DEVICE_USE_ONLY, ACL_ERROR_RT_PARAM_INVALID,
                  "0x%llx is no flag of a notify", (unsigned long long)flag);
    struct notify *n = NULL;
    ACL_TRY(notify_create_locked(&n));
    *handle = n;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtDestroyNotify(aclrtNotify handle)
{
    ACL_ENTER_LOCKED(aclrtDestroyNotify);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "notify is NULL");
    struct notify *n = NULL;
    ACL_NEED_CONTEXT(context);
    ACL_TRY(notify_of(handle, &n));
    notify_end(n);
    return ACL_SUCCESS;
}

/* --- recording a notify --- */

struct notify_record {
    struct notify *notify;
    struct mark *mark;
};

static aclError notify_set_now(void *ctx)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct notify_record *r = ctx;
    mark_give(&r->notify->set, r->mark);
    return ACL_SUCCESS;
}

static void notify_record_end(void *ctx)
{
    struct notify_record *r = ctx;
    notify_release(r->notify);
    mark_release(r->mark);
    free(r);
}

static aclError queue_notify_record(acl__stream *stream, struct notify *n)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct notify_record *r = calloc(1, sizeof(*r));
    struct mark *m = mark_new();
    if (r == NULL || m == NULL) {
        free(r);
        mark_release(m);
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for recording a notify");
    }
    aclError error = ACL_SUCCESS;
    m->record = acl__record_queue(stream, &error);
    if (error != ACL_SUCCESS) {
        free(r);
        mark_release(m);
        return error;
    }
    n->references++;
    *r = (struct notify_record){.notify = n, .mark = m};
    const acl__kernel kernel = {.tag = "notify record", .compute = notify_set_now, .end = notify_record_end, .ctx = r};
    return acl__launch(stream, &kernel);
}

/* The arguments of a captured record of a notify, or of a wait for one. */
struct notify_step {
    struct notify *notify;
    uint32_t timeout_s;
};

static void notify_step_end(void *args)
{
    notify_release(((struct notify_step *)args)->notify);
}

static aclError capture_notify(acl__stream *stream, const acl__step_ops *ops, struct notify *n, uint32_t timeout_s)
{
    const struct notify_step args = {.notify = n, .timeout_s = timeout_s};
    ACL_TRY(acl__capture(stream, ops, &args, sizeof(args)));
    n->references++;
    return ACL_SUCCESS;
}

static aclError notify_record_again(acl__stream *on, void *args)
{
    return queue_notify_record(on, ((struct notify_step *)args)->notify);
}

static const acl__step_ops notify_record_step = {
    .name = "notify record", .again = notify_record_again, .end = notify_step_end};

ACL_EXPORT aclError aclrtRecordNotify(aclrtNotify handle, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtRecordNotify);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "notify is NULL");
    struct notify *n = NULL;
    ACL_TRY(notify_of(handle, &n));
    ACL_NEED_STREAM(stream, stream_handle);
    return stream->leg != NULL ? capture_notify(stream, &notify_record_step, n, 0) : queue_notify_record(stream, n);
}

/* --- waiting for a notify --- */

struct notify_wait {
    acl__task task; /* first member */
    struct notify *notify;
    uint32_t timeout_s; /* time limit, counted from the time when the stream reached the wait; 0: no limit */
    bool arrived;
    acl__deadline deadline;
};

static bool has_passed(const acl__deadline *deadline)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return weir_sim_now(acl__rt.sim) >= deadline->virtual_ns || now.tv_sec > deadline->real.tv_sec ||
           (now.tv_sec == deadline->real.tv_sec && now.tv_nsec >= deadline->real.tv_nsec);
}

static aclError notify_wait_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct notify_wait *w = (struct notify_wait *)(void *)task;
    if (!acl__has_arrived(stream)) {
        return ACL__HELD;
    }
    if (!w->arrived) {
        w->arrived = true;
        w->deadline = acl__deadline_in((int64_t)w->timeout_s * 1000);
    }
    struct notify *n = w->notify;
    if (n->set != NULL) {
        ACL_TRY(acl__record_join(stream, n->set->record));
        mark_release(n->set);
        n->set = NULL;
        return ACL_SUCCESS;
    }
    if (!n->live) {
        return ACL_ERROR_RT_INVALID_HANDLE;
    }
    return w->timeout_s > 0 && has_passed(&w->deadline) ? ACL_ERROR_RT_TASK_TIMEOUT : ACL__HELD;
}

static void notify_wait_end(acl__task *task)
{
    notify_release(((struct notify_wait *)(void *)task)->notify);
    free(task);
}

static const acl__task_ops notify_wait_ops = {
    .submit = notify_wait_submit, .end = notify_wait_end, .awaits = "a notify"};

static aclError queue_notify_wait(acl__stream *stream, struct notify *n, uint32_t timeout_s)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (timeout_s > 0) {
        ACL_TRY(acl__engine_need()); /* the runtime's thread checks the clock when no call comes */
    }
    struct notify_wait *w = calloc(1, sizeof(*w));
    ACL_FAIL_IF(w == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for waiting for a notify");
    n->references++;
    w->task.ops = &notify_wait_ops;
    w->notify = n;
    w->timeout_s = timeout_s;
    return acl__queue(stream, &w->task);
}

static aclError notify_wait_again(acl__stream *on, void *args)
{
    const struct notify_step *n = args;
    return queue_notify_wait(on, n->notify, n->timeout_s);
}

static const acl__step_ops notify_wait_step = {
    .name = "notify wait", .again = notify_wait_again, .end = notify_step_end};

ACL_EXPORT aclError aclrtWaitAndResetNotify(aclrtNotify handle, aclrtStream stream_handle, uint32_t timeout)
{
    ACL_ENTER_LOCKED(aclrtWaitAndResetNotify);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "notify is NULL");
    struct notify *n = NULL;
    ACL_TRY(notify_of(handle, &n));
    ACL_NEED_STREAM(stream, stream_handle);
    return stream->leg != NULL ? capture_notify(stream, &notify_wait_step, n, timeout)
                               : queue_notify_wait(stream, n, timeout);
}
