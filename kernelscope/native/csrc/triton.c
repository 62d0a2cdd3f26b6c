/* What the hooks of Triton do; see kernelscope/probes/triton/launch.py for where they are put. */
#include "core.h"

/* What a launcher is called with: of `GIVEN` the first is the launcher itself, and the others are numbers. */
enum { LAUNCHER, SHAPE, GIVEN = SHAPE + KS_WORDS };

/* Whether a call of ``run`` launches: 1; 0 where it only compiles, or is refused; -1 with the user's exception. */
static int is_launch(PyObject *warmup) {
    if (KS_LIKELY(warmup == Py_False))
        return 1;
    int truth = warmup == NULL ? 1 : PyObject_IsTrue(warmup);
    if (truth < 0)
        return ks_interrupted() ? -1 : 0;
    return !truth;
}

/* Finds the ids of what a launcher is called with; false where that is new, or its parts are no plain numbers. */
static bool look_up(ks_hook *hook, PyObject *const *args, ks_ids *ids) {
    ks_shape shape = {.first = args[LAUNCHER]};
    for (int word = 0; word < KS_WORDS; word++)
        if (!ks_shape_word(args[SHAPE + word], &shape.words[word]))
            return false;
    const ks_launched *known = ks_shapes_find(&hook->launches, &shape);
    if (known == NULL)
        return false;
    *ids = (ks_ids){known->target, known->configuration};
    return true;
}

/* Writes a launch that is new, or has failed; `launched` is NULL where its ids were found. Returns whether the result
 * stands. */
KS_RARE static bool end_slowly(ks_hook *hook, PyObject *function, PyObject *result, PyObject *launched, ks_ids found,
                               ks_launch *launch) {
    PyObject *raised = result == NULL ? ks_take_exception() : NULL;
    PyObject *named = launched == NULL ? Py_BuildValue("(ii)", found.target, found.configuration) : Py_NewRef(launched);
    if (named == NULL) { /* without memory it counts as one that has launched nothing */
        PyErr_Clear();
        named = Py_NewRef(Py_None);
    }
    if (raised != NULL)
        ks_put_exception(raised);
    PyObject *asked[] = {function, result == NULL ? Py_None : result, named, NULL};
    bool stands = ks_end_slowly(hook, asked, 4, launch, result == NULL);
    Py_DECREF(named);
    return stands;
}

/* In place of ``JITFunction.run(self, *args, grid, warmup, **kwargs)``: one launch. Until it calls a launcher, the hook
 * itself is what the thread launches; then that is NULL where the ids were found, else what the launcher was called
 * with. */
KS_HOT static PyObject *body_run(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    int launches = count > 0 ? is_launch(ks_given(args, count, kwnames, -1, ks_str_warmup)) : 0;
    ks_log *log = hook->log;
    ks_state *state = KS_LIKELY(launches > 0) ? ks_state_here(log) : NULL;
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    PyObject *function = args[0];
    ks_ids begun;
    const ks_entry *known = ks_table_find(&hook->configurations, function);
    if (KS_LIKELY(known != NULL)) {
        begun = (ks_ids){known->first, known->second};
    } else {
        int done = ks_ask(hook->begin, &function, 1, &begun.target, &begun.configuration);
        if (done <= 0)
            return done < 0 ? NULL : ks_original(hook, args, nargsf, kwnames);
    }
    PyObject *outer_config = state->launch_config, *outer_kernel = state->kernel;
    ks_slot *outer_slot = state->slot;
    ks_ids outer_found = state->found;
    ks_launch launch;
    ks_launch_reserve(&launch, log, state, begun.target, begun.configuration);
    state->launch_config = NULL;
    state->kernel = Py_NewRef(hook);
    state->slot = launch.slot;
    ks_launch_start(&launch, state);

    PyObject *result = ks_original(hook, args, nargsf, kwnames);

    launch.slot->end_ns = ks_clock(state);
    PyObject *launched = state->kernel, *own_config = state->launch_config;
    ks_ids found = state->found;
    state->launch_config = outer_config;
    state->kernel = outer_kernel;
    state->slot = outer_slot;
    state->found = outer_found;
    Py_XDECREF(own_config); /* may run anything, where somebody has put something there */
    if (KS_LIKELY(result != NULL && launched == NULL)) {
        launch.slot->target = found.target;
        launch.slot->configuration = found.configuration;
        ks_launch_finish(&launch);
        ks_ring_expect(&log->ring);
    } else {
        if (!end_slowly(hook, function, result, launched == (PyObject *)hook ? Py_None : launched, found, &launch))
            Py_CLEAR(result);
        Py_XDECREF(launched);
    }
    return result;
}

