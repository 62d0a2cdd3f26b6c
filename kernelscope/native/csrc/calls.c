/* The type CallSites: when and where in the user's code each call of the driver is made, as CUPTI tells of it.
 *
 * CUPTI's own records of calls make every call of the runtime slower, also those that are not recorded: 2 us a launch of
 * torch's on an H200's host. Its callbacks are of the calls alone that are logged.
 *
 * CUPTI calls back on the thread that calls the driver, which mostly has given the interpreter's lock away. Its frames
 * stand still meanwhile and nobody else changes them, so that they are read without the lock. Only what is seen for the
 * first time needs Python. The thread must not wait for the lock then: it may hold another lock, a library's, that the
 * thread with the interpreter's waits for. So it leaves a request with a thread of ours, for a while, and goes on without
 * a line where that does not get the lock in time.
 */
#include "core.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DOMAINS = 2, MOST_FUNCTIONS = 2048, CHUNK = 4096, BEFORE = 0, AFTER = 1, DEPTH = 8 };

/* How long a thread waits for the line of an instruction that is new, and after how often in vain it hardly does. */
#define PATIENCE_NS INT64_C(500000000)
#define LITTLE_NS INT64_C(500000)
enum { MOST_IN_VAIN = 4 };

/* The beginning of CUpti_CallbackData. */
typedef struct {
    int site;
    const char *name;
    const void *params;
    const int32_t *result;
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *data;
    uint32_t correlation;
} call_data;

typedef void (*callback)(void *, int, uint32_t, const void *);

/* Gives a call's time and thread in the clock's place. */
typedef void (*stamp)(int, int64_t *, uint32_t *);

/* As `take` hands them out. */
typedef struct {
    int64_t start, end;
    uint32_t correlation, thread;
    int32_t site, result;
    uint32_t domain, function;
} logged_call;

typedef struct chunk {
    struct chunk *following;
    _Atomic size_t count;
    logged_call rows[CHUNK];
} chunk;

/* What one thread has called. It lives as long as the recording, be the thread gone. */
typedef struct thread_calls {
    struct thread_calls *following;
    ks_sites sites;
    ks_paths paths;
    chunk *first, *last;
    size_t taken; /* of the first chunk's rows */
    uint32_t latest; /* the correlation id of the call that began last */
    size_t depth;
    logged_call under_way[DEPTH];
} thread_calls;

enum { WAITS, TAKEN, ANSWERED, GIVEN_UP };

/* Code objects and offsets of frames, one or those of a call path; borrowed from the frames until it is taken. */
typedef struct request {
    struct request *following;
    int state;
    int32_t site;
    bool is_path;
    size_t count;
    PyObject *codes[KS_MOST_FRAMES];
    int offsets[KS_MOST_FRAMES];
} request;

/* What a thread without the interpreter's lock has no more use for. */
typedef struct retired {
    struct retired *following;
    ks_sites sites;
    ks_paths paths;
    request *request;
    PyObject *code;
} retired;

typedef struct {
    PyObject_HEAD
    _Atomic uint64_t token; /* of no other recording of the process; 0: there is none */
    _Atomic size_t inside;  /* threads that are in a callback */
    PyObject *ask, *ask_path; /* NULL where lines, or call paths, are not recorded */
    ks_log *log;              /* of the launches that hooks record meanwhile */
    callback forward;
    stamp stamp; /* NULL: the clock's */
    bool logged[DOMAINS][MOST_FUNCTIONS], forwarded[DOMAINS][MOST_FUNCTIONS];
    _Atomic int32_t elsewhere; /* the site of threads that Python does not know */
    _Atomic uint64_t unanswered, lost;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t asked, answered;
    bool is_served;
    request *waiting, *taken;
    retired *retired;
    thread_calls *threads;
} ks_calls;

static KS_THREAD_LOCAL struct {
    uint64_t token;
    thread_calls *calls;
} here;

static thread_calls *calls_here(ks_calls *self, uint64_t token) {
    if (KS_LIKELY(here.token == token))
        return here.calls;
    thread_calls *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    pthread_mutex_lock(&self->lock);
    made->following = self->threads;
    self->threads = made;
    pthread_mutex_unlock(&self->lock);
    here.token = token;
    here.calls = made;
    return made;
}

