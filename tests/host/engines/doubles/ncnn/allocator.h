/* allocator.h: a double of ncnn's interface for allocators. */
#ifndef DOUBLE_NCNN_ALLOCATOR_H
#define DOUBLE_NCNN_ALLOCATOR_H

#include <cstddef>

namespace ncnn
{

class Allocator
{
  public:
    virtual ~Allocator() = default;
    virtual void *fastMalloc(size_t size) = 0;
    virtual void fastFree(void *block) = 0;
};

} // namespace ncnn

#endif
