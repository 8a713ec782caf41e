/* memory.h: the memory of devices and of the host. */
#ifndef WEIR_ASCENDCL_MEMORY_H
#define WEIR_ASCENDCL_MEMORY_H

#include "streams/streams.h"

/* --- store.c: the memory of the devices --- */

/* Counts bytes against a device's capacity. Returns false if they do not fit. */
bool acl__capacity_take(int32_t device, uint64_t bytes, bool huge);
void acl__capacity_give(int32_t device, uint64_t bytes, bool huge);
/* Counts bytes no more that the device's limit counts for all holders of exported memory. */
void acl__capacity_leave(int32_t device, uint64_t bytes, bool huge);
/* Returns the bytes of a device that nothing holds, of all processes that share it. */
uint64_t acl__capacity_free(const acl__device *device);
/* Counts the runtime's own memory of a device, and counts it no more. Returns false if the device has no room. */
bool acl__runtime_memory_take(acl__device *device);
void acl__runtime_memory_give(acl__device *device);

/* The kinds of pages of aclrtMalloc. */
typedef enum acl__kind { ACL__HUGE, ACL__NORMAL, ACL__HUGE_P2P, ACL__NORMAL_P2P, ACL__KINDS } acl__kind;
static inline bool acl__kind_is_huge(acl__kind kind)
{
    return kind == ACL__HUGE || kind == ACL__HUGE_P2P;
}

/* aclrtMalloc without its padding, for the runtime's own use. */
aclError acl__malloc(int32_t device, uint64_t size, aclrtMemMallocPolicy policy, void **pointer);
/* Frees memory of acl__malloc. Returns ACL_ERROR_RT_PARAM_INVALID for any other address. */
aclError acl__free(void *pointer);
/* Exports allocated memory to other processes. Its number names device and memory in all of them. */
aclError acl__memory_export(acl__range *range, uint64_t *shareable);
/* Frees all memory that a device still holds, and counts it in the report. */
void acl__memory_reset(int32_t device);
/* Returns the memory that the driver keeps to the device. */
void acl__memory_return(int32_t device);

/* --- host.c: pinned and registered host memory --- */

/* True if a range is pinned or registered host memory. An asynchronous copy may touch such memory after its call. */
bool acl__is_pinned(const void *pointer, uint64_t size);
/* Reports a copy from or to host memory that the device does not have yet: it is queued (1) or no longer queued (-1).
 * Host memory that is freed or unregistered meanwhile is a finding. */
void acl__host_copy_queued(const void *pointer, int32_t change);
/* Returns the serial of the pinned or registered memory at an address; 0: there is none. */
uint64_t acl__host_serial(const void *pointer);
/* Counts bytes against the host's limit. Returns false if they do not fit. */
bool acl__host_take(uint64_t bytes);
void acl__host_give(uint64_t bytes);
/* Frees memory of aclrtMallocHost. */
aclError acl__host_free(void *pointer);

/* --- virtual.c, mem_pool.c --- */

bool acl__virtual_is_reserved(const void *pointer);
/* Exports the physical memory of a mapping to other processes. */
aclError acl__virtual_export(const acl__range *mapping, uint64_t *shareable);
/* Imports memory of another process, and maps it; undoes both. */
aclError acl__virtual_open(uint64_t shareable, const char *name, uint64_t *address);
aclError acl__virtual_close(uint64_t address);
/* Allows processes to import exported memory; count 0: all. */
aclError acl__admit(uint64_t shareable, const int32_t *processes, size_t count, const char *name);
void acl__virtual_reset(int32_t device);
/* Frees a pool's block by its address, for aclrtFree. Returns false if the address is in no pool. */
bool acl__mem_pool_free_now(void *pointer, aclError *error);
/* Finds the allocated block of a memory pool that contains an address. Returns false if there is none. */
bool acl__mem_pool_block_at(const void *pointer, uint64_t *start, uint64_t *size);
void acl__mem_pool_reset(int32_t device);

#endif
