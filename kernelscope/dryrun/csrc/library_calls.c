/* The calls of libraries and modules: load an image, take kernels and variables from it, unload it. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES (1 << 30)

static bool runs_somewhere(const Library *library)
{
    for (int device = 0; device < state.device_count; device++)
        if (library_runs_on(library, device)) return true;
    return false;
}

static CUresult read_image(Library *library, Bytes image, Context *context)
{
    if (image.size >= 4 && !memcmp(image.data, "\x7f" "ELF", 4)) return cubin_read(library, image, context);
    if (image.size >= 4 && !memcmp(image.data, "\x50\xed\x55\xba", 4)) {
        library->any_name = true;
        return CUDA_SUCCESS;
    }
    return ptx_read(library, image, context);
}

/* `context` is the one to load into. A library belongs to none, and NULL is given: device 0 has its variables then, and
 * whether its code fits a device is asked when a kernel is taken from it. */
static CUresult load(Bytes image, Context *context, Library **out)
{
    Library *library = allocate(1, sizeof *library);
    library->handle = handle_new(KIND_LIBRARY, library);
    library->references = 1;
    CUresult result = read_image(library, image, context ? context : context_primary(0));
    if (result == CUDA_SUCCESS && context && !library_runs_on(library, context->device)) {
        result = library->portable ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (result == CUDA_SUCCESS) {
        *out = library;
    } else {
        library_unload(library);
    }
    return result;
}

static CUresult read_file(const char *path, Bytes *content)
{
    REQUIRE_ARGUMENT(path);
    FILE *file = fopen(path, "rbe");
    REQUIRE(file, CUDA_ERROR_FILE_NOT_FOUND);
    long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    unsigned char *data = NULL;
    bool good = size >= 0 && size <= MAX_FILE_BYTES && !fseek(file, 0, SEEK_SET);
    if (good) {
        data = allocate((size_t)size + 1, 1); /* and a zero, which PTX must end with */
        good = fread(data, 1, (size_t)size, file) == (size_t)size;
    }
    fclose(file);
    *content = (Bytes){data, good ? (size_t)size : 0};
    if (!good) free(data);
    return good ? CUDA_SUCCESS : CUDA_ERROR_FILE_NOT_FOUND;
}

static CUresult load_copy(Bytes copy, Context *context, void **out)
{
    Library *library = NULL;
    CUresult result = load(copy, context, &library);
    free((void *)copy.data);
    if (result == CUDA_SUCCESS) *out = library->handle;
    return result;
}

static CUresult load_image(const void *image, Context *context, void **out)
{
    Bytes copy = {NULL, 0};
    REQUIRE_ARGUMENT(out);
    CHECK(image_copy(image, &copy));
    return load_copy(copy, context, out);
}

static CUresult load_file(const char *path, Context *context, void **out)
{
    Bytes copy = {NULL, 0};
    REQUIRE_ARGUMENT(out);
    CHECK(read_file(path, &copy));
    return load_copy(copy, context, out);
}

/* ---- libraries ---- */

#define LOAD_CALL(function, load, from)                                                                            \
    CUresult function(CUlibrary *library, from, UNUSED(CUjit_option *, jit_options), UNUSED(void **, jit_values),  \
                      UNUSED(unsigned, jit_count), UNUSED(CUlibraryOption *, options), UNUSED(void **, values),    \
                      UNUSED(unsigned, count))                                                                     \
    {                                                                                                              \
        ENTER();                                                                                                   \
        return load(source, NULL, (void **)library);                                                               \
    }

LOAD_CALL(cuLibraryLoadData, load_image, const void *source)
LOAD_CALL(cuLibraryLoadFromFile, load_file, const char *source)

/* Define `library`, or refuse. */
#define FIND(handle)                                            \
    Library *library = handle_object(handle, KIND_LIBRARY);     \
    REQUIRE(library, CUDA_ERROR_INVALID_HANDLE)

static CUresult unload(const void *handle)
{
    FIND(handle);
    library_unload(library);
    return CUDA_SUCCESS;
}

static CUresult get_kernel(const void *handle, const char *name, void **out)
{
    FIND(handle);
    REQUIRE_ARGUMENT(name && *name);
    REQUIRE(runs_somewhere(library), CUDA_ERROR_NO_BINARY_FOR_GPU);
    Kernel *kernel = library_find_kernel(library, name, strlen(name));
    if (!kernel && library->any_name) kernel = library_add_kernel(library, name, strlen(name));
    REQUIRE(kernel, CUDA_ERROR_NOT_FOUND);
    ANSWER(out, kernel->handle);
}

static CUresult get_global(const void *handle, const char *name, CUdeviceptr *pointer, size_t *bytes)
{
    FIND(handle);
    REQUIRE_ARGUMENT(name);
    for (unsigned i = 0; i < library->global_count; i++) {
        if (strcmp(library->globals[i].name, name) != 0) continue;
        if (pointer) *pointer = library->globals[i].pointer;
        if (bytes) *bytes = library->globals[i].bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    ENTER();
    return unload(library);
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    ENTER();
    return get_kernel(library, name, (void **)pKernel);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    ENTER();
    FIND(lib);
    ANSWER(count, library->kernel_count);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    ENTER();
    FIND(lib);
    REQUIRE_ARGUMENT(kernels);
    for (unsigned i = 0; i < numKernels && i < library->kernel_count; i++)
        kernels[i] = (CUkernel)library->kernels[i]->handle;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary lib)
{
    ENTER_CONTEXT();
    FIND(lib);
    ANSWER(pMod, (CUmodule)library->handle);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    ENTER_CONTEXT();
    return get_global(library, name, dptr, bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    ENTER_CONTEXT();
    return get_global(library, name, dptr, bytes);
}

/* ---- modules ---- */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, UNUSED(unsigned, count),
                            UNUSED(CUjit_option *, options), UNUSED(void **, values))
{
    ENTER_CONTEXT();
    return load_image(image, context, (void **)module);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER_CONTEXT();
    return load_image(image, context, (void **)module);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    ENTER_CONTEXT();
    return load_file(fname, context, (void **)module);
}

CUresult cuModuleUnload(CUmodule hmod)
{
    ENTER();
    CHECK(capture_forbids_unsafe_call());
    return unload(hmod);
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    ENTER_CONTEXT();
    return get_kernel(hmod, name, (void **)hfunc);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    ENTER_CONTEXT();
    return get_global(hmod, name, dptr, bytes);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    ENTER();
    ANSWER(mode, CU_MODULE_LAZY_LOADING);
}
