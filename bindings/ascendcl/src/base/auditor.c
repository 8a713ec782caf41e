/* auditor.c: the auditor's questions about devices. Peer access and the access that a mapping was opened to decide if
 * work of one device may touch the memory of another.
 */
#include "base/runtime.h"

#include <stdio.h>

static acl__worker worker;

acl__worker acl__work_by(acl__worker now)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(now.device >= 0 && (uint32_t)now.device < acl__rt.config.devices);
    const acl__worker before = worker;
    worker = now;
    return before;
}

bool acl__reaches(void *unused, const weir_sim_access *access, char *detail, size_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(access->size > 0);
    (void)unused;
    const acl__range *range = acl__range_at(&acl__rt.device_memory, (const void *)(uintptr_t)access->address);
    if (range == NULL || range->device == worker.device || range->is_host_side) {
        return true;
    }
    const int32_t owner = range->device;
    if (acl__rt.peers[worker.device][owner] || (worker.copies && acl__rt.peers[owner][worker.device]) ||
        (range->open_to & 1u << worker.device) != 0) {
        return true;
    }
    (void)snprintf(detail, size, "the work is device %d's, the memory device %d's, and there is no peer access",
                   worker.device, owner);
    return false;
}
