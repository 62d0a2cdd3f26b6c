/* The calls that launch: a launch is checked and counted, or becomes a graph node. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- the launch calls ---- */

static CUresult capture_launch(Stream *stream, Launch *launch, void **parameters, void **extra)
{
    Node *node = NULL;
    CHECK(launch_keep_arguments(launch, parameters, extra));
    CHECK(stream_add_node(stream, CU_GRAPH_NODE_TYPE_KERNEL, &node));
    launch->kernel->library->references++;
    node->as.launch = *launch;
    state.captured_launches++;
    return CUDA_SUCCESS;
}

static CUresult submit(const Context *context, CUfunction function, Launch launch, CUstream handle, void **parameters,
                       void **extra)
{
    Stream *stream = NULL;
    Capture *capture = NULL;
    launch.kernel = kernel_find(function);
    REQUIRE(launch.kernel, CUDA_ERROR_INVALID_HANDLE);
    CHECK(stream_find(context, handle, &stream));
    REQUIRE(stream->device == context->device, CUDA_ERROR_INVALID_HANDLE);
    CHECK(stream_submit(stream, &capture));
    CUresult result = launch_check(&launch, context->device);
    if (result == CUDA_SUCCESS) result = launch_check_arguments(launch.kernel, parameters, extra);
    if (result != CUDA_SUCCESS && capture) capture->invalid = true; /* a refused launch spoils the capture */
    CHECK(result);
    if (capture) return capture_launch(stream, &launch, parameters, extra);
    state.launches++;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    ENTER_CONTEXT();
    Launch launch = {.grid = {gridDimX, gridDimY, gridDimZ}, .block = {blockDimX, blockDimY, blockDimZ},
                     .dynamic_shared = sharedMemBytes};
    return submit(context, f, launch, hStream, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    ENTER_CONTEXT();
    Launch launch = {.grid = {gridDimX, gridDimY, gridDimZ}, .block = {blockDimX, blockDimY, blockDimZ},
                     .dynamic_shared = sharedMemBytes, .cooperative = true};
    return submit(context, f, launch, hStream, kernelParams, NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(config && (config->attrs || config->numAttrs == 0));
    Launch launch = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                     .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                     .dynamic_shared = config->sharedMemBytes};
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            launch.cooperative = value->cooperative != 0;
        } else if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            launch.has_cluster = true;
            launch.cluster[0] = value->clusterDim.x;
            launch.cluster[1] = value->clusterDim.y;
            launch.cluster[2] = value->clusterDim.z;
        }
    }
    return submit(context, f, launch, config->hStream, kernelParams, extra);
}

/* ---- host functions ---- */

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    Capture *capture = NULL;
    Node *node = NULL;
    REQUIRE_ARGUMENT(fn);
    CHECK(stream_find(context, hStream, &stream));
    CHECK(stream_submit(stream, &capture));
    if (!capture) {
        call_after_unlock(fn, userData);
        return CUDA_SUCCESS;
    }
    CHECK(stream_add_node(stream, CU_GRAPH_NODE_TYPE_HOST, &node));
    node->as.host = (CUDA_HOST_NODE_PARAMS){.fn = fn, .userData = userData};
    return CUDA_SUCCESS;
}

typedef struct StreamCallback {
    CUstream stream;
    CUstreamCallback function;
    void *argument;
} StreamCallback;

static void run_stream_callback(void *argument)
{
    StreamCallback *callback = argument;
    callback->function(callback->stream, CUDA_SUCCESS, callback->argument);
    free(callback);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    Capture *capture = NULL;
    REQUIRE_ARGUMENT(callback && flags == 0);
    CHECK(stream_find(context, hStream, &stream));
    if (stream->capture) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CHECK(stream_submit(stream, &capture));
    StreamCallback *kept = allocate(1, sizeof *kept);
    *kept = (StreamCallback){hStream, callback, userData};
    call_after_unlock(run_stream_callback, kept);
    return CUDA_SUCCESS;
}
