/* onnxruntime.c: an OrtAllocator over a heap.
 *
 * Idea: the engine's allocator struct is the first member of the binding, so each call of the engine is one call of the
 * heap.
 * Guarantees: the engine never gets NULL for a nonempty request (runtime.h, throw.cc). A binding that is attached or
 * has live blocks is not destroyed: `live` counts the blocks given out and not yet freed.
 * Cost beyond the heap's: one atomic addition for an alloc and one for a free. While weights are allocated, malloc is
 * trimmed.
 *
 * Compiled with -fexceptions: an exception thrown in Alloc passes through the frames of this file.
 */
#include "runtime.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ALIGN 64      /* kernels load whole vectors */
#define TRIM_STEP (1 << 20) /* least growth of the weights, in bytes, between two trims of malloc */

struct weir_onnxruntime {
    struct OrtAllocator allocator; /* first member: a pointer to it is a pointer to the binding */
    weir_heap *heap;
    struct runtime api;
    const struct OrtMemoryInfo *info;
    struct OrtMemoryInfo *own_info; /* describes the CPU's memory; NULL if the caller gave memory_info */
    atomic_int_fast64_t live;       /* number of live blocks */
    atomic_uint_fast64_t reserves;
    bool trims_malloc;
    atomic_uint_fast64_t weight_bytes; /* total of all weights so far */
    atomic_uint_fast64_t next_trim;    /* the value of weight_bytes at which malloc is trimmed next */
    atomic_bool weight_is_last;        /* the last request was a weight */
    /* Protected by the lock. */
    struct OrtEnv *env;     /* NULL = not attached */
    weir_onnxruntime *next; /* next attached binding */
    char error[512];
};

/* All attached bindings. If two allocators are registered for the same memory, an environment silently forgets the
 * first; the list lets weir_onnxruntime_attach refuse the second. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weir_onnxruntime *attached;

/* --- called by the engine --- */

_Noreturn static void out_of_memory(weir_heap *heap)
{
    char text[400];
    (void)weir_heap_explain(heap, text, sizeof(text));
    text[strcspn(text, "\n")] = '\0'; /* the first line is enough */
    weir__onnxruntime_throw(text);
}

static void *hand_out(weir_onnxruntime *binding, void *block, size_t size)
{
    if (block == NULL) {
        if (size == 0) {
            return NULL;
        }
        out_of_memory(binding->heap);
    }
    (void)atomic_fetch_add_explicit(&binding->live, 1, memory_order_relaxed);
    return block;
}

/* Returns malloc's free memory to the system. Only for glibc: other C libraries do not need such a call, or do not have
 * one. */
