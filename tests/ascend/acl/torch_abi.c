/* torch_abi.c: the callee in C. See torch_abi.cc. */
#include "torch_abi.h"

struct received abi_received;

void abi_end(int device, weir_torch_pool_id id);
void abi_end(int device, weir_torch_pool_id id)
{
    abi_received.device = device;
    abi_received.id = id;
}

void abi_begin(int device, weir_torch_pool_id id, const void *filter);
void abi_begin(int device, weir_torch_pool_id id, const void *filter)
{
    abi_end(device, id);
    abi_received.hidden = filter;
}

void abi_fraction(double fraction, int device);
void abi_fraction(double fraction, int device)
{
    abi_received.fraction = fraction;
    abi_received.device = device;
}

void abi_small(int8_t device);
void abi_small(int8_t device)
{
    abi_received.small = device;
}

void abi_flag(bool flag);
void abi_flag(bool flag)
{
    abi_received.flag = flag;
}

void abi_record(void *ptr, const void *stream);
void abi_record(void *ptr, const void *stream)
{
    (void)ptr;
    abi_received.hidden = stream;
}
