/* onnx_api.h: the calls of ONNX Runtime that onnxruntime.c and the tests make.
 *
 * A user's program includes the vendor's onnxruntime_c_api.h instead and writes api->Run for ort.Run. No Debian package
 * has that header, and these programs must build without it. So this header lists the calls by their positions in the
 * vendor's table, to which new versions only append (bindings/host/engines/onnxruntime/src/runtime.h).
 */
#ifndef WEIR_BENCHMARKS_ONNX_API_H
#define WEIR_BENCHMARKS_ONNX_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct OrtApi;
struct OrtApiBase { /* result of OrtGetApiBase */
    const struct OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

typedef struct OrtAllocator OrtAllocator;
typedef struct OrtEnv OrtEnv;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtStatus OrtStatus;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtValue OrtValue;

enum { ORT_WARNING = 2, ORT_ERROR = 3, ORT_FATAL = 4, ORT_FLOAT = 1, ORT_INT64 = 7 };

/* X(function name, position in the vendor's table, result type, parameters) */
#define ONNX_API(X)                                                                                                    \
    X(GetErrorMessage, 2, const char *, (const OrtStatus *))                                                           \
    X(CreateEnv, 3, OrtStatus *, (int level, const char *name, OrtEnv **))                                             \
    X(CreateSessionFromArray, 8, OrtStatus *,                                                                          \
      (const OrtEnv *, const void *, size_t, const OrtSessionOptions *, OrtSession **))                                \
    X(Run, 9, OrtStatus *,                                                                                             \
      (OrtSession *, const OrtRunOptions *, const char *const *input_names, const OrtValue *const *inputs, size_t,     \
       const char *const *output_names, size_t, OrtValue **outputs))                                                   \
    X(CreateSessionOptions, 10, OrtStatus *, (OrtSessionOptions **))                                                   \
    X(DisableMemPattern, 17, OrtStatus *, (OrtSessionOptions *))                                                       \
    X(DisableCpuMemArena, 19, OrtStatus *, (OrtSessionOptions *))                                                      \
    X(SetIntraOpNumThreads, 24, OrtStatus *, (OrtSessionOptions *, int))                                               \
    X(RegisterCustomOpsLibrary, 29, OrtStatus *, (OrtSessionOptions *, const char *path, void **library))              \
    X(CreateTensorAsOrtValue, 48, OrtStatus *,                                                                         \
      (OrtAllocator *, const int64_t *dims, size_t rank, int type, OrtValue **))                                       \
    X(CreateTensorWithDataAsOrtValue, 49, OrtStatus *,                                                                 \
      (const OrtMemoryInfo *, void *data, size_t size, const int64_t *dims, size_t rank, int type, OrtValue **))       \
    X(GetTensorMutableData, 51, OrtStatus *, (OrtValue *, void **))                                                    \
    X(GetTensorShapeElementCount, 64, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, size_t *))                      \
    X(GetTensorTypeAndShape, 65, OrtStatus *, (const OrtValue *, OrtTensorTypeAndShapeInfo **))                        \
    X(CreateCpuMemoryInfo, 69, OrtStatus *, (int allocator_type, int memory_type, OrtMemoryInfo **))                   \
    X(AllocatorAlloc, 75, OrtStatus *, (OrtAllocator *, size_t, void **))                                              \
    X(AllocatorFree, 76, OrtStatus *, (OrtAllocator *, void *))                                                        \
    X(AllocatorGetInfo, 77, OrtStatus *, (const OrtAllocator *, const OrtMemoryInfo **))                               \
    X(ReleaseEnv, 92, void, (OrtEnv *))                                                                                \
    X(ReleaseStatus, 93, void, (OrtStatus *))                                                                          \
    X(ReleaseMemoryInfo, 94, void, (OrtMemoryInfo *))                                                                  \
    X(ReleaseSession, 95, void, (OrtSession *))                                                                        \
    X(ReleaseValue, 96, void, (OrtValue *))                                                                            \
    X(ReleaseTensorTypeAndShapeInfo, 99, void, (OrtTensorTypeAndShapeInfo *))                                          \
    X(ReleaseSessionOptions, 100, void, (OrtSessionOptions *))                                                         \
    X(AddSessionConfigEntry, 130, OrtStatus *, (OrtSessionOptions *, const char *, const char *))                      \
    X(CreateAllocator, 131, OrtStatus *, (const OrtSession *, const OrtMemoryInfo *, OrtAllocator **))                 \
    X(ReleaseAllocator, 132, void, (OrtAllocator *))

/* Calls of ONNX Runtime that exist from API version 23 on. */
#define ONNX_API_STATS(X)                                                                                              \
    X(GetKeyValue, 297, const char *, (const OrtKeyValuePairs *, const char *key))                                     \
    X(ReleaseKeyValuePairs, 300, void, (OrtKeyValuePairs *))                                                           \
    X(AllocatorGetStats, 319, OrtStatus *, (const OrtAllocator *, OrtKeyValuePairs **))

struct onnx_api {
    /* API version, such as 28 for runtime 1.28; calls that version 23 added are NULL in older versions */
    uint32_t version;
#define MEMBER(name, place, result, parameters) result(*name) parameters;
    ONNX_API(MEMBER)
    ONNX_API_STATS(MEMBER)
#undef MEMBER
};

/* Loads a libonnxruntime.so, which is never unloaded, and finds its calls. On failure prints the reason on standard
 * error and returns false. */
bool onnx_api_load(const char *library, const struct OrtApiBase **base, struct onnx_api *api);

#endif