static void trim_malloc(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

/* Adds a weight's size to weight_bytes. While the engine allocates weights it frees the model file that it has read, so
 * malloc is trimmed each time that weight_bytes has grown by an eighth. */
static void note_weight(weir_onnxruntime *binding, size_t size)
{
    const uint64_t bytes = atomic_fetch_add_explicit(&binding->weight_bytes, size, memory_order_relaxed) + size;
    uint_fast64_t next = atomic_load_explicit(&binding->next_trim, memory_order_relaxed);
    const uint64_t later = bytes + bytes / 8 + TRIM_STEP;
    if (bytes >= next && atomic_compare_exchange_strong(&binding->next_trim, &next, later)) {
        trim_malloc();
    }
    atomic_store_explicit(&binding->weight_is_last, true, memory_order_relaxed);
}

/* Trims malloc at the first tensor after the weights: by then the session is complete, and the engine has freed the
 * rest of the model. */
static void note_tensor(weir_onnxruntime *binding)
{
    if (atomic_load_explicit(&binding->weight_is_last, memory_order_relaxed) &&
        atomic_exchange_explicit(&binding->weight_is_last, false, memory_order_relaxed)) {
        trim_malloc();
    }
}

static void *engine_alloc(struct OrtAllocator *self, size_t size)
{
    weir_onnxruntime *binding = (weir_onnxruntime *)self;
    note_tensor(binding);
    return hand_out(binding, weir_heap_alloc_aligned(binding->heap, size, BLOCK_ALIGN), size);
}

static void *engine_reserve(struct OrtAllocator *self, size_t size)
{
    weir_onnxruntime *binding = (weir_onnxruntime *)self;
    (void)atomic_fetch_add_explicit(&binding->reserves, 1, memory_order_relaxed);
    if (binding->trims_malloc) {
        note_weight(binding, size);
    }
    return hand_out(binding, weir_heap_alloc_long_lived(binding->heap, size, BLOCK_ALIGN), size);
}

static void engine_free(struct OrtAllocator *self, void *block)
{
    weir_onnxruntime *binding = (weir_onnxruntime *)self;
    /* The engine's Free returns nothing. The heap counts the free of a foreign block in bad_frees. */
    if (block != NULL && weir_heap_free(binding->heap, block) == WEIR_OK) {
        (void)atomic_fetch_sub_explicit(&binding->live, 1, memory_order_relaxed);
    }
}

static const struct OrtMemoryInfo *engine_info(const struct OrtAllocator *self)
{
    return ((const weir_onnxruntime *)self)->info;
}

static OrtStatus *engine_status(const weir_onnxruntime *binding, weir_status status)
{
    return status == WEIR_OK ? NULL : binding->api.CreateStatus(CODE_FAIL, weir_status_text(status));
}

static void add_number(const weir_onnxruntime *binding, OrtKeyValuePairs *pairs, const char *key, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    binding->api.AddKeyValuePair(pairs, key, text);
}

/* Names each figure by the key that the engine's own arena uses. */
static OrtStatus *engine_get_stats(const struct OrtAllocator *self, OrtKeyValuePairs **out)
{
    const weir_onnxruntime *binding = (const weir_onnxruntime *)self;
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    const weir_status status = weir_heap_get_stats(binding->heap, &stats);
    if (status != WEIR_OK) {
        return engine_status(binding, status);
    }
    OrtKeyValuePairs *pairs = NULL;
    binding->api.CreateKeyValuePairs(&pairs);
    if (pairs == NULL) {
        return engine_status(binding, WEIR_ERR_NO_MEMORY);
    }
    if (stats.limit_bytes == 0) {
        binding->api.AddKeyValuePair(pairs, "Limit", "-1");
    } else {
        add_number(binding, pairs, "Limit", stats.limit_bytes);
    }
    add_number(binding, pairs, "InUse", stats.live_bytes);
    add_number(binding, pairs, "TotalAllocated", stats.held_bytes);
    add_number(binding, pairs, "MaxInUse", stats.peak_live_bytes);
    add_number(binding, pairs, "NumAllocs", stats.allocs);
    add_number(binding, pairs, "NumReserves", atomic_load_explicit(&binding->reserves, memory_order_relaxed));
    add_number(binding, pairs, "MaxAllocSize", stats.largest_bytes);
    *out = pairs;
    return NULL;
}

static OrtStatus *engine_shrink(struct OrtAllocator *self)
{
    const weir_onnxruntime *binding = (const weir_onnxruntime *)self;
    return engine_status(binding, weir_heap_trim(binding->heap, 0, NULL));
}

/* Makes an allocator for a runtime of this version. Members that the runtime does not know yet stay NULL. AllocOnStream
 * stays NULL too: the engine then calls Alloc. A heap does not distinguish streams. */
static struct OrtAllocator make_allocator(uint32_t version)
{
    struct OrtAllocator allocator = {
        .version = version, .Alloc = engine_alloc, .Free = engine_free, .Info = engine_info};
    if (version >= RESERVE_VERSION) {
        allocator.Reserve = engine_reserve;
    }
    if (version >= STATS_VERSION) {
        allocator.GetStats = engine_get_stats;
    }
    if (version >= SHRINK_VERSION) {
        allocator.Shrink = engine_shrink;
    }
    return allocator;
}

/* --- the runtime --- */

/* Returns the N of a version "1.N.P", or 0 for any other text. */
static uint32_t minor_version(const char *text)
{
    if (text == NULL || strncmp(text, "1.", 2) != 0 || text[2] < '0' || text[2] > '9') {
        return 0;
    }
    const unsigned long minor = strtoul(text + 2, NULL, 10);
    return minor < 100000 ? (uint32_t)minor : 0;
}

/* Copies the function pointer at index `place` of the runtime's table. It copies bytes, because ISO C has no conversion
 * from an object pointer to a function pointer. */
static void find(const struct OrtApi *table, size_t place, void *function)
{
    memcpy(function, (const char *)table + place * sizeof(void (*)(void)), sizeof(void (*)(void)));
}

static weir_status find_runtime(const struct OrtApiBase *base, struct runtime *api)
{
    const char *version = base->GetVersionString();
    const uint32_t minor = minor_version(version);
    if (minor < OLDEST_VERSION) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_onnxruntime_create: runtime is of version \"%.40s\"; 1.%d is the oldest",
                           version != NULL ? version : "", OLDEST_VERSION);
    }
    *api = (struct runtime){.version = minor < NEWEST_VERSION ? minor : NEWEST_VERSION};
    const struct OrtApi *table = base->GetApi(api->version);
    if (table == NULL) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_onnxruntime_create: runtime is of version \"%.40s\" and has no API of version %u",
                           version, (unsigned)api->version);
    }
