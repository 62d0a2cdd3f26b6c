/* Graph definitions: their nodes and edges as a whole. graph_nodes.c has what is in a node, graph_add.c the calls that
 * add one. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- sets of nodes ---- */

bool node_set_has(const NodeSet *set, const Node *node)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i] == node) return true;
    return false;
}

void node_set_add(NodeSet *set, Node *node)
{
    if (node_set_has(set, node)) return;
    if (set->count == set->capacity) {
        set->capacity = set->capacity ? 2 * set->capacity : 4;
        set->items = reallocate(set->items, set->capacity, sizeof *set->items);
    }
    set->items[set->count++] = node;
}

void node_set_add_all(NodeSet *set, const NodeSet *other)
{
    for (size_t i = 0; i < other->count; i++) node_set_add(set, other->items[i]);
}

void node_set_remove(NodeSet *set, const Node *node)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i] != node) continue;
        memmove(set->items + i, set->items + i + 1, (set->count - i - 1) * sizeof *set->items);
        set->count--;
        return;
    }
}

void node_set_clear(NodeSet *set)
{
    free(set->items);
    *set = (NodeSet){0};
}

/* ---- graphs ---- */

Graph *graph_new(void)
{
    Graph *graph = allocate(1, sizeof *graph);
    graph->handle = handle_new(KIND_GRAPH, graph);
    graph->id = new_id();
    return graph;
}

void graph_put_inside(Graph *graph, Node *node) { graph->parent = node; }

Graph *graph_find(CUgraph handle) { return handle_object(handle, KIND_GRAPH); }

void graph_free(Graph *graph)
{
    for (size_t i = 0; i < graph->node_count; i++) node_free(graph->nodes[i]);
    user_objects_release(graph);
    free(graph->conditionals);
    handle_free(graph->handle);
    free(graph->nodes);
    free(graph);
}

/* Nodes in the order of their creation wherever that is a topological one, as it is after a capture. */
bool graph_sort(const Graph *graph, Node **order)
{
    size_t placed = 0, before = SIZE_MAX;
    for (size_t i = 0; i < graph->node_count; i++) graph->nodes[i]->position = SIZE_MAX;
    while (placed < graph->node_count && placed != before) {
        before = placed;
        for (size_t i = 0; i < graph->node_count; i++) {
            Node *node = graph->nodes[i];
            bool ready = node->position == SIZE_MAX;
            for (size_t j = 0; ready && j < node->dependencies.count; j++)
                ready = node->dependencies.items[j]->position != SIZE_MAX;
            if (!ready) continue;
            node->position = placed;
            order[placed++] = node;
        }
    }
    return placed == graph->node_count;
}

static bool clone_nodes(Graph *clone, Node *const *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Node *source = order[i];
        Node *copy = node_new(clone, source->type);
        copy->original = source->handle;
        copy->enabled = source->enabled;
        if (!node_copy_parameters(copy, source)) return false;
        for (size_t j = 0; j < source->dependencies.count; j++)
            node_set_add(&copy->dependencies, clone->nodes[source->dependencies.items[j]->position]);
    }
    return true;
}

Graph *graph_clone(const Graph *source)
{
    Graph *clone = graph_new();
    Node **order = allocate(source->node_count, sizeof *order);
    bool good = graph_sort(source, order) && clone_nodes(clone, order, source->node_count);
    free(order);
    if (!good) {
        graph_free(clone);
        return NULL;
    }
    clone->original = source->handle;
    user_objects_clone(clone, source);
    return clone;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    ENTER();
    REQUIRE_ARGUMENT(phGraph && flags == 0);
    *phGraph = graph_new()->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    ENTER();
    Graph *graph = graph_find(hGraph);
    REQUIRE_ARGUMENT(graph && !graph->parent); /* one inside a node goes with the node */
    REQUIRE(!capture_uses(graph), CUDA_ERROR_ILLEGAL_STATE);
    graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    ENTER();
    const Graph *graph = graph_find(originalGraph);
    REQUIRE_ARGUMENT(phGraphClone && graph);
    for (size_t i = 0; i < graph->node_count; i++) {
        const Node *node = graph->nodes[i];
        bool unclonable = node_has_memory(node) || node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
        REQUIRE(!unclonable, CUDA_ERROR_NOT_SUPPORTED);
    }
    Graph *clone = graph_clone(graph);
    REQUIRE_ARGUMENT(clone);
    /* Its nodes in the order of the original's, whose positions say where each one's copy is. */
    Node **copies = clone->nodes;
    clone->nodes = allocate(clone->node_capacity, sizeof *copies);
    for (size_t i = 0; i < graph->node_count; i++) clone->nodes[i] = copies[graph->nodes[i]->position];
    free(copies);
    *phGraphClone = clone->handle;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
    ENTER();
    const Graph *graph = graph_find(hClonedGraph);
    REQUIRE_ARGUMENT(phNode && graph);
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i]->original != hOriginalNode) continue;
        *phNode = graph->nodes[i]->handle;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- lists of nodes: how many there are when `out` is NULL, else as many as fit, the rest NULL ---- */

