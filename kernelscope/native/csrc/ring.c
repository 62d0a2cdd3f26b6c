#include "ring.h"

#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[16] = "kernelscope ring"; /* all of it, and no more */

/* All rings of the process, for fork(). */
static ks_ring *rings;
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Whether further segments go to the file. */
static bool grows(ks_ring *ring) { return ring->file >= 0 && ring->failure == 0 && !atomic_load(&ring->is_torn); }

/* Makes a segment if it is missing; false where there is no memory. The lock is held. */
static bool make_segment(ks_ring *ring, uint64_t number) {
    if (atomic_load_explicit(&ring->segments[number], memory_order_acquire) != NULL)
        return true;
    /* Of threads that need two segments at once, the one that needs the later may come first: a file has no gaps. */
    while (grows(ring) && ring->in_file < number)
        if (!make_segment(ring, ring->in_file))
            return false;
    ks_slot *made = NULL;
    if (grows(ring)) {
        made = ks_memory_of_file(ring->file, KS_HEADER_BYTES + (off_t)number * KS_SEGMENT_BYTES, KS_SEGMENT_BYTES,
                                 &ring->failure, &ring->is_torn);
        ring->in_file += made != NULL;
    }
    if (made == NULL)
        made = ks_memory_segment();
    if (made != NULL)
        atomic_store_explicit(&ring->segments[number], made, memory_order_release);
    return made != NULL;
}

static void *help(void *argument) {
    ks_ring *ring = argument;
    /* A Ctrl-C is for Python's threads. Here and not before the thread is made: a signal that comes while the main thread
     * blocks it goes to another thread, such as one of a BLAS, and CPython before 3.13 does not notice it then. */
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* of its own: what touches a file that was truncated must be able to go on */
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_mutex_lock(&ring->lock);
    while (!ring->ends) {
        if (ring->wanted != 0)
            make_segment(ring, ring->wanted); /* where it fails, whoever needs it tries again */
        ring->wanted = 0;
        while (ring->wanted == 0 && !ring->ends)
            pthread_cond_wait(&ring->wake, &ring->lock);
    }
    pthread_mutex_unlock(&ring->lock);
    return NULL;
}

/* Has the helper make a segment before it is needed; the thread is made when a recording first needs a second one. */
static void want(ks_ring *ring, uint64_t number) {
    if (number >= KS_MOST_SEGMENTS || pthread_mutex_trylock(&ring->lock) != 0)
        return;
    ring->wanted = number;
    if (ring->has_helper) {
        pthread_cond_signal(&ring->wake);
    } else {
        ring->has_helper = pthread_create(&ring->helper, NULL, help, ring) == 0;
    }
    pthread_mutex_unlock(&ring->lock);
}

static ks_slot *first_of(ks_ring *ring, uint64_t number) {
    if (number >= KS_MOST_SEGMENTS)
        return NULL;
    pthread_mutex_lock(&ring->lock);
    bool made = make_segment(ring, number);
    pthread_mutex_unlock(&ring->lock);
    return made ? atomic_load_explicit(&ring->segments[number], memory_order_acquire) : NULL;
}

static ks_slot *segment_of(ks_ring *ring, uint64_t number) {
    ks_slot *segment = NULL;
    if (number < KS_MOST_SEGMENTS)
        segment = atomic_load_explicit(&ring->segments[number], memory_order_acquire);
    return segment != NULL ? segment : first_of(ring, number);
}

/* Half a segment is left: the one behind it is made meanwhile, where there will be one. */
static void look_ahead(ks_ring *ring, uint64_t number) {
    if (number + 1 < KS_MOST_SEGMENTS && (ring->capacity == 0 || (number + 1) << KS_SEGMENT_SHIFT < ring->capacity) &&
        atomic_load_explicit(&ring->segments[number + 1], memory_order_relaxed) == NULL)
        want(ring, number + 1);
}

#ifdef KS_THREADS
/* Counts, and says so in the header; what stands there may be a little behind. */
static uint64_t add(_Atomic uint64_t *counter, _Atomic uint64_t *shown) {
    uint64_t value = atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    atomic_store_explicit(shown, value + 1, memory_order_relaxed);
    return value;
}

