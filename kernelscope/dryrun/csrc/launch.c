/* Launches: check one as the driver would, then count it, or make it a graph node. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CLUSTER 8
#define MAX_CLUSTER_NON_PORTABLE 16

/* ---- checks ---- */

static CUresult check_dimensions(const Launch *launch, unsigned long long *blocks, unsigned *threads)
{
    const unsigned *grid = launch->grid, *block = launch->block;
    REQUIRE_ARGUMENT(grid[0] && grid[1] && grid[2] && block[0] && block[1] && block[2]);
    REQUIRE_ARGUMENT(grid[0] <= 2147483647u && grid[1] <= 65535 && grid[2] <= 65535);
    REQUIRE_ARGUMENT(block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64);
    *blocks = (unsigned long long)grid[0] * grid[1] * grid[2];
    *threads = block[0] * block[1] * block[2];
    return CUDA_SUCCESS;
}

static CUresult check_cluster(const Launch *launch, const Profile *profile)
{
    const Kernel *kernel = launch->kernel;
    const unsigned *cluster = launch->has_cluster ? launch->cluster : kernel->required_cluster;
    if (!launch->has_cluster && !cluster[0]) return CUDA_SUCCESS;
    unsigned most = kernel->non_portable_cluster ? MAX_CLUSTER_NON_PORTABLE : MAX_CLUSTER;
    for (int i = 0; i < 3; i++) {
        bool fits = cluster[i] > 0 && cluster[i] <= most && launch->grid[i] % cluster[i] == 0;
        REQUIRE(fits, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    unsigned blocks = cluster[0] * cluster[1] * cluster[2];
    bool possible = blocks <= most && (blocks == 1 || profile->capability >= 90);
    return possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult launch_check(const Launch *launch, CUdevice device)
{
    const Kernel *kernel = launch->kernel;
    const Profile *profile = state.devices[device].profile;
    unsigned long long blocks = 0;
    unsigned threads = 0;
    REQUIRE(library_runs_on(kernel->library, device), CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK(check_dimensions(launch, &blocks, &threads));
    REQUIRE_ARGUMENT(threads <= (unsigned)kernel->max_threads); /* its launch bounds, or 1024 */
    int rest = DEFAULT_SHARED_PER_BLOCK - kernel->static_shared_bytes, allowed = kernel->max_dynamic_shared[device];
    REQUIRE_ARGUMENT(launch->dynamic_shared <= (unsigned)(allowed > rest ? allowed : rest > 0 ? rest : 0));
    CHECK(check_cluster(launch, profile));
    int resident = occupancy_blocks(kernel, profile, (int)threads, launch->dynamic_shared);
    REQUIRE(resident > 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    bool too_large = launch->cooperative && blocks > (unsigned long long)resident * (unsigned)profile->sm_count;
    return too_large ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

/* ---- arguments: copied for graph nodes only ---- */

static char *buffer_in(void **extra)
{
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) return extra[1];
    return NULL;
}

static CUresult check_arguments(const Kernel *kernel, void **parameters, void **extra)
{
    REQUIRE_ARGUMENT(!(parameters && extra));
    REQUIRE_ARGUMENT(parameters || extra || kernel->parameter_count <= 0);
    for (int i = 0; parameters && i < kernel->parameter_count; i++) REQUIRE_ARGUMENT(parameters[i]);
    return CUDA_SUCCESS;
}

CUresult launch_keep_arguments(Launch *launch, void **parameters, void **extra)
{
    const Kernel *kernel = launch->kernel;
    CHECK(check_arguments(kernel, parameters, extra));
    if (kernel->parameter_count <= 0) return CUDA_SUCCESS;
    char *buffer = extra ? buffer_in(extra) : NULL;
    REQUIRE_ARGUMENT(parameters || buffer);
    launch->arguments = allocate(kernel_parameter_bytes(kernel), 1);
    launch->argument_list = allocate((size_t)kernel->parameter_count, sizeof *launch->argument_list);
    for (int i = 0; i < kernel->parameter_count; i++) {
        Parameter parameter = kernel->parameters[i];
        launch->argument_list[i] = launch->arguments + parameter.offset;
        memcpy(launch->argument_list[i], parameters ? parameters[i] : buffer + parameter.offset, parameter.bytes);
    }
    return CUDA_SUCCESS;
}

CUresult launch_copy(Launch *copy, const Launch *source)
{
    *copy = *source;
    copy->arguments = NULL;
    copy->argument_list = NULL;
    copy->kernel->library->references++;
    return source->argument_list ? launch_keep_arguments(copy, source->argument_list, NULL) : CUDA_SUCCESS;
}

void launch_clear(Launch *launch)
{
    free(launch->arguments);
    free(launch->argument_list);
    if (launch->kernel) library_release(launch->kernel->library);
    *launch = (Launch){0};
}

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
    if (result == CUDA_SUCCESS) result = check_arguments(launch.kernel, parameters, extra);
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
