/* A launch: its check, as the driver would make it, and the copy of its arguments that a graph keeps. */
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

CUresult launch_check_arguments(const Kernel *kernel, void **parameters, void **extra)
{
    REQUIRE_ARGUMENT(!(parameters && extra));
    REQUIRE_ARGUMENT(parameters || extra || kernel->parameter_count <= 0);
    for (int i = 0; parameters && i < kernel->parameter_count; i++) REQUIRE_ARGUMENT(parameters[i]);
    return CUDA_SUCCESS;
}

CUresult launch_keep_arguments(Launch *launch, void **parameters, void **extra)
{
    const Kernel *kernel = launch->kernel;
    CHECK(launch_check_arguments(kernel, parameters, extra));
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

void launch_set_attribute(Launch *launch, CUlaunchAttributeID attribute, const CUlaunchAttributeValue *value)
{
    if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        launch->cooperative = value->cooperative != 0;
    } else if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        launch->has_cluster = true;
        launch->cluster[0] = value->clusterDim.x;
        launch->cluster[1] = value->clusterDim.y;
        launch->cluster[2] = value->clusterDim.z;
    }
}

void launch_clear(Launch *launch)
{
    free(launch->arguments);
    free(launch->argument_list);
    if (launch->kernel) library_release(launch->kernel->library);
    *launch = (Launch){0};
}
