/* torch_abi.h: what torch_abi.c defines for torch_abi.cc: functions in C with the shapes that weir/torch.h gives to a C++ host. */
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
