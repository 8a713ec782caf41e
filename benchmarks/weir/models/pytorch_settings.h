/* pytorch_settings.h: the settings of PyTorch's native caching allocator and of torch_npu's, as the text that the
 * programs take in PYTORCH_ALLOC_CONF (PYTORCH_NPU_ALLOC_CONF), parsed once into a struct that the model reads.
 *
 *     struct pytorch_settings settings;
 *     struct pytorch_settings_error error;
 *     if (!pytorch_settings_parse(PYTORCH_CUDA, "max_split_size_mb:128,garbage_collection_threshold:0.8",
 *                                 &settings, &error)) {
 *         report(error.text, error.at);
 *     }
 *
 * Versions: the names and bounds are those of PyTorch 2.12 and of torch_npu of August 2026. A text that the program
 * refuses is refused here with the program's verdict; one that it accepts is accepted, with two exceptions: PyTorch
 * 2.12 overlooks a wrong separator, and another allocator (backend:cudaMallocAsync) is not modelled.
 * Values as in PyTorch: a number ends at the first character that does not belong to it (128MB is 128), blanks are
 * skipped everywhere, a later setting of the same name wins, and a setting that is not named has its default.
 * Settings of pinned memory and of locks are checked and change nothing here.
 */
#ifndef WEIR_BENCHMARKS_MODELS_PYTORCH_SETTINGS_H
#define WEIR_BENCHMARKS_MODELS_PYTORCH_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYTORCH_UNLIMITED UINT64_MAX

enum {
    /* sizes from 1 MiB to 64 GiB: interval i has the sizes from 2^i MiB on; the first and the last are open */
    PYTORCH_ROUNDUP_INTERVALS = 16,
};

enum pytorch_program {
    PYTORCH_CUDA, /* PyTorch on CUDA and ROCm */
    PYTORCH_NPU,  /* torch_npu */
};

struct pytorch_settings {
    enum pytorch_program program;
    uint64_t pad_bytes; /* added to each request before it is rounded: 0, torch_npu 32 */
    bool expandable_segments;
    /* Blocks of this size or more are never split, and serve requests of this size or more only. */
    uint64_t max_split_bytes; /* PYTORCH_UNLIMITED: all blocks are split */
    /* How much larger than such a request such a block may be. */
    uint64_t max_non_split_rounding_bytes;
    /* Size of a segment for a request from 1 to 10 MiB, and of a piece of an expandable segment. */
    uint64_t large_segment_bytes;
    uint64_t roundup_divisions[PYTORCH_ROUNDUP_INTERVALS]; /* pieces of a doubling; 0 or 1: multiples of 512 */
    double garbage_collection_threshold;                   /* share of the allowed memory; 0: no collection */
    double memory_fraction;                                /* share of the device that the process may take */
    bool refuses_above_fraction; /* throw_on_..._oom: refuse before the device and the cache are asked */
    /* torch_npu only */
    uint64_t segment_bytes;      /* segment_size_mb; 0: not set. large_segment_size_mb goes before it */
    bool huge_pages;             /* page_size:1g: large segments are multiples of 1 GiB */
    bool lazy_reclaim;           /* multi_stream_lazy_reclaim: ask events only if no free block fits */
    uint64_t base_aligned_bytes; /* alignment of blocks of 2 MiB and more in expandable segments; 0: none */
};

struct pytorch_settings_error {
    char text[200]; /* one sentence without a full stop; names the setting and the value */
    size_t at;      /* offset of the token in the text, for a mark below it */
    bool no_memory; /* not the text: there is no host memory */
};

/* Fills in the defaults of a program. */
void pytorch_settings_init(struct pytorch_settings *settings, enum pytorch_program program);
/* Parses a whole text; "" gives the defaults. Returns false, with *settings unchanged, if the program refuses it. */
bool pytorch_settings_parse(enum pytorch_program program, const char *text, struct pytorch_settings *settings,
                            struct pytorch_settings_error *error);
/* Returns the rounded size of a request; UINT64_MAX if it is too large to round. */
uint64_t pytorch_settings_round(const struct pytorch_settings *settings, uint64_t size);
/* Returns the size of the new segment for a rounded size that no free block fits, without expandable segments. */
uint64_t pytorch_settings_segment(const struct pytorch_settings *settings, uint64_t rounded);

#endif
