/* process.c: the runtime's start and end, its lock, the count of calls.
 *
 * The runtime starts with the first call of any function, on any thread, and lives as long as the process: a handle or
 * an address that a late destructor still uses stays valid.
 */
#include "config.h"
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

acl__runtime acl__rt;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static aclError start_error;
static _Atomic uint64_t calls[ACL_FN_COUNT];
static _Atomic uint64_t all_calls;

static const char *const names[] = {
#define ACL_FUNCTION_NAME(name, priority) #name,
    ACL_FUNCTION_LIST(ACL_FUNCTION_NAME)
#undef ACL_FUNCTION_NAME
};

const char *acl__function_name(acl__function function)
{
    return names[function];
}

/* --- fork --- */

static bool lock_within_a_second(void)
{
    struct timespec deadline;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 1;
    return pthread_mutex_timedlock(&lock, &deadline) == 0;
}

/* A fork waits for the runtime's locks, so the child gets the runtime in a state between two calls. The child has none
 * of the parent's other threads. The runtime's own thread starts again in the child on demand. The child prints a
 * report at its end only if it has called the runtime. */
static bool fork_locks;
static uint64_t calls_before_fork;

static void before_fork(void)
{
    acl__consumer_fork_lock();
    fork_locks = lock_within_a_second(); /* a crashed thread may hold the lock for ever */
    acl__registry_fork_lock();
}

static void after_fork(void)
{
    acl__registry_fork_unlock();
    if (fork_locks) {
        (void)pthread_mutex_unlock(&lock);
    }
    acl__consumer_fork_unlock();
}

static void in_child(void)
{
    acl__engine_forget();
    calls_before_fork = acl__calls(ACL_FN_COUNT);
    after_fork();
}

/* --- start --- */

static void start(void)
{
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.direct_access = true;
    start_error = ACL_ERROR_INTERNAL_ERROR;
    if (!acl__config_read(&acl__rt.config, &sim)) {
        return;
    }
    if (weir_sim_create(&sim, &acl__rt.sim) != WEIR_OK) {
        (void)fputs("weir ascendcl: the simulator cannot be made: not enough memory or addresses\n", stderr);
        return;
    }
    acl__rt.memory = weir_sim_device(acl__rt.sim);
    weir__sim_set_reach(acl__rt.sim, acl__reaches);
    (void)pthread_atfork(before_fork, after_fork, in_child); /* if out of memory, a child of fork must not use ACL */
    start_error = ACL_SUCCESS;
}

aclError acl__start(void)
{
    (void)pthread_once(&once, start);
    return start_error;
}

aclError acl__enter(acl__function function)
{
    ACL_TRY(acl__start());
    const uint64_t nth = atomic_fetch_add_explicit(&calls[function], 1, memory_order_relaxed) + 1;
    const uint64_t overall = atomic_fetch_add_explicit(&all_calls, 1, memory_order_relaxed) + 1;
    return acl__faults_any() ? acl__faults_strike(function, nth, overall) : ACL_SUCCESS;
}

uint64_t acl__calls(acl__function function)
{
    return atomic_load_explicit(function == ACL_FN_COUNT ? &all_calls : &calls[function], memory_order_relaxed);
}

aclError acl__not_simulated(acl__function function)
{
    return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not simulated", acl__function_name(function));
}

/* --- the lock --- */

void acl__lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void acl__unlock(void)
{
    acl__changed();
    (void)pthread_mutex_unlock(&lock);
}

pthread_mutex_t *acl__mutex(void)
{
    return &lock;
}

/* --- errors --- */

/* Records an error with a sentence. If `name` is not NULL, the name and a colon come before the sentence. */
static aclError fail(const char *name, aclError code, const char *format, va_list arguments)
{
    char text[512];
    const int before = name != NULL ? snprintf(text, sizeof(text), "%s: ", name) : 0;
    (void)vsnprintf(text + before, sizeof(text) - (size_t)before, format, arguments);
    acl__error_note(code, text);
    return code;
}

aclError acl__fail(aclError code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fail(NULL, code, format, arguments);
    va_end(arguments);
    return code;
}

aclError acl__refuse(const char *name, aclError code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fail(name, code, format, arguments);
    va_end(arguments);
    return code;
}

aclError acl__status(weir_status status, const char *what)
{
    switch (status) {
    case WEIR_OK:
        return ACL_SUCCESS;
    case WEIR_ERR_NO_MEMORY:
    case WEIR_ERR_LIMIT:
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", what);
    case WEIR_ERR_INVALID:
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: an argument is not what it should be", what);
    case WEIR_ERR_UNSUPPORTED:
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: not on this device", what);
    case WEIR_ERR_DEVICE:
        return acl__fail(ACL_ERROR_RT_DEVICE_MEM_ERROR,
                         "%s: the stream is broken: its work touched memory that was not there", what);
    default:
        return acl__fail(ACL_ERROR_RT_INTERNAL_ERROR, "%s: %s", what, weir_status_text(status));
    }
}

/* --- aclInit, aclFinalize, aclFinalizeReference --- */

ACL_EXPORT aclError aclInit(const char *configPath)
{
    ACL_ENTER_LOCKED(aclInit);
    const bool again = acl__rt.initialised > 0;
    ACL_REFUSE_IF(!again && configPath != NULL && *configPath != '\0' && access(configPath, R_OK) != 0,
                  ACL_ERROR_INVALID_FILE, "%s cannot be read", configPath);
    acl__rt.initialised++;
    acl__rt.finalised = false;
    ACL_REFUSE_IF(again, ACL_ERROR_REPEAT_INITIALIZE, "called before");
    return ACL_SUCCESS;
}

/* Drops one reference of aclInit, or all references. Prints the report when the last reference is dropped. The vendor
 * allows one aclFinalize without any aclInit, and so does this function. */
static aclError finalize(bool all, uint64_t *left)
{
    ACL_HOLD_LOCK();
    const bool nothing = acl__rt.initialised == 0 && (!all || acl__rt.finalised);
    if (!nothing) {
        acl__rt.initialised = all ? 0 : acl__rt.initialised - 1;
        if (acl__rt.initialised == 0) {
            acl__rt.finalised = true;
            acl__report_print();
        }
    }
    if (left != NULL) {
        *left = acl__rt.initialised;
    }
    ACL_FAIL_IF(nothing, ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: there is no aclInit to end");
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclFinalize(void)
{
    ACL_ENTER(aclFinalize);
    return finalize(true, NULL);
}

ACL_EXPORT aclError aclFinalizeReference(uint64_t *refCount)
{
    ACL_ENTER(aclFinalizeReference);
    return finalize(false, refCount);
}

/* --- the end of the process --- */

__attribute__((destructor)) static void end(void)
{
    if (acl__rt.sim == NULL) {
        return;
    }
    /* A thread that died or hangs with the lock must not keep the process from ending. */
    if (!lock_within_a_second()) {
        return;
    }
    acl__unlock();
    acl__engine_stop();
    if (!lock_within_a_second()) {
        return;
    }
    const bool idle_child = calls_before_fork > 0 && acl__calls(ACL_FN_COUNT) == calls_before_fork;
    if (!idle_child) {
        acl__report_print();
    }
    const bool found = !idle_child && acl__report_has_findings();
    (void)pthread_mutex_unlock(&lock);
    if (found && acl__rt.config.exit_code != 0) {
        (void)fflush(NULL);
        _exit(acl__rt.config.exit_code);
    }
}
