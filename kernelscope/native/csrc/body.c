/* What the bodies of hooks share. */
#include "core.h"

#define KS_DEFINE(variable, text) PyObject *ks_str_##variable;
KS_NAMES(KS_DEFINE)
#undef KS_DEFINE

int ks_names_ready(void) {
#define KS_MAKE(variable, text)                                                                                        \
    if (ks_str_##variable == NULL && (ks_str_##variable = PyUnicode_InternFromString(text)) == NULL)                   \
        return -1;
    KS_NAMES(KS_MAKE)
#undef KS_MAKE
    return 0;
}

PyObject *ks_given(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, Py_ssize_t place, PyObject *name) {
    if (place >= 0 && place < count)
        return args[place];
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t each = 0; each < names; each++)
        if (PyTuple_GET_ITEM(kwnames, each) == name)
            return args[count + each];
    for (Py_ssize_t each = 0; each < names; each++) { /* such as of a dict that a file was read into */
        PyObject *found = PyTuple_GET_ITEM(kwnames, each);
        if (!PyUnicode_CHECK_INTERNED(found) && PyUnicode_Compare(found, name) == 0)
            return args[count + each];
    }
    return NULL;
}

int ks_ask(PyObject *callable, PyObject *const *args, size_t count, int32_t *first, int32_t *second) {
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

/* As `ks_ask`, once more where it raised: a Ctrl-C that came before the asked one's first line loses no launch. */
static int ask_twice(PyObject *callable, PyObject *const *args, size_t count, int32_t *first, int32_t *second) {
    int done = ks_ask(callable, args, count, first, second);
    if (done != -1)
        return done;
    PyObject *users = ks_take_exception();
    done = ks_ask(callable, args, count, first, second);
    if (done < 0) {
        Py_DECREF(users);
        return done;
    }
    ks_put_exception(users);
    return done == 0 ? -1 : -2;
}

bool ks_end_slowly(ks_hook *hook, PyObject **args, size_t count, ks_launch *launch, bool failed) {
    PyObject *raised = failed ? ks_take_exception() : NULL;
    PyObject *name = failed ? PyObject_GetAttr((PyObject *)Py_TYPE(raised), ks_str_name) : Py_NewRef(Py_None);
    if (name == NULL) {
        PyErr_Clear();
        name = Py_NewRef(Py_None);
    }
    args[count - 1] = name;
    int done = ask_twice(hook->end, args, count, &launch->slot->target, &launch->slot->configuration);
    Py_DECREF(name);
    if (done == 0 || done == -1)
        launch->slot->kind = KS_VOID;
    ks_launch_finish(launch);
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
