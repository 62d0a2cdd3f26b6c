/* A stand-in for CUPTI: the functions that KernelScope calls, over records that tests write with stand_in_*().
 *
 * It does what CUPTI was seen to do: asks for a buffer when a record finds none, gives buffers back when they are full or
 * flushed, from a thread of its own if told to, and counts what it had to drop. Records are written at byte offsets, so
 * that what the tests read was not laid out by the code under test. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

#define KINDS 64
#define FUNCTIONS 512
#define FAILURES 16

enum { OK = 0, INVALID_PARAMETER = 1, MAX_LIMIT_REACHED = 12, INVALID_KIND = 21, HELD = 39 };
enum { MEMCPY = 1, MEMSET = 2, KERNEL = 10, MEMCPY_PEER = 22, SYNCHRONIZATION = 38 };

typedef void (*Requested)(uint8_t **, size_t *, size_t *);
typedef void (*Completed)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef struct { uint8_t *memory; size_t size, used; } Buffer;
typedef struct { Buffer buffer; Completed completed; bool is_kept; } Delivery;
typedef struct {
    size_t struct_size;
    const char *name;
    char *holder;
    size_t holder_size;
    uint8_t allow_multiple;
} SubscriberParams;

typedef struct {
    int site;
    const char *name;
    const void *params;
    int *result;
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *kept;
    uint32_t correlation_id;
} CallbackData;
typedef void (*Called)(void *, int, uint32_t, const CallbackData *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Requested requested;
static Completed completed;
static Buffer open_buffer;
static Called called;
static void *context;
static bool awaited, enabled[KINDS], watched[3][FUNCTIONS];
static size_t sizes[KINDS];
static struct { char name[48]; int code; } failures[FAILURES];
static char client[64], holder[64];
static size_t params_size;
static uint32_t version, correlation, called_back, kernel_context;
static int registrations, outstanding;
static size_t dropped;
static int delivery; /* 0: in the calling thread; -1: in a thread, awaited by flush; 1: in a thread, when released */
static bool released;
static int64_t fixed_time, clock_offset;
static const char *functions[3][FUNCTIONS];
static int signal_at_request, signal_at_flush, signal_at_launch, signalling, request_us;

EXPORT void stand_in_reset(void)
{
    requested = NULL, completed = NULL;
    open_buffer = (Buffer){0};
    memset(enabled, 0, sizeof enabled);
    memset(sizes, 0, sizeof sizes), memset(failures, 0, sizeof failures), memset(functions, 0, sizeof functions);
    client[0] = holder[0] = 0;
    params_size = 40, version = 130001, kernel_context = 1, correlation = called_back = 0, awaited = false, registrations = outstanding = 0, dropped = 0, delivery = 0, released = false;
    signal_at_request = signal_at_flush = signal_at_launch = request_us = 0;
    profiler_reset();
    fixed_time = 0, clock_offset = 1700000000000000000;
    sizes[KERNEL] = 248, sizes[MEMCPY] = 112, sizes[MEMSET] = 104;
    sizes[MEMCPY_PEER] = 96, sizes[SYNCHRONIZATION] = 56;
}

/* ---- what tests tell it ---- */

EXPORT void stand_in_fail(const char *function, int code)
{
    for (int i = 0; i < FAILURES; i++) {
        if (failures[i].name[0] && strcmp(failures[i].name, function)) continue;
        strncpy(failures[i].name, function, sizeof failures[i].name - 1);
        failures[i].code = code;
        return;
    }
}

