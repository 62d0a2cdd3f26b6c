/* The type Operators: which of PyTorch's operators each thread is in, and when it enters and leaves them.
 *
 * PyTorch calls back at each of its operators, on the operator's thread, with the interpreter's lock or without it.
 * What is done then needs neither Python nor a call of PyTorch's but for the name: it is looked up among the names that
 * were met under the operator around it, and an instant and a number are kept.
 *
 * The callback is `at::RecordFunctionCallback`, which `at::addGlobalCallback` takes by value. It is declared here as the
 * System V ABI of x86-64 passes it; `kernelscope.features.operators.record` compares the version and the header that
 * PyTorch brings before it gives the addresses of these functions.
 */
#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCOPES = 10, FUNCTION = 0, BACKWARD_FUNCTION = 1, USER_SCOPE = 7 };
enum { CHUNK = 4096, MOST_DEEP = 256, MOST_NAMES = 1 << 16, MOST_CHARS = 200 };
/* 256 MiB; more are counted only. */
#define MOST_EVENTS ((int64_t)1 << 24)

/* As PyTorch has it: functions, the share of calls that is looked at, kinds of calls, what the functions are given. */
typedef struct {
    void *(*start)(void **context, const void *function);
    void (*end)(const void *function, void *context);
    double sampling;
    bool scopes[SCOPES];
    bool inputs, outputs, ids;
} record_callback;

/* From an instant on a thread is in the operator of that number; -1: in none. */
typedef struct {
    int64_t time_ns;
    int64_t node;
} event;

typedef struct chunk {
    struct chunk *following;
    size_t count;
    event rows[CHUNK];
} chunk;

/* An operator inside of another one, by its name. */
typedef struct {
    char *name;
    uint64_t hash;
    int32_t parent;
} node;

/* One thread's; they stay for good, for PyTorch's threads may call when nobody listens any more. */
typedef struct thread_operators {
    struct thread_operators *following;
    pthread_mutex_t lock; /* only who reads and who clears waits for it */
    pid_t process;
    uint64_t token; /* whose the rest is; 0: nobody's */
    unsigned long ident;
    ks_pace pace;
    chunk *first, *last;
    node *nodes;
    int32_t *places; /* of nodes by their hash, plus one */
    int32_t count, room;
    int32_t depth;
    struct {
        const void *function;
        int32_t node;
    } open[MOST_DEEP];
} thread_operators;

typedef struct {
    PyObject_HEAD
    uint64_t (*add)(record_callback callback);
    void (*remove)(uint64_t handle);
    const char *(*name)(const void *function);
    uint64_t token, handle;
    bool is_on;
} ks_operators;

static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static thread_operators *threads;
static KS_THREAD_LOCAL thread_operators *this_thread;
/* The one that listens. */
static _Atomic uint64_t listening;
static const char *(*_Atomic name_of)(const void *function);
static _Atomic int64_t kept, lost;

static void forget(thread_operators *own) {
    while (own->first != NULL) {
        chunk *gone = own->first;
        own->first = gone->following;
        free(gone);
    }
    own->last = NULL;
    for (int32_t at = 0; at < own->count; at++)
        free(own->nodes[at].name);
    free(own->nodes);
    free(own->places);
    own->nodes = NULL;
    own->places = NULL;
    own->count = own->room = own->depth = 0;
    own->token = 0;
}

static KS_RARE thread_operators *new_thread(void) {
    thread_operators *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    pthread_mutex_init(&made->lock, NULL);
    made->process = getpid();
    made->ident = (unsigned long)pthread_self();
    pthread_mutex_lock(&listing);
    made->following = threads;
    threads = made;
    pthread_mutex_unlock(&listing);
    return this_thread = made;
}

static void append(thread_operators *own, int32_t place) {
    if (own->last == NULL || own->last->count == CHUNK) {
        if (atomic_load_explicit(&kept, memory_order_relaxed) >= MOST_EVENTS) {
            atomic_fetch_add(&lost, 1);
            return;
        }
        chunk *made = malloc(sizeof *made);
        if (made == NULL) {
            atomic_fetch_add(&lost, 1);
            return;
        }
        atomic_fetch_add(&kept, CHUNK);
        made->following = NULL;
        made->count = 0;
        if (own->last == NULL)
            own->first = made;
        else
            own->last->following = made;
        own->last = made;
    }
    own->last->rows[own->last->count++] = (event){ks_time(&own->pace), place};
}

static KS_RARE bool grow(thread_operators *own) {
    int32_t room = own->room == 0 ? 64 : own->room * 2;
    node *nodes = room > MOST_NAMES ? NULL : realloc(own->nodes, (size_t)room * sizeof *nodes);
    if (nodes == NULL)
        return false;
    own->nodes = nodes;
    int32_t *places = calloc((size_t)room * 2, sizeof *places);
    if (places == NULL)
        return false;
    free(own->places);
    own->places = places;
    own->room = room;
    size_t mask = (size_t)room * 2 - 1;
    for (int32_t at = 0; at < own->count; at++) {
        size_t place = nodes[at].hash & mask;
        while (places[place] != 0)
            place = (place + 1) & mask;
        places[place] = at + 1;
    }
    return true;
}

