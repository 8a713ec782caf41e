/* mdl_execute.c: runs a model: its memory traffic, its kernels, their times.
 *
 * For each layer, in the order of the file, the execution takes memory for the bordered copy that a padded convolution
 * needs and for the outputs, queues the kernel, and gives back the memory that no later layer needs. All of this is
 * only queued; with a registered allocator the host does not wait.
 *
 * The kernels do not compute the network. Each reads marks that the producers of its inputs left, and leaves marks that
 * follow from them. So the outputs depend on every byte of the inputs and on every intermediate value. Memory that two
 * values occupied at the same time changes the results, and usually leaves marks that do not agree with each other.
 */
#include "base/report.h"
#include "executors/consumer.h"
#include "executors/mdl.h"
#include "executors/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_STEP = 64 << 10 }; /* bytes from one mark (a test value of 64 bits) to the next in a piece of memory */

/* --- marks --- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 29;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 32;
}

/* Returns the offset of mark number i in a piece of memory. The last mark ends where the piece ends. */
static uint64_t mark_at(uint64_t bytes, uint64_t i)
{
    WEIR_ASSERT(bytes >= sizeof(uint64_t));
    const uint64_t at = i * MARK_STEP;
    return at <= bytes - sizeof(uint64_t) ? at : bytes - sizeof(uint64_t);
}

static uint64_t mark_count(uint64_t bytes)
{
    return bytes < sizeof(uint64_t) ? 0 : (bytes - 1) / MARK_STEP + 2;
}

static void write_marks(char *memory, uint64_t bytes, uint64_t digest)
{
    for (uint64_t i = mark_count(bytes); i-- > 0;) { /* the first mark, the digest, is written last: none overlaps it */
        const uint64_t mark = i == 0 ? digest : mix(digest, i);
        memcpy(memory + mark_at(bytes, i), &mark, sizeof(mark));
    }
}

/* Returns a digest of the marks in a piece of memory. Clears *intact if the marks do not all come from one write. */
static uint64_t read_marks(const char *memory, uint64_t bytes, bool *intact)
{
    uint64_t first = 0, all = 0;
    const uint64_t count = mark_count(bytes);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t mark;
        memcpy(&mark, memory + mark_at(bytes, i), sizeof(mark));
        first = i == 0 ? mark : first;
        /* A mark that overlaps the mark before it was partly overwritten by that one, and is not checked. */
        const bool covered = i > 0 && mark_at(bytes, i) < mark_at(bytes, i - 1) + sizeof(mark);
        *intact = *intact && (i == 0 || covered || mark == mix(first, i));
        all = mix(all, mark);
    }
    return all;
}

/* Returns a digest of a buffer of the caller, over every byte. */
static uint64_t read_bytes(const char *memory, uint64_t bytes)
{
    uint64_t all = mix(0, bytes), word;
    uint64_t at = 0;
    for (; at + sizeof(word) <= bytes; at += sizeof(word)) {
        memcpy(&word, memory + at, sizeof(word));
        all = mix(all, word);
    }
    for (; at < bytes; at++) {
        all = mix(all, (unsigned char)memory[at]);
    }
    return all;
}

/* Fills a buffer with floats from 0 to 1. */
static void write_floats(char *memory, uint64_t bytes, uint64_t digest)
{
    for (uint64_t i = 0; i < bytes / sizeof(float); i++) {
        const float value = (float)(mix(digest, i) >> 40) / (float)(1 << 24);
        memcpy(memory + i * sizeof(value), &value, sizeof(value));
    }
}

/* --- kernels --- */

struct span {
    char *address;
    uint64_t bytes;
    bool callers; /* true: a buffer of the caller; false: intermediate memory, which holds marks */
};

struct mdl_kernel {
    uint64_t seed;
    bool copies;          /* true: the kernel copies spans[0] to spans[1] and computes nothing */
    uint32_t read_count;  /* number of spans that the kernel reads, spans[0] and following */
    uint32_t write_count; /* number of spans that the kernel writes, stored after the read ones */
    struct span spans[];
};

