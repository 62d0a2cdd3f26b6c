/* Where the user's code launches from: frames of Python by the instruction that they are at, and the ids of these.
 *
 * A thread has a table of its own, so that nothing is locked. Its keys are addresses of instructions: with the code
 * object, which is held, an address stands for one place of one function.
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
 * where frames cannot be read without it. */
int32_t ks_sites_of(ks_sites *sites, PyThreadState *thread, int32_t otherwise, const ks_asker *asker);
/* Calls `ask` as above; false where there is no answer. */
bool ks_sites_ask(PyObject *ask, PyObject *code, int offset, int32_t *site, void (*failed)(void));
/* A `release` for who has the interpreter's lock. */
void ks_sites_release(void *with, ks_sites *full, PyObject *code);
int ks_sites_traverse(ks_sites *sites, visitproc visit, void *arg);
void ks_sites_clear(ks_sites *sites);

/* Finds out whether frames can be read without making objects of them; the first call counts. */
bool ks_frames_ready(void);
/* Code objects and offsets of the calling thread's frames, innermost first, as `ks_sites_here` reads them, or with
 * CPython's public functions. */
PyObject *ks_frames(bool publicly);

#endif
