/* Executable graphs: instantiate, launch, change. An executable graph is a clone of its definition, in topological
 * order, so a launch is a walk from the first node to the last. */
#include "driver.h"

#include <stdlib.h>

#define KNOWN_FLAGS                                                                            \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |    \
     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

Exec *exec_find(CUgraphExec handle)
{
    Exec *exec = handle_object(handle, KIND_EXEC);
    return exec && !exec->destroyed ? exec : NULL;
}

static void exec_free(Exec *exec)
{
    graph_free(exec->graph);
    free(exec);
}

/* ---- instantiate ---- */

static CUresult instantiate(CUgraph handle, unsigned long long flags, CUgraphExec *out)
{
    const Graph *graph = graph_find(handle);
    REQUIRE_ARGUMENT(out && graph && (flags & ~(unsigned long long)KNOWN_FLAGS) == 0);
    Graph *clone = graph_clone(graph);
    REQUIRE_ARGUMENT(clone); /* it has a cycle */
    Exec *exec = allocate(1, sizeof *exec);
    *exec = (Exec){.handle = handle_new(KIND_EXEC, exec), .graph = clone, .id = new_id(), .flags = flags};
    *out = exec->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    ENTER_CONTEXT();
    return instantiate(hGraph, flags, phGraphExec);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(instantiateParams);
    CUresult result = instantiate(hGraph, instantiateParams->flags, phGraphExec);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                                           : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return result;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    ENTER();
    const Exec *exec = exec_find(hGraphExec);
    REQUIRE_ARGUMENT(exec);
    ANSWER(flags, exec->flags);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    ENTER();
    Exec *exec = exec_find(hGraphExec);
    REQUIRE_ARGUMENT(exec);
    handle_free(exec->handle);
    exec->destroyed = true;
    if (!exec->running) exec_free(exec);
    return CUDA_SUCCESS;
}

/* ---- launch ---- */

__thread bool graph_launch_was_captured;

static CUresult run_graph(const Graph *graph);

static CUresult run_conditional(const Node *node)
{
    unsigned value = (unsigned)(node->as.conditional.handle >> 32), count = node->as.conditional.count, body = count;
    if (node->as.conditional.type == CU_GRAPH_COND_TYPE_SWITCH) {
        body = value;
    } else if (value) {
        body = 0;
    } else if (node->as.conditional.type == CU_GRAPH_COND_TYPE_IF) {
        body = 1; /* the else branch, where there is one */
    }
    return body < count ? run_graph(node->as.conditional.bodies[body]) : CUDA_SUCCESS;
}

static CUresult run_node(const Node *node)
{
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: state.graph_kernels++; return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        REQUIRE(copy_check(&node->as.copy) == CUDA_SUCCESS, CUDA_ERROR_ILLEGAL_ADDRESS);
        copy_run(&node->as.copy);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        REQUIRE(fill_check(&node->as.fill) == CUDA_SUCCESS, CUDA_ERROR_ILLEGAL_ADDRESS);
        fill_run(&node->as.fill);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST: call_unlocked(node->as.host.fn, node->as.host.userData); return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH: return run_graph(node->as.child);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return run_conditional(node);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
        Event *event = event_find(node->as.event);
        if (event) event_record_now(event);
        return CUDA_SUCCESS;
    }
    }
    return CUDA_SUCCESS; /* empty nodes, waits, and memory that the graph has from its definition on */
}

static CUresult run_graph(const Graph *graph)
{
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->enabled) CHECK(run_node(graph->nodes[i]));
    return CUDA_SUCCESS;
}

static CUresult exec_launch(Exec *exec)
{
    state.graph_launches++;
    exec->running++; /* a host function runs without the lock: another thread may destroy the graph meanwhile */
    CUresult result = run_graph(exec->graph);
    exec->running--;
    if (exec->destroyed && !exec->running) exec_free(exec);
    return result;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    Exec *exec = exec_find(hGraphExec);
    REQUIRE_ARGUMENT(exec);
    CHECK(stream_for_work(context, hStream, &stream));
    if (!stream->capture) return exec_launch(exec);
    graph_launch_was_captured = true;
    return node_set_child(stream_add_node(stream, CU_GRAPH_NODE_TYPE_GRAPH), exec->graph->handle);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    REQUIRE_ARGUMENT(exec_find(hGraphExec));
    return stream_find(context, hStream, &stream);
}

/* ---- changing one node; not while the graph runs ---- */

static CUresult exec_node_to_change(CUgraphExec handle, CUgraphNode definition_node, CUgraphNodeType type, Node **node)
{
    const Exec *exec = exec_find(handle);
    REQUIRE_ARGUMENT(exec);
    REQUIRE(!exec->running, CUDA_ERROR_ILLEGAL_STATE);
    for (size_t i = 0; i < exec->graph->node_count; i++) {
        *node = exec->graph->nodes[i];
        if ((*node)->original == definition_node && (*node)->type == type) return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    ENTER();
    Node *node = NULL;
    REQUIRE_ARGUMENT(nodeParams);
    CHECK(exec_node_to_change(hGraphExec, hNode, nodeParams->type, &node));
    return node_set_parameters(node, nodeParams);
}

#define SETTER(function, node_type, parameters_type, set, ...)                                                  \
    CUresult function(CUgraphExec exec, CUgraphNode definition, parameters_type parameters, ##__VA_ARGS__)     \
    {                                                                                                          \
        ENTER();                                                                                               \
        Node *node = NULL;                                                                                     \
        CHECK(exec_node_to_change(exec, definition, CU_GRAPH_NODE_TYPE_##node_type, &node));                   \
        return set(node, parameters);                                                                          \
    }

SETTER(cuGraphExecKernelNodeSetParams_v2, KERNEL, const CUDA_KERNEL_NODE_PARAMS *, node_set_launch)
SETTER(cuGraphExecMemcpyNodeSetParams, MEMCPY, const CUDA_MEMCPY3D *, node_set_copy, UNUSED_CONTEXT)
SETTER(cuGraphExecMemsetNodeSetParams, MEMSET, const CUDA_MEMSET_NODE_PARAMS *, node_set_fill, UNUSED_CONTEXT)
SETTER(cuGraphExecHostNodeSetParams, HOST, const CUDA_HOST_NODE_PARAMS *, node_set_host)
SETTER(cuGraphExecChildGraphNodeSetParams, GRAPH, CUgraph, node_set_child)
SETTER(cuGraphExecEventRecordNodeSetEvent, EVENT_RECORD, CUevent, node_set_event)
SETTER(cuGraphExecEventWaitNodeSetEvent, WAIT_EVENT, CUevent, node_set_event)

static CUresult exec_node(CUgraphExec exec, CUgraphNode handle, Node **node)
{
    const Node *definition = node_find(handle);
    REQUIRE_ARGUMENT(definition);
    return exec_node_to_change(exec, handle, definition->type, node);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    ENTER();
    Node *node = NULL;
    CHECK(exec_node(hGraphExec, hNode, &node));
    node->enabled = isEnabled != 0;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
    ENTER();
    Node *node = NULL;
    CHECK(exec_node(hGraphExec, hNode, &node));
    ANSWER(isEnabled, node->enabled);
}
