/* Telling a listener of calls that make, change and destroy graphs, as CUPTI's callbacks of the driver's interface do:
 * before and after the call, with its parameters and its result. Whoever looks a function up gets the one from here;
 * a caller of the exported symbol itself, such as the listener, is not told of.
 *
 * Launches of graphs are written to a log instead: a call of Python's for each would cost more than the launch. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
#define WATCHED(name, ...) WATCHED_##name,
#include "watched.inc"
#undef WATCHED
    WATCHED_COUNT
};

static const char *const names[] = {
#define WATCHED(name, ...) #name,
#include "watched.inc"
#undef WATCHED
};

#define WATCHED(name, ...) extern __typeof__(name) watched_##name;
#include "watched.inc"
WATCHED(cuGraphLaunch)
#undef WATCHED

/* The layout of CUpti_CallbackData. */
typedef struct CallbackData {
    int site; /* 0 before the call, 1 after it */
    const char *name;
    const void *parameters;
    CUresult *result;
    const char *symbol;
    CUcontext context;
    uint32_t context_id;
    uint64_t *correlation_data; /* the listener's own: the same before and after the call */
    uint32_t correlation_id;
} CallbackData;

typedef void (*Listener)(const CallbackData *);

static Listener listener;
static bool watched[WATCHED_COUNT];
static uint32_t correlation;

typedef struct GraphLaunch {
    uint64_t exec, stream, thread;
    int64_t start_ns, end_ns, result;
} GraphLaunch;

static bool logging;
static GraphLaunch *launches;
static size_t launch_count, launch_capacity;

/* ---- what the listener calls ---- */

#pragma GCC visibility push(default)

/* NULL for no listener. It must stay callable: another thread may be about to call it. */
void kernelscope_dryrun_listen(Listener function)
{
    __atomic_store_n(&listener, function, __ATOMIC_SEQ_CST);
    __atomic_store_n(&logging, function != NULL, __ATOMIC_SEQ_CST);
}

/* Call back for one function, or no more; 0 where there is none of that name. */
int kernelscope_dryrun_watch(const char *name, int on)
{
    for (int i = 0; i < WATCHED_COUNT; i++) {
        if (strcmp(names[i], name)) continue;
        __atomic_store_n(&watched[i], on != 0, __ATOMIC_SEQ_CST);
        return 1;
    }
    return 0;
}

/* The index-th function that can be watched; NULL after the last. */
const char *kernelscope_dryrun_watchable(unsigned index) { return index < WATCHED_COUNT ? names[index] : NULL; }

/* Copy the first `capacity` launches of graphs out of the log; return how many there are, and keep the others. */
size_t kernelscope_dryrun_take_launches(GraphLaunch *out, size_t capacity)
{
    driver_lock();
    size_t count = launch_count, taken = capacity < count ? capacity : count;
    if (taken) {
        memcpy(out, launches, taken * sizeof *out);
        memmove(launches, launches + taken, (count - taken) * sizeof *out);
        launch_count = count - taken;
    }
    driver_unlock();
    return count;
}

/* A number that no other executable graph of this process has or will have; 0 for a wrong handle. */
uint64_t kernelscope_dryrun_exec_id(CUgraphExec handle)
{
    driver_lock();
    const Exec *exec = exec_find(handle);
    uint64_t id = exec ? exec->id : 0;
    driver_unlock();
    return id;
}

/* A node's number in its graph, from 0, plus 1; 0 for a wrong handle. */
uint64_t kernelscope_dryrun_node_number(CUgraphNode handle)
{
    driver_lock();
    const Node *node = node_find(handle);
    uint64_t number = node ? node->number + 1 : 0;
    driver_unlock();
    return number;
}

#pragma GCC visibility pop

/* ---- telling ---- */

static void tell(int function, CallbackData *data, int site)
{
    Listener told = __atomic_load_n(&listener, __ATOMIC_SEQ_CST);
    if (!told || !__atomic_load_n(&watched[function], __ATOMIC_SEQ_CST)) return;
    data->site = site;
    told(data);
}

