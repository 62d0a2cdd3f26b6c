/* The type Hook: a callable that stands for another one, or that the calls of a Python function run through. */
#include "core.h"

#include <structmember.h>

#ifdef KS_TAKES_FUNCTIONS
/* Functions whose calls run through a hook. Entries are put in and taken out under a lock, and read without one. */
enum { PLACES = 1024 };
static struct {
    _Atomic(PyObject *) function;
    _Atomic(ks_hook *) hook;
} registry[PLACES];
static PyObject gone; /* stands where an entry was */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static vectorcallfunc plain; /* what CPython itself gives to Python functions */

static size_t registry_find(const PyObject *function) {
    for (size_t place = ks_place(function, PLACES - 1), tries = 0; tries < PLACES; tries++) {
        const PyObject *found = atomic_load_explicit(&registry[place].function, memory_order_acquire);
        if (found == function)
            return place;
        if (found == NULL)
            break;
        place = (place + 1) & (PLACES - 1);
    }
    return PLACES;
}

static size_t registry_room(const PyObject *function) {
    for (size_t place = ks_place(function, PLACES - 1), tries = 0; tries < PLACES; tries++) {
        const PyObject *found = atomic_load_explicit(&registry[place].function, memory_order_relaxed);
        if (found == NULL || found == &gone)
            return place;
        place = (place + 1) & (PLACES - 1);
    }
    return PLACES;
}
#endif

static inline ks_hook *enter(ks_hook *hook) {
    Py_INCREF(hook);
#ifdef Py_GIL_DISABLED
    atomic_fetch_add(&hook->inside, 1);
#endif
    return hook;
}

static inline void leave(ks_hook *hook) {
#ifdef Py_GIL_DISABLED
    atomic_fetch_sub(&hook->inside, 1);
#endif
    Py_DECREF(hook);
}

static PyObject *call_hook(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    ks_hook *hook = enter((ks_hook *)self); /* it may be taken away while the call lasts */
    PyObject *result = KS_LIKELY(hook->is_enabled) ? hook->body(hook, args, nargsf, kwnames)
                                                   : ks_original(hook, args, nargsf, kwnames);
    leave(hook);
    return result;
}

#ifdef KS_TAKES_FUNCTIONS
static PyObject *call_taken(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    size_t place = registry_find(function);
    ks_hook *found = place == PLACES ? NULL : atomic_load_explicit(&registry[place].hook, memory_order_acquire);
    if (found == NULL) /* given back since the call began */
        return plain(function, args, nargsf, kwnames);
    return call_hook((PyObject *)found, args, nargsf, kwnames);
}
#endif

static PyObject *hook_take(ks_hook *self, PyObject *Py_UNUSED(ignored)) {
#ifdef KS_TAKES_FUNCTIONS
    if (!PyFunction_Check(self->original)) {
        PyErr_Format(PyExc_TypeError, "%R is no Python function", self->original);
        return NULL;
    }
    PyFunctionObject *function = (PyFunctionObject *)self->original;
    pthread_mutex_lock(&registry_lock);
    size_t place = registry_find(self->original);
    bool is_free = place == PLACES && self->saved == NULL;
    if (is_free)
        place = registry_room(self->original);
    bool has_room = is_free && place < PLACES;
    if (has_room) {
        if (plain == NULL)
            plain = function->vectorcall;
        self->saved = function->vectorcall;
        atomic_store_explicit(&registry[place].hook, enter(self), memory_order_release);
        atomic_store_explicit(&registry[place].function, self->original, memory_order_release);
        PyFunction_SetVectorcall(function, call_taken);
    }
    pthread_mutex_unlock(&registry_lock);
    if (has_room)
        Py_RETURN_NONE;
    if (is_free)
        PyErr_SetString(PyExc_RuntimeError, "there is no room for another hooked function");
    else
        PyErr_Format(PyExc_RuntimeError, "the calls of %R run through a hook already", self->original);
    return NULL;
#else
    PyErr_Format(PyExc_RuntimeError, "Python 3.11 runs %R without asking for its vectorcall", self->original);
    return NULL;
#endif
}

/* Returns whether the function is as it was; else another wrapper has come over the hook, which stays as a pass-through. */
static PyObject *hook_give_back(ks_hook *self, PyObject *Py_UNUSED(ignored)) {
    bool is_undone = true;
#ifdef KS_TAKES_FUNCTIONS
    PyFunctionObject *function = (PyFunctionObject *)self->original;
    bool had = false;
    pthread_mutex_lock(&registry_lock);
    if (self->saved != NULL) {
        size_t place = registry_find(self->original);
        is_undone = function->vectorcall == call_taken;
        if (is_undone)
            PyFunction_SetVectorcall(function, self->saved);
        if (is_undone && place != PLACES) {
            /* An entry that others were put behind goes on being passed. */
            atomic_store_explicit(&registry[place].hook, NULL, memory_order_release);
            atomic_store_explicit(&registry[place].function, &gone, memory_order_release);
            had = true;
        }
    }
    pthread_mutex_unlock(&registry_lock);
    self->is_enabled = false;
#ifndef Py_GIL_DISABLED
    if (had)
        leave(self);
#else
    (void)had; /* another thread may have found it and not begun: it stays, a few hundred bytes */
#endif
#else
    self->is_enabled = false;
#endif
    return PyBool_FromLong(is_undone);
}

