/* Devices: how many, their names and addresses, their attributes.
 *
 * An attribute that is not listed reads 0, which for a capability means "not there": the dry run says no to whatever it
 * has no functions for (textures, virtual memory management, IPC, stream memory operations, tensor maps). */
#include "driver.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DEVICE_NAME "KernelScope dry run"

void devices_start(void)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        if (!state.devices[i].profile) state.devices[i].profile = profile_of(90); /* after a setting that is wrong */
}

bool device_exists(CUdevice device) { return device >= 0 && device < state.device_count; }

/* ---- attributes ---- */

/* Attributes that follow from the compute capability and its product. */
static bool from_profile(const Profile *profile, CUdevice_attribute attribute, int *value)
{
    bool hopper_or_newer = profile->capability >= 90;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = profile->capability / 10; return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = profile->capability % 10; return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = profile->sm_count; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = profile->threads_per_sm; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = profile->blocks_per_sm; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = profile->shared_per_sm; return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = profile->shared_per_block_optin;
        return true;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = profile->shared_reserved; return true;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = profile->l2_bytes; return true;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = profile->clock_khz; return true;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = profile->memory_clock_khz; return true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = profile->memory_bus_bits; return true;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
        *value = profile->single_to_double_ratio;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
        *value = profile->capability >= 80 ? profile->l2_bytes / 8 * 5 : 0; /* an H100's share */
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
        *value = profile->capability >= 80 ? 128 << 20 : 0;
        return true;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *value = hopper_or_newer; return true;
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: *value = hopper_or_newer ? 4 : 1; return true;
    }
    return false;
}

/* Attributes that every capability of ours shares. */
static int common_value(CUdevice_attribute attribute)
{
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return MAX_THREADS_PER_BLOCK;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return DEFAULT_SHARED_PER_BLOCK;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return WARP_SIZE;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return REGISTERS_PER_SM;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS: return 1;
    case 144: return 1; /* CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, which CUDA 12's header does not have */
    case CU_DEVICE_ATTRIBUTE_NUMA_ID: return -1;
    }
    return 0;
}

CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    REQUIRE_ARGUMENT(value && attribute >= 1 && attribute < CU_DEVICE_ATTRIBUTE_MAX);
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
        *value = device + 1;
    } else if (!from_profile(state.devices[device].profile, attribute, value)) {
        *value = common_value(attribute);
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    ENTER_DEVICE(dev);
    return device_attribute(pi, attrib, dev);
}

/* ---- names and addresses ---- */

CUresult cuDeviceGetCount(int *count)
{
    ENTER();
    ANSWER(count, state.device_count);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER_DEVICE(ordinal);
    ANSWER(device, ordinal);
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    ENTER_DEVICE(dev);
    REQUIRE_ARGUMENT(name && len > 0);
    snprintf(name, (size_t)len, "%s", DEVICE_NAME);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    ENTER_DEVICE(dev);
    REQUIRE_ARGUMENT(uuid);
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "kernelscope", 11);
    uuid->bytes[15] = (char)(dev + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) { return cuDeviceGetUuid(uuid, dev); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    ENTER_DEVICE(dev);
    ANSWER(bytes, state.devices[dev].profile->memory_bytes);
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    ENTER_DEVICE(dev);
    CHECK(device_attribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
    return device_attribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

/* The devices sit on PCI buses 1, 2, ... */
CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    ENTER_DEVICE(dev);
    REQUIRE_ARGUMENT(pciBusId && len >= (int)sizeof "0000:01:00.0");
    snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", (unsigned)dev + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    ENTER();
    REQUIRE_ARGUMENT(pciBusId);
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    bool full = sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &device, &function) >= 3;
    if (!full) {
        domain = 0;
        REQUIRE_ARGUMENT(sscanf(pciBusId, "%x:%x", &bus, &device) == 2);
    }
    REQUIRE(domain == 0 && device == 0 && bus >= 1 && bus <= (unsigned)state.device_count,
            CUDA_ERROR_INVALID_DEVICE);
    ANSWER(dev, (CUdevice)bus - 1);
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    ENTER_DEVICE(dev);
    REQUIRE_DEVICE(peerDev);
    ANSWER(canAccessPeer, dev != peerDev);
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
    ENTER_DEVICE(srcDevice);
    REQUIRE_DEVICE(dstDevice);
    REQUIRE_ARGUMENT(srcDevice != dstDevice);
    ANSWER(value, attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
}
