/* The type State: one thread's launch under way. */
#include "core.h"

#include <math.h>
#include <structmember.h>

static int state_traverse(ks_state *self, visitproc visit, void *arg) {
    Py_VISIT(self->log);
    Py_VISIT(self->launch_config);
    Py_VISIT(self->kernel);
    Py_VISIT(self->last_config);
    Py_VISIT(self->last_kernel);
    return 0;
}

static int state_clear(ks_state *self) {
    Py_CLEAR(self->launch_config);
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->last_config);
    Py_CLEAR(self->last_kernel);
    Py_CLEAR(self->log);
    return 0;
}

static void state_dealloc(ks_state *self) {
    PyObject_GC_UnTrack(self);
    state_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static void state_leave(ks_state *self) {
    self->spare = (ks_slot){.start_ns = KS_UNKNOWN};
    ks_forget_times(&self->spare);
    self->slot = &self->spare;
}

static PyObject *state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"ring", "thread_id", NULL};
    PyObject *log;
    int thread_id;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!i:State", names, &ks_log_type, &log, &thread_id))
        return NULL;
    ks_state *self = (ks_state *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->log = (ks_log *)Py_NewRef(log);
    self->thread_id = thread_id;
    state_leave(self);
    return (PyObject *)self;
}

static PyObject *state_forget(ks_state *self, PyObject *Py_UNUSED(ignored)) {
    Py_CLEAR(self->launch_config);
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->last_config);
    Py_CLEAR(self->last_kernel);
    state_leave(self);
    Py_RETURN_NONE;
}

/* Seconds as nanoseconds; what is negative is unknown. */
static int64_t nanoseconds(double seconds) {
    return seconds >= 0 && seconds < 9e9 ? llrint(seconds * 1e9) : KS_UNKNOWN; /* and what is no number */
}

static PyObject *state_write(ks_state *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 7) {
        PyErr_Format(PyExc_TypeError, "write() takes 7 arguments, not %zd", count);
        return NULL;
    }
    double times[5];
    int32_t ids[2];
    for (int number = 0; number < 5; number++) {
        times[number] = PyFloat_AsDouble(args[number]);
        if (times[number] == -1.0 && PyErr_Occurred())
            return NULL;
    }
    if (ks_as_id(args[5], &ids[0]) < 0 || ks_as_id(args[6], &ids[1]) < 0)
        return NULL;
    if (self->log == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this state is being collected as garbage");
        return NULL;
    }
    uint64_t sequence;
    ks_slot *slot = ks_ring_take(&self->log->ring, &sequence);
    if (slot != NULL) {
        bool phases = self->log->phases;
        ks_forget_times(slot); /* hooks in Python give three boundaries */
        slot->start_ns = nanoseconds(times[0]);
        slot->dispatch_end_ns = phases ? nanoseconds(times[1]) : KS_UNKNOWN;
        slot->submit_start_ns = phases ? nanoseconds(times[2]) : KS_UNKNOWN;
        slot->submit_end_ns = phases ? nanoseconds(times[3]) : KS_UNKNOWN;
        slot->end_ns = nanoseconds(times[4]);
        slot->target = ids[0];
        slot->configuration = ids[1];
        slot->thread = self->thread_id;
        slot->kind = KS_LAUNCH;
        ks_finish(slot, sequence);
    }
    Py_CLEAR(self->launch_config); /* says that it is written */
    Py_RETURN_NONE;
}

static int64_t *boundary(ks_state *self, void *offset) {
    return (int64_t *)(void *)((char *)self->slot + (intptr_t)offset);
}

static PyObject *get_boundary(ks_state *self, void *offset) {
    int64_t time = *boundary(self, offset);
    return PyFloat_FromDouble(time < 0 ? -1.0 : (double)time / 1e9);
}

static int set_boundary(ks_state *self, PyObject *value, void *offset) {
    double seconds = value == NULL ? -1.0 : PyFloat_AsDouble(value);
    if (seconds == -1.0 && PyErr_Occurred())
        return -1;
    *boundary(self, offset) = nanoseconds(seconds);
    return 0;
}

static PyMethodDef state_methods[] = {
    {"forget", (PyCFunction)state_forget, METH_NOARGS, "Drop what the launch under way has left here."},
    {"write", (PyCFunction)(void (*)(void))state_write, METH_FASTCALL,
     "write($self, start, dispatch_end, submit_start, submit_end, end, target, configuration, /)\n--\n\n"
     "Append one launch, times in seconds."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef state_members[] = {
    {"launch_config", T_OBJECT, offsetof(ks_state, launch_config), 0, "Of the launch under way, or None."},
    {"kernel", T_OBJECT, offsetof(ks_state, kernel), 0, "What it launches, as far as that is known."},
    {"thread_id", T_INT, offsetof(ks_state, thread_id), 0, "The thread's row."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef state_getset[] = {
    {"dispatch_end", (getter)get_boundary, (setter)set_boundary, "When dispatch ended (s).",
     (void *)offsetof(ks_slot, dispatch_end_ns)},
    {"submit_start", (getter)get_boundary, (setter)set_boundary, "When the driver was called (s).",
     (void *)offsetof(ks_slot, submit_start_ns)},
    {"submit_end", (getter)get_boundary, (setter)set_boundary, "When the driver returned (s).",
     (void *)offsetof(ks_slot, submit_end_ns)},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject ks_state_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "kernelscope.native._core.State",
    .tp_basicsize = sizeof(ks_state),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_doc = PyDoc_STR("State(ring, thread_id)\n--\n\nOne thread's launch under way."),
    .tp_new = state_new,
    .tp_dealloc = (destructor)state_dealloc,
    .tp_traverse = (traverseproc)state_traverse,
    .tp_clear = (inquiry)state_clear,
    .tp_methods = state_methods,
    .tp_members = state_members,
    .tp_getset = state_getset,
};
