/* Ids by pointer: what a launch refers to is looked up without hashing it, and is held until the recording ends.
 *
 * Readers take no lock. A table that has grown, or was emptied, is put in place of the old one at once; on a build
 * without a global lock old ones are kept until the table goes, since somebody may still read them.
 */
#ifndef KS_TABLE_H
#define KS_TABLE_H

#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    _Atomic(PyObject *) key;
    int32_t first, second;
} ks_entry;

typedef struct ks_cells {
    size_t mask, used;
    struct ks_cells *retired;
    ks_entry entries[];
} ks_cells;

typedef struct {
    _Atomic(ks_cells *) cells;
    ks_cells *retired;
    size_t most; /* entries that are held before all are forgotten; 0: any number */
} ks_table;

static inline size_t ks_place(const void *key, size_t mask) {
    return (size_t)(((uint64_t)(uintptr_t)key >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
}

/* The entry of a key that somebody holds, or NULL. */
static inline const ks_entry *ks_table_find(ks_table *table, const PyObject *key) {
    ks_cells *cells = atomic_load_explicit(&table->cells, memory_order_acquire);
    if (cells == NULL)
        return NULL;
    for (size_t place = ks_place(key, cells->mask);; place = (place + 1) & cells->mask) {
        const PyObject *found = atomic_load_explicit(&cells->entries[place].key, memory_order_acquire);
        if (found == key)
            return &cells->entries[place];
        if (found == NULL)
            return NULL;
    }
}

/* Puts a key in, which is held from then on, or gives it other ids. Returns -1 with an exception without memory. */
int ks_table_put(ks_table *table, PyObject *key, int32_t first, int32_t second);
size_t ks_table_used(ks_table *table);
int ks_table_traverse(ks_table *table, visitproc visit, void *arg);
void ks_table_clear(ks_table *table);

#endif
