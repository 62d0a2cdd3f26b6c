/* Memory pools and stream-ordered allocation. A pool is an account: memory comes from the host and goes back at
 * once. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_KINDS (1u << MEMORY_DEVICE | 1u << MEMORY_MANAGED | 1u << MEMORY_HOST)

#define MANAGED_ALLOCATION 2 /* CU_MEM_ALLOCATION_TYPE_MANAGED, which CUDA 12's header does not have */

static Pool device_pools[MAX_DEVICES], host_pool, managed_pool;

static void pool_start(Pool *pool, MemoryKind kind, CUmemLocationType where, int id)
{
    pool->handle = handle_new(KIND_POOL, pool);
    pool->kind = kind;
    pool->device = where == CU_MEM_LOCATION_TYPE_DEVICE ? id : 0;
    pool->properties.location = (CUmemLocation){.type = where, .id = id};
    for (int i = 0; i < 3; i++) pool->reuse[i] = 1;
}

void pools_start(void)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        pool_start(&device_pools[i], MEMORY_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, i);
        state.devices[i].default_pool = state.devices[i].current_pool = &device_pools[i];
        device_pools[i].built_in = true;
    }
    pool_start(&host_pool, MEMORY_HOST, CU_MEM_LOCATION_TYPE_HOST, 0);
    pool_start(&managed_pool, MEMORY_MANAGED, CU_MEM_LOCATION_TYPE_DEVICE, 0);
    host_pool.built_in = managed_pool.built_in = true;
}

static Pool *pool_find(CUmemoryPool handle) { return handle_object(handle, KIND_POOL); }

#define ENTER_POOL(handle) ENTER_OBJECT(Pool, found, pool_find(handle), CUDA_ERROR_INVALID_VALUE)

/* ---- allocation in stream order ---- */

static CUresult allocate_in_stream(CUdeviceptr *out, size_t bytes, Pool *pool, Context *context, CUstream handle)
{
    Stream *stream = NULL;
    REQUIRE_ARGUMENT(out && pool);
    CHECK(stream_for_work(context, handle, &stream));
    if (stream->capture) {
        CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.poolProps = pool->properties, .bytesize = bytes};
        Node *node = stream_add_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
        CUresult result = node_add_allocation(node, &parameters, context);
        if (result != CUDA_SUCCESS) stream->capture->invalid = true;
        CHECK(result);
        ANSWER(out, parameters.dptr);
    }
    *out = 0;
    if (bytes == 0) return CUDA_SUCCESS;
    Allocation *allocation = NULL;
    CHECK(memory_allocate(bytes, pool->kind, context, pool, 0, &allocation));
    ANSWER(out, (CUdeviceptr)allocation->start);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    ENTER_CONTEXT();
    return allocate_in_stream(dptr, bytesize, state.devices[context->device].current_pool, context, hStream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    ENTER_CONTEXT();
    return allocate_in_stream(dptr, bytesize, pool_find(pool), context, hStream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    CHECK(stream_for_work(context, hStream, &stream));
    if (stream->capture) {
        REQUIRE_ARGUMENT(memory_find(dptr));
        stream_add_node(stream, CU_GRAPH_NODE_TYPE_MEM_FREE)->as.freed = dptr;
        return CUDA_SUCCESS;
    }
    return dptr ? memory_free(dptr, DEVICE_KINDS) : CUDA_SUCCESS;
}

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    ENTER();
    REQUIRE_ARGUMENT(pool && poolProps);
    REQUIRE(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
    bool on_device = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    bool managed = (int)poolProps->allocType == MANAGED_ALLOCATION;
    REQUIRE_ARGUMENT(managed || poolProps->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
    REQUIRE_ARGUMENT(!on_device || device_exists(poolProps->location.id));
    Pool *created = allocate(1, sizeof *created);
    pool_start(created, on_device ? MEMORY_DEVICE : MEMORY_HOST, poolProps->location.type, poolProps->location.id);
    if (managed) created->kind = MEMORY_MANAGED;
    created->properties = *poolProps;
    *pool = created->handle;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    ENTER_POOL(pool);
    REQUIRE_ARGUMENT(!found->built_in);
    for (int i = 0; i < MAX_DEVICES; i++)
        if (state.devices[i].current_pool == found) state.devices[i].current_pool = state.devices[i].default_pool;
    handle_free(found->handle);
    found->handle = NULL;
    pool_free_if_over(found);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    ENTER();
    (void)minBytesToKeep; /* nothing is ever kept */
    REQUIRE_ARGUMENT(pool_find(pool));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    ENTER_POOL(pool);
    REQUIRE_ARGUMENT(value);
    switch ((int)attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = found->release_threshold; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = found->used; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = found->used_high; return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    ENTER_POOL(pool);
    REQUIRE_ARGUMENT(value);
    switch ((int)attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: found->release_threshold = *(cuuint64_t *)value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        REQUIRE_ARGUMENT(*(cuuint64_t *)value == 0); /* the documentation allows a reset only */
        found->used_high = found->used;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    ENTER();
    REQUIRE_ARGUMENT(pool_find(pool) && (map || count == 0));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    ENTER();
    REQUIRE_ARGUMENT(location && pool_find(memPool));
    ANSWER(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

/* ---- the pools that a device or a location has by itself ---- */

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    ENTER_DEVICE(dev);
    ANSWER(pool, state.devices[dev].current_pool->handle);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    ENTER_DEVICE(dev);
    ANSWER(pool_out, state.devices[dev].default_pool->handle);
}

static CUresult set_current(CUdevice device, CUmemoryPool handle)
{
    Pool *pool = pool_find(handle);
    REQUIRE_DEVICE(device);
    REQUIRE_ARGUMENT(pool && pool->kind == MEMORY_DEVICE);
    state.devices[device].current_pool = pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    ENTER();
    return set_current(dev, pool);
}

static CUresult pool_of_location(const CUmemLocation *location, CUmemAllocationType type, bool current,
                                 CUmemoryPool *out)
{
    REQUIRE_ARGUMENT(location);
    if ((int)type == MANAGED_ALLOCATION) ANSWER(out, managed_pool.handle);
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) ANSWER(out, host_pool.handle);
    REQUIRE_DEVICE(location->id);
    const Device *device = &state.devices[location->id];
    ANSWER(out, (current ? device->current_pool : device->default_pool)->handle);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
    ENTER();
    return pool_of_location(location, type, false, pool_out);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    ENTER();
    return pool_of_location(location, type, true, pool);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    ENTER();
    REQUIRE_ARGUMENT(location);
    REQUIRE(location->type == CU_MEM_LOCATION_TYPE_DEVICE && (int)type != MANAGED_ALLOCATION, CUDA_ERROR_NOT_SUPPORTED);
    return set_current(location->id, pool);
}
