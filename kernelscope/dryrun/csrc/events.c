/* Events: the moment at which one was recorded, or its place in a capture. */
#include "driver.h"

#include <stdlib.h>
#include <time.h>

#define KNOWN_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

Event *event_find(CUevent handle) { return handle_object(handle, KIND_EVENT); }

void event_record_now(Event *event)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->recorded = true;
    event->recorded_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
    event->capture_id = 0;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(phEvent && (Flags & ~(unsigned)KNOWN_FLAGS) == 0);
    REQUIRE_ARGUMENT(!(Flags & CU_EVENT_INTERPROCESS) || Flags & CU_EVENT_DISABLE_TIMING);
    Event *event = allocate(1, sizeof *event);
    event->handle = handle_new(KIND_EVENT, event);
    event->device = context->device;
    event->flags = Flags;
    *phEvent = event->handle;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    ENTER();
    Event *event = event_find(hEvent);
    REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    handle_free(event->handle);
    node_set_clear(&event->dependencies);
    free(event);
    return CUDA_SUCCESS;
}

/* ---- recording ---- */

static CUresult record(const Context *context, CUevent event_handle, CUstream stream_handle, unsigned flags)
{
    Stream *stream = NULL;
    Event *event = event_find(event_handle);
    REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE_ARGUMENT(flags == CU_EVENT_RECORD_DEFAULT || flags == CU_EVENT_RECORD_EXTERNAL);
    CHECK(stream_find(context, stream_handle, &stream));
    REQUIRE(event->device == stream->device, CUDA_ERROR_INVALID_HANDLE);
    CHECK(stream_submit(stream));
    /* external: from a graph */
    REQUIRE(stream->capture || flags == CU_EVENT_RECORD_DEFAULT, CUDA_ERROR_ILLEGAL_STATE);
    if (!stream->capture) {
        event_record_now(event);
    } else if (flags & CU_EVENT_RECORD_EXTERNAL) {
        stream_add_node(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD)->as.event = event->handle;
    } else {
        event->capture_id = stream->capture->id;
        event->dependencies.count = 0;
        node_set_add_all(&event->dependencies, &stream->dependencies);
    }
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    ENTER_CONTEXT();
    return record(context, hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    ENTER_CONTEXT();
    return record(context, hEvent, hStream, flags);
}

/* ---- waiting ---- */

/* An event that was recorded in a capture has no time; asking for it spoils the capture. */
static CUresult check_done(CUevent handle)
{
    const Event *event = event_find(handle);
    REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    Capture *capture = capture_by_id(event->capture_id);
    if (!capture) return CUDA_SUCCESS;
    capture->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult cuEventQuery(CUevent hEvent)
{
    ENTER();
    return check_done(hEvent);
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    ENTER();
    return check_done(hEvent);
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    ENTER();
    const Event *start = event_find(hStart), *end = event_find(hEnd);
    REQUIRE(start && end && start->recorded && end->recorded, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
    ANSWER(pMilliseconds, (float)(end->recorded_ms - start->recorded_ms));
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

/* Wait for an event that was recorded inside a capture: the stream joins the capture. */
static CUresult join_capture(Stream *stream, const Event *event, Capture *capture)
{
    if (stream->legacy) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    stream->capture = capture;
    node_set_add_all(&stream->dependencies, &event->dependencies);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    const Event *event = event_find(hEvent);
    REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE_ARGUMENT(Flags == CU_EVENT_WAIT_DEFAULT || Flags == CU_EVENT_WAIT_EXTERNAL);
    CHECK(stream_find(context, hStream, &stream));
    REQUIRE(!stream->capture || !stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    REQUIRE(stream->capture || Flags == CU_EVENT_WAIT_DEFAULT, CUDA_ERROR_ILLEGAL_STATE);
    if (Flags == CU_EVENT_WAIT_EXTERNAL) {
        stream_add_node(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT)->as.event = event->handle;
        return CUDA_SUCCESS;
    }
    Capture *capture = capture_by_id(event->capture_id);
    if (capture) return join_capture(stream, event, capture);
    if (stream->capture) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    return CUDA_SUCCESS;
}