/* The number of the operator of that name inside of another; that one's own where there is no room for more. */
static int32_t node_of(thread_operators *own, int32_t parent, const char *name) {
    uint64_t hash = 14695981039346656037u ^ ((uint64_t)(uint32_t)parent * 0x9E3779B97F4A7C15u);
    size_t length = 0;
    for (; name[length] != 0 && length < MOST_CHARS; length++)
        hash = (hash ^ (unsigned char)name[length]) * 1099511628211u;
    hash ^= hash >> 29;
    if (own->room != 0) {
        size_t mask = (size_t)own->room * 2 - 1;
        for (size_t place = hash & mask; own->places[place] != 0; place = (place + 1) & mask) {
            const node *found = own->nodes + own->places[place] - 1;
            if (found->hash == hash && found->parent == parent && strncmp(found->name, name, MOST_CHARS) == 0)
                return own->places[place] - 1;
        }
    }
    char *copy = own->count < own->room || grow(own) ? strndup(name, length) : NULL;
    if (copy == NULL)
        return parent;
    size_t mask = (size_t)own->room * 2 - 1, place = hash & mask;
    while (own->places[place] != 0)
        place = (place + 1) & mask;
    own->nodes[own->count] = (node){copy, hash, parent};
    own->places[place] = own->count + 1;
    return own->count++;
}

/* PyTorch enters an operator. As C++ returns a `unique_ptr`: through the address that comes first. */
KS_HOT static void *entered(void **context, const void *function) {
    *context = NULL;
    uint64_t token = atomic_load_explicit(&listening, memory_order_relaxed);
    const char *(*find_name)(const void *) = atomic_load_explicit(&name_of, memory_order_relaxed);
    thread_operators *own = this_thread != NULL ? this_thread : new_thread();
    if (token == 0 || own == NULL)
        return context;
    const char *name = find_name(function);
    pthread_mutex_lock(&own->lock);
    if (own->token != token) {
        forget(own);
        own->token = token;
    }
    if (own->depth < MOST_DEEP) {
        int32_t parent = own->depth == 0 ? -1 : own->open[own->depth - 1].node;
        int32_t place = node_of(own, parent, name == NULL ? "" : name);
        own->open[own->depth].function = function;
        own->open[own->depth++].node = place;
        append(own, place);
    }
    pthread_mutex_unlock(&own->lock);
    return context;
}

/* PyTorch leaves an operator, perhaps one that it entered when somebody else listened, or on another thread. */
KS_HOT static void left(const void *function, void *Py_UNUSED(context)) {
    thread_operators *own = this_thread;
    if (own == NULL)
        return;
    pthread_mutex_lock(&own->lock);
    int32_t at = own->depth;
    while (at > 0 && own->open[at - 1].function != function)
        at--;
    if (at > 0) {
        own->depth = at - 1;
        if (own->token == atomic_load_explicit(&listening, memory_order_relaxed))
            append(own, own->depth == 0 ? -1 : own->open[own->depth - 1].node);
    }
    pthread_mutex_unlock(&own->lock);
}

static PyObject *operators_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"add", "remove", "name", NULL};
    unsigned long long add, remove, name;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKK:Operators", names, &add, &remove, &name))
        return NULL;
    ks_operators *self = (ks_operators *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->add = (uint64_t(*)(record_callback))(uintptr_t)add;
    self->remove = (void (*)(uint64_t))(uintptr_t)remove;
    self->name = (const char *(*)(const void *))(uintptr_t)name;
    return (PyObject *)self;
}

static PyObject *operators_start(ks_operators *self, PyObject *Py_UNUSED(ignored)) {
    static uint64_t tokens; /* of the process */
#ifndef __x86_64__
    PyErr_SetString(PyExc_RuntimeError, "PyTorch's operators are recorded on x86-64 only");
    return NULL;
#endif
    if (atomic_load(&listening) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "PyTorch's operators are being recorded already");
        return NULL;
    }
    pthread_mutex_lock(&listing);
    if (threads != NULL && threads->process != getpid())
        threads = this_thread = NULL; /* a child of fork(): the parent's threads are not here */
    pthread_mutex_unlock(&listing);
    self->token = ++tokens;
    atomic_store(&kept, 0);
    atomic_store(&lost, 0);
    atomic_store(&name_of, self->name);
    atomic_store(&listening, self->token);
    self->is_on = true;
    record_callback callback = {.start = entered, .end = left, .sampling = 1.0};
    callback.scopes[FUNCTION] = callback.scopes[BACKWARD_FUNCTION] = callback.scopes[USER_SCOPE] = true;
    self->handle = self->add(callback);
    Py_RETURN_NONE;
}

