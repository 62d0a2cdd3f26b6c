/* What the hooks of numba-cuda do; see kernelscope/probes/numba_cuda/launch.py for what is hooked. */
#include "core.h"

/* Whether an attribute is true; one that is missing, or fails, is `otherwise`. */
static bool is_true(PyObject *object, PyObject *name, bool otherwise) {
    PyObject *found = PyObject_GetAttr(object, name);
    int truth = found == NULL ? -1 : found == Py_False ? 0 : found == Py_True ? 1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    if (truth < 0)
        PyErr_Clear();
    return truth < 0 ? otherwise : truth != 0;
}

/* Whether a launch-config sensitive dispatcher hands a launch over to the one for its configuration. */
KS_RARE static bool is_handed_over(PyObject *dispatcher, PyObject *config) {
    PyObject *own = PyObject_GetAttr(config, ks_str_dispatcher);
    bool other = own != dispatcher;
    if (own == NULL)
        PyErr_Clear();
    Py_XDECREF(own);
    return is_true(dispatcher, ks_str_specialized, other);
}

/* Finds a launch configuration's ids, which become the thread's last ones. Returns as `ks_ask`. */
KS_RARE static int look_up_config(ks_hook *hook, ks_state *state, PyObject *dispatcher, PyObject *config,
                                  int32_t *configuration, int32_t *target) {
    const ks_entry *known = ks_table_find(&hook->configurations, config);
    if (known != NULL) {
        *configuration = known->first;
        *target = known->second;
    } else {
        PyObject *asked[] = {dispatcher, config};
        int done = ks_ask(hook->begin, asked, 2, configuration, target);
        if (done <= 0)
            return done;
    }
    state->last_configuration = *configuration;
    state->last_begun = *target;
    PyObject *before = state->last_config;
    state->last_config = Py_NewRef(config);
    Py_XDECREF(before);
    return 1;
}

/* Whether a kernel's target is known; it becomes the thread's last one. */
KS_RARE static bool is_known(ks_hook *hook, ks_state *state, PyObject *kernel, int32_t *target) {
    const ks_entry *known = ks_table_find(&hook->targets, kernel);
    if (known == NULL)
        return false;
    *target = state->last_target = known->first;
    state->last_is_plain = state->found_plain;
    PyObject *before = state->last_kernel;
    state->last_kernel = Py_NewRef(kernel);
    Py_XDECREF(before);
    return true;
}

/* In place of ``CUDADispatcher.call(self, args, launch_config)``: one launch. */
KS_HOT static PyObject *body_call(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *config = KS_LIKELY(count == 3) ? args[2] : ks_given(args, count, kwnames, 2, ks_str_launch_config);
    ks_log *log = hook->log;
    ks_state *state = count > 0 && config != NULL ? ks_state_here(log) : NULL;
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    PyObject *dispatcher = args[0];
    if (config == state->launch_config && is_handed_over(dispatcher, config))
        return ks_original(hook, args, nargsf, kwnames);
    int32_t configuration = state->last_configuration, target = state->last_begun;
    if (!KS_LIKELY(config == state->last_config)) {
        int done = look_up_config(hook, state, dispatcher, config, &configuration, &target);
        if (done <= 0)
            return done < 0 ? NULL : ks_original(hook, args, nargsf, kwnames);
    }
    PyObject *outer_config = state->launch_config, *outer_kernel = state->kernel;
    ks_slot *outer_slot = state->slot;
    ks_launch launch;
    ks_launch_reserve(&launch, log, state, target, configuration);
    state->launch_config = Py_NewRef(config);
    state->kernel = NULL;
    state->slot = launch.slot;
    ks_launch_start(&launch, state);

    PyObject *result = ks_original(hook, args, nargsf, kwnames);

    launch.slot->end_ns = ks_clock(state);
    PyObject *kernel = state->kernel, *own_config = state->launch_config;
    state->launch_config = outer_config;
    state->kernel = outer_kernel;
    state->slot = outer_slot;
    bool is_recorded = result != NULL && kernel != NULL;
    if (KS_LIKELY(is_recorded && kernel == state->last_kernel))
        launch.slot->target = state->last_target;
    else
        is_recorded = is_recorded && is_known(hook, state, kernel, &launch.slot->target);
    Py_XDECREF(own_config); /* may run anything, where somebody has put something else there */
    if (KS_LIKELY(is_recorded)) {
        ks_launch_finish(&launch);
        ks_ring_expect(&log->ring);
    } else {
        PyObject *given = ks_given(args, count, kwnames, 1, ks_str_args);
        PyObject *asked[] = {dispatcher, kernel == NULL ? Py_None : kernel, config, given == NULL ? Py_None : given,
                             NULL};
        if (!ks_end_slowly(hook, asked, 5, &launch, result == NULL))
            Py_CLEAR(result);
    }
    Py_XDECREF(kernel);
    return result;
}

/* In place of ``CUDADispatcher._update_launch_config_sensitivity(self, kernel, launch_config)``: dispatch has found the
 * specialization. numba-cuda's function does nothing for most kernels; this asks what it asks and need not call it. */
KS_HOT static PyObject *body_found(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    ks_state *state = KS_LIKELY(PyVectorcall_NARGS(nargsf) == 3) ? ks_state_here(hook->log) : NULL;
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    if (hook->phases)
        state->slot->dispatch_end_ns = ks_clock(state);
    PyObject *kernel = args[1];
    Py_XSETREF(state->kernel, Py_NewRef(kernel));
    if (KS_LIKELY(kernel == state->last_kernel && state->last_is_plain))
        Py_RETURN_NONE; /* a kernel is told once, when it is compiled, what it is */
    state->found_plain = !is_true(kernel, ks_str_sensitive, true); /* a missing attribute is for numba-cuda to judge */
    if (!state->found_plain)
        return ks_original(hook, args, nargsf, kwnames);
    Py_RETURN_NONE;
}

/* In place of the global ``launch`` of numba-cuda's dispatcher: the driver call. */
KS_HOT static PyObject *body_submit(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    ks_state *state = ks_state_here(hook->log);
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    ks_slot *slot = state->slot;
    slot->submit_end_ns = KS_UNKNOWN;
    slot->submit_start_ns = ks_clock(state);
    PyObject *result = ks_original(hook, args, nargsf, kwnames);
    if (result != NULL) /* where it raises it never returned: the boundary stays unknown */
        slot->submit_end_ns = ks_clock(state);
    return result;
}

/* In place of ``CUDACodeLibrary.get_cufunc(self)`` where there are several devices: each has a function of its own. */
static PyObject *body_load(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyObject *function = ks_original(hook, args, nargsf, kwnames);
    if (function == NULL)
        return NULL;
    ks_state *state = ks_state_here(hook->log);
    if (state != NULL) {
        Py_XSETREF(state->kernel, Py_NewRef(function));
    } else if (PyErr_Occurred()) {
        Py_CLEAR(function);
    }
    return function;
}

const ks_body ks_body_call = body_call, ks_body_found = body_found, ks_body_submit = body_submit,
              ks_body_load = body_load;
