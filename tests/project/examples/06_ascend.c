#include <acl/acl.h>
#include <acl/acl_op_compiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/acl.h>
#include <weir/caching.h>

static void check(int code)
{
    const char *why;
    if (code == 0) return;
    if (weir_acl_error(NULL, &why) == WEIR_OK) fprintf(stderr, "06_ascend: %d %s\n", code, why);
    exit(1);
}

int main(void)
{
    aclrtStream stream;
    check(aclInit(NULL));
    check(aclrtSetDevice(0));
    check(aclrtCreateStream(&stream));

    weir_device *device;
    weir_pool *pool;
    weir_acl_attachment *attachment;
    check(weir_acl_device_create(NULL, &device)); /* NULL: ACL's device 0 */
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_acl_attach(pool, stream, &attachment)); /* from now on operators on the stream allocate from the pool */

    int64_t shape[] = {1 << 20};
    size_t size = sizeof(float) << 20;
    void *memory;
    check(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
    aclTensorDesc *x = aclCreateTensorDesc(ACL_FLOAT, 1, shape, ACL_FORMAT_ND);
    aclDataBuffer *data = aclCreateDataBuffer(memory, size);
    aclopAttr *attr = aclopCreateAttr();
    for (int i = 0; i < 100; i++)
        check(aclopCompileAndExecuteV2("Add", 2, (aclTensorDesc *[]){x, x}, (aclDataBuffer *[]){data, data}, 1, &x,
                                       &data, attr, ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL, stream));
    check(aclrtSynchronizeStream(stream));
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    check(weir_pool_get_stats(pool, &stats));
    printf("%d blocks for operators out of %d MiB\n", (int)stats.allocs, (int)(stats.peak_reserved_bytes >> 20));

    aclopDestroyAttr(attr);
    aclDestroyTensorDesc(x);
    check(aclDestroyDataBuffer(data));
    check(aclrtFree(memory));
    check(weir_acl_detach(attachment));
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    check(aclrtDestroyStream(stream));
    check(aclrtResetDevice(0));
    return aclFinalize();
}