static CUresult give_nodes(Node *const *nodes, size_t count, CUgraphNode *out, CUgraphEdgeData *edges,
                           size_t *capacity)
{
    REQUIRE_ARGUMENT(capacity);
    for (size_t i = 0; out && i < *capacity; i++) {
        out[i] = i < count ? nodes[i]->handle : NULL;
        if (edges) edges[i] = (CUgraphEdgeData){0};
    }
    if (!out || *capacity > count) *capacity = count;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    ENTER();
    const Graph *graph = graph_find(hGraph);
    REQUIRE_ARGUMENT(graph);
    return give_nodes(graph->nodes, graph->node_count, nodes, NULL, numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    ENTER();
    const Graph *graph = graph_find(hGraph);
    REQUIRE_ARGUMENT(graph);
    NodeSet roots = {0};
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->dependencies.count == 0) node_set_add(&roots, graph->nodes[i]);
    CUresult result = give_nodes(roots.items, roots.count, rootNodes, NULL, numRootNodes);
    node_set_clear(&roots);
    return result;
}

static CUresult give_dependencies(CUgraphNode handle, CUgraphNode *out, CUgraphEdgeData *edges, size_t *capacity)
{
    const Node *node = node_find(handle);
    REQUIRE_ARGUMENT(node);
    return give_nodes(node->dependencies.items, node->dependencies.count, out, edges, capacity);
}

static CUresult give_dependents(CUgraphNode handle, CUgraphNode *out, CUgraphEdgeData *edges, size_t *capacity)
{
    const Node *node = node_find(handle);
    REQUIRE_ARGUMENT(node);
    NodeSet dependents = {0};
    for (size_t i = 0; i < node->graph->node_count; i++) {
        Node *other = node->graph->nodes[i];
        if (node_set_has(&other->dependencies, node)) node_set_add(&dependents, other);
    }
    CUresult result = give_nodes(dependents.items, dependents.count, out, edges, capacity);
    node_set_clear(&dependents);
    return result;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
    ENTER();
    return give_dependencies(hNode, dependencies, NULL, numDependencies);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
                                       size_t *numDependencies)
{
    ENTER();
    return give_dependencies(hNode, dependencies, edgeData, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
    ENTER();
    return give_dependents(hNode, dependentNodes, NULL, numDependentNodes);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
                                         size_t *numDependentNodes)
{
    ENTER();
    return give_dependents(hNode, dependentNodes, edgeData, numDependentNodes);
}

/* ---- edges ---- */

static CUresult give_edges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *capacity)
{
    const Graph *graph = graph_find(handle);
    REQUIRE_ARGUMENT(graph && capacity && !from == !to);
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const Node *node = graph->nodes[i];
        for (size_t j = 0; j < node->dependencies.count; j++, count++) {
            if (!from || count >= *capacity) continue;
            from[count] = node->dependencies.items[j]->handle;
            to[count] = node->handle;
            if (edges) edges[count] = (CUgraphEdgeData){0};
        }
    }
    for (size_t i = count; from && i < *capacity; i++) from[i] = to[i] = NULL;
    if (!from || *capacity > count) *capacity = count;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    ENTER();
    return give_edges(hGraph, from, to, NULL, numEdges);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
                            size_t *numEdges)
{
    ENTER();
    return give_edges(hGraph, from, to, edgeData, numEdges);
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, size_t count, bool add)
{
    const Graph *graph = graph_find(handle);
    REQUIRE_ARGUMENT(graph && ((from && to) || count == 0));
    for (size_t i = 0; i < count; i++) {
        const Node *before = node_find(from[i]), *after = node_find(to[i]);
        REQUIRE_ARGUMENT(before && after && before != after && before->graph == graph && after->graph == graph);
        REQUIRE_ARGUMENT(node_set_has(&after->dependencies, before) != add);
    }
    for (size_t i = 0; i < count; i++) {
        Node *before = node_find(from[i]), *after = node_find(to[i]);
        if (add) {
            node_set_add(&after->dependencies, before);
        } else {
            node_set_remove(&after->dependencies, before);
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t numDependencies)
{
    ENTER();
    return change_edges(hGraph, from, to, numDependencies, true);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    ENTER();
    (void)edgeData;
    return change_edges(hGraph, from, to, numDependencies, true);
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t numDependencies)
{
    ENTER();
    return change_edges(hGraph, from, to, numDependencies, false);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    ENTER();
    (void)edgeData;
    return change_edges(hGraph, from, to, numDependencies, false);
}
