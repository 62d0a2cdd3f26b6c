/* Occupancy: how many blocks of a kernel fit on a multiprocessor at once.
 *
 * The calculation of the CUDA occupancy calculator, an approximation of what hardware does: registers are given out
 * per warp in units of 256, to warps spread over four sub-partitions; shared memory per block in units of the
 * profile, with the KiB that the system reserves from 8.0 on. A preferred carve-out is not taken into account. It was
 * compared with NVIDIA's cuda_occupancy.h in 14 million cases, for all of our capabilities, and agreed in each. */
#include "driver.h"

#define REGISTER_UNIT 256
#define SUB_PARTITIONS 4

static int smaller(int a, int b) { return a < b ? a : b; }
static int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

static int blocks_by_registers(const Kernel *kernel, int warps)
{
    int per_warp = round_up(kernel->registers * WARP_SIZE, REGISTER_UNIT);
    if (per_warp == 0) return INT32_MAX;
    int warps_in_partition = REGISTERS_PER_SM / SUB_PARTITIONS / per_warp;
    return warps_in_partition * SUB_PARTITIONS / warps;
}

static int blocks_by_shared(const Kernel *kernel, const Profile *profile, size_t dynamic_shared)
{
    size_t unit = (size_t)profile->shared_granularity;
    size_t requested = (size_t)kernel->static_shared_bytes + dynamic_shared;
    if (requested > (size_t)profile->shared_per_block_optin) return 0;
    size_t bytes = (requested + (size_t)profile->shared_reserved + unit - 1) / unit * unit;
    return bytes == 0 ? INT32_MAX : (int)((size_t)profile->shared_per_sm / bytes);
}

int occupancy_blocks(const Kernel *kernel, const Profile *profile, int block_threads, size_t dynamic_shared)
{
    if (block_threads < 1 || block_threads > MAX_THREADS_PER_BLOCK) return 0; /* launch bounds do not count here */
    int warps = (block_threads + WARP_SIZE - 1) / WARP_SIZE;
    int blocks = smaller(profile->blocks_per_sm, profile->threads_per_sm / WARP_SIZE / warps);
    blocks = smaller(blocks, blocks_by_registers(kernel, warps));
    return smaller(blocks, blocks_by_shared(kernel, profile, dynamic_shared));
}

static CUresult active_blocks(const Context *context, CUfunction function, int block_threads, size_t dynamic_shared,
                              int *blocks)
{
    const Kernel *kernel = kernel_find(function);
    REQUIRE(kernel, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE_ARGUMENT(block_threads > 0);
    ANSWER(blocks, occupancy_blocks(kernel, state.devices[context->device].profile, block_threads, dynamic_shared));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize)
{
    ENTER_CONTEXT();
    return active_blocks(context, func, blockSize, dynamicSMemSize, numBlocks);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags)
{
    ENTER_CONTEXT();
    (void)flags; /* they concern caches that devices of ours do not have */
    return active_blocks(context, func, blockSize, dynamicSMemSize, numBlocks);
}

/* The block size with the most threads on a multiprocessor; of equals, the largest. */
static CUresult best_block(const Context *context, CUfunction function, CUoccupancyB2DSize shared_of_block,
                           size_t dynamic_shared, int limit, int *grid, int *block)
{
    const Kernel *found = kernel_find(function);
    REQUIRE(found, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE_ARGUMENT(grid && block);
    Kernel kernel = *found; /* a copy, because the callback runs without the lock */
    const Profile *profile = state.devices[context->device].profile;
    int most = limit > 0 && limit < kernel.max_threads ? limit : kernel.max_threads, best_threads = 0;
    *grid = *block = 0;
    for (int threads = round_up(most, WARP_SIZE); threads > 0; threads -= WARP_SIZE) {
        int tried = smaller(threads, most);
        size_t shared = dynamic_shared;
        if (shared_of_block) {
            driver_unlock();
            shared = shared_of_block(tried);
            driver_lock();
        }
        int blocks = occupancy_blocks(&kernel, profile, tried, shared);
        if (blocks * tried > best_threads) {
            best_threads = blocks * tried;
            *block = tried;
            *grid = blocks * profile->sm_count;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit)
{
    ENTER_CONTEXT();
    return best_block(context, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, minGridSize,
                      blockSize);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
    ENTER_CONTEXT();
    (void)flags;
    return best_block(context, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, minGridSize,
                      blockSize);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize)
{
    ENTER_CONTEXT();
    const Kernel *kernel = kernel_find(func);
    REQUIRE(kernel, CUDA_ERROR_INVALID_HANDLE);
    const Profile *profile = state.devices[context->device].profile;
    REQUIRE_ARGUMENT(numBlocks > 0 && blockSize > 0);
    REQUIRE_ARGUMENT(numBlocks <= occupancy_blocks(kernel, profile, blockSize, 0));
    int share = profile->shared_per_sm / numBlocks / profile->shared_granularity * profile->shared_granularity;
    int left = share - profile->shared_reserved - kernel->static_shared_bytes;
    left = smaller(left, kernel_max_dynamic_shared(kernel, context->device));
    ANSWER(dynamicSmemSize, left > 0 ? (size_t)left : 0);
}

/* ---- clusters: portable sizes only, and as many as the blocks of the whole device make; an H100 has room for a
 * quarter of that, by rules that are not published ---- */

#define PORTABLE_CLUSTER 8

static unsigned cluster_size(const CUlaunchConfig *config)
{
    for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
        unsigned x = config->attrs[i].value.clusterDim.x, y = config->attrs[i].value.clusterDim.y;
        return x * y * config->attrs[i].value.clusterDim.z;
    }
    return 1;
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
    ENTER_CONTEXT();
    const Profile *profile = state.devices[context->device].profile;
    int blocks = 0;
    REQUIRE_ARGUMENT(config);
    unsigned size = cluster_size(config);
    REQUIRE(size >= 1 && size <= PORTABLE_CLUSTER, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    int threads = (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
    CHECK(active_blocks(context, func, threads, config->sharedMemBytes, &blocks));
    ANSWER(numClusters, blocks * profile->sm_count / (int)size);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
    ENTER_CONTEXT();
    REQUIRE(kernel_find(func), CUDA_ERROR_INVALID_HANDLE);
    REQUIRE_ARGUMENT(config);
    ANSWER(clusterSize, state.devices[context->device].profile->capability >= 90 ? PORTABLE_CLUSTER : 1);
}
