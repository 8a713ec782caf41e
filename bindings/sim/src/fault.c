/* fault.c: injected failures.
 *
 * Each armed fault counts the calls of its kind by itself and affects the n-th call, once or repeatedly, so a program
 * that makes the same calls meets the same failures. Cost: one comparison per device call while none is armed.
 */
#include "sim_internal.h"

#include <stdlib.h>

static bool takes_memory(weir_device_call call)
{
    return call == WEIR_CALL_REGION_ALLOC || call == WEIR_CALL_VM_RESERVE || call == WEIR_CALL_VM_CREATE ||
           call == WEIR_CALL_VM_MAP;
}

weir_status weir__sim_fault_strike(weir__sim_faults *faults, weir_device_call call, uint64_t *extra_ns)
{
    WEIR_ASSERT(call < WEIR_CALL_COUNT);
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < faults->count; i++) {
        weir__sim_armed *armed = &faults->armed[i];
        const weir_sim_fault *fault = &armed->fault;
        if (fault->nth == 0 || (fault->call != call && fault->call != WEIR_CALL_ANY)) {
            continue;
        }
        armed->seen++;
        bool strikes = fault->repeat ? armed->seen % fault->nth == 0 : armed->seen == fault->nth;
        if (!strikes) {
            continue;
        }
        *extra_ns = weir__sim_plus(*extra_ns, fault->extra_ns);
        if (!fault->slow && status == WEIR_OK) {
            status = fault->status != WEIR_OK ? fault->status
                     : takes_memory(call)     ? WEIR_ERR_NO_MEMORY
                                              : WEIR_ERR_DEVICE;
        }
    }
    return status;
}

weir_status weir_sim_fault_arm(weir_sim *sim, const weir_sim_fault *fault)
{
    weir__sim_armed armed = {.seen = 0};
    if (sim == NULL) {
        return weir__sim_null("weir_sim_fault_arm", "sim");
    }
    const weir_status status = weir_struct_adopt(&armed.fault, sizeof(armed.fault), fault, "weir_sim_fault_arm: fault");
    if (status != WEIR_OK) {
        return status;
    }
    if ((unsigned)armed.fault.call > WEIR_CALL_ANY) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_sim_fault_arm: fault.call is %d, and no weir_device_call",
                           (int)armed.fault.call);
    }
    weir__sim_lock(sim);
    weir__sim_faults *faults = &sim->faults;
    if (faults->count == faults->capacity) {
        size_t capacity = faults->capacity == 0 ? 4 : faults->capacity * 2;
        weir__sim_armed *grown = realloc(faults->armed, capacity * sizeof(*grown));
        if (grown == NULL) {
            weir__sim_unlock(sim);
            return WEIR_ERR_NO_MEMORY;
        }
        faults->armed = grown;
        faults->capacity = capacity;
    }
    WEIR_ASSERT(faults->count < faults->capacity);
    faults->armed[faults->count++] = armed;
    weir__sim_unlock(sim);
    return WEIR_OK;
}

void weir_sim_fault_clear(weir_sim *sim)
{
    weir__sim_lock(sim);
    sim->faults.count = 0;
    weir__sim_unlock(sim);
}
