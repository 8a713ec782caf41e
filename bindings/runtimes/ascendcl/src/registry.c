/* registry.c: allocators registered for streams.
 *
 * The object behind an aclrtAllocatorDesc begins with five words: object, alloc, free, advise, address. Registering
 * copies them. Any stream value but NULL is a key, and no callback is called or checked. A registration outlives its
 * stream, as the vendor's does. The table has a lock of its own, the innermost of all.
 */
#include "consumer.h"

#include <stdlib.h>

struct registration {
    struct registration *next;
    aclrtStream stream;
    aclrtAllocatorDesc desc; /* description that was registered; the program may have destroyed it since */
    acl__allocator allocator;
};

enum { BUCKETS = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registration *buckets[BUCKETS];

/* Returns the pointer to the stream's registration in its hash chain, or the NULL pointer that ends the chain. */
static struct registration **link_of(aclrtStream stream)
{
    struct registration **link = &buckets[((uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
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

static aclError put(aclrtStream stream, aclrtAllocatorDesc desc)
{
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

ACL_EXPORT aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc allocatorDesc)
{
    ACL_ENTER(aclrtAllocatorRegister);
    ACL_NEED(stream);
    ACL_NEED(allocatorDesc);
    const acl__allocator *a = allocatorDesc;
    ACL_REFUSE_IF(a->object == NULL || a->alloc == NULL || a->free == NULL || a->address == NULL,
                  ACL_ERROR_INVALID_PARAM, "the description lacks its object, alloc, free or address function");
    acl__consumer_registration_ends(stream, a);
    (void)pthread_mutex_lock(&lock);
    const aclError error = put(stream, allocatorDesc);
    (void)pthread_mutex_unlock(&lock);
    return error;
}

ACL_EXPORT aclError aclrtAllocatorUnregister(aclrtStream stream)
{
    ACL_ENTER(aclrtAllocatorUnregister);
    ACL_NEED(stream);
    acl__consumer_registration_ends(stream, NULL);
    (void)pthread_mutex_lock(&lock);
    struct registration **link = link_of(stream);
    struct registration *gone = *link;
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
    const struct registration *found = *link_of(stream);
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
