"""One recording with something of everything that a timeline can show."""

from __future__ import annotations

from typing import Any

from handmade import US, Script

from kernelscope.recording.model import Recording


def everything(rounds: int = 6, name: str = "everything", **metadata: Any) -> Recording:
    """Cells, ranges, two threads, nested launches, a compile, collections, graphs, copies, waits, two devices."""
    script = Script(name=name, gpu={"source": "cupti"}, **metadata)
    base = script.now
    script.rows["threads"] = [
        {"thread_id": 0, "ident": 140_084_523_599_552, "name": "MainThread"},
        {"thread_id": 1, "ident": 140_084_515_206_848, "name": "worker"},
    ]
    script.device(name="NVIDIA H200", compute_capability="9.0", multiprocessors=132)
    script.device(name="NVIDIA H200", ordinal=1)
    for at, kernel in enumerate(("axpy", "stencil", "reduce_sum", "transpose")):
        script.kernel(kernel, lineno=10 * at)
        script.specialization(at, regs=24 + 8 * at, compute_capability="9.0", launch_config_sensitive=at == 2,
                              static_shared_bytes=1024 * at, max_threads=1024)
        script.configuration((256 * (at + 1),), (256,))
    script.occupancy(1, 1, 0.75)
    cell = script.cell(wall_ns=0, execution_count=3, name="warm-up", source="step(x)\nstep(y)")
    script.range("setup", start_ns=base, color="#4477aa", category="phase")
    compile_ns = 800 * US
    launch = script.launch(0, (6 * US, compile_ns, 9 * US, 4 * US, 2 * US), compilation_id=0, correlation_id=100)
    script.compilation(0, start_ns=base + 4 * US, end_ns=base + 4 * US + compile_ns, launch_id=launch, cell_id=cell,
                       specialization_id=0, configuration_id=0, reason="the kernel had no specialization yet",
                       reason_code="first", fix="@cuda.jit(['void(float32[:])']) compiles it at the definition")
    add = script._add
    for at, (phase, share) in enumerate((("nvvm", 0.5), ("link", 0.2), ("load", 0.1))):
        before = sum(int(each * compile_ns) for each in (0.5, 0.2, 0.1)[:at])
        add("passes", None, {"compilation_id": 0, "kind": "phase", "name": phase,
                             "duration_ns": int(share * compile_ns), "start_ns": base + 10 * US + before})
    add("passes", None, {"compilation_id": 0, "kind": "pass", "name": "ir_processing", "duration_ns": 90 * US})
    _kernel(script, launch, 0, script.now + 3 * US, 60 * US)
    script.rows["ranges"][0]["end_ns"] = script.now
    script.rows["cells"][0]["end_ns"] = script.now + 200 * US
    script.rows["cells"][0]["synchronized_ns"] = script.now + 260 * US

    script.now += 300 * US
    script.cell(wall_ns=0, execution_count=4, name="steps")
    free = script.now
    for each in range(rounds):
        free = _round(script, each, free)
    script.range("prefetch", kind="start_end", start_ns=base + 500 * US, end_ns=script.now - 200 * US, domain="loader",
                 color="#cc6677")
    script.range("prefetch again", kind="start_end", start_ns=base + 900 * US, end_ns=script.now - 100 * US,
                 domain="loader", color="#ffffff")
    script.range("never closed", kind="start_end", start_ns=script.now - 300 * US, end_ns=None, domain="loader")
    script.launch(3, None, 3, 3, end_ns=None, cell_id=1)
    script.launch(1, None, 1, 1, error="TypeError", cache=None, specialization_id=None)
    script.rows["cells"][1] |= {"end_ns": script.now + 40 * US, "status": "error", "error": "TypeError: not an array"}
    script.health(status="ok", cost_ns=800.0, total_cost_ns=8_000.0)
    return Recording(_tables(script), script.metadata)