EXPORT void stand_in_hold(const char *name) { strncpy(holder, name, sizeof holder - 1); }
EXPORT void stand_in_version(uint32_t number, size_t accepted) { version = number, params_size = accepted; }
EXPORT void stand_in_kernel_context(uint32_t id) { kernel_context = id; }
EXPORT void stand_in_size(int kind, size_t bytes) { sizes[kind] = bytes; }
EXPORT void stand_in_deliver(int how) { delivery = how; }
EXPORT void stand_in_release(void) { __atomic_store_n(&released, true, __ATOMIC_SEQ_CST); }
EXPORT void stand_in_time(int64_t fixed, int64_t offset) { fixed_time = fixed, clock_offset = offset; }
EXPORT void stand_in_function(int domain, int number, const char *name) { functions[domain][number] = strdup(name); }
EXPORT int stand_in_enabled(int kind) { return enabled[kind]; }
EXPORT int stand_in_watched(int domain, int number) { return watched[domain][number]; }
EXPORT int stand_in_registrations(void) { return registrations; }
EXPORT int stand_in_outstanding(void) { return outstanding; }
EXPORT const char *stand_in_client(void) { return client; }

/* A signal that comes while a buffer is asked for, while one is given back, while a kernel is launched, or a few
 * microseconds later. */
EXPORT void stand_in_signal(int number) { signal_at_request = number; }
EXPORT void stand_in_signal_at_flush(int number) { signal_at_flush = number; }
EXPORT void stand_in_signal_at_launch(int number) { signal_at_launch = number; }
/* How long it takes to ask for a buffer, meanwhile other threads run. */
EXPORT void stand_in_request_time(int us) { request_us = us; }
EXPORT int stand_in_signalling(void) { return __atomic_load_n(&signalling, __ATOMIC_SEQ_CST); }

void stand_in_come(int *number)
{
    if (*number) raise(*number);
    *number = 0;
}

static void *signal_later(void *argument)
{
    long packed = (long)argument;
    usleep((unsigned)(packed >> 8));
    kill(getpid(), (int)(packed & 255));
    __atomic_store_n(&signalling, 0, __ATOMIC_SEQ_CST);
    return NULL;
}

EXPORT void stand_in_signal_later(int number, int delay_us)
{
    pthread_t thread;
    __atomic_store_n(&signalling, 1, __ATOMIC_SEQ_CST);
    pthread_create(&thread, NULL, signal_later, (void *)((long)delay_us << 8 | number));
    pthread_detach(thread);
}

/* Another client registers its own callbacks, as torch.profiler does when it starts. */
EXPORT void stand_in_register_other(void) { requested = NULL, completed = NULL; }

/* ---- buffers ---- */

