/* What the hooks of cuda.compute do; see kernelscope/probes/cuda_compute/calls.py and requests.py for where they are put. */
#include "core.h"

/* The tools of a call's hook: the places of `temp_storage` and `stream` among the arguments (negative: by name only),
 * and whether the algorithm is told by what is called, which is the first argument. None: it has no such argument. */
enum { ASKS, STREAM, BUILT };

static PyObject *found(ks_hook *hook, int tool, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                       PyObject *name) {
    PyObject *place = PyTuple_GET_ITEM(hook->tools, tool);
    return place == Py_None ? NULL : ks_given(args, count, kwnames, PyLong_AsSsize_t(place), name);
}

/* Reads what the ids depend on; false where Python has to be asked each time, or with the user's exception. */
static bool shape_of(ks_hook *hook, PyObject *built, PyObject *stream, ks_shape *shape, PyObject **owned) {
    shape->first = built == NULL ? hook->original : (PyObject *)Py_TYPE(built);
    if (built != NULL) {
        PyObject *inclusive = PyObject_GetAttr(built, ks_str_force_inclusive);
        if (inclusive == NULL && !PyErr_ExceptionMatches(PyExc_AttributeError)) {
            ks_interrupted();
            return false;
        }
        PyErr_Clear();
        *owned = shape->second = inclusive;
        if (inclusive != NULL && inclusive != Py_True && inclusive != Py_False)
            return false;
    }
    if (stream == Py_None)
        return true;
    /* Only its handle counts: an object may stand for one stream after another. */
    PyObject *answer = PyObject_CallMethodNoArgs(stream, ks_str_cuda_stream);
    bool is_known = answer != NULL && PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 2 &&
                    ks_shape_word(PyTuple_GET_ITEM(answer, 1), &shape->words[0]);
    shape->words[1] = 1;
    Py_XDECREF(answer);
    ks_interrupted();
    return is_known;
}

/* Looks the ids up. Returns 1; 0 where they cannot be had; -1 or -2 with the user's exception. */
static int look_up(ks_hook *hook, PyObject *built, PyObject *stream, int32_t *target, int32_t *configuration) {
    ks_shape shape = {0};
    PyObject *owned = NULL;
    bool is_whole = shape_of(hook, built, stream, &shape, &owned);
    const ks_launched *known = is_whole ? ks_shapes_find(&hook->launches, &shape) : NULL;
    int done = 1;
    if (KS_LIKELY(known != NULL)) {
        *target = known->target;
        *configuration = known->configuration;
    } else if (PyErr_Occurred()) {
        done = -1;
    } else {
        PyObject *asked[] = {built == NULL ? Py_None : built, stream};
        done = ks_ask(hook->begin, asked, 2, target, configuration);
    }
    Py_XDECREF(owned);
    return done;
}

/* Whether a function has refused its arguments: an exception from within it has its frame. */
static bool is_refused(void) {
    PyObject *raised = ks_take_exception(), *traceback = PyException_GetTraceback(raised);
    bool refused = traceback == NULL;
    Py_XDECREF(traceback);
    ks_put_exception(raised);
    return refused;
}

/* In place of an algorithm such as ``reduce_into``, or of the ``__call__`` of what a factory has built: one launch, with
 * all that it calls. */
static PyObject *body_algorithm(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    ks_log *log = hook->log;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    ks_state *state = ks_state_here(log);
    if (state == NULL)
        return PyErr_Occurred() ? NULL : ks_original(hook, args, nargsf, kwnames);
    if (state->in_algorithm || found(hook, ASKS, args, count, kwnames, ks_str_temp_storage) == Py_None)
        return ks_original(hook, args, nargsf, kwnames); /* a part of another call, or only asks for how much memory */
    PyObject *stream = found(hook, STREAM, args, count, kwnames, ks_str_stream);
    PyObject *built = PyTuple_GET_ITEM(hook->tools, BUILT) == Py_True && count > 0 ? args[0] : NULL;
    stream = stream == NULL ? Py_None : stream;
    int32_t target = KS_UNKNOWN, configuration = KS_UNKNOWN;
    int done = look_up(hook, built, stream, &target, &configuration);
    if (done < 0)
        return NULL;
    ks_launch launch;
    if (KS_LIKELY(done == 1)) {
        ks_launch_reserve(&launch, log, state, target, configuration);
        ks_launch_start(&launch, state);
    }
    state->in_algorithm = true;

    PyObject *result = ks_original(hook, args, nargsf, kwnames);

    state->in_algorithm = false;
    if (done == 0)
        return result;
    launch.slot->end_ns = ks_clock(state);
    if (KS_LIKELY(result != NULL)) {
        ks_launch_finish(&launch);
    } else if (is_refused()) {
        launch.slot->kind = KS_VOID;
        ks_launch_finish(&launch);
    } else {
        PyObject *asked[] = {built == NULL ? Py_None : built, stream, NULL};
        ks_end_slowly(hook, asked, 3, &launch, true);
    }
    return result;
}

