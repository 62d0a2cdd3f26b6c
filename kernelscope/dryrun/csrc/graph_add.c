/* Adding nodes to a graph definition, and the handles of conditional nodes. */
#include "driver.h"

#include <stdlib.h>

#define MAX_BODIES 65536

/* Make a node in a graph after others; the caller fills it in, and calls finish() with how that went. */
static CUresult start(CUgraph handle, CUgraphNodeType type, const CUgraphNode *dependencies, size_t count, Node **node)
{
    Graph *graph = graph_find(handle);
    REQUIRE_ARGUMENT(graph && (dependencies || count == 0));
    for (size_t i = 0; i < count; i++) {
        const Node *before = node_find(dependencies[i]);
        REQUIRE_ARGUMENT(before && before->graph == graph);
    }
    *node = node_new(graph, type);
    for (size_t i = 0; i < count; i++) node_set_add(&(*node)->dependencies, node_find(dependencies[i]));
    return CUDA_SUCCESS;
}

static CUresult finish(Node *node, CUresult result, CUgraphNode *out)
{
    if (result == CUDA_SUCCESS && !out) result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *out = node->handle;
    } else {
        node_remove(node);
    }
    return result;
}

/* ---- any type ---- */

/* A handle serves one node, in the graph that it was made for. */
static bool take_conditional(Graph *graph, CUgraphConditionalHandle handle)
{
    for (size_t i = 0; i < graph->conditional_count; i++) {
        if (graph->conditionals[i] != handle) continue;
        graph->conditionals[i] = graph->conditionals[--graph->conditional_count];
        return true;
    }
    return false;
}

static CUresult add_conditional(Node *node, CUDA_CONDITIONAL_NODE_PARAMS *parameters)
{
    unsigned count = parameters->size, most = MAX_BODIES;
    if (parameters->type == CU_GRAPH_COND_TYPE_IF) most = 2;
    if (parameters->type == CU_GRAPH_COND_TYPE_WHILE) most = 1;
    REQUIRE_ARGUMENT(count >= 1 && count <= most && take_conditional(node->graph, parameters->handle));
    node->as.conditional.handle = parameters->handle;
    node->as.conditional.type = parameters->type;
    node->as.conditional.bodies = allocate(count, sizeof(Graph *));
    node->as.conditional.handles = allocate(count, sizeof(CUgraph));
    node->as.conditional.count = count;
    for (unsigned i = 0; i < count; i++) {
        Graph *body = graph_new();
        graph_put_inside(body, node);
        node->as.conditional.bodies[i] = body;
        node->as.conditional.handles[i] = body->handle;
    }
    parameters->phGraph_out = node->as.conditional.handles;
    return CUDA_SUCCESS;
}

static CUresult add_allocation(Node *node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    CUmemLocation where = parameters->poolProps.location;
    REQUIRE(where.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE_DEVICE(where.id);
    return node_add_allocation(node, parameters, context_primary(where.id));
}

static CUresult add_allocation_v2(Node *node, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *parameters)
{
    CUDA_MEM_ALLOC_NODE_PARAMS first = {.poolProps = parameters->poolProps, .accessDescs = parameters->accessDescs,
                                        .accessDescCount = parameters->accessDescCount,
                                        .bytesize = parameters->bytesize};
    CHECK(add_allocation(node, &first));
    parameters->dptr = first.dptr;
    return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                    CUgraphNodeParams *parameters)
{
    Node *node = NULL;
    REQUIRE_ARGUMENT(parameters);
    CHECK(start(graph, parameters->type, dependencies, count, &node));
    CUresult result = CUDA_SUCCESS;
    if (parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        result = add_conditional(node, &parameters->conditional);
    } else if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        result = add_allocation_v2(node, &parameters->alloc);
    } else {
        result = node_set_parameters(node, parameters);
    }
    return finish(node, result, out);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    ENTER();
    return add(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams)
{
    ENTER();
    (void)dependencyData;
    return add(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

/* A conditional handle carries its default value in the upper half and a serial number in the lower. */
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx,
                                        unsigned int defaultLaunchValue, unsigned int flags)
{
    ENTER();
    (void)ctx;
    Graph *graph = graph_find(hGraph);
    REQUIRE_ARGUMENT(pHandle_out && graph && flags <= CU_GRAPH_COND_ASSIGN_DEFAULT);
    cuuint64_t value = flags == CU_GRAPH_COND_ASSIGN_DEFAULT ? defaultLaunchValue : 0;
    *pHandle_out = value << 32 | (new_id() & 0xffffffff);
    graph->conditionals = reallocate(graph->conditionals, graph->conditional_count + 1, sizeof *graph->conditionals);
    graph->conditionals[graph->conditional_count++] = *pHandle_out;
    return CUDA_SUCCESS;
}

/* ---- one call for each type ---- */

#define ADD_NODE(node_type, fill_in)                                                                             \
    ENTER();                                                                                                     \
    Node *node = NULL;                                                                                           \
    CHECK(start(hGraph, CU_GRAPH_NODE_TYPE_##node_type, dependencies, numDependencies, &node));                  \
    return finish(node, fill_in, phGraphNode)

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    ADD_NODE(KERNEL, node_set_launch(node, nodeParams));
}

static CUresult set_copy(Node *node, const CUDA_MEMCPY3D *copy)
{
    REQUIRE_ARGUMENT(copy);
    CHECK(copy_check(copy));
    node->as.copy = *copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    (void)ctx;
    ADD_NODE(MEMCPY, set_copy(node, copyParams));
}

static CUresult set_fill(Node *node, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    REQUIRE_ARGUMENT(fill);
    CHECK(fill_check(fill));
    node->as.fill = *fill;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                              size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    (void)ctx;
    ADD_NODE(MEMSET, set_fill(node, memsetParams));
}

static CUresult set_host(Node *node, const CUDA_HOST_NODE_PARAMS *host)
{
    REQUIRE_ARGUMENT(host && host->fn);
    node->as.host = *host;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                            size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    ADD_NODE(HOST, set_host(node, nodeParams));
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                             size_t numDependencies)
{
    ADD_NODE(EMPTY, CUDA_SUCCESS);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, CUgraph childGraph)
{
    ADD_NODE(GRAPH, node_set_child(node, childGraph));
}

static CUresult set_event(Node *node, CUevent event)
{
    REQUIRE(event_find(event), CUDA_ERROR_INVALID_HANDLE);
    node->as.event = event;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                   size_t numDependencies, CUevent event)
{
    ADD_NODE(EVENT_RECORD, set_event(node, event));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, CUevent event)
{
    ADD_NODE(WAIT_EVENT, set_event(node, event));
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    ADD_NODE(MEM_ALLOC, nodeParams ? add_allocation(node, nodeParams) : CUDA_ERROR_INVALID_VALUE);
}

static CUresult set_freed(Node *node, CUdeviceptr pointer)
{
    REQUIRE_ARGUMENT(memory_find(pointer));
    node->as.freed = pointer;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUdeviceptr dptr)
{
    ADD_NODE(MEM_FREE, set_freed(node, dptr));
}
