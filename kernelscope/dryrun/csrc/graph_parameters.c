/* Reading and setting the parameters of one type of node in a graph definition. */
#include "driver.h"

#include <string.h>

/* Define `node`, of the type, or refuse. */
#define NODE_OF_TYPE(handle, node_type)                                          \
    ENTER();                                                                     \
    Node *node = node_find_of_type(handle, CU_GRAPH_NODE_TYPE_##node_type);      \
    REQUIRE_ARGUMENT(node)

/* ---- kernels ---- */

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    NODE_OF_TYPE(hNode, KERNEL);
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

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    NODE_OF_TYPE(hNode, KERNEL);
    return node_set_launch(node, nodeParams);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
    NODE_OF_TYPE(hNode, KERNEL);
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
    NODE_OF_TYPE(hNode, KERNEL);
    REQUIRE_ARGUMENT(value);
    Launch *launch = &node->as.launch;
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        launch->cooperative = value->cooperative != 0;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        launch->has_cluster = true;
        launch->cluster[0] = value->clusterDim.x;
        launch->cluster[1] = value->clusterDim.y;
        launch->cluster[2] = value->clusterDim.z;
    }
    return CUDA_SUCCESS;
}

/* ---- copies and fills ---- */

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    NODE_OF_TYPE(hNode, MEMCPY);
    REQUIRE_ARGUMENT(nodeParams);
    *nodeParams = node->as.copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    NODE_OF_TYPE(hNode, MEMCPY);
    REQUIRE_ARGUMENT(nodeParams);
    CHECK(copy_check(nodeParams));
    node->as.copy = *nodeParams;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    NODE_OF_TYPE(hNode, MEMSET);
    REQUIRE_ARGUMENT(nodeParams);
    *nodeParams = node->as.fill;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    NODE_OF_TYPE(hNode, MEMSET);
    REQUIRE_ARGUMENT(nodeParams);
    CHECK(fill_check(nodeParams));
    node->as.fill = *nodeParams;
    return CUDA_SUCCESS;
}

/* ---- memory of the graph ---- */

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    NODE_OF_TYPE(hNode, MEM_ALLOC);
    REQUIRE_ARGUMENT(params_out);
    *params_out = node->as.alloc.parameters;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    NODE_OF_TYPE(hNode, MEM_FREE);
    REQUIRE_ARGUMENT(dptr_out);
    *dptr_out = node->as.freed;
    return CUDA_SUCCESS;
}

/* ---- host functions, events, child graphs ---- */

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    NODE_OF_TYPE(hNode, HOST);
    REQUIRE_ARGUMENT(nodeParams);
    *nodeParams = node->as.host;
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    NODE_OF_TYPE(hNode, HOST);
    REQUIRE_ARGUMENT(nodeParams && nodeParams->fn);
    node->as.host = *nodeParams;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    NODE_OF_TYPE(hNode, EVENT_RECORD);
    REQUIRE_ARGUMENT(event_out);
    *event_out = node->as.event;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    NODE_OF_TYPE(hNode, EVENT_RECORD);
    REQUIRE(event_find(event), CUDA_ERROR_INVALID_HANDLE);
    node->as.event = event;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    NODE_OF_TYPE(hNode, WAIT_EVENT);
    REQUIRE_ARGUMENT(event_out);
    *event_out = node->as.event;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    NODE_OF_TYPE(hNode, WAIT_EVENT);
    REQUIRE(event_find(event), CUDA_ERROR_INVALID_HANDLE);
    node->as.event = event;
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    NODE_OF_TYPE(hNode, GRAPH);
    REQUIRE_ARGUMENT(phGraph && node->as.child);
    *phGraph = node->as.child->handle;
    return CUDA_SUCCESS;
}
