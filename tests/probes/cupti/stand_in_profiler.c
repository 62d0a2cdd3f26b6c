/* The range profiler of the stand-in for CUPTI: parameters are laid out as in CUPTI's headers, and their sizes checked.
 *
 * It knows the metrics that tests name, with a value each; a launch's are larger by 1000 than those of the launch before.
 * As the real one it refuses calls out of order, and a second measurement beside the first. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stand_in.h"

#define METRICS 64
#define CONFIG_BYTES 24

enum { INVALID_PARAMETER = 1, INVALID_OPERATION = 7, INVALID_METRIC = 17, BUSY = 26 };
enum { UNSUPPORTED = 1, SUPPORTED = 3 };

typedef struct { const char *names[METRICS]; size_t count; } Host;
typedef struct { uint64_t magic, ranges; double first[METRICS]; } Data;
typedef struct { uint64_t magic, passes; } Config;

static struct { char name[96]; double value; } known[METRICS];
static size_t known_count;
static struct { bool on, configured, started, by_user, pushed; size_t pass; void *context; Data *data; size_t room, ranges, passes; } session;
static int enables, disables, hosts, launching, overlaps, replays, launch_us, signal_at_stop;
static char chip[16];
static int architecture;

void profiler_reset(void)
{
    known_count = 0, memset(&session, 0, sizeof session);
    enables = disables = hosts = launching = overlaps = replays = launch_us = signal_at_stop = 0;
    strcpy(chip, "GH100"), architecture = SUPPORTED;
}

/* ---- what tests tell it, and ask ---- */

EXPORT void stand_in_metric(const char *name, double value)
{
    strncpy(known[known_count].name, name, sizeof known[0].name - 1);
    known[known_count++].value = value;
}

EXPORT void stand_in_chip(const char *name, int is_supported)
{
    strncpy(chip, name, sizeof chip - 1), architecture = is_supported ? SUPPORTED : UNSUPPORTED;
}

EXPORT void stand_in_launch_time(int us) { launch_us = us; }
EXPORT void stand_in_signal_at_stop(int number) { signal_at_stop = number; }
EXPORT int stand_in_profiler_enables(void) { return enables; }
EXPORT int stand_in_profiler_left_on(void) { return (enables - disables) + hosts + session.started; }
EXPORT int stand_in_profiler_replays(void) { return replays; }
/* Launches that ran while another one was measured. */
EXPORT int stand_in_profiler_overlaps(void) { return __atomic_load_n(&overlaps, __ATOMIC_SEQ_CST); }

/* A kernel runs: where it is measured, as often as there are passes. */
void profiler_run(void *context)
{
    bool measured = session.started && session.context == context;
    int running = __atomic_add_fetch(&launching, 1, __ATOMIC_SEQ_CST);
    if (running > 1 && session.started) __atomic_add_fetch(&overlaps, 1, __ATOMIC_SEQ_CST);
    if (launch_us) usleep((unsigned)launch_us);
    if (measured && session.by_user) replays += session.pushed;
    else if (measured) session.ranges++, replays += (int)session.passes;
    __atomic_sub_fetch(&launching, 1, __ATOMIC_SEQ_CST);
}

/* ---- CUPTI ---- */

