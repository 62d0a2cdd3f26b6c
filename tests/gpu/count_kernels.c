/* Counts the kernels of a process, by CUPTI alone: a library for CUDA_INJECTION64_PATH, independent of KernelScope.
   Writes one line a kernel name, as `count name`, to the file that KERNELS names. */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 4096
static char *names[NAMES];
static long counts[NAMES];
static int known;

static void requested(uint8_t **buffer, size_t *size, size_t *most)
{
    *size = 1 << 20;
    *most = 0;
    *buffer = aligned_alloc(8, *size);
}

static void count(const char *name)
{
    int at = 0;
    while (at < known && strcmp(names[at], name))
        at++;
    if (at == NAMES)
        abort();
    if (at == known)
        names[known++] = strdup(name);
    counts[at]++;
}

static void completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
            count(((CUpti_ActivityKernel9 *)record)->name);
    free(buffer);
}

static void finish(void)
{
    cuptiActivityFlushAll(1);
    FILE *file = fopen(getenv("KERNELS"), "w");
    for (int at = 0; at < known; at++)
        fprintf(file, "%ld %s\n", counts[at], names[at]);
    fclose(file);
}

int InitializeInjection(void)
{
    cuptiActivityRegisterCallbacks(requested, completed);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    atexit(finish);
    return 1;
}
