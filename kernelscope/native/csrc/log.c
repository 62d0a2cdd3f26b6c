/* The types Ring, what hooks write launches to and where they are read as columns, and State, a thread's launch under
   way. */
#include "core.h"

#include <errno.h>
#include <math.h>
#include <structmember.h>
#include <sys/mman.h>

static int state_traverse(ks_state *self, visitproc visit, void *arg) {
    Py_VISIT(self->log);
    Py_VISIT(self->launch_config);
    Py_VISIT(self->kernel);
    Py_VISIT(self->last_config);
    Py_VISIT(self->last_kernel);
    return ks_sites_traverse(&self->sites, visit, arg);
}

static int state_clear(ks_state *self) {
    Py_CLEAR(self->launch_config);
    Py_CLEAR(self->kernel);
    Py_CLEAR(self->last_config);
    Py_CLEAR(self->last_kernel);
    ks_sites_clear(&self->sites);
    ks_paths_clear(&self->paths);
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
    static char *names[] = {"ring", "site", NULL};
    PyObject *log;
    int site;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!i:State", names, &ks_log_type, &log, &site))
        return NULL;
    ks_state *self = (ks_state *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->log = (ks_log *)Py_NewRef(log);
    self->site = site;
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

static bool is_gone(const ks_state *self) {
    if (self->log == NULL)
        PyErr_SetString(PyExc_RuntimeError, "this state is being collected as garbage");
    return self->log == NULL;
}

static PyObject *state_here(ks_state *self, PyObject *Py_UNUSED(ignored)) {
    return is_gone(self) ? NULL : PyLong_FromLong(ks_site(self));
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
    if (is_gone(self))
        return NULL;
    int32_t site = ks_site(self);
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
        slot->site = site;
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
    {"here", (PyCFunction)state_here, METH_NOARGS,
     "Where the thread, which must be the calling one, is: the id of a line of the user's code, or the thread's own."},
    {"write", (PyCFunction)(void (*)(void))state_write, METH_FASTCALL,
     "write($self, start, dispatch_end, submit_start, submit_end, end, target, configuration, /)\n--\n\n"
     "Append one launch, times in seconds."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef state_members[] = {
    {"launch_config", T_OBJECT, offsetof(ks_state, launch_config), 0, "Of the launch under way, or None."},
    {"kernel", T_OBJECT, offsetof(ks_state, kernel), 0, "What it launches, as far as that is known."},
    {"site", T_INT, offsetof(ks_state, site), READONLY, "The thread's own id, for where no line is known."},
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
    .tp_doc = PyDoc_STR("State(ring, site)\n--\n\nOne thread's launch under way."),
    .tp_new = state_new,
    .tp_dealloc = (destructor)state_dealloc,
    .tp_traverse = (traverseproc)state_traverse,
    .tp_clear = (inquiry)state_clear,
    .tp_methods = state_methods,
    .tp_members = state_members,
    .tp_getset = state_getset,
};

KS_THREAD_LOCAL ks_thread ks_this_thread;
static _Atomic uint64_t tokens;

/* Raises it in the main thread. */
static int raise_later(void *exception) {
    ks_put_exception(exception);
    return -1;
}

void ks_raise_later(void) {
    PyObject *raised = ks_take_exception();
    if (Py_AddPendingCall(raise_later, raised) != 0) {
        ks_put_exception(raised);
        PyErr_WriteUnraisable(NULL);
    }
}

int64_t ks_clock_slow(ks_log *log) {
    PyObject *pending = ks_take_exception();
    PyObject *time = PyObject_CallNoArgs(log->clock);
    int64_t found = time == NULL ? -1 : PyLong_AsLongLong(time);
    Py_XDECREF(time);
    if (PyErr_Occurred()) {
        ks_raise_later(); /* it is the user's, and the launch goes on */
        found = KS_UNKNOWN;
    }
    if (pending != NULL)
        ks_put_exception(pending);
    return found;
}

ks_state *ks_state_slow(ks_log *log) {
    if (log->new_state == NULL || log->states == NULL)
        return NULL;
    PyObject *made = PyObject_CallNoArgs(log->new_state);
    ks_state *state = NULL;
    if (made != NULL && PyObject_TypeCheck(made, &ks_state_type) && ((ks_state *)made)->log == log) {
        state = (ks_state *)made;
        if (!state->is_held && PyList_Append(log->states, made) != 0) {
            PyErr_Clear(); /* no memory: the launch is not recorded */
            state = NULL;
        }
    }
    if (state != NULL) {
        state->is_held = true;
        ks_this_thread.state = state;
        ks_this_thread.token = log->token;
    }
    Py_XDECREF(made); /* the list holds it */
    return state;
}

static void log_shut(ks_log *self) {
    if (self->is_open) {
        self->is_open = false;
        ks_ring_close(&self->ring);
    }
}

static int log_traverse(ks_log *self, visitproc visit, void *arg) {
    Py_VISIT(self->new_state);
    Py_VISIT(self->new_site);
    Py_VISIT(self->new_stack);
    Py_VISIT(self->clock);
    Py_VISIT(self->states);
    return 0;
}

static int log_clear(ks_log *self) {
    self->token = atomic_fetch_add(&tokens, 1) + 1; /* what threads remember goes with the list */
    Py_CLEAR(self->new_state);
    Py_CLEAR(self->new_site);
    Py_CLEAR(self->new_stack);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->states);
    return 0;
}

static void log_dealloc(ks_log *self) {
    PyObject_GC_UnTrack(self);
    log_clear(self);
    log_shut(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *log_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"mode", "capacity", "path", "phases", "clock", NULL};
    const char *mode = "grow";
    unsigned long long capacity = 0;
    PyObject *file = Py_None, *path = NULL, *clock = Py_None;
    int phases = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|sKOpO:Ring", names, &mode, &capacity, &file, &phases, &clock))
        return NULL;
    if (file != Py_None && !PyUnicode_FSConverter(file, &path))
        return NULL;
    static const char *const modes[] = {"grow", "ring", "stop"};
    int number = 0;
    while (number < 3 && strcmp(mode, modes[number]) != 0)
        number++;
    ks_log *self = NULL;
    if (number == 3) {
        PyErr_Format(PyExc_ValueError, "mode '%s' is not one of grow, ring, stop", mode);
    } else if (number != KS_GROW && (capacity == 0 || capacity > (uint64_t)KS_MOST_SEGMENTS << KS_SEGMENT_SHIFT)) {
        PyErr_Format(PyExc_ValueError, "capacity %llu is not between 1 and %llu", capacity,
                     (unsigned long long)KS_MOST_SEGMENTS << KS_SEGMENT_SHIFT);
    } else if ((self = (ks_log *)type->tp_alloc(type, 0)) != NULL) {
        self->token = atomic_fetch_add(&tokens, 1) + 1;
        self->phases = phases != 0;
        self->clock = clock == Py_None ? NULL : Py_NewRef(clock);
        self->states = PyList_New(0);
        int failure = self->states == NULL
                          ? ENOMEM
                          : ks_ring_open(&self->ring, number, capacity, path == NULL ? NULL : PyBytes_AS_STRING(path));
        if (failure != 0) {
            errno = failure;
            PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path == NULL ? NULL : file);
            Py_CLEAR(self);
        } else {
            self->is_open = true;
        }
    }
    Py_XDECREF(path);
    return (PyObject *)self;
}

static PyObject *log_mark(ks_log *self, PyObject *Py_UNUSED(ignored)) {
    ks_extent extent = ks_ring_extent(&self->ring);
    return Py_BuildValue("KK", (unsigned long long)extent.next, (unsigned long long)extent.lost);
}

#define KS_ONE(name, bits) +1
/* Columns: times, with KS_KEEP_NEWEST the number, and ids. */
enum { START, END = 1 KS_BOUNDARIES(KS_ONE), NUMBER, TIMES, IDS = 3, COLUMNS = TIMES + IDS };
#undef KS_ONE

typedef struct {
    int64_t *times[TIMES];
    int32_t *ids[IDS];
    uint64_t complete, under_way, voided;
} taken;

/* Counts the launches from index `since` on, and copies those that have ended where there is room for them. */
static void take(ks_log *self, uint64_t since, ks_extent extent, uint64_t room, taken *into) {
    uint64_t first = extent.oldest;
#ifndef KS_THREADS
    if (self->ring.mode != KS_KEEP_NEWEST && extent.next == extent.places && since < extent.places)
        first = since; /* index and place are one where all have gone well */
#endif
    uint64_t complete = 0, under_way = 0, voided = 0;
    for (uint64_t each = first; each < extent.places + extent.oldest; each++) {
        uint64_t place = each < extent.places ? each : each - extent.places;
        ks_slot *slot = ks_ring_at(&self->ring, place);
        if (slot == NULL)
            continue;
        uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_acquire);
        uint64_t number = sequence & ~KS_UNDER_WAY;
        if (number == 0 || number <= since || number > extent.next)
            continue;
        if (sequence & KS_UNDER_WAY) {
            under_way++;
            continue;
        }
        bool is_void = slot->kind == KS_VOID;
        if (!is_void && complete < room) {
            int64_t start = slot->start_ns;
            int column = START;
            into->times[column++][complete] = start;
#define KS_TAKE(name, bits) into->times[column++][complete] = slot->name##_ns < start ? KS_UNKNOWN : slot->name##_ns;
            KS_BOUNDARIES(KS_TAKE)
#undef KS_TAKE
            into->times[END][complete] = slot->end_ns;
            into->ids[0][complete] = slot->target;
            into->ids[1][complete] = slot->configuration;
            into->ids[2][complete] = slot->site;
            if (self->ring.mode == KS_KEEP_NEWEST) {
                /* A newer launch of another thread may have taken the slot in the middle of this. */
                into->times[NUMBER][complete] = (int64_t)number;
                atomic_thread_fence(memory_order_acquire);
                if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) != sequence)
                    continue;
            }
        }
        voided += is_void;
        complete += !is_void;
    }
    into->complete = complete;
    into->under_way = under_way;
    into->voided = voided;
}

