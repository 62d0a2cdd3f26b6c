/* Names and texts of error codes. The names are those of cuda.h (error_names.inc, which build.py makes); texts are here
 * of the errors that this driver has. */
#include "driver.h"

static const char *const texts[] = {
    [CUDA_SUCCESS] = "no error",
    [CUDA_ERROR_INVALID_VALUE] = "invalid argument",
    [CUDA_ERROR_OUT_OF_MEMORY] = "out of memory",
    [CUDA_ERROR_NOT_INITIALIZED] = "initialization error",
    [CUDA_ERROR_INVALID_DEVICE] = "invalid device ordinal",
    [CUDA_ERROR_INVALID_IMAGE] = "device kernel image is invalid",
    [CUDA_ERROR_INVALID_CONTEXT] = "invalid device context",
    [CUDA_ERROR_NO_BINARY_FOR_GPU] = "no kernel image is available for execution on the device",
    [CUDA_ERROR_UNSUPPORTED_LIMIT] = "limit is not supported on this architecture",
    [CUDA_ERROR_PEER_ACCESS_UNSUPPORTED] = "peer access is not supported between these two devices",
    [CUDA_ERROR_INVALID_PTX] = "a PTX JIT compilation failed",
    [CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY] = "the provided execution affinity is not supported",
    [CUDA_ERROR_FILE_NOT_FOUND] = "file not found",
    [CUDA_ERROR_OPERATING_SYSTEM] = "OS call failed or operation not supported on this OS",
    [CUDA_ERROR_INVALID_HANDLE] = "invalid resource handle",
    [CUDA_ERROR_ILLEGAL_STATE] = "the operation cannot be performed in the present state",
    [CUDA_ERROR_NOT_FOUND] = "named symbol not found",
    [CUDA_ERROR_ILLEGAL_ADDRESS] = "an illegal memory access was encountered",
    [CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES] = "too many resources requested for launch",
    [CUDA_ERROR_CONTEXT_IS_DESTROYED] = "context is destroyed",
    [CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED] = "part or all of the requested memory range is already mapped",
    [CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED] = "pointer does not correspond to a registered memory region",
    [CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE] = "too many blocks in cooperative launch",
    [CUDA_ERROR_NOT_SUPPORTED] = "operation not supported",
    [CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED] = "operation not permitted when stream is capturing",
    [CUDA_ERROR_STREAM_CAPTURE_INVALIDATED] = "operation failed due to a previous error during capture",
    [CUDA_ERROR_STREAM_CAPTURE_MERGE] = "operation would result in a merge of separate capture sequences",
    [CUDA_ERROR_STREAM_CAPTURE_UNMATCHED] = "capture was not ended in the same stream as it began",
    [CUDA_ERROR_STREAM_CAPTURE_UNJOINED] = "capturing stream has unjoined work",
    [CUDA_ERROR_STREAM_CAPTURE_ISOLATION] = "dependency created on uncaptured work in another stream",
    [CUDA_ERROR_STREAM_CAPTURE_IMPLICIT] =
        "operation would make the legacy stream depend on a capturing blocking stream",
    [CUDA_ERROR_CAPTURED_EVENT] = "operation not permitted on an event last recorded in a capturing stream",
    [CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD] =
        "attempt to terminate a thread-local capture sequence from another thread",
    [CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE] =
        "the graph update was not performed because it included changes which violated constraints specific to "
        "instantiated graph update",
    [CUDA_ERROR_INVALID_CLUSTER_SIZE] = "a kernel launch error has occurred due to cluster misconfiguration",
};

static const char *name_of(CUresult error)
{
    switch (error) {
#define ERROR_NAME(code) case code: return #code;
#include "error_names.inc"
#undef ERROR_NAME
    }
    return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    ENTER_UNINITIALIZED();
    REQUIRE_ARGUMENT(pStr);
    *pStr = name_of(error);
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
    ENTER_UNINITIALIZED();
    REQUIRE_ARGUMENT(pStr);
    *pStr = name_of(error);
    if (*pStr && error < sizeof texts / sizeof *texts && texts[error]) *pStr = texts[error];
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
