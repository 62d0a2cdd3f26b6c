#if defined(__has_include) && !defined(KS_PUBLIC_FRAMES)
#if __has_include(<internal/pycore_frame.h>)
/* CPython's own frames: nothing public reads one without making an object of it, which takes longer than all the rest
 * of a launch's record. Nowhere else is this defined. */
#define Py_BUILD_CORE 1
#endif
#endif

#include "sites.h"

#include <stdlib.h>

#ifdef Py_BUILD_CORE
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe.h>
#else
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#endif
#define KS_OWN_FRAMES 1
#endif

enum { FIRST_SIZE = 64, MOST = 4096 };

/* Whether frames are read as CPython has them. */
static bool is_own;

#ifdef KS_OWN_FRAMES
typedef struct _PyInterpreterFrame frame_t;

static inline frame_t *innermost(PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030d0000
    return thread->current_frame;
#else
    return thread->cframe->current_frame;
#endif
}

/* Whether it is a frame of a Python function, a class's body or a module: others stand where C has called Python. */
static inline bool is_pythons(const frame_t *frame) {
#if PY_VERSION_HEX >= 0x030e0000
    return frame->owner < FRAME_OWNED_BY_INTERPRETER;
#elif PY_VERSION_HEX >= 0x030c0000
    return frame->owner != FRAME_OWNED_BY_CSTACK;
#else
    (void)frame;
    return true;
#endif
}

static inline const void *instruction_of(const frame_t *frame) {
#if PY_VERSION_HEX >= 0x030d0000
    return frame->instr_ptr;
#else
    return frame->prev_instr;
#endif
}

static inline PyCodeObject *code_of(frame_t *frame) {
#if PY_VERSION_HEX >= 0x030d0000
    return _PyFrame_GetCode(frame);
#else
    return frame->f_code;
#endif
}

/* As ``frame.f_lasti``. */
static inline int offset_of(frame_t *frame) {
    int place = _PyInterpreterFrame_LASTI(frame);
    return place < 0 ? -1 : place * (int)sizeof(_Py_CODEUNIT);
}
#endif

