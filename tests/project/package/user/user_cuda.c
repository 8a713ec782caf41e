/* The smallest use of weir::cuda: it links without CUDA, and prints a reason where there is no driver. */
#include <stdio.h>
#include <string.h>
#include <weir/cuda.h>

int main(void)
{
    weir_device *device = NULL;
    const weir_status status = weir_cuda_device_create(NULL, &device);
    if (status == WEIR_OK && weir_device_destroy(device) != WEIR_OK) return 1;
    if (status != WEIR_OK && (status != WEIR_ERR_UNSUPPORTED || strstr(weir_last_error(), "libcuda.so.1") == NULL))
        return 2;
    printf("weir %s\n", weir_version());
    return 0;
}