static void *deliver(void *argument)
{
    Delivery one = *(Delivery *)argument;
    free(argument);
    stand_in_come(&signal_at_flush);
    while (one.is_kept && !__atomic_load_n(&released, __ATOMIC_SEQ_CST)) usleep(100);
    one.completed(NULL, 0, one.buffer.memory, one.buffer.size, one.buffer.used);
    __atomic_sub_fetch(&outstanding, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void give_back(void)
{
    Delivery *one = malloc(sizeof *one);
    *one = (Delivery){open_buffer, completed, delivery > 0};
    open_buffer = (Buffer){0};
    __atomic_add_fetch(&outstanding, 1, __ATOMIC_SEQ_CST);
    pthread_t thread;
    if (!delivery) {
        deliver(one);
    } else {
        pthread_create(&thread, NULL, deliver, one);
        pthread_detach(thread);
    }
}

/* Room for a record, zeroed; NULL where its kind is off, or no memory is given. */
static uint8_t *room(int kind, size_t bytes)
{
    if (kind < KINDS && !enabled[kind]) return NULL;
    if (open_buffer.memory && open_buffer.size - open_buffer.used < bytes) give_back();
    if (!open_buffer.memory && requested) {
        size_t most = 0;
        open_buffer = (Buffer){0};
        stand_in_come(&signal_at_request);
        if (request_us) usleep((unsigned)request_us);
        requested(&open_buffer.memory, &open_buffer.size, &most);
    }
    if (!open_buffer.memory || open_buffer.size - open_buffer.used < bytes) {
        dropped++;
        return NULL;
    }
    uint8_t *at = open_buffer.memory + open_buffer.used;
    open_buffer.used += bytes;
    memset(at, 0, bytes);
    memcpy(at, &kind, 4);
    return at;
}

#define PUT(type, offset, value) do { type put_ = (type)(value); memcpy(record + (offset), &put_, sizeof put_); } while (0)
#define RECORD(kind) \
    pthread_mutex_lock(&lock); \
    uint8_t *record = room(kind, sizes[kind]); \
    if (record) {
#define END } pthread_mutex_unlock(&lock)

/* ---- records ---- */

/* What `stand_in_stamp` says of the calling thread's call. */
typedef struct { int64_t times[2]; uint32_t thread; } Script;
static __thread Script scripted;

/* Gives the times and the thread that tests have written down. */
EXPORT void stand_in_stamp(int site, int64_t *time, uint32_t *thread)
{
    *time = scripted.times[site];
    *thread = scripted.thread;
}

/* A driver or runtime call; returns its correlation id, a new one where none is given. */
EXPORT uint32_t stand_in_call(int domain, uint32_t function, uint64_t thread, uint64_t start, uint64_t end, int result,
                              uint32_t id)
{
    if (!id) id = __atomic_add_fetch(&correlation, 1, __ATOMIC_SEQ_CST);
    CallbackData data = {.name = functions[domain][function], .result = &result, .correlation_id = id};
    Script before = scripted; /* of a call that this one is made in */
    for (data.site = 0; client[0] && watched[domain][function] && data.site < 2; data.site++) {
        scripted = (Script){{(int64_t)start, (int64_t)end}, (uint32_t)thread};
        called(context, domain, function, &data);
    }
    scripted = before;
    __atomic_add_fetch(&called_back, 1, __ATOMIC_SEQ_CST);
    return id;
}

/* Waits until so many calls have been told of; says whether that came within a time. */
EXPORT int stand_in_await(uint32_t count, int milliseconds)
{
    __atomic_store_n(&awaited, true, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&called_back, __ATOMIC_SEQ_CST) < count && milliseconds-- > 0) usleep(1000);
    return __atomic_load_n(&called_back, __ATOMIC_SEQ_CST) >= count;
}

/* A call that begins when it is awaited. */
EXPORT uint32_t stand_in_awaited_call(void)
{
    while (!__atomic_load_n(&awaited, __ATOMIC_SEQ_CST)) usleep(1000);
    return stand_in_call(1, 4, 1, 0, 0, 0, 0);
}

/* The same by a thread of its own. */
static void *call_of_thread(void *id)
{
    *(uint32_t *)id = stand_in_call(1, 4, 1, 0, 0, 0, 0);
    return NULL;
}

EXPORT uint32_t stand_in_call_of_thread(void)
{
    uint32_t id = 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_of_thread, &id) == 0) pthread_join(thread, NULL);
    return id;
}

EXPORT void stand_in_kernel(uint32_t id, const char *name, uint64_t start, uint64_t end, uint32_t device, uint32_t stream,
                            const int32_t *shape, uint32_t graph, uint64_t node)
{
    RECORD(KERNEL)
        PUT(uint16_t, 6, 24); PUT(uint64_t, 16, start); PUT(uint64_t, 24, end); PUT(uint32_t, 40, device);
        PUT(uint32_t, 44, kernel_context); PUT(uint32_t, 48, stream);
        memcpy(record + 52, shape, 24); /* grid, block */
        PUT(int32_t, 76, 16); /* static shared memory, which is not read */
        PUT(int32_t, 80, shape[9]); PUT(uint32_t, 92, id); PUT(const char *, 104, name ? strdup(name) : NULL);
        PUT(uint64_t, 144, node); PUT(uint32_t, 156, graph);
        memcpy(record + 176, shape + 6, 12); /* cluster */
    END;
}

EXPORT void stand_in_copy(int peer, uint32_t id, int direction, int source, int target, uint64_t bytes, uint64_t start,
                          uint64_t end, uint32_t device, uint32_t stream, uint32_t graph, uint64_t node)
{
    RECORD(peer ? MEMCPY_PEER : MEMCPY)
        PUT(uint8_t, 4, direction); PUT(uint8_t, 5, source); PUT(uint8_t, 6, target); PUT(uint64_t, 8, bytes);
        PUT(uint64_t, 16, start); PUT(uint64_t, 24, end); PUT(uint32_t, 32, device); PUT(uint32_t, 36, 1);
        PUT(uint32_t, 40, stream); PUT(uint32_t, peer ? 60 : 44, id); PUT(uint64_t, peer ? 72 : 64, node);
        PUT(uint32_t, peer ? 80 : 72, graph);
    END;
}

