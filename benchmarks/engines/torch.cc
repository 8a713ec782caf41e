/* torch.cc: libtorch on the CPU, with its own allocator (posix_memalign and free) and with a weir heap behind
 * c10::Allocator.
 *
 *     engine_torch [inference|training|decoding|threads] [--rounds N] [--alone own|weir]
 *
 * A workload's shapes change with each step. All operators run on one thread, so that results are the same in each run.
 */
#include "engines/meter.h"
#include "weir_c10.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace
{

/* --- networks --- */

namespace nn = torch::nn;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t stride)
{
    return nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

/* A residual block: two convolutions beside a shortcut connection. */
struct residual_block : nn::Module {
    nn::Conv2d first, second, shortcut;
    nn::BatchNorm2d first_norm, second_norm;

    residual_block(int64_t in, int64_t out)
        : first(convolution(in, out, 2)), second(convolution(out, out, 1)),
          shortcut(nn::Conv2dOptions(in, out, 1).stride(2)), first_norm(out), second_norm(out)
    {
        register_module("first", first);
        register_module("second", second);
        register_module("shortcut", shortcut);
        register_module("first_norm", first_norm);
        register_module("second_norm", second_norm);
    }

    torch::Tensor forward(const torch::Tensor &in)
    {
        const torch::Tensor inner = torch::relu(first_norm(first(in)));
        return torch::relu(second_norm(second(inner)) + shortcut(in));
    }
};

nn::Sequential image_net()
{
    return nn::Sequential(convolution(3, 32, 1), nn::BatchNorm2d(32), nn::ReLU(), residual_block(32, 64),
                          residual_block(64, 128), residual_block(128, 256), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
                          nn::Linear(256, 100));
}

torch::Tensor image(size_t step, int64_t batch)
{
    static const int64_t sides[] = {96, 160, 128, 224, 112, 192};
    const int64_t side = sides[step % 6];
    torch::Generator generator = at::detail::createCPUGenerator(step);
    return torch::rand({batch, 3, side, side}, generator);
}

uint64_t digest_of(uint64_t digest, const torch::Tensor &tensor)
{
    const torch::Tensor dense = tensor.contiguous();
    return meter_digest(digest, dense.data_ptr<float>(), dense.nbytes());
}

/* --- workloads --- */

struct workload {
    virtual ~workload() = default;
    virtual uint64_t step(size_t step) = 0; /* returns the digest of the step's outputs */
};

struct inference : workload {
    nn::Sequential net = image_net();

    inference() { net->eval(); }

    uint64_t infer(size_t step)
    {
        const torch::NoGradGuard guard;
        return digest_of(0, net->forward(image(step, 1 + static_cast<int64_t>(step * 5 % 4))));
    }

    uint64_t step(size_t step) override { return infer(step); }
};

struct training : workload {
    nn::Sequential net = image_net();
    torch::optim::SGD optimizer{net->parameters(), torch::optim::SGDOptions(0.001).momentum(0.9)};

    uint64_t step(size_t step) override
    {
        const torch::Tensor out = net->forward(image(step, 2 + static_cast<int64_t>(step * 5 % 3)));
        optimizer.zero_grad();
        out.square().mean().backward();
        optimizer.step();
        return digest_of(0, out.detach());
    }
};

/* Four threads, each with its own images, through one network. */
struct threads : inference {
    uint64_t step(size_t step) override
    {
        enum { THREADS = 4, IMAGES = 3 };
        std::array<uint64_t, THREADS> digests{};
        std::vector<std::thread> started;
        for (size_t i = 0; i < THREADS; i++) {
            started.emplace_back([&, i] {
                torch::set_num_threads(1); /* sets the number for the calling thread only */
                for (size_t j = 0; j < IMAGES; j++) {
                    const uint64_t one = infer(THREADS * IMAGES * step + IMAGES * i + j + i);
                    digests[i] = meter_digest(digests[i], &one, sizeof(one));
                }
            });
        }
        for (std::thread &thread : started) {
            thread.join();
        }
        return meter_digest(0, digests.data(), sizeof(digests));
    }
};

/* A decoder with caches of keys and values that grow by concatenation: each step is a session with a prompt, and then a
 * token at a time. */
struct decoding : workload {
    enum { LAYERS = 4, WIDTH = 256, HEADS = 4, WORDS = 1000, DECODED = 24 };

    struct layer {
        nn::LayerNorm before{nn::LayerNormOptions({WIDTH})}, between{nn::LayerNormOptions({WIDTH})};
        nn::Linear attention{WIDTH, 3 * WIDTH}, out{WIDTH, WIDTH}, up{WIDTH, 4 * WIDTH}, down{4 * WIDTH, WIDTH};
        torch::Tensor keys, values; /* cached keys and values: [head][token][element] */
    };

    nn::Embedding words{WORDS, WIDTH};
    std::array<layer, LAYERS> layers;

    static torch::Tensor split(const torch::Tensor &rows)
    {
        return rows.view({-1, HEADS, WIDTH / HEADS}).transpose(0, 1);
    }

