/* core/src/services/settings.c: a pool's config from a text: "key:value,key:value". One row of a table for each key.
 *
 * Guarantee: the whole text is read before the caller's config changes, and nothing is allocated.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "shared/assert.h"
#include "shared/read_bytes.h"

#include <weir/pool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { longest_value = 64 };

struct reader {
    const char *name; /* begins the sentence of a refusal */
    const weir_strategy_ops *const *strategies;
    size_t count;
    weir_pool_config config;
};

/* --- values --- */

static bool read_strategy(struct reader *reader, const char *text)
{
    for (size_t i = 0; i < reader->count; i++) {
        WEIR_ASSERT(reader->strategies[i]->struct_size > 0);
        if (strcmp(reader->strategies[i]->name, text) == 0) {
            reader->config.strategy = reader->strategies[i];
            return true;
        }
    }
    return false;
}

static bool read_limit(struct reader *reader, const char *text)
{
    return weir__read_bytes(text, &reader->config.limit_bytes);
}

static bool read_soft_limit(struct reader *reader, const char *text)
{
    return weir__read_bytes(text, &reader->config.soft_limit_bytes);
}

static bool read_growth(struct reader *reader, const char *text)
{
    static const char *const ways[] = {
        [WEIR_GROWTH_BALANCED] = "balanced",
        [WEIR_GROWTH_GROW_FIRST] = "grow_first",
        [WEIR_GROWTH_WAIT_FIRST] = "wait_first",
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(ways[i], text) == 0) {
            reader->config.growth = (weir_growth)i;
            return true;
        }
    }
    return false;
}

static bool read_virtual_memory(struct reader *reader, const char *text)
{
    if (strcmp(text, "0") == 0) {
        reader->config.flags |= WEIR_POOL_REGIONS;
        return true;
    }
    reader->config.flags &= ~(uint32_t)WEIR_POOL_REGIONS;
    return strcmp(text, "1") == 0;
}

static const struct setting {
    const char *key;
    bool (*read)(struct reader *reader, const char *text);
} settings[] = {
    {"strategy", read_strategy},
    {"limit", read_limit},
    {"soft_limit", read_soft_limit},
    {"growth", read_growth},
    {"virtual_memory", read_virtual_memory},
};

/* --- the text --- */

static const struct setting *find_setting(const char *key, size_t length)
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (strlen(settings[i].key) == length && memcmp(settings[i].key, key, length) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

/* Reads one part of the text, which ends before `length`. */
static weir_status read_part(struct reader *reader, const char *part, size_t length)
{
    WEIR_ASSERT(memchr(part, ',', length) == NULL && (part[length] == ',' || part[length] == '\0'));
    const char *colon = memchr(part, ':', length);
    char value[longest_value] = "";
    if (colon == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: \"%.*s\" is not key:value", reader->name, (int)length, part);
    }
    const size_t key_length = (size_t)(colon - part);
    const size_t value_length = length - key_length - 1;
    const struct setting *setting = find_setting(part, key_length);
    if (setting == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: there is no \"%.*s\" (of \"%.*s\")", reader->name, (int)key_length,
                           part, (int)value_length, colon + 1);
    }
    if (value_length < sizeof(value)) {
        memcpy(value, colon + 1, value_length);
    }
    WEIR_ASSERT(value_length < sizeof(value) || value[0] == '\0'); /* too long: no value is read */
    return setting->read(reader, value) ? WEIR_OK
                                        : weir_refuse(WEIR_ERR_INVALID, "%s: \"%s\" cannot be \"%.*s\"", reader->name,
                                                      setting->key, (int)value_length, colon + 1);
}

static weir_status read_text(struct reader *reader, const char *text)
{
    WEIR_ASSERT(reader->config.struct_size == sizeof(reader->config));
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && *text != '\0') {
        const size_t length = strcspn(text, ",");
        status = read_part(reader, text, length);
        text += length + (text[length] == ',' ? 1 : 0);
    }
    if (status == WEIR_OK && reader->config.limit_bytes != 0 &&
        reader->config.soft_limit_bytes > reader->config.limit_bytes) {
        status = weir_refuse(WEIR_ERR_INVALID, "%s: soft_limit is above limit", reader->name);
    }
    return status;
}

static weir_status read_config(const char *name, const char *text, const weir_strategy_ops *const *strategies,
                               size_t count, weir_pool_config *config)
{
    struct reader reader = {.name = name, .strategies = strategies, .count = count};
    weir_status status = weir_struct_adopt(&reader.config, sizeof(reader.config), config, name);
    if (status == WEIR_OK && text != NULL && text[0] != '\0') {
        status = read_text(&reader, text);
    }
    return status == WEIR_OK ? weir_struct_report(config, &reader.config, sizeof(reader.config), name) : status;
}

weir_status weir_pool_config_read(const char *text, const weir_strategy_ops *const *strategies, size_t count,
                                  weir_pool_config *config)
{
    return read_config("weir_pool_config_read", text, strategies, count, config);
}

weir_status weir_pool_config_from_env(const char *variable, const weir_strategy_ops *const *strategies, size_t count,
                                      weir_pool_config *config)
{
    char name[128];
    if (variable == NULL || variable[0] == '\0') {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_config_from_env: no variable is named");
    }
    (void)snprintf(name, sizeof(name), "weir_pool_config_from_env: %s", variable);
    return read_config(name, secure_getenv(variable), strategies, count, config);
}
