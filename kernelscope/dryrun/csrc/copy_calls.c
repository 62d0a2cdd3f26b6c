/* The calls that copy and fill. */
#include "driver.h"

/* ---- into a stream: done, or captured ---- */

static CUresult copy_in_stream(const Context *context, CUstream handle, const CUDA_MEMCPY3D *copy)
{
    Stream *stream = NULL;
    Capture *capture = NULL;
    Node *node = NULL;
    CHECK(copy_check(copy));
    CHECK(stream_find(context, handle, &stream));
    CHECK(stream_submit(stream, &capture));
    if (!capture) {
        copy_run(copy);
        return CUDA_SUCCESS;
    }
    CHECK(stream_add_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY, &node));
    node->as.copy = *copy;
    return CUDA_SUCCESS;
}

static CUresult fill_in_stream(const Context *context, CUstream handle, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    Stream *stream = NULL;
    Capture *capture = NULL;
    Node *node = NULL;
    CHECK(fill_check(fill));
    CHECK(stream_find(context, handle, &stream));
    CHECK(stream_submit(stream, &capture));
    if (!capture) {
        fill_run(fill);
        return CUDA_SUCCESS;
    }
    CHECK(stream_add_node(stream, CU_GRAPH_NODE_TYPE_MEMSET, &node));
    node->as.fill = *fill;
    return CUDA_SUCCESS;
}

/* ---- copies of bytes in a row ---- */

static CUDA_MEMCPY3D flat(CUmemorytype to, CUdeviceptr destination, CUmemorytype from, CUdeviceptr source, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = from, .srcHost = (void *)source, .srcDevice = source,
                           .dstMemoryType = to, .dstHost = (void *)destination, .dstDevice = destination,
                           .WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

#define FLAT_COPY(to, destination, from, source, bytes, stream)                                              \
    ENTER_CONTEXT();                                                                                         \
    CUDA_MEMCPY3D copy = flat(CU_MEMORYTYPE_##to, (CUdeviceptr)(destination), CU_MEMORYTYPE_##from,          \
                              (CUdeviceptr)(source), bytes);                                                 \
    return copy_in_stream(context, stream, &copy)

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    FLAT_COPY(UNIFIED, dst, UNIFIED, src, ByteCount, NULL);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    FLAT_COPY(UNIFIED, dst, UNIFIED, src, ByteCount, hStream);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    FLAT_COPY(DEVICE, dstDevice, HOST, srcHost, ByteCount, NULL);
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    FLAT_COPY(HOST, dstHost, DEVICE, srcDevice, ByteCount, NULL);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    FLAT_COPY(DEVICE, dstDevice, DEVICE, srcDevice, ByteCount, NULL);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
    FLAT_COPY(DEVICE, dstDevice, HOST, srcHost, ByteCount, hStream);
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    FLAT_COPY(HOST, dstHost, DEVICE, srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
    FLAT_COPY(DEVICE, dstDevice, DEVICE, srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                      size_t ByteCount)
{
    (void)dstContext, (void)srcContext;
    FLAT_COPY(DEVICE, dstDevice, DEVICE, srcDevice, ByteCount, NULL);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                           size_t ByteCount, CUstream hStream)
{
    (void)dstContext, (void)srcContext;
    FLAT_COPY(DEVICE, dstDevice, DEVICE, srcDevice, ByteCount, hStream);
}

/* ---- copies of rectangles and boxes ---- */

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *copy)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = copy->srcXInBytes, .srcY = copy->srcY,
                           .srcMemoryType = copy->srcMemoryType, .srcHost = copy->srcHost,
                           .srcDevice = copy->srcDevice, .srcArray = copy->srcArray, .srcPitch = copy->srcPitch,
                           .dstXInBytes = copy->dstXInBytes, .dstY = copy->dstY,
                           .dstMemoryType = copy->dstMemoryType, .dstHost = copy->dstHost,
                           .dstDevice = copy->dstDevice, .dstArray = copy->dstArray, .dstPitch = copy->dstPitch,
                           .WidthInBytes = copy->WidthInBytes, .Height = copy->Height, .Depth = 1};
}

static CUresult copy_2d(const Context *context, CUstream stream, const CUDA_MEMCPY2D *copy)
{
    REQUIRE_ARGUMENT(copy);
    CUDA_MEMCPY3D box = from_2d(copy);
    return copy_in_stream(context, stream, &box);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    ENTER_CONTEXT();
    return copy_2d(context, NULL, pCopy);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    ENTER_CONTEXT();
    return copy_2d(context, NULL, pCopy);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    ENTER_CONTEXT();
    return copy_2d(context, hStream, pCopy);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(pCopy);
    return copy_in_stream(context, NULL, pCopy);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    ENTER_CONTEXT();
    REQUIRE_ARGUMENT(pCopy);
    return copy_in_stream(context, hStream, pCopy);
}

/* ---- fills ---- */

#define FILL(address, row_pitch, element, element_bytes, columns, rows, stream)                               \
    ENTER_CONTEXT();                                                                                          \
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = address, .pitch = row_pitch, .value = element,                     \
                                    .elementSize = element_bytes, .width = columns, .height = rows};          \
    return fill_in_stream(context, stream, &fill)

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) { FILL(dstDevice, 0, uc, 1, N, 1, NULL); }
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) { FILL(dstDevice, 0, us, 2, N, 1, NULL); }
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) { FILL(dstDevice, 0, ui, 4, N, 1, NULL); }

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
    FILL(dstDevice, 0, uc, 1, N, 1, hStream);
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
    FILL(dstDevice, 0, us, 2, N, 1, hStream);
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
    FILL(dstDevice, 0, ui, 4, N, 1, hStream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
    FILL(dstDevice, dstPitch, uc, 1, Width, Height, NULL);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
    FILL(dstDevice, dstPitch, us, 2, Width, Height, NULL);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
    FILL(dstDevice, dstPitch, ui, 4, Width, Height, NULL);
}
