/* settings.c: values that a program sets and reads back, and facts about the interface.
 *
 * The simulated device computes as IEEE 754 says, detects no overflow, and lets no operator run out of time. So these
 * settings are checked, stored and returned, without effect. Frameworks make these calls when they start.
 */
#include "process/process.h"

/* --- options of the process and of contexts --- */

enum { OPTIONS = ACL_OPT_ENABLE_KERNEL_EARLY_START + 1, CONTEXT_OPTIONS = OPTIONS - 1 };

struct option {
    bool is_set;
    int64_t value;
};

static int64_t process_options[OPTIONS]; /* for contexts that have set no values of their own */

/* Options of one context. The generation tells that context from a later one at the same address. */
static struct context_options {
    const acl__context *context;
    uint32_t generation;
    struct option options[CONTEXT_OPTIONS];
} context_options[ACL__DEVICES * 4];

static aclError check_option(aclSysParamOpt opt, int count, const char *name)
{
    return (int)opt >= 0 && (int)opt < count
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_INVALID_PARAM, "%s: there is no option %d", name, (int)opt);
}

/* Levels of determinism are 0 to 3; the other options are switches. */
static aclError check_value(aclSysParamOpt opt, int64_t value, const char *name)
{
    const int64_t most = opt == ACL_OPT_DETERMINISTIC ? 3 : 1;
    return value >= 0 && value <= most
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: option %d takes 0 to %lld, not %lld", name, (int)opt,
                           (long long)most, (long long)value);
}

static aclError option_get(const struct option *from, int64_t *value, const char *name)
{
    ACL_FAIL_IF(!from->is_set, ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "%s: the option was not set", name);
    *value = from->value;
    return ACL_SUCCESS;
}

/* Finds the options of the calling thread's context. If the context has none, it gets an unused entry, or the entry of
 * a context that is gone. */
static aclError options_of_context(struct option **options)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_NEED_CONTEXT(context);
    struct context_options *free_entry = NULL;
    for (size_t i = 0; i < sizeof(context_options) / sizeof(context_options[0]); i++) {
        struct context_options *c = &context_options[i];
        if (c->context == context && c->generation == context->generation) {
            *options = c->options;
            return ACL_SUCCESS;
        }
        if (free_entry == NULL && (!acl__context_is(c->context) || c->context->generation != c->generation)) {
            free_entry = c;
        }
    }
    ACL_FAIL_IF(free_entry == NULL, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "too many contexts have options");
    *free_entry = (struct context_options){.context = context, .generation = context->generation};
    *options = free_entry->options;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    ACL_ENTER_LOCKED(aclrtSetSysParamOpt);
    ACL_TRY(check_option(opt, OPTIONS, __func__));
    ACL_TRY(check_value(opt, value, __func__));
    process_options[opt] = value;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    ACL_ENTER_LOCKED(aclrtGetSysParamOpt);
    ACL_NEED(value);
    ACL_TRY(check_option(opt, OPTIONS, __func__));
    *value = process_options[opt];
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    ACL_ENTER_LOCKED(aclrtCtxSetSysParamOpt);
    ACL_TRY(check_option(opt, CONTEXT_OPTIONS, __func__));
    ACL_TRY(check_value(opt, value, __func__));
    struct option *options = NULL;
    ACL_TRY(options_of_context(&options));
    options[opt] = (struct option){true, value};
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    ACL_ENTER_LOCKED(aclrtCtxGetSysParamOpt);
    ACL_NEED(value);
    ACL_TRY(check_option(opt, CONTEXT_OPTIONS, __func__));
    struct option *options = NULL;
    ACL_TRY(options_of_context(&options));
    return option_get(&options[opt], value, __func__);
}

/* --- the time-out of operators, one for the whole process --- */

enum {
    US_IN_MS = 1000,
    US_IN_S = 1000000,
    TIMEOUT_STEP_US = 1048576, /* the device counts time-outs in steps of about a second */
    LONGEST_TIMEOUT_US = 254 * TIMEOUT_STEP_US
};

static uint64_t operator_timeout_us = LONGEST_TIMEOUT_US;

/* Stores a time-out in whole steps of the device, at least one; 0 stands for the longest. */
static uint64_t set_timeout(uint64_t us)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t steps = us / TIMEOUT_STEP_US + (us % TIMEOUT_STEP_US != 0 ? 1 : 0);
    const uint64_t rounded = us == 0 || us > LONGEST_TIMEOUT_US ? LONGEST_TIMEOUT_US : steps * TIMEOUT_STEP_US;
    operator_timeout_us = rounded;
    WEIR_ASSERT(rounded > 0 && rounded % TIMEOUT_STEP_US == 0);
    return rounded;
}

