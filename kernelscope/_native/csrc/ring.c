#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef KS_THREADS
#define KS_ADD(counter) atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)
#else
/* The caller holds a lock: a plain addition, which is 5 ns cheaper. */
static inline uint64_t add_one(_Atomic uint64_t *counter) {
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
    return value;
}
#define KS_ADD(counter) add_one(&(counter))
#endif

/* Segments in memory that nobody uses any more: pages that are there already save a recording's start 60 us. */
#define MOST_SPARE 8
static ks_slot *spare[MOST_SPARE];
static int spares;
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;

/* All rings of the process, for fork(). */
static ks_ring *rings;
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int64_t ks_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void *new_memory(size_t bytes) {
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return made == MAP_FAILED ? NULL : made;
}

static ks_slot *anonymous(void) {
    pthread_mutex_lock(&spare_lock);
    ks_slot *found = spares ? spare[--spares] : NULL;
    pthread_mutex_unlock(&spare_lock);
    if (found != NULL) {
        memset(found, 0, KS_SEGMENT_BYTES);
        return found;
    }
    return new_memory(KS_SEGMENT_BYTES);
}

static void give_up(ks_slot *segment, bool in_file) {
    pthread_mutex_lock(&spare_lock);
    bool kept = !in_file && spares < MOST_SPARE;
    if (kept)
        spare[spares++] = segment;
    pthread_mutex_unlock(&spare_lock);
    if (!kept)
        munmap(segment, KS_SEGMENT_BYTES);
}

/* Writes zeros behind a file's end; returns 0, or an errno. */
static int add_zeros(int file, off_t offset, size_t bytes) {
    static const char zeros[KS_HEADER_BYTES];
    for (size_t done = 0; done < bytes;) {
        size_t rest = bytes - done < sizeof zeros ? bytes - done : sizeof zeros;
        ssize_t written = pwrite(file, zeros, rest, offset + (off_t)done);
        if (written < 0 && errno != EINTR)
            return errno;
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* A part of the file as memory, with blocks of its own on the disk: writing to it cannot fail for want of room. */
static void *mapped(int file, off_t offset, size_t bytes, int *failure) {
    int error;
    do
        error = posix_fallocate(file, offset, (off_t)bytes);
    while (error == EINTR);
    if (error == EINVAL || error == EOPNOTSUPP) /* a file system without it */
        error = add_zeros(file, offset, bytes);
    void *made = MAP_FAILED;
    if (error == 0) {
        made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, offset);
        if (made == MAP_FAILED)
            error = errno;
    }
    *failure = error;
    return made == MAP_FAILED ? NULL : made;
}

/* Makes a segment if it is missing; false where there is no memory. The lock is held. */
static bool make_segment(ks_ring *ring, uint64_t number) {
    if (atomic_load_explicit(&ring->segments[number], memory_order_acquire) != NULL)
        return true;
    /* Of threads that need two segments at once, the one that needs the later may come first: a file has no gaps. */
    while (ring->file >= 0 && ring->failure == 0 && ring->in_file < number)
        if (!make_segment(ring, ring->in_file))
            return false;
    ks_slot *made = NULL;
    if (ring->file >= 0 && ring->failure == 0) {
        made = mapped(ring->file, KS_HEADER_BYTES + (off_t)number * KS_SEGMENT_BYTES, KS_SEGMENT_BYTES, &ring->failure);
        ring->in_file += made != NULL;
    }
    if (made == NULL)
        made = anonymous();
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

ks_slot *ks_ring_reserve(ks_ring *ring, uint64_t *sequence) {
    ks_header *header = ring->header;
    for (uint64_t tries = 0;; tries++) {
        uint64_t place = KS_ADD(header->place);
        if (ring->capacity != 0) {
            if (ring->mode == KS_STOP && place >= ring->capacity)
                break;
            if (ring->mode == KS_KEEP_NEWEST) {
                if (tries == ring->capacity)
                    break; /* all are under way */
                place %= ring->capacity;
            }
        }
        uint64_t number = place >> KS_SEGMENT_SHIFT;
        unsigned within = place & (KS_SEGMENT_SLOTS - 1);
        ks_slot *segment = NULL;
        if (number < KS_MOST_SEGMENTS)
            segment = atomic_load_explicit(&ring->segments[number], memory_order_acquire);
        if (segment == NULL && (segment = first_of(ring, number)) == NULL)
            break;
        if (within == KS_SEGMENT_SLOTS / 2 && number + 1 < KS_MOST_SEGMENTS &&
            (ring->capacity == 0 || (number + 1) << KS_SEGMENT_SHIFT < ring->capacity) &&
            atomic_load_explicit(&ring->segments[number + 1], memory_order_relaxed) == NULL)
            want(ring, number + 1);
        ks_slot *slot = &segment[within];
#ifdef KS_THREADS
        /* Two threads may come to one place a whole round apart: the one that empties it has it. */
        uint64_t held = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
        if (held & KS_UNDER_WAY ||
            !atomic_compare_exchange_strong_explicit(&slot->sequence, &held, KS_UNDER_WAY, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
#else
        if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) & KS_UNDER_WAY)
            continue;
        /* Taken: what is called before it has begun, such as a clock in Python, may come here again. */
        atomic_store_explicit(&slot->sequence, KS_UNDER_WAY, memory_order_relaxed);
#endif
        /* Whoever reads the fields of this launch, and the number again, sees that the launch before is gone. */
        atomic_thread_fence(memory_order_release);
        *sequence = KS_ADD(header->next) + 1;
        return slot;
    }
    KS_ADD(header->lost);
    return NULL;
}

ks_extent ks_ring_extent(ks_ring *ring) {
    ks_header *header = ring->header;
    ks_extent extent = {atomic_load(&header->next), atomic_load(&header->lost), atomic_load(&header->place)};
    if (ring->capacity != 0 && extent.places > ring->capacity)
        extent.places = ring->capacity;
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
        ring->next_at_fork = atomic_load(&ring->header->next);
        ring->lost_at_fork = atomic_load(&ring->header->lost);
        ring->place_at_fork = atomic_load(&ring->header->place);
    }
    pthread_mutex_lock(&spare_lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&spare_lock);
    for (ks_ring *ring = rings; ring != NULL; ring = ring->following)
        pthread_mutex_unlock(&ring->lock);
    pthread_mutex_unlock(&rings_lock);
}

/* Puts a copy in the place of memory that is a file's, at the same address; false where there is no memory. */
static bool leave(void *memory, size_t bytes, bool is_used) {
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return false;
    if (is_used)
        memcpy(copy, memory, bytes);
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory) != MAP_FAILED)
        return true;
    munmap(copy, bytes);
    return false;
}

