/* tests/host/engines/onednn_host.cc: the adapter for oneDNN, under oneDNN itself: a convolution with every operand and
 * its scratchpad in a heap, the same results as with oneDNN's own memory, and an error when memory runs out. */
#include "rig/check.hh"
#include "weir_onednn.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

namespace
{

using tag = dnnl::memory::format_tag;
using type = dnnl::memory::data_type;

dnnl::convolution_forward::primitive_desc convolution(const dnnl::engine &engine, dnnl::memory::dim side)
{
    const dnnl::memory::desc source({1, 16, side, side}, type::f32, tag::nchw);
    const dnnl::memory::desc weights({32, 16, 3, 3}, type::f32, tag::oihw);
    const dnnl::memory::desc result({1, 32, side, side}, type::f32, tag::nchw);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    return {engine,
            dnnl::prop_kind::forward_inference,
            dnnl::algorithm::convolution_direct,
            source,
            weights,
            result,
            {1, 1},
            {1, 1},
            {1, 1},
            attr};
#else
    const dnnl::convolution_forward::desc what(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                                               source, weights, result, {1, 1}, {1, 1}, {1, 1});
    return {what, attr, engine};
#endif
}

void fill(dnnl::memory &memory, std::size_t bytes)
{
    auto *values = static_cast<float *>(memory.get_data_handle());
    for (std::size_t i = 0; i < bytes / sizeof(*values); i++) {
        values[i] = static_cast<float>(i % 17) - 8;
    }
}

/* Runs the convolution; returns the result's bytes. */
std::vector<float> run(const dnnl::engine &engine, const dnnl::convolution_forward::primitive_desc &what,
                       dnnl::memory &source, dnnl::memory &weights, dnnl::memory &result, dnnl::memory &scratch)
{
    dnnl::stream stream(engine);
    fill(source, what.src_desc().get_size());
    fill(weights, what.weights_desc().get_size());
    dnnl::convolution_forward(what).execute(
        stream,
        {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, result}, {DNNL_ARG_SCRATCHPAD, scratch}});
    stream.wait();
    const auto *values = static_cast<const float *>(result.get_data_handle());
    return {values, values + what.dst_desc().get_size() / sizeof(*values)};
}

} // namespace

int main()
{
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = nullptr;
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    config.limit_bytes = 64 << 20;
    CHECK(weir_heap_create(&config, &heap) == WEIR_OK);
    for (dnnl::memory::dim side = 20; side < 120; side += 33) {
        const auto what = convolution(engine, side);
        dnnl::memory own[] = {{what.src_desc(), engine},
                              {what.weights_desc(), engine},
                              {what.dst_desc(), engine},
                              {what.scratchpad_desc(), engine}};
        weir::onednn_memory source(heap, what.src_desc(), engine);
        weir::onednn_memory weights(heap, what.weights_desc(), engine, weir::onednn_memory::long_lived);
        weir::onednn_memory result(heap, what.dst_desc(), engine);
        weir::onednn_memory scratch(heap, what.scratchpad_desc(), engine);
        CHECK(weir_heap_usable_size(heap, source.get().get_data_handle()) >= what.src_desc().get_size());
        CHECK(run(engine, what, own[0], own[1], own[2], own[3]) ==
              run(engine, what, source.get(), weights.get(), result.get(), scratch.get()));
    }
    /* without the adapter's alignment some blocks would begin at an address that is a multiple of only 32 */
    const dnnl::memory::desc few({5}, type::f32, tag::a);
    for (const auto kind : {weir::onednn_memory::short_lived, weir::onednn_memory::long_lived}) {
        weir::onednn_memory first(heap, few, engine, kind);
        weir::onednn_memory second(heap, few, engine, kind);
        CHECK(reinterpret_cast<std::uintptr_t>(first.get().get_data_handle()) % 64 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(second.get().get_data_handle()) % 64 == 0);
    }
    const dnnl::memory::desc large({64 << 20}, type::f32, tag::a);
    bool threw = false;
    try {
        weir::onednn_memory more(heap, large, engine);
    } catch (const std::bad_alloc &) {
        threw = true;
    }
    CHECK(threw);
    threw = false;
    try {
        /* with this engine oneDNN refuses the memory object after its block was allocated; the block must be freed */
        const dnnl::engine none;
        weir::onednn_memory refused(heap, convolution(engine, 20).src_desc(), none);
    } catch (const dnnl::error &) {
        threw = true;
    }
    CHECK(threw);
    CHECK(weir_heap_get_stats(heap, &stats) == WEIR_OK && stats.live_blocks == 0 && stats.bad_frees == 0);
    CHECK(stats.allocs >= 13);
    CHECK(weir_heap_destroy(heap) == WEIR_OK);
    return 0;
}
