/* The dry-run driver's state and lock, how an entry point begins, and handles. driver.c says what the driver promises;
 * objects.h has the objects and their functions.
 *
 * The files form layers: a file calls functions of the layers above it in this list only, and within a layer there are no
 * circles (tests/dryrun/test_layers.py).
 *
 *   state      state, handles, profiles, errors
 *   machine    settings, devices, capture_rules, contexts
 *   memory     memory, copies, pointers, graph_memory
 *   code       libraries, image, cubin, ptx, kernels, occupancy, launch
 *   graphs     graphs, captures
 *   streams    streams, events
 *   work       library_calls, capture_calls, copy_calls, launch_calls, pools, graph_parameters, graph_add, graph_exec,
 *              graph_update, graph_debug
 *   entry      watch (tells a listener of graph calls), lookup (cuGetProcAddress), driver (start, counters) */
#ifndef KERNELSCOPE_DRYRUN_DRIVER_H
#define KERNELSCOPE_DRYRUN_DRIVER_H

/* The driver's own view of cuda.h: every function under its binary name (cuMemAlloc_v2, cuCtxCreate_v4, ...), so that
 * the compiler checks each of our definitions against the header, be it CUDA 12's or CUDA 13's. */
#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
CUresult CUDAAPI cuProfilerStart(void); /* of cudaProfiler.h, which is in another package */
CUresult CUDAAPI cuProfilerStop(void);
#if CUDA_VERSION < 13000 /* CUDA 13's: a driver of 12 does not give them out, but they are compiled all the same */
CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx);
CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type);
CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type);
CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);
#endif
#pragma GCC visibility pop

#if CUDA_VERSION < 12080
#error "the dry run needs the cuda.h of CUDA 12.8 or newer"
#endif

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DEVICES 8
#define WARP_SIZE 32
#define MAX_THREADS_PER_BLOCK 1024
#define REGISTERS_PER_SM 65536
#define DEFAULT_SHARED_PER_BLOCK 49152 /* more than this needs cuFuncSetAttribute, as on every GPU */

/* ---- the driver's state (state.c) ---- */

typedef struct Device {
    const struct Profile *profile; /* of its compute capability (profiles.c) */
    size_t bytes_in_use;
    struct Pool *default_pool, *current_pool;
    cuuint64_t graph_memory, graph_memory_high; /* bytes that graphs have allocated */
} Device;

typedef struct State {
    pthread_mutex_t lock; /* held in every entry point, never in a caller's callback */
    bool initialized, forked, settings_valid;
    bool null_stream_per_thread; /* a caller asked cuGetProcAddress for per-thread default streams */
    int driver_version, device_count;
    Device devices[MAX_DEVICES];
    unsigned long long next_id;
    unsigned long long launches, captured_launches, graph_launches, graph_kernels;
} State;

extern State state;

unsigned long long new_id(void);

/* What an entry point does first: count the call, take the lock until it returns, refuse before cuInit. */
typedef struct CallCounter {
    const char *name;
    unsigned long long calls;
    struct CallCounter *next;
} CallCounter;

extern CallCounter *counters; /* of the functions that were called, in the order of their first calls */

void driver_lock(void);
void driver_unlock(void);
void count_call(CallCounter *counter);
int enter(CallCounter *counter);
void leave(int *entered); /* unlocks, then runs what call_after_unlock() put off */
void call_after_unlock(CUhostFn function, void *argument);

#define ENTER_UNINITIALIZED()                           \
    static CallCounter counter_ = {__func__, 0, NULL};  \
    int entered_ __attribute__((cleanup(leave), unused)) = enter(&counter_)

#define ENTER()            \
    ENTER_UNINITIALIZED(); \
    if (!state.initialized) return CUDA_ERROR_NOT_INITIALIZED

/* Define `context`, which must be current. */
#define REQUIRE_CONTEXT()                             \
    Context *context = NULL;                          \
    CUresult current_ = context_current(&context);    \
    if (current_ != CUDA_SUCCESS) return current_

#define ENTER_CONTEXT() \
    ENTER();            \
    REQUIRE_CONTEXT()

/* As ENTER, for calls about one device, stream, kernel, graph or node, which must be there. The last four define it. */
#define ENTER_DEVICE(device) \
    ENTER();                 \
    REQUIRE(device_exists(device), CUDA_ERROR_INVALID_DEVICE)

#define ENTER_STREAM(handle)                                    \
    ENTER_CONTEXT();                                            \
    Stream *stream = NULL;                                      \
    CHECK(stream_find(context, handle, &stream))

#define ENTER_OBJECT(Type, name, find, error)  \
    ENTER();                                   \
    Type *name = find;                         \
    REQUIRE(name, error)

#define ENTER_KERNEL(handle) ENTER_OBJECT(Kernel, kernel, kernel_find((CUfunction)(handle)), CUDA_ERROR_INVALID_HANDLE)
#define ENTER_GRAPH(handle) ENTER_OBJECT(Graph, graph, graph_find(handle), CUDA_ERROR_INVALID_VALUE)
#define ENTER_NODE(handle) ENTER_OBJECT(Node, node, node_find(handle), CUDA_ERROR_INVALID_VALUE)

/* Return the error of an expression, if it has one. */
#define CHECK(expression)                              \
    do {                                               \
        CUresult check_ = (expression);                \
        if (check_ != CUDA_SUCCESS) return check_;     \
    } while (0)

#define REQUIRE(condition, error)          \
    do {                                   \
        if (!(condition)) return (error);  \
    } while (0)

#define REQUIRE_ARGUMENT(condition) REQUIRE(condition, CUDA_ERROR_INVALID_VALUE)

/* End a call with a value for its caller. */
#define ANSWER(out, value)      \
    do {                        \
        REQUIRE_ARGUMENT(out);  \
        *(out) = (value);       \
        return CUDA_SUCCESS;    \
    } while (0)

/* A parameter that nothing here depends on. */
#define UNUSED(type, name) __attribute__((unused)) type name
#define UNUSED_CONTEXT UNUSED(CUcontext, context)
#define UNUSED_EDGES UNUSED(const CUgraphEdgeData *, edges)

/* Memory for the driver's own bookkeeping; running out of it ends the process. */
void *allocate(size_t count, size_t size); /* zeroed */
void *reallocate(void *block, size_t count, size_t size);
char *duplicate_text(const char *text, size_t length);

/* ---- handles (handles.c) ---- */

typedef enum Kind {
    KIND_NONE, KIND_CONTEXT, KIND_STREAM, KIND_EVENT, KIND_LIBRARY, KIND_KERNEL,
    KIND_GRAPH, KIND_NODE, KIND_EXEC, KIND_POOL, KIND_USER_OBJECT,
} Kind;

void *handle_new(Kind kind, void *object);
void *handle_object(const void *handle, Kind kind); /* NULL for a wrong, freed or made-up handle */
void handle_free(const void *handle);

#include "objects.h"

#endif
