/* A library with a weir of its own inside, such as a plug-in of a framework: loaded, used from several threads,
 * unloaded. */
#include <weir/heap.h>
#include <weir/host.h>
#include <weir/trace.h>

#include <pthread.h>
#include <string.h>

#define SEEN __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weir_host_pool *pool;

SEEN int plugin_use(void);
SEEN int plugin_end(void);
SEEN int plugin_leave_heap(void);
SEEN int plugin_leave_threads(const char *path);

static weir_host_pool *the_pool(void)
{
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.chunk_bytes = 4 << 20;
    (void)pthread_mutex_lock(&lock);
    if (pool == NULL && weir_host_pool_create(&config, &pool) != WEIR_OK) {
        pool = NULL;
    }
    weir_host_pool *found = pool;
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* Leaves blocks in the calling thread's cache. */
int plugin_use(void)
{
    weir_host_pool *used = the_pool();
    for (uint64_t size = 100; used != NULL && size < 4000000; size *= 3) {
        void *ptr = NULL;
        if (weir_host_alloc(used, size, WEIR_HOST_THREAD_NODE, &ptr) != WEIR_OK) {
            return 1;
        }
        memset(ptr, 1, size);
        if (weir_host_free(used, ptr) != WEIR_OK) {
            return 2;
        }
    }
    return used != NULL ? 0 : 3;
}

int plugin_end(void)
{
    const weir_status status = weir_host_pool_destroy(pool);
    pool = NULL;
    return status == WEIR_OK ? 0 : 1;
}

/* A heap that is never destroyed. */
int plugin_leave_heap(void)
{
    weir_heap *heap = NULL;
    return weir_heap_create(NULL, &heap) == WEIR_OK && weir_heap_alloc(heap, 12345) != NULL ? 0 : 1;
}

/* A heap with a decay thread and a recorder with a thread that writes its file, which are never ended. */
int plugin_leave_threads(const char *path)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    weir_recorder *recorder = NULL;
    config.flags = WEIR_HEAP_DECAY_THREAD;
    config.decay_ms = 4;
    return weir_heap_create(&config, &heap) == WEIR_OK && weir_heap_alloc(heap, 12345) != NULL &&
                   weir_recorder_create_file(path, "plug-in", &recorder) == WEIR_OK
               ? 0
               : 1;
}
