#include "memory.h"

#include <errno.h>
#include <fcntl.h>
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
void *ks_memory_of_file(int file, off_t offset, size_t bytes, int *failure) {
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
        /* The first write to a page of a file waits for its file system: it comes now and not in a launch. */
        for (size_t offset = 0; error == 0 && offset < bytes; offset += PAGE_BYTES)
            *((volatile char *)made + offset) = 0;
    }
    *failure = error;
    return made == MAP_FAILED ? NULL : made;
}

/* Puts a copy in the place of memory that is a file's, at the same address; false where there is no memory. */
bool ks_memory_leave_file(void *memory, size_t bytes, bool is_used) {
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

void ks_memory_before_fork(void) { pthread_mutex_lock(&spare_lock); }

void ks_memory_after_fork(bool is_child) {
    if (is_child)
        pthread_mutex_init(&spare_lock, NULL);
    else
        pthread_mutex_unlock(&spare_lock);
}
