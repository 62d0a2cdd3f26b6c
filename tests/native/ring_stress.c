/* Threads that write to one ring at once, without Python: `ring_stress MODE CAPACITY EACH FORKS [FILE]` says what went wrong.
 *
 * Each launch carries its thread, and which of the thread's it is, in every field. Compiled by tests/native/test_ring_in_c.py with ring.c and KS_THREADS.
 */
#include "ring.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8 };

static ks_ring ring;
static long each;
static atomic_long begun, refused;
static uint64_t *sequences[THREADS]; /* what each thread was given, in order; 0: no slot */

static void fail(const char *what, uint64_t number) {
    fprintf(stderr, "%s: %llu\n", what, (unsigned long long)number);
    exit(1);
}

static void *launch(void *argument) {
    long thread = (long)(intptr_t)argument;
    for (long number = 0; number < each; number++) {
        uint64_t sequence = 0;
        ks_slot *slot = ks_ring_reserve(&ring, &sequence);
        sequences[thread][number] = sequence;
        if (slot == NULL) {
            atomic_fetch_add(&refused, 1);
            continue;
        }
        atomic_fetch_add(&begun, 1);
        slot->start_ns = number;
        slot->dispatch_end_ns = slot->submit_start_ns = slot->submit_end_ns = slot->end_ns = KS_UNKNOWN;
        slot->target = (int32_t)number;
        slot->configuration = (int32_t)~number;
        slot->site = (int32_t)thread;
        slot->kind = KS_LAUNCH;
        ks_begin(slot, sequence);
        slot->submit_start_ns = number + 1;
        if (number % 64 == 0)
            sched_yield();
        slot->end_ns = number + 2;
        ks_finish(slot, sequence);
    }
    return NULL;
}

/* Says whether a slot is whole, and which launch of which thread it is of. */
static bool is_whole(const ks_slot *slot, uint64_t sequence) {
    return slot->check == ks_check(slot, sequence) && slot->kind == KS_LAUNCH && slot->site >= 0 &&
           slot->site < THREADS && slot->target == slot->start_ns && slot->configuration == ~slot->target &&
           slot->end_ns == slot->start_ns + 2 && slot->submit_start_ns == slot->start_ns + 1 &&
           slot->dispatch_end_ns == KS_UNKNOWN;
}

static int by_value(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

static void judge(uint64_t total) {
    ks_extent extent = ks_ring_extent(&ring);
    if (extent.next != (uint64_t)begun || extent.lost != (uint64_t)refused || extent.next + extent.lost != total)
        fail("launches that were counted", extent.next);
    uint64_t *all = malloc((total + 1) * sizeof *all), found = 0;
    for (int thread = 0; thread < THREADS; thread++) {
        uint64_t last = 0;
        for (long number = 0; number < each; number++) {
            uint64_t sequence = sequences[thread][number];
            if (sequence == 0)
                continue;
            if (sequence <= last)
                fail("a thread's launch is before the one before it", sequence);
            all[found++] = last = sequence;
        }
    }
    qsort(all, found, sizeof *all, by_value);
    for (uint64_t number = 0; number < found; number++)
        if (all[number] != number + 1)
            fail("a sequence number that nobody, or more than one, was given", number + 1);
    free(all);
    uint64_t kept = 0;
    for (uint64_t place = 0; place < extent.places; place++) {
        ks_slot *slot = ks_ring_at(&ring, place);
        uint64_t sequence = atomic_load(&slot->sequence);
        if (sequence == 0)
            continue;
        if (sequence > extent.next || !is_whole(slot, sequence))
            fail("a torn slot at the end", place);
        if (sequences[slot->site][slot->target] != sequence)
            fail("a slot of another launch", place);
        kept++;
    }
    uint64_t expected = ring.mode == KS_GROW || extent.next < ring.capacity ? extent.next : ring.capacity;
    if (kept != expected)
        fail("launches that were kept", kept);
}

int main(int count, char **arguments) {
    if (count < 5)
        return 2;
    each = atol(arguments[3]);
    int failure = ks_ring_open(&ring, (enum ks_mode)atoi(arguments[1]), strtoull(arguments[2], NULL, 10),
                               count > 5 ? arguments[5] : NULL);
    if (failure != 0)
        fail("the ring cannot be made", (uint64_t)failure);
    pthread_t threads[THREADS];
    for (int thread = 0; thread < THREADS; thread++) {
        sequences[thread] = calloc((size_t)each, sizeof **sequences);
        pthread_create(&threads[thread], NULL, launch, (void *)(intptr_t)thread);
    }
    for (int child = 0; child < atoi(arguments[4]); child++) { /* forks in the middle: the child writes and closes a ring of its own */
        pid_t pid = fork();
        if (pid == 0) {
            for (int number = 0; number < 10000; number++) {
                uint64_t sequence;
                ks_slot *slot = ks_ring_reserve(&ring, &sequence);
                if (slot != NULL)
                    ks_finish(slot, sequence);
            }
            if (ring.file >= 0)
                fail("the child has its parent's file", 0);
            ks_ring_close(&ring);
            _exit(0);
        }
        int status = -1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            fail("a child of fork()", (uint64_t)status);
    }
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    judge((uint64_t)each * THREADS);
    for (int thread = 0; thread < THREADS; thread++)
        free(sequences[thread]);
    ks_ring_close(&ring);
    puts("whole");
    return 0;
}
