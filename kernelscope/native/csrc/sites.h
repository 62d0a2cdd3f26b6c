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

/* What an instruction's id is where it is none of the user's; and from where on ids count, downwards, that hold where no
 * other frame is the user's. */
enum { KS_NOT_THE_USERS = -1, KS_IF_NO_OTHER = -2 };

typedef struct {
    const void *instruction;
    PyObject *code;
    int32_t site;
} ks_seen;

typedef struct {
    ks_seen *entries;
    size_t mask, used;
} ks_sites;

/* The id of the innermost frame that is the user's, or `otherwise`. `ask` is called with a code object and an offset in
 * it as ``frame.f_lasti`` is, where they are new, and returns an id; what it raises, `failed` is told, and it counts as
 * not the user's. */
int32_t ks_sites_here(ks_sites *sites, PyObject *ask, int32_t otherwise, void (*failed)(void));
int ks_sites_traverse(ks_sites *sites, visitproc visit, void *arg);
void ks_sites_clear(ks_sites *sites);

/* Finds out whether frames can be read without making objects of them; the first call counts. */
bool ks_frames_ready(void);
/* Code objects and offsets of the calling thread's frames, innermost first, as `ks_sites_here` reads them, or with
 * CPython's public functions. */
PyObject *ks_frames(bool publicly);

#endif
