/* Updating an executable graph from a definition of the same shape. */
#include "driver.h"

#include <stdlib.h>

static CUgraphExecUpdateResult compare_graphs(const Graph *exec, const Graph *definition, const Node **wrong);

/* The executable's nodes stand in topological order; `node` at the same position must depend on the same positions. */
static bool same_dependencies(const Graph *exec, const Node *node, const Node *ours)
{
    if (node->dependencies.count != ours->dependencies.count) return false;
    for (size_t i = 0; i < node->dependencies.count; i++) {
        const Node *expected = exec->nodes[node->dependencies.items[i]->position];
        bool found = false;
        for (size_t j = 0; j < ours->dependencies.count; j++) found |= ours->dependencies.items[j] == expected;
        if (!found) return false;
    }
    return true;
}

static CUgraphExecUpdateResult compare_nodes(const Graph *exec, const Node *ours, const Node *node, const Node **wrong)
{
    *wrong = node;
    if (!same_dependencies(exec, node, ours)) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (ours->type != node->type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) return compare_graphs(ours->as.child, node->as.child, wrong);
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        ours->as.alloc.parameters.bytesize != node->as.alloc.parameters.bytesize)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (node->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (ours->as.conditional.type != node->as.conditional.type ||
        ours->as.conditional.count != node->as.conditional.count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    for (unsigned i = 0; i < node->as.conditional.count; i++) {
        CUgraphExecUpdateResult result =
            compare_graphs(ours->as.conditional.bodies[i], node->as.conditional.bodies[i], wrong);
        if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult compare_graphs(const Graph *exec, const Graph *definition, const Node **wrong)
{
    if (exec->node_count != definition->node_count) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    Node **order = allocate(definition->node_count, sizeof *order);
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (!graph_sort(definition, order)) result = CU_GRAPH_EXEC_UPDATE_ERROR;
    for (size_t i = 0; result == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < definition->node_count; i++)
        result = compare_nodes(exec, exec->nodes[i], order[i], wrong);
    free(order);
    return result;
}

/* Exchange what the nodes hold; the nodes stay, with the definition that they are known by. */
static void take_over(Graph *exec, const Graph *definition)
{
    Node **order = allocate(definition->node_count, sizeof *order);
    graph_sort(definition, order);
    for (size_t i = 0; i < definition->node_count; i++) {
        node_clear(exec->nodes[i]);
        node_copy_parameters(exec->nodes[i], order[i]);
    }
    free(order);
    user_objects_release(exec);
    user_objects_clone(exec, definition);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    ENTER_CONTEXT();
    Exec *exec = exec_find(hGraphExec);
    const Graph *definition = graph_find(hGraph);
    const Node *wrong = NULL;
    REQUIRE_ARGUMENT(exec && definition && resultInfo);
    REQUIRE(!exec->running, CUDA_ERROR_ILLEGAL_STATE);
    *resultInfo = (CUgraphExecUpdateResultInfo){.result = compare_graphs(exec->graph, definition, &wrong)};
    if (resultInfo->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        resultInfo->errorNode = wrong ? wrong->handle : NULL;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    take_over(exec->graph, definition);
    return CUDA_SUCCESS;
}