#define FIND(name, place, result, parameters) find(table, place, &api->name);
    WEIR_ONNXRUNTIME_API(FIND)
    if (api->version >= STATS_VERSION) {
        WEIR_ONNXRUNTIME_API_STATS(FIND)
    }
#undef FIND
    return WEIR_OK;
}

/* Keeps the runtime's message and releases its status. Requires the lock. */
static weir_status heard_locked(weir_onnxruntime *binding, OrtStatus *status)
{
    if (status == NULL) {
        return WEIR_OK;
    }
    (void)snprintf(binding->error, sizeof(binding->error), "%s", binding->api.GetErrorMessage(status));
    binding->api.ReleaseStatus(status);
    return WEIR_ERR_DEVICE;
}

static weir_status heard(weir_onnxruntime *binding, OrtStatus *status)
{
    (void)pthread_mutex_lock(&lock);
    const weir_status result = heard_locked(binding, status);
    (void)pthread_mutex_unlock(&lock);
    return result;
}

/* --- called by the program --- */

weir_status weir_onnxruntime_create(const weir_onnxruntime_config *config, weir_onnxruntime **out)
{
    weir_onnxruntime_config own;
    if (config == NULL || out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_create: %s is NULL",
                           config == NULL ? "config" : "binding");
    }
    weir_status status = weir_struct_adopt(&own, sizeof(own), config, "weir_onnxruntime_create: config");
    if (status != WEIR_OK) {
        return status;
    }
    const uint32_t known = WEIR_ONNXRUNTIME_NO_MALLOC_TRIM;
    if ((own.flags & ~known) != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_create: config.flags has unknown bits: %#x",
                           own.flags & ~known);
    }
    if (own.heap == NULL || own.runtime == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_create: config.%s is NULL",
                           own.heap == NULL ? "heap" : "runtime");
    }
    struct runtime api;
    status = find_runtime(own.runtime, &api);
    if (status != WEIR_OK) {
        return status;
    }
    weir_onnxruntime *binding = calloc(1, sizeof(*binding));
    if (binding == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    *binding = (weir_onnxruntime){.allocator = make_allocator(api.version),
                                  .heap = own.heap,
                                  .api = api,
                                  .next_trim = TRIM_STEP,
                                  .trims_malloc = (own.flags & WEIR_ONNXRUNTIME_NO_MALLOC_TRIM) == 0,
                                  .info = own.memory_info};
    if (binding->info == NULL) {
        status = heard(binding, api.CreateCpuMemoryInfo(DEVICE_ALLOCATOR, MEMORY_TYPE_DEFAULT, &binding->own_info));
        if (status != WEIR_OK) {
            free(binding);
            return status;
        }
        binding->info = binding->own_info;
    }
    *out = binding;
    return WEIR_OK;
}

weir_status weir_onnxruntime_destroy(weir_onnxruntime *binding)
{
    if (binding == NULL) {
        return WEIR_OK;
    }
    (void)pthread_mutex_lock(&lock);
    const bool is_attached = binding->env != NULL;
    (void)pthread_mutex_unlock(&lock);
    if (is_attached) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_onnxruntime_destroy: binding is attached to an environment");
    }
    const long long live = (long long)atomic_load(&binding->live);
    if (live != 0) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_onnxruntime_destroy: %lld blocks of binding are live", live);
    }
    if (binding->own_info != NULL) {
        binding->api.ReleaseMemoryInfo(binding->own_info);
    }
    free(binding);
    return WEIR_OK;
}

