/* Devices: how many, their names and addresses. Their attributes are in attributes.c. */
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

CUresult cuDeviceGetCount(int *count)
{
    ENTER();
    REQUIRE_ARGUMENT(count);
    *count = state.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER();
    REQUIRE_ARGUMENT(device);
    REQUIRE_DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    ENTER();
    REQUIRE_DEVICE(dev);
    REQUIRE_ARGUMENT(name && len > 0);
    snprintf(name, (size_t)len, "%s", DEVICE_NAME);
    return CUDA_SUCCESS;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
    REQUIRE_DEVICE(device);
    REQUIRE_ARGUMENT(uuid);
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "kernelscope", 11);
    uuid->bytes[15] = (char)(device + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    ENTER();
    return get_uuid(uuid, dev);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    ENTER();
    return get_uuid(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    ENTER();
    REQUIRE_DEVICE(dev);
    REQUIRE_ARGUMENT(bytes);
    *bytes = state.devices[dev].profile->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    ENTER();
    REQUIRE_DEVICE(dev);
    CHECK(device_attribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
    return device_attribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

/* The devices sit on PCI buses 1, 2, ... */
CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    ENTER();
    REQUIRE_DEVICE(dev);
    REQUIRE_ARGUMENT(pciBusId && len >= (int)sizeof "0000:01:00.0");
    snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", (unsigned)dev + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    ENTER();
    REQUIRE_ARGUMENT(dev && pciBusId);
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    bool full = sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &device, &function) >= 3;
    if (!full) {
        domain = 0;
        REQUIRE_ARGUMENT(sscanf(pciBusId, "%x:%x", &bus, &device) == 2);
    }
    REQUIRE(domain == 0 && device == 0 && bus >= 1 && bus <= (unsigned)state.device_count,
            CUDA_ERROR_INVALID_DEVICE);
    *dev = (CUdevice)bus - 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    ENTER();
    REQUIRE_DEVICE(dev);
    REQUIRE_DEVICE(peerDev);
    REQUIRE_ARGUMENT(canAccessPeer);
    *canAccessPeer = dev != peerDev;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice)
{
    ENTER();
    REQUIRE_DEVICE(srcDevice);
    REQUIRE_DEVICE(dstDevice);
    REQUIRE_ARGUMENT(value && srcDevice != dstDevice);
    *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}
