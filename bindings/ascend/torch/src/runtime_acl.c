/* bindings/ascend/torch/src/runtime_acl.c: runtime.h over Ascend's ACL.
 *
 * A follower is an attachment of weir_acl_follow: ACL tells weir when the stream is destroyed.
 */
#include "shared/runtime.h"

#include "shared/assert.h"

#include <acl/acl.h>
#include <string.h>
#include <weir/acl.h>

weir_status weir__torch_runtime_device(int device, int pages, weir_device **made)
{
    WEIR_ASSERT(device >= 0 && made != NULL);
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    config.device_id = device;
    config.pages = (weir_acl_pages)pages;
    return weir_acl_device_create(&config, made);
}

bool weir__torch_runtime_pages(const char *text, int *pages)
{
    static const struct {
        const char *name;
        weir_acl_pages pages;
    } known[] = {
        {"huge_first", WEIR_ACL_PAGES_HUGE_FIRST},
        {"huge", WEIR_ACL_PAGES_HUGE},
        {"small", WEIR_ACL_PAGES_SMALL},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, text) == 0) {
            *pages = (int)known[i].pages;
            return true;
        }
    }
    return false;
}

/* ACL reports the free memory of the current context's device only. torch_npu allocates on that device. */
bool weir__torch_runtime_free_bytes(int device, uint64_t *bytes)
{
    int32_t current = -1;
    size_t free = 0, total = 0;
    const bool is_known = aclrtGetDevice(&current) == ACL_SUCCESS && current == device &&
                          aclrtGetMemInfo(ACL_HBM_MEM, &free, &total) == ACL_SUCCESS;
    *bytes = free;
    return is_known;
}

uint64_t weir__torch_runtime_epoch(void)
{
    return weir_acl_epoch();
}

bool weir__torch_runtime_lost(const weir_device *device)
{
    return weir_acl_device_lost(device);
}

uint64_t weir__torch_runtime_block_bytes(uint64_t size)
{
    return weir_acl_block_bytes(size);
}

/* NULL is the default stream of the current context. Returns NULL if no context of the device is current. */
void *weir__torch_runtime_default_stream(int device)
{
    int32_t current = -1;
    aclrtStream stream = NULL;
    if (aclrtGetDevice(&current) != ACL_SUCCESS || current != device ||
        aclrtCtxGetCurrentDefaultStream(&stream) != ACL_SUCCESS) {
        return NULL;
    }
    return stream;
}

weir_status weir__torch_runtime_follow(weir_pool *pool, void *native, struct torch_follower **follower)
{
    WEIR_ASSERT(native != NULL);
    weir_acl_attachment *attachment = NULL;
    const weir_status status = weir_acl_follow(pool, native, &attachment);
    if (status == WEIR_OK) {
        *follower = (struct torch_follower *)attachment;
    }
    return status;
}

bool weir__torch_runtime_followed(struct torch_follower *follower, struct torch_followed *followed)
{
    WEIR_ASSERT(follower != NULL);
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    if (weir_acl_attachment_get_info((weir_acl_attachment *)follower, &info) != WEIR_OK) {
        return false;
    }
    *followed = (struct torch_followed){info.stream, info.handle_reused};
    return true;
}

weir_status weir__torch_runtime_unfollow(struct torch_follower *follower)
{
    return weir_acl_detach((weir_acl_attachment *)follower);
}
