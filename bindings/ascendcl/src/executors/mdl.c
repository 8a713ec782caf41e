/* mdl.c: models: files with a network in ncnn's text form are loaded, described and unloaded. */
#include "executors/mdl.h"

#include "executors/consumer.h"
#include "executors/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static acl__model *models; /* list of the loaded models; guarded by the runtime's lock */
static uint32_t last_id;

/* --- one model --- */

static void model_free(acl__model *model)
{
    if (model->weights != NULL) {
        (void)acl__free(model->weights);
    }
    acl__network_free(model->network);
    acl__plan_free(model->plan);
    free(model->shapes);
    free(model->weight_at);
    free(model);
}

/* Drops a reference to a model. The lock is held. */
static void release_locked(acl__model *model)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(model->references > 0);
    if (--model->references == 0) {
        model_free(model);
    }
}

void acl__model_release(acl__model *model)
{
    ACL_HOLD_LOCK();
    release_locked(model);
}

static acl__model **link_of(uint32_t id)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__model **link = &models;
    while (*link != NULL && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

acl__model *acl__model_get(uint32_t id)
{
    acl__lock();
    acl__model *model = *link_of(id);
    if (model != NULL) {
        model->references++;
    }
    acl__unlock();
    if (model == NULL) {
        (void)acl__fail((aclError)ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "no model has the id %u", (unsigned)id);
    }
    return model;
}

/* --- loading --- */

static aclError parse_error(weir_status status, const char *function, const acl__model_error *error)
{
    aclError code = (aclError)ACL_ERROR_GE_PARAM_INVALID;
    if (status == WEIR_ERR_NO_MEMORY) {
        code = ACL_ERROR_BAD_ALLOC;
    } else if (status == WEIR_ERR_LIMIT) {
        code = ACL_ERROR_STORAGE_OVER_LIMIT;
    } else if (status == WEIR_ERR_DEVICE) {
        code = (aclError)ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID;
    }
    return acl__fail(code, "%s: %s", function, error->text);
}

static bool layout_weights(acl__model *model)
{
    WEIR_ASSERT(model->weight_at == NULL && model->weight_bytes == 0);
    const acl__network *n = model->network;
    model->weight_at = calloc((size_t)n->layer_count + 1, sizeof(*model->weight_at));
    if (model->weight_at == NULL) {
        return false;
    }
    for (uint32_t l = 0; l < n->layer_count; l++) {
        const uint64_t bytes = acl__layer_parameters(n, &n->layers[l]) * 4;
        model->weight_at[l] = model->weight_bytes;
        model->weight_bytes += (bytes + 511) / 512 * 512;
    }
    model->weight_at[n->layer_count] = model->weight_bytes;
    return true;
}

/* Computes all members of the model except the weights' memory. If the file gives no input sizes, or sizes that do not
 * fit, the model gets no shapes. Returns false when out of memory. */
static bool derive(acl__model *model)
{
    acl__model_error unused;
    model->plan = acl__plan_create(model->network);
    model->shapes = calloc(model->network->blob_count, sizeof(*model->shapes));
    if (model->plan == NULL || model->shapes == NULL || !layout_weights(model)) {
        return false;
    }
    if (acl__network_shapes(model->network, NULL, model->shapes, &unused) != WEIR_OK) {
        free(model->shapes);
        model->shapes = NULL;
    }
    return true;
}

/* Gives a model memory for its weights and an id, and adds it to the list of models. */
static aclError add(acl__model *model)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(model->plan != NULL && model->weight_at != NULL);
    ACL_NEED_CONTEXT(context);
    model->device = context->device;
    if (model->weight_bytes > 0) {
        ACL_TRY(acl__malloc(model->device, model->weight_bytes, ACL_MEM_MALLOC_HUGE_FIRST, &model->weights));
    }
    model->id = ++last_id;
    model->next = models;
    models = model;
    return ACL_SUCCESS;
}

