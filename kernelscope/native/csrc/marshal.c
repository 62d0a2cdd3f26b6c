/* What the hooks of numba-cuda-mlir do; see kernelscope/probes/numba_cuda_mlir/launch.py for where they are put. */
#include "core.h"

/* The native launcher of a configured launch, a new reference; NULL where it has none, or with the user's exception. */
static PyObject *launcher_of(PyObject *marshaller) {
    PyObject *launcher = PyObject_GetAttr(marshaller, ks_str_launcher);
    if (launcher == NULL)
        ks_interrupted();
    return launcher;
}

/* The ids as far as they are known before the types are. Returns 1; 0 where they cannot be had; -1 or -2 with the user's
 * exception. */
static int look_up(ks_hook *hook, PyObject *marshaller, int32_t *configuration, int32_t *target) {
    PyObject *launcher = launcher_of(marshaller);
    if (launcher == NULL)
        return PyErr_Occurred() ? -1 : 0;
    const ks_entry *known = ks_table_find(&hook->configurations, launcher);
    int done = 1;
    if (KS_LIKELY(known != NULL)) {
        *configuration = known->first;
        *target = known->second;
    } else {
        done = ks_ask(hook->begin, &marshaller, 1, configuration, target);
    }
    Py_DECREF(launcher);
    return done;
}

/* Fills in the ids of a launch that went well; false where they are not known, or with the user's exception. The launcher
 * may be another one than before. */
static bool fill_in(ks_hook *hook, PyObject *marshaller, PyObject *types, ks_slot *slot) {
    PyObject *launcher = launcher_of(marshaller);
    if (launcher == NULL)
        return false;
    ks_shape shape = {.first = launcher, .second = types};
    const ks_launched *known = ks_shapes_find(&hook->launches, &shape);
    if (KS_LIKELY(known != NULL)) {
        slot->target = known->target;
        slot->configuration = known->configuration;
    }
    Py_DECREF(launcher);
    return known != NULL;
}

/* In place of ``_ArgMarshaller.__call__(self, *args)``: one launch. */
static PyObject *body_marshal(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    bool is_plain = PyVectorcall_NARGS(nargsf) > 0 && (kwnames == NULL || PyTuple_GET_SIZE(kwnames) == 0);
    ks_log *log = hook->log;
    ks_state *state = KS_LIKELY(is_plain) ? ks_state_here(log) : NULL;
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    PyObject *marshaller = args[0];
    int32_t target, configuration;
    int done = look_up(hook, marshaller, &configuration, &target);
    if (done <= 0)
        return done < 0 ? NULL : ks_original(hook, args, nargsf, kwnames);
    PyObject *outer_config = state->launch_config, *outer_kernel = state->kernel;
    ks_slot *outer_slot = state->slot;
    ks_launch launch;
    ks_launch_reserve(&launch, log, state, target, configuration);
    state->launch_config = Py_NewRef(marshaller);
    state->kernel = NULL;
    state->slot = launch.slot;
    ks_launch_start(&launch, state);

    PyObject *result = ks_original(hook, args, nargsf, kwnames);

    launch.slot->end_ns = ks_clock(state);
    PyObject *types = state->kernel;
    Py_XDECREF(state->launch_config);
    state->launch_config = outer_config;
    state->kernel = outer_kernel;
    state->slot = outer_slot;
    if (KS_LIKELY(result != NULL && types != NULL && fill_in(hook, marshaller, types, launch.slot))) {
        ks_launch_finish(&launch);
    } else {
        if (PyErr_Occurred())
            Py_CLEAR(result);
        PyObject *asked[] = {marshaller, types == NULL ? Py_None : types, NULL};
        if (!ks_end_slowly(hook, asked, 3, &launch, result == NULL))
            Py_CLEAR(result);
    }
    Py_XDECREF(types);
    return result;
}

/* In place of ``_ArgMarshaller._launch(self, argtypes, launch_args, launch_values=None)``: which types the arguments
 * have, and when the native launcher returned. In it are the look for the specialization, a compile, the module's load
 * and the driver call, all of it native. */
static PyObject *body_types(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyObject *types = ks_given(args, PyVectorcall_NARGS(nargsf), kwnames, 1, ks_str_argtypes);
    ks_state *state = KS_LIKELY(types != NULL) ? ks_state_here(hook->log) : NULL;
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    Py_XSETREF(state->kernel, Py_NewRef(types));
    PyObject *result = ks_original(hook, args, nargsf, kwnames);
    if (result != NULL && hook->phases)
        state->slot->submit_end_ns = ks_clock(state);
    return result;
}

const ks_body ks_body_marshal = body_marshal, ks_body_types = body_types;
