/* Copies and fills: all become one description, which is done at once or kept in a graph node. */
#include "driver.h"

#include <string.h>

/* ---- the two descriptions: check them, do them ---- */

typedef struct Side {
    CUmemorytype type;
    char *base;
    size_t x, y, z, pitch, height; /* pitch and height with their defaults filled in */
} Side;

static Side source_of(const CUDA_MEMCPY3D *copy)
{
    bool host = copy->srcMemoryType == CU_MEMORYTYPE_HOST;
    return (Side){copy->srcMemoryType, host ? (char *)copy->srcHost : (char *)copy->srcDevice, copy->srcXInBytes,
                  copy->srcY, copy->srcZ, copy->srcPitch ? copy->srcPitch : copy->WidthInBytes,
                  copy->srcHeight ? copy->srcHeight : copy->Height};
}

static Side destination_of(const CUDA_MEMCPY3D *copy)
{
    bool host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
    return (Side){copy->dstMemoryType, host ? (char *)copy->dstHost : (char *)copy->dstDevice, copy->dstXInBytes,
                  copy->dstY, copy->dstZ, copy->dstPitch ? copy->dstPitch : copy->WidthInBytes,
                  copy->dstHeight ? copy->dstHeight : copy->Height};
}

static bool is_empty(const CUDA_MEMCPY3D *copy) { return !copy->WidthInBytes || !copy->Height || !copy->Depth; }

static char *row(const Side *side, size_t y, size_t z)
{
    return side->base + ((side->z + z) * side->height + side->y + y) * side->pitch + side->x;
}

/* The extent of a side, from its base to its last byte; false when it overflows. */
static bool extent(const Side *side, const CUDA_MEMCPY3D *copy, size_t *bytes)
{
    size_t rows = 0, last_z = 0, last_y = 0, width = 0;
    return !__builtin_add_overflow(side->z, copy->Depth - 1, &last_z) &&
           !__builtin_mul_overflow(last_z, side->height, &rows) &&
           !__builtin_add_overflow(side->y, copy->Height - 1, &last_y) &&
           !__builtin_add_overflow(rows, last_y, &rows) &&
           !__builtin_mul_overflow(rows, side->pitch, &rows) &&
           !__builtin_add_overflow(side->x, copy->WidthInBytes, &width) &&
           !__builtin_add_overflow(rows, width, bytes);
}

static CUresult check_side(const Side *side, const CUDA_MEMCPY3D *copy)
{
    size_t bytes = 0;
    REQUIRE(side->type != CU_MEMORYTYPE_ARRAY, CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE_ARGUMENT(side->base && extent(side, copy, &bytes));
    bool may_be_host = side->type == CU_MEMORYTYPE_HOST ||
                       (side->type == CU_MEMORYTYPE_UNIFIED && !memory_find((CUdeviceptr)side->base));
    REQUIRE_ARGUMENT(may_be_host || memory_holds((CUdeviceptr)side->base, bytes));
    return CUDA_SUCCESS;
}

CUresult copy_check(const CUDA_MEMCPY3D *copy)
{
    if (is_empty(copy)) return CUDA_SUCCESS;
    Side source = source_of(copy), destination = destination_of(copy);
    CHECK(check_side(&source, copy));
    return check_side(&destination, copy);
}

void copy_run(const CUDA_MEMCPY3D *copy)
{
    if (is_empty(copy)) return;
    Side source = source_of(copy), destination = destination_of(copy);
    for (size_t z = 0; z < copy->Depth; z++)
        for (size_t y = 0; y < copy->Height; y++)
            memmove(row(&destination, y, z), row(&source, y, z), copy->WidthInBytes);
}

CUresult fill_check(const CUDA_MEMSET_NODE_PARAMS *fill)
{
    size_t row_bytes = 0, bytes = 0;
    REQUIRE_ARGUMENT(fill->elementSize == 1 || fill->elementSize == 2 || fill->elementSize == 4);
    REQUIRE_ARGUMENT(fill->dst % fill->elementSize == 0);
    if (!fill->width || !fill->height) return CUDA_SUCCESS;
    REQUIRE_ARGUMENT(!__builtin_mul_overflow(fill->width, (size_t)fill->elementSize, &row_bytes));
    REQUIRE_ARGUMENT(fill->height == 1 || fill->pitch >= row_bytes);
    REQUIRE_ARGUMENT(!__builtin_mul_overflow(fill->height - 1, fill->pitch, &bytes));
    REQUIRE_ARGUMENT(!__builtin_add_overflow(bytes, row_bytes, &bytes));
    REQUIRE_ARGUMENT(memory_holds(fill->dst, bytes));
    return CUDA_SUCCESS;
}

void fill_run(const CUDA_MEMSET_NODE_PARAMS *fill)
{
    for (size_t y = 0; fill->width && y < fill->height; y++) {
        char *start = (char *)fill->dst + y * fill->pitch;
        if (fill->elementSize == 1) {
            memset(start, (int)fill->value, fill->width);
        } else if (fill->elementSize == 2) {
            for (size_t i = 0; i < fill->width; i++) ((uint16_t *)start)[i] = (uint16_t)fill->value;
        } else {
            for (size_t i = 0; i < fill->width; i++) ((uint32_t *)start)[i] = fill->value;
        }
    }
}

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