static void append(ks_calls *self, thread_calls *calls, const logged_call *call) {
    size_t count = calls->last == NULL ? CHUNK : atomic_load_explicit(&calls->last->count, memory_order_relaxed);
    if (count == CHUNK) {
        chunk *made = malloc(sizeof *made);
        if (made == NULL) {
            atomic_fetch_add(&self->lost, 1);
            return;
        }
        made->following = NULL;
        atomic_init(&made->count, 0);
        chunk *before = calls->last;
        calls->last = made; /* first: who takes the rows frees a chunk that another one follows */
        __atomic_store_n(before == NULL ? &calls->first : &before->following, made, __ATOMIC_RELEASE);
        count = 0;
    }
    calls->last->rows[count] = *call;
    atomic_store_explicit(&calls->last->count, count + 1, memory_order_release);
}

static void unlink_request(request **from, request *one) {
    for (; *from != NULL; from = &(*from)->following)
        if (*from == one) {
            *from = one->following;
            return;
        }
}

/* Asks the serving thread for an id. True with an answer in time: the references to the code objects are the request's
 * then, which is the caller's. Else it is gone. */
static bool is_answered(ks_calls *self, request *made) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t patience = atomic_load(&self->unanswered) < MOST_IN_VAIN ? PATIENCE_NS : LITTLE_NS;
    int64_t nanoseconds = until.tv_nsec + patience;
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_mutex_lock(&self->lock);
    if (self->is_served) {
        made->following = self->waiting;
        self->waiting = made;
        pthread_cond_signal(&self->asked);
        while (made->state != ANSWERED && self->is_served &&
               pthread_cond_timedwait(&self->answered, &self->lock, &until) != ETIMEDOUT)
            ;
        if (made->state != ANSWERED)
            atomic_fetch_add(&self->unanswered, 1);
        unlink_request(&self->waiting, made);
    }
    bool has_answer = made->state == ANSWERED, is_theirs = made->state == TAKEN;
    if (is_theirs)
        made->state = GIVEN_UP; /* who has taken it lets go of it */
    pthread_mutex_unlock(&self->lock);
    if (!has_answer && !is_theirs)
        free(made);
    return has_answer;
}

/* Leaves to the serving thread what only it can let go of. */
static void retire(ks_calls *self, retired what) {
    retired *made = malloc(sizeof *made);
    if (made == NULL)
        return; /* it stays for good */
    *made = what;
    pthread_mutex_lock(&self->lock);
    made->following = self->retired;
    self->retired = made;
    pthread_mutex_unlock(&self->lock);
}

static ks_answer ask_with_lock(void *with, PyObject *code, int offset, int32_t *site) {
    ks_calls *self = with;
    PyObject *before = ks_take_exception(); /* a library may call the driver with one that is on its way */
    ks_sites_ask(self->ask, code, offset, site, ks_raise_later);
    ks_put_exception(before);
    return KS_ANSWERED;
}

static ks_answer ask_without_lock(void *with, PyObject *code, int offset, int32_t *site) {
    request *made = malloc(sizeof *made);
    if (made == NULL)
        return KS_NOT_ANSWERED;
    made->state = WAITS;
    made->is_path = false;
    made->count = 1;
    made->codes[0] = code;
    made->offsets[0] = offset;
    if (!is_answered(with, made))
        return KS_NOT_ANSWERED;
    *site = made->site;
    free(made);
    return KS_ANSWERED_HELD;
}

static void release_without_lock(void *with, ks_sites *full, PyObject *code) {
    retire(with, (retired){.sites = *full, .code = code});
}

static int32_t path_with_lock(ks_calls *self, thread_calls *calls, const ks_path *path, void *frame) {
    PyObject *before = ks_take_exception();
    PyObject *frames = ks_path_frames(path, frame);
    int32_t site = ks_path_ask(&calls->paths, path, frames, self->ask_path, ks_raise_later);
    Py_XDECREF(frames);
    ks_put_exception(before);
    return site;
}

static int32_t path_without_lock(ks_calls *self, thread_calls *calls, const ks_path *path, void *frame) {
    request *made = malloc(sizeof *made);
    if (made == NULL)
        return KS_NOT_THE_USERS;
    made->state = WAITS;
    made->is_path = true;
    made->count = path->count;
    ks_path_codes(path, frame, made->codes, made->offsets);
    if (!is_answered(self, made))
        return KS_NOT_THE_USERS;
    int32_t site = made->site;
    ks_paths full = {0};
    if (ks_path_put(&calls->paths, path, made->codes, site, &full)) {
        free(made);
        made = NULL;
    }
    if (made != NULL || full.entries != NULL)
        retire(self, (retired){.paths = full, .request = made});
    return site;
}

