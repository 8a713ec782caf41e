/* The smallest use of weir::acl: against CANN, or against the simulated runtime that is installed beside it. */
#include <acl/acl.h>
#include <stdio.h>
#include <weir/acl.h>
#include <weir/caching.h>

int main(void)
{
    weir_device *device;
    weir_pool *pool;
    weir_acl_attachment *attachment;
    aclrtStream stream;
    if (aclrtSetDevice(0) != ACL_SUCCESS || aclrtCreateStream(&stream) != ACL_SUCCESS) return 1;
    if (weir_acl_device_create(NULL, &device) != WEIR_OK) return 2;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    if (weir_pool_create(&config, &pool) != WEIR_OK) return 3;
    if (weir_acl_attach(pool, stream, &attachment) != WEIR_OK) return 4;
    if (weir_acl_detach(attachment) != WEIR_OK) return 5;
    if (weir_pool_destroy(pool) != WEIR_OK) return 6;
    if (weir_device_destroy(device) != WEIR_OK) return 7;
    printf("weir %s\n", weir_version());
    return aclrtDestroyStream(stream) != ACL_SUCCESS || aclrtResetDevice(0) != ACL_SUCCESS;
}