/* Loads a network and takes ownership of it, also on failure. The lock is not held. */
static aclError load(acl__network *network, const char *function, uint32_t *id)
{
    acl__model *model = calloc(1, sizeof(*model));
    if (model == NULL) {
        acl__network_free(network);
        return acl__fail(ACL_ERROR_BAD_ALLOC, "%s: no host memory", function);
    }
    model->network = network;
    model->references = 1;
    const bool good = derive(model);
    ACL_HOLD_LOCK();
    const aclError error = good ? add(model) : acl__fail(ACL_ERROR_BAD_ALLOC, "%s: no host memory", function);
    if (error != ACL_SUCCESS) {
        model_free(model);
        return error;
    }
    *id = model->id;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlLoadFromFile(const char *modelPath, uint32_t *modelId)
{
    ACL_ENTER(aclmdlLoadFromFile);
    ACL_NEED(modelPath);
    ACL_NEED(modelId);
    acl__network *network = NULL;
    acl__model_error error;
    const weir_status status = acl__network_read(modelPath, &network, &error);
    return status != WEIR_OK ? parse_error(status, __func__, &error) : load(network, __func__, modelId);
}

ACL_EXPORT aclError aclmdlLoadFromMem(const void *model, size_t modelSize, uint32_t *modelId)
{
    ACL_ENTER(aclmdlLoadFromMem);
    ACL_REFUSE_IF(model == NULL || modelSize == 0 || modelId == NULL, ACL_ERROR_INVALID_PARAM,
                  "an argument is NULL, or the size is 0");
    acl__network *network = NULL;
    acl__model_error error;
    const weir_status status = acl__network_parse("(memory)", model, modelSize, &network, &error);
    return status != WEIR_OK ? parse_error(status, __func__, &error) : load(network, __func__, modelId);
}

/* An execution that is still being queued holds a reference to the model. */
ACL_EXPORT aclError aclmdlUnload(uint32_t modelId)
{
    ACL_ENTER(aclmdlUnload);
    acl__lock();
    acl__model **link = link_of(modelId);
    acl__model *gone = *link;
    if (gone != NULL) {
        *link = gone->next;
        release_locked(gone);
    }
    acl__unlock();
    ACL_REFUSE_IF(gone == NULL, (aclError)ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "no model has the id %u",
                  (unsigned)modelId);
    acl__consumer_model_ends();
    return ACL_SUCCESS;
}

/* Returns the peak memory of a model's intermediate values, at the input sizes given in the file. */
static uint64_t work_bytes(const acl__model *model)
{
    const acl__network *n = model->network;
    uint64_t live = 0, most = 0;
    for (uint32_t l = 0; l < n->layer_count && model->shapes != NULL; l++) {
        const acl__layer *layer = &n->layers[l];
        for (uint32_t i = 0; i < layer->top_count; i++) {
            const uint32_t blob = acl__layer_top(n, layer, i);
            const acl__storage *s = &model->plan->storages[model->plan->storage_of[blob]];
            live += s->kind == ACL__STORAGE_INTERNAL && s->born == l ? acl__shape_bytes(&model->shapes[blob]) : 0;
        }
        most = live > most ? live : most;
        for (uint32_t i = model->plan->gone_first[l]; i < model->plan->gone_first[l + 1]; i++) {
            const uint32_t storage = model->plan->gone[i];
            const acl__layer *maker = &n->layers[model->plan->storages[storage].born];
            for (uint32_t k = 0; k < maker->top_count; k++) {
                const uint32_t blob = acl__layer_top(n, maker, k);
                live -= model->plan->storage_of[blob] == storage ? acl__shape_bytes(&model->shapes[blob]) : 0;
            }
        }
    }
    return most;
}

ACL_EXPORT aclError aclmdlQuerySize(const char *fileName, size_t *workSize, size_t *weightSize)
{
    ACL_ENTER(aclmdlQuerySize);
    ACL_NEED(fileName);
    ACL_NEED(workSize);
    ACL_NEED(weightSize);
    acl__model_error error;
    acl__model *model = calloc(1, sizeof(*model));
    ACL_REFUSE_IF(model == NULL, ACL_ERROR_BAD_ALLOC, "no host memory");
    const weir_status status = acl__network_read(fileName, &model->network, &error);
    aclError result = ACL_SUCCESS;
    if (status != WEIR_OK) {
        result = parse_error(status, __func__, &error);
    } else if (!derive(model)) {
        result = acl__fail(ACL_ERROR_BAD_ALLOC, "aclmdlQuerySize: no host memory");
    } else {
        *workSize = work_bytes(model);
        *weightSize = model->weight_bytes;
    }
    model_free(model);
    return result;
}

/* --- descriptions --- */

/* One input or output. */
struct end {
    char *name;
    aclmdlIODims dims;
    size_t bytes; /* size at the input sizes given in the file; 0: the file gives none */
};

struct aclmdlDesc {
    struct end *ends; /* inputs, then outputs */
    size_t input_count;
    size_t output_count;
};

uint32_t acl__shape_dims(const acl__shape *shape, int64_t dims[5])
{
    WEIR_ASSERT(shape->rank <= 4);
    const uint64_t all[4] = {shape->c, shape->d, shape->h, shape->w};
    /* For each rank, the positions in `all` of the dimensions that a shape of this rank has, outermost first. */
    static const int has[5][4] = {{-1}, {3}, {2, 3}, {0, 2, 3}, {0, 1, 2, 3}};
    dims[0] = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        dims[i + 1] = (int64_t)all[has[shape->rank][i]];
    }
    return shape->rank + 1;
}

