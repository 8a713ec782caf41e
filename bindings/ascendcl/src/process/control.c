/* control.c: the functions of weir/ascendcl.h. */
#include <weir/ascendcl.h>

#include "base/config.h"
#include "base/report.h"
#include "executors/consumer.h"
#include "process/process.h"

#include <stdlib.h>
#include <string.h>

/* --- kernels --- */

enum { FEW_RANGES = 16 };

/* Converts the kernel's ranges of device memory for the auditor, and returns their number. The auditor does not judge
 * pinned host memory, which a kernel may touch too; *writes_host: it writes some. */
static size_t accesses_of(const weir_ascendcl_kernel *kernel, weir_sim_access *accesses, bool *writes_host)
{
    WEIR_ASSERT_HELD(acl__mutex());
    size_t count = 0;
    for (size_t i = 0; i < kernel->range_count; i++) {
        const weir_ascendcl_range *range = &kernel->ranges[i];
        if (!acl__is_pinned(range->address, range->size)) {
            accesses[count++] = (weir_sim_access){
                .address = (uint64_t)(uintptr_t)range->address, .size = range->size, .write = range->write};
        } else {
            *writes_host = *writes_host || range->write;
        }
    }
    return count;
}

static aclError launch_locked(aclrtStream handle, const weir_ascendcl_kernel *kernel, weir_sim_access *accesses)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__stream *stream = NULL;
    const aclError error = acl__stream_of(handle, &stream);
    if (error != ACL_SUCCESS) {
        if (kernel->end != NULL) {
            kernel->end(kernel->ctx);
        }
        return error;
    }
    bool writes_host = false;
    const size_t count = accesses_of(kernel, accesses, &writes_host);
    const acl__kernel queued = {.tag = kernel->tag,
                                .duration_ns = kernel->duration_ns,
                                .accesses = accesses,
                                .access_count = count,
                                .writes_host = writes_host,
                                .compute = kernel->compute,
                                .end = kernel->end,
                                .ctx = kernel->ctx};
    return acl__launch(stream, &queued);
}

/* Refuses a kernel and calls its `end`. */
static aclError refuse(const weir_ascendcl_kernel *kernel, aclError code, const char *why)
{
    if (kernel->end != NULL) {
        kernel->end(kernel->ctx);
    }
    return acl__fail(code, "weir_ascendcl_launch: %s", why);
}

