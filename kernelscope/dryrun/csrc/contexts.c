/* Contexts: one primary context a device, others on request, and each thread's stack of them. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define STACK_DEPTH 64

static Context primary_contexts[MAX_DEVICES];
static __thread CUcontext stack[STACK_DEPTH];
static __thread int depth;

static void context_start(Context *context, CUdevice device)
{
    context->handle = handle_new(KIND_CONTEXT, context);
    context->device = device;
    context->id = new_id();
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    context->limits[CU_LIMIT_SHMEM_SIZE] = (size_t)state.devices[device].profile->shared_per_block_optin;
}

void contexts_start(void)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        context_start(&primary_contexts[i], i);
        primary_contexts[i].primary = true;
    }
}

Context *context_find(CUcontext handle) { return handle_object(handle, KIND_CONTEXT); }

Context *context_primary(CUdevice device) { return &primary_contexts[device]; }

CUresult context_current(Context **context)
{
    if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    *context = context_find(stack[depth - 1]);
    return *context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult push(CUcontext handle)
{
    if (depth == STACK_DEPTH) return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = handle;
    return CUDA_SUCCESS;
}

/* ---- primary contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    ENTER_DEVICE(dev);
    REQUIRE_ARGUMENT(pctx);
    Context *context = context_primary(dev);
    context->retained++;
    context->active = true;
    ANSWER(pctx, context->handle);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    ENTER_DEVICE(dev);
    Context *context = context_primary(dev);
    REQUIRE(context->retained > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--context->retained == 0) context->active = false;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    ENTER_DEVICE(dev);
    context_primary(dev)->active = false;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    ENTER_DEVICE(dev);
    REQUIRE_ARGUMENT(flags && active);
    *flags = context_primary(dev)->flags;
    *active = context_primary(dev)->active;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    ENTER_DEVICE(dev);
    context_primary(dev)->flags = flags;
    return CUDA_SUCCESS;
}

/* ---- other contexts ---- */

static CUresult create(CUcontext *out, unsigned flags, CUdevice device)
{
    REQUIRE_DEVICE(device);
    REQUIRE_ARGUMENT(out);
    Context *context = allocate(1, sizeof *context);
    context_start(context, device);
    context->active = true;
    context->flags = flags;
    CUresult result = push(context->handle);
    if (result != CUDA_SUCCESS) {
        handle_free(context->handle);
        free(context);
        return result;
    }
    *out = context->handle;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    ENTER();
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                        CUdevice dev)
{
    ENTER();
    REQUIRE(!paramsArray || numParams == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    ENTER();
    REQUIRE(!ctxCreateParams || ctxCreateParams->numExecAffinityParams == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    return create(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    ENTER();
    Context *context = context_find(ctx);
    REQUIRE(context && !context->primary, CUDA_ERROR_INVALID_CONTEXT);
    if (depth > 0 && stack[depth - 1] == ctx) depth--;
    handle_free(ctx);
    free(context);
    return CUDA_SUCCESS;
}

/* ---- the thread's stack ---- */

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    ENTER();
    REQUIRE_ARGUMENT(ctx);
    REQUIRE(context_find(ctx), CUDA_ERROR_INVALID_CONTEXT);
    return push(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    ENTER();
    REQUIRE(depth > 0, CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (pctx) *pctx = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    ENTER();
    if (!ctx) {
        if (depth > 0) depth--;
        return CUDA_SUCCESS;
    }
    REQUIRE(context_find(ctx), CUDA_ERROR_INVALID_CONTEXT);
    if (depth == 0) return push(ctx);
    stack[depth - 1] = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    ENTER();
    ANSWER(pctx, depth > 0 ? stack[depth - 1] : NULL);
}

/* ---- questions about a context: the current one where ctx is NULL ---- */

static CUresult given_or_current(CUcontext handle, Context **context)
{
    if (!handle) return context_current(context);
    *context = context_find(handle);
    return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

#define ENTER_GIVEN_CONTEXT(handle)                \
    ENTER();                                       \
    Context *context = NULL;                       \
    CHECK(given_or_current(handle, &context))

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    ENTER_GIVEN_CONTEXT(ctx);
    ANSWER(device, context->device);
}

CUresult cuCtxGetDevice(CUdevice *device) { return cuCtxGetDevice_v2(device, NULL); }

CUresult cuCtxGetFlags(unsigned int *flags)
{
    ENTER_CONTEXT();
    ANSWER(flags, context->flags | CU_CTX_MAP_HOST); /* always so with unified addressing */
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    ENTER_GIVEN_CONTEXT(ctx);
    ANSWER(ctxId, context->id);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    ENTER_GIVEN_CONTEXT(ctx);
    ANSWER(version, 3020);
}

static CUresult check_limit(CUlimit limit)
{
    REQUIRE_ARGUMENT((unsigned)limit < CONTEXT_LIMITS);
    bool absent = limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED;
    return absent ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    ENTER_CONTEXT();
    CHECK(check_limit(limit));
    ANSWER(pvalue, context->limits[limit]);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    ENTER_CONTEXT();
    CHECK(check_limit(limit));
    context->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    ENTER_CONTEXT();
    ANSWER(pconfig, context->cache_config);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    ENTER_CONTEXT();
    context->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    ENTER_CONTEXT();
    if (leastPriority) *leastPriority = 0;
    if (greatestPriority) *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    ENTER_GIVEN_CONTEXT(ctx);
    return capture_forbids_synchronize(context);
}

CUresult cuCtxSynchronize(void) { return cuCtxSynchronize_v2(NULL); }

/* ---- peers: all memory is the host's, so access needs nothing; the calls are checked only ---- */

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    ENTER_CONTEXT();
    Context *peer = context_find(peerContext);
    REQUIRE(peer, CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(peer->device != context->device, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    REQUIRE_ARGUMENT(Flags == 0);
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    ENTER_CONTEXT();
    REQUIRE(context_find(peerContext), CUDA_ERROR_INVALID_CONTEXT);
    return CUDA_SUCCESS;
}

/* ---- the profiler's switch, which has nothing to switch ---- */

CUresult cuProfilerStart(void)
{
    ENTER_CONTEXT();
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    ENTER_CONTEXT();
    return CUDA_SUCCESS;
}
