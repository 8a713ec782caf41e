/* registry.c: allocators registered for streams.
 *
 * The object behind an aclrtAllocatorDesc begins with five words: object, alloc, free, advise, address. Registering
 * copies them. Any stream value but NULL is a key, and no callback is called or checked. A registration outlives its
 * stream, as the vendor's does. The table has a lock of its own, the innermost of all.
 */
#include "consumer.h"

#include <stdlib.h>

typedef struct registration {
    struct registration *next;
    aclrtStream stream;
    aclrtAllocatorDesc desc; /* as the caller gave it; may be freed by now */
    acl__allocator allocator;
} registration;

enum { BUCKETS = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static registration *buckets[BUCKETS];

/* Returns the link to the stream's registration, or the link at which it would be added. */
static registration **link_of(aclrtStream stream)
{
    registration **link = &buckets[((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    while (*link != NULL && (*link)->stream != stream) {
        link = &(*link)->next;
    }
    return link;
}

void acl__registry_fork_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void acl__registry_fork_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

/* --- descriptions --- */

ACL_EXPORT aclrtAllocatorDesc aclrtAllocatorCreateDesc(void)
{
    ACL_ENTER_OR(aclrtAllocatorCreateDesc, NULL);
    return calloc(1, sizeof(acl__allocator));
}

static aclError null_argument(const char *name)
{
    return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: an argument is NULL", name);
}

ACL_EXPORT aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc)
{
    ACL_ENTER(aclrtAllocatorDestroyDesc);
    if (allocatorDesc == NULL) {
        return null_argument("aclrtAllocatorDestroyDesc");
    }
    free(allocatorDesc);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator)
{
    ACL_ENTER(aclrtAllocatorSetObjToDesc);
    if (allocatorDesc == NULL || allocator == NULL) {
        return null_argument("aclrtAllocatorSetObjToDesc");
    }
    ((acl__allocator *)allocatorDesc)->object = allocator;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func)
{
    ACL_ENTER(aclrtAllocatorSetAllocFuncToDesc);
    if (allocatorDesc == NULL || func == NULL) {
        return null_argument("aclrtAllocatorSetAllocFuncToDesc");
    }
    ((acl__allocator *)allocatorDesc)->alloc = func;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func)
{
    ACL_ENTER(aclrtAllocatorSetFreeFuncToDesc);
    if (allocatorDesc == NULL || func == NULL) {
        return null_argument("aclrtAllocatorSetFreeFuncToDesc");
    }
    ((acl__allocator *)allocatorDesc)->free = func;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                           aclrtAllocatorAllocAdviseFunc func)
{
    ACL_ENTER(aclrtAllocatorSetAllocAdviseFuncToDesc);
    if (allocatorDesc == NULL || func == NULL) {
        return null_argument("aclrtAllocatorSetAllocAdviseFuncToDesc");
    }
    ((acl__allocator *)allocatorDesc)->advise = func;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                                aclrtAllocatorGetAddrFromBlockFunc func)
{
    ACL_ENTER(aclrtAllocatorSetGetAddrFromBlockFuncToDesc);
    if (allocatorDesc == NULL || func == NULL) {
        return null_argument("aclrtAllocatorSetGetAddrFromBlockFuncToDesc");
    }
    ((acl__allocator *)allocatorDesc)->address = func;
    return ACL_SUCCESS;
}

/* --- registrations --- */

static aclError put(aclrtStream stream, aclrtAllocatorDesc desc)
{
    registration **link = link_of(stream);
    if (*link == NULL) {
        *link = calloc(1, sizeof(**link));
        if (*link == NULL) {
            return acl__fail(ACL_ERROR_BAD_ALLOC, "aclrtAllocatorRegister: no host memory");
        }
        (*link)->stream = stream;
    }
    (*link)->desc = desc;
    (*link)->allocator = *(const acl__allocator *)desc;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc)
{
    ACL_ENTER(aclrtAllocatorRegister);
    if (stream == NULL || allocatorDesc == NULL) {
        return null_argument("aclrtAllocatorRegister");
    }
    const acl__allocator *a = allocatorDesc;
    if (a->object == NULL || a->alloc == NULL || a->free == NULL || a->address == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM,
                         "aclrtAllocatorRegister: the description lacks its object, alloc, free or address function");
    }
    acl__consumer_registration_ends(stream, a);
    (void)pthread_mutex_lock(&lock);
    const aclError error = put(stream, allocatorDesc);
    (void)pthread_mutex_unlock(&lock);
    return error;
}

ACL_EXPORT aclError aclrtAllocatorUnregister(aclrtStream stream)
{
    ACL_ENTER(aclrtAllocatorUnregister);
    if (stream == NULL) {
        return null_argument("aclrtAllocatorUnregister");
    }
    acl__consumer_registration_ends(stream, NULL);
    (void)pthread_mutex_lock(&lock);
    registration **link = link_of(stream);
    registration *gone = *link;
    if (gone != NULL) {
        *link = gone->next;
    }
    (void)pthread_mutex_unlock(&lock);
    free(gone);
    return ACL_SUCCESS;
}

static bool find(aclrtStream stream, acl__allocator *allocator, aclrtAllocatorDesc *desc)
{
    (void)pthread_mutex_lock(&lock);
    const registration *found = *link_of(stream);
    if (found != NULL) {
        *allocator = found->allocator;
        *desc = found->desc;
    }
    (void)pthread_mutex_unlock(&lock);
    return found != NULL;
}

bool acl__allocator_of(aclrtStream stream, acl__allocator *allocator)
{
    aclrtAllocatorDesc desc = NULL;
    return find(stream, allocator, &desc);
}

bool acl__allocator_is_registered(aclrtStream stream)
{
    acl__allocator unused;
    return acl__allocator_of(stream, &unused);
}

ACL_EXPORT aclError aclrtAllocatorGetByStream(aclrtStream stream, aclrtAllocatorDesc *allocatorDesc,
                                              aclrtAllocator *allocator, aclrtAllocatorAllocFunc *allocFunc,
                                              aclrtAllocatorFreeFunc *freeFunc,
                                              aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
                                              aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc)
{
    ACL_ENTER(aclrtAllocatorGetByStream);
    acl__allocator a;
    aclrtAllocatorDesc desc = NULL;
    if (stream == NULL || allocatorDesc == NULL) {
        return null_argument("aclrtAllocatorGetByStream");
    }
    if (!find(stream, &a, &desc)) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtAllocatorGetByStream: no allocator is registered for %p",
                         stream);
    }
    *allocatorDesc = desc;
    if (allocator != NULL) {
        *allocator = a.object;
    }
    if (allocFunc != NULL) {
        *allocFunc = a.alloc;
    }
    if (freeFunc != NULL) {
        *freeFunc = a.free;
    }
    if (allocAdviseFunc != NULL) {
        *allocAdviseFunc = a.advise;
    }
    if (getAddrFromBlockFunc != NULL) {
        *getAddrFromBlockFunc = a.address;
    }
    return ACL_SUCCESS;
}