/* True if another binding is attached to the environment for the same memory. Requires the lock. */
static bool is_taken_locked(const weir_onnxruntime *binding, const struct OrtEnv *env)
{
    for (const weir_onnxruntime *other = attached; other != NULL; other = other->next) {
        int differs = 0;
        if (other->env != env) {
            continue;
        }
        OrtStatus *status = binding->api.CompareMemoryInfo(other->info, binding->info, &differs);
        if (status != NULL) {
            binding->api.ReleaseStatus(status);
        } else if (differs == 0) {
            return true;
        }
    }
    return false;
}

weir_status weir_onnxruntime_attach(weir_onnxruntime *binding, struct OrtEnv *env)
{
    if (binding == NULL || env == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_attach: %s is NULL",
                           binding == NULL ? "binding" : "env");
    }
    (void)pthread_mutex_lock(&lock);
    weir_status status;
    if (binding->env != NULL) {
        status = weir_refuse(WEIR_ERR_BUSY, "weir_onnxruntime_attach: binding is attached already");
    } else if (is_taken_locked(binding, env)) {
        status = weir_refuse(WEIR_ERR_BUSY, "weir_onnxruntime_attach: env has another binding for the same memory");
    } else {
        status = heard_locked(binding, binding->api.RegisterAllocator(env, &binding->allocator));
    }
    if (status == WEIR_OK) {
        binding->env = env;
        binding->next = attached;
        attached = binding;
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

static void forget_locked(weir_onnxruntime *binding)
{
    weir_onnxruntime **link = &attached;
    while (*link != binding) {
        link = &(*link)->next;
    }
    *link = binding->next;
    binding->env = NULL;
}

weir_status weir_onnxruntime_detach(weir_onnxruntime *binding, struct OrtEnv *env)
{
    if (binding == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_detach: binding is NULL");
    }
    (void)pthread_mutex_lock(&lock);
    weir_status status = WEIR_OK;
    if (binding->env == NULL) {
        status = weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_detach: binding is not attached");
    } else if (env == binding->env) {
        status = heard_locked(binding, binding->api.UnregisterAllocator(env, binding->info));
    } else if (env != NULL) {
        status =
            weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_detach: env is not the one that binding is attached to");
    }
    if (status == WEIR_OK) {
        forget_locked(binding);
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

weir_status weir_onnxruntime_session_options(weir_onnxruntime *binding, struct OrtSessionOptions *options,
                                             uint32_t flags)
{
    const uint32_t known = WEIR_ONNXRUNTIME_NO_PREPACKING;
    if (binding == NULL || options == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_session_options: %s is NULL",
                           binding == NULL ? "binding" : "options");
    }
    if ((flags & ~known) != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_onnxruntime_session_options: flags has unknown bits: %#x",
                           flags & ~known);
    }
    const struct {
        const char *key;
        bool set;
    } entries[] = {
        {"session.use_env_allocators", true},
        {"session.use_device_allocator_for_initializers", true},
        {"session.disable_prepacking", (flags & WEIR_ONNXRUNTIME_NO_PREPACKING) != 0},
    };
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (!entries[i].set) {
            continue;
        }
        const weir_status status = heard(binding, binding->api.AddSessionConfigEntry(options, entries[i].key, "1"));
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

struct OrtAllocator *weir_onnxruntime_allocator(weir_onnxruntime *binding)
{
    return binding == NULL ? NULL : &binding->allocator;
}

size_t weir_onnxruntime_explain(weir_onnxruntime *binding, char *text, size_t size)
{
    if (binding == NULL) {
        return (size_t)snprintf(text, size, "%s", "");
    }
    (void)pthread_mutex_lock(&lock);
    const int length = snprintf(text, size, "%s", binding->error);
    (void)pthread_mutex_unlock(&lock);
    return (size_t)length;
}
