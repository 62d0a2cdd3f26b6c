/* What the hooks of numba-cuda do; see kernelscope/probes/numba_cuda/launch.py for what is hooked. */
#include "core.h"

PyObject *ks_str_sensitive, *ks_str_specialized, *ks_str_dispatcher, *ks_str_launch_config, *ks_str_name;

int ks_names_ready(void) {
    ks_str_sensitive = PyUnicode_InternFromString("launch_config_sensitive");
    ks_str_specialized = PyUnicode_InternFromString("_launch_config_is_specialized");
    ks_str_dispatcher = PyUnicode_InternFromString("dispatcher");
    ks_str_launch_config = PyUnicode_InternFromString("launch_config");
    ks_str_name = PyUnicode_InternFromString("__name__");
    return ks_str_sensitive && ks_str_specialized && ks_str_dispatcher && ks_str_launch_config && ks_str_name ? 0 : -1;
}

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

/* The argument of a name or at a place; NULL where it was not given. */
KS_RARE static PyObject *given(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, Py_ssize_t place, PyObject *name) {
    if (place < count)
        return args[place];
    for (Py_ssize_t each = 0; kwnames != NULL && each < PyTuple_GET_SIZE(kwnames); each++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, each), name) == 0)
            return args[count + each];
    return NULL;
}

/* Asks Python for two ids. Returns 1; 0 where there are none; -1 with an exception, which is the user's. */
KS_RARE static int ask(PyObject *callable, PyObject *const *args, size_t count, int32_t *first, int32_t *second) {
    if (callable == Py_None)
        return 0;
    PyObject *answer = PyObject_Vectorcall(callable, args, count, NULL);
    int done = -1;
    if (answer != NULL) {
        done = PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) >= 2;
        if (done) {
            *first = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(answer, 0));
            *second = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(answer, 1));
            if (PyErr_Occurred()) {
                PyErr_Clear();
                done = 0;
            }
            if (done && PyTuple_GET_SIZE(answer) > 2) { /* what the user's signal handler raised meanwhile */
                ks_put_exception(Py_NewRef(PyTuple_GET_ITEM(answer, 2)));
                done = -2;
            }
        }
    }
    Py_XDECREF(answer);
    return done;
}

/* Ends a launch that failed, or whose kernel is new. Returns whether the result stands; else an exception is set. */
KS_RARE static bool end_slowly(ks_hook *hook, PyObject *dispatcher, PyObject *kernel, PyObject *config, ks_slot *slot,
                       uint64_t sequence, bool failed) {
    PyObject *raised = failed ? ks_take_exception() : NULL;
    PyObject *name = failed ? PyObject_GetAttr((PyObject *)Py_TYPE(raised), ks_str_name) : Py_NewRef(Py_None);
    int done = 0;
    if (name == NULL) {
        PyErr_Clear();
        name = Py_NewRef(Py_None);
    }
    PyObject *args[] = {dispatcher, kernel == NULL ? Py_None : kernel, config, name};
    done = ask(hook->end, args, 4, &slot->target, &slot->configuration);
    Py_DECREF(name);
    if (done == 0 || done == -1)
        slot->kind = KS_VOID;
    if (sequence != 0)
        ks_finish(slot, sequence);
    if (done < 0) { /* the user's own: it takes the place of the other one */
        if (raised != NULL) {
            PyObject *newer = ks_take_exception();
            if (newer == raised) /* raised once more */
                Py_DECREF(raised);
            else
                PyException_SetContext(newer, raised);
            ks_put_exception(newer);
        }
        return false;
    }
    if (raised != NULL)
        ks_put_exception(raised);
    return !failed;
}

/* Finds a launch configuration's ids, which become the thread's last ones. Returns as `ask`. */
KS_RARE static int look_up_config(ks_hook *hook, ks_state *state, PyObject *dispatcher, PyObject *config,
                                  int32_t *configuration, int32_t *target) {
    const ks_entry *known = ks_table_find(&hook->configurations, config);
    if (known != NULL) {
        *configuration = known->first;
        *target = known->second;
    } else {
        PyObject *asked[] = {dispatcher, config};
        int done = ask(hook->begin, asked, 2, configuration, target);
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
    PyObject *config = KS_LIKELY(count == 3) ? args[2] : given(args, count, kwnames, 2, ks_str_launch_config);
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
    ks_slot *outer_slot = state->slot, spare;
    uint64_t sequence = 0;
    ks_slot *slot = ks_ring_take(&log->ring, &sequence);
    if (slot == NULL)
        slot = &spare;
    state->launch_config = Py_NewRef(config);
    state->kernel = NULL;
    state->slot = slot;
    slot->dispatch_end_ns = slot->submit_start_ns = slot->submit_end_ns = slot->end_ns = KS_UNKNOWN;
    slot->target = target;
    slot->configuration = configuration;
    slot->thread = state->thread_id;
    slot->kind = KS_LAUNCH;
    slot->start_ns = ks_clock(state);
    if (KS_LIKELY(sequence != 0))
        ks_begin(slot, sequence);

    PyObject *result = ks_original(hook, args, nargsf, kwnames);

    slot->end_ns = ks_clock(state);
    PyObject *kernel = state->kernel, *own_config = state->launch_config;
    state->launch_config = outer_config;
    state->kernel = outer_kernel;
    state->slot = outer_slot;
    bool is_recorded = result != NULL && kernel != NULL;
    if (KS_LIKELY(is_recorded && kernel == state->last_kernel))
        slot->target = state->last_target;
    else
        is_recorded = is_recorded && is_known(hook, state, kernel, &slot->target);
    Py_XDECREF(own_config); /* may run anything, where somebody has put something else there */
    if (KS_LIKELY(is_recorded)) {
        if (KS_LIKELY(sequence != 0))
            ks_finish(slot, sequence);
        ks_ring_expect(&log->ring);
    } else if (!end_slowly(hook, dispatcher, kernel, config, slot, sequence, result == NULL)) {
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
