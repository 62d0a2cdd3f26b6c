/* Handles: what callers hold instead of pointers to our objects.
 *
 * A handle is a slot number and the slot's generation, so it is never used twice: one that was freed, or was never
 * given out, is told from a live one by a look into the table, and memory behind it is never touched. */
#include "driver.h"

#include <stdlib.h>

#define SLOT_BITS 24
#define SLOT_MASK (((uintptr_t)1 << SLOT_BITS) - 1)

typedef struct Slot {
    void *object;
    Kind kind;
    uintptr_t generation; /* from 1: CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, 1 and 2, are no handles of ours */
    size_t next_free;
} Slot;

static Slot *slots;
static size_t slot_count, slot_capacity;
static size_t first_free = SIZE_MAX;

void *handle_new(Kind kind, void *object)
{
    size_t index = first_free;
    if (index != SIZE_MAX) {
        first_free = slots[index].next_free;
    } else {
        if (slot_count == slot_capacity) {
            slot_capacity = slot_capacity ? 2 * slot_capacity : 256;
            slots = reallocate(slots, slot_capacity, sizeof *slots);
        }
        if (slot_count > SLOT_MASK) abort(); /* 16 million live objects: a caller that never frees */
        index = slot_count++;
        slots[index].generation = 0;
    }
    Slot *slot = &slots[index];
    slot->object = object;
    slot->kind = kind;
    slot->generation++;
    return (void *)(slot->generation << SLOT_BITS | index);
}

static Slot *slot_of(const void *handle)
{
    size_t index = (uintptr_t)handle & SLOT_MASK;
    if (index >= slot_count) return NULL;
    Slot *slot = &slots[index];
    return slot->kind != KIND_NONE && slot->generation == (uintptr_t)handle >> SLOT_BITS ? slot : NULL;
}

void *handle_object(const void *handle, Kind kind)
{
    Slot *slot = slot_of(handle);
    return slot && slot->kind == kind ? slot->object : NULL;
}

void handle_free(const void *handle)
{
    Slot *slot = slot_of(handle);
    if (!slot) return;
    slot->kind = KIND_NONE;
    slot->object = NULL;
    slot->next_free = first_free;
    first_free = (size_t)(slot - slots);
}
