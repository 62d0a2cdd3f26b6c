/* Kernels: questions about one, and settings of one. A CUkernel and its CUfunction are one handle here, so either
 * works wherever the driver takes either. */
#include "driver.h"

Kernel *kernel_find(CUfunction handle) { return handle_object(handle, KIND_KERNEL); }

size_t kernel_parameter_bytes(const Kernel *kernel)
{
    size_t bytes = 0;
    for (int i = 0; i < kernel->parameter_count; i++) {
        size_t end = (size_t)kernel->parameters[i].offset + kernel->parameters[i].bytes;
        if (end > bytes) bytes = end;
    }
    return bytes;
}

/* What it may ask for at a launch: what cuFuncSetAttribute allowed, or the rest of the default. */
int kernel_max_dynamic_shared(const Kernel *kernel, CUdevice device)
{
    int rest = DEFAULT_SHARED_PER_BLOCK - kernel->static_shared_bytes;
    return kernel->max_dynamic_shared[device] ? kernel->max_dynamic_shared[device] : rest > 0 ? rest : 0;
}

/* ---- attributes ---- */

CUresult kernel_attribute(const Kernel *kernel, CUfunction_attribute attribute, CUdevice device, int *value)
{
    REQUIRE_ARGUMENT(value);
    int capability = kernel->library->capability;
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kernel->max_threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = kernel->static_shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = kernel->constant_bytes; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = kernel->local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = kernel->registers; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = capability; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = kernel->library->portable || !capability ? state.devices[device].profile->capability : capability;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = kernel_max_dynamic_shared(kernel, device); break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = kernel->preferred_carveout - 1; break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = kernel->non_portable_cluster; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = kernel->required_cluster[0] > 0; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = (int)kernel->required_cluster[0]; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = (int)kernel->required_cluster[1]; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = (int)kernel->required_cluster[2]; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(Kernel *kernel, CUfunction_attribute attribute, CUdevice device, int value)
{
    switch ((int)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
        int most = state.devices[device].profile->shared_per_block_optin - kernel->static_shared_bytes;
        REQUIRE_ARGUMENT(value >= 0 && value <= most);
        kernel->max_dynamic_shared[device] = value;
        return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        REQUIRE_ARGUMENT(value >= -1 && value <= 100);
        kernel->preferred_carveout = value + 1; /* kept with 0 for the default, -1 */
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        kernel->non_portable_cluster = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel handle, CUdevice dev)
{
    ENTER_KERNEL(handle);
    REQUIRE_DEVICE(dev);
    return kernel_attribute(kernel, attrib, dev, pi);
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    ENTER_KERNEL(hfunc);
    REQUIRE_CONTEXT();
    return kernel_attribute(kernel, attrib, context->device, pi);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel handle, CUdevice dev)
{
    ENTER_KERNEL(handle);
    REQUIRE_DEVICE(dev);
    return set_attribute(kernel, attrib, dev, val);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    ENTER_KERNEL(hfunc);
    REQUIRE_CONTEXT();
    return set_attribute(kernel, attrib, context->device, value);
}

CUresult cuKernelSetCacheConfig(CUkernel handle, UNUSED(CUfunc_cache, config), CUdevice dev)
{
    ENTER_KERNEL(handle);
    REQUIRE_DEVICE(dev);
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, UNUSED(CUfunc_cache, config))
{
    ENTER_KERNEL(hfunc);
    REQUIRE_CONTEXT();
    return CUDA_SUCCESS;
}

/* ---- name, parameters, library: one call for a CUkernel and one for a CUfunction ---- */

#define GETTER(function, type, handle_type, value)   \
    CUresult function(type *out, handle_type handle) \
    {                                                \
        ENTER_KERNEL(handle);                        \
        ANSWER(out, value);                          \
    }

GETTER(cuKernelGetName, const char *, CUkernel, kernel->name)
GETTER(cuFuncGetName, const char *, CUfunction, kernel->name)
GETTER(cuKernelGetLibrary, CUlibrary, CUkernel, kernel->library->handle)
GETTER(cuFuncGetModule, CUmodule, CUfunction, (CUmodule)kernel->library->handle)
GETTER(cuFuncIsLoaded, CUfunctionLoadingState, CUfunction, CU_FUNCTION_LOADING_STATE_LOADED)

#define PARAMETER_GETTER(function, handle_type)                                                                    \
    CUresult function(handle_type handle, size_t index, size_t *offset, size_t *bytes)                             \
    {                                                                                                              \
        ENTER_KERNEL(handle);                                                                                      \
        REQUIRE_ARGUMENT(kernel->parameter_count > 0 && index < (size_t)kernel->parameter_count);                  \
        if (bytes) *bytes = kernel->parameters[index].bytes;                                                       \
        ANSWER(offset, kernel->parameters[index].offset);                                                          \
    }

PARAMETER_GETTER(cuKernelGetParamInfo, CUkernel)
PARAMETER_GETTER(cuFuncGetParamInfo, CUfunction)

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel handle)
{
    ENTER_KERNEL(handle);
    REQUIRE_CONTEXT();
    REQUIRE(library_runs_on(kernel->library, context->device), CUDA_ERROR_NO_BINARY_FOR_GPU);
    ANSWER(pFunc, kernel->handle);
}

CUresult cuFuncLoad(CUfunction function)
{
    ENTER_KERNEL(function);
    REQUIRE_CONTEXT();
    return CUDA_SUCCESS;
}
