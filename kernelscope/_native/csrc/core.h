/* The Python side of the native recorder: rings, threads' states, hooks. */
#ifndef KS_CORE_H
#define KS_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ring.h"
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
    PyObject *states;    /* list of those that threads remember by address */
} ks_log;

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
    int thread_id;
    bool found_plain, last_is_plain; /* whether the kernel is not launch-config sensitive */
    bool is_held;                    /* by the ring's list */
    ks_slot spare;
} ks_state;

typedef struct ks_hook ks_hook;
typedef PyObject *(*ks_body)(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames);

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
    PyObject *dict, *weakrefs;
    PyObject *begin, *end; /* Python's part: what is seen for the first time, and what fails */
    ks_table configurations, targets;
#ifdef Py_GIL_DISABLED
    _Atomic long inside;
#endif
};

extern PyTypeObject ks_log_type, ks_state_type, ks_hook_type;

/* Names that are looked up while others launch. */
extern PyObject *ks_str_sensitive, *ks_str_specialized, *ks_str_dispatcher, *ks_str_launch_config, *ks_str_name;
int ks_names_ready(void);
int ks_hooks_ready(PyObject *module);

KS_RARE int64_t ks_clock_slow(ks_log *log);
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

/* The calling thread's state, borrowed; NULL without an exception where it cannot be had, with one for a Ctrl-C. */
static inline ks_state *ks_state_here(ks_log *log) {
    return KS_LIKELY(ks_this_thread.token == log->token) ? ks_this_thread.state : ks_state_slow(log);
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
    if (hook->saved != NULL)
        return hook->saved(hook->original, args, nargsf, kwnames);
    return PyObject_Vectorcall(hook->original, args, nargsf, kwnames);
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

/* The bodies of hooks, by the framework that they are for. */
extern const ks_body ks_body_call, ks_body_found, ks_body_submit, ks_body_load;

#endif
