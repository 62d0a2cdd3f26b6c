#if defined(__has_include) && !defined(KS_PUBLIC_FRAMES)
#if __has_include(<internal/pycore_frame.h>)
/* CPython's own frames: nothing public reads one without making an object of it, which takes longer than all the rest
 * of a launch's record. Nowhere else is this defined. */
#define Py_BUILD_CORE 1
#endif
#endif

#include "sites.h"

#include <stdlib.h>
#include <string.h>

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
/* Of paths: of 24 MB a thread at most. */
enum { FIRST_ROOM = 1024, MOST_PATHS = 1 << 17, MOST_KEPT = 1 << 20 };

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

/* An address of its own, in what the code object takes. */
static inline const void *publicly_at(PyCodeObject *code, int offset) { return (char *)code + offset + 2; }

#ifdef KS_OWN_FRAMES
static inline int32_t site_of(ks_sites *sites, frame_t *frame, int32_t otherwise, bool has_other, const ks_asker *asker) {
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
        const void *instruction = publicly_at(code, offset);
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
        return site_of(sites, innermost(PyThreadState_Get()), otherwise, false, &asker);
#endif
    return site_of_publicly(sites, otherwise, &asker);
}

int32_t ks_sites_of(ks_sites *sites, PyThreadState *thread, int32_t otherwise, const ks_asker *asker) {
#ifdef KS_OWN_FRAMES
    if (is_own)
        return site_of(sites, innermost(thread), otherwise, otherwise >= 0, asker);
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

/* One more frame of a path. */
static inline void add_frame(ks_path *path, const void *instruction) {
    path->hash = (path->hash << 7 | path->hash >> 57) + (uint64_t)(uintptr_t)instruction;
    path->instructions[path->count++] = instruction;
}

void *ks_frame_of(PyThreadState *thread) {
#ifdef KS_OWN_FRAMES
    if (__builtin_expect(is_own, 1))
        return innermost(thread);
#endif
    (void)thread;
    return NULL;
}

void ks_path_read(ks_path *path, void *from) {
    path->hash = path->count = 0;
#ifdef KS_OWN_FRAMES
    for (frame_t *frame = from; frame != NULL && path->count < KS_MOST_FRAMES; frame = frame->previous)
        if (is_pythons(frame))
            add_frame(path, instruction_of(frame));
#else
    (void)from;
#endif
}

/* The entry of a path, or the empty one where it would be. */
static inline ks_known_path *path_entry(const ks_paths *paths, const ks_path *path) {
    size_t place = (size_t)(path->hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) & paths->mask;
    for (;; place = (place + 1) & paths->mask) {
        ks_known_path *known = &paths->entries[place];
        if (known->count == 0 ||
            (known->hash == path->hash && known->count == path->count &&
             memcmp(&paths->instructions[known->first], path->instructions, path->count * sizeof(void *)) == 0))
            return known;
    }
}

bool ks_path_find(const ks_paths *paths, const ks_path *path, int32_t *site) {
    if (paths->entries == NULL || path->count == 0)
        return false;
    const ks_known_path *known = path_entry(paths, path);
    *site = known->site;
    return known->count != 0;
}

/* Makes room for one more path of so many frames; where there are too many, all go into `full`. */
static bool make_room_for_path(ks_paths *paths, size_t count, ks_paths *full) {
    if (paths->used >= MOST_PATHS || paths->kept + count > MOST_KEPT) {
        *full = *paths;
        *paths = (ks_paths){0};
    }
    if (paths->entries == NULL || paths->used * 2 > paths->mask) {
        size_t size = paths->entries == NULL ? FIRST_SIZE : (paths->mask + 1) * 2;
        ks_known_path *fresh = calloc(size, sizeof *fresh);
        if (fresh == NULL)
            return false;
        for (size_t place = 0; paths->entries != NULL && place <= paths->mask; place++) {
            const ks_known_path *known = &paths->entries[place];
            size_t at = (size_t)(known->hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (size - 1);
            while (known->count != 0 && fresh[at].count != 0)
                at = (at + 1) & (size - 1);
            if (known->count != 0)
                fresh[at] = *known;
        }
        free(paths->entries);
        paths->entries = fresh;
        paths->mask = size - 1;
    }
    size_t room = paths->room == 0 ? FIRST_ROOM : paths->room;
    while (room < paths->kept + count)
        room *= 2;
    if (room > paths->room) {
        const void **instructions = realloc(paths->instructions, room * sizeof *instructions);
        if (instructions == NULL)
            return false;
        paths->instructions = instructions;
        PyObject **codes = realloc(paths->codes, room * sizeof *codes);
        if (codes == NULL)
            return false;
        paths->codes = codes;
        paths->room = room;
    }
    return true;
}

bool ks_path_put(ks_paths *paths, const ks_path *path, PyObject *const *codes, int32_t site, ks_paths *full) {
    int32_t known_site;
    if (path->count == 0 || ks_path_find(paths, path, &known_site) || !make_room_for_path(paths, path->count, full))
        return false;
    *path_entry(paths, path) = (ks_known_path){
        .hash = path->hash, .first = (uint32_t)paths->kept, .count = (uint32_t)path->count, .site = site};
    memcpy(&paths->instructions[paths->kept], path->instructions, path->count * sizeof *path->instructions);
    memcpy(&paths->codes[paths->kept], codes, path->count * sizeof *codes);
    paths->kept += path->count;
    paths->used++;
    return true;
}

int32_t ks_path_ask(ks_paths *paths, const ks_path *path, PyObject *frames, PyObject *ask, void (*failed)(void)) {
    long site = KS_NOT_THE_USERS;
    Py_INCREF(ask); /* it may be taken away meanwhile */
    PyObject *answer = frames == NULL ? NULL : PyObject_CallOneArg(ask, frames);
    if (answer != NULL)
        site = PyLong_AsLong(answer);
    Py_XDECREF(answer);
    Py_DECREF(ask);
    if (PyErr_Occurred()) {
        failed();
        return KS_NOT_THE_USERS;
    }
    if ((int32_t)site != site)
        return KS_NOT_THE_USERS;
    if (PyList_GET_SIZE(frames) != (Py_ssize_t)path->count)
        return (int32_t)site;
    PyObject *codes[KS_MOST_FRAMES];
    for (size_t at = 0; at < path->count; at++)
        codes[at] = Py_NewRef(PyTuple_GET_ITEM(PyList_GET_ITEM(frames, (Py_ssize_t)at), 0));
    ks_paths full = {0};
    if (!ks_path_put(paths, path, codes, (int32_t)site, &full)) /* Python ran, which may have come here */
        for (size_t at = 0; at < path->count; at++)
            Py_DECREF(codes[at]);
    ks_paths_clear(&full);
    return (int32_t)site;
}

void ks_paths_clear(ks_paths *paths) {
    ks_paths before = *paths;
    *paths = (ks_paths){0};
    for (size_t at = 0; at < before.kept; at++)
        Py_DECREF(before.codes[at]);
    free(before.entries);
    free(before.instructions);
    free(before.codes);
}

static int add(PyObject *found, PyObject *code, int offset) {
    PyObject *pair = Py_BuildValue("Oi", code, offset);
    int done = pair == NULL ? -1 : PyList_Append(found, pair);
    Py_XDECREF(pair);
    return done;
}

/* With a path, no more frames than it takes, and their instructions. */
static PyObject *frames_publicly(ks_path *path) {
    PyObject *found = PyList_New(0);
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != NULL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (path != NULL)
            add_frame(path, publicly_at(code, PyFrame_GetLasti(frame)));
        if (found != NULL && add(found, (PyObject *)code, PyFrame_GetLasti(frame)) < 0)
            Py_CLEAR(found);
        Py_DECREF(code);
        bool is_full = path != NULL && path->count == KS_MOST_FRAMES;
        PyFrameObject *outer = is_full ? NULL : PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = outer;
    }
    return found;
}

PyObject *ks_path_frames(const ks_path *path, void *from) {
    PyObject *found = PyList_New(0);
#ifdef KS_OWN_FRAMES
    size_t count = 0;
    for (frame_t *frame = from; frame != NULL && found != NULL && count < path->count; frame = frame->previous)
        if (is_pythons(frame)) {
            count++;
            if (add(found, (PyObject *)code_of(frame), offset_of(frame)) < 0)
                Py_CLEAR(found);
        }
#else
    (void)path;
    (void)from;
#endif
    return found;
}

void ks_path_codes(const ks_path *path, void *from, PyObject **codes, int *offsets) {
#ifdef KS_OWN_FRAMES
    size_t count = 0;
    for (frame_t *frame = from; frame != NULL && count < path->count; frame = frame->previous)
        if (is_pythons(frame)) {
            codes[count] = (PyObject *)code_of(frame);
            offsets[count++] = offset_of(frame);
        }
#else
    (void)path, (void)from, (void)codes, (void)offsets;
#endif
}

int32_t ks_paths_here(ks_paths *paths, PyObject *ask, void (*failed)(void)) {
    ks_path path;
    PyObject *frames = NULL;
    void *frame = ks_frame_of(PyThreadState_Get());
    if (__builtin_expect(frame != NULL, 1)) {
        ks_path_read(&path, frame);
    } else {
        path.hash = path.count = 0;
        frames = frames_publicly(&path);
    }
    int32_t site;
    if (!__builtin_expect(ks_path_find(paths, &path, &site), 1)) {
        if (frame != NULL)
            frames = ks_path_frames(&path, frame);
        site = ks_path_ask(paths, &path, frames, ask, failed);
    } else if (frames == NULL && frame == NULL) {
        PyErr_Clear(); /* no memory for frames that are not asked for */
    }
    Py_XDECREF(frames);
    return site;
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
    return frames_publicly(NULL);
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
