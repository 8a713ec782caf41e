/* model_settings_test.c: the texts that PyTorch and torch_npu take as settings, what they refuse and where, and the
 * sizes that follow. */
#include "rig/test.h"

#include "pytorch_settings.h"

#include <string.h>

static struct pytorch_settings parsed(enum pytorch_program program, const char *text)
{
    struct pytorch_settings settings;
    struct pytorch_settings_error error = {.text = ""};
    if (!pytorch_settings_parse(program, text, &settings, &error)) {
        fail_msg("'%s' is refused: %s", text, error.text);
    }
    return settings;
}

static void refused(enum pytorch_program program, const char *text, size_t at, const char *sentence)
{
    struct pytorch_settings settings = {.pad_bytes = 77};
    struct pytorch_settings_error error;
    if (pytorch_settings_parse(program, text, &settings, &error)) {
        fail_msg("'%s' is accepted", text);
    }
    assert_string_equal(error.text, sentence);
    assert_int_equal(error.at, at);
    assert_int_equal(settings.pad_bytes, 77); /* unchanged */
}

TEST(test_defaults)
{
    const struct pytorch_settings cuda = parsed(PYTORCH_CUDA, "");
    assert_int_equal(cuda.pad_bytes, 0);
    assert_false(cuda.expandable_segments);
    assert_int_equal(cuda.max_split_bytes, PYTORCH_UNLIMITED);
    assert_int_equal(cuda.max_non_split_rounding_bytes, 20 * MIB);
    assert_int_equal(cuda.large_segment_bytes, 20 * MIB);
    assert_true(cuda.memory_fraction == 1.0);
    assert_true(cuda.garbage_collection_threshold == 0.0);
    const struct pytorch_settings npu = parsed(PYTORCH_NPU, "  ");
    assert_int_equal(npu.pad_bytes, 32);
    assert_int_equal(npu.base_aligned_bytes, 16 << 10);
}

TEST(test_values)
{
    struct pytorch_settings s =
        parsed(PYTORCH_CUDA, "max_split_size_mb:128, garbage_collection_threshold : 0.8,expandable_segments:True,"
                             "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,backend:native,"
                             "pinned_num_register_threads:8,release_lock_on_cudamalloc:True,");
    assert_int_equal(s.max_split_bytes, 128 * MIB);
    assert_true(s.garbage_collection_threshold == 0.8);
    assert_true(s.memory_fraction == 0.5);
    assert_true(s.expandable_segments && s.refuses_above_fraction);
    /* the large segment bounds others, wherever it stands, and is the default of one */
    s = parsed(PYTORCH_CUDA, "max_split_size_mb:64MB,large_segment_size_mb:64");
    assert_int_equal(s.max_split_bytes, 64 * MIB);
    assert_int_equal(s.large_segment_bytes, 64 * MIB);
    assert_int_equal(s.max_non_split_rounding_bytes, 64 * MIB);
    s = parsed(PYTORCH_NPU, "base_addr_aligned_kb:0,segment_size_mb:512,page_size:1g,multi_stream_lazy_reclaim:True,"
                            "throw_on_npumalloc_oom:False,pinned_max_cached_size_mb:1");
    assert_int_equal(s.base_aligned_bytes, 0);
    assert_int_equal(s.segment_bytes, 512 * MIB);
    assert_true(s.huge_pages && s.lazy_reclaim && !s.refuses_above_fraction);
    assert_int_equal(pytorch_settings_segment(&s, MIB), 2 * MIB);
    assert_int_equal(pytorch_settings_segment(&s, MIB + 512), UINT64_C(1) << 30);
    /* the last one counts, and any number is one that a size_t holds */
    s = parsed(PYTORCH_CUDA, "max_split_size_mb:64,max_split_size_mb:18446744073709551615");
    assert_int_equal(s.max_split_bytes, UINT64_MAX / MIB * MIB);
}

