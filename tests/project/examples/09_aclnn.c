#include <acl/acl.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/acl.h>
#include <weir/caching.h>

static void check(int code)
{
    const char *why;
    if (code == 0) return;
    if (weir_acl_error(NULL, &why) == WEIR_OK) fprintf(stderr, "09_aclnn: %d %s\n", code, why);
    exit(1);
}

/* Stands for aclnnXxxGetWorkspaceSize and aclnnXxx, so that the program needs no operators: it writes its workspace. */
static int operator_workspace_size(int step, uint64_t *size)
{
    *size = (uint64_t)(1 + step % 5) << 20;
    return 0;
}

static int operator_run(void *workspace, uint64_t size, int step, aclrtStream stream)
{
    return aclrtMemsetAsync(workspace, size, step, size, stream);
}

int main(void)
{
    weir_device *device;
    weir_pool *pool;
    weir_acl_attachment *attachment;
    aclrtStream stream[2];
    check(aclInit(NULL));
    check(aclrtSetDevice(0));
    check(weir_acl_device_create(NULL, &device));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_acl_attach_device(pool, &attachment)); /* before the first stream is created */
    check(aclrtCreateStream(&stream[0]));
    check(aclrtCreateStream(&stream[1]));

    for (int step = 0; step < 100; step++) {
        uint64_t size;
        void *workspace;
        check(operator_workspace_size(step, &size));
        check(weir_acl_workspace(pool, stream[step % 2], size, &workspace));
        check(operator_run(workspace, size, step, stream[step % 2]));
    }
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    check(weir_acl_attachment_get_info(attachment, &info));
    printf("100 operators on %d streams, %d MiB of workspaces\n", (int)info.streams - 1,
           (int)(info.workspace_bytes >> 20));

    check(aclrtDestroyStream(stream[0])); /* its workspace ends with it */
    check(aclrtDestroyStream(stream[1]));
    check(weir_acl_detach(attachment));
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    check(aclrtResetDevice(0));
    return aclFinalize();
}