EXPORT void stand_in_memset(uint32_t id, int memory, uint64_t bytes, uint64_t start, uint64_t end, uint32_t device,
                            uint32_t stream)
{
    RECORD(MEMSET)
        PUT(uint64_t, 8, bytes); PUT(uint64_t, 16, start); PUT(uint64_t, 24, end); PUT(uint32_t, 32, device);
        PUT(uint32_t, 40, stream); PUT(uint32_t, 44, id); PUT(uint16_t, 50, memory);
    END;
}

EXPORT void stand_in_wait(uint32_t id, int type, uint64_t start, uint64_t end, uint32_t stream)
{
    RECORD(SYNCHRONIZATION)
        PUT(int32_t, 4, type); PUT(uint64_t, 8, start); PUT(uint64_t, 16, end); PUT(uint32_t, 24, id);
        PUT(uint32_t, 28, 1); PUT(uint32_t, 32, stream);
    END;
}

/* Bytes as they are, enabled or not: kinds that nobody knows, torn records. */
EXPORT void stand_in_raw(const uint8_t *bytes, size_t count)
{
    pthread_mutex_lock(&lock);
    uint8_t *record = room(KINDS, count);
    if (record) memcpy(record, bytes, count);
    pthread_mutex_unlock(&lock);
}

/* A launch and its kernel, many times: 10 us apart, the kernel 3 us long. */
EXPORT void stand_in_many(uint32_t count, uint32_t function, uint64_t thread, const char *name, uint64_t start,
                          const int32_t *shape)
{
    for (uint32_t i = 0; i < count; i++, start += 10000) {
        uint32_t id = stand_in_call(1, function, thread, start - (uint64_t)clock_offset, start - (uint64_t)clock_offset + 2000, 0, 0);
        RECORD(KERNEL)
            PUT(uint16_t, 6, 24); PUT(uint64_t, 16, start + 4000); PUT(uint64_t, 24, start + 7000);
            PUT(uint32_t, 48, 7); memcpy(record + 52, shape, 24); PUT(int32_t, 80, shape[9]);
            PUT(uint32_t, 92, id); PUT(const char *, 104, name);
        END;
    }
}

/* ---- CUPTI ---- */

int stand_in_failure(const char *function)
{
    for (int i = 0; i < FAILURES; i++)
        if (!strcmp(failures[i].name, function)) return failures[i].code;
    return OK;
}
#define FAIL_IF_TOLD() do { int code_ = stand_in_failure(__func__); if (code_) return code_; } while (0)

EXPORT int cuptiGetVersion(uint32_t *number)
{
    FAIL_IF_TOLD();
    *number = version;
    return OK;
}

EXPORT int cuptiGetResultString(int code, const char **text)
{
    *text = code == 8 ? "CUPTI_ERROR_OUT_OF_MEMORY" : code == 999 ? "CUPTI_ERROR_UNKNOWN" : NULL;
    return *text ? OK : INVALID_PARAMETER;
}

EXPORT int cuptiSubscribe_v2(void **subscriber, void *callback, void *data, SubscriberParams *params)
{
    FAIL_IF_TOLD();
    called = (Called)callback;
    context = data;
    if (!callback || params->struct_size != params_size) return INVALID_PARAMETER;
    if (holder[0] || client[0]) {
        strncpy(params->holder, holder[0] ? holder : client, params->holder_size - 1);
        return HELD;
    }
    strncpy(client, params->name, sizeof client - 1);
    *subscriber = client;
    return OK;
}

EXPORT int cuptiUnsubscribe(void *subscriber)
{
    FAIL_IF_TOLD();
    if (subscriber != client || !client[0]) return INVALID_PARAMETER;
    client[0] = 0;
    return OK;
}

