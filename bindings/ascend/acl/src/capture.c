/* bindings/ascend/acl/src/capture.c: tells a pool which streams are being captured, and when a captured graph is gone.
 *
 * Idea: the handle of a graph is the number of its capture: the runtime gives it to no second graph while the first
 * exists. A graph calls a function of the program when it is destroyed, each function once; so this file registers one
 * function a graph and keeps the pools that wait for it in a list.
 *
 * Guarantee: the lock of the list is held during no call of ACL or of a pool.
 *
 * Cost: one call of ACL. Source: aclmdlRICaptureGetInfo and aclmdlRIDestroyRegisterCallback of CANN 8.5 and later; with
 * an older runtime that lacks the first nothing counts as captured.
 */
#include "acl_internal.h"

#include <pthread.h>
#include <stdlib.h>

/* Weak: NULL with a runtime that lacks the function. */
extern aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *modelRI)
    __attribute__((weak));
extern aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData)
    __attribute__((weak));

/* A pool that waits for the end of a graph. */
struct waiter {
    struct waiter *next;
    aclmdlRI graph;
    void (*gone)(void *arg);
    void *arg;
};

static struct waiter *waiters;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Takes the first waiter of the graph off the list. Returns NULL if there is none. */
static struct waiter *take(const void *graph)
{
    (void)pthread_mutex_lock(&lock);
    struct waiter **link = &waiters;
    while (*link != NULL && (*link)->graph != graph) {
        link = &(*link)->next;
    }
    struct waiter *found = *link;
    if (found != NULL) {
        *link = found->next;
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

static void graph_gone(void *graph)
{
    struct waiter *waiter;
    while ((waiter = take(graph)) != NULL) {
        waiter->gone(waiter->arg);
        free(waiter);
    }
}

/* Adds the waiter. Returns true if it is the graph's first. */
static bool add(struct waiter *waiter)
{
    (void)pthread_mutex_lock(&lock);
    const struct waiter *other = waiters;
    while (other != NULL && other->graph != waiter->graph) {
        other = other->next;
    }
    waiter->next = waiters;
    waiters = waiter;
    (void)pthread_mutex_unlock(&lock);
    return other == NULL;
}

static weir_status wait_for_end(aclmdlRI graph, void (*gone)(void *arg), void *arg)
{
    if (aclmdlRIDestroyRegisterCallback == NULL) {
        return weir__acl_result("aclmdlRIDestroyRegisterCallback", ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    }
    struct waiter *waiter = malloc(sizeof(*waiter));
    if (waiter == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    *waiter = (struct waiter){.graph = graph, .gone = gone, .arg = arg};
    const weir_status status = add(waiter) ? ACL(aclmdlRIDestroyRegisterCallback, graph, graph_gone, graph) : WEIR_OK;
    if (status != WEIR_OK) {
        /* The list holds no other waiter of the graph, or those of other threads, which are not told either. */
        struct waiter *left;
        while ((left = take(graph)) != NULL) {
            free(left);
        }
        return WEIR_ERR_UNSUPPORTED;
    }
    return status;
}

/* The question in the form of a call that acts on a stream (weir__acl_on_stream). */
struct question {
    aclmdlRICaptureStatus status;
    aclmdlRI graph;
};

static aclError ask(aclrtStream stream, void *question)
{
    struct question *asked = question;
    return aclmdlRICaptureGetInfo(stream, &asked->status, &asked->graph);
}

/* True if the runtime answers in whatever context is current. The answer is asked for with each block, so the two calls
 * that make another context current are worth saving. */
static bool answers_at_once(const weir__acl_device *self, void *native_stream, struct question *question)
{
    return native_stream != NULL && !weir__acl_is_lost(self) && !weir__acl_handle_blocked(native_stream) &&
           UNCANCELLED(ask(native_stream, question)) == ACL_SUCCESS;
}

weir_status weir__acl_stream_capture(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg),
                                     void *arg)
{
    if (aclmdlRICaptureGetInfo == NULL) {
        return WEIR_OK;
    }
    struct question question = {.status = ACL_MODEL_RI_CAPTURE_STATUS_NONE};
    const weir_status status = answers_at_once(ctx, native_stream, &question)
                                   ? WEIR_OK
                                   : weir__acl_on_stream(ctx, "aclmdlRICaptureGetInfo", ask, native_stream, &question);
    if (status != WEIR_OK || question.status == ACL_MODEL_RI_CAPTURE_STATUS_NONE) {
        return status;
    }
    *capture = (uintptr_t)question.graph;
    return gone != NULL ? wait_for_end(question.graph, gone, arg) : WEIR_OK;
}
