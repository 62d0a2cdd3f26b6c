/* KernelScope's dry-run driver: a libcuda.so.1 with no GPU behind it.
 *
 * What it promises
 *   - The host side of CUDA programs runs against it: contexts, memory, libraries, streams, events, stream capture,
 *     graphs and launches have objects behind them, and calls with wrong arguments are refused with the error code
 *     that the documentation gives.
 *   - Memory is real: "device" memory is host memory, zeroed when allocated; copies and fills are done before the
 *     call returns, and a device pointer that belongs to no allocation is refused.
 *   - What can be read from a kernel's image is read: registers, shared, local and constant bytes, launch bounds,
 *     parameters, global variables (from a cubin's ELF; less from PTX, whose registers are a guess).
 *   - Handles are checked: a freed, foreign or made-up one is refused and never followed.
 *   - Any number of threads may call it. After a fork the child gets CUDA_ERROR_NOT_INITIALIZED.
 *   - Callbacks run on the calling thread, in order, with no lock of ours held.
 *
 * What it does not
 *   - Kernels do not execute: a launch is checked, counted and done at once. A conditional node follows its default
 *     value, and a WHILE body runs at most once, because no device code can change the value.
 *   - Times are the host's: an event holds the moment at which it was recorded.
 *   - Arrays, textures, virtual memory management, IPC, green contexts, the JIT linker and graphics are absent: they
 *     return CUDA_ERROR_NOT_SUPPORTED and their names are noted (missing.inc, kernelscope_dryrun_missing_name).
 *   - PTX is not compiled: its mistakes, and a version that a real driver would not know, pass.
 *   - Resetting a primary context marks it inactive and frees nothing. A library's variables are on device 0.
 *   - One call is served at a time, also while it copies memory.
 *   - It was compared with a real driver (580, CUDA 13.0, H100) in some 1,200 calls, not in full. Where they differed
 *     the real one was followed, except for the above, for clusters' occupancy, and for attributes of what is absent.
 *     The attributes of other devices come from NVIDIA's published tables.
 */
#include "driver.h"

#include <stdio.h>

/* ---- start and fork ---- */

/* The lock is taken around a fork, so that the child does not inherit it locked by a thread that it does not have. */
static void before_fork(void) { driver_lock(); }
static void after_fork_in_parent(void) { driver_unlock(); }

static void after_fork_in_child(void)
{
    pthread_mutex_init(&state.lock, NULL);
    if (state.initialized) {
        state.initialized = false;
        state.forked = true;
    }
}

__attribute__((constructor)) static void start(void)
{
    state.settings_valid = settings_read();
    devices_start();
    contexts_start();
    memory_start();
    pools_start();
    streams_start();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

CUresult cuInit(unsigned int Flags)
{
    ENTER_UNINITIALIZED();
    REQUIRE(!state.forked, CUDA_ERROR_NOT_INITIALIZED);
    REQUIRE_ARGUMENT(Flags == 0 && state.settings_valid);
    state.initialized = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *driverVersion)
{
    ENTER_UNINITIALIZED();
    ANSWER(driverVersion, state.driver_version);
}

/* ---- counters, and the control interface that kernelscope.dryrun reads them through ---- */

#pragma GCC visibility push(default)

int kernelscope_dryrun_interface(void) { return 1; } /* tells this library from a real driver */

void kernelscope_dryrun_totals(unsigned long long totals[4])
{
    driver_lock();
    totals[0] = state.launches;
    totals[1] = state.captured_launches;
    totals[2] = state.graph_launches;
    totals[3] = state.graph_kernels;
    driver_unlock();
}

/* The index-th function that was called at least once, by its binary name; 0 after the last. */
int kernelscope_dryrun_called_name(unsigned index, char *name, size_t capacity, unsigned long long *calls)
{
    driver_lock();
    const CallCounter *c = counters;
    while (c && index--) c = c->next;
    if (c) {
        snprintf(name, capacity, "%s", c->name);
        *calls = c->calls;
    }
    driver_unlock();
    return c != NULL;
}

#pragma GCC visibility pop