EXPORT int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t number)
{
    FAIL_IF_TOLD();
    if (subscriber != client || number >= FUNCTIONS || !functions[domain][number] ||
        !strncmp(functions[domain][number], "refused", 7))
        return INVALID_PARAMETER;
    watched[domain][number] = on;
    return OK;
}

/* A watched function is called and returns `result`: CUPTI calls back before and after it. */
EXPORT void stand_in_watched_call(int domain, uint32_t number, int result)
{
    CallbackData data = {.name = functions[domain][number], .result = &result};
    for (data.site = 0; watched[domain][number] && data.site < 2; data.site++) called(context, domain, number, &data);
}

/* A kernel is launched in a context, and runs meanwhile. */
EXPORT void stand_in_launched(uint32_t number, const char *symbol, void *in)
{
    static const uint64_t parameters[16];
    int result = 0;
    CallbackData data = {.name = functions[1][number], .params = parameters, .result = &result, .symbol = symbol,
                         .context = in, .correlation_id = __atomic_add_fetch(&correlation, 1, __ATOMIC_SEQ_CST)};
    bool told = client[0] && watched[1][number];
    if (told) called(context, 1, number, &data);
    profiler_run(in);
    stand_in_come(&signal_at_launch);
    data.site = 1;
    if (told) called(context, 1, number, &data);
}

/* The same for a call that somebody else tells of: `data` is what CUPTI would hand over. */
EXPORT void stand_in_told(uint32_t number, const CallbackData *data)
{
    if (watched[1][number]) called(context, 1, number, data);
}

/* ---- PC sampling ---- */

#define REASONS 6
#define SAMPLES 4096
static const char *reason_names[REASONS] = {
    "smsp__pcsamp_warps_issue_stalled_long_scoreboard", "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued",
    "smsp__pcsamp_warps_issue_stalled_wait", "smsp__pcsamp_warps_issue_stalled_wait_not_issued",
    "smsp__pcsamp_warps_issue_stalled_selected", "smsp__pcsamp_warps_issue_stalled_barrier"};
/* CUPTI's numbers of them, which are not their places. */
static const uint32_t reason_numbers[REASONS] = {7, 8, 21, 22, 30, 3};
typedef struct { uint32_t number, samples; } Stalled;
typedef struct {
    size_t size;
    uint64_t crc, offset;
    uint32_t function, pad;
    const char *name;
    size_t reason_count;
    Stalled *reasons;
    uint32_t correlation, unused;
} Sampled;
typedef struct {
    size_t size, room;
    uint64_t total, dropped;
    size_t pcs, remaining;
    uint64_t range;
    Sampled *data;
    uint64_t others;
    uint8_t full;
} Samples;
typedef struct { size_t size; void *private, *context, *values[3]; } SamplingParams;
typedef struct { int kind, status; union { uint32_t number; size_t size; void *words[3]; } value; } Setting;
static struct { const char *name; uint64_t offset; uint32_t correlation, counts[REASONS]; } pending[SAMPLES];
static size_t pending_count;
static struct { void *context; Samples *buffer; uint32_t mode, period, started; size_t reasons; uint64_t dropped; } sampling;

/* So many samples of an instruction, with the reason at a place of `reason_names`. */
EXPORT void stand_in_sample(const char *name, uint64_t offset, uint32_t correlation_id, int reason, uint32_t samples)
{
    if (!sampling.started || sampling.reasons != REASONS) return;
    size_t at = 0;
    while (at < pending_count && (strcmp(pending[at].name, name) || pending[at].offset != offset ||
                                  pending[at].correlation != correlation_id)) at++;
    if (at == pending_count) {
        memset(&pending[at], 0, sizeof pending[at]);
        pending[at].name = strdup(name), pending[at].offset = offset, pending[at].correlation = correlation_id;
        pending_count++;
    }
    pending[at].counts[reason] += samples;
}

