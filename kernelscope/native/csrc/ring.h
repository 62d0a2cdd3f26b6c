/* A ring of slots, one for each launch: in memory, or in a mapped file that outlives the process.
 *
 * Plain C without Python, so that a stress test with threads can be built from it alone. Writers take no lock: a slot
 * is reserved by counting, its fields are written by the thread that reserved it, and the sequence number, which is
 * written last, says that the others are there. With KS_THREADS the counters are atomic; otherwise the caller sees to
 * it that one thread at a time reserves (Python's global lock does).
 */
#ifndef KS_RING_H
#define KS_RING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "record.h"

#define KS_HEADER_BYTES 4096u
#define KS_SEGMENT_SHIFT 12
#define KS_SEGMENT_SLOTS (1u << KS_SEGMENT_SHIFT)
#define KS_SEGMENT_BYTES (KS_SEGMENT_SLOTS * KS_SLOT_BYTES)
#define KS_MOST_SEGMENTS (1u << 18)
#define KS_UNDER_WAY ((uint64_t)1 << 63)
#define KS_UNKNOWN (-1)

enum ks_mode { KS_GROW, KS_KEEP_NEWEST, KS_STOP };
/* A voided slot is of a launch that was begun and could not be recorded. */
enum ks_kind { KS_VOID, KS_LAUNCH };

/* How many launches have a slot, and how many have none; and the next place. */
typedef struct {
    _Atomic uint64_t next, lost, place;
} ks_counters;

typedef struct {
    char magic[16];
    uint32_t version, slot_bytes, segment_slots, mode;
    uint64_t capacity, pid;
    int64_t host_ns;
    uint64_t reserved;
    ks_counters counters; /* at offset 64; they may be up to 2,048 behind */
} ks_header;

typedef struct ks_ring {
    /* Slots that are given out one after another, without another look; none with KS_THREADS and in mode ring. */
    ks_slot *fast;
    uint64_t fast_left;
    uint64_t begun; /* launches that have a slot; with KS_THREADS `counters.next` is */
    uint64_t place; /* the first place behind the fast ones; with KS_THREADS `counters.place` is */
    enum ks_mode mode;
    uint64_t capacity; /* slots; 0 with KS_GROW */
    ks_header *header;
    _Atomic(ks_slot *) *segments;
    int file;          /* -1: in memory */
    int failure;       /* errno of why the file holds no more than it does, or 0 */
    _Atomic bool is_torn; /* whether the file has lost a part of what was in it */
    ks_counters counters; /* the header has copies of them, for whoever reads the file */
    uint64_t in_file;  /* segments that are in the file */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t helper;
    bool has_helper, ends;
    uint64_t wanted; /* the segment that the helper is to make */
    uint64_t next_at_fork, lost_at_fork, place_at_fork;
    struct ks_ring *following;
} ks_ring;

/* Returns 0, or an errno; `path` is NULL for a ring in memory. Nothing is left behind where it fails. */
int ks_ring_open(ks_ring *ring, enum ks_mode mode, uint64_t capacity, const char *path);
void ks_ring_close(ks_ring *ring);

/* Lets go of the file, with what is in it: launches that end from now on are written nowhere. */
void ks_ring_leave_file(ks_ring *ring);

/* What somebody else has done to the file. */
enum ks_harm { KS_WHOLE, KS_DELETED, KS_TORN };
enum ks_harm ks_ring_look(ks_ring *ring);

/* For `ks_ring_take`, where no fast slot is left. */
ks_slot *ks_ring_reserve(ks_ring *ring, uint64_t *sequence);

/* Returns a slot, and its sequence number without KS_UNDER_WAY; NULL where there is no room. */
static inline ks_slot *ks_ring_take(ks_ring *ring, uint64_t *sequence) {
    if (__builtin_expect(ring->fast_left == 0, 0))
        return ks_ring_reserve(ring, sequence);
    ring->fast_left--;
    *sequence = ++ring->begun;
    return ring->fast++;
}

/* Brings the next slot near: it was never touched, or long ago. */
static inline void ks_ring_expect(const ks_ring *ring) {
    if (ring->fast_left != 0)
        __builtin_prefetch(ring->fast, 1);
}

/* How many launches have a slot and how many have none, and how many places have been used. */
typedef struct {
    uint64_t next, lost, places;
    uint64_t oldest; /* the place of the oldest launch, about */
} ks_extent;
ks_extent ks_ring_extent(ks_ring *ring);
/* The slot at a place below `places`; NULL where there is none. */
ks_slot *ks_ring_at(ks_ring *ring, uint64_t place);

static inline uint64_t ks_turned(uint64_t word, unsigned bits) { return word << bits | word >> (64 - bits); }

/* The 16 bits that tell a whole slot from a damaged one; see the layout in docs/architecture. */
static inline uint16_t ks_check(const ks_slot *slot, uint64_t sequence) {
    bool open = (sequence & KS_UNDER_WAY) != 0;
    uint64_t x = ks_turned(sequence, KS_TURN_SEQUENCE) ^ ks_turned((uint64_t)slot->start_ns, KS_TURN_START);
#define KS_TURNED(name, bits) ks_turned(open ? UINT64_MAX : (uint64_t)slot->name##_ns, bits) ^
    uint64_t times = KS_BOUNDARIES(KS_TURNED) ks_turned(open ? UINT64_MAX : (uint64_t)slot->end_ns, KS_TURN_END);
#undef KS_TURNED
    x ^= times ^ ks_turned((uint32_t)slot->target | (uint64_t)(uint32_t)slot->configuration << 32, 9);
    x ^= (uint32_t)slot->site | (uint64_t)slot->kind << 32;
    x ^= x >> 32;
    x ^= x >> 16;
    return (uint16_t)x;
}

/* Says that a launch has begun: all of the slot but its sequence number has been written. */
static inline void ks_begin(ks_slot *slot, uint64_t sequence) {
    slot->check = ks_check(slot, sequence | KS_UNDER_WAY);
    atomic_store_explicit(&slot->sequence, sequence | KS_UNDER_WAY, memory_order_release);
}

/* Says that it has ended. */
static inline void ks_finish(ks_slot *slot, uint64_t sequence) {
    slot->check = ks_check(slot, sequence);
    atomic_store_explicit(&slot->sequence, sequence, memory_order_release);
}

#endif
