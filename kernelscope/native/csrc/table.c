#include "table.h"

#include <pthread.h>
#include <stdlib.h>

enum { FIRST_SIZE = 64 };

/* Puts are rare: one lock for all tables. Nothing of Python runs while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ks_cells *make(size_t size) {
    ks_cells *cells = calloc(1, sizeof *cells + size * sizeof(ks_entry));
    if (cells != NULL)
        cells->mask = size - 1;
    return cells;
}

static void add(ks_cells *cells, PyObject *key, int32_t first, int32_t second) {
    size_t place = ks_place(key, cells->mask);
    while (atomic_load_explicit(&cells->entries[place].key, memory_order_relaxed) != NULL)
        place = (place + 1) & cells->mask;
    cells->entries[place].first = first;
    cells->entries[place].second = second;
    atomic_store_explicit(&cells->entries[place].key, key, memory_order_release);
    cells->used++;
}

/* Replaces the cells; returns the old ones where they may be freed at once. */
static ks_cells *replace(ks_table *table, ks_cells *fresh) {
    ks_cells *old = atomic_exchange_explicit(&table->cells, fresh, memory_order_acq_rel);
#ifdef Py_GIL_DISABLED
    if (old != NULL) {
        old->retired = table->retired;
        table->retired = old;
    }
    return NULL;
#else
    return old;
#endif
}

static int put(ks_table *table, PyObject *key, int32_t first, int32_t second, ks_cells **dropped, ks_cells **unused) {
    const ks_entry *known = ks_table_find(table, key);
    if (known != NULL) {
        ((ks_entry *)known)->first = first;
        ((ks_entry *)known)->second = second;
        return 0;
    }
    ks_cells *cells = atomic_load_explicit(&table->cells, memory_order_relaxed);
    bool is_full = cells != NULL && table->most != 0 && cells->used >= table->most;
    if (cells == NULL || is_full || cells->used * 2 > cells->mask) {
        ks_cells *fresh = make(cells == NULL ? FIRST_SIZE : is_full ? cells->mask + 1 : (cells->mask + 1) * 2);
        if (fresh == NULL)
            return -1;
        for (size_t place = 0; cells != NULL && !is_full && place <= cells->mask; place++) {
            ks_entry *each = &cells->entries[place];
            PyObject *held = atomic_load_explicit(&each->key, memory_order_relaxed);
            if (held != NULL)
                add(fresh, held, each->first, each->second);
        }
        add(fresh, key, first, second);
        ks_cells *old = replace(table, fresh);
        *(is_full ? dropped : unused) = is_full ? cells : old;
        return 1;
    }
    add(cells, key, first, second);
    return 1;
}

int ks_table_put(ks_table *table, PyObject *key, int32_t first, int32_t second) {
    ks_cells *dropped = NULL, *unused = NULL;
    Py_INCREF(key);
    pthread_mutex_lock(&lock);
    int done = put(table, key, first, second, &dropped, &unused);
    pthread_mutex_unlock(&lock);
    if (done != 1)
        Py_DECREF(key);
    if (dropped != NULL) {
        for (size_t place = 0; place <= dropped->mask; place++)
            Py_XDECREF(atomic_load_explicit(&dropped->entries[place].key, memory_order_relaxed));
#ifndef Py_GIL_DISABLED
        free(dropped);
#endif
    }
    free(unused);
    if (done >= 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

size_t ks_table_used(ks_table *table) {
    ks_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    return cells == NULL ? 0 : cells->used;
}

int ks_table_traverse(ks_table *table, visitproc visit, void *arg) {
    ks_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    for (size_t place = 0; cells != NULL && place <= cells->mask; place++)
        Py_VISIT(atomic_load_explicit(&cells->entries[place].key, memory_order_relaxed));
    return 0;
}

void ks_table_clear(ks_table *table) {
    ks_cells *cells = atomic_exchange_explicit(&table->cells, NULL, memory_order_acq_rel);
    ks_cells *retired = table->retired;
    table->retired = NULL;
    for (size_t place = 0; cells != NULL && place <= cells->mask; place++)
        Py_XDECREF(atomic_load_explicit(&cells->entries[place].key, memory_order_relaxed));
    free(cells);
    while (retired != NULL) {
        ks_cells *following = retired->retired;
        free(retired);
        retired = following;
    }
}