/* A kernel whose code is loaded: CUPTI knows of it only if it samples now, or begins anew later. */
static char unknown[8][32];
static size_t unknown_count;
EXPORT void stand_in_load(const char *name)
{
    if (!sampling.context) strncpy(unknown[unknown_count++], name, sizeof unknown[0] - 1);
}

static int is_unknown(const char *name)
{
    for (size_t at = 0; at < unknown_count; at++)
        if (!strcmp(unknown[at], name)) return 1;
    return 0;
}

EXPORT int cuptiFinalize(void)
{
    FAIL_IF_TOLD();
    if (client[0] || holder[0] || sampling.context) return INVALID_PARAMETER;
    unknown_count = 0;
    return OK;
}

EXPORT void stand_in_drop_samples(uint64_t count) { sampling.dropped += count; }
EXPORT void *stand_in_sampled_context(void) { return sampling.context; }
EXPORT uint32_t stand_in_sampling_mode(void) { return sampling.mode; }

/* What there is, as much of it as there is room for. */
static void give_samples(Samples *into)
{
    size_t given = pending_count < into->room ? pending_count : into->room;
    into->total = into->others = 0;
    size_t known = 0;
    for (size_t at = 0; at < given; at++) {
        if (is_unknown(pending[at].name)) {
            for (int reason = 0; reason < REASONS; reason++)
                into->total += pending[at].counts[reason], into->others += pending[at].counts[reason];
            continue;
        }
        Sampled *row = &into->data[known++];
        row->offset = pending[at].offset, row->name = pending[at].name, row->correlation = pending[at].correlation;
        row->reason_count = 0;
        for (int reason = 0; reason < REASONS; reason++) {
            if (!pending[at].counts[reason]) continue;
            row->reasons[row->reason_count++] = (Stalled){reason_numbers[reason], pending[at].counts[reason]};
            into->total += pending[at].counts[reason];
        }
    }
    into->pcs = known, into->dropped = sampling.dropped, into->full = sampling.dropped > 0;
    sampling.dropped = 0;
    pending_count -= given;
    memmove(pending, pending + given, pending_count * sizeof pending[0]);
    into->remaining = pending_count;
}

/* Of the contexts that tests use the id is in the last byte. */
EXPORT int cuptiGetContextId(void *handle, uint32_t *id)
{
    FAIL_IF_TOLD();
    *id = (uint32_t)((uintptr_t)handle & 0xFF) + 1;
    return OK;
}

EXPORT int cuptiPCSamplingEnable(SamplingParams *params)
{
    FAIL_IF_TOLD();
    if (params->size != 24 || sampling.context) return INVALID_PARAMETER;
    memset(&sampling, 0, sizeof sampling);
    pending_count = 0;
    sampling.context = params->context, sampling.period = 14;
    return OK;
}

EXPORT int cuptiPCSamplingGetNumStallReasons(SamplingParams *params)
{
    FAIL_IF_TOLD();
    *(size_t *)params->values[0] = REASONS;
    return OK;
}

EXPORT int cuptiPCSamplingGetStallReasons(SamplingParams *params)
{
    FAIL_IF_TOLD();
    if ((size_t)params->values[0] != REASONS) return INVALID_PARAMETER;
    for (int reason = 0; reason < REASONS; reason++) {
        ((uint32_t *)params->values[1])[reason] = reason_numbers[reason];
        strcpy(((char **)params->values[2])[reason], reason_names[reason]);
    }
    return OK;
}

EXPORT int cuptiPCSamplingSetConfigurationAttribute(SamplingParams *params)
{
    FAIL_IF_TOLD();
    Setting *settings = params->values[1];
    for (size_t at = 0; at < (size_t)params->values[0]; at++) {
        Setting *one = &settings[at];
        if (one->kind == 1) sampling.period = one->value.number;
        else if (one->kind == 2) sampling.reasons = one->value.size;
        else if (one->kind == 5) sampling.mode = one->value.number;
        else if (one->kind == 8) sampling.buffer = one->value.words[0];
        else if (one->kind != 6) return INVALID_PARAMETER;
    }
    return OK;
}

