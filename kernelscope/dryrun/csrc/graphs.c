/* Graph definitions: nodes, edges, and the user objects that a graph keeps alive. graph_add.c has the calls that add a
 * node, graph_parameters.c those that read and change one. */
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

/* ---- a node's life ---- */

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
        body->parent = copy;
    }
    return true;
}

bool node_copy_parameters(Node *copy, const Node *source)
{
    switch ((int)source->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: launch_copy(&copy->as.launch, &source->as.launch); return true;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        copy->as.child = source->as.child ? graph_clone(source->as.child) : NULL;
        if (copy->as.child) copy->as.child->parent = copy;
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
    clone->parent = node;
    return CUDA_SUCCESS;
}

CUresult node_set_copy(Node *node, const CUDA_MEMCPY3D *parameters)
{
    REQUIRE_ARGUMENT(parameters);
    CHECK(copy_check(parameters));
    node->as.copy = *parameters;
    return CUDA_SUCCESS;
}

CUresult node_set_fill(Node *node, const CUDA_MEMSET_NODE_PARAMS *parameters)
{
    REQUIRE_ARGUMENT(parameters);
    CHECK(fill_check(parameters));
    node->as.fill = *parameters;
    return CUDA_SUCCESS;
}

CUresult node_set_host(Node *node, const CUDA_HOST_NODE_PARAMS *parameters)
{
    REQUIRE_ARGUMENT(parameters && parameters->fn);
    node->as.host = *parameters;
    return CUDA_SUCCESS;
}

CUresult node_set_event(Node *node, CUevent event)
{
    REQUIRE(handle_object(event, KIND_EVENT), CUDA_ERROR_INVALID_HANDLE);
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
    return node_set_fill(node, &fill);
}

static CUresult set_host(Node *node, const CUgraphNodeParams *parameters)
{
    CUDA_HOST_NODE_PARAMS host = {.fn = parameters->host.fn, .userData = parameters->host.userData};
    return node_set_host(node, &host);
}

/* For the types whose parameters may be set again after the node was made. */
CUresult node_set_parameters(Node *node, const CUgraphNodeParams *parameters)
{
    REQUIRE_ARGUMENT(parameters && parameters->type == node->type);
    switch ((int)node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return set_kernel(node, parameters);
    case CU_GRAPH_NODE_TYPE_MEMSET: return set_fill(node, parameters);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return node_set_copy(node, &parameters->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_HOST: return set_host(node, parameters);
    case CU_GRAPH_NODE_TYPE_GRAPH: return node_set_child(node, parameters->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return node_set_event(node, parameters->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return node_set_event(node, parameters->eventWait.event);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: node->as.freed = parameters->free.dptr; return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    ENTER_NODE(hNode);
    return node_set_parameters(node, nodeParams);
}

/* ---- the node as such ---- */

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    ENTER_NODE(hNode);
    REQUIRE(!node_has_memory(node), CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE(!capture_uses(node->graph), CUDA_ERROR_ILLEGAL_STATE);
    node_remove(node);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    ENTER_NODE(hNode);
    ANSWER(type, node->type);
}

/* ---- user objects: what a graph keeps alive for its caller, by counting references ---- */

static UserObject *user_object(CUuserObject handle) { return handle_object(handle, KIND_USER_OBJECT); }

/* The last release calls the destroyer, when the lock is open again. */
static void release_object(UserObject *object, unsigned long count)
{
    object->references -= count < object->references ? count : object->references;
    if (object->references > 0) return;
    call_after_unlock(object->destroy, object->pointer);
    handle_free(object->handle);
    free(object);
}

void user_objects_clone(Graph *clone, const Graph *source)
{
    clone->objects = allocate(source->object_count, sizeof *clone->objects);
    clone->object_count = source->object_count;
    for (size_t i = 0; i < source->object_count; i++) {
        clone->objects[i] = (OwnedObject){source->objects[i].object, 1};
        source->objects[i].object->references++;
    }
}

void user_objects_release(Graph *graph)
{
    for (size_t i = 0; i < graph->object_count; i++) release_object(graph->objects[i].object, graph->objects[i].count);
    free(graph->objects);
    graph->objects = NULL;
    graph->object_count = 0;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
                            unsigned int flags)
{
    ENTER();
    REQUIRE_ARGUMENT(object_out && destroy && initialRefcount > 0 && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    UserObject *object = allocate(1, sizeof *object);
    *object = (UserObject){handle_new(KIND_USER_OBJECT, object), ptr, destroy, initialRefcount};
    *object_out = object->handle;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    ENTER();
    UserObject *found = user_object(object);
    REQUIRE_ARGUMENT(found && count > 0);
    found->references += count;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    ENTER();
    UserObject *found = user_object(object);
    REQUIRE_ARGUMENT(found && count > 0 && count <= found->references);
    release_object(found, count);
    return CUDA_SUCCESS;
}

static OwnedObject *owned(const Graph *graph, const UserObject *object)
{
    for (size_t i = 0; i < graph->object_count; i++)
        if (graph->objects[i].object == object) return &graph->objects[i];
    return NULL;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    ENTER();
    Graph *owner = graph_find(graph);
    UserObject *found = user_object(object);
    REQUIRE_ARGUMENT(owner && found && count > 0 && (flags == 0 || flags == CU_GRAPH_USER_OBJECT_MOVE));
    if (flags != CU_GRAPH_USER_OBJECT_MOVE) found->references += count;
    OwnedObject *entry = owned(owner, found);
    if (entry) {
        entry->count += count;
        return CUDA_SUCCESS;
    }
    owner->objects = reallocate(owner->objects, owner->object_count + 1, sizeof *owner->objects);
    owner->objects[owner->object_count++] = (OwnedObject){found, count};
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    ENTER();
    Graph *owner = graph_find(graph);
    UserObject *found = user_object(object);
    REQUIRE_ARGUMENT(owner && found);
    OwnedObject *entry = owned(owner, found);
    REQUIRE_ARGUMENT(entry && count > 0);
    if (count > entry->count) count = (unsigned)entry->count; /* more than it has: all of them, as a real driver does */
    entry->count -= count;
    if (entry->count == 0) *entry = owner->objects[--owner->object_count];
    release_object(found, count);
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

Graph *graph_new(void)
{
    Graph *graph = allocate(1, sizeof *graph);
    graph->handle = handle_new(KIND_GRAPH, graph);
    graph->id = new_id();
    return graph;
}

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
    REQUIRE_ARGUMENT(flags == 0);
    ANSWER(phGraph, graph_new()->handle);
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    ENTER_GRAPH(hGraph);
    REQUIRE_ARGUMENT(!graph->parent); /* one inside a node goes with the node */
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
    ENTER_GRAPH(hGraph);
    return give_nodes(graph->nodes, graph->node_count, nodes, NULL, numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    ENTER_GRAPH(hGraph);
    NodeSet roots = {0};
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->dependencies.count == 0) node_set_add(&roots, graph->nodes[i]);
    CUresult result = give_nodes(roots.items, roots.count, rootNodes, NULL, numRootNodes);
    node_set_clear(&roots);
    return result;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
                                       size_t *numDependencies)
{
    ENTER_NODE(hNode);
    return give_nodes(node->dependencies.items, node->dependencies.count, dependencies, edgeData, numDependencies);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
    return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
                                         size_t *numDependentNodes)
{
    ENTER_NODE(hNode);
    NodeSet dependents = {0};
    for (size_t i = 0; i < node->graph->node_count; i++) {
        Node *other = node->graph->nodes[i];
        if (node_set_has(&other->dependencies, node)) node_set_add(&dependents, other);
    }
    CUresult result = give_nodes(dependents.items, dependents.count, dependentNodes, edgeData, numDependentNodes);
    node_set_clear(&dependents);
    return result;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
    return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}

/* ---- edges ---- */

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
                            size_t *numEdges)
{
    ENTER_GRAPH(hGraph);
    REQUIRE_ARGUMENT(numEdges && !from == !to);
    size_t count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const Node *node = graph->nodes[i];
        for (size_t j = 0; j < node->dependencies.count; j++, count++) {
            if (!from || count >= *numEdges) continue;
            from[count] = node->dependencies.items[j]->handle;
            to[count] = node->handle;
            if (edgeData) edgeData[count] = (CUgraphEdgeData){0};
        }
    }
    for (size_t i = count; from && i < *numEdges; i++) from[i] = to[i] = NULL;
    if (!from || *numEdges > count) *numEdges = count;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
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

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, UNUSED_EDGES,
                                   size_t numDependencies)
{
    ENTER();
    return change_edges(hGraph, from, to, numDependencies, true);
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
    return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, UNUSED_EDGES,
                                      size_t numDependencies)
{
    ENTER();
    return change_edges(hGraph, from, to, numDependencies, false);
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t numDependencies)
{
    return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}
