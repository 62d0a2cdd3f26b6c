/* Stream capture: work that enters a capturing stream becomes nodes of a graph, depending on what came before it. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- from begin to end ---- */

static CUresult add_dependencies(Stream *stream, const CUgraphNode *nodes, size_t count)
{
    REQUIRE_ARGUMENT(nodes || count == 0);
    for (size_t i = 0; i < count; i++) {
        Node *node = node_find(nodes[i]);
        REQUIRE_ARGUMENT(node && node->graph == stream->capture->graph);
    }
    for (size_t i = 0; i < count; i++) node_set_add(&stream->dependencies, node_find(nodes[i]));
    return CUDA_SUCCESS;
}

static CUresult begin(const Context *context, CUstream handle, CUstreamCaptureMode mode, Graph *graph,
                      const CUgraphNode *dependencies, size_t count)
{
    Stream *stream = NULL;
    CHECK(stream_find(context, handle, &stream));
    REQUIRE_ARGUMENT(mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    REQUIRE(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    REQUIRE(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
    Capture *capture = allocate(1, sizeof *capture);
    *capture = (Capture){.id = new_id(), .graph = graph ? graph : graph_new(), .origin = stream, .mode = mode,
                         .owns_graph = !graph, .thread = pthread_self(), .next = all_captures};
    all_captures = capture;
    stream->capture = capture;
    stream->dependencies.count = 0;
    CUresult result = add_dependencies(stream, dependencies, count);
    if (result != CUDA_SUCCESS) capture_abandon(capture);
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    ENTER_CONTEXT();
    return begin(context, hStream, mode, NULL, NULL, 0);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, UNUSED_EDGES,
                                     size_t numDependencies, CUstreamCaptureMode mode)
{
    ENTER_CONTEXT();
    Graph *graph = graph_find(hGraph);
    REQUIRE_ARGUMENT(graph);
    return begin(context, hStream, mode, graph, dependencies, numDependencies);
}

/* Every stream that joined the capture must have been joined back into its origin: what it did last must be among the
 * nodes that the origin's next node would come after. A node is captured after those that it depends on, so one walk
 * from the last node to the first finds them all. */
static bool all_joined(const Capture *capture)
{
    const Graph *graph = capture->graph;
    const Stream *origin = capture->origin;
    enum { APART, JOINED };
    for (size_t i = 0; i < graph->node_count; i++) graph->nodes[i]->position = APART;
    for (size_t i = 0; i < origin->dependencies.count; i++) origin->dependencies.items[i]->position = JOINED;
    for (size_t i = graph->node_count; i-- > 0;) {
        const Node *node = graph->nodes[i];
        for (size_t j = 0; node->position == JOINED && j < node->dependencies.count; j++)
            node->dependencies.items[j]->position = JOINED;
    }
    for (const Stream *stream = all_streams; stream; stream = stream->next)
        for (size_t i = 0; stream->capture == capture && i < stream->dependencies.count; i++)
            if (stream->dependencies.items[i]->position != JOINED) return false;
    return true;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    ENTER_STREAM(hStream);
    REQUIRE_ARGUMENT(phGraph);
    *phGraph = NULL;
    Capture *capture = stream->capture;
    REQUIRE(capture, CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != stream) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    bool may_end = capture->invalid || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture_is_own(capture);
    REQUIRE(may_end, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    if (capture->invalid || !all_joined(capture)) {
        CUresult why = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        capture_abandon(capture);
        return why;
    }
    *phGraph = capture->graph->handle;
    capture_end(capture);
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

static CUresult status_of(Stream *stream, CUstreamCaptureStatus *status)
{
    REQUIRE_ARGUMENT(status);
    REQUIRE(!stream->legacy || !capture_before_legacy(stream), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream->capture) {
        *status = stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    ENTER_STREAM(hStream);
    return status_of(stream, captureStatus);
}

/* Handles of the stream's dependencies; they stay valid until the next call for this stream. */
static const CUgraphNode *reported_handles(Stream *stream)
{
    size_t count = stream->dependencies.count;
    stream->reported_handles = reallocate(stream->reported_handles, count, sizeof *stream->reported_handles);
    for (size_t i = 0; i < count; i++) stream->reported_handles[i] = stream->dependencies.items[i]->handle;
    return stream->reported_handles;
}

/* Edge data is all zeros, and never NULL: cuda.core reads as many of them as there are dependencies. */
static const CUgraphEdgeData *zero_edges(size_t count)
{
    static CUgraphEdgeData *edges;
    static size_t capacity;
    if (count >= capacity) {
        capacity = 2 * count + 16;
        edges = allocate(capacity, sizeof *edges); /* the smaller ones are left to whoever still reads them */
    }
    return edges;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                   CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    ENTER_STREAM(hStream);
    CHECK(status_of(stream, captureStatus_out));
    if (*captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    if (id_out) *id_out = stream->capture->id;
    if (graph_out) *graph_out = stream->capture->graph->handle;
    if (dependencies_out) *dependencies_out = reported_handles(stream);
    if (edgeData_out) *edgeData_out = zero_edges(stream->dependencies.count);
    if (numDependencies_out) *numDependencies_out = stream->dependencies.count;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                   CUgraph *graph_out, const CUgraphNode **dependencies_out,
                                   size_t *numDependencies_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                                     numDependencies_out);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies, UNUSED_EDGES,
                                              size_t numDependencies, unsigned int flags)
{
    ENTER_STREAM(hStream);
    REQUIRE(stream->capture, CUDA_ERROR_ILLEGAL_STATE);
    REQUIRE_ARGUMENT(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->dependencies.count = 0;
    return add_dependencies(stream, dependencies, numDependencies);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies,
                                           unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies, flags);
}
