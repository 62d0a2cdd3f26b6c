/* The type Collections: a callback of Python's garbage collector that keeps when each collection was.
 *
 * It is in C because a callback in Python would run signal handlers, and a Ctrl-C that is raised in a callback is lost:
 * the collector prints it and goes on.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#ifndef Py_GIL_DISABLED
#define KS_BEGIN_ALONE(self) {
#define KS_END_ALONE() }
#else /* one thread may read rows while another's collection adds one */
#define KS_BEGIN_ALONE(self) Py_BEGIN_CRITICAL_SECTION(self)
#define KS_END_ALONE() Py_END_CRITICAL_SECTION()
#endif

/* More are counted only. */
#define KS_MOST_COLLECTIONS (1u << 20)

/* One collection, as `rows` hands it out. */
typedef struct {
    int64_t start_ns, end_ns;
    int64_t thread; /* its ident */
    int64_t generation, collected, uncollectable;
} ks_collection;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *clock; /* NULL: the host clock itself */
    int64_t start_ns; /* of the collection under way; KS_UNKNOWN: none */
    ks_collection *rows;
    size_t count, room;
    uint64_t dropped;
} ks_collections;

static int64_t now(ks_collections *self) {
    if (self->clock == NULL)
        return ks_now();
    PyObject *time = PyObject_CallNoArgs(self->clock);
    int64_t found = time == NULL ? KS_UNKNOWN : PyLong_AsLongLong(time);
    Py_XDECREF(time);
    return found;
}

/* A number of the collector's information; -1 where there is none. */
static int64_t number(PyObject *info, PyObject *name) {
    PyObject *value = PyDict_Check(info) ? PyDict_GetItemWithError(info, name) : NULL;
    return value != NULL && PyLong_Check(value) ? PyLong_AsLongLong(value) : -1;
}

static bool has_room(ks_collections *self) {
    if (self->count < self->room)
        return true;
    size_t room = self->room == 0 ? 256 : self->room * 2;
    ks_collection *rows = room > KS_MOST_COLLECTIONS ? NULL : realloc(self->rows, room * sizeof *rows);
    if (rows == NULL)
        return false;
    self->rows = rows;
    self->room = room;
    return true;
}

/* As `gc.callbacks` are called: with "start" or "stop", and a dict. */
static PyObject *collections_call(ks_collections *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (PyVectorcall_NARGS(nargsf) != 2 || kwnames != NULL || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "Collections takes a phase and a dict, as gc.callbacks do");
        return NULL;
    }
    if (PyUnicode_CompareWithASCIIString(args[0], "start") == 0) {
        self->start_ns = now(self);
    } else if (self->start_ns != KS_UNKNOWN) { /* else it began before anybody listened */
        ks_collection row = {self->start_ns, now(self), (int64_t)PyThread_get_thread_ident(),
                             number(args[1], ks_str_generation), number(args[1], ks_str_collected),
                             number(args[1], ks_str_uncollectable)};
        self->start_ns = KS_UNKNOWN;
        KS_BEGIN_ALONE(self);
        if (has_room(self))
            self->rows[self->count++] = row;
        else
            self->dropped++;
        KS_END_ALONE();
    }
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *collections_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"clock", NULL};
    PyObject *clock = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Collections", names, &clock))
        return NULL;
    ks_collections *self = (ks_collections *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = (vectorcallfunc)collections_call;
    self->clock = clock == Py_None ? NULL : Py_NewRef(clock);
    self->start_ns = KS_UNKNOWN;
    return (PyObject *)self;
}

static int collections_traverse(ks_collections *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock);
    return 0;
}

static int collections_clear(ks_collections *self) {
    Py_CLEAR(self->clock);
    return 0;
}

static void collections_dealloc(ks_collections *self) {
    PyObject_GC_UnTrack(self);
    collections_clear(self);
    free(self->rows);
    Py_TYPE(self)->tp_free(self);
}

static Py_ssize_t collections_length(ks_collections *self) { return (Py_ssize_t)self->count; }

static PyObject *collections_rows(ks_collections *self, PyObject *args) {
    Py_ssize_t first = 0;
    if (!PyArg_ParseTuple(args, "|n:rows", &first))
        return NULL;
    PyObject *found;
    KS_BEGIN_ALONE(self);
    size_t skipped = first < 0 ? 0 : (size_t)first < self->count ? (size_t)first : self->count;
    size_t room = (self->count - skipped) * sizeof(ks_collection);
    found = PyBytes_FromStringAndSize(room ? (const char *)(self->rows + skipped) : NULL, (Py_ssize_t)room);
    KS_END_ALONE();
    return found;
}

static PyObject *collections_dropped(ks_collections *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(self->dropped);
}

static PyMethodDef methods[] = {
    {"rows", (PyCFunction)collections_rows, METH_VARARGS,
     "rows($self, first=0, /)\n--\n\n"
     "The collections from the one with that number on, as they ended: six int64 each, which are start_ns, end_ns,\n"
     "the thread's ident, the generation, and how many objects were collected and could not be; -1 is unknown."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"dropped", (getter)collections_dropped, NULL, "How many collections found no room.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PySequenceMethods sequence = {.sq_length = (lenfunc)collections_length};

PyTypeObject ks_collections_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "kernelscope.native._core.Collections",
    .tp_basicsize = sizeof(ks_collections),
    .tp_vectorcall_offset = offsetof(ks_collections, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Collections(clock=None)\n--\n\nA callback for gc.callbacks that keeps when each collection was.",
    .tp_new = collections_new,
    .tp_dealloc = (destructor)collections_dealloc,
    .tp_traverse = (traverseproc)collections_traverse,
    .tp_clear = (inquiry)collections_clear,
    .tp_as_sequence = &sequence,
    .tp_methods = methods,
    .tp_getset = attributes,
};
