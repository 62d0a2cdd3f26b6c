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
        body->parent = node;
        node->as.conditional.bodies[i] = body;
        node->as.conditional.handles[i] = body->handle;
    }
    parameters->phGraph_out = node->as.conditional.handles;
    return CUDA_SUCCESS;
}

static CUresult add_allocation(Node *node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    REQUIRE_ARGUMENT(parameters);
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

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, UNUSED_EDGES,
                           size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    ENTER();
    Node *node = NULL;
    REQUIRE_ARGUMENT(nodeParams);
    CHECK(start(hGraph, nodeParams->type, dependencies, numDependencies, &node));
    CUresult result = CUDA_SUCCESS;
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        result = add_conditional(node, &nodeParams->conditional);
    } else if (nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        result = add_allocation_v2(node, &nodeParams->alloc);
    } else {
        result = node_set_parameters(node, nodeParams);
    }
    return finish(node, result, phGraphNode);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

/* A conditional handle carries its default value in the upper half and a serial number in the lower. */
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, UNUSED_CONTEXT,
                                        unsigned int defaultLaunchValue, unsigned int flags)
{
    ENTER();
    Graph *graph = graph_find(hGraph);
    REQUIRE_ARGUMENT(pHandle_out && graph && flags <= CU_GRAPH_COND_ASSIGN_DEFAULT);
    cuuint64_t value = flags == CU_GRAPH_COND_ASSIGN_DEFAULT ? defaultLaunchValue : 0;
    *pHandle_out = value << 32 | (new_id() & 0xffffffff);
    graph->conditionals = reallocate(graph->conditionals, graph->conditional_count + 1, sizeof *graph->conditionals);
    graph->conditionals[graph->conditional_count++] = *pHandle_out;
    return CUDA_SUCCESS;
}

/* ---- one call for each type ---- */

static CUresult set_freed(Node *node, CUdeviceptr pointer)
{
    REQUIRE_ARGUMENT(memory_find(pointer));
    node->as.freed = pointer;
    return CUDA_SUCCESS;
}

/* `set` fills the node in, from the parameters; others that the call has, and that nothing depends on, follow. */
#define ADD_NODE(function, node_type, parameters_type, set, ...)                                            \
    CUresult function(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,       \
                      parameters_type parameters, ##__VA_ARGS__)                                            \
    {                                                                                                       \
        ENTER();                                                                                            \
        Node *node = NULL;                                                                                  \
        CHECK(start(graph, CU_GRAPH_NODE_TYPE_##node_type, dependencies, count, &node));                    \
        return finish(node, set(node, parameters), out);                                                    \
    }

ADD_NODE(cuGraphAddKernelNode_v2, KERNEL, const CUDA_KERNEL_NODE_PARAMS *, node_set_launch)
ADD_NODE(cuGraphAddMemcpyNode, MEMCPY, const CUDA_MEMCPY3D *, node_set_copy, UNUSED_CONTEXT)
ADD_NODE(cuGraphAddMemsetNode, MEMSET, const CUDA_MEMSET_NODE_PARAMS *, node_set_fill, UNUSED_CONTEXT)
ADD_NODE(cuGraphAddHostNode, HOST, const CUDA_HOST_NODE_PARAMS *, node_set_host)
ADD_NODE(cuGraphAddChildGraphNode, GRAPH, CUgraph, node_set_child)
ADD_NODE(cuGraphAddEventRecordNode, EVENT_RECORD, CUevent, node_set_event)
ADD_NODE(cuGraphAddEventWaitNode, WAIT_EVENT, CUevent, node_set_event)
ADD_NODE(cuGraphAddMemAllocNode, MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS *, add_allocation)
ADD_NODE(cuGraphAddMemFreeNode, MEM_FREE, CUdeviceptr, set_freed)

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                             size_t numDependencies)
{
    ENTER();
    Node *node = NULL;
    CHECK(start(hGraph, CU_GRAPH_NODE_TYPE_EMPTY, dependencies, numDependencies, &node));
    return finish(node, CUDA_SUCCESS, phGraphNode);
}
