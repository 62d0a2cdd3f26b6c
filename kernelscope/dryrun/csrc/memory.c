/* Memory: every allocation is a mapping of host pages, zeroed and committed when first touched, and is listed by
 * address so that any pointer into it can be checked. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICE_KINDS (1u << MEMORY_DEVICE | 1u << MEMORY_MANAGED)
#define PITCH_ALIGNMENT 512

static Allocation **allocations; /* by address */
static size_t allocation_count, allocation_capacity;
static size_t page_bytes;

void memory_start(void) { page_bytes = (size_t)sysconf(_SC_PAGESIZE); }

/* How many allocations start at or below an address. */
static size_t position_after(const char *address)
{
    size_t low = 0, high = allocation_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (allocations[middle]->start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

Allocation *memory_find(CUdeviceptr pointer)
{
    const char *address = (const char *)pointer;
    size_t after = position_after(address);
    if (after == 0) return NULL;
    Allocation *found = allocations[after - 1];
    return (size_t)(address - found->start) < found->bytes ? found : NULL;
}

bool memory_holds(CUdeviceptr pointer, size_t bytes)
{
    const Allocation *found = memory_find(pointer);
    return found && bytes <= found->bytes - (size_t)((const char *)pointer - found->start);
}

/* ---- accounts ---- */

void pool_used(Pool *pool, size_t bytes)
{
    pool->used += bytes;
    if (pool->used > pool->used_high) pool->used_high = pool->used;
}

/* A destroyed pool lives on until its last allocation is freed. */
void pool_free_if_over(Pool *pool)
{
    if (!pool->handle && pool->used == 0) free(pool);
}

void pool_unused(Pool *pool, size_t bytes)
{
    pool->used -= bytes;
    pool_free_if_over(pool);
}

/* ---- allocations ---- */

static Allocation *add(Allocation values)
{
    if (allocation_count == allocation_capacity) {
        allocation_capacity = allocation_capacity ? 2 * allocation_capacity : 64;
        allocations = reallocate(allocations, allocation_capacity, sizeof *allocations);
    }
    Allocation *allocation = allocate(1, sizeof *allocation);
    *allocation = values;
    allocation->id = new_id();
    size_t at = position_after(values.start);
    memmove(allocations + at + 1, allocations + at, (allocation_count - at) * sizeof *allocations);
    allocations[at] = allocation;
    allocation_count++;
    return allocation;
}

CUresult memory_allocate(size_t bytes, MemoryKind kind, Context *context, Pool *pool, unsigned flags,
                         Allocation **allocation)
{
    REQUIRE_ARGUMENT(bytes > 0);
    Device *device = &state.devices[context->device];
    if (kind == MEMORY_DEVICE) {
        REQUIRE(bytes <= device->profile->memory_bytes - device->bytes_in_use, CUDA_ERROR_OUT_OF_MEMORY);
    }
    size_t mapped = 0;
    REQUIRE(!__builtin_add_overflow(bytes, page_bytes - 1, &mapped), CUDA_ERROR_OUT_OF_MEMORY);
    mapped &= ~(page_bytes - 1);
    void *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(start != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    if (kind == MEMORY_DEVICE) device->bytes_in_use += bytes;
    if (pool) pool_used(pool, bytes);
    *allocation = add((Allocation){.start = start, .bytes = bytes, .mapped_bytes = mapped, .kind = kind,
                                   .device = context->device, .pool = pool, .context = context->handle,
                                   .flags = flags, .sync_memops = kind == MEMORY_DEVICE});
    return CUDA_SUCCESS;
}

CUresult memory_free(CUdeviceptr pointer, unsigned kinds)
{
    Allocation *found = memory_find(pointer);
    REQUIRE_ARGUMENT(found && found->start == (char *)pointer && kinds & 1u << found->kind);
    size_t at = position_after(found->start) - 1;
    memmove(allocations + at, allocations + at + 1, (allocation_count - at - 1) * sizeof *allocations);
    allocation_count--;
    if (found->kind == MEMORY_DEVICE) state.devices[found->device].bytes_in_use -= found->bytes;
    if (found->pool) pool_unused(found->pool, found->bytes);
    if (found->mapped_bytes) munmap(found->start, found->mapped_bytes);
    free(found);
    return CUDA_SUCCESS;
}

/* ---- device and managed memory ---- */

static CUresult allocate_for_caller(void **out, size_t bytes, MemoryKind kind, Context *context, unsigned flags)
{
    Allocation *allocation = NULL;
    REQUIRE_ARGUMENT(out);
    CHECK(capture_forbids_unsafe_call());
    CHECK(memory_allocate(bytes, kind, context, NULL, flags, &allocation));
    *out = allocation->start;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    ENTER_CONTEXT();
    return allocate_for_caller((void **)dptr, bytesize, MEMORY_DEVICE, context, 0);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(pPitch && WidthInBytes && WidthInBytes <= SIZE_MAX - PITCH_ALIGNMENT);
    REQUIRE_ARGUMENT(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
    size_t pitch = (WidthInBytes + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT, bytes = 0;
    REQUIRE(!__builtin_mul_overflow(pitch, Height, &bytes), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(allocate_for_caller((void **)dptr, bytes, MEMORY_DEVICE, context, 0));
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST);
    return allocate_for_caller((void **)dptr, bytesize, MEMORY_MANAGED, context, flags);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    ENTER();
    CHECK(capture_forbids_unsafe_call());
    return dptr ? memory_free(dptr, DEVICE_KINDS) : CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(free && total);
    const Device *device = &state.devices[context->device];
    *total = device->profile->memory_bytes;
    *free = *total - device->bytes_in_use;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    ENTER_CONTEXT();
    const Allocation *found = memory_find(dptr);
    REQUIRE(found, CUDA_ERROR_NOT_FOUND);
    if (pbase) *pbase = (CUdeviceptr)found->start;
    if (psize) *psize = found->bytes;
    return CUDA_SUCCESS;
}

/* Placement hints: there is one memory only. */

#define HINT(function, ...)                                                                  \
    CUresult function(CUdeviceptr pointer, size_t bytes, __VA_ARGS__)                         \
    {                                                                                        \
        ENTER_CONTEXT();                                                                     \
        return memory_holds(pointer, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;       \
    }

HINT(cuMemAdvise, UNUSED(CUmem_advise, advice), UNUSED(CUdevice, device))
HINT(cuMemAdvise_v2, UNUSED(CUmem_advise, advice), UNUSED(CUmemLocation, location))
HINT(cuMemPrefetchAsync, UNUSED(CUdevice, device), UNUSED(CUstream, stream))
HINT(cuMemPrefetchAsync_v2, UNUSED(CUmemLocation, location), UNUSED(unsigned, flags), UNUSED(CUstream, stream))

/* ---- page-locked host memory ---- */

/* All of it is mapped into the device, whether asked for or not. */
static CUresult allocate_host(void **out, size_t bytes, Context *context, unsigned flags)
{
    if (bytes || !out) return allocate_for_caller(out, bytes, MEMORY_HOST, context, flags | CU_MEMHOSTALLOC_DEVICEMAP);
    *out = NULL;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    ENTER_CONTEXT();
    return allocate_host(pp, bytesize, context, Flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    ENTER_CONTEXT();
    return allocate_host(pp, bytesize, context, 0);
}

CUresult cuMemFreeHost(void *p)
{
    ENTER();
    CHECK(capture_forbids_unsafe_call());
    return p ? memory_free((CUdeviceptr)p, 1u << MEMORY_HOST) : CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(p && bytesize);
    REQUIRE(!memory_find((CUdeviceptr)p), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    add((Allocation){.start = p, .bytes = bytesize, .kind = MEMORY_REGISTERED, .device = context->device,
                     .context = context->handle, .flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP});
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p)
{
    ENTER();
    CUresult result = memory_free((CUdeviceptr)p, 1u << MEMORY_REGISTERED);
    return result == CUDA_SUCCESS ? result : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(Flags == 0 && memory_find((CUdeviceptr)p));
    ANSWER(pdptr, (CUdeviceptr)p);
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    ENTER_CONTEXT();
    const Allocation *found = memory_find((CUdeviceptr)p);
    REQUIRE_ARGUMENT(found);
    ANSWER(pFlags, found->flags);
}
