/* The Python side of the recorder: rings, threads' states, hooks. */
#ifndef KS_CORE_H
#define KS_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ring.h"
#include "shapes.h"
#include "sites.h"
#include "table.h"

#if PY_VERSION_HEX >= 0x030c0000
/* CPython asks a Python function for its vectorcall since 3.12; 3.11 runs the function's code whatever that is. */
#define KS_TAKES_FUNCTIONS 1
#endif

#ifdef __GNUC__
#define KS_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define KS_RARE __attribute__((cold, noinline))
/* Beside each other in memory: what one launch runs. */
#define KS_HOT __attribute__((hot))
/* A few bytes that each launch reads: in the part of threads' memory that is there from the start, not behind a call. */
#define KS_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define KS_LIKELY(condition) (condition)
#define KS_RARE
#define KS_HOT
#define KS_THREAD_LOCAL _Thread_local
#endif

/* A ring as a Python object, with what its writers need. */
typedef struct {
    PyObject_HEAD
    uint64_t token;      /* of no other ring of the process */
    PyObject *clock;     /* NULL: the host clock itself */
    bool is_open, phases;
    ks_ring ring;
    PyObject *new_state; /* makes the calling thread's State, or finds it */
    PyObject *new_site;  /* gives an instruction of the calling thread its id; NULL: lines are not recorded */
    PyObject *new_stack; /* gives a call path of the calling thread its id; NULL: call paths are not recorded */
    PyObject *states;    /* list of those that threads remember by address */
} ks_log;

/* What was launched, and how. */
typedef struct {
    int32_t target, configuration;
} ks_ids;

/* One thread's: the launch that it is in the middle of. `slot` is `spare` where there is none or no room for one. */
typedef struct {
    PyObject_HEAD
    ks_log *log;
    PyObject *launch_config, *kernel;
    ks_slot *slot;
    ks_pace pace;
    /* What it launched last, and the ids of that: mostly it is launched again. They are held. */
    PyObject *last_config, *last_kernel;
    int32_t last_configuration, last_begun, last_target;
    ks_ids found; /* those of the launch under way, once Triton has called its launcher */
    int site; /* the thread's own, for where no line is known */
    bool found_plain, last_is_plain; /* whether the kernel is not launch-config sensitive */
    bool is_held;                    /* by the ring's list */
    bool in_algorithm;               /* what is called by an algorithm's call is part of it */
    ks_sites sites;
    ks_paths paths;
    ks_slot spare;
} ks_state;

typedef struct ks_hook ks_hook;
typedef PyObject *(*ks_body)(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames);

enum { KS_TOOLS = 3 };

/* What a Python function was when its calls began to run through a hook. */
typedef struct {
    uint32_t version; /* call sites are made for it; CPython takes it away with the vectorcall, and 3.13 gives no other */
    PyObject *code, *defaults, *kwdefaults;
} ks_function;

/* A function that stands for another one, or that another one's calls run through. What each call touches is first. */
struct ks_hook {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    ks_body body;
    PyObject *original;
    vectorcallfunc saved; /* the original's own, where that is known not to change */
    ks_log *log;
    bool is_enabled, phases;
    int entry; /* by which its function's calls come here; -1: none */
    ks_function before;
    PyObject *dict, *weakrefs;
    PyObject *begin, *end; /* Python's part: what is seen for the first time, and what fails */
    PyObject *tools;       /* a tuple, or NULL: what else the body of its kind works with */
    ks_table configurations, targets;
    ks_shapes launches;
#ifdef Py_GIL_DISABLED
    _Atomic long inside;
#endif
};

extern PyTypeObject ks_calls_type, ks_collections_type, ks_log_type, ks_operators_type, ks_state_type, ks_hook_type;

/* The functions whose calls run through hooks, as a list. */
PyObject *ks_drain(PyObject *module, PyObject *args);
PyObject *ks_taken(PyObject *module, PyObject *ignored);
/* Has a function called before a signal ends the process. */
PyObject *ks_before_end(PyObject *module, PyObject *arguments);

/* Names that are looked up while others launch: ks_str_block is "block". */
#define KS_NAMES(X)                                                                                                    \
    X(args, "args") X(block, "block") X(cluster, "cluster") X(config, "config") X(cuda_stream, "__cuda_stream__")                      \
    X(dispatcher, "dispatcher") X(force_inclusive, "force_inclusive") X(grid, "grid") X(kernel, "kernel")              \
    X(launch_config, "launch_config") X(launcher, "_launcher") X(name, "__name__")                                     \
    X(sensitive, "launch_config_sensitive") X(shmem_size, "shmem_size")                                                \
    X(specialized, "_launch_config_is_specialized") X(stream, "stream") X(temp_storage, "temp_storage")                \
    X(argtypes, "argtypes") X(collected, "collected") X(generation, "generation") X(uncollectable, "uncollectable")      \
    X(warmup, "warmup")
#define KS_DECLARE(variable, text) extern PyObject *ks_str_##variable;
KS_NAMES(KS_DECLARE)
#undef KS_DECLARE
int ks_names_ready(void);

KS_RARE int64_t ks_clock_slow(ks_log *log);
/* Raises the exception that is set in the main thread, later: a Ctrl-C, or what another signal handler raised. */
KS_RARE void ks_raise_later(void);
KS_RARE ks_state *ks_state_slow(ks_log *log);

typedef struct {
    uint64_t token;
    ks_state *state;
} ks_thread;
extern KS_THREAD_LOCAL ks_thread ks_this_thread;

