/* benchmarks/engines/mobilenet.h: a MobileNetV2 with random weights for XNNPACK: convolutions, depthwise convolutions,
 * residual adds, global pooling, a fully connected layer, softmax.
 *
 *     struct mobilenet net = {.divisor = 1};
 *     float *weights = ...(mobilenet_weights_bytes(&net) + XNN_EXTRA_BYTES);
 *     mobilenet_fill(&net, weights, seed);
 *     for each shape: mobilenet_runtime(&net, batch, side, &runtime), xnn_setup_runtime, xnn_invoke_runtime,
 *     xnn_delete_runtime
 *
 * The same seed gives the same weights on every machine.
 */
#ifndef ENGINES_MOBILENET_H
#define ENGINES_MOBILENET_H

#include <stddef.h>
#include <stdint.h>

#include <xnnpack.h>

enum { MOBILENET_INPUT = 0, MOBILENET_OUTPUT = 1, MOBILENET_EXTERNALS = 2, MOBILENET_CLASSES = 1000 };

struct mobilenet {
    uint32_t divisor;     /* divides the channels: 1 = MobileNetV2 at width 1, 4 = a quarter of the width */
    const float *weights; /* owned by the caller; must outlive every runtime */
};

size_t mobilenet_weights_bytes(const struct mobilenet *net);
void mobilenet_fill(struct mobilenet *net, float *weights, uint64_t seed);

/* Return the bytes of the input, [batch, side, side, 3], and of the output, [batch, classes].
 * XNNPACK may read XNN_EXTRA_BYTES more. */
size_t mobilenet_input_bytes(size_t batch, size_t side);
size_t mobilenet_output_bytes(size_t batch);
void mobilenet_input_fill(float *input, size_t batch, size_t side, uint64_t seed);

/* Builds the graph and a runtime for one shape; *runtime is NULL unless the result is success. */
enum xnn_status mobilenet_runtime(const struct mobilenet *net, size_t batch, size_t side, xnn_runtime_t *runtime);

#endif