static bool all_there(const struct mdl_kernel *k)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (uint32_t i = 0; i < k->read_count + k->write_count; i++) {
        if (!acl__is_device_memory(k->spans[i].address, k->spans[i].bytes)) {
            return false;
        }
    }
    return true;
}

static aclError compute(void *ctx)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct mdl_kernel *k = ctx;
    WEIR_ASSERT(!k->copies || (k->read_count == 1 && k->write_count == 1));
    uint64_t digest = k->seed;
    bool intact = true;
    if (!all_there(k)) {
        return ACL_ERROR_RT_AICORE_EXCEPTION;
    }
    if (k->copies) {
        memmove(k->spans[1].address, k->spans[0].address, k->spans[1].bytes);
        return ACL_SUCCESS;
    }
    for (uint32_t i = 0; i < k->read_count; i++) {
        const struct span *s = &k->spans[i];
        digest = mix(digest, s->callers ? read_bytes(s->address, s->bytes) : read_marks(s->address, s->bytes, &intact));
    }
    for (uint32_t i = 0; i < k->write_count; i++) {
        const struct span *s = &k->spans[k->read_count + i];
        if (s->callers) {
            write_floats(s->address, s->bytes, mix(digest, i));
        } else {
            write_marks(s->address, s->bytes, mix(digest, i));
        }
    }
    if (!intact) {
        acl__report_warning("a model's kernel read a value that other work had written over");
    }
    return ACL_SUCCESS;
}

/* --- an execution --- */

struct execution {
    acl__model *model;
    acl__supply supply;
    acl__shape *inputs; /* [input_count] */
    acl__shape *shapes; /* [blob_count] */
    uint64_t *bytes;    /* [storage_count] */
    acl__piece *pieces; /* [storage_count]: memory of the internal storages */
    const aclmdlDataset *in;
    aclmdlDataset *out;
    acl__piece weights; /* refreshed weights */
    acl__piece border;  /* padded copy of the current layer's input */
};

static aclError no_memory(void)
{
    return acl__fail(ACL_ERROR_BAD_ALLOC, "no host memory to execute a model");
}

/* Runs at the end of the scope, also when a callback of the program throws. */
static void execution_fini(struct execution *e)
{
    if (e->model == NULL) {
        return;
    }
    for (uint32_t s = 0; e->pieces != NULL && s < e->model->plan->storage_count; s++) {
        (void)acl__supply_give(&e->supply, &e->pieces[s], "an execution that failed");
    }
    (void)acl__supply_give(&e->supply, &e->border, "an execution that failed");
    (void)acl__supply_give(&e->supply, &e->weights, "an execution that failed");
    acl__supply_end(&e->supply);
    free(e->inputs);
    free(e->shapes);
    free(e->bytes);
    free(e->pieces);
    acl__model_release(e->model);
}

static aclError execution_init(struct execution *e)
{
    WEIR_ASSERT(e->model != NULL && e->shapes == NULL);
    const acl__network *n = e->model->network;
    e->inputs = calloc(n->input_count, sizeof(*e->inputs));
    e->shapes = calloc(n->blob_count, sizeof(*e->shapes));
    e->bytes = calloc(e->model->plan->storage_count, sizeof(*e->bytes));
    e->pieces = calloc(e->model->plan->storage_count, sizeof(*e->pieces));
    return e->inputs != NULL && e->shapes != NULL && e->bytes != NULL && e->pieces != NULL ? ACL_SUCCESS : no_memory();
}

/* --- the caller's shapes and buffers --- */

/* Converts the dimensions of a tensor description (outermost first, perhaps with a batch of 1) to a shape. Rank 0: the
 * description gives none. */
