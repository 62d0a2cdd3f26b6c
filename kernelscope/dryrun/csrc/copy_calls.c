/* The calls that copy and fill: done at once, or captured. */
#include "driver.h"

static CUresult copy_in_stream(const Context *context, CUstream handle, const CUDA_MEMCPY3D *copy)
{
    Stream *stream = NULL;
    REQUIRE_ARGUMENT(copy);
    CHECK(copy_check(copy));
    CHECK(stream_for_work(context, handle, &stream));
    if (stream->capture) {
        stream_add_node(stream, CU_GRAPH_NODE_TYPE_MEMCPY)->as.copy = *copy;
    } else {
        copy_run(copy);
    }
    return CUDA_SUCCESS;
}

static CUresult fill_in_stream(const Context *context, CUstream handle, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    Stream *stream = NULL;
    CHECK(fill_check(fill));
    CHECK(stream_for_work(context, handle, &stream));
    if (stream->capture) {
        stream_add_node(stream, CU_GRAPH_NODE_TYPE_MEMSET)->as.fill = *fill;
    } else {
        fill_run(fill);
    }
    return CUDA_SUCCESS;
}

/* ---- copies of bytes in a row ---- */

static CUDA_MEMCPY3D flat(CUmemorytype to, CUdeviceptr destination, CUmemorytype from, CUdeviceptr source, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = from, .srcHost = (void *)source, .srcDevice = source,
                           .dstMemoryType = to, .dstHost = (void *)destination, .dstDevice = destination,
                           .WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

#define FLAT_COPY(to, from, stream)                                                                         \
    ENTER_CONTEXT();                                                                                        \
    CUDA_MEMCPY3D copy = flat(CU_MEMORYTYPE_##to, (CUdeviceptr)destination, CU_MEMORYTYPE_##from,           \
                              (CUdeviceptr)source, bytes);                                                  \
    return copy_in_stream(context, stream, &copy)

/* A call without a stream, and the one with it. */
#define COPIES(function, function_async, to, to_type, from, from_type)                                      \
    CUresult function(to_type destination, from_type source, size_t bytes)                                  \
    {                                                                                                       \
        FLAT_COPY(to, from, NULL);                                                                          \
    }                                                                                                       \
    CUresult function_async(to_type destination, from_type source, size_t bytes, CUstream stream)           \
    {                                                                                                       \
        FLAT_COPY(to, from, stream);                                                                        \
    }

COPIES(cuMemcpy, cuMemcpyAsync, UNIFIED, CUdeviceptr, UNIFIED, CUdeviceptr)
COPIES(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, DEVICE, CUdeviceptr, HOST, const void *)
COPIES(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, HOST, void *, DEVICE, CUdeviceptr)
COPIES(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, DEVICE, CUdeviceptr, DEVICE, CUdeviceptr)

CUresult cuMemcpyPeer(CUdeviceptr destination, UNUSED(CUcontext, to), CUdeviceptr source, UNUSED(CUcontext, from),
                      size_t bytes)
{
    FLAT_COPY(DEVICE, DEVICE, NULL);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr destination, UNUSED(CUcontext, to), CUdeviceptr source, UNUSED(CUcontext, from),
                           size_t bytes, CUstream stream)
{
    FLAT_COPY(DEVICE, DEVICE, stream);
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

#define COPY_CALL(function, type, copy, stream, ...)                 \
    CUresult function(const type *description, ##__VA_ARGS__)         \
    {                                                                \
        ENTER_CONTEXT();                                             \
        return copy(context, stream, description);                   \
    }

COPY_CALL(cuMemcpy2D_v2, CUDA_MEMCPY2D, copy_2d, NULL)
COPY_CALL(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, copy_2d, NULL)
COPY_CALL(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, copy_2d, stream, CUstream stream)
COPY_CALL(cuMemcpy3D_v2, CUDA_MEMCPY3D, copy_in_stream, NULL)
COPY_CALL(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, copy_in_stream, stream, CUstream stream)

/* ---- fills: of elements in a row, without a stream and with one, and of a rectangle ---- */

#define FILL(row_pitch, bytes, columns, rows, stream)                                                         \
    ENTER_CONTEXT();                                                                                          \
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = address, .pitch = row_pitch, .value = element,                     \
                                    .elementSize = bytes, .width = columns, .height = rows};                  \
    return fill_in_stream(context, stream, &fill)

#define FILLS(bits, type)                                                                                     \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr address, type element, size_t count)                            \
    {                                                                                                         \
        FILL(0, bits / 8, count, 1, NULL);                                                                    \
    }                                                                                                         \
    CUresult cuMemsetD##bits##Async(CUdeviceptr address, type element, size_t count, CUstream stream)         \
    {                                                                                                         \
        FILL(0, bits / 8, count, 1, stream);                                                                  \
    }                                                                                                         \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr address, size_t pitch, type element, size_t width, size_t height) \
    {                                                                                                         \
        FILL(pitch, bits / 8, width, height, NULL);                                                           \
    }

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)