static KS_RARE int32_t site_of_path(ks_calls *self, thread_calls *calls, PyThreadState *thread, bool has_lock) {
    ks_path path;
    void *frame = ks_frame_of(thread);
    ks_path_read(&path, frame);
    if (path.count == 0)
        return KS_NOT_THE_USERS; /* a thread of a library's, such as autograd's, that Python knows */
    int32_t site;
    if (KS_LIKELY(ks_path_find(&calls->paths, &path, &site)))
        return site;
    return (has_lock ? path_with_lock : path_without_lock)(self, calls, &path, frame);
}

static int32_t site_here(ks_calls *self, thread_calls *calls) {
    int32_t elsewhere = atomic_load_explicit(&self->elsewhere, memory_order_relaxed);
    PyThreadState *thread = PyGILState_GetThisThreadState();
    if (thread == NULL)
        return elsewhere;
    bool has_lock = thread == _PyThreadState_UncheckedGet();
    if (self->ask_path != NULL) {
        int32_t site = site_of_path(self, calls, thread, has_lock);
        if (site >= 0)
            return site;
    }
    ks_asker asker = {has_lock ? ask_with_lock : ask_without_lock,
                      has_lock ? ks_sites_release : release_without_lock, self};
    return ks_sites_of(&calls->sites, thread, elsewhere, &asker);
}

/* Whether the call has a line to be found: not where a hook records it as that of a launch, whose line it has; what
 * callbacks call that run meanwhile has. */
static inline bool has_line(const ks_calls *self) {
    if (self->ask == NULL)
        return false;
    if (ks_this_thread.token != self->log->token)
        return true;
    const ks_slot *slot = ks_this_thread.state->slot;
    return slot->submit_start_ns == KS_UNKNOWN || slot->submit_end_ns != KS_UNKNOWN;
}

static inline void put_stamp(const ks_calls *self, int site, int64_t *time, uint32_t *thread) {
    if (KS_LIKELY(self->stamp == NULL))
        *time = ks_now();
    else
        self->stamp(site, time, thread);
}

/* Its time begins when its line is found, and ends before anything else is done. */
static inline void begin_call(ks_calls *self, thread_calls *calls, unsigned place, uint32_t function,
                              uint32_t correlation) {
    if (calls->latest == correlation ||
        (calls->depth > 0 && calls->under_way[calls->depth - 1].correlation == correlation))
        return; /* a driver's call inside of a runtime's has the same */
    calls->latest = correlation;
    int32_t site = has_line(self) ? site_here(self, calls) : KS_NOT_THE_USERS; /* which may run Python, and come here */
    if (calls->depth == DEPTH)
        calls->depth = 0; /* CUPTI told of no end of these */
    logged_call *made = &calls->under_way[calls->depth++];
    *made = (logged_call){.correlation = correlation, .thread = (uint32_t)(uintptr_t)pthread_self(), .site = site,
                          .domain = place + 1, .function = function};
    put_stamp(self, BEFORE, &made->start, &made->thread);
}

static inline void end_call(ks_calls *self, thread_calls *calls, unsigned place, uint32_t function,
                            const call_data *call) {
    size_t depth = calls->depth;
    for (logged_call *each; depth > 0; depth--) {
        each = &calls->under_way[depth - 1];
        if (each->correlation != call->correlation || each->domain != place + 1 || each->function != function)
            continue;
        put_stamp(self, AFTER, &each->end, &each->thread);
        each->result = call->result == NULL ? 0 : *call->result;
        calls->depth = depth - 1;
        append(self, calls, each);
        return;
    }
}

KS_HOT static void call_back(void *user, int domain, uint32_t function, const void *data) {
    ks_calls *self = user;
    const call_data *call = data;
    unsigned place = (unsigned)domain - 1;
    bool is_usual = call != NULL && place < DOMAINS && function < MOST_FUNCTIONS;
    if (is_usual && self->logged[place][function]) {
        atomic_fetch_add(&self->inside, 1);
        uint64_t token = atomic_load(&self->token);
        thread_calls *calls = token == 0 ? NULL : calls_here(self, token);
        if (KS_LIKELY(calls != NULL)) {
            if (call->site == BEFORE)
                begin_call(self, calls, place, function, call->correlation);
            else
                end_call(self, calls, place, function, call);
        }
        atomic_fetch_sub(&self->inside, 1);
    }
    if (!is_usual || self->forwarded[place][function])
        self->forward(user, domain, function, data);
}