static void desc_clear(aclmdlDesc *desc)
{
    for (size_t i = 0; i < desc->input_count + desc->output_count; i++) {
        free(desc->ends[i].name);
    }
    free(desc->ends);
    *desc = (aclmdlDesc){NULL, 0, 0};
}

ACL_EXPORT aclmdlDesc *aclmdlCreateDesc(void)
{
    ACL_ENTER_OR(aclmdlCreateDesc, NULL);
    return calloc(1, sizeof(aclmdlDesc));
}

ACL_EXPORT aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc)
{
    ACL_ENTER(aclmdlDestroyDesc);
    ACL_NEED(modelDesc);
    desc_clear(modelDesc);
    free(modelDesc);
    return ACL_SUCCESS;
}

/* Computes the shapes of all blobs when the width and height of each input are larger by `more` than in the file.
 * Returns false if the network does not run with such inputs. */
static bool shapes_with(const acl__model *model, uint64_t more, acl__shape *shapes)
{
    WEIR_ASSERT(model->shapes != NULL);
    acl__model_error unused;
    const acl__network *n = model->network;
    acl__shape *inputs = calloc(n->input_count, sizeof(*inputs));
    bool good = inputs != NULL;
    for (uint32_t i = 0; i < n->input_count && good; i++) {
        inputs[i] = model->shapes[n->inputs[i]];
        inputs[i].w += more;
        inputs[i].h += inputs[i].rank > 1 ? more : 0;
    }
    good = good && acl__network_shapes(n, inputs, shapes, &unused) == WEIR_OK;
    free(inputs);
    return good;
}

/* Describes an input or output. `usual` is its shape at the input sizes of the file, `other` its shape at larger input
 * sizes. A dimension that differs between the two is not fixed: it becomes -1. */
static void describe(struct end *out, const acl__blob *blob, const acl__shape *usual, const acl__shape *other)
{
    int64_t dims[5], changed[5];
    (void)snprintf(out->dims.name, sizeof(out->dims.name), "%s", blob->name);
    out->dims.dimCount = acl__shape_dims(usual, dims);
    (void)acl__shape_dims(other, changed);
    for (size_t i = 0; i < out->dims.dimCount; i++) {
        out->dims.dims[i] = dims[i] == changed[i] ? dims[i] : -1;
    }
    out->bytes = acl__dense_bytes(usual);
}

static bool describe_all(aclmdlDesc *desc, const acl__model *model)
{
    WEIR_ASSERT(desc->ends == NULL && desc->input_count == 0 && desc->output_count == 0);
    const acl__network *n = model->network;
    acl__shape *other = calloc(n->blob_count, sizeof(*other));
    desc->ends = calloc((size_t)n->input_count + n->output_count, sizeof(*desc->ends));
    if (other == NULL || desc->ends == NULL) {
        free(other);
        return false;
    }
    const bool comparable = model->shapes != NULL && shapes_with(model, 64, other);
    desc->input_count = n->input_count;
    desc->output_count = n->output_count;
    bool good = true;
    for (uint32_t i = 0; i < n->input_count + n->output_count; i++) {
        const uint32_t blob = i < n->input_count ? n->inputs[i] : n->outputs[i - n->input_count];
        desc->ends[i].name = strdup(n->blobs[blob].name);
        good = good && desc->ends[i].name != NULL;
        if (model->shapes != NULL) {
            describe(&desc->ends[i], &n->blobs[blob], &model->shapes[blob],
                     comparable ? &other[blob] : &model->shapes[blob]);
        } else { /* shapes are not known: no dimensions */
            (void)snprintf(desc->ends[i].dims.name, sizeof(desc->ends[i].dims.name), "%s", n->blobs[blob].name);
        }
    }
    free(other);
    return good;
}

ACL_EXPORT aclError aclmdlGetDesc(aclmdlDesc *modelDesc, uint32_t modelId)
{
    ACL_ENTER(aclmdlGetDesc);
    ACL_REFUSE_IF(modelDesc == NULL, ACL_ERROR_INVALID_PARAM, "the description is NULL");
    acl__model *model = acl__model_get(modelId);
    if (model == NULL) {
        return (aclError)ACL_ERROR_GE_EXEC_MODEL_ID_INVALID;
    }
    desc_clear(modelDesc);
    const bool good = describe_all(modelDesc, model);
    acl__model_release(model);
    if (!good) {
        desc_clear(modelDesc);
        return acl__fail(ACL_ERROR_BAD_ALLOC, "aclmdlGetDesc: no host memory");
    }
    return ACL_SUCCESS;
}