EXPORT int cuptiPCSamplingGetConfigurationAttribute(SamplingParams *params)
{
    FAIL_IF_TOLD();
    ((Setting *)params->values[1])->value.number = sampling.period;
    return OK;
}

EXPORT int cuptiPCSamplingStart(SamplingParams *params)
{
    FAIL_IF_TOLD();
    sampling.started = params->context == sampling.context;
    return sampling.started ? OK : INVALID_PARAMETER;
}

EXPORT int cuptiPCSamplingStop(SamplingParams *params)
{
    FAIL_IF_TOLD();
    if (!sampling.started || params->context != sampling.context) return INVALID_PARAMETER;
    sampling.started = 0;
    return OK;
}

EXPORT int cuptiPCSamplingGetData(SamplingParams *params)
{
    FAIL_IF_TOLD();
    if (!sampling.context) return INVALID_PARAMETER;
    give_samples(params->values[0]);
    return OK;
}

EXPORT int cuptiPCSamplingDisable(SamplingParams *params)
{
    FAIL_IF_TOLD();
    if (params->context != sampling.context) return INVALID_PARAMETER;
    if (sampling.buffer) give_samples(sampling.buffer);
    sampling.context = NULL;
    return OK;
}

/* How graphs and nodes are numbered: functions that return 0 for none. */
static uint64_t (*exec_id)(void *), (*node_number)(void *);

EXPORT void stand_in_graph_ids(void *exec, void *node)
{
    exec_id = (uint64_t (*)(void *))exec;
    node_number = (uint64_t (*)(void *))node;
}

EXPORT int cuptiGetGraphExecId(void *handle, uint32_t *id)
{
    uint64_t found = exec_id ? exec_id(handle) : 0;
    *id = (uint32_t)found;
    return found ? OK : INVALID_PARAMETER;
}

EXPORT int cuptiGetGraphNodeId(void *handle, uint64_t *id)
{
    uint64_t found = node_number ? node_number(handle) : 0;
    *id = (77ull << 32) + found - 1;
    return found ? OK : INVALID_PARAMETER;
}

EXPORT int cuptiActivityRegisterCallbacks(Requested ask, Completed give)
{
    FAIL_IF_TOLD();
    requested = ask, completed = give;
    registrations++;
    return OK;
}

EXPORT int cuptiActivityEnable(int kind)
{
    FAIL_IF_TOLD();
    enabled[kind] = true;
    return OK;
}

EXPORT int cuptiActivityDisable(int kind)
{
    FAIL_IF_TOLD();
    enabled[kind] = false;
    return OK;
}

EXPORT int cuptiGetCallbackName(int domain, uint32_t number, const char **name)
{
    if (domain > 2 || number >= FUNCTIONS || !functions[domain][number]) return INVALID_PARAMETER;
    *name = functions[domain][number];
    return OK;
}

EXPORT int cuptiActivityFlushAll(uint32_t forced)
{
    (void)forced;
    FAIL_IF_TOLD();
    pthread_mutex_lock(&lock);
    if (open_buffer.memory) give_back();
    pthread_mutex_unlock(&lock);
    while (delivery < 0 && __atomic_load_n(&outstanding, __ATOMIC_SEQ_CST)) usleep(100);
    return OK;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    FAIL_IF_TOLD();
    *count = dropped;
    dropped = 0;
    return OK;
}

EXPORT int cuptiGetTimestamp(uint64_t *reading)
{
    FAIL_IF_TOLD();
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t host = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    *reading = (uint64_t)((fixed_time ? fixed_time : host) + clock_offset);
    return OK;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record)
{
    if (!buffer) return INVALID_PARAMETER;
    uint8_t *next = buffer;
    if (*record) {
        int32_t kind;
        memcpy(&kind, *record, 4);
        if (kind < 1 || kind >= KINDS || !sizes[kind]) return INVALID_KIND;
        next = *record + sizes[kind];
    }
    if (next >= buffer + valid) return MAX_LIMIT_REACHED;
    *record = next;
    return OK;
}