#define HEAD size_t size; void *private;
#define CALL(name, last, ...) \
    typedef struct { HEAD __VA_ARGS__ } name##Params; \
    static int name##_checked(name##Params *params); \
    EXPORT int name(name##Params *params) \
    { \
        int told = stand_in_failure(#name); \
        if (told) return told; \
        if (params->size != offsetof(name##Params, last) + sizeof params->last) return INVALID_PARAMETER; \
        return name##_checked(params); \
    } \
    static int name##_checked(name##Params *params)

CALL(cuptiProfilerInitialize, private, ) { (void)params; return 0; }

CALL(cuptiProfilerDeviceSupported, api, int device, is_supported, architecture, sli, vgpu, confidential, cmp, wsl, api;)
{
    params->sli = params->vgpu = params->confidential = params->cmp = params->wsl = SUPPORTED;
    params->is_supported = params->architecture = architecture;
    return 0;
}

CALL(cuptiDeviceGetChipName, chip, size_t device; const char *chip;) { params->chip = chip; return 0; }

CALL(cuptiProfilerHostInitialize, host, int type; const char *chip; const uint8_t *available; Host *host;)
{
    if (strcmp(params->chip, chip)) return INVALID_PARAMETER;
    params->host = calloc(1, sizeof(Host));
    hosts++;
    return 0;
}

CALL(cuptiProfilerHostDeinitialize, host, Host *host;)
{
    free(params->host);
    hosts--;
    return 0;
}

static const char *known_name(const char *name)
{
    for (size_t i = 0; i < known_count; i++)
        if (!strcmp(known[i].name, name)) return known[i].name;
    return NULL;
}

CALL(cuptiProfilerHostConfigAddMetrics, count, Host *host; const char **names; size_t count;)
{
    for (size_t i = 0; i < params->count; i++) {
        const char *name = known_name(params->names[i]);
        if (!name) return INVALID_METRIC;
        params->host->names[params->host->count++] = name;
    }
    return 0;
}

CALL(cuptiProfilerHostGetConfigImageSize, bytes, Host *host; size_t bytes;) { params->bytes = CONFIG_BYTES; return 0; }

/* Two metrics a pass. */
CALL(cuptiProfilerHostGetConfigImage, image, Host *host; size_t bytes; uint8_t *image;)
{
    if (params->bytes != CONFIG_BYTES) return INVALID_PARAMETER;
    *(Config *)params->image = (Config){0xC0F16, (params->host->count + 1) / 2};
    return 0;
}

CALL(cuptiProfilerHostGetNumOfPasses, passes, size_t bytes; uint8_t *image; size_t passes;)
{
    if (((Config *)params->image)->magic != 0xC0F16) return INVALID_PARAMETER;
    params->passes = ((Config *)params->image)->passes;
    return 0;
}

CALL(cuptiProfilerHostEvaluateToGpuValues, values, Host *host; const uint8_t *image; size_t bytes, range;
     const char **names; size_t count; double *values;)
{
    const Data *data = (const Data *)params->image;
    if (params->bytes != sizeof *data || data->magic != 0xDA7A || params->range >= data->ranges) return INVALID_PARAMETER;
    for (size_t i = 0; i < params->count; i++) {
        size_t at = 0;
        while (at < params->host->count && strcmp(params->host->names[at], params->names[i])) at++;
        if (at == params->host->count) return INVALID_METRIC;
        size_t number = 0;
        while (strcmp(known[number].name, params->names[i])) number++;
        params->values[i] = known[number].value + 1000.0 * (double)params->range;
    }
    return 0;
}

CALL(cuptiRangeProfilerEnable, profiler, void *context; void *profiler;)
{
    if (session.on) return BUSY;
    memset(&session, 0, sizeof session);
    session.on = true, session.context = params->context, params->profiler = &session;
    enables++;
    return 0;
}

CALL(cuptiRangeProfilerDisable, profiler, void *profiler;)
{
    if (params->profiler != &session || !session.on) return INVALID_PARAMETER;
    session.on = session.configured = session.started = false;
    disables++;
    return 0;
}

CALL(cuptiRangeProfilerGetCounterDataSize, bytes, void *profiler; const char **names; size_t count, ranges;
     uint32_t nodes; size_t bytes;)
{
    if (params->profiler != &session || params->nodes < params->ranges) return INVALID_PARAMETER;
    params->bytes = sizeof(Data);
    return 0;
}

CALL(cuptiRangeProfilerCounterDataImageInitialize, image, void *profiler; size_t bytes; uint8_t *image;)
{
    if (params->profiler != &session || params->bytes != sizeof(Data)) return INVALID_PARAMETER;
    *(Data *)params->image = (Data){.magic = 0xDA7A};
    return 0;
}

CALL(cuptiRangeProfilerSetConfig, target, void *profiler; size_t config_bytes; const uint8_t *config;
     size_t data_bytes; uint8_t *data; int range, replay; size_t ranges; uint16_t levels, least; size_t pass;
     uint16_t target;)
{
    const Config *config = (const Config *)params->config;
    if (params->profiler != &session || params->config_bytes != CONFIG_BYTES || config->magic != 0xC0F16 ||
        params->data_bytes != sizeof(Data) || params->range + 1 != params->replay || params->levels != 1)
        return INVALID_PARAMETER;
    session.by_user = params->replay == 3, session.pass = 0;
    session.data = (Data *)params->data, session.room = params->ranges, session.passes = config->passes;
    session.configured = true;
    return 0;
}

CALL(cuptiRangeProfilerStart, profiler, void *profiler;)
{
    if (params->profiler != &session || !session.configured || session.started) return INVALID_OPERATION;
    session.started = true;
    return 0;
}

CALL(cuptiRangeProfilerPushRange, name, void *profiler; const char *name;)
{
    if (params->profiler != &session || !session.started || !session.by_user || session.pushed) return INVALID_OPERATION;
    session.pushed = true;
    return 0;
}

CALL(cuptiRangeProfilerPopRange, profiler, void *profiler;)
{
    if (params->profiler != &session || !session.pushed) return INVALID_OPERATION;
    session.pushed = false;
    return 0;
}

CALL(cuptiRangeProfilerStop, all, void *profiler; size_t pass, level; uint8_t all;)
{
    if (params->profiler != &session || !session.started) return INVALID_OPERATION;
    if (session.pushed) return INVALID_OPERATION;
    session.started = false, params->all = !session.by_user || ++session.pass == session.passes;
    session.ranges += session.by_user && params->all;
    stand_in_come(&signal_at_stop);
    return 0;
}

CALL(cuptiRangeProfilerDecodeData, dropped, void *profiler; size_t dropped;)
{
    if (params->profiler != &session || session.started) return INVALID_OPERATION;
    session.data->ranges = session.ranges < session.room ? session.ranges : session.room;
    params->dropped = session.ranges - session.data->ranges;
    return 0;
}

CALL(cuptiRangeProfilerGetCounterDataInfo, ranges, const uint8_t *image; size_t bytes, ranges;)
{
    if (params->bytes != sizeof(Data)) return INVALID_PARAMETER;
    params->ranges = ((const Data *)params->image)->ranges;
    return 0;
}
