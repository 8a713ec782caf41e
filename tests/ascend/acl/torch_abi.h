/* torch_abi.h: the C functions of torch_abi.c that torch_abi.cc calls, with the types of weir/torch.h for C++ hosts. */
#ifndef TORCH_ABI_H
#define TORCH_ABI_H

#include <weir/torch.h>

/* The arguments that a function has received. */
struct received {
    int device;
    weir_torch_pool_id id;
    double fraction;
    int64_t small;
    bool flag;
    const void *hidden;
};

#endif