static aclError shape_of(const struct execution *e, uint32_t input, const aclTensorDesc *desc, acl__shape *shape)
{
    const acl__shape *usual = e->model->shapes != NULL ? &e->model->shapes[e->model->network->inputs[input]] : NULL;
    const char *name = e->model->network->blobs[e->model->network->inputs[input]].name;
    *shape = (acl__shape){0, 1, 1, 1, 1};
    if (desc == NULL || desc->rank == 0) {
        return ACL_SUCCESS;
    }
    ACL_FAIL_IF(desc->type != ACL_FLOAT && desc->type != ACL_DT_UNDEFINED, (aclError)ACL_ERROR_GE_DATATYPE_INVALID,
                "input %u (\"%.60s\"): only float32 is taken", (unsigned)input, name);
    uint32_t first = 0, rank = desc->rank;
    /* A first dimension of 1 is the batch, unless the shape in the file has that dimension too. */
    if (desc->dims[0] == 1 && rank > 1 && (usual == NULL ? rank > 3 : rank == usual->rank + 1)) {
        first = 1;
        rank--;
    }
    bool good = rank <= 4 && (usual == NULL || rank == usual->rank);
    uint64_t *const last[4] = {&shape->w, &shape->h, rank == 4 ? &shape->d : &shape->c, &shape->c};
    for (uint32_t i = 0; i < rank && good; i++) {
        const int64_t dim = desc->dims[first + rank - 1 - i];
        good = dim > 0;
        *last[i] = (uint64_t)dim;
    }
    shape->rank = rank;
    ACL_FAIL_IF(!good || (usual != NULL && (shape->c != usual->c || shape->d != usual->d)), ACL_ERROR_INVALID_PARAM,
                "input %u (\"%.60s\"): a shape out of the model's range: only width and height are free",
                (unsigned)input, name);
    return ACL_SUCCESS;
}

static const aclDataBuffer *buffer_of(const aclmdlDataset *set, uint32_t index)
{
    WEIR_ASSERT(index < set->count);
    return set->entries[index].buffer;
}

static aclError check_buffer(const struct execution *e, bool output, uint32_t index, uint64_t needed)
{
    const aclDataBuffer *buffer = buffer_of(output ? e->out : e->in, index);
    const char *which = output ? "output" : "input";
    ACL_FAIL_IF(buffer->data == NULL || buffer->size < needed, ACL_ERROR_INVALID_PARAM,
                "%s %u needs %" PRIu64 " bytes, its buffer has %zu", which, (unsigned)index, needed,
                buffer->data != NULL ? buffer->size : 0);
    ACL_HOLD_LOCK();
    ACL_FAIL_IF(!acl__is_device_memory(buffer->data, needed), ACL_ERROR_INVALID_PARAM,
                "%s %u at %p is not %" PRIu64 " bytes of device memory", which, (unsigned)index, buffer->data, needed);
    return ACL_SUCCESS;
}

static aclError check_sets(const struct execution *e)
{
    const acl__network *n = e->model->network;
    ACL_FAIL_IF(e->in->count < n->input_count || e->out->count < n->output_count, ACL_ERROR_INVALID_PARAM,
                "%zu inputs and %zu outputs, where the model has %u and %u", e->in->count, e->out->count,
                (unsigned)n->input_count, (unsigned)n->output_count);
    return ACL_SUCCESS;
}

/* Computes the bytes of each storage: those of the largest blob in it. */
static void size_storages(struct execution *e)
{
    const acl__plan *plan = e->model->plan;
    for (uint32_t b = 0; b < e->model->network->blob_count; b++) {
        const uint32_t s = plan->storage_of[b];
        WEIR_ASSERT(s < plan->storage_count);
        const uint64_t bytes = plan->storages[s].kind == ACL__STORAGE_INTERNAL ? acl__shape_bytes(&e->shapes[b])
                                                                               : acl__dense_bytes(&e->shapes[b]);
        e->bytes[s] = bytes > e->bytes[s] ? bytes : e->bytes[s];
    }
}