TEST(test_rounding)
{
    struct pytorch_settings s = parsed(PYTORCH_CUDA, "roundup_power2_divisions:4");
    assert_int_equal(pytorch_settings_round(&s, 1200), 1536); /* 512 * 4 and below: multiples of 512 */
    assert_int_equal(pytorch_settings_round(&s, 2048), 2048);
    assert_int_equal(pytorch_settings_round(&s, 2049), 2560);
    assert_int_equal(pytorch_settings_round(&s, 5 * MIB + 1), 6 * MIB);
    s = parsed(PYTORCH_NPU, "roundup_power2_divisions:4");
    assert_int_equal(pytorch_settings_round(&s, 5 * MIB), 6 * MIB); /* 32 bytes more, then to the next piece */
    s = parsed(PYTORCH_CUDA, "roundup_power2_divisions:1");
    assert_int_equal(pytorch_settings_round(&s, 5 * MIB + 1), 5 * MIB + 512);
    s = parsed(PYTORCH_CUDA, "roundup_power2_divisions:[4:2,8:4,32:0,>:8]");
    assert_int_equal(pytorch_settings_round(&s, 1025), 1536); /* below the first size: its divisions */
    assert_int_equal(pytorch_settings_round(&s, 4 * MIB + 1), 6 * MIB);
    assert_int_equal(pytorch_settings_round(&s, 8 * MIB + 1), 10 * MIB);
    assert_int_equal(pytorch_settings_round(&s, 16 * MIB + 1), 16 * MIB + 512); /* a size that is not named */
    assert_int_equal(pytorch_settings_round(&s, 32 * MIB + 1), 32 * MIB + 512);
    assert_int_equal(pytorch_settings_round(&s, 64 * MIB + 1), 72 * MIB);
    assert_int_equal(pytorch_settings_round(&s, UINT64_C(1) << 40), UINT64_C(1) << 40);
    assert_true(pytorch_settings_round(&s, UINT64_MAX) == UINT64_MAX);
}

TEST(test_refusals)
{
    refused(PYTORCH_CUDA, "max_split_size_mb:10", 18, "max_split_size_mb:10: too small: PyTorch takes 20 or more");
    refused(PYTORCH_CUDA, "max_split_size_mb:32,large_segment_size_mb:64", 18,
            "max_split_size_mb:32: too small: PyTorch takes 64 or more");
    refused(PYTORCH_CUDA, "large_segment_size_mb:10", 22,
            "large_segment_size_mb:10: too small: PyTorch takes 11 or more");
    refused(PYTORCH_CUDA, " max_spilt_size_mb:128", 1, "max_spilt_size_mb: PyTorch has no such setting");
    refused(PYTORCH_CUDA, "expandable_segments:true", 20, "expandable_segments:true: it is True or False");
    refused(PYTORCH_CUDA, "expandable_segments", 19, "expandable_segments: ':' is missing behind it");
    refused(PYTORCH_CUDA, "expandable_segments=True", 0, "expandable_segments=True: PyTorch has no such setting");
    refused(PYTORCH_CUDA, "max_split_size_mb:,", 18, "max_split_size_mb: the value is missing");
    refused(PYTORCH_CUDA, "max_split_size_mb:MB", 18, "max_split_size_mb:MB: not a number");
    refused(PYTORCH_CUDA, "max_split_size_mb:99999999999999999999", 18,
            "max_split_size_mb:99999999999999999999: a number out of range");
    refused(PYTORCH_CUDA, "garbage_collection_threshold:1", 29,
            "garbage_collection_threshold:1: it is a share between 0 and 1, neither of the two");
    refused(PYTORCH_CUDA, "per_process_memory_fraction:1.5", 28,
            "per_process_memory_fraction:1.5: it is a share from 0 to 1");
    refused(PYTORCH_CUDA, "roundup_power2_divisions:3", 25,
            "roundup_power2_divisions:3: the divisions are a power of two");
    refused(PYTORCH_CUDA, "roundup_power2_divisions:[256:1,500:2]", 32,
            "roundup_power2_divisions:500: the sizes of a list are powers of two, in MiB");
    refused(PYTORCH_CUDA, "roundup_power2_divisions:[256:1", 31, "roundup_power2_divisions: ',' is missing behind it");
    refused(PYTORCH_CUDA, "backend:cudaMallocAsync", 8,
            "backend:cudaMallocAsync: another allocator, the driver's; the model is of backend:native");
    refused(PYTORCH_CUDA, "page_size:1g", 0, "page_size: a setting of torch_npu, which PyTorch refuses");
    refused(PYTORCH_NPU, "backend:native", 0, "backend: a setting of PyTorch on CUDA, which torch_npu refuses");
    refused(PYTORCH_NPU, "base_addr_aligned_kb:17", 21, "base_addr_aligned_kb:17: it is a number from 0 to 16");
    refused(PYTORCH_NPU, "base_addr_aligned_kb:08", 21, "base_addr_aligned_kb:08: it is a number from 0 to 16");
    refused(PYTORCH_NPU, "segment_size_mb:20k", 16, "segment_size_mb:20k: not a number");
    refused(PYTORCH_NPU, "page_size:2m", 10, "page_size:2m: it is 1g");
    refused(PYTORCH_NPU, "max_split_size_mb:64,expandable_segments:True", 0,
            "expandable_segments:True: torch_npu refuses it together with max_split_size_mb");
    assert_true(parsed(PYTORCH_CUDA, "max_split_size_mb:64,expandable_segments:True").expandable_segments);
}

TEST(test_long_text)
{
    char text[1100];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    refused(PYTORCH_CUDA, text, 1000, "more than 1000 characters");
}
