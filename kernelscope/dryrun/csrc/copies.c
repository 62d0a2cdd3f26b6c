/* Copies and fills: all become one description, which is done at once or kept in a graph node. */
#include "driver.h"

#include <string.h>

/* ---- the two descriptions: check them, do them ---- */

typedef struct Side {
    CUmemorytype type;
    char *base;
    size_t x, y, z, pitch, height; /* pitch and height with their defaults filled in */
} Side;

/* The source (src) or the destination (dst) of a copy. */
#define SIDE(copy, side)                                                                                      \
    ((Side){(copy)->side##MemoryType,                                                                         \
            (char *)((copy)->side##MemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)(copy)->side##Host         \
                                                                    : (copy)->side##Device),                  \
            (copy)->side##XInBytes, (copy)->side##Y, (copy)->side##Z,                                         \
            (copy)->side##Pitch ? (copy)->side##Pitch : (copy)->WidthInBytes,                                 \
            (copy)->side##Height ? (copy)->side##Height : (copy)->Height})

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
    Side source = SIDE(copy, src), destination = SIDE(copy, dst);
    CHECK(check_side(&source, copy));
    return check_side(&destination, copy);
}

void copy_run(const CUDA_MEMCPY3D *copy)
{
    if (is_empty(copy)) return;
    Side source = SIDE(copy, src), destination = SIDE(copy, dst);
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
