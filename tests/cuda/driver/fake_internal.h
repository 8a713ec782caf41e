/* tests/cuda/driver/fake_internal.h: shared declarations of the double.
 *
 *     fake_process.c  the machine: devices, contexts, faults, findings
 *     fake_memory.c   regions, virtual memory, pinned host memory, copies
 *     fake_order.c    streams, events, captures, work
 *     fake_kernels.c  the kernels of benchmarks/gpu, computed on the host
 *
 * fake_lock guards every table. Calls of the simulators that may run a program's functions are made without it.
 */
#ifndef FAKE_INTERNAL_H
#define FAKE_INTERNAL_H

#include "fake_names.h"

#include <pthread.h>
#include <weir/sim.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

struct fake_device {
    weir_sim *sim;
    weir_device *device;
    CUcontext primary; /* alive while it is retained */
    unsigned retained;
};

struct CUstream_st {
    struct CUstream_st *next;
    CUcontext context;
    weir_sim_stream *sim; /* NULL: the simulator's default stream */
    bool waits_for_legacy;
    int capture; /* CU_CAPTURE_... */
    int mode;    /* mode of the capture */
    pthread_t owner;
    CUstream origin;          /* the stream on which the capture began */
    struct fake_graph *graph; /* of the origin: what is being captured */
};

/* An object that graphs hold. The double lets one graph hold it. */
struct CUuserobject_st {
    struct CUuserobject_st *next;
    void (*ended)(void *data);
    void *data;
};

struct fake_graph {
    unsigned long long id;
    CUuserobject objects;
};

struct CUctx_st {
    int device;
    bool alive;
    struct CUstream_st legacy;
};

struct CUevent_st {
    struct CUevent_st *next;
    CUcontext context;
    weir_event *event;
    /* origin of the capture in which the event was recorded last; NULL: it was not recorded in a capture */
    CUstream captured;
};

extern pthread_mutex_t fake_lock;
extern struct fake_device fake_devices[FAKE_CUDA_DEVICES];
extern unsigned fake_lacks;
extern _Thread_local int fake_mode; /* the thread's capture mode */

/* Called at the beginning of a call of the driver. Returns the code with which this call has to fail, CU_SUCCESS if no
 * fault is due. A call that fails has no effect. */
CUresult fake_struck(const char *function);
#define FAKE_ENTRY()                                                                                                   \
    do {                                                                                                               \
        const CUresult struck_ = fake_struck(__func__);                                                                \
        if (struck_ != CU_SUCCESS) {                                                                                   \
            return struck_;                                                                                            \
        }                                                                                                              \
    } while (0)
/* Like FAKE_ENTRY, for a call that needs a current context; defines the variable `name` as this context. */
#define FAKE_ENTRY_IN(name)                                                                                            \
    FAKE_ENTRY();                                                                                                      \
    CUcontext name = fake_current();                                                                                   \
    if (name == NULL) {                                                                                                \
        return CU_ERROR_INVALID_CONTEXT;                                                                               \
    }

CUcontext fake_current(void);
CUresult fake_code(weir_status status);

/* --- fake_memory.c --- */

/* True if the device may touch the range: every mapping in it names the device. */
bool fake_reachable(int device, CUdeviceptr address, uint64_t size);
/* Frees all entries and returns how many there were. */
unsigned fake_end_memory(void);

/* --- fake_order.c --- */

/* Returns the stream that a handle denotes in the current context. */
CUstream fake_stream(CUcontext context, CUstream stream);
/* Returns CU_SUCCESS if the thread may now make a call that is unsafe during a capture. Otherwise the call has
 * invalidated the captures. */
CUresult fake_unsafe(void);
/* Returns CU_SUCCESS if work may be queued on the stream now. *captured is true if the work becomes a node of a graph
 * and is not run. */
CUresult fake_take_work(CUstream stream, bool *captured);
void fake_end_streams(void);

#endif
