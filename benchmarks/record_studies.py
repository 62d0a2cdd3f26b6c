"""Makes what the notebooks of studies show, on a real GPU, and prints what it finds.

    python benchmarks/record_studies.py OUTDIR [--find-links WHEELS --no-index] [--only PART ...] [--target TARGET ...]

Parts, in their order (all of them take about ten minutes):

    study      launch_overhead.json, launch_overhead_again.json: 0 to 4 arguments in three targets, twice
    agree      whether the two agree within their intervals (needs the files of `study`)
    anatomy    anatomy.json: the parts of a launch in the same targets
    cases      launch_cases.json: all built-in cases, in the first target
    recording  recording_overhead.json: KernelScope off against on, both recorders, 0 to 4 arguments, here
    graphs     eager_vs_graph.json: by number of kernels and by how long they run
    suite      launch_suite.json: numba-cuda's own benchmarks (needs pytest-benchmark in the targets)

Targets by default: numba-cuda 0.30.4 and 0.29.0 and numba-cuda-mlir 0.6.0, each in an environment of its own. For a
machine without a network the wheels are fetched before, on one that has it, with the same version of Python:

    pip download -d WHEELS 'numba-cuda[cu13]==0.30.4' 'numpy<2.5'
    pip download -d WHEELS 'numba-cuda[cu13]==0.29.0' 'numba<0.64' 'numpy<2.4'
    pip download -d WHEELS 'numba-cuda-mlir[cu13]==0.6.0' 'numpy<2.5'

numba-cuda 0.29.0 fails with numba 0.68, which has changed since; a folder with both gives 0.30.4 the newer one, and so
an interpreter whose environment has the older one may be given: --target 0.29.0=ENVIRONMENT/bin/python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

from kernelscope import studies
from kernelscope.errors import StudyError
from kernelscope.studies.cases import ARRAYS, DETAILS, groups, recorded

TARGETS = ("0.30.4=numba-cuda==0.30.4", "0.29.0=numba-cuda==0.29.0", "mlir-0.6.0=numba-cuda-mlir==0.6.0")
STUDIES = ("launch_overhead.json", "launch_overhead_again.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--target", action="append", dest="targets", help="instead of the three")
    parser.add_argument("--find-links", action="append", default=[])
    parser.add_argument("--no-index", action="store_true")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="a part; once for each")
    parser.add_argument("--processes", type=int, help="of each target, in each part; by default the library's")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of measuring recording; by default none")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in arguments.only or PARTS:
        began = time.monotonic()
        print(f"== {name}", flush=True)
        try:
            PARTS[name](arguments)
        except (StudyError, subprocess.CalledProcessError) as error:
            # What the other parts find is worth having.
            failed += 1
            print(f"{name} failed: {error}")
        print(f"-- {name}: {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


def options(arguments: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {"find_links": arguments.find_links, "no_index": arguments.no_index, "progress": tell()}
    return given if arguments.processes is None else {**given, "processes": arguments.processes}


def targets(arguments: argparse.Namespace) -> list[str]:
    return list(arguments.targets or TARGETS)


def study(arguments: argparse.Namespace) -> None:
    for name in STUDIES:
        keep(studies.launch_overhead(targets(arguments), args="0-4", **options(arguments)), arguments.out / name)


def agree(arguments: argparse.Namespace) -> None:
    old, new = (studies.load(arguments.out / name) for name in STUDIES)
    print(studies.compare(old, new))
    again = {(each.target, each.case): each for each in new.differences if not each.within}
    for each in old.differences:
        other = None if each.within else again.get((each.target, each.case))
        if other is not None:
            # In per cent: how fast the machine is may change from one study to the next.
            meet = each.low_percent <= other.high_percent and other.low_percent <= each.high_percent
            print(f"{each.target}, {each.case}: {interval(each)} and {interval(other)}: "
                  f"{'they agree' if meet else 'THEY DO NOT AGREE'}; {each.verdict}, {other.verdict}")


def interval(difference: Any) -> str:
    return (f"{difference.difference_us:+.2f} us, {difference.percent:+.1f} % "
            f"[{difference.low_percent:+.1f}, {difference.high_percent:+.1f}]")


def anatomy(arguments: argparse.Namespace) -> None:
    keep(studies.anatomy(targets(arguments), **options(arguments)), arguments.out / "anatomy.json")


def cases(arguments: argparse.Namespace) -> None:
    names = [name for name in groups() if name not in ("empty", "recording")]
    keep(studies.launch_overhead(targets(arguments)[:1], names, **options(arguments)),
         arguments.out / "launch_cases.json")


def recording(arguments: argparse.Namespace) -> None:
    names = [recorded(detail, count).name for count in range(ARRAYS + 1) for detail in DETAILS
             if detail == "phases" or count in (0, ARRAYS)]
    # Each batch begins with a recording that starts: rather more processes than more batches.
    keep(studies.launch_overhead("current", names, repeats=20, limit_s=arguments.limit, **options(arguments)),
         arguments.out / "recording_overhead.json")


def graphs(arguments: argparse.Namespace) -> None:
    script = Path(__file__).with_name("eager_vs_graph.py")
    subprocess.run([sys.executable, script, arguments.out / "eager_vs_graph.json"], check=True)


def suite(arguments: argparse.Namespace) -> None:
    keep(studies.suite(targets(arguments), **options(arguments)), arguments.out / "launch_suite.json")


def keep(result: Any, path: Path) -> None:
    result.save(path)
    print(result)
    print(f"wrote {path}, {path.stat().st_size / 1e6:.2f} MB", flush=True)


def tell() -> Callable[[float, str], None]:
    """Return what prints the progress, a line for every tenth of it and for what is made before."""
    last = [-1.0, ""]

    def show(done: float, text: str) -> None:
        if done >= last[0] + 0.1 or done < last[0] or (not done and text != last[1]):
            last[:] = [done, text]
            print(f"   {done:4.0%} {text}", flush=True)

    return show


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "study": study, "agree": agree, "anatomy": anatomy, "cases": cases, "recording": recording, "graphs": graphs,
    "suite": suite}

if __name__ == "__main__":
    raise SystemExit(main())
