/* bindings/torch/src/settings.c: reads "key:value,key:value". The settings of pools are those of weir_pool_config_read;
 * the others are read here. */
#include "settings.h"

#include "shared/read_bytes.h"
#include "shared/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/size_class.h>

static bool read_flag(const char *text, bool *flag)
{
    const bool good = strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
    *flag = good ? text[0] == '1' : *flag;
    return good;
}

static bool read_record(const char *text, struct torch_settings *settings)
{
    const size_t length = strlen(text);
    const bool good = length > 0 && length < sizeof(settings->record);
    if (good) {
        memcpy(settings->record, text, length + 1);
    }
    return good;
}

/* Reads one setting. Sets *own to false if it is not one of this library. */
static bool read_one(const char *key, const char *value, struct torch_settings *settings, bool *own)
{
    *own = true;
    if (strcmp(key, "reserve") == 0) {
        return weir__read_bytes(value, &settings->reserve_bytes);
    }
    if (strcmp(key, "pages") == 0) {
        return weir__torch_runtime_pages(value, &settings->pages);
    }
    if (strcmp(key, "report") == 0) {
        return read_flag(value, &settings->report);
    }
    if (strcmp(key, "record") == 0) {
        return read_record(value, settings);
    }
    *own = false;
    return false;
}

static bool read_pool(const char *text, weir_pool_config *config, char *why, size_t size)
{
    const weir_strategy_ops *const known[] = {weir_caching_strategy(), weir_size_class_strategy(),
                                              weir_bump_strategy()};
    if (weir_pool_config_read(text, known, sizeof(known) / sizeof(known[0]), config) == WEIR_OK) {
        return true;
    }
    const char *sentence = strstr(weir_last_error(), ": "); /* behind the function's name */
    (void)snprintf(why, size, "%s", sentence != NULL ? sentence + 2 : weir_last_error());
    return false;
}

/* Reads the settings of this library. `text` is changed: the settings of pools remain. */
static bool read_own(char *text, struct torch_settings *settings, char *why, size_t size)
{
    char *kept = text;
    for (char *part = text, *next; part != NULL && *part != '\0'; part = next) {
        next = strchr(part, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        char *value = strchr(part, ':');
        bool own = false;
        if (value != NULL) {
            *value = '\0';
            if (!read_one(part, value + 1, settings, &own) && own) {
                (void)snprintf(why, size, "\"%s\" cannot be \"%s\"", part, value + 1);
                return false;
            }
            *value = ':';
        }
        if (!own) {
            const size_t length = strlen(part);
            memmove(kept, part, length);
            kept += length;
            *kept = next != NULL ? ',' : '\0';
            kept += next != NULL ? 1 : 0;
        }
    }
    *kept = '\0';
    return true;
}

bool weir__torch_settings_read(const char *text, struct torch_settings *settings, char *why, size_t size)
{
    struct torch_settings own = {.pool = WEIR_POOL_CONFIG_INIT, .reserve_bytes = UINT64_MAX, .report = true};
    char *copy = strdup(text != NULL ? text : "");
    if (copy == NULL) {
        (void)snprintf(why, size, "no host memory");
        return false;
    }
    own.pool.strategy = weir_caching_strategy();
    const bool good = read_own(copy, &own, why, size) && read_pool(copy, &own.pool, why, size);
    free(copy);
    if (good) {
        *settings = own;
    }
    return good;
}
