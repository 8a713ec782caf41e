/* tests/host/engines/c10_host.cc: the adapter for libtorch, under libtorch itself: the same results as with libtorch's
 * own allocator, every tensor from the heap, an error when memory runs out, and results as before after the error. */
#include "rig/check.hh"
#include "weir_c10.hpp"

#include <torch/torch.h>

#include <cstring>
#include <thread>
#include <vector>

namespace
{

/* Inference and a training step with changing shapes. Returns the bytes of all results. */
std::vector<float> work()
{
    torch::manual_seed(7);
    torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)), torch::nn::ReLU(),
                              torch::nn::AdaptiveAvgPool2d(4), torch::nn::Flatten(), torch::nn::Linear(256, 10));
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    std::vector<float> results;
    for (int step = 0; step < 12; step++) {
        const int64_t side = 17 + 13 * (step % 5);
        const torch::Tensor out = net->forward(torch::rand({1 + step % 3, 3, side, side}));
        optimizer.zero_grad();
        out.square().mean().backward();
        optimizer.step();
        const torch::Tensor flat = out.detach().contiguous().view(-1);
        results.insert(results.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
    return results;
}

weir_heap_stats figures(weir_heap *heap)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    CHECK(weir_heap_get_stats(heap, &stats) == WEIR_OK);
    return stats;
}

bool fails(int64_t floats)
{
    try {
        static_cast<void>(torch::empty({floats}));
        return false;
    } catch (const c10::Error &error) {
        CHECK(std::strstr(error.what(), "a configured limit forbids it") != nullptr);
        return true;
    }
}

} // namespace

int main()
{
    torch::set_num_threads(1); /* one thread, so that both runs add in the same order */
    const std::vector<float> expected = work();
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = nullptr;
    config.limit_bytes = 64 << 20;
    CHECK(weir_heap_create(&config, &heap) == WEIR_OK);
    weir::c10_allocator::install(heap);
    {
        const torch::Tensor empty = torch::empty({0});
        CHECK(empty.numel() == 0);
        const torch::Tensor tensor = torch::ones({1000});
        CHECK(weir_heap_usable_size(heap, tensor.data_ptr()) >= 4000);
        CHECK(tensor.clone().sum().item<float>() == 1000);
    }
    const std::vector<float> found = work();
    CHECK(found.size() == expected.size() && std::memcmp(found.data(), expected.data(), found.size() * 4) == 0);
    CHECK(fails(64 << 20));
    CHECK(work() == expected);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([] { static_cast<void>(torch::rand({300, 300}).matmul(torch::rand({300, 300})).sum()); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const weir_heap_stats stats = figures(heap);
    CHECK(stats.allocs > 500 && stats.bad_frees == 0 && stats.failures == 1);
    CHECK(weir_heap_check(heap, nullptr) == WEIR_OK);
    std::printf("libtorch: %llu blocks, at most %.1f MiB live, %.1f MiB held\n",
                static_cast<unsigned long long>(stats.allocs), static_cast<double>(stats.peak_live_bytes) / (1 << 20),
                static_cast<double>(stats.peak_held_bytes) / (1 << 20));
    std::fflush(stdout);
    return 0;
}