aclError acl__launch_described(aclrtStream stream, const weir_ascendcl_kernel *kernel)
{
    weir_ascendcl_kernel adopted;
    ACL_FAIL_IF(kernel == NULL ||
                    weir_struct_adopt(&adopted, sizeof(adopted), kernel, "weir_ascendcl_launch: kernel") != WEIR_OK,
                ACL_ERROR_INVALID_PARAM, "weir_ascendcl_launch: no kernel, or one of a newer header");
    if (adopted.range_count > 0 && adopted.ranges == NULL) {
        return refuse(&adopted, ACL_ERROR_INVALID_PARAM, "ranges is NULL");
    }
    weir_sim_access few[FEW_RANGES];
    weir_sim_access *many = NULL;
    if (adopted.range_count > FEW_RANGES) {
        many = calloc(adopted.range_count, sizeof(*many));
        if (many == NULL) {
            return refuse(&adopted, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
        }
    }
    weir_sim_access *accesses = many != NULL ? many : few;
    acl__lock();
    const aclError error = launch_locked(stream, &adopted, accesses);
    acl__unlock();
    free(many);
    return error;
}

ACL_EXPORT aclError weir_ascendcl_launch(aclrtStream stream, const weir_ascendcl_kernel *kernel)
{
    ACL_TRY(acl__start());
    return acl__launch_described(stream, kernel);
}

/* --- virtual time --- */

ACL_EXPORT uint64_t weir_ascendcl_now(void)
{
    return acl__start() == ACL_SUCCESS ? weir_sim_now(acl__rt.sim) : 0;
}

/* Advances time in steps, from one end of work to the next. So a held task that waits for some work begins when this
 * work ends, not at the target time. */
ACL_EXPORT void weir_ascendcl_advance(uint64_t ns)
{
    if (acl__start() != ACL_SUCCESS) {
        return;
    }
    acl__lock();
    uint64_t now = weir_sim_now(acl__rt.sim);
    const uint64_t target = ns <= UINT64_MAX - now ? now + ns : UINT64_MAX;
    while (now < target) {
        const uint64_t next = acl__next_end(now);
        weir_sim_advance_to(acl__rt.sim, next < target ? next : target);
        acl__changed();
        now = weir_sim_now(acl__rt.sim);
    }
    acl__unlock();
}

/* --- the auditor --- */

static aclError announce(const void *address, size_t size, aclrtStream handle, const char *tag, bool is_alloc)
{
    ACL_TRY(acl__start());
    ACL_HOLD_LOCK();
    ACL_NEED_STREAM(stream, handle);
    if (is_alloc) {
        acl__announce_alloc(address, size, stream, tag);
    } else {
        acl__announce_free(address, stream, tag);
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError weir_ascendcl_block_alloc(const void *address, size_t size, aclrtStream stream, const char *tag)
{
    return address != NULL && size > 0
               ? announce(address, size, stream, tag, true)
               : acl__fail(ACL_ERROR_INVALID_PARAM, "weir_ascendcl_block_alloc: no address, or a size of 0");
}

ACL_EXPORT aclError weir_ascendcl_block_free(const void *address, aclrtStream stream, const char *tag)
{
    return announce(address, 0, stream, tag, false);
}

/* The runtime's own findings come first: host memory that is given back, and work that the simulator does not have. */
ACL_EXPORT uint64_t weir_ascendcl_finding_count(const char *kind)
{
    if (acl__start() != ACL_SUCCESS) {
        return 0;
    }
    ACL_HOLD_LOCK();
    if (kind == NULL) {
        return weir_sim_finding_count(acl__rt.sim, WEIR_SIM_FINDING_KINDS) + acl__report_host_findings();
    }
    const uint64_t own =
        strcmp(kind, weir_sim_finding_name(WEIR_SIM_HOST_MEMORY)) == 0 ? acl__report_host_findings() : 0;
    int i = 0;
    while (i < WEIR_SIM_FINDING_KINDS && strcmp(weir_sim_finding_name((weir_sim_finding_kind)i), kind) != 0) {
        i++;
    }
    return i < WEIR_SIM_FINDING_KINDS ? own + weir_sim_finding_count(acl__rt.sim, (weir_sim_finding_kind)i) : 0;
}

ACL_EXPORT bool weir_ascendcl_finding(size_t index, char *text, size_t size)
{
    weir_sim_finding finding = {0};
    bool found = false;
    if (acl__start() == ACL_SUCCESS) {
        ACL_HOLD_LOCK();
        const size_t own = acl__report_host_texts();
        found = index < own || weir_sim_finding_at(acl__rt.sim, index - own, &finding);
        if (index < own) {
            (void)snprintf(finding.text, sizeof(finding.text), "%s", acl__report_host_text(index));
        }
    }
    if (text != NULL && size > 0) {
        (void)snprintf(text, size, "%s", found ? finding.text : "");
    }
    return found;
}

ACL_EXPORT uint64_t weir_ascendcl_warning_count(const char *part)
{
    if (acl__start() != ACL_SUCCESS) {
        return 0;
    }
    ACL_HOLD_LOCK();
    return acl__report_warnings(part);
}

ACL_EXPORT const char *weir_ascendcl_finding_kind(size_t index)
{
    if (acl__start() != ACL_SUCCESS) {
        return "";
    }
    ACL_HOLD_LOCK();
    weir_sim_finding finding;
    const size_t own = acl__report_host_texts();
    if (index < own) {
        return weir_sim_finding_name(WEIR_SIM_HOST_MEMORY);
    }
    return weir_sim_finding_at(acl__rt.sim, index - own, &finding) ? weir_sim_finding_name(finding.kind) : "";
}

/* --- faults --- */

ACL_EXPORT uint64_t weir_ascendcl_fail(const char *function, uint64_t nth, uint64_t count)
{
    if (acl__start() != ACL_SUCCESS) {
        return 0;
    }
    ACL_HOLD_LOCK();
    return acl__faults_set(function, nth, count);
}

/* --- figures --- */

ACL_EXPORT uint64_t weir_ascendcl_memory_calls(void)
{
    static const weir_device_call counted[] = {WEIR_CALL_REGION_ALLOC, WEIR_CALL_REGION_FREE, WEIR_CALL_VM_RESERVE,
                                               WEIR_CALL_VM_RELEASE,   WEIR_CALL_VM_CREATE,   WEIR_CALL_VM_DESTROY,
                                               WEIR_CALL_VM_MAP,       WEIR_CALL_VM_UNMAP};
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    uint64_t calls = 0;
    if (acl__start() == ACL_SUCCESS && weir_sim_get_stats(acl__rt.sim, &stats) == WEIR_OK) {
        for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
            calls += stats.calls[counted[i]];
        }
    }
    return calls;
}

ACL_EXPORT uint64_t weir_ascendcl_calls(const char *function)
{
    if (function == NULL) {
        return acl__calls(ACL_FN_COUNT);
    }
    int i = 0;
    while (i < ACL_FN_COUNT && strcmp(acl__function_name((acl__function)i), function) != 0) {
        i++;
    }
    return i < ACL_FN_COUNT ? acl__calls((acl__function)i) : 0;
}

static uint64_t figure_of(int32_t device, bool peak)
{
    if (acl__start() != ACL_SUCCESS || device < 0 || (uint32_t)device >= acl__rt.config.devices) {
        return 0;
    }
    ACL_HOLD_LOCK();
    const acl__device *d = &acl__rt.devices[device];
    return peak ? d->peak_bytes : d->held_huge_bytes + d->held_normal_bytes;
}

ACL_EXPORT uint64_t weir_ascendcl_held_bytes(int32_t device)
{
    return figure_of(device, false);
}

ACL_EXPORT uint64_t weir_ascendcl_peak_bytes(int32_t device)
{
    return figure_of(device, true);
}

ACL_EXPORT uint64_t weir_ascendcl_tensor_peak_bytes(void)
{
    return acl__consumer_peak_bytes();
}

ACL_EXPORT void weir_ascendcl_report(FILE *file)
{
    if (file != NULL && acl__start() == ACL_SUCCESS) {
        ACL_HOLD_LOCK();
        acl__report_write(file);
    }
}
