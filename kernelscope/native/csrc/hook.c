/* The type Hook: a callable that stands for another one, or that the calls of a Python function run through. */
#include "core.h"

#include <structmember.h>

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

KS_HOT static PyObject *call_hook(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    ks_hook *hook = (ks_hook *)self;
    if (!KS_LIKELY(hook->original != NULL)) {
        PyErr_SetString(PyExc_RuntimeError, "this hook is being collected as garbage");
        return NULL;
    }
    enter(hook); /* it may be taken away while the call lasts */
    PyObject *result = KS_LIKELY(hook->is_enabled) ? hook->body(hook, args, nargsf, kwnames)
                                                   : ks_original(hook, args, nargsf, kwnames);
    leave(hook);
    return result;
}

static void forget_before(ks_function *before) {
    Py_CLEAR(before->code);
    Py_CLEAR(before->defaults);
    Py_CLEAR(before->kwdefaults);
}

#ifdef KS_TAKES_FUNCTIONS
/* Functions whose calls run through a hook: each has an entry of its own, so that nothing is to be looked up. */
enum { ENTRIES = 256, FIRST_VERSION = 2 /* 0 and 1 stand for none */ };
static _Atomic(ks_hook *) entries[ENTRIES];
static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;
static vectorcallfunc plain; /* what CPython itself gives to Python functions */

static inline PyObject *call_taken(int entry, PyObject *function, PyObject *const *args, size_t nargsf,
                                   PyObject *kwnames) {
    ks_hook *hook = atomic_load_explicit(&entries[entry], memory_order_acquire);
    if (hook == NULL || hook->original != function) /* given back since the call began */
        return plain(function, args, nargsf, kwnames);
    return call_hook((PyObject *)hook, args, nargsf, kwnames);
}

#define ENTRY(n)                                                                                                       \
    KS_HOT static PyObject *entry_##n(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) {   \
        return call_taken(0x##n, function, args, nargsf, kwnames);                                                     \
    }
