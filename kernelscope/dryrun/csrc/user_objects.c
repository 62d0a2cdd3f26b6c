/* User objects: what a graph keeps alive for its caller, by counting references. */
#include "driver.h"

#include <stdlib.h>

static UserObject *find(CUuserObject handle) { return handle_object(handle, KIND_USER_OBJECT); }

/* The last release calls the destroyer, when the lock is open again. */
static void release(UserObject *object, unsigned long count)
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
    for (size_t i = 0; i < graph->object_count; i++) release(graph->objects[i].object, graph->objects[i].count);
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
    UserObject *found = find(object);
    REQUIRE_ARGUMENT(found && count > 0);
    found->references += count;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    ENTER();
    UserObject *found = find(object);
    REQUIRE_ARGUMENT(found && count > 0 && count <= found->references);
    release(found, count);
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
    UserObject *found = find(object);
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
    UserObject *found = find(object);
    REQUIRE_ARGUMENT(owner && found);
    OwnedObject *entry = owned(owner, found);
    REQUIRE_ARGUMENT(entry && count > 0);
    if (count > entry->count) count = (unsigned)entry->count; /* more than it has: all of them, as a real driver does */
    entry->count -= count;
    if (entry->count == 0) *entry = owner->objects[--owner->object_count];
    release(found, count);
    return CUDA_SUCCESS;
}
