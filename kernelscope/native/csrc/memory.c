#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Segments in memory that nobody uses any more: pages that are there already save a recording's start 60 us. */
#define MOST_SPARE 8
#define PAGE_BYTES 4096
static ks_slot *spare[MOST_SPARE];
static int spares;
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;

void *ks_memory_new(size_t bytes) {
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return made == MAP_FAILED ? NULL : made;
}

ks_slot *ks_memory_segment(void) {
    pthread_mutex_lock(&spare_lock);
    ks_slot *found = spares ? spare[--spares] : NULL;
    pthread_mutex_unlock(&spare_lock);
    if (found != NULL) {
        memset(found, 0, KS_SEGMENT_BYTES);
        return found;
    }
    return ks_memory_new(KS_SEGMENT_BYTES);
}

void ks_memory_give_up(ks_slot *segment, bool in_file) {
    if (in_file) {
        ks_memory_unmap_file(segment, KS_SEGMENT_BYTES);
        return;
    }
    pthread_mutex_lock(&spare_lock);
    bool kept = spares < MOST_SPARE;
    if (kept)
        spare[spares++] = segment;
    pthread_mutex_unlock(&spare_lock);
    if (!kept)
        munmap(segment, KS_SEGMENT_BYTES);
}

/* Memory that is a file's. Entries are never freed, so that a signal handler may read the list at any moment; one whose
 * `bytes` are 0 is free. */
typedef struct mapping {
    _Atomic uintptr_t start;
    _Atomic size_t bytes;
    _Atomic bool *_Atomic is_torn;
    struct mapping *following;
} mapping;
static mapping *_Atomic mappings;
static unsigned mapped; /* entries that are in use */
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

/* What SIGBUS did when our handler was put in last, and first: another handler may stand over an earlier one of ours. */
static struct sigaction before, first_before;
static bool is_covered;
static _Thread_local volatile sig_atomic_t is_passing_on, has_passed_on;

/* Puts zeros in the place of a page that its file has lost. */
static bool replace_page(uintptr_t address) {
    for (mapping *each = atomic_load(&mappings); each != NULL; each = each->following) {
        uintptr_t start = atomic_load(&each->start);
        size_t bytes = atomic_load(&each->bytes);
        if (address < start || address - start >= bytes)
            continue;
        atomic_store(atomic_load(&each->is_torn), true);
        void *page = (void *)(address & ~(uintptr_t)(PAGE_BYTES - 1));
        return mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page;
    }
    return false;
}

/* In place of the process's handler of SIGBUS as long as a journal is mapped. What is not ours goes on to that handler,
 * such as faulthandler's. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    int held = errno;
    if (info->si_code > 0 && replace_page((uintptr_t)info->si_addr)) { /* what touched the page does so again */
        errno = held;
        return;
    }
    /* A handler over an earlier one of ours, such as faulthandler's, may put that back and raise the signal again, which
     * comes when this call has returned: to that handler once more, it would never end. */
    bool is_again = is_passing_on || (has_passed_on && info->si_code <= 0);
    const struct sigaction *next = is_again ? &first_before : &before;
    if (!(next->sa_flags & SA_SIGINFO) && (next->sa_handler == SIG_DFL || next->sa_handler == SIG_IGN)) {
        if (info->si_code > 0 || next->sa_handler == SIG_DFL) {
            signal(number, SIG_DFL); /* it comes again, and ends the process */
            if (info->si_code <= 0)
                raise(number);
        }
    } else {
        is_passing_on = has_passed_on = true;
        if (next->sa_flags & SA_SIGINFO)
            next->sa_sigaction(number, info, context);
        else
            next->sa_handler(number);
        is_passing_on = false;
    }
    errno = held;
}

static bool is_ours(const struct sigaction *action) {
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_bus_error;
}

/* With the lock held: the first mapping is about to be made. */
static void put_handler(void) {
    struct sigaction present, ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (sigaction(SIGBUS, NULL, &present) != 0 || is_ours(&present))
        return;
    before = present;
    if (!is_covered)
        first_before = present;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, NULL);
}

/* With the lock held: the last mapping is gone. A handler that somebody has put over ours may hand over to it: it stays. */
static void remove_handler(void) {
    struct sigaction present;
    if (sigaction(SIGBUS, NULL, &present) != 0)
        return;
    if (is_ours(&present))
        sigaction(SIGBUS, &before, NULL);
    else
        is_covered = true;
}

/* Notes memory that is a file's, before it is touched; false where there is no memory for that. */
static bool note(void *memory, size_t bytes, _Atomic bool *is_torn) {
    pthread_mutex_lock(&mappings_lock);
    mapping *entry = atomic_load(&mappings);
    while (entry != NULL && atomic_load(&entry->bytes) != 0)
        entry = entry->following;
    mapping *made = entry == NULL ? calloc(1, sizeof *made) : NULL;
    entry = made != NULL ? made : entry;
    if (entry != NULL) {
        if (mapped++ == 0)
            put_handler();
        atomic_store(&entry->start, (uintptr_t)memory);
        atomic_store(&entry->is_torn, is_torn);
        atomic_store(&entry->bytes, bytes);
    }
    if (made != NULL) {
        made->following = atomic_load(&mappings);
        atomic_store(&mappings, made);
    }
    pthread_mutex_unlock(&mappings_lock);
    return entry != NULL;
}

static void forget(void *memory) {
    pthread_mutex_lock(&mappings_lock);
    for (mapping *each = atomic_load(&mappings); each != NULL; each = each->following)
        if (atomic_load(&each->bytes) != 0 && atomic_load(&each->start) == (uintptr_t)memory) {
            atomic_store(&each->bytes, 0);
            if (--mapped == 0)
                remove_handler();
            break;
        }
    pthread_mutex_unlock(&mappings_lock);
}

void ks_memory_unmap_file(void *memory, size_t bytes) {
    forget(memory);
    munmap(memory, bytes);
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

void *ks_memory_of_file(int file, off_t offset, size_t bytes, int *failure, _Atomic bool *is_torn) {
    int error;
    do
        error = posix_fallocate(file, offset, (off_t)bytes);
    while (error == EINTR);
    if (error == EINVAL || error == EOPNOTSUPP) /* a file system without it */
        error = add_zeros(file, offset, bytes);
    void *made = MAP_FAILED;
    if (error == 0) {
        made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, offset);
        if (made == MAP_FAILED) {
            error = errno;
        } else if (!note(made, bytes, is_torn)) {
            munmap(made, bytes);
            made = MAP_FAILED;
            error = ENOMEM;
        }
        /* The first write to a page of a file waits for its file system: it comes now and not in a launch. */
        for (size_t offset = 0; error == 0 && offset < bytes; offset += PAGE_BYTES)
            *((volatile char *)made + offset) = 0;
    }
    *failure = error;
    return made == MAP_FAILED ? NULL : made;
}

bool ks_memory_leave_file(void *memory, size_t bytes, bool is_used) {
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return false;
    if (is_used)
        memcpy(copy, memory, bytes);
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory) != MAP_FAILED) {
        forget(memory);
        return true;
    }
    munmap(copy, bytes);
    return false;
}

void ks_memory_before_fork(void) {
    pthread_mutex_lock(&spare_lock);
    pthread_mutex_lock(&mappings_lock);
}

void ks_memory_after_fork(bool is_child) {
    if (is_child) {
        pthread_mutex_init(&spare_lock, NULL);
        pthread_mutex_init(&mappings_lock, NULL);
    } else {
        pthread_mutex_unlock(&mappings_lock);
        pthread_mutex_unlock(&spare_lock);
    }
}
