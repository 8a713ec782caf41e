/* bindings/cuda/device/src/error.c: the meaning of the driver's codes, and the calling thread's last failure.
 *
 * Names and texts are the driver's own (cuGetErrorName, cuGetErrorString). Cost: nothing for a call that succeeds.
 */
#include "cuda_internal.h"

static _Thread_local weir__native_failure last;

static weir_status status_of(CUresult code)
{
    return code == CU_ERROR_OUT_OF_MEMORY   ? WEIR_ERR_NO_MEMORY
           : code == CU_ERROR_NOT_SUPPORTED ? WEIR_ERR_UNSUPPORTED
                                            : WEIR_ERR_DEVICE;
}

weir_status weir__cuda_result(const char *call, CUresult code)
{
    if (code == CU_SUCCESS) {
        return WEIR_OK;
    }
    WEIR_ASSERT(weir__cuda_is_loaded());
    const char *name = NULL;
    const char *text = NULL;
    if (weir__cuda.cuGetErrorName(code, &name) != CU_SUCCESS || name == NULL) {
        name = "CUDA_ERROR_UNKNOWN";
    }
    if (weir__cuda.cuGetErrorString(code, &text) != CU_SUCCESS || text == NULL) {
        text = "a code that the driver does not know";
    }
    return weir__native_failed(&last, status_of(code), call, code, name, text);
}

void weir__cuda_last(int *cuda_error, const char **text)
{
    *cuda_error = last.code;
    *text = last.text;
}

weir_status weir_cuda_error(int *cuda_error, const char **text)
{
    weir__native_read(&last, cuda_error, text);
    return WEIR_OK;
}