/* The recording's clock, in nanoseconds; leaves an exception that is set as it is. */
static inline int64_t ks_clock(ks_state *state) {
    return KS_LIKELY(state->log->clock == NULL) ? ks_time(&state->pace) : ks_clock_slow(state->log);
}

/* The same where no thread's state is at hand. */
static inline int64_t ks_log_clock(ks_log *log) { return log->clock == NULL ? ks_now() : ks_clock_slow(log); }

/* The calling thread's state, borrowed; NULL without an exception where it cannot be had, with one for a Ctrl-C. */
static inline ks_state *ks_state_here(ks_log *log) {
    return KS_LIKELY(ks_this_thread.token == log->token) ? ks_this_thread.state : ks_state_slow(log);
}

/* Where the calling thread is: at a line of the user's code, by which call path, or at none. Python runs where that is
 * new. */
static inline int32_t ks_site(ks_state *state) {
    PyObject *ask = state->log->new_stack;
    if (ask != NULL) {
        int32_t site = ks_paths_here(&state->paths, ask, ks_raise_later);
        if (site >= 0)
            return site;
    }
    ask = state->log->new_site;
    return ask == NULL ? state->site : ks_sites_here(&state->sites, ask, state->site, ks_raise_later);
}

/* An id, which a slot has 32 bits for. Returns -1 with an exception where it is none. */
static inline int ks_as_id(PyObject *number, int32_t *id) {
    long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred())
        return -1;
    *id = (int32_t)value;
    if (*id == value)
        return 0;
    PyErr_Format(PyExc_OverflowError, "id %ld has more than 32 bits", value);
    return -1;
}

/* Calls what the hook stands for. */
static inline PyObject *ks_original(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (hook->entry >= 0)
        return hook->saved(hook->original, args, nargsf, kwnames);
    PyObject *original = Py_NewRef(hook->original); /* it may be replaced meanwhile */
    PyObject *result = KS_LIKELY(hook->saved != NULL) ? hook->saved(original, args, nargsf, kwnames)
                                                      : PyObject_Vectorcall(original, args, nargsf, kwnames);
    Py_DECREF(original);
    return result;
}

/* The exception that is set, taken away; and put back. */
static inline PyObject *ks_take_exception(void) {
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL)
        return NULL;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(traceback);
    Py_DECREF(type);
    return value;
#endif
}

static inline void ks_put_exception(PyObject *exception) {
#if PY_VERSION_HEX >= 0x030c0000
    PyErr_SetRaisedException(exception);
#else
    PyObject *type = exception == NULL ? NULL : Py_NewRef((PyObject *)Py_TYPE(exception));
    PyErr_Restore(type, exception, exception == NULL ? NULL : PyException_GetTraceback(exception));
#endif
}

/* The argument of a name, at a place or, where that is negative, by its name only; NULL where it was not given. */
PyObject *ks_given(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, Py_ssize_t place, PyObject *name);

/* Asks Python for two ids. Returns 1; 0 where there are none; -1 with an exception, which is the user's; -2 with one
 * and with ids. */
int ks_ask(PyObject *callable, PyObject *const *args, size_t count, int32_t *first, int32_t *second);

/* Lets go of an exception that is no Ctrl-C; returns whether one is still set. */
static inline bool ks_interrupted(void) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return PyErr_Occurred() != NULL;
}

/* One launch under way: its slot is `spare`, and its sequence number 0, where there was no room. */
typedef struct {
    ks_slot *slot;
    uint64_t sequence;
    ks_slot spare;
} ks_launch;

/* Of all times but the first, nothing is known yet. */
static inline void ks_forget_times(ks_slot *slot) {
#define KS_FORGET(name, bits) slot->name##_ns = KS_UNKNOWN;
    KS_BOUNDARIES(KS_FORGET)
#undef KS_FORGET
    slot->end_ns = KS_UNKNOWN;
}

/* Takes a slot. The launch begins with `ks_launch_start`. Python may run before, where a line is new. */
static inline void ks_launch_reserve(ks_launch *launch, ks_log *log, ks_state *state, int32_t target,
                                     int32_t configuration) {
    int32_t site = ks_site(state);
    launch->sequence = 0;
    ks_slot *slot = ks_ring_take(&log->ring, &launch->sequence);
    launch->slot = slot = KS_LIKELY(slot != NULL) ? slot : &launch->spare;
    ks_forget_times(slot);
    slot->target = target;
    slot->configuration = configuration;
    slot->site = site;
    slot->kind = KS_LAUNCH;
}

static inline void ks_launch_start(ks_launch *launch, ks_state *state) {
    launch->slot->start_ns = ks_clock(state);
    if (KS_LIKELY(launch->sequence != 0))
        ks_begin(launch->slot, launch->sequence);
}

/* Writes the end; `end_ns` is there. */
static inline void ks_launch_finish(ks_launch *launch) {
    if (KS_LIKELY(launch->sequence != 0))
        ks_finish(launch->slot, launch->sequence);
}

/* Ends a launch that failed, or whose ids are not known yet: `end` of the hook is asked, with `args`, of which the last,
 * to be filled in here, is the name of the exception's class, or None. Returns whether the result stands; else an
 * exception is set. */
bool ks_end_slowly(ks_hook *hook, PyObject **args, size_t count, ks_launch *launch, bool failed);

/* The bodies of hooks, by the framework that they are for. */
extern const ks_body ks_body_call, ks_body_found, ks_body_submit, ks_body_load, ks_body_core, ks_body_algorithm,
    ks_body_request, ks_body_marshal, ks_body_types, ks_body_run, ks_body_launcher;

#endif