static aclError read_shapes(struct execution *e)
{
    const acl__network *n = e->model->network;
    acl__model_error wrong;
    ACL_TRY(check_sets(e));
    for (uint32_t i = 0; i < n->input_count; i++) {
        ACL_TRY(shape_of(e, i, e->in->entries[i].desc, &e->inputs[i]));
    }
    ACL_FAIL_IF(acl__network_shapes(n, e->inputs, e->shapes, &wrong) != WEIR_OK, ACL_ERROR_INVALID_PARAM, "%s",
                wrong.text);
    size_storages(e);
    for (uint32_t i = 0; i < n->input_count; i++) {
        ACL_TRY(check_buffer(e, false, i, acl__dense_bytes(&e->shapes[n->inputs[i]])));
    }
    for (uint32_t i = 0; i < n->output_count; i++) {
        ACL_TRY(check_buffer(e, true, i, acl__dense_bytes(&e->shapes[n->outputs[i]])));
    }
    return ACL_SUCCESS;
}

/* Writes the outputs' shapes into their descriptions. */
static aclError describe_outputs(struct execution *e)
{
    const acl__network *n = e->model->network;
    for (uint32_t i = 0; i < n->output_count; i++) {
        int64_t dims[5];
        const uint32_t rank = acl__shape_dims(&e->shapes[n->outputs[i]], dims);
        aclTensorDesc *desc = acl__tensor_desc_create(ACL_FLOAT, rank, dims, ACL_FORMAT_ND);
        if (desc == NULL) {
            return no_memory();
        }
        acl__tensor_desc_destroy(e->out->entries[i].desc);
        e->out->entries[i].desc = desc;
    }
    return ACL_SUCCESS;
}

/* --- layers --- */

static struct span span_of(const struct execution *e, uint32_t storage)
{
    WEIR_ASSERT(storage < e->model->plan->storage_count);
    const acl__storage *s = &e->model->plan->storages[storage];
    switch (s->kind) {
    case ACL__STORAGE_INPUT:
        return (struct span){buffer_of(e->in, s->index)->data, e->bytes[storage], true};
    case ACL__STORAGE_OUTPUT:
        return (struct span){buffer_of(e->out, s->index)->data, e->bytes[storage], true};
    default:
        return (struct span){e->pieces[storage].address, e->bytes[storage], false};
    }
}

static weir_sim_access access_to(const void *address, uint64_t bytes, bool write)
{
    return (weir_sim_access){.address = (uint64_t)(uintptr_t)address, .size = bytes, .write = write};
}

/* Launches a kernel and takes ownership of `k`, also on failure. `weights` may be NULL. */
static aclError launch(const struct execution *e, struct mdl_kernel *k, const char *tag, uint64_t duration_ns,
                       const void *weights, uint64_t weight_bytes)
{
    WEIR_ASSERT(k->read_count + k->write_count > 0);
    const uint32_t count = k->read_count + k->write_count;
    weir_sim_access *accesses = calloc((size_t)count + 1, sizeof(*accesses));
    if (accesses == NULL) {
        free(k);
        return no_memory();
    }
    for (uint32_t i = 0; i < count; i++) {
        accesses[i] = access_to(k->spans[i].address, k->spans[i].bytes, i >= k->read_count);
    }
    if (weight_bytes > 0) {
        accesses[count] = access_to(weights, weight_bytes, false);
    }
    const acl__kernel kernel = {
        .tag = tag,
        .duration_ns = duration_ns,
        .accesses = accesses,
        .access_count = count + (weight_bytes > 0 ? 1u : 0u),
        .compute = compute,
        .end = free,
        .ctx = k,
        .ctx_bytes = sizeof(*k) + (k->read_count + k->write_count) * sizeof(k->spans[0]),
    };
    const aclError error = acl__supply_launch(&e->supply, &kernel);
    free(accesses);
    return error;
}

static struct mdl_kernel *kernel_create(uint32_t spans, uint64_t seed)
{
    struct mdl_kernel *k = calloc(1, sizeof(*k) + spans * sizeof(k->spans[0]));
    if (k != NULL) {
        k->seed = seed;
    }
    return k;
}

static const char *weights_of(const struct execution *e)
{
    return e->weights.address != NULL ? e->weights.address : e->model->weights;
}

