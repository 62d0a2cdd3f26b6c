/* Graph nodes: what each type of node holds, and the questions and changes that concern one node. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

Node *node_new(Graph *graph, CUgraphNodeType type)
{
    Node *node = allocate(1, sizeof *node);
    node->handle = handle_new(KIND_NODE, node);
    node->type = type;
    node->graph = graph;
    node->id = new_id();
    node->number = graph->next_number++;
    node->enabled = true;
    if (graph->node_count == graph->node_capacity) {
        graph->node_capacity = graph->node_capacity ? 2 * graph->node_capacity : 8;
        graph->nodes = reallocate(graph->nodes, graph->node_capacity, sizeof(Node *));
    }
    graph->nodes[graph->node_count++] = node;
    return node;
}

Node *node_find(CUgraphNode handle) { return handle_object(handle, KIND_NODE); }

Node *node_find_of_type(CUgraphNode handle, CUgraphNodeType type)
{
    Node *node = node_find(handle);
    return node && node->type == type ? node : NULL;
}

bool node_has_memory(const Node *node)
{
    return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

void node_free(Node *node)
{
    node_clear(node);
    handle_free(node->handle);
    node_set_clear(&node->dependencies);
    free(node);
}

void node_remove(Node *node)
{
    Graph *graph = node->graph;
    size_t kept = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        node_set_remove(&graph->nodes[i]->dependencies, node);
        if (graph->nodes[i] != node) graph->nodes[kept++] = graph->nodes[i];
    }
    graph->node_count = kept;
    node_free(node);
}

void node_clear(Node *node)
{
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: launch_clear(&node->as.launch); break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (node->as.child) graph_free(node->as.child);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        if (node->as.alloc.memory) graph_memory_release(node->as.alloc.memory);
        break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        for (unsigned i = 0; i < node->as.conditional.count; i++)
            if (node->as.conditional.bodies[i]) graph_free(node->as.conditional.bodies[i]);
        free(node->as.conditional.bodies);
        free(node->as.conditional.handles);
        break;
    default: break;
    }
    memset(&node->as, 0, sizeof node->as);
}

/* ---- copying ---- */

static bool copy_conditional(Node *copy, const Node *source)
{
    unsigned count = source->as.conditional.count;
    copy->as.conditional.handle = source->as.conditional.handle;
    copy->as.conditional.type = source->as.conditional.type;
    copy->as.conditional.bodies = allocate(count, sizeof(Graph *));
    copy->as.conditional.handles = allocate(count, sizeof(CUgraph));
    copy->as.conditional.count = count;
    for (unsigned i = 0; i < count; i++) {
        Graph *body = graph_clone(source->as.conditional.bodies[i]);
        if (!body) return false;
        copy->as.conditional.bodies[i] = body;
        copy->as.conditional.handles[i] = body->handle;
        graph_put_inside(body, copy);
    }
    return true;
}

bool node_copy_parameters(Node *copy, const Node *source)
{
    switch ((int)source->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: launch_copy(&copy->as.launch, &source->as.launch); return true;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        copy->as.child = source->as.child ? graph_clone(source->as.child) : NULL;
        if (copy->as.child) graph_put_inside(copy->as.child, copy);
        return copy->as.child != NULL;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return copy_conditional(copy, source);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        copy->as.alloc = source->as.alloc;
        if (copy->as.alloc.memory) copy->as.alloc.memory->references++;
        return true;
    default: copy->as = source->as; return true;
    }
}

/* ---- parameters ---- */

CUresult node_set_launch(Node *node, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    REQUIRE_ARGUMENT(parameters);
    CUfunction handle = parameters->func ? parameters->func : (CUfunction)parameters->kern;
    Launch launch = {.kernel = kernel_find(handle),
                     .grid = {parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ},
                     .block = {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ},
                     .dynamic_shared = parameters->sharedMemBytes};
    REQUIRE(launch.kernel, CUDA_ERROR_INVALID_HANDLE);
    const Launch *before = &node->as.launch; /* attributes are set by other calls, and stay */
    memcpy(launch.cluster, before->cluster, sizeof launch.cluster);
    launch.has_cluster = before->has_cluster;
    launch.cooperative = before->cooperative;
    Context *context = NULL;
    CHECK(context_current(&context));
    CHECK(launch_check(&launch, context->device));
    CHECK(launch_keep_arguments(&launch, parameters->kernelParams, parameters->extra));
    launch.kernel->library->references++;
    launch_clear(&node->as.launch);
    node->as.launch = launch;
    return CUDA_SUCCESS;
}