ACL_EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t timeout)
{
    ACL_ENTER_LOCKED(aclrtSetOpExecuteTimeOut);
    (void)set_timeout((uint64_t)timeout * US_IN_S);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout)
{
    ACL_ENTER_LOCKED(aclrtSetOpExecuteTimeOutWithMs);
    (void)set_timeout((uint64_t)timeout * US_IN_MS);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout)
{
    ACL_ENTER_LOCKED(aclrtSetOpExecuteTimeOutV2);
    ACL_NEED(actualTimeout);
    *actualTimeout = set_timeout(timeout);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs)
{
    ACL_ENTER_LOCKED(aclrtGetOpExecuteTimeout);
    ACL_NEED(timeoutMs);
    *timeoutMs = (uint32_t)(operator_timeout_us / US_IN_MS);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetOpTimeOutInterval(uint64_t *interval)
{
    ACL_ENTER(aclrtGetOpTimeOutInterval);
    ACL_NEED(interval);
    *interval = TIMEOUT_STEP_US;
    return ACL_SUCCESS;
}

/* Sets the time-out of waits for events on the device. The time-out has no effect: instead, the simulated runtime
 * reports a wait that never ends. */
ACL_EXPORT aclError aclrtSetOpWaitTimeout(uint32_t timeout)
{
    ACL_ENTER(aclrtSetOpWaitTimeout);
    (void)timeout;
    return ACL_SUCCESS;
}

/* --- overflow of floating-point numbers --- */

static aclrtFloatOverflowMode overflow_modes[ACL__DEVICES];

ACL_EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    ACL_ENTER_LOCKED(aclrtSetDeviceSatMode);
    ACL_REFUSE_IF((uint32_t)mode >= ACL_RT_OVERFLOW_MODE_UNDEF, ACL_ERROR_RT_PARAM_INVALID, "there is no mode %d",
                  (int)mode);
    ACL_NEED_CONTEXT(context);
    overflow_modes[context->device] = mode;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    ACL_ENTER_LOCKED(aclrtGetDeviceSatMode);
    ACL_NEED(mode);
    ACL_NEED_CONTEXT(context);
    *mode = overflow_modes[context->device];
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtSetStreamOverflowSwitch(aclrtStream handle, uint32_t flag)
{
    ACL_ENTER_LOCKED(aclrtSetStreamOverflowSwitch);
    ACL_REFUSE_IF(flag > 1, ACL_ERROR_INVALID_PARAM, "flag must be 0 or 1");
    ACL_NEED_STREAM(stream, handle);
    ACL_TRY(acl__stream_check_free(stream));
    stream->overflow_switch = flag;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetStreamOverflowSwitch(aclrtStream handle, uint32_t *flag)
{
    ACL_ENTER_LOCKED(aclrtGetStreamOverflowSwitch);
    ACL_NEED(flag);
    ACL_NEED_STREAM(stream, handle);
    *flag = stream->overflow_switch;
    return ACL_SUCCESS;
}

/* --- attributes of streams --- */

ACL_EXPORT aclError aclrtSetStreamAttribute(aclrtStream handle, aclrtStreamAttr stmAttrType,
                                            aclrtStreamAttrValue *value)
{
    ACL_ENTER_LOCKED(aclrtSetStreamAttribute);
    ACL_NEED(value);
    ACL_NEED_STREAM(stream, handle);
    switch ((int)stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
        stream->stop_on_failure = (value->failureMode & ACL_STOP_ON_FAILURE) != 0;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        ACL_REFUSE_IF(value->cacheOpInfoSwitch > 1, ACL_ERROR_RT_PARAM_INVALID, "the switch must be 0 or 1");
        return ACL_SUCCESS; /* the information is for profilers */
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        ACL_TRY(acl__stream_check_free(stream));
        ACL_REFUSE_IF(value->overflowSwitch > 1, ACL_ERROR_RT_PARAM_INVALID, "the switch must be 0 or 1");
        stream->overflow_switch = value->overflowSwitch;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        ACL_TRY(acl__stream_check_free(stream));
        stream->user_tag = value->userCustomTag;
        return ACL_SUCCESS;
    default:
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtSetStreamAttribute: attribute %d is not simulated",
                         (int)stmAttrType);
    }
}

ACL_EXPORT aclError aclrtGetStreamAttribute(aclrtStream handle, aclrtStreamAttr stmAttrType,
                                            aclrtStreamAttrValue *value)
{
    ACL_ENTER_LOCKED(aclrtGetStreamAttribute);
    ACL_NEED(value);
    ACL_NEED_STREAM(stream, handle);
    switch ((int)stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
        value->failureMode = stream->stop_on_failure ? ACL_STOP_ON_FAILURE : ACL_CONTINUE_ON_FAILURE;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        value->overflowSwitch = stream->overflow_switch;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        value->userCustomTag = stream->user_tag;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
        value->streamPriority = stream->priority;
        return ACL_SUCCESS;
    default:
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtGetStreamAttribute: attribute %d is not simulated",
                         (int)stmAttrType);
    }
}

/* --- facts about the interface --- */

ACL_EXPORT aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    ACL_ENTER(aclrtGetVersion);
    ACL_NEED(majorVersion);
    ACL_NEED(minorVersion);
    ACL_NEED(patchVersion);
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}

static const aclCannAttr attributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};

ACL_EXPORT aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num)
{
    ACL_ENTER(aclGetCannAttributeList);
    ACL_NEED(cannAttrList);
    ACL_NEED(num);
    *cannAttrList = attributes;
    *num = sizeof(attributes) / sizeof(attributes[0]);
    return ACL_SUCCESS;
}

/* Stores 1 if the device has the capability, else 0. */
ACL_EXPORT aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value)
{
    ACL_ENTER(aclGetCannAttribute);
    ACL_NEED(value);
    ACL_REFUSE_IF((int)cannAttr < ACL_CANN_ATTR_INF_NAN || cannAttr > ACL_CANN_ATTR_JIT_COMPILE,
                  ACL_ERROR_INVALID_PARAM, "there is no attribute %d", (int)cannAttr);
    *value = cannAttr != ACL_CANN_ATTR_JIT_COMPILE;
    return ACL_SUCCESS;
}

/* Accepts a program's log line and does not keep it: the runtime prints only its own report. */
ACL_EXPORT void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
    if (acl__enter(ACL_FN_aclAppLog) != ACL_SUCCESS) {
        return;
    }
    (void)logLevel;
    (void)func;
    (void)file;
    (void)line;
    (void)fmt;
}