static aclError launch_layer(const struct execution *e, uint32_t l)
{
    WEIR_ASSERT(l < e->model->network->layer_count);
    const acl__network *n = e->model->network;
    const acl__layer *layer = &n->layers[l];
    struct mdl_kernel *k = kernel_create(layer->bottom_count + layer->top_count + 1, mix(layer->kind, l));
    if (k == NULL) {
        return no_memory();
    }
    for (uint32_t i = 0; i < layer->bottom_count; i++) {
        k->spans[k->read_count++] = span_of(e, e->model->plan->storage_of[acl__layer_bottom(n, layer, i)]);
    }
    for (uint32_t i = 0; i < layer->top_count; i++) {
        k->spans[k->read_count + k->write_count++] =
            span_of(e, e->model->plan->storage_of[acl__layer_top(n, layer, i)]);
    }
    if (e->border.address != NULL) {
        k->spans[k->read_count + k->write_count++] = (struct span){e->border.address, e->border.bytes, false};
    }
    const uint64_t at = e->model->weight_at[l];
    const char *weights = weights_of(e);
    return launch(e, k, layer->name, acl__layer_cost(n, layer, e->shapes).duration_ns,
                  weights != NULL ? weights + at : NULL, e->model->weight_at[l + 1] - at);
}

static aclError take_outputs(struct execution *e, uint32_t l)
{
    WEIR_ASSERT(l < e->model->network->layer_count);
    const acl__network *n = e->model->network;
    const acl__layer *layer = &n->layers[l];
    aclError error = ACL_SUCCESS;
    for (uint32_t i = 0; i < layer->top_count && error == ACL_SUCCESS; i++) {
        const uint32_t s = e->model->plan->storage_of[acl__layer_top(n, layer, i)];
        const acl__storage *storage = &e->model->plan->storages[s];
        if (storage->kind == ACL__STORAGE_INTERNAL && storage->born == l) {
            error = acl__supply_take(&e->supply, e->bytes[s], NULL, layer->name, &e->pieces[s]);
        }
    }
    return error;
}

static aclError give_gone(struct execution *e, uint32_t l)
{
    WEIR_ASSERT(l < e->model->network->layer_count);
    const acl__plan *plan = e->model->plan;
    aclError first = ACL_SUCCESS;
    for (uint32_t i = plan->gone_first[l]; i < plan->gone_first[l + 1]; i++) {
        const aclError error =
            acl__supply_give(&e->supply, &e->pieces[plan->gone[i]], e->model->network->layers[l].name);
        first = first == ACL_SUCCESS ? error : first;
    }
    return first;
}

static aclError run_layer(struct execution *e, uint32_t l)
{
    WEIR_ASSERT(e->border.address == NULL);
    const acl__network *n = e->model->network;
    const acl__layer *layer = &n->layers[l];
    const acl__layer_class class = acl__layer_class_of(layer->kind);
    aclError error = ACL_SUCCESS;
    if (class == ACL__CLASS_FRESH || class == ACL__CLASS_INPLACE) {
        const acl__shape wide = acl__layer_bordered(n, layer, &e->shapes[acl__layer_bottom(n, layer, 0)]);
        if (wide.rank > 0) {
            error = acl__supply_take(&e->supply, acl__shape_bytes(&wide), NULL, layer->name, &e->border);
        }
        if (error == ACL_SUCCESS) {
            error = take_outputs(e, l);
        }
        if (error == ACL_SUCCESS) {
            error = launch_layer(e, l);
        }
        const aclError given = acl__supply_give(&e->supply, &e->border, layer->name);
        error = error != ACL_SUCCESS ? error : given;
    }
    return error == ACL_SUCCESS ? give_gone(e, l) : error;
}

/* --- start and end of an execution --- */

