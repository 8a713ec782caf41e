/* Compares weir's declarations of ONNX Runtime's C ABI with the vendor's header: the positions of functions, and the
 * layout of the structs that both sides use. The compiler makes the comparison; the program prints the version. The
 * vendor's header precedes weir's here and follows it in onnxruntime_after.cc. */
#include <onnxruntime_c_api.h>

#include <weir/onnxruntime.h>

#include <stddef.h>
#include <stdio.h>

/* weir's structs under other names. */
#define OrtAllocator WeirOrtAllocator
#define OrtApiBase WeirOrtApiBase
#include "runtime.h" /* of the binding */
#undef OrtAllocator
#undef OrtApiBase
#define OrtApiBase ProgramOrtApiBase
#include <engines/onnx_api.h>
#undef OrtApiBase

#define SAME_PLACE(name, place, result, parameters)                                                                    \
    _Static_assert(offsetof(struct OrtApi, name) == (place) * sizeof(void (*)(void)), #name);
WEIR_ONNXRUNTIME_API(SAME_PLACE)
ONNX_API(SAME_PLACE)
#if ORT_API_VERSION >= 23
WEIR_ONNXRUNTIME_API_STATS(SAME_PLACE)
ONNX_API_STATS(SAME_PLACE)
#endif

#define SAME_OFFSET(type, ours, member)                                                                                \
    _Static_assert(offsetof(struct type, member) == offsetof(struct ours, member), #member);
SAME_OFFSET(OrtApiBase, WeirOrtApiBase, GetApi)
SAME_OFFSET(OrtApiBase, WeirOrtApiBase, GetVersionString)
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, version)
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, Alloc)
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, Free)
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, Info)
#if ORT_API_VERSION >= 18
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, Reserve)
#endif
#if ORT_API_VERSION >= 23
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, GetStats)
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, AllocOnStream)
#endif
#if ORT_API_VERSION >= 25
SAME_OFFSET(OrtAllocator, WeirOrtAllocator, Shrink)
#endif

_Static_assert((int)CODE_FAIL == (int)ORT_FAIL, "OrtErrorCode");
_Static_assert((int)DEVICE_ALLOCATOR == (int)OrtDeviceAllocator, "OrtAllocatorType");
_Static_assert((int)MEMORY_TYPE_DEFAULT == (int)OrtMemTypeDefault, "OrtMemType");

int main(void)
{
    (void)printf("the same as in the vendor's header of version %d\n", ORT_API_VERSION);
    return 0;
}
