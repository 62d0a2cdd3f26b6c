/* Signals that end the process: what is to be done before it ends, is done by a thread of ours, and then the process
 * ends by the signal as it would have.
 *
 * A handler in Python would run when the main thread comes back to Python, which in a call that waits for another rank
 * it never does. And signal.getsignal says of this one that there is none: whoever looks whether the signal is free
 * finds it so, and a handler of the user's takes its place. */
#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static const int ending[] = {SIGTERM, SIGHUP};
#define ENDINGS (sizeof ending / sizeof *ending)
#define NS_A_SECOND 1000000000

static PyObject *to_call; /* before the process ends, with the signal's number */
static _Atomic int64_t patience_ns;
static _Atomic pid_t owner; /* whose thread waits: a fork's child has none */
static _Atomic int which;   /* the signal that came first; 0: none yet */
static sem_t arrived;
static _Thread_local bool is_caller;

/* Ends the process by the signal. */
static void die(int number) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t it;
    sigaction(number, &plain, NULL);
    sigemptyset(&it);
    sigaddset(&it, number);
    pthread_sigmask(SIG_UNBLOCK, &it, NULL);
    raise(number);
}

static void on_end(int number) {
    int held = errno, none = 0;
    if (getpid() != atomic_load(&owner))
        die(number); /* in a fork's child, or between vfork and exec */
    else if (atomic_compare_exchange_strong(&which, &none, number))
        sem_post(&arrived);
    errno = held;
}

static bool is_ours(const struct sigaction *action) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == on_end;
}

/* Ends the process with the interpreter's lock held: the program has no time to end in another way. */
static void *call(void *Py_UNUSED(argument)) {
    is_caller = true;
    PyGILState_Ensure();
    PyObject *function = Py_XNewRef(to_call);
    PyObject *result = function == NULL ? NULL : PyObject_CallFunction(function, "i", atomic_load(&which));
    if (result == NULL && function != NULL)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
    Py_XDECREF(function);
    die(atomic_load(&which));
    return NULL;
}

/* Waits for a signal. What is called then is called on another thread, which may never get the interpreter's lock. */
static void *wait_for_end(void *Py_UNUSED(argument)) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* the journal's own */
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (sem_wait(&arrived) != 0)
        continue;
    pthread_t caller;
    if (pthread_create(&caller, NULL, call, NULL) == 0) {
        int64_t patience = atomic_load(&patience_ns);
        struct timespec left = {.tv_sec = patience / NS_A_SECOND, .tv_nsec = patience % NS_A_SECOND};
        pthread_detach(caller);
        nanosleep(&left, NULL);
    }
    die(atomic_load(&which));
    return NULL;
}

static bool make_thread(void) {
    if (atomic_load(&owner) == getpid())
        return true;
    pthread_t waits;
    sem_init(&arrived, 0, 0);
    atomic_store(&which, 0);
    if (pthread_create(&waits, NULL, wait_for_end, NULL) != 0)
        return false;
    pthread_detach(waits);
    atomic_store(&owner, getpid());
    return true;
}

PyObject *ks_before_end(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *function;
    double patience_s;
    if (!PyArg_ParseTuple(arguments, "Od", &function, &patience_s))
        return NULL;
    Py_XSETREF(to_call, function == Py_None ? NULL : Py_NewRef(function));
    atomic_store(&patience_ns, (int64_t)(patience_s * 1e9));
    /* The first process of a container lives on after such a signal where it has no handler. */
    bool catches = to_call != NULL && getpid() != 1 && make_thread();
    for (size_t place = 0; place < ENDINGS; place++) {
        struct sigaction present, ours = {.sa_handler = on_end, .sa_flags = SA_RESTART | SA_ONSTACK};
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigemptyset(&ours.sa_mask);
        sigemptyset(&plain.sa_mask);
        if (sigaction(ending[place], NULL, &present) != 0)
            continue;
        bool is_free = !(present.sa_flags & SA_SIGINFO) && present.sa_handler == SIG_DFL;
        if (catches && is_free)
            sigaction(ending[place], &ours, NULL);
        else if (!catches && is_ours(&present) && atomic_load(&which) == 0)
            sigaction(ending[place], &plain, NULL);
    }
    /* Who was about to finish when the signal came goes no further: the process is to end by the signal. */
    while (to_call == NULL && atomic_load(&which) != 0 && atomic_load(&owner) == getpid() && !is_caller) {
        Py_BEGIN_ALLOW_THREADS
        pause();
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}