static PyObject *operators_stop(ks_operators *self, PyObject *Py_UNUSED(ignored)) {
    if (self->is_on) {
        self->is_on = false;
        self->remove(self->handle);
        atomic_store(&listening, 0);
    }
    Py_RETURN_NONE;
}

static void clear(ks_operators *self) {
    pthread_mutex_lock(&listing);
    thread_operators *each = threads;
    pthread_mutex_unlock(&listing);
    for (; each != NULL; each = each->following) {
        if (each->process != getpid())
            return;
        pthread_mutex_lock(&each->lock);
        if (each->token == self->token && self->token != 0)
            forget(each);
        pthread_mutex_unlock(&each->lock);
    }
}

/* What one thread has, copied: making objects of Python may run code that calls PyTorch, and so this. */
typedef struct {
    event *events;
    node *nodes;
    size_t count;
    int32_t named;
} copied;

static bool is_copied(thread_operators *own, uint64_t token, copied *found) {
    *found = (copied){0};
    bool is_done = true;
    pthread_mutex_lock(&own->lock);
    if (token != 0 && own->token == token) {
        for (chunk *each = own->first; each != NULL; each = each->following)
            found->count += each->count;
        found->events = malloc(found->count * sizeof(event) + 1);
        found->nodes = calloc((size_t)own->count + 1, sizeof(node));
        is_done = found->events != NULL && found->nodes != NULL;
        event *to = found->events;
        for (chunk *each = own->first; is_done && each != NULL; to += each->count, each = each->following)
            memcpy(to, each->rows, each->count * sizeof(event));
        for (; is_done && found->named < own->count; found->named++) {
            found->nodes[found->named] = own->nodes[found->named];
            found->nodes[found->named].name = strdup(own->nodes[found->named].name);
            is_done = found->nodes[found->named].name != NULL;
        }
    }
    pthread_mutex_unlock(&own->lock);
    return is_done;
}

/* One thread's rows, as `rows` has them. */
static PyObject *rows_of(unsigned long ident, const copied *held) {
    PyObject *nodes = PyList_New(held->named);
    for (int32_t at = 0; nodes != NULL && at < held->named; at++) {
        const char *name = held->nodes[at].name;
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
        PyObject *pair = text == NULL ? NULL : Py_BuildValue("iN", held->nodes[at].parent, text);
        if (pair == NULL)
            Py_CLEAR(nodes);
        else
            PyList_SET_ITEM(nodes, at, pair);
    }
    return nodes == NULL ? NULL
                         : Py_BuildValue("kNy#", ident, nodes, (const char *)held->events,
                                         (Py_ssize_t)(held->count * sizeof(event)));
}

static PyObject *operators_rows(ks_operators *self, PyObject *Py_UNUSED(ignored)) {
    PyObject *found = PyList_New(0);
    pthread_mutex_lock(&listing);
    thread_operators *each = threads;
    pthread_mutex_unlock(&listing);
    for (; each != NULL && found != NULL && each->process == getpid(); each = each->following) {
        copied held;
        bool is_done = is_copied(each, self->token, &held);
        if (!is_done)
            PyErr_NoMemory();
        PyObject *rows = is_done && held.events != NULL ? rows_of(each->ident, &held) : NULL;
        if (PyErr_Occurred() || (rows != NULL && PyList_Append(found, rows) < 0))
            Py_CLEAR(found);
        Py_XDECREF(rows);
        for (int32_t at = 0; held.nodes != NULL && at < held.named; at++)
            free(held.nodes[at].name);
        free(held.nodes);
        free(held.events);
    }
    return found;
}

static PyObject *operators_dropped(ks_operators *Py_UNUSED(self), void *Py_UNUSED(closure)) {
    return PyLong_FromLongLong(atomic_load(&lost));
}

static void operators_dealloc(ks_operators *self) {
    if (self->is_on) {
        self->is_on = false;
        self->remove(self->handle);
        atomic_store(&listening, 0);
    }
    clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"start", (PyCFunction)operators_start, METH_NOARGS, "Have PyTorch call back at each of its operators."},
    {"stop", (PyCFunction)operators_stop, METH_NOARGS, "Have it call back no more; what was kept stays."},
    {"rows", (PyCFunction)operators_rows, METH_NOARGS,
     "What was kept, for each thread: its ident; its operators by number, each with the number of the one around it, -1\n"
     "for none, and its name; and bytes of two int64 each, an instant and the number of the operator that the thread is\n"
     "in from then on, -1 for none."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"dropped", (getter)operators_dropped, NULL, "How many instants found no room.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject ks_operators_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "kernelscope.native._core.Operators",
    .tp_basicsize = sizeof(ks_operators),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = PyDoc_STR("Operators(add, remove, name)\n--\n\nKeeps which of PyTorch's operators each thread is in."),
    .tp_new = operators_new,
    .tp_dealloc = (destructor)operators_dealloc,
    .tp_methods = methods,
    .tp_getset = attributes,
};