ks_slot *ks_ring_reserve(ks_ring *ring, uint64_t *sequence) {
    ks_counters *counters = &ring->counters, *shown = &ring->header->counters;
    for (uint64_t tries = 0; tries == 0 || tries < ring->capacity; tries++) {
        uint64_t place = add(&counters->place, &shown->place);
        if (ring->mode == KS_STOP && place >= ring->capacity)
            break;
        if (ring->mode == KS_KEEP_NEWEST)
            place %= ring->capacity;
        uint64_t number = place >> KS_SEGMENT_SHIFT;
        unsigned within = place & (KS_SEGMENT_SLOTS - 1);
        ks_slot *segment = segment_of(ring, number);
        if (segment == NULL)
            break;
        if (within == KS_SEGMENT_SLOTS / 2)
            look_ahead(ring, number);
        ks_slot *slot = &segment[within];
        /* Two threads may come to one place a whole round apart: the one that empties it has it. */
        uint64_t held = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
        if (held & KS_UNDER_WAY ||
            !atomic_compare_exchange_strong_explicit(&slot->sequence, &held, KS_UNDER_WAY, memory_order_acq_rel,
                                                     memory_order_relaxed)) {
            if (ring->mode != KS_KEEP_NEWEST)
                break;
            continue;
        }
        /* Whoever reads the fields of this launch, and the number again, sees that the launch before is gone. */
        atomic_thread_fence(memory_order_release);
        *sequence = add(&counters->next, &shown->next) + 1;
        return slot;
    }
    add(&counters->lost, &shown->lost);
    return NULL;
}

