/* Memory that a graph allocates: it is there from the making of the node on, and goes with the last graph that has the
 * node or a clone of it. */
#include "driver.h"

#include <stdlib.h>

CUresult node_add_allocation(Node *node, CUDA_MEM_ALLOC_NODE_PARAMS *parameters, Context *context)
{
    Allocation *allocation = NULL;
    CHECK(memory_allocate(parameters->bytesize, MEMORY_DEVICE, context, NULL, 0, &allocation));
    GraphMemory *memory = allocate(1, sizeof *memory);
    *memory = (GraphMemory){.pointer = (CUdeviceptr)allocation->start, .device = context->device,
                            .bytes = allocation->bytes, .allocation_id = allocation->id, .references = 1};
    Device *device = &state.devices[context->device];
    device->graph_memory += memory->bytes;
    if (device->graph_memory > device->graph_memory_high) device->graph_memory_high = device->graph_memory;
    parameters->dptr = memory->pointer;
    node->as.alloc.parameters = *parameters;
    node->as.alloc.memory = memory;
    return CUDA_SUCCESS;
}

void graph_memory_release(GraphMemory *memory)
{
    if (--memory->references > 0) return;
    state.devices[memory->device].graph_memory -= memory->bytes;
    const Allocation *allocation = memory_find(memory->pointer);
    bool ours = allocation && allocation->id == memory->allocation_id; /* the caller may have freed it */
    if (ours) memory_free(memory->pointer, 1u << MEMORY_DEVICE);
    free(memory);
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    ENTER_DEVICE(device);
    REQUIRE_ARGUMENT(value && attr <= CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
    bool high = attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    *(cuuint64_t *)value = high ? state.devices[device].graph_memory_high : state.devices[device].graph_memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    ENTER_DEVICE(device);
    REQUIRE_ARGUMENT(value && *(cuuint64_t *)value == 0); /* the high-water marks can be reset, and nothing else set */
    REQUIRE_ARGUMENT(attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
    state.devices[device].graph_memory_high = state.devices[device].graph_memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    ENTER_DEVICE(device);
    return CUDA_SUCCESS;
}
