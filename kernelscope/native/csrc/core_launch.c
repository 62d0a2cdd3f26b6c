/* What the hook of cuda.core does; see kernelscope/probes/cuda_core/launch.py for where it is put. */
#include "core.h"

enum { STREAM, CONFIG, KERNEL, GIVEN };

/* The three arguments that every launch has; false where they are not all there, or others are named. */
static bool take_arguments(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, PyObject **given) {
    Py_ssize_t named = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    if (named != (count < GIVEN ? GIVEN - count : 0))
        return false;
    given[STREAM] = ks_given(args, count, kwnames, STREAM, ks_str_stream);
    given[CONFIG] = ks_given(args, count, kwnames, CONFIG, ks_str_config);
    given[KERNEL] = ks_given(args, count, kwnames, KERNEL, ks_str_kernel);
    return given[STREAM] != NULL && given[CONFIG] != NULL && given[KERNEL] != NULL;
}

/* Whether the thread is in the driver call of a launch that another probe records, through somebody's wrapper. */
static bool is_anothers(const ks_state *state) {
    return state->launch_config != NULL && state->launch_config != Py_None &&
           state->slot->submit_start_ns > state->slot->submit_end_ns;
}

/* Looks the ids up. Returns 1; 0 where they cannot be had; -1 or -2 with the user's exception. A launch configuration
 * can change: its parts are looked at each time. */
static int look_up(ks_hook *hook, PyObject *const *given, int32_t *target, int32_t *configuration) {
    PyObject *const names[KS_WORDS] = {ks_str_grid, ks_str_block, ks_str_cluster, ks_str_shmem_size};
    PyObject *asked[2 + KS_WORDS] = {given[KERNEL], given[STREAM]};
    ks_shape shape = {.first = given[KERNEL], .second = given[STREAM]};
    bool is_plain = true;
    int parts = 0, done = 0;
    for (; parts < KS_WORDS; parts++) {
        PyObject *part = PyObject_GetAttr(given[CONFIG], names[parts]);
        if (part == NULL)
            break;
        asked[2 + parts] = part;
        is_plain = is_plain && ks_shape_word(part, &shape.words[parts]);
    }
    if (KS_LIKELY(parts == KS_WORDS)) {
        const ks_launched *known = is_plain ? ks_shapes_find(&hook->launches, &shape) : NULL;
        if (KS_LIKELY(known != NULL)) {
            *target = known->target;
            *configuration = known->configuration;
            done = 1;
        } else {
            done = ks_ask(hook->begin, asked, 2 + KS_WORDS, target, configuration);
        }
    } else if (ks_interrupted()) {
        done = -1;
    }
    while (parts > 0)
        Py_DECREF(asked[2 + --parts]);
    return done;
}

/* In place of ``cuda.core.launch(stream, config, kernel, *kernel_args)``. */
static PyObject *body_core(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyObject *given[GIVEN];
    if (!take_arguments(args, PyVectorcall_NARGS(nargsf), kwnames, given)) /* it refuses them itself */
        return ks_original(hook, args, nargsf, kwnames);
    ks_log *log = hook->log;
    ks_state *state = ks_state_here(log);
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    if (is_anothers(state))
        return ks_original(hook, args, nargsf, kwnames);
    int32_t target = KS_UNKNOWN, configuration = KS_UNKNOWN;
    int done = look_up(hook, given, &target, &configuration);
    if (done < 0)
        return NULL;
    ks_launch launch = {.slot = &launch.spare};
    if (KS_LIKELY(done == 1))
        ks_launch_reserve(&launch, log, state, target, configuration);
    ks_launch_start(&launch, state);

    PyObject *result = ks_original(hook, args, nargsf, kwnames);

    int64_t end = ks_clock(state);
    launch.slot->end_ns = end;
    if (KS_LIKELY(done == 1 && result != NULL)) {
        ks_launch_finish(&launch);
        return result;
    }
    if (done == 0) { /* what cannot be looked up and is refused is no launch; what was launched all the same is one */
        if (result == NULL)
            return NULL;
        int64_t start = launch.slot->start_ns;
        ks_launch_reserve(&launch, log, state, target, configuration);
        launch.slot->start_ns = start;
        launch.slot->end_ns = end;
        if (launch.sequence != 0) /* nobody else takes the slot while Python runs */
            ks_begin(launch.slot, launch.sequence);
    }
    PyObject *asked[] = {given[STREAM], given[CONFIG], given[KERNEL], NULL};
    if (!ks_end_slowly(hook, asked, 4, &launch, result == NULL))
        Py_CLEAR(result);
    return result;
}

const ks_body ks_body_core = body_core;
