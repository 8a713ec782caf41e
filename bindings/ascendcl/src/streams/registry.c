/* registry.c: allocators registered for streams.
 *
 * The object behind an aclrtAllocatorDesc begins with five words: object, alloc, free, advise, address. Registering
 * copies them. Any stream value but NULL is a key, and no callback is called or checked. A registration outlives its
 * stream, as the vendor's does. The table has a lock of its own, the innermost of all.
 */
#include "streams/streams.h"

#include <stdlib.h>

struct registration {
    struct registration *next;
    aclrtStream stream;
    aclrtAllocatorDesc desc; /* description that was registered; the program may have destroyed it since */
    acl__allocator allocator;
};

enum { BUCKETS = 256 };

static struct registration *buckets[BUCKETS];

/* Returns the pointer to the stream's registration in its hash chain, or the NULL pointer that ends the chain. */
static struct registration **link_of(aclrtStream stream)
{
    WEIR_ASSERT_HELD(&acl__registry_lock);
    struct registration **link = &buckets[((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    while (*link != NULL && (*link)->stream != stream) {
        link = &(*link)->next;
    }
    return link;
}

/* --- descriptions --- */

ACL_EXPORT aclrtAllocatorDesc aclrtAllocatorCreateDesc(void)
{
    ACL_ENTER_OR(aclrtAllocatorCreateDesc, NULL);
    return calloc(1, sizeof(acl__allocator));
}

ACL_EXPORT aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc)
{
    ACL_ENTER(aclrtAllocatorDestroyDesc);
    ACL_NEED(allocatorDesc);
    free(allocatorDesc);
    return ACL_SUCCESS;
}

/* Defines the public function that sets one member of an allocator description. */
#define DESC_SETTER(name, type, word)                                                                                  \
    ACL_EXPORT aclError name(aclrtAllocatorDesc allocatorDesc, type word)                                              \
    {                                                                                                                  \
        ACL_ENTER(name);                                                                                               \
        ACL_NEED(allocatorDesc);                                                                                       \
        ACL_NEED(word);                                                                                                \
        ((acl__allocator *)allocatorDesc)->word = word;                                                                \
        return ACL_SUCCESS;                                                                                            \
    }
DESC_SETTER(aclrtAllocatorSetObjToDesc, aclrtAllocator, object)
DESC_SETTER(aclrtAllocatorSetAllocFuncToDesc, aclrtAllocatorAllocFunc, alloc)
DESC_SETTER(aclrtAllocatorSetFreeFuncToDesc, aclrtAllocatorFreeFunc, free)
DESC_SETTER(aclrtAllocatorSetAllocAdviseFuncToDesc, aclrtAllocatorAllocAdviseFunc, advise)
DESC_SETTER(aclrtAllocatorSetGetAddrFromBlockFuncToDesc, aclrtAllocatorGetAddrFromBlockFunc, address)

/* --- registrations --- */

/* Stores a registration. The table's lock is held. */
static aclError put(aclrtStream stream, aclrtAllocatorDesc desc)
{
    WEIR_ASSERT(stream != NULL && desc != NULL);
    struct registration **link = link_of(stream);
    if (*link == NULL) {
        *link = calloc(1, sizeof(**link));
        ACL_FAIL_IF(*link == NULL, ACL_ERROR_BAD_ALLOC, "aclrtAllocatorRegister: no host memory");
        (*link)->stream = stream;
    }
    (*link)->desc = desc;
    (*link)->allocator = *(const acl__allocator *)desc;
    return ACL_SUCCESS;
}

aclError acl__registry_put(aclrtStream stream, aclrtAllocatorDesc desc)
{
    (void)pthread_mutex_lock(&acl__registry_lock);
    const aclError error = put(stream, desc);
    (void)pthread_mutex_unlock(&acl__registry_lock);
    return error;
}

void acl__registry_remove(aclrtStream stream)
{
    (void)pthread_mutex_lock(&acl__registry_lock);
    struct registration **link = link_of(stream);
    struct registration *gone = *link;
    if (gone != NULL) {
        *link = gone->next;
    }
    (void)pthread_mutex_unlock(&acl__registry_lock);
    free(gone);
}

static bool find(aclrtStream stream, acl__allocator *allocator, aclrtAllocatorDesc *desc)
{
    (void)pthread_mutex_lock(&acl__registry_lock);
    const struct registration *found = *link_of(stream);
    if (found != NULL) {
        *allocator = found->allocator;
        *desc = found->desc;
    }
    (void)pthread_mutex_unlock(&acl__registry_lock);
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
    ACL_NEED(stream);
    ACL_NEED(allocatorDesc);
    ACL_REFUSE_IF(!find(stream, &a, &desc), ACL_ERROR_INVALID_PARAM, "no allocator is registered for %p", stream);
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