def _round(script: Script, each: int, free: int) -> int:
    begin = script.now
    step = script.range(f"step {each}", cell_id=1, start_ns=begin, color="#228833", payload=str(each))
    correlation = 1_000 * (each + 1)
    script.activity("memcpy", "HtoD", 35 * US, start_ns=begin + 12 * US, size_bytes=4 << 20, memory="pinned to device",
                    api="cuMemcpyHtoDAsync_v2", submit_start_ns=begin, submit_end_ns=begin + 8 * US, stream=14,
                    correlation_id=correlation, cell_id=1)
    script.now += 12 * US
    for at in range(4):
        if at == 2:
            script.range("inner", start_ns=script.now, end_ns=script.now + 40 * US, depth=1, parent_range_id=step,
                         color="#ccbb44", cell_id=1)
        start = script.now
        outer = script.launch(at, (3 * US, 0, 5 * US, 4 * US, 1 * US), at, at, cell_id=1,
                              thread_id=1 if at == 3 else 0, correlation_id=correlation + at + 1)
        if at == 2:
            script.rows["launches"][outer]["end_ns"] = start + 26 * US
            script.rows["launches"][outer]["submit_end_ns"] = start + 25 * US
            script.rows["launches"][outer]["submit_start_ns"] = start + 21 * US
            script.rows["launches"][outer]["dispatch_end_ns"] = start + 18 * US
            script.launch(1, (2 * US, 0, 3 * US, 2 * US, 1 * US), 1, 1, cell_id=1, start_ns=start + 4 * US,
                          parent_launch_id=outer, dispatch_end_ns=start + 6 * US, submit_start_ns=start + 9 * US,
                          submit_end_ns=start + 11 * US, end_ns=start + 12 * US)
            script.now = start + 30 * US
        row = script.rows["launches"][outer]
        free = _kernel(script, outer, at, max(free + US, row["submit_end_ns"] + 2 * US), (22 + 9 * at) * US)
    script.range("checkpoint", kind="mark", start_ns=script.now, end_ns=script.now, color="#aa3377", cell_id=1)
    asked = script.now
    for node in range(3):
        script.activity("kernel", ("fused_a", "fused_b", "fused_c")[node], 9 * US, start_ns=free + (2 + 11 * node) * US,
                        cupti_graph_id=5, cupti_node_id=node + 1, correlation_id=correlation + 50, cell_id=1, regs=40,
                        api="cuGraphLaunch", submit_start_ns=asked, submit_end_ns=asked + 7 * US, entry_name="_Zfused")
    free += 40 * US
    script.now += 10 * US
    script.activity("kernel", "ampere_sgemm_128x64", 30 * US, start_ns=script.now + 5 * US, stream=20, device_id=1,
                    api="cudaLaunchKernel", submit_start_ns=script.now, submit_end_ns=script.now + 4 * US,
                    correlation_id=correlation + 60, cell_id=1)
    script.activity("memset", "memset", 4 * US, start_ns=script.now + 40 * US, stream=20, device_id=1, size_bytes=65536,
                    memory="device", correlation_id=correlation + 61, cell_id=1)
    script.now += 6 * US
    script.api_call("cuMemAlloc_v2", 5 * US, cell_id=1)
    script.now += 7 * US
    wait = max(free - script.now, 10 * US)
    script.activity("sync", "stream synchronize", wait, start_ns=script.now, stream=7, cell_id=1)
    script.now += wait
    script.activity("memcpy", "DtoH", 15 * US, start_ns=script.now + 3 * US, size_bytes=1 << 20,
                    memory="device to pageable", api="cuMemcpyDtoH_v2", submit_start_ns=script.now,
                    submit_end_ns=script.now + 20 * US, stream=7,
                    correlation_id=correlation + 70, cell_id=1)
    script.now += 24 * US
    script.collection(script.now - 3 * US, script.now, generation=each % 3, collected=100 * each, cell_id=1,
                      thread_id=each % 2)
    script.rows["ranges"][step]["end_ns"] = script.now
    script.now += 6 * US
    return max(free, script.now)


def _kernel(script: Script, launch: int, at: int, start: int, duration: int) -> int:
    row = script.rows["launches"][launch]
    script.activity("kernel", ("axpy", "stencil", "reduce_sum", "transpose")[at], duration, start_ns=start,
                    launch_id=launch, specialization_id=at, configuration_id=at, regs=24 + 8 * at,
                    correlation_id=row["correlation_id"], entry_name=f"_ZN8__main__{at}", api="cuLaunchKernelEx",
                    submit_start_ns=row["submit_start_ns"] + 500, submit_end_ns=row["submit_end_ns"] - 400,
                    cell_id=row["cell_id"], thread_id=row["thread_id"])
    row |= {"queue_ns": max(0, start - row["submit_end_ns"]), "execute_ns": duration, "device_id": 0}
    return start + duration


def _tables(script: Script) -> dict[str, Any]:
    """Tables whose rows are in order of start, their ids and references renumbered."""
    from kernelscope.recording.parquet import table_of_rows

    rows = script.rows
    orders = {}
    for name, own in (("launches", "launch_id"), ("ranges", "range_id"), ("activities", "activity_id")):
        rows[name].sort(key=lambda row: row["start_ns"])
        orders[name] = {row[own]: at for at, row in enumerate(rows[name])}
        for at, row in enumerate(rows[name]):
            row[own] = at
    for name, column, target in (("launches", "parent_launch_id", "launches"), ("activities", "launch_id", "launches"),
                                 ("compilations", "launch_id", "launches"), ("ranges", "parent_range_id", "ranges")):
        for row in rows[name]:
            if row.get(column) is not None:
                row[column] = orders[target][row[column]]
    return {name: table_of_rows(name, each) for name, each in rows.items()}