static inline size_t place_of(const void *instruction, size_t mask) {
    return (size_t)(((uint64_t)(uintptr_t)instruction >> 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
}

/* The entry of an instruction, or the empty one where it would be. */
static inline ks_seen *entry_of(const ks_sites *sites, const void *instruction) {
    size_t place = place_of(instruction, sites->mask);
    while (sites->entries[place].instruction != NULL && sites->entries[place].instruction != instruction)
        place = (place + 1) & sites->mask;
    return &sites->entries[place];
}

/* Makes room for one more. Where there are too many, such as of code that is made anew again and again, all go into
 * `full`, which the caller clears. */
static bool make_room(ks_sites *sites, ks_sites *full) {
    if (sites->entries != NULL && sites->used * 2 <= sites->mask)
        return true;
    bool is_full = sites->used >= MOST;
    ks_sites before = *sites;
    size_t size = before.entries == NULL || is_full ? FIRST_SIZE : (before.mask + 1) * 2;
    ks_seen *fresh = calloc(size, sizeof *fresh);
    if (fresh == NULL)
        return false;
    *sites = (ks_sites){.entries = fresh, .mask = size - 1};
    for (size_t place = 0; before.entries != NULL && !is_full && place <= before.mask; place++)
        if (before.entries[place].instruction != NULL) {
            *entry_of(sites, before.entries[place].instruction) = before.entries[place];
            sites->used++;
        }
    if (is_full)
        *full = before;
    else
        free(before.entries);
    return true;
}

bool ks_sites_ask(PyObject *ask, PyObject *code, int offset, int32_t *site, void (*failed)(void)) {
    Py_INCREF(ask); /* it may be taken away meanwhile */
    PyObject *place = PyLong_FromLong(offset), *answer = NULL;
    if (place != NULL)
        answer = PyObject_CallFunctionObjArgs(ask, code, place, NULL);
    long found = answer == NULL ? KS_NOT_THE_USERS : PyLong_AsLong(answer);
    Py_XDECREF(place);
    Py_XDECREF(answer);
    Py_DECREF(ask);
    bool is_known = !PyErr_Occurred() && (int32_t)found == found;
    if (PyErr_Occurred())
        failed();
    *site = is_known ? (int32_t)found : KS_NOT_THE_USERS;
    return is_known;
}

/* Learns the id of what is new. Python may run meanwhile, and come here again. */
static bool learn(ks_sites *sites, const void *instruction, PyObject *code, int offset, const ks_asker *asker,
                  int32_t *site) {
    ks_answer answer = asker->ask(asker->with, code, offset, site);
    if (answer == KS_NOT_ANSWERED)
        return false;
    if (answer == KS_ANSWERED)
        Py_INCREF(code);
    ks_sites full = {0};
    ks_seen *seen = make_room(sites, &full) ? entry_of(sites, instruction) : NULL;
    if (seen != NULL && seen->instruction == NULL) {
        *seen = (ks_seen){.instruction = instruction, .code = code, .site = *site};
        sites->used++;
        code = NULL;
    }
    if (full.entries != NULL || code != NULL)
        asker->release(asker->with, &full, code);
    return true;
}

/* Looks at one frame; true where that was the user's. */
static inline bool is_found(int32_t site, int32_t *otherwise, bool *has_other) {
    if (site <= KS_IF_NO_OTHER && !*has_other) {
        *otherwise = site == KS_NO_LINE ? KS_NOT_THE_USERS : KS_IF_NO_OTHER - site;
        *has_other = true;
    }
    return site >= 0;
}

#ifdef KS_OWN_FRAMES
static inline int32_t site_of(ks_sites *sites, frame_t *frame, int32_t otherwise, const ks_asker *asker) {
    bool has_other = false;
    for (; frame != NULL; frame = frame->previous) {
        if (!is_pythons(frame))
            continue;
        const void *instruction = instruction_of(frame);
        ks_seen *seen = __builtin_expect(sites->entries != NULL, 1) ? entry_of(sites, instruction) : NULL;
        int32_t site;
        if (__builtin_expect(seen != NULL && seen->instruction != NULL, 1))
            site = seen->site;
        else if (!learn(sites, instruction, (PyObject *)code_of(frame), offset_of(frame), asker, &site))
            return KS_NOT_THE_USERS;
        if (is_found(site, &otherwise, &has_other))
            return site;
    }
    return otherwise;
}
#endif

static int32_t site_of_publicly(ks_sites *sites, int32_t otherwise, const ks_asker *asker) {
    bool has_other = false;
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != NULL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        int offset = PyFrame_GetLasti(frame);
        const void *instruction = (char *)code + offset + 2; /* an address of its own, in what the object takes */
        ks_seen *seen = sites->entries == NULL ? NULL : entry_of(sites, instruction);
        int32_t site = KS_NOT_THE_USERS;
        if (seen != NULL && seen->instruction != NULL)
            site = seen->site;
        else
            learn(sites, instruction, (PyObject *)code, offset, asker, &site);
        Py_DECREF(code);
        bool found = is_found(site, &otherwise, &has_other);
        PyFrameObject *outer = found ? NULL : PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = outer;
        if (found)
            return site;
    }
    return otherwise;
}

typedef struct {
    PyObject *ask;
    void (*failed)(void);
} direct;

static ks_answer ask_directly(void *with, PyObject *code, int offset, int32_t *site) {
    direct *how = with;
    ks_sites_ask(how->ask, code, offset, site, how->failed); /* what fails counts as not the user's */
    return KS_ANSWERED;
}

void ks_sites_release(void *Py_UNUSED(with), ks_sites *full, PyObject *code) {
    ks_sites_clear(full);
    Py_XDECREF(code);
}

int32_t ks_sites_here(ks_sites *sites, PyObject *ask, int32_t otherwise, void (*failed)(void)) {
    direct how = {ask, failed};
    ks_asker asker = {ask_directly, ks_sites_release, &how};
#ifdef KS_OWN_FRAMES
    if (__builtin_expect(is_own, 1))
        return site_of(sites, innermost(PyThreadState_Get()), otherwise, &asker);
#endif
    return site_of_publicly(sites, otherwise, &asker);
}

int32_t ks_sites_of(ks_sites *sites, PyThreadState *thread, int32_t otherwise, const ks_asker *asker) {
#ifdef KS_OWN_FRAMES
    if (is_own)
        return site_of(sites, innermost(thread), otherwise, asker);
#endif
    (void)sites, (void)thread, (void)otherwise, (void)asker;
    return KS_NOT_THE_USERS;
}

int ks_sites_traverse(ks_sites *sites, visitproc visit, void *arg) {
    for (size_t place = 0; sites->entries != NULL && place <= sites->mask; place++)
        Py_VISIT(sites->entries[place].code);
    return 0;
}

void ks_sites_clear(ks_sites *sites) {
    ks_sites before = *sites;
    *sites = (ks_sites){0};
    for (size_t place = 0; before.entries != NULL && place <= before.mask; place++)
        Py_XDECREF(before.entries[place].code);
    free(before.entries);
}

static int add(PyObject *found, PyObject *code, int offset) {
    PyObject *pair = Py_BuildValue("Oi", code, offset);
    int done = pair == NULL ? -1 : PyList_Append(found, pair);
    Py_XDECREF(pair);
    return done;
}

static PyObject *frames_publicly(void) {
    PyObject *found = PyList_New(0);
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != NULL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (found != NULL && add(found, (PyObject *)code, PyFrame_GetLasti(frame)) < 0)
            Py_CLEAR(found);
        Py_DECREF(code);
        PyFrameObject *outer = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = outer;
    }
    return found;
}

PyObject *ks_frames(bool publicly) {
#ifdef KS_OWN_FRAMES
    if (!publicly) {
        PyObject *found = PyList_New(0);
        for (frame_t *frame = innermost(PyThreadState_Get()); frame != NULL && found != NULL; frame = frame->previous)
            if (is_pythons(frame) && add(found, (PyObject *)code_of(frame), offset_of(frame)) < 0)
                Py_CLEAR(found);
        return found;
    }
#endif
    (void)publicly;
    return frames_publicly();
}

bool ks_frames_ready(void) {
#ifdef KS_OWN_FRAMES
    PyObject *own = ks_frames(false), *known = ks_frames(true);
    is_own = own != NULL && known != NULL && PyList_GET_SIZE(known) > 0 &&
             PyObject_RichCompareBool(own, known, Py_EQ) == 1;
    Py_XDECREF(own);
    Py_XDECREF(known);
    PyErr_Clear();
#endif
    return is_own;
}
