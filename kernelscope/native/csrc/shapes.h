/* Ids of launches by what they are made of: two objects, compared by identity, and four words.
 *
 * As in table.h readers take no lock, and what is known is held until it is forgotten.
 */
#ifndef KS_SHAPES_H
#define KS_SHAPES_H

#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { KS_WORDS = 4 };

typedef struct {
    PyObject *first, *second; /* the second may be NULL */
    uint64_t words[KS_WORDS];
} ks_shape;

typedef struct {
    _Atomic(PyObject *) first;
    ks_shape shape;
    int32_t target, configuration;
} ks_launched;

typedef struct ks_shape_cells {
    size_t mask, used;
    struct ks_shape_cells *retired;
    ks_launched entries[];
} ks_shape_cells;

typedef struct {
    _Atomic(ks_shape_cells *) cells;
    ks_shape_cells *retired;
    size_t most; /* entries that are held before all are forgotten; 0: any number */
} ks_shapes;

static inline size_t ks_shape_place(const ks_shape *shape, size_t mask) {
    uint64_t x = (uint64_t)(uintptr_t)shape->first >> 4;
    x ^= (uint64_t)(uintptr_t)shape->second << 17;
    for (int word = 0; word < KS_WORDS; word++)
        x = (x << 11 | x >> 53) ^ shape->words[word];
    x = (x ^ x >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(x >> 32) & mask;
}

/* The entry of objects that somebody holds, or NULL. */
static inline const ks_launched *ks_shapes_find(ks_shapes *shapes, const ks_shape *wanted) {
    ks_shape_cells *cells = atomic_load_explicit(&shapes->cells, memory_order_acquire);
    if (cells == NULL)
        return NULL;
    for (size_t place = ks_shape_place(wanted, cells->mask);; place = (place + 1) & cells->mask) {
        const PyObject *found = atomic_load_explicit(&cells->entries[place].first, memory_order_acquire);
        if (found == NULL)
            return NULL;
        if (found == wanted->first && memcmp(&cells->entries[place].shape, wanted, sizeof *wanted) == 0)
            return &cells->entries[place];
    }
}

/* A part of a launch as a word; false where it is none that can be told from all others. */
bool ks_shape_word(PyObject *part, uint64_t *word);
/* Reads a shape from (first, second or None, up to four parts); false with an exception where it is no such tuple. */
bool ks_shape_from(PyObject *tuple, ks_shape *shape);

/* Puts a shape in, whose objects are held from then on, or gives it other ids; -1 with an exception without memory. */
int ks_shapes_put(ks_shapes *shapes, const ks_shape *shape, int32_t target, int32_t configuration);
int ks_shapes_traverse(ks_shapes *shapes, visitproc visit, void *arg);
void ks_shapes_clear(ks_shapes *shapes);

#endif
