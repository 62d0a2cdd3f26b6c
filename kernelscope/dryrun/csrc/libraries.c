/* Libraries and modules, which are one thing here: the kernels and global variables of one image. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_REGISTERS 16

/* ---- what the image readers fill in ---- */

Kernel *library_find_kernel(const Library *library, const char *name, size_t length)
{
    for (unsigned i = 0; i < library->kernel_count; i++) {
        Kernel *kernel = library->kernels[i];
        if (strlen(kernel->name) == length && !memcmp(kernel->name, name, length)) return kernel;
    }
    return NULL;
}

Kernel *library_add_kernel(Library *library, const char *name, size_t length)
{
    Kernel *kernel = library_find_kernel(library, name, length);
    if (kernel) return kernel;
    kernel = allocate(1, sizeof *kernel);
    kernel->handle = handle_new(KIND_KERNEL, kernel);
    kernel->name = duplicate_text(name, length);
    kernel->library = library;
    kernel->registers = DEFAULT_REGISTERS;
    kernel->max_threads = MAX_THREADS_PER_BLOCK;
    kernel->parameter_count = -1;
    library->kernels = reallocate(library->kernels, library->kernel_count + 1, sizeof *library->kernels);
    library->kernels[library->kernel_count++] = kernel;
    return kernel;
}

void kernel_add_parameter(Kernel *kernel, unsigned index, unsigned offset, unsigned bytes)
{
    int count = (int)index + 1;
    if (count > kernel->parameter_count) {
        int old = kernel->parameter_count > 0 ? kernel->parameter_count : 0;
        kernel->parameters = reallocate(kernel->parameters, (size_t)count, sizeof *kernel->parameters);
        memset(kernel->parameters + old, 0, (size_t)(count - old) * sizeof *kernel->parameters);
        kernel->parameter_count = count;
    }
    kernel->parameters[index] = (Parameter){offset, bytes};
}

CUresult library_add_global(Library *library, const char *name, size_t bytes, const void *value, Context *context)
{
    Allocation *allocation = NULL;
    CHECK(memory_allocate(bytes ? bytes : 1, MEMORY_DEVICE, context, NULL, 0, &allocation));
    if (value) memcpy(allocation->start, value, bytes);
    library->globals = reallocate(library->globals, library->global_count + 1, sizeof *library->globals);
    library->globals[library->global_count++] =
        (Global){duplicate_text(name, strlen(name)), (CUdeviceptr)allocation->start, bytes};
    return CUDA_SUCCESS;
}

/* ---- life ---- */

static void kernel_free(Kernel *kernel)
{
    handle_free(kernel->handle);
    free(kernel->parameters);
    free(kernel->name);
    free(kernel);
}

/* Graph nodes keep a library's kernels alive after it is unloaded; its handles die with the unloading. */
void library_release(Library *library)
{
    if (--library->references > 0) return;
    for (unsigned i = 0; i < library->kernel_count; i++) kernel_free(library->kernels[i]);
    for (unsigned i = 0; i < library->global_count; i++) {
        memory_free(library->globals[i].pointer, 1u << MEMORY_DEVICE);
        free(library->globals[i].name);
    }
    free(library->kernels);
    free(library->globals);
    free(library);
}

void library_unload(Library *library)
{
    handle_free(library->handle);
    for (unsigned i = 0; i < library->kernel_count; i++) handle_free(library->kernels[i]->handle);
    library_release(library);
}

bool library_runs_on(const Library *library, CUdevice device)
{
    int built_for = library->capability, available = state.devices[device].profile->capability;
    if (built_for == 0) return true;
    if (library->portable) return built_for <= available;
    return built_for / 10 == available / 10 && built_for <= available;
}