    static torch::Tensor attend(layer &at, const torch::Tensor &rows)
    {
        const std::vector<torch::Tensor> parts = at.attention(at.before(rows)).chunk(3, 1);
        at.keys = at.keys.defined() ? torch::cat({at.keys, split(parts[1])}, 1) : split(parts[1]).contiguous();
        at.values = at.values.defined() ? torch::cat({at.values, split(parts[2])}, 1) : split(parts[2]).contiguous();
        const torch::Tensor weights =
            torch::softmax(torch::matmul(split(parts[0]), at.keys.transpose(1, 2)) * 0.125, 2);
        return at.out(torch::matmul(weights, at.values).transpose(0, 1).reshape({-1, WIDTH}));
    }

    torch::Tensor forward(const torch::Tensor &tokens)
    {
        torch::Tensor rows = words(tokens);
        for (layer &at : layers) {
            rows = rows + attend(at, rows);
            rows = rows + at.down(torch::gelu(at.up(at.between(rows))));
        }
        return torch::matmul(rows[-1], words->weight.transpose(0, 1));
    }

    uint64_t step(size_t step) override
    {
        const torch::NoGradGuard guard;
        static const int64_t prompts[] = {64, 17, 200, 96, 33, 480, 128, 250};
        torch::Generator generator = at::detail::createCPUGenerator(step);
        torch::Tensor tokens = torch::randint(WORDS, {prompts[step % 8]}, generator, torch::kLong);
        uint64_t digest = 0;
        for (int i = 0; i < DECODED; i++) {
            const torch::Tensor scores = forward(tokens);
            digest = digest_of(digest, scores);
            tokens = scores.argmax().view({1});
        }
        for (layer &at : layers) {
            at.keys = at.values = torch::Tensor();
        }
        return digest;
    }
};

template <class T> std::unique_ptr<workload> make()
{
    return std::make_unique<T>();
}

/* --- the meter --- */

struct program {
    std::unique_ptr<workload> (*make)();
    std::unique_ptr<workload> running;
    weir_heap *heap; /* libtorch's heap while libtorch runs with weir; stays for the life of the process */
};

/* Runs `work` and returns its result, or false after an exception. */
template <class Work> bool tried(Work work)
{
    try {
        return work();
    } catch (const std::exception &error) {
        static_cast<void>(std::fprintf(stderr, "engine_torch: %s\n", error.what()));
        return false;
    }
}

bool open_engine(void *ctx, enum meter_side side)
{
    auto *program = static_cast<struct program *>(ctx);
    return tried([&] {
        if (side == METER_WEIR) {
            weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
            config.name = "libtorch";
            if (weir_heap_create(&config, &program->heap) != WEIR_OK) {
                return false;
            }
            weir::c10_allocator::install(program->heap);
        }
        torch::set_num_threads(1);
        torch::manual_seed(1);
        program->running = program->make();
        return true;
    });
}

bool step_engine(void *ctx, size_t step, uint64_t *digest)
{
    return tried([&] {
        const uint64_t found = static_cast<struct program *>(ctx)->running->step(step);
        if (digest != nullptr) {
            *digest = found;
        }
        return true;
    });
}

weir_heap *heap_of(void *ctx)
{
    return static_cast<struct program *>(ctx)->heap;
}

bool close_engine(void *ctx)
{
    auto *program = static_cast<struct program *>(ctx);
    program->running.reset();
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    return program->heap == nullptr || (weir_heap_check(program->heap, nullptr) == WEIR_OK &&
                                        weir_heap_get_stats(program->heap, &stats) == WEIR_OK && stats.bad_frees == 0);
}

struct entry {
    const char *name, *text;
    size_t steps;
    std::unique_ptr<workload> (*make)();
};

const entry entries[] = {
    {"inference", "libtorch, inference of a residual network, batch 1 to 4, 96 to 224 pixels", 12, make<inference>},
    {"training", "libtorch, training of it, batch 2 to 4", 6, make<training>},
    {"decoding", "libtorch, decoder of 4 layers, prompts of 17 to 480 tokens, growing caches", 8, make<decoding>},
    {"threads", "libtorch, inference by four threads", 2, make<threads>},
};

int run(const entry &entry, int argc, char **argv)
{
    program program{entry.make, nullptr, nullptr};
    const meter_engine engine{entry.text, entry.steps, &program, open_engine, step_engine, heap_of, close_engine};
    return meter_main("engine_torch [inference|training|decoding|threads]", &engine, argc, argv);
}

} // namespace

int main(int argc, char **argv)
{
    for (const entry &entry : entries) { /* the workload's name may be the first or the last argument */
        if (argc > 1 && std::strcmp(argv[1], entry.name) == 0) {
            return run(entry, argc - 1, argv + 1);
        }
        if (argc > 1 && std::strcmp(argv[argc - 1], entry.name) == 0) {
            argv[argc - 1] = nullptr;
            return run(entry, argc - 1, argv);
        }
    }
    int status = EXIT_SUCCESS;
    for (const entry &entry : entries) {
        const int one = run(entry, argc, argv);
        if (one == 2) {
            return one;
        }
        status = one == EXIT_SUCCESS ? status : one;
    }
    return status;
}