/* What a launcher is called with, as a tuple; without memory None, as if it had not been called. */
KS_RARE static PyObject *given_to(PyObject *const *args) {
    PyObject *given = PyTuple_New(GIVEN);
    if (given == NULL) {
        PyErr_Clear();
        return Py_NewRef(Py_None);
    }
    for (int each = 0; each < GIVEN; each++)
        PyTuple_SET_ITEM(given, each, Py_NewRef(args[each]));
    return given;
}

/* The launcher's call of a launch that ``run`` has begun: its submit. */
KS_HOT static PyObject *submit(ks_hook *hook, ks_state *state, PyObject *const *args, size_t nargsf,
                               PyObject *kwnames) {
    ks_slot *slot = state->slot;
    bool is_known = look_up(hook, args, &state->found);
    Py_XSETREF(state->kernel, KS_LIKELY(is_known) ? NULL : given_to(args));
    if (hook->phases)
        slot->dispatch_end_ns = slot->submit_start_ns = ks_clock(state);
    PyObject *result = ks_original(hook, args, nargsf, kwnames);
    if (result != NULL && hook->phases) /* where it raises it never returned: the boundary stays unknown */
        slot->submit_end_ns = ks_clock(state);
    return result;
}

/* A launcher's call that no ``run`` is around, as of a compiled kernel: a launch of its own. */
static PyObject *launch_alone(ks_hook *hook, ks_state *state, PyObject *const *args, size_t nargsf,
                              PyObject *kwnames) {
    ks_ids ids;
    if (!KS_LIKELY(look_up(hook, args, &ids))) {
        int done = ks_ask(hook->begin, args, GIVEN, &ids.target, &ids.configuration);
        if (done <= 0)
            return done < 0 ? NULL : ks_original(hook, args, nargsf, kwnames);
    }
    ks_slot *outer_slot = state->slot;
    ks_launch launch;
    ks_launch_reserve(&launch, hook->log, state, ids.target, ids.configuration);
    state->slot = launch.slot;
    ks_launch_start(&launch, state);
    if (hook->phases)
        launch.slot->dispatch_end_ns = launch.slot->submit_start_ns = launch.slot->start_ns;

    PyObject *result = ks_original(hook, args, nargsf, kwnames);

    launch.slot->end_ns = ks_clock(state);
    state->slot = outer_slot;
    if (KS_LIKELY(result != NULL)) {
        if (hook->phases)
            launch.slot->submit_end_ns = launch.slot->end_ns;
        ks_launch_finish(&launch);
    } else {
        end_slowly(hook, Py_None, NULL, NULL, ids, &launch);
    }
    return result;
}

/* In place of ``CudaLauncher.__call__(self, gridX, gridY, gridZ, stream, function, ...)``. */
KS_HOT static PyObject *body_launcher(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    /* Triton gives these by their places; a call without them is refused, or somebody else's. */
    ks_state *state = KS_LIKELY(PyVectorcall_NARGS(nargsf) > GIVEN) ? ks_state_here(hook->log) : NULL;
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    return state->kernel != NULL && Py_IS_TYPE(state->kernel, &ks_hook_type)
               ? submit(hook, state, args, nargsf, kwnames)
               : launch_alone(hook, state, args, nargsf, kwnames);
}

const ks_body ks_body_run = body_run, ks_body_launcher = body_launcher;
