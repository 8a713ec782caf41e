/* bindings/ascend/mstx/src/mstx_abi.h: the binary interface of mstx, declared anew: the calls between a program that
 * announces its memory and a tool.
 *
 * A tool is a shared library with InitInjectionMstx. Each announcing library calls it once, with a function that
 * returns the address of the library's table for a module; the tool writes its own functions into the slots. In a
 * table, entry i (1 .. the highest id; entry 0 is empty) points to slot i.
 */
#ifndef WEIR_MSTX_ABI_H
#define WEIR_MSTX_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef void *mstx_stream; /* the runtime's aclrtStream */
typedef uint64_t mstxRangeId;
typedef struct mstxDomainRegistration_st *mstxDomainHandle_t; /* NULL: the global domain */
typedef struct mstxMemHeap_st *mstxMemHeapHandle_t;
typedef struct mstxMemRegion_st *mstxMemRegionHandle_t;

/* --- memory --- */

typedef enum { MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR = 0 } mstxMemHeapUsageType;
typedef enum { MSTX_MEM_TYPE_VIRTUAL_ADDRESS = 0 } mstxMemType;
typedef enum { MSTX_MEM_REGION_REF_TYPE_POINTER = 0, MSTX_MEM_REGION_REF_TYPE_HANDLE = 1 } mstxMemRegionRefType;

typedef struct {
    uint32_t deviceId;
    const void *ptr;
    uint64_t size;
} mstxMemVirtualRangeDesc_t;

typedef struct {
    mstxMemHeapUsageType usage;
    mstxMemType type;
    const void *typeSpecificDesc; /* points to a mstxMemVirtualRangeDesc_t */
} mstxMemHeapDesc_t;

typedef struct {
    mstxMemHeapHandle_t heap;
    mstxMemType regionType;
    size_t regionCount;
    const void *regionDescArray; /* array of mstxMemVirtualRangeDesc_t */
    mstxMemRegionHandle_t *regionHandleArrayOut;
} mstxMemRegionsRegisterBatch_t;

typedef struct {
    mstxMemRegionRefType refType;
    union {
        const void *pointer;
        mstxMemRegionHandle_t handle;
    };
} mstxMemRegionRef_t;

typedef struct {
    size_t refCount;
    const mstxMemRegionRef_t *refArray;
} mstxMemRegionsUnregisterBatch_t;

enum {
    MSTX_MEM_PERMISSIONS_REGION_FLAGS_NONE = 0,
    MSTX_MEM_PERMISSIONS_REGION_FLAGS_READ = 1,
    MSTX_MEM_PERMISSIONS_REGION_FLAGS_WRITE = 2,
    MSTX_MEM_PERMISSIONS_REGION_FLAGS_SHARED = 4,
};

typedef struct {
    uint32_t flags;
    mstxMemRegionRef_t region;
} mstxMemPermissionsAssignRegionsDesc_t;

typedef struct {
    size_t regionCount;
    const mstxMemPermissionsAssignRegionsDesc_t *regionDescArray;
} mstxMemPermissionsAssignBatch_t;

/* --- injection --- */

enum { MSTX_SUCCESS = 0, MSTX_FAIL = 1 };

typedef enum mstxFuncModule {
    MSTX_API_MODULE_CORE = 1,
    MSTX_API_MODULE_CORE_DOMAIN = 2,
    MSTX_API_MODULE_CORE_MEM = 3,
    MSTX_API_MODULE_FORCE_INT = 0x7fffffff,
} mstxFuncModule;

/* X(slot, id, result, parameters): every function of the interface, by module. */
#define MSTX_CORE_LIST(X)                                                                                              \
    X(mark, 1, void, (const char *message, mstx_stream stream))                                                        \
    X(range_start, 2, mstxRangeId, (const char *message, mstx_stream stream))                                          \
    X(range_end, 3, void, (mstxRangeId id))                                                                            \
    X(get_tool_id, 4, void, (uint64_t * id))

#define MSTX_DOMAIN_LIST(X)                                                                                            \
    X(domain_create, 1, mstxDomainHandle_t, (const char *name))                                                        \
    X(domain_destroy, 2, void, (mstxDomainHandle_t domain))                                                            \
    X(domain_mark, 3, void, (mstxDomainHandle_t domain, const char *message, mstx_stream stream))                      \
    X(domain_range_start, 4, mstxRangeId, (mstxDomainHandle_t domain, const char *message, mstx_stream stream))        \
    X(domain_range_end, 5, void, (mstxDomainHandle_t domain, mstxRangeId id))

#define MSTX_MEM_LIST(X)                                                                                               \
    X(heap_register, 1, mstxMemHeapHandle_t, (mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc))               \
    X(heap_unregister, 2, void, (mstxDomainHandle_t domain, mstxMemHeapHandle_t heap))                                 \
    X(regions_register, 3, void, (mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc))               \
    X(regions_unregister, 4, void, (mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc))           \
    X(permissions_assign, 5, void, (mstxDomainHandle_t domain, const mstxMemPermissionsAssignBatch_t *desc))

enum { MSTX_CORE_IDS = 4, MSTX_DOMAIN_IDS = 5, MSTX_MEM_IDS = 5 };

typedef void (*mstxFuncPointer)(void);
typedef mstxFuncPointer **mstxFuncTable;
/* *size receives the number of entries, entry 0 included. */
typedef int (*mstxGetModuleFuncTableFunc)(mstxFuncModule module, mstxFuncTable *table, unsigned int *size);
typedef int (*mstxInitInjectionFunc)(mstxGetModuleFuncTableFunc get_table);

#endif