/* Whether a node stands in `graph`, or in a graph inside it. */
static bool is_inside(const Node *node, const Graph *graph)
{
    for (; node; node = node->graph->parent)
        if (node->graph == graph) return true;
    return false;
}

CUresult node_set_child(Node *node, CUgraph child)
{
    const Graph *graph = graph_find(child);
    REQUIRE_ARGUMENT(graph && !is_inside(node, graph));
    Graph *clone = graph_clone(graph);
    REQUIRE_ARGUMENT(clone);
    if (node->as.child) graph_free(node->as.child);
    node->as.child = clone;
    graph_put_inside(clone, node);
    return CUDA_SUCCESS;
}

static CUresult set_event(Node *node, CUevent event)
{
    REQUIRE(event_find(event), CUDA_ERROR_INVALID_HANDLE);
    node->as.event = event;
    return CUDA_SUCCESS;
}

static CUresult set_kernel(Node *node, const CUgraphNodeParams *parameters)
{
    const CUDA_KERNEL_NODE_PARAMS_v3 *given = &parameters->kernel;
    CUDA_KERNEL_NODE_PARAMS kernel = {
        .func = given->func, .gridDimX = given->gridDimX, .gridDimY = given->gridDimY, .gridDimZ = given->gridDimZ,
        .blockDimX = given->blockDimX, .blockDimY = given->blockDimY, .blockDimZ = given->blockDimZ,
        .sharedMemBytes = given->sharedMemBytes, .kernelParams = given->kernelParams, .extra = given->extra,
        .kern = given->kern,
    };
    return node_set_launch(node, &kernel);
}

static CUresult set_fill(Node *node, const CUgraphNodeParams *parameters)
{
    const CUDA_MEMSET_NODE_PARAMS_v2 *given = &parameters->memset;
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = given->dst, .pitch = given->pitch, .value = given->value,
                                    .elementSize = given->elementSize, .width = given->width,
                                    .height = given->height};
    CHECK(fill_check(&fill));
    node->as.fill = fill;
    return CUDA_SUCCESS;
}

/* For the types whose parameters may be set again after the node was made. */
CUresult node_set_parameters(Node *node, const CUgraphNodeParams *parameters)
{
    REQUIRE_ARGUMENT(parameters && parameters->type == node->type);
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return set_kernel(node, parameters);
    case CU_GRAPH_NODE_TYPE_MEMSET: return set_fill(node, parameters);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        CHECK(copy_check(&parameters->memcpy.copyParams));
        node->as.copy = parameters->memcpy.copyParams;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        REQUIRE_ARGUMENT(parameters->host.fn);
        node->as.host = (CUDA_HOST_NODE_PARAMS){.fn = parameters->host.fn, .userData = parameters->host.userData};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH: return node_set_child(node, parameters->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return set_event(node, parameters->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return set_event(node, parameters->eventWait.event);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: node->as.freed = parameters->free.dptr; return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    ENTER();
    Node *node = node_find(hNode);
    REQUIRE_ARGUMENT(node);
    return node_set_parameters(node, nodeParams);
}

/* ---- the node as such ---- */

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    ENTER();
    Node *node = node_find(hNode);
    REQUIRE_ARGUMENT(node);
    REQUIRE(!node_has_memory(node), CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE(!capture_uses(node->graph), CUDA_ERROR_ILLEGAL_STATE);
    node_remove(node);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    ENTER();
    const Node *node = node_find(hNode);
    REQUIRE_ARGUMENT(node && type);
    *type = node->type;
    return CUDA_SUCCESS;
}
