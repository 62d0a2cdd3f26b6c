/* Reading and setting the parameters of one type of node in a graph definition. */
#include "driver.h"

#include <string.h>

#define ENTER_NODE_OF(handle, node_type)  \
    ENTER_NODE(handle);                   \
    REQUIRE_ARGUMENT(node->type == CU_GRAPH_NODE_TYPE_##node_type)

#define GETTER(function, node_type, type, value)       \
    CUresult function(CUgraphNode handle, type *out)   \
    {                                                  \
        ENTER_NODE_OF(handle, node_type);                 \
        ANSWER(out, value);                            \
    }

#define SETTER(function, node_type, type, set)              \
    CUresult function(CUgraphNode handle, type parameters)  \
    {                                                       \
        ENTER_NODE_OF(handle, node_type);                      \
        return set(node, parameters);                       \
    }

GETTER(cuGraphMemcpyNodeGetParams, MEMCPY, CUDA_MEMCPY3D, node->as.copy)
GETTER(cuGraphMemsetNodeGetParams, MEMSET, CUDA_MEMSET_NODE_PARAMS, node->as.fill)
GETTER(cuGraphHostNodeGetParams, HOST, CUDA_HOST_NODE_PARAMS, node->as.host)
GETTER(cuGraphMemAllocNodeGetParams, MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS, node->as.alloc.parameters)
GETTER(cuGraphMemFreeNodeGetParams, MEM_FREE, CUdeviceptr, node->as.freed)
GETTER(cuGraphEventRecordNodeGetEvent, EVENT_RECORD, CUevent, node->as.event)
GETTER(cuGraphEventWaitNodeGetEvent, WAIT_EVENT, CUevent, node->as.event)

SETTER(cuGraphKernelNodeSetParams_v2, KERNEL, const CUDA_KERNEL_NODE_PARAMS *, node_set_launch)
SETTER(cuGraphMemcpyNodeSetParams, MEMCPY, const CUDA_MEMCPY3D *, node_set_copy)
SETTER(cuGraphMemsetNodeSetParams, MEMSET, const CUDA_MEMSET_NODE_PARAMS *, node_set_fill)
SETTER(cuGraphHostNodeSetParams, HOST, const CUDA_HOST_NODE_PARAMS *, node_set_host)
SETTER(cuGraphEventRecordNodeSetEvent, EVENT_RECORD, CUevent, node_set_event)
SETTER(cuGraphEventWaitNodeSetEvent, WAIT_EVENT, CUevent, node_set_event)

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    ENTER_NODE_OF(hNode, GRAPH);
    REQUIRE_ARGUMENT(node->as.child);
    ANSWER(phGraph, node->as.child->handle);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    ENTER_NODE_OF(hNode, KERNEL);
    REQUIRE_ARGUMENT(nodeParams);
    const Launch *launch = &node->as.launch;
    *nodeParams = (CUDA_KERNEL_NODE_PARAMS){
        .func = launch->kernel->handle,
        .gridDimX = launch->grid[0], .gridDimY = launch->grid[1], .gridDimZ = launch->grid[2],
        .blockDimX = launch->block[0], .blockDimY = launch->block[1], .blockDimZ = launch->block[2],
        .sharedMemBytes = launch->dynamic_shared, .kernelParams = launch->argument_list,
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
    ENTER_NODE_OF(hNode, KERNEL);
    REQUIRE_ARGUMENT(value_out);
    const Launch *launch = &node->as.launch;
    memset(value_out, 0, sizeof *value_out);
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        value_out->cooperative = launch->cooperative;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        value_out->clusterDim.x = launch->cluster[0];
        value_out->clusterDim.y = launch->cluster[1];
        value_out->clusterDim.z = launch->cluster[2];
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)
{
    ENTER_NODE_OF(hNode, KERNEL);
    REQUIRE_ARGUMENT(value);
    launch_set_attribute(&node->as.launch, attr, value);
    return CUDA_SUCCESS;
}
