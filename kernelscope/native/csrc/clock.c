#include "clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    ROOM_NS = 1000000,         /* between two looks at the clock */
    LEAST_NS = 20000000,       /* over which the counter's rate is measured, at least */
    ANCHOR_NS = 1000000000,    /* and about which it is measured later */
    TRIES = 4,
    LARGEST_STEP_NS = 1000,    /* a step back that is larger than that is none of reading the clock */
};

int64_t ks_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#ifdef __x86_64__
#include <cpuid.h>

typedef struct {
    uint64_t ticks;
    int64_t time_ns;
} pair;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pair older, newer;
static bool is_usable;

/* The counter and the clock at one instant: the tightest of some tries. */
static pair read_pair(void) {
    pair best = {0, 0};
    uint64_t width = UINT64_MAX;
    for (int number = 0; number < TRIES; number++) {
        uint64_t before = __builtin_ia32_rdtsc();
        int64_t time = ks_now();
        uint64_t took = __builtin_ia32_rdtsc() - before;
        if (took < width) {
            width = took;
            best = (pair){before + took / 2, time};
        }
        if (number > 0 && took < width + width / 4)
            break;
    }
    return best;
}

bool ks_counter_ready(void) {
    static bool was_asked;
    if (was_asked)
        return is_usable;
    was_asked = true;
    unsigned a, b, c, d = 0;
    bool is_invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
    char name[32] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (file != NULL) {
        if (fgets(name, sizeof name, file) == NULL)
            name[0] = 0;
        fclose(file);
    }
    is_usable = is_invariant && strcmp(name, "tsc\n") == 0;
    older = newer = read_pair();
    return is_usable;
}

int64_t ks_pace_renew(ks_pace *pace) {
    if (!is_usable)
        return ks_now();
    pthread_mutex_lock(&lock);
    pair here = read_pair();
    if (here.time_ns - newer.time_ns > ANCHOR_NS) {
        older = newer;
        newer = here;
    }
    int64_t passed_ns = here.time_ns - older.time_ns;
    uint64_t passed = here.ticks - older.ticks;
    pthread_mutex_unlock(&lock);
    if (passed_ns < LEAST_NS || passed == 0) {
        pace->room = 0;
        return here.time_ns;
    }
    if (pace->room != 0) { /* what the thread has said last is not taken back */
        int64_t said = pace->time_ns + (int64_t)((unsigned __int128)(here.ticks - pace->ticks) * pace->rate >> 32);
        if (said > here.time_ns && said - here.time_ns < LARGEST_STEP_NS)
            here.time_ns = said;
    }
    pace->rate = (uint64_t)(((unsigned __int128)passed_ns << 32) / passed);
    pace->ticks = here.ticks;
    pace->time_ns = here.time_ns;
    pace->room = ((uint64_t)ROOM_NS << 32) / pace->rate;
    return here.time_ns;
}
#else
bool ks_counter_ready(void) { return false; }

int64_t ks_pace_renew(ks_pace *pace) {
    (void)pace;
    return ks_now();
}
#endif