/* Returns an input or output, or NULL if there is none of that index. */
static const struct end *end_at(const aclmdlDesc *desc, bool output, size_t index)
{
    if (desc == NULL || index >= (output ? desc->output_count : desc->input_count)) {
        return NULL;
    }
    return &desc->ends[output ? desc->input_count + index : index];
}

ACL_FACT(size_t, aclmdlGetNumInputs, (aclmdlDesc * modelDesc), modelDesc != NULL, modelDesc->input_count, 0)
ACL_FACT(size_t, aclmdlGetNumOutputs, (aclmdlDesc * modelDesc), modelDesc != NULL, modelDesc->output_count, 0)
ACL_FACT(size_t, aclmdlGetInputSizeByIndex, (aclmdlDesc * modelDesc, size_t index),
         end_at(modelDesc, false, index) != NULL, end_at(modelDesc, false, index)->bytes, 0)
ACL_FACT(size_t, aclmdlGetOutputSizeByIndex, (aclmdlDesc * modelDesc, size_t index),
         end_at(modelDesc, true, index) != NULL, end_at(modelDesc, true, index)->bytes, 0)

static aclError get_dims(const aclmdlDesc *desc, bool output, size_t index, aclmdlIODims *dims, const char *function)
{
    const struct end *found = end_at(desc, output, index);
    ACL_FAIL_IF(found == NULL || dims == NULL, ACL_ERROR_INVALID_PARAM,
                "%s: an argument is NULL, or there is no index %zu", function, index);
    *dims = found->dims;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlGetInputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims)
{
    ACL_ENTER(aclmdlGetInputDims);
    return get_dims(modelDesc, false, index, dims, __func__);
}

ACL_EXPORT aclError aclmdlGetInputDimsV2(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims)
{
    ACL_ENTER(aclmdlGetInputDimsV2);
    return get_dims(modelDesc, false, index, dims, __func__);
}

ACL_EXPORT aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims)
{
    ACL_ENTER(aclmdlGetOutputDims);
    return get_dims(modelDesc, true, index, dims, __func__);
}

ACL_FACT(const char *, aclmdlGetInputNameByIndex, (const aclmdlDesc *modelDesc, size_t index),
         end_at(modelDesc, false, index) != NULL, end_at(modelDesc, false, index)->name, "")
ACL_FACT(const char *, aclmdlGetOutputNameByIndex, (const aclmdlDesc *modelDesc, size_t index),
         end_at(modelDesc, true, index) != NULL, end_at(modelDesc, true, index)->name, "")

ACL_EXPORT aclError aclmdlGetInputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index)
{
    ACL_ENTER(aclmdlGetInputIndexByName);
    ACL_NEED(modelDesc);
    ACL_NEED(name);
    ACL_NEED(index);
    for (size_t i = 0; i < modelDesc->input_count; i++) {
        if (strcmp(modelDesc->ends[i].name, name) == 0) {
            *index = i;
            return ACL_SUCCESS;
        }
    }
    return acl__fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetInputIndexByName: there is no input \"%.60s\"", name);
}

ACL_FACT(aclDataType, aclmdlGetInputDataType, (const aclmdlDesc *modelDesc, size_t index),
         end_at(modelDesc, false, index) != NULL, ACL_FLOAT, ACL_DT_UNDEFINED)
ACL_FACT(aclDataType, aclmdlGetOutputDataType, (const aclmdlDesc *modelDesc, size_t index),
         end_at(modelDesc, true, index) != NULL, ACL_FLOAT, ACL_DT_UNDEFINED)

static aclFormat format_of(const struct end *end)
{
    WEIR_ASSERT(end != NULL);
    return end->dims.dimCount == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
}

ACL_FACT(aclFormat, aclmdlGetInputFormat, (const aclmdlDesc *modelDesc, size_t index),
         end_at(modelDesc, false, index) != NULL, format_of(end_at(modelDesc, false, index)), ACL_FORMAT_UNDEFINED)
ACL_FACT(aclFormat, aclmdlGetOutputFormat, (const aclmdlDesc *modelDesc, size_t index),
         end_at(modelDesc, true, index) != NULL, format_of(end_at(modelDesc, true, index)), ACL_FORMAT_UNDEFINED)
