/* plan.c: the memory of each blob, and the layer after which that memory is freed.
 *
 * Idea. Layers run in the order of the file. A view shares its input's memory. A layer that may write over its input
 * does so when no later layer needs that input. Every other output gets memory of its own. Memory is freed after the
 * last layer that touches it under any name.
 *
 * Guarantee: of the blobs that share memory, none is read after another was written over it. The caller's inputs are
 * never written. An output of the network lies in the caller's buffer, unless it is a second name for such memory.
 * Cost: linear, once for each network.
 */
#include "network.h"

#include <stdlib.h>

struct planner {
    const acl__network *network;
    acl__plan *plan;
    uint32_t *pending; /* [storage]: number of reads still to come, by layers or by the caller */
};

static uint32_t new_storage(struct planner *p, acl__storage_kind kind, uint32_t index, uint32_t layer)
{
    WEIR_ASSERT(p->plan->storage_count < p->network->blob_count);
    WEIR_ASSERT(kind != ACL__STORAGE_OUTPUT);
    uint32_t s = p->plan->storage_count++;
    p->plan->storages[s] = (acl__storage){kind, index, layer, layer};
    return s;
}

static void place_blob(struct planner *p, uint32_t blob, uint32_t storage)
{
    WEIR_ASSERT(blob < p->network->blob_count && storage < p->plan->storage_count);
    uint32_t uses = p->network->blobs[blob].consumers;
    p->plan->storage_of[blob] = storage;
    p->pending[storage] += uses > 0 ? uses : 1;
}

/* Returns the storage of the layer's first input if the output may share it; UINT32_MAX otherwise. */
static uint32_t shared_storage(const struct planner *p, const acl__layer *layer)
{
    acl__layer_class class = acl__layer_class_of(layer->kind);
    if (class != ACL__CLASS_VIEW && class != ACL__CLASS_INPLACE) {
        return UINT32_MAX;
    }
    uint32_t s = p->plan->storage_of[acl__layer_bottom(p->network, layer, 0)];
    bool alone = p->pending[s] == 1 && p->plan->storages[s].kind == ACL__STORAGE_INTERNAL;
    return class == ACL__CLASS_VIEW || alone ? s : UINT32_MAX;
}

static void plan_layer(struct planner *p, uint32_t l, uint32_t *inputs)
{
    const acl__layer *layer = &p->network->layers[l];
    uint32_t shared = layer->bottom_count > 0 ? shared_storage(p, layer) : UINT32_MAX;
    for (uint32_t i = 0; i < layer->bottom_count; i++) {
        uint32_t s = p->plan->storage_of[acl__layer_bottom(p->network, layer, i)];
        WEIR_ASSERT(p->pending[s] > 0 && p->pending[s] != UINT32_MAX);
        p->pending[s]--;
        p->plan->storages[s].last = l;
    }
    for (uint32_t i = 0; i < layer->top_count; i++) {
        uint32_t s = shared;
        if (layer->kind == ACL__LAYER_INPUT) {
            s = new_storage(p, ACL__STORAGE_INPUT, (*inputs)++, l);
        } else if (s == UINT32_MAX) {
            s = new_storage(p, ACL__STORAGE_INTERNAL, 0, l);
        }
        place_blob(p, acl__layer_top(p->network, layer, i), s);
    }
}

/* Gives each output of the network the caller's buffer as its storage, so that the layer that produces the output
 * writes it there. */
static void bind_outputs(struct planner *p)
{
    for (uint32_t i = 0; i < p->network->output_count; i++) {
        acl__storage *s = &p->plan->storages[p->plan->storage_of[p->network->outputs[i]]];
        if (s->kind == ACL__STORAGE_INTERNAL) {
            s->kind = ACL__STORAGE_OUTPUT;
            s->index = i;
        }
    }
}

/* For each layer, lists the memory that is freed after it, in the order in which the layer names this memory. Memory
 * that no layer reads is freed after the layer that made it. */
static void collect_gone(struct planner *p)
{
    acl__plan *plan = p->plan;
    uint32_t used = 0;
    for (uint32_t l = 0; l < p->network->layer_count; l++) {
        const acl__layer *layer = &p->network->layers[l];
        plan->gone_first[l] = used;
        for (uint32_t i = 0; i < layer->bottom_count + layer->top_count; i++) {
            uint32_t blob = i < layer->bottom_count ? acl__layer_bottom(p->network, layer, i)
                                                    : acl__layer_top(p->network, layer, i - layer->bottom_count);
            uint32_t s = plan->storage_of[blob];
            bool ends = plan->storages[s].kind == ACL__STORAGE_INTERNAL && plan->storages[s].last == l;
            if (ends && p->pending[s] != UINT32_MAX) {
                p->pending[s] = UINT32_MAX; /* a layer may name the memory twice: list it once */
                plan->gone[used++] = s;
                WEIR_ASSERT(used <= plan->storage_count);
            }
        }
    }
    plan->gone_first[p->network->layer_count] = used;
}

acl__plan *acl__plan_create(const acl__network *network)
{
    WEIR_ASSERT(network->blob_count > 0 && network->layer_count > 0);
    acl__plan *plan = calloc(1, sizeof(*plan));
    uint32_t *pending = calloc(network->blob_count, sizeof(*pending));
    if (plan != NULL && pending != NULL) {
        plan->storage_of = calloc(network->blob_count, sizeof(*plan->storage_of));
        plan->storages = calloc(network->blob_count, sizeof(*plan->storages));
        plan->gone = calloc(network->blob_count, sizeof(*plan->gone));
        plan->gone_first = calloc((size_t)network->layer_count + 1, sizeof(*plan->gone_first));
    }
    if (plan == NULL || pending == NULL || plan->storage_of == NULL || plan->storages == NULL || plan->gone == NULL ||
        plan->gone_first == NULL) {
        free(pending);
        acl__plan_free(plan);
        return NULL;
    }
    struct planner p = {network, plan, pending};
    uint32_t inputs = 0;
    for (uint32_t l = 0; l < network->layer_count; l++) {
        plan_layer(&p, l, &inputs);
    }
    bind_outputs(&p);
    collect_gone(&p);
    free(pending);
    return plan;
}

void acl__plan_free(acl__plan *plan)
{
    if (plan == NULL) {
        return;
    }
    free(plan->storage_of);
    free(plan->storages);
    free(plan->gone);
    free(plan->gone_first);
    free(plan);
}
