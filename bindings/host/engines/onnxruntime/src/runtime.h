/* runtime.h: the parts of ONNX Runtime's C ABI that the binding uses.
 *
 * ONNX Runtime's tables grow only at their ends, and a runtime of version 1.N offers the table of every version up to
 * N, so a function is found by its index in the table. tests/host/engines/onnxruntime_layout.c compares indices and
 * layouts with the vendor's header if there is one (WEIR_ONNXRUNTIME_INCLUDE; done with version 21); the tests that run
 * 1.28 and 1.30 cover the additions of later versions.
 */
#ifndef WEIR_ONNXRUNTIME_RUNTIME_H
#define WEIR_ONNXRUNTIME_RUNTIME_H

#include <weir/onnxruntime.h>

typedef struct OrtStatus OrtStatus;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
struct OrtApi;
struct OrtSyncStream;

struct OrtApiBase {
    const struct OrtApi *(*GetApi)(uint32_t version); /* NULL if the runtime is older than `version` */
    const char *(*GetVersionString)(void);            /* "1.28.2" */
};

/* A runtime reads the members after Info only if it is of the version in their comment or later. */
struct OrtAllocator {
    uint32_t version;
    void *(*Alloc)(struct OrtAllocator *self, size_t size);
    void (*Free)(struct OrtAllocator *self, void *block);
    const struct OrtMemoryInfo *(*Info)(const struct OrtAllocator *self);
    void *(*Reserve)(struct OrtAllocator *self, size_t size);                                     /* since version 18 */
    OrtStatus *(*GetStats)(const struct OrtAllocator *self, OrtKeyValuePairs **stats);            /* since version 23 */
    void *(*AllocOnStream)(struct OrtAllocator *self, size_t size, struct OrtSyncStream *stream); /* since version 23 */
    OrtStatus *(*Shrink)(struct OrtAllocator *self);                                              /* since version 25 */
};

enum {
    OLDEST_VERSION = 12,  /* oldest version whose table was compared with the vendor's header */
    NEWEST_VERSION = 25,  /* struct OrtAllocator has the members of all versions up to this one */
    RESERVE_VERSION = 18, /* in this and the next two versions, struct OrtAllocator got another member */
    STATS_VERSION = 23,
    SHRINK_VERSION = 25,

    CODE_FAIL = 1,          /* a value of OrtErrorCode */
    DEVICE_ALLOCATOR = 0,   /* a value of OrtAllocatorType */
    MEMORY_TYPE_DEFAULT = 0 /* a value of OrtMemType */
};

/* X(name, index in OrtApi, result, parameters) */
#define WEIR_ONNXRUNTIME_API(X)                                                                                        \
    X(CreateStatus, 0, OrtStatus *, (int code, const char *text))                                                      \
    X(GetErrorMessage, 2, const char *, (const OrtStatus *status))                                                     \
    X(CreateCpuMemoryInfo, 69, OrtStatus *, (int allocator_type, int memory_type, struct OrtMemoryInfo **info))        \
    X(CompareMemoryInfo, 70, OrtStatus *,                                                                              \
      (const struct OrtMemoryInfo *one, const struct OrtMemoryInfo *other, int *differ))                               \
    X(ReleaseStatus, 93, void, (OrtStatus * status))                                                                   \
    X(ReleaseMemoryInfo, 94, void, (struct OrtMemoryInfo * info))                                                      \
    X(AddSessionConfigEntry, 130, OrtStatus *,                                                                         \
      (struct OrtSessionOptions * options, const char *key, const char *value))                                        \
    X(RegisterAllocator, 176, OrtStatus *, (struct OrtEnv * env, struct OrtAllocator * allocator))                     \
    X(UnregisterAllocator, 177, OrtStatus *, (struct OrtEnv * env, const struct OrtMemoryInfo *info))

/* X as in WEIR_ONNXRUNTIME_API: functions of OrtApi that only version 23 and later have. */
#define WEIR_ONNXRUNTIME_API_STATS(X)                                                                                  \
    X(CreateKeyValuePairs, 295, void, (OrtKeyValuePairs * *pairs))                                                     \
    X(AddKeyValuePair, 296, void, (OrtKeyValuePairs * pairs, const char *key, const char *value))

struct runtime {
    uint32_t version;
#define MEMBER(name, place, result, parameters) result(*name) parameters;
    WEIR_ONNXRUNTIME_API(MEMBER)
    WEIR_ONNXRUNTIME_API_STATS(MEMBER)
#undef MEMBER
};

/* throw.cc: throws std::bad_alloc with this text. */
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((noreturn)) void weir__onnxruntime_throw(const char *text);
#ifdef __cplusplus
}
#endif

#endif
