/* The calls that launch: a launch is checked and counted, or becomes a graph node. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- the launch calls ---- */

static CUresult capture_launch(Stream *stream, Launch *launch, void **parameters, void **extra)
{
    CHECK(launch_keep_arguments(launch, parameters, extra));
    launch->kernel->library->references++;
    stream_add_node(stream, CU_GRAPH_NODE_TYPE_KERNEL)->as.launch = *launch;
    state.captured_launches++;
    return CUDA_SUCCESS;
}

static CUresult submit(const Context *context, CUfunction function, Launch launch, CUstream handle, void **parameters,
                       void **extra)
{
    Stream *stream = NULL;
    launch.kernel = kernel_find(function);
    REQUIRE(launch.kernel, CUDA_ERROR_INVALID_HANDLE);
    CHECK(stream_find(context, handle, &stream));
    REQUIRE(stream->device == context->device, CUDA_ERROR_INVALID_HANDLE);
    CHECK(stream_submit(stream));
    CUresult result = launch_check(&launch, context->device);
    if (result == CUDA_SUCCESS) result = launch_check_arguments(launch.kernel, parameters, extra);
    if (result != CUDA_SUCCESS && stream->capture) stream->capture->invalid = true; /* a refused launch spoils it */
    CHECK(result);
    if (stream->capture) return capture_launch(stream, &launch, parameters, extra);
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
    for (unsigned i = 0; i < config->numAttrs; i++)
        launch_set_attribute(&launch, config->attrs[i].id, &config->attrs[i].value);
    return submit(context, f, launch, config->hStream, kernelParams, extra);
}

/* ---- host functions ---- */

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    ENTER_CONTEXT();
    Stream *stream = NULL;
    REQUIRE_ARGUMENT(fn);
    CHECK(stream_for_work(context, hStream, &stream));
    if (stream->capture) {
        CUDA_HOST_NODE_PARAMS host = {.fn = fn, .userData = userData};
        stream_add_node(stream, CU_GRAPH_NODE_TYPE_HOST)->as.host = host;
    } else {
        call_after_unlock(fn, userData);
    }
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
    REQUIRE_ARGUMENT(callback && flags == 0);
    CHECK(stream_not_captured(context, hStream));
    StreamCallback *kept = allocate(1, sizeof *kept);
    *kept = (StreamCallback){hStream, callback, userData};
    call_after_unlock(run_stream_callback, kept);
    return CUDA_SUCCESS;
}