ks_extent ks_ring_extent(ks_ring *ring) {
    ks_counters *counters = &ring->counters;
    ks_extent extent = {atomic_load(&counters->next), atomic_load(&counters->lost), atomic_load(&counters->place), 0};
#else
static void set(_Atomic uint64_t *counter, uint64_t value) {
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

/* In mode ring: the next place whose launch is not under way. */
static ks_slot *reserve_oldest(ks_ring *ring) {
    for (uint64_t tries = 0; tries < ring->capacity; tries++) {
        uint64_t place = ring->place++ % ring->capacity;
        ks_slot *segment = segment_of(ring, place >> KS_SEGMENT_SHIFT);
        unsigned within = place & (KS_SEGMENT_SLOTS - 1);
        if (segment == NULL)
            return NULL;
        if (within == KS_SEGMENT_SLOTS / 2)
            look_ahead(ring, place >> KS_SEGMENT_SHIFT);
        if (!(atomic_load_explicit(&segment[within].sequence, memory_order_relaxed) & KS_UNDER_WAY)) {
            /* Taken: what is called before it has begun, such as a clock in Python, may come here again. */
            atomic_store_explicit(&segment[within].sequence, KS_UNDER_WAY, memory_order_relaxed);
            atomic_thread_fence(memory_order_release); /* before the fields change */
            return &segment[within];
        }
    }
    return NULL; /* all are under way */
}

/* Makes slots up to the next half of a segment, or up to the capacity, the fast ones. */
static ks_slot *reserve_further(ks_ring *ring) {
    const uint64_t half = KS_SEGMENT_SLOTS / 2;
    uint64_t number = ring->place >> KS_SEGMENT_SHIFT, within = ring->place & (KS_SEGMENT_SLOTS - 1);
    uint64_t count = half - (within & (half - 1));
    if (ring->mode == KS_STOP && ring->place + count > ring->capacity)
        count = ring->capacity - ring->place;
    ks_slot *segment = count == 0 ? NULL : segment_of(ring, number);
    if (segment == NULL)
        return NULL;
    if (within >= half)
        look_ahead(ring, number);
    ring->place += count;
    ring->fast = &segment[within + 1];
    ring->fast_left = count - 1;
    return &segment[within];
}

ks_slot *ks_ring_reserve(ks_ring *ring, uint64_t *sequence) {
    ks_slot *slot = ring->mode == KS_KEEP_NEWEST ? reserve_oldest(ring) : reserve_further(ring);
    ks_counters *shown = &ring->header->counters;
    uint64_t lost = atomic_load_explicit(&ring->counters.lost, memory_order_relaxed);
    if (slot == NULL)
        set(&ring->counters.lost, ++lost);
    else
        *sequence = ++ring->begun;
    set(&shown->next, ring->begun);
    set(&shown->lost, lost);
    set(&shown->place, ring->place);
    return slot;
}

ks_extent ks_ring_extent(ks_ring *ring) {
    set(&ring->header->counters.next, ring->begun);
    ks_extent extent = {ring->begun, atomic_load(&ring->counters.lost), ring->place - ring->fast_left, 0};
#endif
    if (ring->mode == KS_KEEP_NEWEST && extent.places > ring->capacity) {
        extent.oldest = extent.places % ring->capacity;
        extent.places = ring->capacity;
    } else if (ring->capacity != 0 && extent.places > ring->capacity) {
        extent.places = ring->capacity;
    }
    return extent;
}

ks_slot *ks_ring_at(ks_ring *ring, uint64_t place) {
    uint64_t number = place >> KS_SEGMENT_SHIFT;
    ks_slot *segment = number < KS_MOST_SEGMENTS ? atomic_load_explicit(&ring->segments[number], memory_order_acquire)
                                                 : NULL;
    return segment == NULL ? NULL : &segment[place & (KS_SEGMENT_SLOTS - 1)];
}

static void before_fork(void) {
    /* In the order in which they are taken elsewhere: a segment is made, and a spare one looked for, under a ring's. */
    pthread_mutex_lock(&rings_lock);
    for (ks_ring *ring = rings; ring != NULL; ring = ring->following) {
        pthread_mutex_lock(&ring->lock);
        ring->next_at_fork = ks_ring_extent(ring).next;
        ring->lost_at_fork = atomic_load(&ring->counters.lost);
        ring->place_at_fork = atomic_load(&ring->counters.place);
        if (ring->place_at_fork < ring->place)
            ring->place_at_fork = ring->place;
    }
    ks_memory_before_fork();
}

static void in_parent(void) {
    ks_memory_after_fork(false);
    for (ks_ring *ring = rings; ring != NULL; ring = ring->following)
        pthread_mutex_unlock(&ring->lock);
    pthread_mutex_unlock(&rings_lock);
}

/* The child goes on in a copy of its own: the file is its parent's, which has gone on writing to it since. */
static void leave_file(ks_ring *ring) {
    for (uint64_t number = 0; number < ring->in_file; number++) {
        ks_slot *slots = atomic_load(&ring->segments[number]);
        bool is_used = number <= ring->place_at_fork >> KS_SEGMENT_SHIFT;
        if (!ks_memory_leave_file(slots, KS_SEGMENT_BYTES, is_used)) {
            atomic_store(&ring->segments[number], NULL);
            ring->fast_left = 0;
            continue;
        }
        for (size_t each = 0; is_used && each < KS_SEGMENT_SLOTS; each++)
            if ((atomic_load(&slots[each].sequence) & ~KS_UNDER_WAY) > ring->next_at_fork)
                memset(&slots[each], 0, sizeof *slots);
    }
    ks_memory_leave_file(ring->header, KS_HEADER_BYTES, true);
    atomic_store(&ring->counters.next, ring->next_at_fork);
    atomic_store(&ring->counters.lost, ring->lost_at_fork);
    atomic_store(&ring->counters.place, ring->place_at_fork);
    close(ring->file);
    ring->file = -1;
    ring->in_file = 0;
}

void ks_ring_leave_file(ks_ring *ring) {
    pthread_mutex_lock(&ring->lock);
    bool is_left = ring->file >= 0 && ks_memory_leave_file(ring->header, KS_HEADER_BYTES, true);
    while (is_left && ring->in_file > 0) {
        is_left = ks_memory_leave_file(atomic_load(&ring->segments[ring->in_file - 1]), KS_SEGMENT_BYTES, false);
        ring->in_file -= is_left;
    }
    if (is_left) { /* else there was no memory for it: the rest goes with the ring */
        close(ring->file);
        ring->file = -1;
    }
    pthread_mutex_unlock(&ring->lock);
}

enum ks_harm ks_ring_look(ks_ring *ring) {
    enum ks_harm harm = KS_WHOLE;
    struct stat found;
    pthread_mutex_lock(&ring->lock);
    if (ring->file >= 0 && fstat(ring->file, &found) == 0) {
        off_t wanted = KS_HEADER_BYTES + (off_t)ring->in_file * KS_SEGMENT_BYTES;
        if (found.st_size < wanted || memcmp(ring->header->magic, magic, sizeof magic) != 0)
            atomic_store(&ring->is_torn, true);
        harm = atomic_load(&ring->is_torn) ? KS_TORN : found.st_nlink == 0 ? KS_DELETED : KS_WHOLE;
    }
    pthread_mutex_unlock(&ring->lock);
    return harm;
}

static void in_child(void) {
    ks_memory_after_fork(true);
    for (ks_ring *ring = rings; ring != NULL; ring = ring->following) {
        pthread_mutex_init(&ring->lock, NULL);
        pthread_cond_init(&ring->wake, NULL);
        ring->has_helper = false; /* it is the parent's */
        ring->wanted = 0;
        if (ring->file >= 0)
            leave_file(ring);
    }
    pthread_mutex_init(&rings_lock, NULL);
}

static void prepare(void) { pthread_atfork(before_fork, in_parent, in_child); }

static int open_file(ks_ring *ring, const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return errno;
    int failure = 0;
    if (flock(file, LOCK_EX) != 0)
        failure = errno;
    else
        ring->header = ks_memory_of_file(file, 0, KS_HEADER_BYTES, &failure, &ring->is_torn);
    if (failure != 0) {
        close(file);
        unlink(path);
        return failure;
    }
    ring->file = file;
    return 0;
}

int ks_ring_open(ks_ring *ring, enum ks_mode mode, uint64_t capacity, const char *path) {
    memset(ring, 0, sizeof *ring);
    ring->mode = mode;
    ring->capacity = mode == KS_GROW ? 0 : capacity;
    ring->file = -1;
    int failure = 0;
    if (path != NULL)
        failure = open_file(ring, path);
    else if ((ring->header = ks_memory_new(KS_HEADER_BYTES)) == NULL)
        failure = ENOMEM;
    if (failure != 0)
        return failure;
    ring->segments = calloc(KS_MOST_SEGMENTS, sizeof *ring->segments); /* pages that are touched when they are used */
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->wake, NULL);
    if (ring->segments == NULL || !make_segment(ring, 0) || (path != NULL && ring->failure != 0)) {
        failure = ring->failure != 0 ? ring->failure : ENOMEM;
        if (path != NULL)
            unlink(path);
        ks_ring_close(ring);
        return failure;
    }
    ks_header *header = ring->header;
    memcpy(header->magic, magic, sizeof magic);
    header->version = KS_VERSION;
    header->slot_bytes = sizeof(ks_slot);
    header->segment_slots = KS_SEGMENT_SLOTS;
    header->mode = mode;
    header->capacity = ring->capacity;
    header->pid = (uint64_t)getpid();
    header->host_ns = ks_now();
    pthread_once(&once, prepare);
    pthread_mutex_lock(&rings_lock);
    ring->following = rings;
    rings = ring;
    pthread_mutex_unlock(&rings_lock);
    return 0;
}

void ks_ring_close(ks_ring *ring) {
    pthread_mutex_lock(&rings_lock);
    for (ks_ring **each = &rings; *each != NULL; each = &(*each)->following)
        if (*each == ring) {
            *each = ring->following;
            break;
        }
    pthread_mutex_unlock(&rings_lock);
    pthread_mutex_lock(&ring->lock);
    ring->ends = true;
    pthread_cond_signal(&ring->wake);
    pthread_mutex_unlock(&ring->lock);
    if (ring->has_helper)
        pthread_join(ring->helper, NULL);
    uint64_t most = (ks_ring_extent(ring).places >> KS_SEGMENT_SHIFT) + 2; /* with the one that the helper has made */
    for (uint64_t number = 0; ring->segments != NULL && number < most && number < KS_MOST_SEGMENTS; number++) {
        ks_slot *segment = atomic_load(&ring->segments[number]);
        if (segment != NULL)
            ks_memory_give_up(segment, number < ring->in_file);
    }
    free(ring->segments);
    if (ring->file >= 0) {
        ks_memory_unmap_file(ring->header, KS_HEADER_BYTES);
        close(ring->file);
    } else {
        munmap(ring->header, KS_HEADER_BYTES);
    }
    pthread_mutex_destroy(&ring->lock);
    pthread_cond_destroy(&ring->wake);
    memset(ring, 0, sizeof *ring);
    ring->file = -1;
}
