/* The launch record: made by `python -m kernelscope.native.record` from LAUNCH_RECORD of kernelscope/schema/launch_record.py. */
#ifndef KS_RECORD_H
#define KS_RECORD_H

#include <stdint.h>

#define KS_VERSION 2u
#define KS_SLOT_BYTES 64u

typedef struct {
    _Atomic uint64_t sequence; /* The launch's index + 1; bit 63 is set while it is under way; 0 is an empty slot. */
    int64_t start_ns; /* The launch call was entered: dispatch begins. */
    int64_t dispatch_end_ns; /* The specialization was found (compile included): prepare begins. */
    int64_t submit_start_ns; /* Arguments were marshalled: the driver call begins. */
    int64_t submit_end_ns; /* The driver call returned: finish begins. */
    int64_t end_ns; /* The launch call returned or raised; null where a probe cannot see it, and where its process died first. */
    int32_t target; /* What was launched: a row of the journal's targets. */
    int32_t configuration; /* The launch configuration: a row of `configurations`. */
    int32_t site; /* Where it was made: a row of the journal's sites, a host thread and a line of the user's code. */
    uint16_t kind; /* 1 is a launch, 0 one that could not be recorded after all. */
    uint16_t check; /* Of all the others; while it is under way, of all but the times after the first. */
} ks_slot;

_Static_assert(sizeof(ks_slot) == KS_SLOT_BYTES, "a slot has no gaps");

/* The times between a launch's two ends, without the ending `_ns`, and by how many bits the check turns each. */
#define KS_BOUNDARIES(X) X(dispatch_end, 45) X(submit_start, 36) X(submit_end, 27)
enum { KS_TURN_SEQUENCE = 63, KS_TURN_START = 54, KS_TURN_END = 18 };

#endif