/* Copies each output that shares memory with an input or with another output into its own buffer. */
static aclError copy_shared_outputs(const struct execution *e)
{
    const acl__network *n = e->model->network;
    for (uint32_t i = 0; i < n->output_count; i++) {
        const uint32_t s = e->model->plan->storage_of[n->outputs[i]];
        const acl__storage *storage = &e->model->plan->storages[s];
        if (storage->kind == ACL__STORAGE_OUTPUT && storage->index == i) {
            continue;
        }
        struct mdl_kernel *k = kernel_create(2, 0);
        if (k == NULL) {
            return no_memory();
        }
        k->copies = true;
        k->read_count = k->write_count = 1;
        k->spans[0] = span_of(e, s);
        k->spans[0].bytes = acl__dense_bytes(&e->shapes[n->outputs[i]]);
        k->spans[1] = (struct span){buffer_of(e->out, i)->data, k->spans[0].bytes, true};
        ACL_TRY(launch(e, k, n->blobs[n->outputs[i]].name, acl__roofline_ns(0, 0, 2 * k->spans[0].bytes), NULL, 0));
    }
    return ACL_SUCCESS;
}

/* Copies the weights of this execution into memory of the registered allocator. The hint is the address of the loaded
 * weights; this is the only request with advice. */
static aclError refresh_weights(struct execution *e)
{
    WEIR_ASSERT(e->weights.address == NULL);
    if (!acl__rt.config.refresh_weights || e->model->weights == NULL || e->supply.wrapper == NULL) {
        return ACL_SUCCESS;
    }
    aclError error = acl__supply_take(&e->supply, e->model->weight_bytes, e->model->weights, "weights", &e->weights);
    if (error != ACL_SUCCESS || e->weights.address == e->model->weights) {
        return error;
    }
    struct mdl_kernel *k = kernel_create(2, 0);
    if (k == NULL) {
        return no_memory();
    }
    k->copies = true;
    k->read_count = k->write_count = 1;
    k->spans[0] = (struct span){e->model->weights, e->model->weight_bytes, true};
    k->spans[1] = (struct span){e->weights.address, e->model->weight_bytes, true};
    return launch(e, k, "weights", acl__roofline_ns(0, 0, 2 * e->model->weight_bytes), NULL, 0);
}

static aclError run_layers(struct execution *e)
{
    const acl__network *n = e->model->network;
    aclError error = refresh_weights(e);
    for (uint32_t l = 0; l < n->layer_count && error == ACL_SUCCESS; l++) {
        error = run_layer(e, l);
    }
    if (error == ACL_SUCCESS) {
        error = copy_shared_outputs(e);
    }
    const aclError given = acl__supply_give(&e->supply, &e->weights, "weights");
    return error != ACL_SUCCESS ? error : given;
}

static aclError execute(struct execution *e, aclrtStream stream, acl__executor executor)
{
    ACL_TRY(execution_init(e));
    ACL_TRY(read_shapes(e));
    ACL_TRY(acl__supply_begin(&e->supply, stream, executor));
    ACL_TRY(run_layers(e));
    return describe_outputs(e);
}

static aclError execute_id(uint32_t id, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream,
                           acl__executor executor, const char *function)
{
    struct execution e __attribute__((cleanup(execution_fini))) = {.in = input, .out = output};
    ACL_FAIL_IF(input == NULL || output == NULL, ACL_ERROR_INVALID_PARAM, "%s: a data set is NULL", function);
    e.model = acl__model_get(id);
    return e.model != NULL ? execute(&e, stream, executor) : (aclError)ACL_ERROR_GE_EXEC_MODEL_ID_INVALID;
}

ACL_EXPORT aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output,
                                       aclrtStream stream)
{
    ACL_ENTER(aclmdlExecuteAsync);
    return execute_id(modelId, input, output, stream, ACL__MODEL, __func__);
}

/* The synchronous function takes only the runtime's own memory, never that of a registered allocator. */
ACL_EXPORT aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output)
{
    ACL_ENTER(aclmdlExecute);
    ACL_TRY(execute_id(modelId, input, output, NULL, ACL__MODEL_ONLY, __func__));
    ACL_HOLD_LOCK();
    ACL_NEED_STREAM(stream, NULL);
    return acl__stream_wait(stream, -1);
}
