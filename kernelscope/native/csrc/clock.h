/* The host clock: nanoseconds of CLOCK_MONOTONIC, which is what Python's perf_counter_ns reads.
 *
 * Where the system's own clock is the processor's time stamp counter, the counter is read instead: half the time, and a
 * launch has up to five readings. Once a millisecond, thread by thread, the counter is put right by the clock.
 */
#ifndef KS_CLOCK_H
#define KS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* One thread's: the counter and the clock at one instant, and how fast one runs by the other. */
typedef struct {
    uint64_t ticks;
    int64_t time_ns;
    uint64_t rate; /* nanoseconds a tick, times 2^32 */
    uint64_t room; /* ticks after which they are taken anew; 0: the counter is not used yet */
} ks_pace;

/* The clock itself. */
int64_t ks_now(void);
/* Finds out whether the counter may be used; the first call counts. */
bool ks_counter_ready(void);
int64_t ks_pace_renew(ks_pace *pace);

static inline int64_t ks_time(ks_pace *pace) {
#ifdef __x86_64__
    uint64_t since = __builtin_ia32_rdtsc() - pace->ticks;
    if (__builtin_expect(since < pace->room, 1))
        return pace->time_ns + (int64_t)(since * pace->rate >> 32);
#endif
    return ks_pace_renew(pace);
}

#endif
