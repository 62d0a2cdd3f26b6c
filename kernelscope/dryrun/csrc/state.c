/* What every part stands on: the state, the lock around every call, the count of calls, and memory for the
 * driver's own bookkeeping. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

State state = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

unsigned long long new_id(void) { return state.next_id++; }

/* ---- the lock, and calls put off until it is open again ---- */

typedef struct Deferred {
    CUhostFn function;
    void *argument;
    struct Deferred *next;
} Deferred;

static Deferred *deferred_first, **deferred_end = &deferred_first;

void driver_lock(void) { pthread_mutex_lock(&state.lock); }
void driver_unlock(void) { pthread_mutex_unlock(&state.lock); }

void call_after_unlock(CUhostFn function, void *argument)
{
    Deferred *call = allocate(1, sizeof *call);
    *call = (Deferred){function, argument, NULL};
    *deferred_end = call;
    deferred_end = &call->next;
}

int enter(CallCounter *counter)
{
    driver_lock();
    count_call(counter);
    return 1;
}

void leave(int *entered)
{
    (void)entered;
    Deferred *call = deferred_first;
    deferred_first = NULL;
    deferred_end = &deferred_first;
    driver_unlock();
    while (call) {
        Deferred *next = call->next;
        call->function(call->argument);
        free(call);
        call = next;
    }
}

void call_unlocked(CUhostFn function, void *argument)
{
    driver_unlock();
    function(argument);
    driver_lock();
}

/* ---- memory of the driver itself ---- */

static void *or_die(void *block, size_t bytes)
{
    if (!block && bytes) {
        fprintf(stderr, "kernelscope dry run: out of memory (%zu bytes)\n", bytes);
        abort();
    }
    return block;
}

void *allocate(size_t count, size_t size) { return or_die(calloc(count ? count : 1, size), count * size); }

void *reallocate(void *block, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) return or_die(NULL, SIZE_MAX);
    return or_die(realloc(block, bytes ? bytes : 1), bytes);
}

char *duplicate_text(const char *text, size_t length)
{
    char *copy = allocate(length + 1, 1);
    memcpy(copy, text, length);
    return copy;
}

/* ---- counts of calls ---- */

CallCounter *counters;
static CallCounter **counters_end = &counters; /* in the order of their first calls, so that it stands */

void count_call(CallCounter *counter)
{
    if (counter->calls++ == 0) {
        *counters_end = counter;
        counters_end = &counter->next;
    }
}
