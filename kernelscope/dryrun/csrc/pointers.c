/* What is known about a pointer. */
#include "driver.h"

#include <string.h>

static bool host_only(const Allocation *found)
{
    return found->kind == MEMORY_HOST || found->kind == MEMORY_REGISTERED;
}

/* Stands for the allocation of a pointer that is not ours. */
static const Allocation nothing = {.device = -2 /* CU_DEVICE_INVALID */};

/* Write the attribute of an allocation; of `nothing`, zero as far as the attribute's size is known. */
static CUresult attribute_of(const Allocation *found, CUpointer_attribute attribute, CUdeviceptr pointer, void *out)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)out = found->context; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = found == &nothing ? 0 : host_only(found) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)out = pointer; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)out = found->kind == MEMORY_DEVICE ? NULL : (void *)pointer;
        return found->kind == MEMORY_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)out = found->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)out = found->kind == MEMORY_MANAGED; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)out = found->device; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)out = (CUdeviceptr)found->start; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)out = found->bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)out = found != &nothing; break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)out = (unsigned)found->sync_memops; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(unsigned *)out = 0; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)out = 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        if (found != &nothing) *(int *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = found->pool ? found->pool->handle : NULL;
        break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(data);
    const Allocation *found = memory_find(ptr);
    REQUIRE_ARGUMENT(found);
    return attribute_of(found, attribute, ptr, data);
}

/* Unlike the call for one, this succeeds for a pointer that is not ours. */
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr ptr)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(attributes && data);
    const Allocation *found = memory_find(ptr);
    for (unsigned i = 0; i < numAttributes; i++) {
        REQUIRE_ARGUMENT(data[i]);
        attribute_of(found ? found : &nothing, attributes[i], found ? ptr : 0, data[i]);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    ENTER_CONTEXT();
    Allocation *found = memory_find(ptr);
    REQUIRE_ARGUMENT(value && found && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
    memcpy(&found->sync_memops, value, sizeof found->sync_memops);
    return CUDA_SUCCESS;
}
