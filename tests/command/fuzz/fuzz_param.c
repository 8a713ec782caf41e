/* fuzz_param.c: arbitrary bytes for the reader of networks. An accepted network must have shapes, a plan and costs, or
 * an error that names a layer. The sizes must stay within the reader's bounds. */
#include "network.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void use(const acl__network *network)
{
    acl__shape *inputs = calloc(network->input_count, sizeof(*inputs));
    acl__shape *shapes = calloc(network->blob_count, sizeof(*shapes));
    acl__plan *plan = acl__plan_create(network);
    acl__model_error error = {""};
    require(inputs != NULL && shapes != NULL && plan != NULL);
    for (uint64_t side = 0; side <= 640; side += 320) { /* first the sizes of the file */
        for (uint32_t i = 0; i < network->input_count && side > 0; i++) {
            inputs[i] = (acl__shape){3, side, side + 32, 1, 3};
        }
        if (acl__network_shapes(network, inputs, shapes, &error) != WEIR_OK) {
            require(error.text[0] != '\0');
            continue;
        }
        for (uint32_t i = 0; i < network->blob_count; i++) {
            require(shapes[i].rank >= 1 && acl__shape_elements(&shapes[i]) - 1 < ACL__MAX_ELEMENTS);
            require(plan->storage_of[i] < plan->storage_count);
        }
        for (uint32_t l = 0; l < network->layer_count; l++) {
            const acl__layer *layer = &network->layers[l];
            require(acl__layer_cost(network, layer, shapes).duration_ns < UINT64_MAX / 2);
            if (layer->bottom_count > 0) {
                acl__shape wide = acl__layer_bordered(network, layer, &shapes[acl__layer_bottom(network, layer, 0)]);
                require(wide.rank == 0 || acl__shape_elements(&wide) <= ACL__MAX_ELEMENTS);
            }
        }
    }
    acl__plan_free(plan);
    free(shapes);
    free(inputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    acl__network *network = NULL;
    acl__model_error error;
    weir_status status = acl__network_parse("fuzz.param", (const char *)data, size, &network, &error);
    if (status != WEIR_OK) {
        require(network == NULL && error.text[0] != '\0');
        return 0;
    }
    use(network);
    acl__network_free(network);
    return 0;
}
