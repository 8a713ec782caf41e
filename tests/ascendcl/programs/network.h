/* network.h: runs a loaded model with inputs of any size. Include rig/acl.h and scenario.h first. */
#ifndef WEIR_ACL_NETWORK_H
#define WEIR_ACL_NETWORK_H

#include <acl/acl_mdl.h>

#include <stdint.h>
#include <stdlib.h>

/* An image on the device, and memory for 1,000 output numbers. */
struct image {
    aclmdlDataset *in, *out;
    void *in_memory, *out_memory;
    int64_t width, height;
};

static inline void set_add(aclmdlDataset *set, void *memory, size_t bytes)
{
    aclDataBuffer *buffer = aclCreateDataBuffer(memory, bytes);
    CHECK(buffer != NULL);
    OK(aclmdlAddDatasetBuffer(set, buffer));
}

static inline void set_shape(aclmdlDataset *set, int64_t channels, int64_t height, int64_t width)
{
    const int64_t dims[] = {1, channels, height, width};
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 4, dims, ACL_FORMAT_NCHW);
    CHECK(desc != NULL);
    OK(aclmdlSetDatasetTensorDesc(set, desc, 0));
    aclDestroyTensorDesc(desc);
}

enum { IMAGE_OUT = 1000 };

/* Creates an image. Its contents depend only on its size. */
static inline struct image image_create(int64_t width, int64_t height)
{
    struct image m = {aclmdlCreateDataset(), aclmdlCreateDataset(), NULL, NULL, width, height};
    const size_t bytes = (size_t)(width * height) * 3 * sizeof(float);
    CHECK(m.in != NULL && m.out != NULL);
    OK(aclrtMalloc(&m.in_memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&m.out_memory, IMAGE_OUT * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(m.in_memory, bytes, (int32_t)((width * 31 + height) & 255), bytes));
    OK(aclrtMemset(m.out_memory, IMAGE_OUT * sizeof(float), 0, IMAGE_OUT * sizeof(float)));
    set_add(m.in, m.in_memory, bytes);
    set_shape(m.in, 3, height, width);
    set_add(m.out, m.out_memory, IMAGE_OUT * sizeof(float));
    return m;
}

static inline void set_drop(aclmdlDataset *set)
{
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(set); i++) {
        OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(set, i)));
    }
    OK(aclmdlDestroyDataset(set));
}

static inline void image_drop(struct image *m)
{
    set_drop(m->in);
    set_drop(m->out);
    OK(aclrtFree(m->in_memory));
    OK(aclrtFree(m->out_memory));
}

/* Copies the output; its stream must be synchronised. */
static inline void image_read(const struct image *m, float out[IMAGE_OUT])
{
    OK(aclrtMemcpy(out, IMAGE_OUT * sizeof(float), m->out_memory, IMAGE_OUT * sizeof(float),
                   ACL_MEMCPY_DEVICE_TO_HOST));
}

static inline uint32_t load(const char *name)
{
    char path[1024];
    uint32_t id = 0;
    (void)snprintf(path, sizeof(path), "%s/%s.param", WEIR_NETWORKS_DIR, name);
    OK(aclmdlLoadFromFile(path, &id));
    return id;
}

#endif