/* Make the call, and tell of it before and after; `params` is in scope. */
#define OBSERVE(function, call)                                                                                \
    CUresult result = CUDA_SUCCESS;                                                                            \
    uint64_t listeners = 0;                                                                                    \
    CallbackData data = {.name = #function, .parameters = &params, .result = &result,                          \
                         .correlation_data = &listeners,                                                       \
                         .correlation_id = __atomic_add_fetch(&correlation, 1, __ATOMIC_RELAXED)};             \
    tell(WATCHED_##function, &data, 0);                                                                        \
    result = call;                                                                                             \
    tell(WATCHED_##function, &data, 1);                                                                        \
    return result

/* One function of two, three, ... parameters. */
#define OBSERVED1(name, T1, p1)                          \
    CUresult watched_##name(T1 p1)                       \
    {                                                    \
        struct { T1 a; } params = {p1};                  \
        OBSERVE(name, name(p1));                         \
    }
#define OBSERVED2(name, T1, p1, T2, p2)                  \
    CUresult watched_##name(T1 p1, T2 p2)                \
    {                                                    \
        struct { T1 a; T2 b; } params = {p1, p2};        \
        OBSERVE(name, name(p1, p2));                     \
    }
#define OBSERVED3(name, T1, p1, T2, p2, T3, p3)              \
    CUresult watched_##name(T1 p1, T2 p2, T3 p3)             \
    {                                                        \
        struct { T1 a; T2 b; T3 c; } params = {p1, p2, p3};  \
        OBSERVE(name, name(p1, p2, p3));                     \
    }
#define OBSERVED4(name, T1, p1, T2, p2, T3, p3, T4, p4)                  \
    CUresult watched_##name(T1 p1, T2 p2, T3 p3, T4 p4)                  \
    {                                                                    \
        struct { T1 a; T2 b; T3 c; T4 d; } params = {p1, p2, p3, p4};    \
        OBSERVE(name, name(p1, p2, p3, p4));                             \
    }
#define OBSERVED5(name, T1, p1, T2, p2, T3, p3, T4, p4, T5, p5)                  \
    CUresult watched_##name(T1 p1, T2 p2, T3 p3, T4 p4, T5 p5)                   \
    {                                                                            \
        struct { T1 a; T2 b; T3 c; T4 d; T5 e; } params = {p1, p2, p3, p4, p5};  \
        OBSERVE(name, name(p1, p2, p3, p4, p5));                                 \
    }
#define OBSERVED6(name, T1, p1, T2, p2, T3, p3, T4, p4, T5, p5, T6, p6)                        \
    CUresult watched_##name(T1 p1, T2 p2, T3 p3, T4 p4, T5 p5, T6 p6)                          \
    {                                                                                          \
        struct { T1 a; T2 b; T3 c; T4 d; T5 e; T6 f; } params = {p1, p2, p3, p4, p5, p6};      \
        OBSERVE(name, name(p1, p2, p3, p4, p5, p6));                                           \
    }

#define WATCHED(name, count, ...) OBSERVED##count(name, __VA_ARGS__)
#include "watched.inc"
#undef WATCHED

/* ---- the log of launches ---- */

static int64_t host_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void log_launch(GraphLaunch launch)
{
    driver_lock();
    if (launch_count == launch_capacity) {
        launch_capacity = launch_capacity ? 2 * launch_capacity : 1024;
        launches = reallocate(launches, launch_capacity, sizeof *launches);
    }
    launches[launch_count++] = launch;
    driver_unlock();
}

CUresult watched_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    if (!__atomic_load_n(&logging, __ATOMIC_SEQ_CST)) return cuGraphLaunch(exec, stream);
    uint64_t id = kernelscope_dryrun_exec_id(exec); /* before: the launch may end with the graph destroyed */
    int64_t start = host_clock();
    graph_launch_was_captured = false;
    CUresult result = cuGraphLaunch(exec, stream);
    bool captured = graph_launch_was_captured; /* then it became a node, and nothing was launched */
    if (!captured)
        log_launch((GraphLaunch){id, (uint64_t)stream, (uint64_t)pthread_self(), start, host_clock(), result});
    return result;
}
