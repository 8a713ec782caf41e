/* registry_test.c: the allocator registry against a table of expected results, over random sequences of calls: a model
 * of the registry that does not use its code predicts every code and every output. */
#include "rig/acl.h"

#include <string.h>

enum { CALLS = 200000, DESCS = 12, STREAMS = 9 };

/* The first five words of a description, in order. */
enum { OBJECT, ALLOC, FREE, ADVISE, ADDRESS, WORDS };

typedef struct model_desc {
    aclrtAllocatorDesc handle; /* NULL: destroyed, or not created yet */
    void *words[WORDS];
} model_desc;

typedef struct model_registration {
    bool there;
    aclrtAllocatorDesc desc;
    void *words[WORDS];
} model_registration;

static model_desc descs[DESCS];
static model_registration streams[STREAMS]; /* stream 0 is NULL */
static uint64_t state = 1;

static uint32_t any(uint32_t below)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z >> 33) % below);
}

static aclrtStream stream_handle(uint32_t i)
{
    return (aclrtStream)(uintptr_t)(i == 0 ? 0 : i == 1 ? 1 : i * 0x1000);
}

/* Returns NULL from time to time; the registry never calls the other values. */
static void *any_word(void)
{
    return any(6) == 0 ? NULL : (void *)(uintptr_t)(16 + any(1000));
}

typedef void (*function)(void);

static function as_function(void *word)
{
    function f = NULL;
    memcpy(&f, &word, sizeof(f));
    return f;
}

static void *as_word(function f)
{
    void *word = NULL;
    memcpy(&word, &f, sizeof(word));
    return word;
}

static void make(model_desc *d)
{
    if (d->handle == NULL) {
        d->handle = aclrtAllocatorCreateDesc();
        assert_non_null(d->handle);
        memset(d->words, 0, sizeof(d->words));
        assert_memory_equal(d->handle, d->words, sizeof(d->words)); /* every word is defined */
    }
}

static void destroy(model_desc *d)
{
    acl_expect(d->handle == NULL ? ACL_ERROR_INVALID_PARAM : ACL_SUCCESS, aclrtAllocatorDestroyDesc(d->handle));
    d->handle = NULL;
}

static aclError set_word(aclrtAllocatorDesc desc, uint32_t which, void *word)
{
    const function f = as_function(word);
    switch (which) {
    case OBJECT:
        return aclrtAllocatorSetObjToDesc(desc, word);
    case ALLOC:
        return aclrtAllocatorSetAllocFuncToDesc(desc, (aclrtAllocatorAllocFunc)f);
    case FREE:
        return aclrtAllocatorSetFreeFuncToDesc(desc, (aclrtAllocatorFreeFunc)f);
    case ADVISE:
        return aclrtAllocatorSetAllocAdviseFuncToDesc(desc, (aclrtAllocatorAllocAdviseFunc)f);
    default:
        return aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, (aclrtAllocatorGetAddrFromBlockFunc)f);
    }
}

static void set(model_desc *d)
{
    const uint32_t which = any(WORDS);
    void *word = any_word();
    const bool good = d->handle != NULL && word != NULL;
    acl_expect(good ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM, set_word(d->handle, which, word));
    if (good) {
        d->words[which] = word;
    }
}

/* Writes the description directly, as a program that knows the layout does. */
static void write_directly(model_desc *d)
{
    if (d->handle != NULL) {
        const uint32_t which = any(WORDS);
        void *word = any_word();
        d->words[which] = word;
        memcpy((char *)d->handle + which * sizeof(void *), &word, sizeof(word));
    }
}

static void register_one(uint32_t s, const model_desc *d)
{
    const bool complete = d->handle != NULL && d->words[OBJECT] != NULL && d->words[ALLOC] != NULL &&
                          d->words[FREE] != NULL && d->words[ADDRESS] != NULL;
    const bool good = s != 0 && complete;
    acl_expect(good ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM, aclrtAllocatorRegister(stream_handle(s), d->handle));
    if (good) {
        streams[s].there = true;
        streams[s].desc = d->handle;
        memcpy(streams[s].words, d->words, sizeof(d->words));
    }
}

static void unregister(uint32_t s)
{
    acl_expect(s == 0 ? ACL_ERROR_INVALID_PARAM : ACL_SUCCESS, aclrtAllocatorUnregister(stream_handle(s)));
    streams[s].there = false;
}

static void query(uint32_t s)
{
    aclrtAllocatorDesc desc = (void *)1;
    aclrtAllocator object = (void *)2;
    aclrtAllocatorAllocFunc alloc = NULL;
    aclrtAllocatorFreeFunc release = NULL;
    aclrtAllocatorAllocAdviseFunc advise = NULL;
    aclrtAllocatorGetAddrFromBlockFunc address = NULL;
    const uint32_t wanted = any(64); /* the outputs to ask for */
    const bool good = (wanted & 1) != 0 && streams[s].there;
    acl_expect(good ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM,
               aclrtAllocatorGetByStream(stream_handle(s), (wanted & 1) != 0 ? &desc : NULL,
                                         (wanted & 2) != 0 ? &object : NULL, (wanted & 4) != 0 ? &alloc : NULL,
                                         (wanted & 8) != 0 ? &release : NULL, (wanted & 16) != 0 ? &advise : NULL,
                                         (wanted & 32) != 0 ? &address : NULL));
    const model_registration *r = &streams[s];
    assert_ptr_equal(desc, good ? r->desc : (void *)1);
    assert_ptr_equal(object, good && (wanted & 2) != 0 ? r->words[OBJECT] : (void *)2);
    assert_ptr_equal(as_word((function)alloc), good && (wanted & 4) != 0 ? r->words[ALLOC] : NULL);
    assert_ptr_equal(as_word((function)release), good && (wanted & 8) != 0 ? r->words[FREE] : NULL);
    assert_ptr_equal(as_word((function)advise), good && (wanted & 16) != 0 ? r->words[ADVISE] : NULL);
    assert_ptr_equal(as_word((function)address), good && (wanted & 32) != 0 ? r->words[ADDRESS] : NULL);
}

TEST(random_calls_return_what_the_table_says)
{
    for (uint32_t i = 0; i < CALLS; i++) {
        model_desc *d = &descs[any(DESCS)];
        const uint32_t s = any(STREAMS);
        switch (any(8)) {
        case 0:
            make(d);
            break;
        case 1:
            if (any(4) == 0) {
                destroy(d);
            }
            break;
        case 2:
        case 3:
            set(d);
            break;
        case 4:
            write_directly(d);
            break;
        case 5:
            register_one(s, d);
            break;
        case 6:
            if (any(4) == 0) {
                unregister(s);
            }
            break;
        default:
            query(s);
        }
    }
    for (uint32_t i = 0; i < DESCS; i++) {
        destroy(&descs[i]);
    }
    for (uint32_t s = 1; s < STREAMS; s++) {
        query(s); /* works although the description is destroyed */
        unregister(s);
    }
}