static void free_threads(thread_calls *calls) {
    while (calls != NULL) {
        thread_calls *next = calls->following;
        ks_sites_clear(&calls->sites);
        ks_paths_clear(&calls->paths);
        while (calls->first != NULL) {
            chunk *gone = calls->first;
            calls->first = gone->following;
            free(gone);
        }
        free(calls);
        calls = next;
    }
}

static void free_request(request *one) {
    for (size_t at = 0; at < one->count; at++)
        Py_DECREF(one->codes[at]);
    free(one);
}

static void free_retired(ks_calls *self) {
    pthread_mutex_lock(&self->lock);
    retired *each = self->retired;
    self->retired = NULL;
    pthread_mutex_unlock(&self->lock);
    while (each != NULL) {
        retired *gone = each;
        each = gone->following;
        ks_sites_release(NULL, &gone->sites, gone->code);
        ks_paths_clear(&gone->paths);
        if (gone->request != NULL)
            free_request(gone->request);
        free(gone);
    }
}

static PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"forward", "stamp", NULL};
    unsigned long long forward, stamped = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K|K:CallSites", names, &forward, &stamped))
        return NULL;
    ks_calls *self = (ks_calls *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->forward = (callback)(uintptr_t)forward;
    self->stamp = (stamp)(uintptr_t)stamped;
    memset(self->forwarded, 1, sizeof self->forwarded);
    pthread_mutex_init(&self->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&self->asked, &monotonic);
    pthread_cond_init(&self->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return (PyObject *)self;
}

static PyObject *calls_start(ks_calls *self, PyObject *args) {
    PyObject *ask, *ask_path, *log;
    static uint64_t tokens; /* of the process */
    if (self->token != 0) {
        PyErr_SetString(PyExc_RuntimeError, "calls are being logged already");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOO!:start", &ask, &ask_path, &ks_log_type, &log))
        return NULL;
    ask = ask == Py_None ? NULL : ask;
    Py_XSETREF(self->ask_path, ask_path == Py_None ? NULL : Py_NewRef(ask_path));
    Py_XSETREF(self->log, (ks_log *)Py_NewRef(log));
    Py_XSETREF(self->ask, Py_XNewRef(ask));
    atomic_store(&self->elsewhere, KS_NOT_THE_USERS);
    atomic_store(&self->unanswered, 0);
    atomic_store(&self->lost, 0);
    pthread_mutex_lock(&self->lock);
    self->is_served = true;
    pthread_mutex_unlock(&self->lock);
    atomic_store(&self->token, ++tokens);
    Py_RETURN_NONE;
}

/* Logs no more; what was logged stays until `clear`. */
static PyObject *calls_stop(ks_calls *self, PyObject *Py_UNUSED(ignored)) {
    atomic_store(&self->token, 0);
    pthread_mutex_lock(&self->lock);
    self->is_served = false;
    pthread_cond_broadcast(&self->asked);
    pthread_cond_broadcast(&self->answered);
    pthread_mutex_unlock(&self->lock);
    Py_RETURN_NONE;
}

/* Lets go of what was logged; where a thread is in the middle of a call still, it stays for good. */
static PyObject *calls_clear(ks_calls *self, PyObject *Py_UNUSED(ignored)) {
    if (self->token != 0) {
        PyErr_SetString(PyExc_RuntimeError, "calls are being logged");
        return NULL;
    }
    pthread_mutex_lock(&self->lock);
    thread_calls *before = self->threads;
    self->threads = NULL;
    pthread_mutex_unlock(&self->lock);
    free_retired(self);
    if (atomic_load(&self->inside) == 0)
        free_threads(before);
    Py_RETURN_NONE;
}

/* The frames of a request that is taken, as pairs. */
static PyObject *frames_of(const request *one) {
    PyObject *frames = PyList_New((Py_ssize_t)one->count);
    for (size_t at = 0; frames != NULL && at < one->count; at++) {
        PyObject *pair = Py_BuildValue("Oi", one->codes[at], one->offsets[at]);
        if (pair == NULL)
            Py_CLEAR(frames);
        else
            PyList_SET_ITEM(frames, (Py_ssize_t)at, pair);
    }
    return frames;
}

/* Answers a request that was taken, be it given up. */
static void answer(ks_calls *self, unsigned long long number, int32_t site) {
    request *gone = NULL;
    pthread_mutex_lock(&self->lock);
    request *one = self->taken;
    while (one != NULL && (unsigned long long)(uintptr_t)one != number)
        one = one->following;
    if (one != NULL) {
        unlink_request(&self->taken, one);
        if (one->state == GIVEN_UP)
            gone = one;
        one->site = site;
        one->state = ANSWERED;
        pthread_cond_broadcast(&self->answered);
    }
    pthread_mutex_unlock(&self->lock);
    if (gone != NULL)
        free_request(gone);
}

static PyObject *calls_wait(ks_calls *self, PyObject *Py_UNUSED(ignored)) {
    while (true) {
        bool goes_on;
        Py_BEGIN_ALLOW_THREADS;
        pthread_mutex_lock(&self->lock);
        while (self->is_served && self->waiting == NULL && self->retired == NULL)
            pthread_cond_wait(&self->asked, &self->lock);
        goes_on = self->is_served;
        pthread_mutex_unlock(&self->lock);
        Py_END_ALLOW_THREADS;
        free_retired(self);
        if (!goes_on)
            Py_RETURN_NONE;
        pthread_mutex_lock(&self->lock);
        request *next = self->waiting;
        if (next != NULL) {
            self->waiting = next->following;
            next->state = TAKEN;
            next->following = self->taken;
            self->taken = next;
            for (size_t at = 0; at < next->count; at++)
                Py_INCREF(next->codes[at]); /* its frames have it, as its thread waits */
        }
        pthread_mutex_unlock(&self->lock);
        if (next == NULL)
            continue;
        unsigned long long number = (unsigned long long)(uintptr_t)next;
        PyObject *frames = frames_of(next);
        PyObject *found = frames == NULL ? NULL : Py_BuildValue("KNi", number, frames, next->is_path);
        if (found == NULL)
            answer(self, number, KS_NOT_THE_USERS);
        return found;
    }
}

static PyObject *calls_answer(ks_calls *self, PyObject *args) {
    unsigned long long number;
    int site;
    if (!PyArg_ParseTuple(args, "Ki:answer", &number, &site))
        return NULL;
    answer(self, number, site);
    Py_RETURN_NONE;
}

static PyObject *calls_log(ks_calls *self, PyObject *args) {
    int domain, function, logged, forwarded;
    if (!PyArg_ParseTuple(args, "iipp:log", &domain, &function, &logged, &forwarded))
        return NULL;
    if (domain < 1 || domain > DOMAINS || function < 0 || function >= MOST_FUNCTIONS) {
        PyErr_Format(PyExc_ValueError, "there is no function %d of domain %d", function, domain);
        return NULL;
    }
    self->logged[domain - 1][function] = logged;
    self->forwarded[domain - 1][function] = forwarded;
    Py_RETURN_NONE;
}

/* Adds a chunk's rows to what is found. */
static int add_rows(PyObject **found, const chunk *from, size_t first, size_t end) {
    size_t bytes = (end - first) * sizeof(logged_call);
    Py_ssize_t before = PyByteArray_GET_SIZE(*found);
    if (PyByteArray_Resize(*found, before + (Py_ssize_t)bytes) < 0)
        return -1;
    memcpy(PyByteArray_AS_STRING(*found) + before, &from->rows[first], bytes);
    return 0;
}

static PyObject *calls_take(ks_calls *self, PyObject *Py_UNUSED(ignored)) {
    PyObject *found = PyByteArray_FromStringAndSize(NULL, 0);
    pthread_mutex_lock(&self->lock);
    thread_calls *calls = self->threads;
    pthread_mutex_unlock(&self->lock);
    for (; calls != NULL && found != NULL; calls = calls->following) /* new ones come before the first */
        for (chunk *each = __atomic_load_n(&calls->first, __ATOMIC_ACQUIRE); each != NULL;) {
            /* In this order: a chunk that another one follows is full. */
            chunk *next = __atomic_load_n(&each->following, __ATOMIC_ACQUIRE);
            size_t end = atomic_load_explicit(&each->count, memory_order_acquire);
            if (add_rows(&found, each, calls->taken, end) < 0) {
                Py_CLEAR(found);
                break;
            }
            calls->taken = end;
            if (next != NULL) {
                calls->first = next;
                calls->taken = 0;
                free(each);
            }
            each = next;
        }
    return found;
}

static PyObject *get_elsewhere(ks_calls *self, void *Py_UNUSED(closure)) {
    return PyLong_FromLong(atomic_load(&self->elsewhere));
}

static int set_elsewhere(ks_calls *self, PyObject *value, void *Py_UNUSED(closure)) {
    int32_t site;
    if (value == NULL || ks_as_id(value, &site) < 0)
        return -1;
    atomic_store(&self->elsewhere, site);
    return 0;
}

static PyObject *get_unanswered(ks_calls *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(atomic_load(&self->unanswered));
}

static PyObject *get_lost(ks_calls *self, void *Py_UNUSED(closure)) {
    return PyLong_FromUnsignedLongLong(atomic_load(&self->lost));
}

static PyObject *get_callback(ks_calls *Py_UNUSED(self), void *Py_UNUSED(closure)) {
    return PyLong_FromVoidPtr((void *)(uintptr_t)call_back);
}

static PyObject *get_context(ks_calls *self, void *Py_UNUSED(closure)) { return PyLong_FromVoidPtr(self); }

static int calls_traverse(ks_calls *self, visitproc visit, void *arg) {
    Py_VISIT(self->ask);
    Py_VISIT(self->ask_path);
    Py_VISIT(self->log);
    return 0;
}

static int calls_clear_references(ks_calls *self) {
    if (self->token != 0)
        return 0; /* they are in use */
    Py_CLEAR(self->ask);
    Py_CLEAR(self->ask_path);
    Py_CLEAR(self->log);
    return 0;
}

static void calls_dealloc(ks_calls *self) {
    PyObject_GC_UnTrack(self);
    self->token = 0;
    calls_clear_references(self);
    free_retired(self);
    free_threads(self->threads);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->asked);
    pthread_cond_destroy(&self->answered);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef methods[] = {
    {"start", (PyCFunction)calls_start, METH_VARARGS,
     "start($self, ask, ask_path, ring, /)\n--\n\n"
     "Log from now on; `ask` gives a code object and an offset in it an id, `ask_path` a list of such pairs; None where\n"
     "calls have no sites, or no call paths. What hooks submit that write to the ring has no site here."},
    {"stop", (PyCFunction)calls_stop, METH_NOARGS, "Log no more; what was logged stays until `clear`."},
    {"clear", (PyCFunction)calls_clear, METH_NOARGS, "Let go of what was logged."},
    {"wait", (PyCFunction)calls_wait, METH_NOARGS,
     "Wait until a thread asks for an id, and return a number to answer with, pairs of a code object and an offset, and\n"
     "whether they are a call path; None when logging has stopped."},
    {"answer", (PyCFunction)calls_answer, METH_VARARGS, "answer($self, number, site, /)\n--\n\nAnswer what `wait` gave."},
    {"log", (PyCFunction)calls_log, METH_VARARGS,
     "log($self, domain, function, logged, forwarded, /)\n--\n\n"
     "Say of a function of the driver's or the runtime's interface whether its calls are logged, and handed on."},
    {"take", (PyCFunction)calls_take, METH_NOARGS,
     "Calls that ended since this was called last, each as int64 start and end, uint32 correlation id and thread, int32\n"
     "site, negative for none, and result, uint32 domain and function."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"elsewhere", (getter)get_elsewhere, (setter)set_elsewhere, "The site of threads that run none of the user's code.",
     NULL},
    {"unanswered", (getter)get_unanswered, NULL, "How many calls have no site because Python was busy.", NULL},
    {"lost", (getter)get_lost, NULL, "How many calls were not logged for want of memory.", NULL},
    {"callback", (getter)get_callback, NULL, "The address of the function that CUPTI calls.", NULL},
    {"context", (getter)get_context, NULL, "The address that CUPTI hands to it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject ks_calls_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "kernelscope.native._core.CallSites",
    .tp_basicsize = sizeof(ks_calls),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = PyDoc_STR("CallSites(forward, stamp=0)\n--\n\nLogs when and where in the user's code the driver is called."),
    .tp_new = calls_new,
    .tp_dealloc = (destructor)calls_dealloc,
    .tp_traverse = (traverseproc)calls_traverse,
    .tp_clear = (inquiry)calls_clear_references,
    .tp_methods = methods,
    .tp_getset = attributes,
};
