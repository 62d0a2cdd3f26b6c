/* Streams. Work is done when it is submitted, so a stream has an identity, a place in a capture, and nothing to wait
 * for. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- the default streams ---- */

typedef struct ThreadStreams {
    Stream *of_device[MAX_DEVICES];
} ThreadStreams;

static Stream legacy_streams[MAX_DEVICES];
static pthread_key_t thread_streams_key;

static void link_stream(Stream *stream)
{
    stream->next = all_streams;
    stream->link = &all_streams;
    if (all_streams) all_streams->link = &stream->next;
    all_streams = stream;
}

static void unlink_stream(Stream *stream)
{
    if (stream->capture && stream->capture->origin == stream) capture_abandon(stream->capture);
    *stream->link = stream->next;
    if (stream->next) stream->next->link = stream->link;
    node_set_clear(&stream->dependencies);
    free(stream->reported_handles);
}

static void end_thread(void *value)
{
    ThreadStreams *streams = value;
    driver_lock();
    for (int i = 0; i < MAX_DEVICES; i++) {
        if (!streams->of_device[i]) continue;
        unlink_stream(streams->of_device[i]);
        free(streams->of_device[i]);
    }
    driver_unlock();
    free(streams);
}

void streams_start(void)
{
    pthread_key_create(&thread_streams_key, end_thread);
    for (int i = 0; i < MAX_DEVICES; i++) {
        legacy_streams[i] = (Stream){.handle = CU_STREAM_LEGACY, .device = i, .context = context_primary(i)->handle,
                                     .legacy = true, .built_in = true, .id = new_id()};
    }
}

static Stream *per_thread_stream(const Context *context)
{
    ThreadStreams *streams = pthread_getspecific(thread_streams_key);
    if (!streams) {
        streams = allocate(1, sizeof *streams);
        pthread_setspecific(thread_streams_key, streams);
    }
    Stream **stream = &streams->of_device[context->device];
    if (!*stream) {
        *stream = allocate(1, sizeof **stream);
        **stream = (Stream){.handle = CU_STREAM_PER_THREAD, .device = context->device, .context = context->handle,
                            .built_in = true, .id = new_id()};
        link_stream(*stream);
    }
    return *stream;
}

CUresult stream_find(const Context *context, CUstream handle, Stream **stream)
{
    if (handle == CU_STREAM_LEGACY || (!handle && !state.null_stream_per_thread)) {
        *stream = &legacy_streams[context->device];
    } else if (!handle || handle == CU_STREAM_PER_THREAD) {
        *stream = per_thread_stream(context);
    } else {
        *stream = handle_object(handle, KIND_STREAM);
    }
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult stream_for_work(const Context *context, CUstream handle, Stream **stream)
{
    CHECK(stream_find(context, handle, stream));
    return stream_submit(*stream);
}

CUresult stream_not_captured(const Context *context, CUstream handle)
{
    Stream *stream = NULL;
    CHECK(stream_find(context, handle, &stream));
    if (!stream->capture) return stream_submit(stream);
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* ---- create, destroy ---- */

static CUresult create(const Context *context, unsigned flags, int priority, CUstream *out)
{
    REQUIRE_ARGUMENT(out && flags <= CU_STREAM_NON_BLOCKING);
    Stream *stream = allocate(1, sizeof *stream);
    stream->handle = handle_new(KIND_STREAM, stream);
    stream->device = context->device;
    stream->context = context->handle;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority; /* the range that contexts.c states */
    stream->id = new_id();
    link_stream(stream);
    *out = stream->handle;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    ENTER_CONTEXT();
    return create(context, Flags, 0, phStream);
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    ENTER_CONTEXT();
    return create(context, flags, priority, phStream);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    ENTER();
    Stream *stream = handle_object(hStream, KIND_STREAM); /* never a default stream */
    REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
    unlink_stream(stream);
    handle_free(stream->handle);
    free(stream);
    return CUDA_SUCCESS;
}

/* ---- waiting, which ends at once, or is forbidden while the stream is captured ---- */

CUresult cuStreamSynchronize(CUstream hStream)
{
    ENTER_CONTEXT();
    return stream_not_captured(context, hStream);
}

CUresult cuStreamQuery(CUstream hStream)
{
    ENTER_CONTEXT();
    return stream_not_captured(context, hStream);
}

/* ---- questions about a stream ---- */

#define GETTER(function, type, value)                   \
    CUresult function(CUstream handle, type *out)       \
    {                                                   \
        ENTER_STREAM(handle);                           \
        ANSWER(out, value);                             \
    }

GETTER(cuStreamGetPriority, int, stream->priority)
GETTER(cuStreamGetFlags, unsigned, stream->flags)
GETTER(cuStreamGetId, unsigned long long, stream->id)
GETTER(cuStreamGetDevice, CUdevice, stream->device)
GETTER(cuStreamGetCtx, CUcontext, stream->built_in ? context->handle : stream->context)

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    if (pGreenCtx) *pGreenCtx = NULL;
    return cuStreamGetCtx(hStream, pCtx);
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
    ENTER_STREAM(hStream);
    REQUIRE_ARGUMENT(value_out);
    memset(value_out, 0, sizeof *value_out);
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) value_out->priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    (void)attr; /* hints to hardware that is not there */
    REQUIRE_ARGUMENT(value);
    return stream_find(context, hStream, &stream);
}
