/* strategies.c: the table of strategies.h. */
#include "strategies.h"

#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/size_class.h>

#include <stdlib.h>
#include <string.h>

#include "models/direct.h"
#include "models/pytorch.h"

static const struct replay_strategy table[] = {
    {"caching", "best fit at constant cost, split and coalesce, in regions", weir_caching_strategy, false, 0,
     WEIR_POOL_REGIONS, NULL, false},
    {"size_class", "slabs of equal slots, eight classes per doubling; larger requests as in caching",
     weir_size_class_strategy, false, 0, WEIR_POOL_REGIONS, NULL, false},
    {"bump", "a bump pointer over chunks: for what is taken and released together", weir_bump_strategy, false, 0, 0,
     NULL, false},
    {"caching+vm", "weir's default: caching on virtual memory, one range that grows", weir_caching_strategy, false, 0,
     0, NULL, false},
    {"size_class+vm", "size_class on virtual memory", weir_size_class_strategy, false, 0, 0, NULL, false},
    {"pytorch", "model of PyTorch's native caching allocator, exact to the address", model_pytorch_strategy, true, -1,
     0, NULL, false},
    {"torch_npu", "the same with torch_npu's 32 bytes added to every request", model_pytorch_strategy, true, 32, 0,
     NULL, false},
    {"direct", "one device allocation per block: no allocator at all", model_direct_strategy, false, 0, 0, NULL, false},
    {NULL, NULL, NULL, false, 0, 0, NULL, false},
};

const struct replay_strategy *replay_strategies(void)
{
    return table;
}

const struct replay_strategy *replay_strategy_find(const char *name, size_t length)
{
    if (length == 5 && memcmp(name, "arena", 5) == 0) { /* the name of bump in weir 0.1 */
        name = "bump", length = 4;
    }
    for (const struct replay_strategy *strategy = table; strategy->name != NULL; strategy++) {
        if (strlen(strategy->name) == length && memcmp(strategy->name, name, length) == 0) {
            return strategy;
        }
    }
    return NULL;
}

struct owned_row {
    struct replay_strategy strategy; /* must be the first member */
    struct pytorch_settings settings;
    char name[]; /* and behind it the text of the settings */
};

static bool is_program(const char *name, size_t length, enum pytorch_program *program)
{
    *program = length == strlen("torch_npu") ? PYTORCH_NPU : PYTORCH_CUDA;
    const char *own = *program == PYTORCH_NPU ? "torch_npu" : "pytorch";
    return length == strlen(own) && memcmp(name, own, length) == 0;
}

struct replay_strategy *replay_strategy_with_settings(const char *name, size_t length,
                                                      struct pytorch_settings_error *error)
{
    const char *bracket = memchr(name, '[', length);
    enum pytorch_program program = PYTORCH_CUDA;
    if (bracket == NULL || name[length - 1] != ']' || !is_program(name, (size_t)(bracket - name), &program)) {
        return NULL;
    }
    const size_t before = (size_t)(bracket - name) + 1;
    struct owned_row *row = calloc(1, sizeof(*row) + 2 * length + 2);
    if (row == NULL) {
        *error = (struct pytorch_settings_error){.text = "no host memory", .no_memory = true};
        return NULL;
    }
    char *text = row->name + length + 1;
    memcpy(row->name, name, length);
    memcpy(text, name + before, length - before - 1);
    if (!pytorch_settings_parse(program, text, &row->settings, error)) {
        error->at += before;
        free(row);
        return NULL;
    }
    row->strategy = (struct replay_strategy){.name = row->name,
                                             .text = "the same with settings",
                                             .models_padding = true,
                                             .fixed_pad = program == PYTORCH_NPU ? (int)row->settings.pad_bytes : -1,
                                             .settings = &row->settings};
    return &row->strategy;
}
