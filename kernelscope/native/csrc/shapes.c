#include "shapes.h"

#include <pthread.h>
#include <stdlib.h>

enum { FIRST_SIZE = 64 };

/* Puts are rare: one lock for all. Nothing of Python runs while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* None, a number, and dimensions differ in their two highest bits. */
#define IS_NONE (UINT64_C(1) << 62)
#define IS_DIMENSIONS (UINT64_C(1) << 63)

static bool number_of(PyObject *object, long long most, uint64_t *number) {
    if (!PyLong_CheckExact(object))
        return false;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    *number = (uint64_t)value;
    return overflow == 0 && value >= 0 && value <= most;
}

bool ks_shape_word(PyObject *part, uint64_t *word) {
    if (part == Py_None) {
        *word = IS_NONE;
        return true;
    }
    if (!PyTuple_CheckExact(part))
        return number_of(part, (long long)(IS_NONE - 1), word);
    Py_ssize_t size = PyTuple_GET_SIZE(part);
    uint64_t x = 1, y = 1, z = 1;
    if (size < 1 || size > 3 || !number_of(PyTuple_GET_ITEM(part, 0), INT32_MAX, &x) ||
        (size > 1 && !number_of(PyTuple_GET_ITEM(part, 1), UINT16_MAX, &y)) ||
        (size > 2 && !number_of(PyTuple_GET_ITEM(part, 2), UINT16_MAX, &z)))
        return false;
    *word = IS_DIMENSIONS | x << 32 | y << 16 | z;
    return true;
}

bool ks_shape_from(PyObject *tuple, ks_shape *shape) {
    *shape = (ks_shape){0};
    Py_ssize_t size = PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : 0;
    bool is_one = size >= 2 && size <= 2 + KS_WORDS;
    for (Py_ssize_t each = 2; is_one && each < size; each++)
        is_one = ks_shape_word(PyTuple_GET_ITEM(tuple, each), &shape->words[each - 2]);
    if (!is_one) {
        PyErr_Format(PyExc_TypeError, "%R is no launch: (object, object or None, up to four numbers or dimensions)",
                     tuple);
        return false;
    }
    shape->first = PyTuple_GET_ITEM(tuple, 0);
    shape->second = PyTuple_GET_ITEM(tuple, 1) == Py_None ? NULL : PyTuple_GET_ITEM(tuple, 1);
    return true;
}

static void add(ks_shape_cells *cells, const ks_shape *shape, int32_t target, int32_t configuration) {
    size_t place = ks_shape_place(shape, cells->mask);
    while (atomic_load_explicit(&cells->entries[place].first, memory_order_relaxed) != NULL)
        place = (place + 1) & cells->mask;
    ks_launched *entry = &cells->entries[place];
    entry->shape = *shape;
    entry->target = target;
    entry->configuration = configuration;
    atomic_store_explicit(&entry->first, shape->first, memory_order_release);
    cells->used++;
}

/* Returns cells to let go of: with what they hold, or, where `moved` is set, without. */
static ks_shape_cells *put(ks_shapes *shapes, const ks_shape *shape, int32_t target, int32_t configuration,
                           bool *moved, int *done) {
    ks_shape_cells *cells = atomic_load_explicit(&shapes->cells, memory_order_relaxed);
    ks_launched *known = (ks_launched *)ks_shapes_find(shapes, shape);
    *done = known == NULL;
    if (known != NULL) {
        known->target = target;
        known->configuration = configuration;
        return NULL;
    }
    bool is_full = cells != NULL && shapes->most != 0 && cells->used >= shapes->most;
    if (cells != NULL && !is_full && cells->used * 2 <= cells->mask) {
        add(cells, shape, target, configuration);
        return NULL;
    }
    size_t size = cells == NULL ? FIRST_SIZE : is_full ? cells->mask + 1 : (cells->mask + 1) * 2;
    ks_shape_cells *fresh = calloc(1, sizeof *fresh + size * sizeof(ks_launched));
    if (fresh == NULL) {
        *done = -1;
        return NULL;
    }
    fresh->mask = size - 1;
    for (size_t place = 0; cells != NULL && !is_full && place <= cells->mask; place++) {
        const ks_launched *each = &cells->entries[place];
        if (atomic_load_explicit(&each->first, memory_order_relaxed) != NULL)
            add(fresh, &each->shape, each->target, each->configuration);
    }
    add(fresh, shape, target, configuration);
    atomic_store_explicit(&shapes->cells, fresh, memory_order_release);
    *moved = !is_full;
#ifdef Py_GIL_DISABLED
    if (cells != NULL) { /* somebody may still read them */
        cells->retired = shapes->retired;
        shapes->retired = cells;
    }
#endif
    return cells;
}

static void let_go(ks_shape_cells *cells) {
    for (size_t place = 0; cells != NULL && place <= cells->mask; place++)
        if (atomic_load_explicit(&cells->entries[place].first, memory_order_relaxed) != NULL) {
            Py_DECREF(cells->entries[place].shape.first);
            Py_XDECREF(cells->entries[place].shape.second);
        }
}

int ks_shapes_put(ks_shapes *shapes, const ks_shape *shape, int32_t target, int32_t configuration) {
    bool moved = false;
    int done;
    Py_INCREF(shape->first);
    Py_XINCREF(shape->second);
    pthread_mutex_lock(&lock);
    ks_shape_cells *old = put(shapes, shape, target, configuration, &moved, &done);
    pthread_mutex_unlock(&lock);
    if (done != 1) {
        Py_DECREF(shape->first);
        Py_XDECREF(shape->second);
    }
    if (!moved)
        let_go(old);
#ifndef Py_GIL_DISABLED
    free(old);
#endif
    if (done >= 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

int ks_shapes_traverse(ks_shapes *shapes, visitproc visit, void *arg) {
    ks_shape_cells *cells = atomic_load_explicit(&shapes->cells, memory_order_acquire);
    for (size_t place = 0; cells != NULL && place <= cells->mask; place++)
        if (atomic_load_explicit(&cells->entries[place].first, memory_order_relaxed) != NULL) {
            Py_VISIT(cells->entries[place].shape.first);
            Py_VISIT(cells->entries[place].shape.second);
        }
    return 0;
}

void ks_shapes_clear(ks_shapes *shapes) {
    ks_shape_cells *cells = atomic_exchange_explicit(&shapes->cells, NULL, memory_order_acq_rel);
    ks_shape_cells *retired = shapes->retired;
    shapes->retired = NULL;
    let_go(cells);
    free(cells);
    while (retired != NULL) {
        ks_shape_cells *following = retired->retired;
        free(retired);
        retired = following;
    }
}
