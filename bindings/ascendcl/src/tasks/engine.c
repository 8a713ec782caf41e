/* engine.c: the engine, a thread of the runtime that runs host functions. Once it exists, time also passes when no
 * call has come for a millisecond: a program may poll a flag in its memory instead of calling the runtime. */
#include "tasks/tasks.h"

static void engine_run(acl__job *job)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(!acl__rt.engine.busy);
    WEIR_ASSERT(job->run != NULL && job->done != NULL);
    acl__rt.engine.busy = true;
    (void)pthread_mutex_unlock(acl__mutex());
    job->run(job);
    (void)pthread_mutex_lock(acl__mutex());
    acl__rt.engine.busy = false;
    job->done(job);
    acl__changed();
}

static void *engine_main(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    (void)pthread_mutex_lock(acl__mutex());
    while (!acl__rt.engine.ends) {
        acl__job *job = acl__rt.engine.first;
        if (job != NULL) {
            acl__rt.engine.first = job->next;
            if (acl__rt.engine.first == NULL) {
                acl__rt.engine.last = &acl__rt.engine.first;
            }
            engine_run(job);
            continue;
        }
        const struct timespec soon = acl__deadline_in(1).real;
        (void)pthread_cond_timedwait(&acl__rt.engine.wake, acl__mutex(), &soon);
        const uint64_t calls = acl__calls(ACL_FN_COUNT);
        if (acl__rt.held_tasks > 0) {
            acl__changed(); /* a held task may wait for real time to pass */
        }
        if (acl__rt.config.idle_time && acl__rt.engine.first == NULL && calls == seen) {
            const uint64_t next = acl__next_end(weir_sim_now(acl__rt.sim));
            if (next != UINT64_MAX) {
                weir_sim_advance_to(acl__rt.sim, next);
                acl__changed();
            }
        }
        seen = calls;
    }
    (void)pthread_mutex_unlock(acl__mutex());
    return NULL;
}

aclError acl__engine_need(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (!acl__rt.engine.running && !acl__rt.engine.ends) {
        acl__rt.engine.running = pthread_create(&acl__rt.engine.thread, NULL, engine_main, NULL) == 0;
    }
    return acl__rt.engine.running
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "the runtime's thread cannot be started");
}

aclError acl__engine_post(acl__job *job)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(*acl__rt.engine.last == NULL);
    ACL_TRY(acl__engine_need());
    job->next = NULL;
    *acl__rt.engine.last = job;
    acl__rt.engine.last = &job->next;
    (void)pthread_cond_signal(&acl__rt.engine.wake);
    return ACL_SUCCESS;
}

void acl__engine_stop(void)
{
    acl__lock();
    /* Do not join while a function of the user runs: it may never return. */
    const bool join =
        acl__rt.engine.running && !acl__rt.engine.busy && !pthread_equal(acl__rt.engine.thread, pthread_self());
    acl__rt.engine.ends = true;
    acl__rt.engine.running = false;
    (void)pthread_cond_signal(&acl__rt.engine.wake);
    acl__unlock();
    if (join) {
        (void)pthread_join(acl__rt.engine.thread, NULL);
    }
}
