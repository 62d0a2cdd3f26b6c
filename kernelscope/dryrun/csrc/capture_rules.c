/* What a capture forbids while it is open: work on the legacy stream, unsafe calls, waiting for the device, destroying the
 * graph that it writes. */
#include "driver.h"

Stream *all_streams;
Capture *all_captures;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

Capture *capture_by_id(unsigned long long id)
{
    for (Capture *capture = all_captures; capture && id; capture = capture->next)
        if (capture->id == id) return capture;
    return NULL;
}

bool capture_is_own(const Capture *capture) { return pthread_equal(capture->thread, pthread_self()); }

/* ---- what a capture forbids ---- */

/* The legacy stream waits for all blocking streams, so it may not get work while one of them is captured. */
Capture *capture_before_legacy(const Stream *legacy)
{
    for (Stream *stream = all_streams; stream; stream = stream->next)
        if (stream->capture && stream->device == legacy->device && !(stream->flags & CU_STREAM_NON_BLOCKING))
            return stream->capture;
    return NULL;
}

CUresult stream_submit(const Stream *stream)
{
    if (stream->capture) return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    Capture *spoiled = all_captures && stream->legacy ? capture_before_legacy(stream) : NULL;
    if (!spoiled) return CUDA_SUCCESS;
    spoiled->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

/* Calls such as cuMemAlloc, which may synchronize: see cuThreadExchangeStreamCaptureMode. */
CUresult capture_forbids_unsafe_call(void)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    for (Capture *capture = all_captures; capture; capture = capture->next) {
        bool from_anywhere = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                             thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        bool from_here = capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture_is_own(capture);
        if (!from_anywhere && !from_here) continue;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult capture_forbids_synchronize(const Context *context)
{
    CUresult result = CUDA_SUCCESS;
    for (Capture *capture = all_captures; capture; capture = capture->next) {
        if (capture->origin->device != context->device) continue;
        capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

/* Whether a capture writes into `graph`, or into a graph inside it, so that neither may be destroyed. */
bool capture_uses(const Graph *graph)
{
    for (const Capture *capture = all_captures; capture; capture = capture->next) {
        const Graph *written = capture->graph;
        while (written != graph && written->parent) written = written->parent->graph;
        if (written == graph) return true;
    }
    return false;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER();
    REQUIRE_ARGUMENT(mode && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    ANSWER(mode, before);
}
