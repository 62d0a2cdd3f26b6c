/* Takes samples out of CUPTI's buffers, as they come, without the interpreter's lock.
 *
 * CUPTI loses samples where nobody takes them for some tenths of a second, and a thread of Python's may wait as long for
 * the lock: while something is compiled, say.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A call of CUPTI's: its function, and the structure that it takes. */
typedef struct {
    int (*function)(void *);
    void *parameters;
} ks_call;

/* Where the calls put what they return, and where they take the number of a sample from. */
typedef struct {
    ks_call decode, count, times, values, clear;
    const int *why;          /* decoding stopped */
    const uint8_t *overflow; /* the GPU's buffer was full */
    const size_t *completed;
    size_t *of_times, *of_values;
    const int64_t *start_end;
    const double *metrics;
} ks_drain_calls;

typedef struct {
    char *rows;
    size_t used, room;
    unsigned overflows, fills;
} ks_drained;

#define KS_IMAGE_FULL 1
#define KS_NO_MEMORY (-1)

static int run(ks_call call) { return call.function(call.parameters); }

/* Make room for so many bytes more. */
static bool has_room(ks_drained *found, size_t bytes) {
    if (found->room - found->used >= bytes)
        return true;
    size_t room = 2 * found->room > found->used + bytes ? 2 * found->room : found->used + bytes;
    char *rows = realloc(found->rows, room);
    if (rows == NULL)
        return false;
    found->rows = rows;
    found->room = room;
    return true;
}

/* Take what there is now; a result of CUPTI's, 0 where all went well. */
static int take(const ks_drain_calls *with, size_t width, ks_drained *found) {
    bool is_full;
    do {
        int result = run(with->decode);
        if (result == 0)
            result = run(with->count);
        if (result != 0)
            return result;
        found->overflows += *with->overflow != 0;
        size_t completed = *with->completed;
        is_full = *with->why == KS_IMAGE_FULL && completed > 0;
        found->fills += is_full;
        if (!has_room(found, completed * width))
            return KS_NO_MEMORY;
        for (size_t at = 0; at < completed; at++) {
            *with->of_times = *with->of_values = at;
            if ((result = run(with->times)) != 0 || (result = run(with->values)) != 0)
                return result;
            char *row = found->rows + found->used;
            memcpy(row, with->start_end, 2 * sizeof *with->start_end);
            memcpy(row + 2 * sizeof *with->start_end, with->metrics, width - 2 * sizeof *with->start_end);
            found->used += width;
        }
        if (completed > 0 && (result = run(with->clear)) != 0)
            return result;
    } while (is_full);
    return 0;
}

static ks_call call_at(unsigned long long function, unsigned long long parameters) {
    return (ks_call){(int (*)(void *))(uintptr_t)function, (void *)(uintptr_t)parameters};
}

#define KS_AT(type, address) ((type *)(uintptr_t)(address))

PyObject *ks_drain(PyObject *Py_UNUSED(module), PyObject *args) {
    unsigned long long at[17], stop;
    Py_ssize_t metrics;
    double pause_s;
    if (!PyArg_ParseTuple(args, "(KK)(KK)(KK)(KK)(KK)(KKKKKKK)nKd", &at[0], &at[1], &at[2], &at[3], &at[4], &at[5],
                          &at[6], &at[7], &at[8], &at[9], &at[10], &at[11], &at[12], &at[13], &at[14], &at[15],
                          &at[16], &metrics, &stop, &pause_s))
        return NULL;
    ks_drain_calls with = {
        call_at(at[0], at[1]), call_at(at[2], at[3]), call_at(at[4], at[5]), call_at(at[6], at[7]),
        call_at(at[8], at[9]), KS_AT(const int, at[10]), KS_AT(const uint8_t, at[11]), KS_AT(const size_t, at[12]),
        KS_AT(size_t, at[13]), KS_AT(size_t, at[14]), KS_AT(const int64_t, at[15]), KS_AT(const double, at[16]),
    };
    size_t width = 2 * sizeof(int64_t) + (size_t)metrics * sizeof(double);
    struct timespec pause = {(time_t)pause_s, (long)((pause_s - (double)(time_t)pause_s) * 1e9)};
    ks_drained found = {NULL, 0, 0, 0, 0};
    int result;
    Py_BEGIN_ALLOW_THREADS
    for (;;) {
        bool is_last = __atomic_load_n(KS_AT(uint8_t, stop), __ATOMIC_ACQUIRE) != 0;
        result = take(&with, width, &found);
        if (is_last || result != 0)
            break;
        nanosleep(&pause, NULL);
    }
    Py_END_ALLOW_THREADS
    PyObject *rows = PyBytes_FromStringAndSize(found.rows, (Py_ssize_t)found.used);
    free(found.rows);
    return rows == NULL ? NULL : Py_BuildValue("(NiII)", rows, result, found.overflows, found.fills);
}
