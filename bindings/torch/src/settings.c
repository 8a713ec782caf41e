/* bindings/torch/src/settings.c: reads "key:value,key:value". */
#include "settings.h"

#include "shared/read_bytes.h"
#include "shared/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/size_class.h>

struct word {
    const char *name;
    int value;
};

static bool find_word(const struct word *words, const char *text, int *value)
{
    for (; words->name != NULL; words++) {
        if (strcmp(words->name, text) == 0) {
            *value = words->value;
            return true;
        }
    }
    return false;
}

static bool read_strategy(const char *text, struct torch_settings *settings)
{
    const struct {
        const char *name;
        const weir_strategy_ops *(*strategy)(void);
    } known[] = {
        {"caching", weir_caching_strategy},
        {"size_class", weir_size_class_strategy},
        {"bump", weir_bump_strategy},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, text) == 0) {
            settings->strategy = known[i].strategy();
            return true;
        }
    }
    return false;
}

static bool read_flag(const char *text, bool *flag)
{
    static const struct word flags[] = {{"0", 0}, {"1", 1}, {NULL, 0}};
    int value = 0;
    const bool good = find_word(flags, text, &value);
    *flag = good ? value != 0 : *flag;
    return good;
}

static bool read_growth(const char *text, struct torch_settings *settings)
{
    static const struct word ways[] = {{"balanced", WEIR_GROWTH_BALANCED},
                                       {"grow_first", WEIR_GROWTH_GROW_FIRST},
                                       {"wait_first", WEIR_GROWTH_WAIT_FIRST},
                                       {NULL, 0}};
    int value = 0;
    const bool good = find_word(ways, text, &value);
    settings->growth = good ? (weir_growth)value : settings->growth;
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

/* Reads one setting. Sets *known to false if the key does not exist. */
static bool read_one(const char *key, const char *value, struct torch_settings *settings, bool *known)
{
    *known = true;
    if (strcmp(key, "strategy") == 0) {
        return read_strategy(value, settings);
    }
    if (strcmp(key, "limit") == 0) {
        return weir__read_bytes(value, &settings->limit_bytes);
    }
    if (strcmp(key, "soft_limit") == 0) {
        return weir__read_bytes(value, &settings->soft_limit_bytes);
    }
    if (strcmp(key, "reserve") == 0) {
        return weir__read_bytes(value, &settings->reserve_bytes);
    }
    if (strcmp(key, "growth") == 0) {
        return read_growth(value, settings);
    }
    if (strcmp(key, "virtual_memory") == 0) {
        return read_flag(value, &settings->virtual_memory);
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
    *known = false;
    return false;
}

/* `text` is changed: its separators become NULs. */
static bool read_all(char *text, struct torch_settings *settings, char *why, size_t size)
{
    for (char *part = text, *next; part != NULL && *part != '\0'; part = next) {
        next = strchr(part, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        char *value = strchr(part, ':');
        if (value == NULL) {
            (void)snprintf(why, size, "\"%s\" is not key:value", part);
            return false;
        }
        *value++ = '\0';
        bool known = false;
        if (!read_one(part, value, settings, &known)) {
            (void)snprintf(why, size, known ? "\"%s\" cannot be \"%s\"" : "there is no \"%s\" (of \"%s\")", part,
                           value);
            return false;
        }
    }
    if (settings->limit_bytes != 0 && settings->soft_limit_bytes > settings->limit_bytes) {
        (void)snprintf(why, size, "soft_limit is above limit");
        return false;
    }
    return true;
}

bool weir__torch_settings_read(const char *text, struct torch_settings *settings, char *why, size_t size)
{
    struct torch_settings own = {
        .strategy = weir_caching_strategy(), .reserve_bytes = UINT64_MAX, .virtual_memory = true, .report = true};
    char *copy = strdup(text != NULL ? text : "");
    if (copy == NULL) {
        (void)snprintf(why, size, "no host memory");
        return false;
    }
    const bool good = read_all(copy, &own, why, size);
    free(copy);
    if (good) {
        *settings = own;
    }
    return good;
}