PyObject *ks_taken(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    PyObject *found = PyList_New(0);
#ifdef KS_TAKES_FUNCTIONS
    for (size_t place = 0; place < PLACES && found != NULL; place++) {
        PyObject *function = atomic_load_explicit(&registry[place].function, memory_order_acquire);
        if (function != NULL && function != &gone && PyList_Append(found, function) < 0)
            Py_CLEAR(found);
    }
#endif
    return found;
}

static PyObject *hook_known(ks_hook *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "know(table, key, first, second): a name, any object and two ids");
        return NULL;
    }
    long first = PyLong_AsLong(args[2]), second = PyLong_AsLong(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (PyUnicode_CompareWithASCIIString(args[0], "launches") == 0) {
        ks_shape shape;
        if (!ks_shape_from(args[1], &shape) || ks_shapes_put(&self->launches, &shape, (int32_t)first, (int32_t)second) < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    bool is_target = PyUnicode_CompareWithASCIIString(args[0], "targets") == 0;
    if (ks_table_put(is_target ? &self->targets : &self->configurations, args[1], (int32_t)first, (int32_t)second) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int hook_traverse(ks_hook *self, visitproc visit, void *arg) {
    Py_VISIT(self->original);
    Py_VISIT(self->dict);
    Py_VISIT(self->log);
    Py_VISIT(self->begin);
    Py_VISIT(self->end);
    Py_VISIT(self->tools);
    int stopped = ks_table_traverse(&self->configurations, visit, arg);
    if (stopped == 0)
        stopped = ks_table_traverse(&self->targets, visit, arg);
    return stopped ? stopped : ks_shapes_traverse(&self->launches, visit, arg);
}

static void forget(ks_hook *self) {
    ks_table_clear(&self->configurations);
    ks_table_clear(&self->targets);
    ks_shapes_clear(&self->launches);
}

static PyObject *hook_forget(ks_hook *self, PyObject *Py_UNUSED(ignored)) {
#ifdef Py_GIL_DISABLED
    /* Whoever comes in from now on finds it disabled; one entry is that of a function whose calls run through here. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&self->inside) > (self->saved != NULL))
        Py_RETURN_NONE;
#endif
    forget(self);
    Py_RETURN_NONE;
}

static int hook_clear(ks_hook *self) {
    forget(self);
    Py_CLEAR(self->original);
    Py_CLEAR(self->dict);
    Py_CLEAR(self->begin);
    Py_CLEAR(self->end);
    Py_CLEAR(self->tools);
    Py_CLEAR(self->log);
    return 0;
}

static void hook_dealloc(ks_hook *self) {
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    hook_clear(self);
    Py_TYPE(self)->tp_free(self);
}

/* What a hook of each kind does, and the types of its tools; None may stand for any of them. */
static const struct {
    const char *name;
    const ks_body *body;
    PyTypeObject *tools[KS_TOOLS];
} kinds[] = {
    {"call", &ks_body_call, {NULL}},
    {"found", &ks_body_found, {NULL}},
    {"submit", &ks_body_submit, {NULL}},
    {"load", &ks_body_load, {NULL}},
    {"core", &ks_body_core, {NULL}},
    {"algorithm", &ks_body_algorithm, {&PyLong_Type, &PyLong_Type, &PyBool_Type}},
    {"request", &ks_body_request, {&PyBaseObject_Type, &PyDict_Type, &PyBaseObject_Type}},
    {"marshal", &ks_body_marshal, {NULL}},
    {"types", &ks_body_types, {NULL}},
};

static bool has_tools(size_t kind, PyObject *tools) {
    Py_ssize_t wanted = kinds[kind].tools[0] == NULL ? 0 : KS_TOOLS;
    bool fits = (tools == NULL ? 0 : PyTuple_GET_SIZE(tools)) == wanted;
    for (Py_ssize_t each = 0; fits && each < wanted; each++) {
        PyObject *tool = PyTuple_GET_ITEM(tools, each);
        fits = tool == Py_None || PyObject_TypeCheck(tool, kinds[kind].tools[each]);
    }
    if (!fits)
        PyErr_Format(PyExc_TypeError, "a hook of the kind '%s' has other tools than %R", kinds[kind].name,
                     tools == NULL ? Py_None : tools);
    return fits;
}

static PyObject *hook_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"kind", "original", "ring", "begin", "end", "most", "tools", NULL};
    const char *kind;
    PyObject *original, *log, *begin = Py_None, *end = Py_None, *tools = NULL;
    Py_ssize_t most = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO!|OOnO!:Hook", names, &kind, &original, &ks_log_type, &log, &begin,
                                     &end, &most, &PyTuple_Type, &tools))
        return NULL;
    size_t number = 0;
    while (number < sizeof kinds / sizeof *kinds && strcmp(kinds[number].name, kind) != 0)
        number++;
    if (number == sizeof kinds / sizeof *kinds)
        return PyErr_Format(PyExc_ValueError, "there is no hook of the kind '%s'", kind);
    if (!has_tools(number, tools))
        return NULL;
    if (!PyCallable_Check(original))
        return PyErr_Format(PyExc_TypeError, "%R is not callable", original);
    ks_hook *self = (ks_hook *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = call_hook;
    self->body = *kinds[number].body;
    self->original = Py_NewRef(original);
    self->log = (ks_log *)Py_NewRef(log);
    self->begin = Py_NewRef(begin);
    self->end = Py_NewRef(end);
    self->phases = self->log->phases;
    self->tools = Py_XNewRef(tools);
    self->configurations.most = self->launches.most = most > 0 ? (size_t)most : 0;
    self->is_enabled = true;
    self->dict = PyDict_New();
    if (self->dict == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* Bound as a function is: what stands in a class gets the instance first. */
static PyObject *hook_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(type)) {
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

/* What it has not itself, such as a signature or a code object, it has from what it stands for. */
static PyObject *hook_getattr(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError) || ((ks_hook *)self)->original == NULL)
        return found;
    PyErr_Clear();
    return PyObject_GetAttr(((ks_hook *)self)->original, name);
}

/* By its name, as a function is pickled. */
static PyObject *hook_reduce(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyObject *hook_repr(ks_hook *self) { return PyObject_Repr(self->original); }

static PyMethodDef hook_methods[] = {
    {"take", (PyCFunction)hook_take, METH_NOARGS, "Have the calls of the original, a Python function, run through here."},
    {"give_back", (PyCFunction)hook_give_back, METH_NOARGS,
     "Record no more; return whether the original is as it was before take()."},
    {"know", (PyCFunction)(void (*)(void))hook_known, METH_FASTCALL,
     "know($self, table, key, first, second, /)\n--\n\nSay what ids an object stands for; it is held."},
    {"forget", (PyCFunction)hook_forget, METH_NOARGS, "Let go of the objects whose ids are known."},
    {"__reduce__", (PyCFunction)hook_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef hook_members[] = {
    {"is_enabled", T_BOOL, offsetof(ks_hook, is_enabled), 0, "Whether it records."},
    {"__dictoffset__", T_PYSSIZET, offsetof(ks_hook, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ks_hook, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *get_original(ks_hook *self, void *Py_UNUSED(closure)) {
    return Py_NewRef(self->original == NULL ? Py_None : self->original);
}

/* A hook that records no more may be kept by somebody: it can stand for the hook of a later recording. */
static int set_original(ks_hook *self, PyObject *value, void *Py_UNUSED(closure)) {
    if (value == NULL || !PyCallable_Check(value) || self->saved != NULL) {
        PyErr_SetString(PyExc_TypeError, "a hook stands for a callable, or for the function whose calls it has taken");
        return -1;
    }
    PyObject *before = self->original;
    self->original = Py_NewRef(value);
#ifndef Py_GIL_DISABLED
    Py_XDECREF(before);
#else
    (void)before; /* another thread may be about to call it: it stays */
#endif
    return 0;
}

static PyGetSetDef hook_getset[] = {
    {"original", (getter)get_original, (setter)set_original, "What it stands for.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject ks_hook_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "kernelscope._native._core.Hook",
    .tp_basicsize = sizeof(ks_hook),
    .tp_dictoffset = offsetof(ks_hook, dict),
    .tp_weaklistoffset = offsetof(ks_hook, weakrefs),
    .tp_vectorcall_offset = offsetof(ks_hook, vectorcall),
    .tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = PyDoc_STR("Hook(kind, original, ring, begin=None, end=None, most=0, tools=())\n--\n\n"
                        "Stands for a callable, or has the calls of a Python function run through it, and records them."),
    .tp_new = hook_new,
    .tp_dealloc = (destructor)hook_dealloc,
    .tp_traverse = (traverseproc)hook_traverse,
    .tp_clear = (inquiry)hook_clear,
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = hook_get,
    .tp_getattro = hook_getattr,
    .tp_repr = (reprfunc)hook_repr,
    .tp_methods = hook_methods,
    .tp_members = hook_members,
    .tp_getset = hook_getset,
};