#define NAME(n) entry_##n,
#define ROW(each, n)                                                                                                   \
    each(n##0) each(n##1) each(n##2) each(n##3) each(n##4) each(n##5) each(n##6) each(n##7) each(n##8) each(n##9)      \
        each(n##a) each(n##b) each(n##c) each(n##d) each(n##e) each(n##f)
#define ALL(each)                                                                                                      \
    ROW(each, 0) ROW(each, 1) ROW(each, 2) ROW(each, 3) ROW(each, 4) ROW(each, 5) ROW(each, 6) ROW(each, 7)            \
    ROW(each, 8) ROW(each, 9) ROW(each, a) ROW(each, b) ROW(each, c) ROW(each, d) ROW(each, e) ROW(each, f)
ALL(ENTRY)
static const vectorcallfunc entry_points[ENTRIES] = {ALL(NAME)};

/* Under the lock: the entry that the function's calls come by, or -1. */
static int entry_of(PyFunctionObject *function) {
    for (int entry = 0; entry < ENTRIES; entry++)
        if (function->vectorcall == entry_points[entry])
            return entry;
    return -1;
}

static void remember(ks_function *before, PyFunctionObject *function) {
    before->version = function->func_version;
    before->code = Py_NewRef(function->func_code);
    before->defaults = Py_XNewRef(function->func_defaults);
    before->kwdefaults = Py_XNewRef(function->func_kwdefaults);
}

/* Gives a function its version back, so that calls of it run as they did, unless somebody has changed it meanwhile. */
static void give_version_back(const ks_function *before, PyFunctionObject *function) {
    bool is_same = function->func_version < FIRST_VERSION && before->code == function->func_code &&
                   before->defaults == function->func_defaults && before->kwdefaults == function->func_kwdefaults;
#ifdef Py_GIL_DISABLED
    is_same = false; /* others may be reading it */
#endif
    if (is_same)
        function->func_version = before->version;
}
#endif

static PyObject *hook_take(ks_hook *self, PyObject *Py_UNUSED(ignored)) {
#ifdef KS_TAKES_FUNCTIONS
    if (!PyFunction_Check(self->original))
        return PyErr_Format(PyExc_TypeError, "%R is no Python function", self->original);
    PyFunctionObject *function = (PyFunctionObject *)self->original;
    pthread_mutex_lock(&entries_lock);
    bool is_free = self->is_enabled && self->entry < 0 && entry_of(function) < 0; /* a hook takes once */
    int entry = 0;
    while (entry < ENTRIES && atomic_load_explicit(&entries[entry], memory_order_relaxed) != NULL)
        entry++;
    if (is_free && entry < ENTRIES) {
        if (plain == NULL)
            plain = function->vectorcall;
        self->saved = function->vectorcall;
        self->entry = entry;
        remember(&self->before, function);
        atomic_store_explicit(&entries[entry], enter(self), memory_order_release);
        PyFunction_SetVectorcall(function, entry_points[entry]);
    }
    pthread_mutex_unlock(&entries_lock);
    if (!is_free)
        return PyErr_Format(PyExc_RuntimeError, "the calls of %R run through a hook already", self->original);
    if (entry == ENTRIES)
        return PyErr_Format(PyExc_RuntimeError, "%d functions are hooked: there is no room for another", ENTRIES);
    Py_RETURN_NONE;
#else
    return PyErr_Format(PyExc_RuntimeError, "Python 3.11 runs %R without asking for its vectorcall", self->original);
#endif
}

/* Returns whether the function is as it was; else another wrapper has come over the hook, which stays and passes on. */
static PyObject *hook_give_back(ks_hook *self, PyObject *Py_UNUSED(ignored)) {
    bool is_undone = true;
    self->is_enabled = false;
#ifdef KS_TAKES_FUNCTIONS
    bool had = false;
    pthread_mutex_lock(&entries_lock);
    if (self->entry >= 0) {
        PyFunctionObject *function = (PyFunctionObject *)self->original;
        is_undone = had = function->vectorcall == entry_points[self->entry];
        if (is_undone) {
            PyFunction_SetVectorcall(function, self->saved);
            give_version_back(&self->before, function);
            atomic_store_explicit(&entries[self->entry], NULL, memory_order_release);
            self->entry = -1;
        }
    }
    pthread_mutex_unlock(&entries_lock);
#ifndef Py_GIL_DISABLED
    if (had) {
        forget_before(&self->before); /* outside of the lock: what goes may run anything */
        leave(self);
    }
#else
    (void)had; /* another thread may have found it and not begun: it stays, a few hundred bytes */
#endif
#endif
    return PyBool_FromLong(is_undone);
}

PyObject *ks_taken(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    PyObject *found = PyList_New(0);
#ifdef KS_TAKES_FUNCTIONS
    for (int entry = 0; entry < ENTRIES && found != NULL; entry++) {
        ks_hook *hook = atomic_load_explicit(&entries[entry], memory_order_acquire);
        if (hook != NULL && PyList_Append(found, hook->original) < 0)
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
    int32_t first, second;
    if (ks_as_id(args[2], &first) < 0 || ks_as_id(args[3], &second) < 0)
        return NULL;
    if (PyUnicode_CompareWithASCIIString(args[0], "launches") == 0) {
        ks_shape shape;
        if (!ks_shape_from(args[1], &shape) || ks_shapes_put(&self->launches, &shape, (int32_t)first, (int32_t)second) < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    bool is_target = PyUnicode_CompareWithASCIIString(args[0], "targets") == 0;
    if (ks_table_put(is_target ? &self->targets : &self->configurations, args[1], first, second) < 0)
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
    self->is_enabled = false;
    forget(self);
    Py_CLEAR(self->original);
    Py_CLEAR(self->dict);
    Py_CLEAR(self->begin);
    Py_CLEAR(self->end);
    Py_CLEAR(self->tools);
    forget_before(&self->before);
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
    {"run", &ks_body_run, {NULL}},
    {"launcher", &ks_body_launcher, {NULL}},
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

/* How a callable wants to be called; NULL for a Python function, of which that may change, and for what does not say. */
static vectorcallfunc own_vectorcall(PyObject *callable) {
    return PyFunction_Check(callable) ? NULL : PyVectorcall_Function(callable);
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
    self->saved = own_vectorcall(original);
    self->log = (ks_log *)Py_NewRef(log);
    self->begin = Py_NewRef(begin);
    self->end = Py_NewRef(end);
    self->phases = self->log->phases;
    self->tools = Py_XNewRef(tools);
    self->configurations.most = self->launches.most = most > 0 ? (size_t)most : 0;
    self->is_enabled = true;
    self->entry = -1;
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
    if (value == NULL || !PyCallable_Check(value) || self->entry >= 0) {
        PyErr_SetString(PyExc_TypeError, "a hook stands for a callable, or for the function whose calls it has taken");
        return -1;
    }
    PyObject *before = self->original;
    self->saved = own_vectorcall(value);
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
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "kernelscope.native._core.Hook",
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
