/* Finding functions by name and version, which is how programs get at nearly all of the driver. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

/* ---- functions that are not there (missing.inc, which build.py makes): each notes that it was called ---- */

typedef struct Missing {
    const char *name;
    unsigned long long calls;
} Missing;

enum {
#define MISSING(name, version) MISSING_##name,
#include "missing.inc"
#undef MISSING
    MISSING_COUNT
};

static Missing missing[MISSING_COUNT] = {
#define MISSING(name, version) {#name, 0},
#include "missing.inc"
#undef MISSING
};

__attribute__((unused)) static CUresult note_missing(int index)
{
    driver_lock();
    missing[index].calls++;
    driver_unlock();
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Arguments are in registers or in the caller's frame, so a function that looks at none can stand for any. */
#define MISSING(name, version) \
    static CUresult missing_##name(void) { return note_missing(MISSING_##name); }
#include "missing.inc"
#undef MISSING

#pragma GCC visibility push(default)

/* The index-th missing function that was called at least once; 0 after the last. */
int kernelscope_dryrun_missing_name(unsigned index, char *name, size_t capacity, unsigned long long *calls)
{
    int found = 0;
    driver_lock();
    for (int i = 0; i < MISSING_COUNT && !found; i++) {
        if (!missing[i].calls || index--) continue;
        snprintf(name, capacity, "%s", missing[i].name);
        *calls = missing[i].calls;
        found = 1;
    }
    driver_unlock();
    return found;
}

#pragma GCC visibility pop

/* ---- the table ---- */

#define WATCHED(name, ...) extern __typeof__(name) watched_##name;
#include "watched.inc"
WATCHED(cuGraphLaunch)
#undef WATCHED

typedef struct Entry {
    const char *name;
    int version; /* the CUDA version that this binary interface of the function came with */
    void *function; /* NULL for an interface that is not there: its parameters were others (older.inc) */
} Entry;

static const Entry entries[] = {
#define ENTRY(name, version, function) {#name, version, (void *)function},
#include "entries.inc"
#undef ENTRY
#define OLDER(name, version) {#name, version, NULL},
#include "older.inc"
#undef OLDER
#define MISSING(name, version) {#name, version, (void *)missing_##name},
#include "missing.inc"
#undef MISSING
};

/* Of two interfaces of a function, whether `entry` fits a version better: the newest that is not newer than asked for,
 * or the oldest where all are. (numba-cuda-mlir asks for cuFuncSetAttribute, of 9.0, as of 2.0.) */
static bool fits_better(const Entry *entry, const Entry *best, int version)
{
    if (!best) return true;
    bool entry_fits = entry->version <= version, best_fits = best->version <= version;
    if (entry_fits != best_fits) return entry_fits;
    return entry_fits ? entry->version > best->version : entry->version < best->version;
}

static CUresult lookup(const char *name, int version, void **function, CUdriverProcAddressQueryResult *status)
{
    const Entry *best = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const Entry *entry = &entries[i];
        bool there = entry->version <= state.driver_version && !strcmp(entry->name, name);
        if (there && fits_better(entry, best, version)) best = entry;
    }
    *function = best ? best->function : NULL;
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS
              : best    ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult get(const char *name, void **function, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult unused;
    REQUIRE_ARGUMENT(name && function);
    /* One switch for the process: there is one kind of NULL stream here, not one for each caller. */
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) state.null_stream_per_thread = true;
    if (version > state.driver_version) {
        *function = NULL;
        if (status) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return CUDA_ERROR_NOT_FOUND;
    }
    return lookup(name, version, function, status ? status : &unused);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    ENTER_UNINITIALIZED();
    return get(symbol, pfn, cudaVersion, flags, NULL);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    ENTER_UNINITIALIZED();
    return get(symbol, pfn, cudaVersion, flags, symbolStatus);
}

/* Private tables between NVIDIA's libraries. The symbol must be there, because NVRTC calls it without looking, and
 * lives with the error; cudart does not, so nothing that needs cudart can start here. */
CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    ENTER_UNINITIALIZED();
    (void)pExportTableId;
    if (ppExportTable) *ppExportTable = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