/* The tools of a request's hook: the factory with its cache as it is to run, what is known by ``id()`` of what it returns,
 * and what takes the row of a hit. */
enum { FACTORY, KNOWN, WRITE };

/* The number of a known object, a new reference; NULL where it is not known, or with an exception. */
static PyObject *number_of(ks_hook *hook, PyObject *result) {
    PyObject *known = PyTuple_GET_ITEM(hook->tools, KNOWN), *key = PyLong_FromVoidPtr(result), *number = NULL;
    if (key == NULL)
        return NULL;
#if PY_VERSION_HEX >= 0x030d0000
    PyDict_GetItemRef(known, key, &number);
#else
    number = Py_XNewRef(PyDict_GetItemWithError(known, key));
#endif
    Py_DECREF(key);
    return number;
}

/* Has Python write what was no hit on something known: `last` is what was returned or raised. False with an exception. */
static bool tell(PyObject *callable, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, int64_t start,
                 PyObject *last) {
    PyObject *positional = PyTuple_New(count), *named = PyDict_New(), *time = PyLong_FromLongLong(start), *done = NULL;
    bool made = positional != NULL && named != NULL && time != NULL;
    for (Py_ssize_t each = 0; made && each < count; each++)
        PyTuple_SET_ITEM(positional, each, Py_NewRef(args[each]));
    for (Py_ssize_t each = 0; made && kwnames != NULL && each < PyTuple_GET_SIZE(kwnames); each++)
        made = PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, each), args[count + each]) == 0;
    if (made) {
        PyObject *asked[] = {positional, named, time, last};
        done = PyObject_Vectorcall(callable, asked, 4, NULL);
    }
    Py_XDECREF(positional);
    Py_XDECREF(named);
    Py_XDECREF(time);
    Py_XDECREF(done);
    return done != NULL;
}

static bool write_hit(ks_hook *hook, int64_t start, int64_t end, PyObject *number) {
    PyObject *row = Py_BuildValue("LLO", (long long)start, (long long)end, number), *done = NULL;
    if (row != NULL)
        done = PyObject_CallOneArg(PyTuple_GET_ITEM(hook->tools, WRITE), row);
    Py_XDECREF(row);
    Py_XDECREF(done);
    return done != NULL;
}

/* In place of a cached ``make_*`` factory: one request. */
static PyObject *body_request(ks_hook *hook, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    int64_t start = ks_log_clock(hook->log);
    PyObject *result = PyObject_Vectorcall(PyTuple_GET_ITEM(hook->tools, FACTORY), args, (size_t)count, kwnames);
    if (result == NULL) {
        PyObject *raised = ks_take_exception();
        if (tell(hook->end, args, count, kwnames, start, raised)) {
            ks_put_exception(raised);
        } else { /* the user's own: it takes the place of the other one */
            PyObject *newer = ks_take_exception();
            PyException_SetContext(newer, raised);
            ks_put_exception(newer);
        }
        return NULL;
    }
    PyObject *number = number_of(hook, result);
    bool done = number != NULL ? write_hit(hook, start, ks_log_clock(hook->log), number)
                               : !PyErr_Occurred() && tell(hook->begin, args, count, kwnames, start, result);
    Py_XDECREF(number);
    if (!done)
        Py_CLEAR(result);
    return result;
}

const ks_body ks_body_algorithm = body_algorithm, ks_body_request = body_request;