/* The child goes on in a copy of its own: the file is its parent's, which has gone on writing to it since. */
static void leave_file(ks_ring *ring) {
    for (uint64_t number = 0; number < ring->in_file; number++) {
        ks_slot *slots = atomic_load(&ring->segments[number]);
        bool is_used = number <= ring->place_at_fork >> KS_SEGMENT_SHIFT;
        if (!leave(slots, KS_SEGMENT_BYTES, is_used))
            atomic_store(&ring->segments[number], NULL);
        else
            for (size_t each = 0; is_used && each < KS_SEGMENT_SLOTS; each++)
                if ((atomic_load(&slots[each].sequence) & ~KS_UNDER_WAY) > ring->next_at_fork)
                    memset(&slots[each], 0, sizeof *slots);
    }
    if (leave(ring->header, KS_HEADER_BYTES, true)) {
        atomic_store(&ring->header->next, ring->next_at_fork);
        atomic_store(&ring->header->lost, ring->lost_at_fork);
        atomic_store(&ring->header->place, ring->place_at_fork);
    }
    close(ring->file);
    ring->file = -1;
    ring->in_file = 0;
}

static void in_child(void) {
    for (ks_ring *ring = rings; ring != NULL; ring = ring->following) {
        pthread_mutex_init(&ring->lock, NULL);
        pthread_cond_init(&ring->wake, NULL);
        ring->has_helper = false; /* it is the parent's */
        ring->wanted = 0;
        if (ring->file >= 0)
            leave_file(ring);
    }
    pthread_mutex_init(&spare_lock, NULL);
    pthread_mutex_init(&rings_lock, NULL);
}

static void prepare(void) { pthread_atfork(before_fork, in_parent, in_child); }

static int open_file(ks_ring *ring, const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return errno;
    int failure = 0;
    if (flock(file, LOCK_EX | LOCK_NB) != 0)
        failure = errno;
    else
        ring->header = mapped(file, 0, KS_HEADER_BYTES, &failure);
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
    else if ((ring->header = new_memory(KS_HEADER_BYTES)) == NULL)
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
    memcpy(header->magic, "kernelscope ring", 16);
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
            give_up(segment, number < ring->in_file);
    }
    free(ring->segments);
    munmap(ring->header, KS_HEADER_BYTES);
    if (ring->file >= 0)
        close(ring->file);
    pthread_mutex_destroy(&ring->lock);
    pthread_cond_destroy(&ring->wake);
    memset(ring, 0, sizeof *ring);
    ring->file = -1;
}
