/* A block whose memory another process maps, on Ascend: the program pins it, exports its handles, and unpins it when
 * the other process is done. */
#include <acl/acl.h>
#include <weir/acl.h>
#include <weir/caching.h>
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

#define MIB (1024 * 1024)

static void check(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: %s\n", weir_status_text(status), weir_last_error());
        exit(1);
    }
}

static void acl(aclError error)
{
    if (error != ACL_SUCCESS) {
        fprintf(stderr, "ACL error %d\n", (int)error);
        exit(1);
    }
}

/* Exports every handle under the block. A handle goes to the other process as a whole, so that process maps the handles
 * one behind the other and finds the block at the offset. Returns the number of handles. */
static int export_block(weir_pool *pool, const weir_block *block, uint64_t *offset)
{
    const uint64_t first = weir_block_address(block);
    const uint64_t end = first + weir_block_size(block);
    weir_memory_info memory = WEIR_MEMORY_INFO_INIT;
    int count = 0;
    check(weir_pool_find_memory(pool, first, &memory));
    *offset = first - memory.address;
    for (uint64_t at = first; at < end; at = memory.address + memory.size, count++) {
        uint64_t key = 0;
        check(weir_pool_find_memory(pool, at, &memory));
        acl(aclrtMemExportToShareableHandle((aclrtDrvMemHandle)(uintptr_t)memory.handle, ACL_MEM_HANDLE_TYPE_NONE,
                                            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &key));
        /* send `key` and memory.size to the other process */
    }
    return count;
}

int main(void)
{
    weir_device *device = NULL;
    weir_pool *pool = NULL;
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    aclrtStream native = NULL;
    acl(aclInit(NULL));
    acl(aclrtSetDevice(0));
    acl(aclrtCreateStream(&native));
    check(weir_acl_device_create(NULL, &device));

    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_acl_stream(pool, native, &stream));

    uint64_t offset = 0;
    check(weir_pool_alloc(pool, stream, 5 * MIB, 0, &block));
    const uint64_t address = weir_block_address(block);
    check(weir_pool_pin(pool, address, 5 * MIB));
    const int handles = export_block(pool, block, &offset);
    printf("%d handles, the block at offset %llu\n", handles, (unsigned long long)offset);

    uint64_t released = 0;
    check(weir_pool_free(pool, block, stream)); /* the memory serves other requests, and stays where it is */
    check(weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, &released));
    printf("pinned: %llu MiB went back\n", (unsigned long long)released / MIB);

    check(weir_pool_unpin(pool, address, 5 * MIB)); /* the other process has said that it has unmapped its copy */
    check(weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, &released));
    printf("unpinned: %llu MiB went back\n", (unsigned long long)released / MIB);

    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    acl(aclrtDestroyStream(native));
    acl(aclrtResetDevice(0));
    return aclFinalize();
}
