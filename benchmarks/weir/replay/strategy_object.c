/* strategy_object.c: see strategy_object.h. */
#include "replay/strategy_object.h"

#include <weir/sim.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/round_up.h"
#include "trace/clean_text.h"

enum { longest_name = 40 };

static const char vm_suffix[] = "+vm";
static const char symbol[] = "weir_exported_strategy";

/* A strategy that was loaded. */
struct loaded {
    struct replay_strategy strategy; /* must be the first member */
    char *name;
};

static bool ends_with(const char *name, size_t length, const char *suffix)
{
    const size_t size = strlen(suffix);
    return length > size && memcmp(name + length - size, suffix, size) == 0;
}

/* Returns the length of the file path in a strategy's name, which may end with "+vm". */
static size_t path_length(const char *name, size_t length)
{
    return ends_with(name, length, vm_suffix) ? length - strlen(vm_suffix) : length;
}

bool strategy_object_is(const char *name, size_t length)
{
    return memchr(name, '/', length) != NULL || ends_with(name, path_length(name, length), ".so");
}

/* --- refusals --- */

__attribute__((format(printf, 3, 4))) static bool refuse(char *error, size_t error_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    return false;
}

static bool fits(const weir_strategy_object *object)
{
    return object->major == WEIR_VERSION_MAJOR &&
           (object->major == 0 ? object->minor == WEIR_VERSION_MINOR : object->minor <= WEIR_VERSION_MINOR);
}

/* True if the table has what a pool with virtual memory needs. Without it a pool would silently take regions. */
static bool maps(const weir_strategy_ops *ops)
{
    return ops->struct_size >= offsetof(weir_strategy_ops, claim) + sizeof(ops->claim) && ops->claim != NULL;
}

/* Returns the name of the first required member that the table lacks; NULL if the table is complete. */
static const char *missing_slot(const weir_strategy_ops *ops, bool mapped)
{
    const struct {
        const char *name;
        bool there;
    } slots[] = {{"name", ops->name != NULL && ops->name[0] != '\0'},
                 {"granule_bytes", is_power_of_two(ops->granule_bytes)},
                 {"state_size", ops->state_size != NULL},
                 {"init", ops->init != NULL},
                 {"fini", ops->fini != NULL},
                 {"region_size", ops->region_size != NULL},
                 {"region_add", ops->region_add != NULL},
                 {"region_remove", ops->region_remove != NULL},
                 {"alloc", ops->alloc != NULL},
                 {"free", ops->free != NULL},
                 {"promote", ops->promote != NULL},
                 {"gather", ops->gather != NULL || (ops->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0},
                 {"walk", ops->walk != NULL},
                 {"check", ops->check != NULL},
                 {"stats", ops->stats != NULL},
                 {"lane_stats", ops->lane_stats != NULL},
                 {"claim, which \"+vm\" needs", !mapped || maps(ops)}};
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        if (!slots[i].there) {
            return slots[i].name;
        }
    }
    return NULL;
}

/* Makes and destroys a pool with the strategy, to learn whether a pool accepts it. */
static weir_status try_pool(const weir_strategy_ops *ops, uint32_t flags)
{
    weir_sim *sim = NULL;
    weir_pool *pool = NULL;
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    /* clears the thread's error text: an object that is linked with another copy of libweir stores its error text in
     * that copy */
    (void)!weir_refuse(WEIR_ERR_INVALID, "%s", "");
    weir_status status = weir_sim_create(&device, &sim);
    if (status == WEIR_OK) {
        config.device = weir_sim_device(sim);
        config.strategy = ops;
        config.flags = flags;
        status = weir_pool_create(&config, &pool);
    }
    if (status == WEIR_OK) {
        status = weir_pool_destroy(pool);
    }
    if (sim != NULL) {
        (void)!weir_sim_destroy(sim);
    }
    return status;
}

