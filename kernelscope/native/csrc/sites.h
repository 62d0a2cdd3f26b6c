/* Where the user's code launches from: frames of Python by the instruction that they are at, and the ids of these.
 *
 * A thread has tables of its own, so that nothing is locked. Their keys are addresses of instructions, of one frame or of
 * a whole call path: with the code object, which is held, an address stands for one place of one function.
 */
#ifndef KS_SITES_H
#define KS_SITES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* What an instruction's id is where it is none of the user's; from where on ids count, downwards, that hold where no other
 * frame is the user's; and where none at all holds then. */
enum { KS_NOT_THE_USERS = -1, KS_IF_NO_OTHER = -2, KS_NO_LINE = INT32_MIN };

typedef struct {
    const void *instruction;
    PyObject *code;
    int32_t site;
} ks_seen;

typedef struct {
    ks_seen *entries;
    size_t mask, used;
} ks_sites;

/* Who gives what is new its id. `ask` says whether the answer counts for good, and whether it has taken a reference to the
 * code object meanwhile, of which `learn` takes one otherwise; without an answer the whole search has none. `release` lets
 * go of what is not needed: a full table, and a reference to a code object or NULL. */
typedef enum { KS_NOT_ANSWERED, KS_ANSWERED, KS_ANSWERED_HELD } ks_answer;
typedef struct {
    ks_answer (*ask)(void *with, PyObject *code, int offset, int32_t *site);
    void (*release)(void *with, ks_sites *full, PyObject *code);
    void *with;
} ks_asker;

/* The id of the innermost frame that is the user's, or `otherwise`. `ask` is called with a code object and an offset in
 * it as ``frame.f_lasti`` is, where they are new, and returns an id; what it raises, `failed` is told, and it counts as
 * not the user's. */
int32_t ks_sites_here(ks_sites *sites, PyObject *ask, int32_t otherwise, void (*failed)(void));
/* The same for the frames of a thread that is the calling one, be it without the interpreter's lock; `KS_NOT_THE_USERS`
 * where frames cannot be read without it. Where `otherwise` is known, it comes before frames that are the user's only if no
 * other is: code that a library has made for the work of that line. */
int32_t ks_sites_of(ks_sites *sites, PyThreadState *thread, int32_t otherwise, const ks_asker *asker);
/* Calls `ask` as above; false where there is no answer. */
bool ks_sites_ask(PyObject *ask, PyObject *code, int offset, int32_t *site, void (*failed)(void));
/* A `release` for who has the interpreter's lock. */
void ks_sites_release(void *with, ks_sites *full, PyObject *code);
int ks_sites_traverse(ks_sites *sites, visitproc visit, void *arg);
void ks_sites_clear(ks_sites *sites);

/* Frames of a call path at most: of a deeper one the innermost. */
enum { KS_MOST_FRAMES = 512 };

/* Where the frames of a thread are, innermost first: addresses of instructions. */
typedef struct {
    uint64_t hash;
    size_t count;
    const void *instructions[KS_MOST_FRAMES];
} ks_path;

/* A path that is known: `count` of the table's instructions, from `first` on. */
typedef struct {
    uint64_t hash;
    uint32_t first, count; /* count 0: no path */
    int32_t site;
} ks_known_path;

typedef struct {
    ks_known_path *entries;
    size_t mask, used;
    const void **instructions; /* of all paths, one after the other */
    PyObject **codes;          /* that they are of, held; the garbage collector does not look at code objects */
    size_t kept, room;
} ks_paths;

/* The innermost frame of the calling thread, whose state is given; NULL where CPython's own frames cannot be read. */
void *ks_frame_of(PyThreadState *thread);
/* Reads the path from a frame outwards. It touches nothing of Python's but the frames, which must stay, and needs no lock. */
void ks_path_read(ks_path *path, void *frame);
/* Whether a path is known, and its id: nothing of Python runs. */
bool ks_path_find(const ks_paths *paths, const ks_path *path, int32_t *site);
/* The same frames as a list of code objects and offsets, innermost first; NULL with an exception. */
PyObject *ks_path_frames(const ks_path *path, void *frame);
/* Code objects, borrowed, and offsets of the same frames. */
void ks_path_codes(const ks_path *path, void *frame, PyObject **codes, int *offsets);
/* Makes a path known whose frames are of these code objects; true where it takes the references to them. Where there are too
 * many paths, all that were known go into `full`, which the caller clears. */
bool ks_path_put(ks_paths *paths, const ks_path *path, PyObject *const *codes, int32_t site, ks_paths *full);
/* Asks for the id of a path: `ask` is called with its frames, and what it raises `failed` is told. From now on it is
 * known. Where there is none, `KS_NOT_THE_USERS`. */
int32_t ks_path_ask(ks_paths *paths, const ks_path *path, PyObject *frames, PyObject *ask, void (*failed)(void));
/* The id of the calling thread's path; `KS_NOT_THE_USERS` where none of its frames is the user's. */
int32_t ks_paths_here(ks_paths *paths, PyObject *ask, void (*failed)(void));
void ks_paths_clear(ks_paths *paths);

/* Finds out whether frames can be read without making objects of them; the first call counts. */
bool ks_frames_ready(void);
/* Code objects and offsets of the calling thread's frames, innermost first, as `ks_sites_here` reads them, or with
 * CPython's public functions. */
PyObject *ks_frames(bool publicly);

#endif