static PyObject *log_counts(ks_log *self, PyObject *argument) {
    unsigned long long since = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    taken found = {0};
    ks_extent extent = ks_ring_extent(&self->ring);
    Py_BEGIN_ALLOW_THREADS
    take(self, since, extent, 0, &found);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("KKKKK", (unsigned long long)found.complete, (unsigned long long)found.under_way,
                         (unsigned long long)found.voided, (unsigned long long)extent.next,
                         (unsigned long long)extent.lost);
}

/* Bytes to be filled, in large pages where there are any: to touch new memory costs more than to fill it. */
static PyObject *new_column(uint64_t bytes) {
    const uintptr_t large = 1u << 21;
    PyObject *made = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (made != NULL && bytes >= 2 * large) {
        uintptr_t start = ((uintptr_t)PyByteArray_AS_STRING(made) + large - 1) & ~(large - 1);
        uintptr_t end = ((uintptr_t)PyByteArray_AS_STRING(made) + bytes) & ~(large - 1);
        madvise((void *)start, end - start, MADV_HUGEPAGE); /* where it fails, pages are small */
    }
    return made;
}

static PyObject *log_columns(ks_log *self, PyObject *argument) {
#define KS_NAME(name, bits) #name "_ns",
    static const char *const names[COLUMNS] = {"start_ns", KS_BOUNDARIES(KS_NAME) "end_ns", "number",
                                               "target",   "configuration",                 "site"};
#undef KS_NAME
    unsigned long long since = PyLong_AsUnsignedLongLong(argument);
    if (PyErr_Occurred())
        return NULL;
    taken into = {0};
    ks_extent extent = ks_ring_extent(&self->ring);
    /* As many at most: what is under way, was voided or overwritten is left out. */
    uint64_t room = extent.next > since ? extent.next - since : 0;
    room = room < extent.places ? room : extent.places;
    PyObject *columns[COLUMNS] = {NULL};
    PyObject *result = PyDict_New();
    for (int number = 0; number < COLUMNS && result != NULL; number++) {
        if (number == NUMBER && self->ring.mode != KS_KEEP_NEWEST)
            continue;
        PyObject *column = new_column(room * (number < TIMES ? 8 : 4));
        columns[number] = column; /* the dict holds it */
        if (column == NULL || PyDict_SetItemString(result, names[number], column) != 0)
            Py_CLEAR(result);
        else if (number < TIMES)
            into.times[number] = (int64_t *)(void *)PyByteArray_AS_STRING(column);
        else
            into.ids[number - TIMES] = (int32_t *)(void *)PyByteArray_AS_STRING(column);
        Py_XDECREF(column);
    }
    if (result == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    take(self, since, extent, room, &into);
    Py_END_ALLOW_THREADS
    for (int number = 0; number < COLUMNS && into.complete < room; number++)
        if (columns[number] != NULL &&
            PyByteArray_Resize(columns[number], (Py_ssize_t)into.complete * (number < TIMES ? 8 : 4)) != 0) {
            Py_DECREF(result);
            return NULL;
        }
    return result;
}

static PyObject *log_leave_file(ks_log *self, PyObject *Py_UNUSED(ignored)) {
    Py_BEGIN_ALLOW_THREADS
    ks_ring_leave_file(&self->ring);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *log_harm(ks_log *self, void *Py_UNUSED(closure)) {
    enum ks_harm harm;
    Py_BEGIN_ALLOW_THREADS
    harm = ks_ring_look(&self->ring);
    Py_END_ALLOW_THREADS
    return harm == KS_WHOLE ? Py_NewRef(Py_None) : PyUnicode_FromString(harm == KS_TORN ? "truncated" : "deleted");
}

static PyObject *log_failure(ks_log *self, void *Py_UNUSED(closure)) { return PyLong_FromLong(self->ring.failure); }

static PyObject *log_in_file(ks_log *self, void *Py_UNUSED(closure)) { return PyBool_FromLong(self->ring.file >= 0); }

static PyMethodDef log_methods[] = {
    {"mark", (PyCFunction)log_mark, METH_NOARGS, "How many launches have begun, and how many of them found no room."},
    {"counts", (PyCFunction)log_counts, METH_O,
     "counts($self, since, /)\n--\n\n"
     "Of the launches from an index on: ended, under way, voided; and what mark() returns."},
    {"columns", (PyCFunction)log_columns, METH_O,
     "columns($self, since, /)\n--\n\nThe launches from an index on that have ended, as columns of bytes."},
    {"leave_file", (PyCFunction)log_leave_file, METH_NOARGS,
     "Let go of the file, with what is in it: launches that end from now on are written nowhere."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef log_members[] = {
    {"new_state", T_OBJECT, offsetof(ks_log, new_state), 0, "Makes the calling thread's State, or finds it."},
    {"new_site", T_OBJECT, offsetof(ks_log, new_site), 0,
     "Gives an instruction of the calling thread, a code object and an offset, its id; None: lines are not recorded."},
    {"new_stack", T_OBJECT, offsetof(ks_log, new_stack), 0,
     "Gives a call path of the calling thread, code objects and offsets, its id; None: call paths are not recorded."},
    {"phases", T_BOOL, offsetof(ks_log, phases), READONLY, "Whether boundaries inside of launches are recorded."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef log_getset[] = {
    {"failure", (getter)log_failure, NULL, "errno of why the file holds no more than it does, or 0.", NULL},
    {"harm", (getter)log_harm, NULL, "What somebody else has done to the file: 'deleted', 'truncated', or None.", NULL},
    {"is_in_file", (getter)log_in_file, NULL, "Whether launches go to a file; in a child of fork() they do not.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject ks_log_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "kernelscope.native._core.Ring",
    .tp_basicsize = sizeof(ks_log),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = PyDoc_STR("Ring(mode='grow', capacity=0, path=None, phases=True, clock=None)\n--\n\n"
                        "Launches in slots of 64 bytes, in memory or in a file."),
    .tp_new = log_new,
    .tp_dealloc = (destructor)log_dealloc,
    .tp_traverse = (traverseproc)log_traverse,
    .tp_clear = (inquiry)log_clear,
    .tp_methods = log_methods,
    .tp_members = log_members,
    .tp_getset = log_getset,
};
