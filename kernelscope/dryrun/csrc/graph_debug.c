/* A graph as a drawing for Graphviz. */
#include "driver.h"

#include <stdio.h>

static const char *const type_names[] = {
    [CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
    [CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
    [CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
    [CU_GRAPH_NODE_TYPE_HOST] = "HOST",
    [CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
    [CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
    [CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "WAIT_EVENT",
    [CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
    [CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL] = "EXT_SEMAS_SIGNAL",
    [CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT] = "EXT_SEMAS_WAIT",
    [CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
    [CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
    [CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
    [CU_GRAPH_NODE_TYPE_CONDITIONAL] = "CONDITIONAL",
};

static const char *type_name(CUgraphNodeType type)
{
    size_t index = (size_t)type;
    return index < sizeof type_names / sizeof *type_names && type_names[index] ? type_names[index] : "UNKNOWN";
}

static void print_graph(FILE *file, const Graph *graph)
{
    fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\"\n", graph->id, graph->id);
    for (size_t i = 0; i < graph->node_count; i++) {
        const Node *node = graph->nodes[i];
        bool kernel = node->type == CU_GRAPH_NODE_TYPE_KERNEL;
        fprintf(file, "\"node_%llu\" [shape=\"box\" label=\"%s%s%s\"];\n", node->id, type_name(node->type),
                kernel ? "\\n" : "", kernel ? node->as.launch.kernel->name : "");
        for (size_t j = 0; j < node->dependencies.count; j++)
            fprintf(file, "\"node_%llu\" -> \"node_%llu\";\n", node->dependencies.items[j]->id, node->id);
        if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) print_graph(file, node->as.child);
        for (unsigned j = 0; node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && j < node->as.conditional.count; j++)
            print_graph(file, node->as.conditional.bodies[j]);
    }
    fprintf(file, "}\n");
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    ENTER();
    (void)flags; /* they ask for more detail */
    const Graph *graph = graph_find(hGraph);
    REQUIRE_ARGUMENT(graph && path);
    FILE *file = fopen(path, "we");
    REQUIRE(file, CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(file, "digraph dot {\n");
    print_graph(file, graph);
    fprintf(file, "}\n");
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