static bool check_object(const char *path, const weir_strategy_object *object, uint32_t flags, char *error, size_t size)
{
    if (object->struct_size < sizeof(*object)) {
        return refuse(error, size, "%s: its %s is not of WEIR_STRATEGY_EXPORT", path, symbol);
    }
    if (!fits(object)) {
        return refuse(error, size, "%s: was built for weir %u.%u, and this is weir %d.%d", path,
                      (unsigned)object->major, (unsigned)object->minor, WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR);
    }
    const weir_strategy_ops *ops = object->strategy != NULL ? object->strategy() : NULL;
    if (ops == NULL || ops->struct_size < offsetof(weir_strategy_ops, claim)) {
        return refuse(error, size, "%s: its strategy has no table of functions", path);
    }
    const char *missing = missing_slot(ops, (flags & WEIR_POOL_REGIONS) == 0);
    if (missing != NULL) {
        return refuse(error, size, "%s: the table of its strategy has no valid %s", path, missing);
    }
    const weir_status status = try_pool(ops, flags);
    return status == WEIR_OK || refuse(error, size, "%s: no pool can be made with its strategy: %s", path,
                                       weir_last_error()[0] != '\0' ? weir_last_error() : weir_status_text(status));
}

/* --- loading --- */

/* Opens the shared object and finds its weir_strategy_object. */
static const weir_strategy_object *open_object(const char *path, char *error, size_t error_size)
{
    char file[4096];
    const int length = snprintf(file, sizeof(file), "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    if (length < 0 || (size_t)length >= sizeof(file)) {
        (void)refuse(error, error_size, "%s: cannot be opened: %s", path, strerror(ENAMETOOLONG));
        return NULL;
    }
    if (access(file, R_OK) != 0) {
        (void)refuse(error, error_size, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror(); /* begins with the path, unless the loader does not know the path */
        const bool named = strncmp(why, file, (size_t)length) == 0 && why[length] == ':';
        (void)refuse(error, error_size, "%s: cannot be loaded as a shared object:%s%s", path, named ? "" : " ",
                     named ? why + length + 1 : why);
        return NULL;
    }
    const weir_strategy_object *object = dlsym(library, symbol);
    if (object == NULL) {
        (void)refuse(error, error_size, "%s: exports no strategy: it lacks the symbol %s (WEIR_STRATEGY_EXPORT)", path,
                     symbol);
        (void)dlclose(library);
    }
    return object;
}

bool strategy_object_rename(struct replay_strategy *strategy, const char *name, size_t length)
{
    struct loaded *loaded = (struct loaded *)strategy;
    char *clean = clean_copy(name, length);
    if (clean != NULL) {
        free(loaded->name);
        loaded->name = clean;
        strategy->name = clean;
    }
    return clean != NULL;
}

void strategy_object_free(struct replay_strategy *strategy)
{
    struct loaded *loaded = (struct loaded *)strategy;
    if (loaded != NULL) {
        free(loaded->name);
    }
    free(loaded);
}

struct replay_strategy *strategy_object_load(const char *name, size_t length, char *error, size_t error_size)
{
    const size_t size = path_length(name, length);
    const uint32_t flags = size < length ? 0 : WEIR_POOL_REGIONS;
    char path[4096];
    char row[longest_name + sizeof(vm_suffix)];
    if (size >= sizeof(path)) {
        (void)refuse(error, error_size, "%.*s...: %s", 100, name, strerror(ENAMETOOLONG));
        return NULL;
    }
    (void)snprintf(path, sizeof(path), "%.*s", (int)size, name);
    const weir_strategy_object *object = open_object(path, error, error_size);
    if (object == NULL || !check_object(path, object, flags, error, error_size)) {
        return NULL;
    }
    (void)snprintf(row, sizeof(row), "%.*s%s", longest_name, object->strategy()->name, size < length ? vm_suffix : "");
    struct loaded *loaded = calloc(1, sizeof(*loaded));
    if (loaded != NULL) {
        loaded->strategy = (struct replay_strategy){
            .text = "a strategy of a shared object", .ops = object->strategy, .pool_flags = flags};
    }
    if (loaded == NULL || !strategy_object_rename(&loaded->strategy, row, strlen(row))) {
        (void)refuse(error, error_size, "no host memory");
        free(loaded);
        return NULL;
    }
    return &loaded->strategy;
}
