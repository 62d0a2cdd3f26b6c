"""Tries whether a study with its default settings finds a launch that is 2 to 3 % slower; without a GPU too.

    KERNELSCOPE_DRYRUN=1 python benchmarks/sensitivity.py [--studies N] [--spin NS]

Two worktrees of the installed numba-cuda are compared, the later of which spins in each launch. Each study says what it
found with 1 and 2 arguments, beside what the spin takes by itself. Of simulated studies 98 of 100 find 2 %.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

from study_repositories import numba_cuda_repository, spin_us

from kernelscope import studies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=5)
    parser.add_argument("--spin", type=int, default=200, metavar="NS", help="how long each launch spins")
    options = parser.parse_args()
    print("| study | case | verdict | difference (95 %) | the spin by itself |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        repository = numba_cuda_repository(Path(folder) / "numba-cuda", options.spin, compiled=False)
        for number in range(options.studies):
            result = studies.against("HEAD~", "HEAD", repo=repository, args="1,2", install=False, progress=False)
            for each in result.differences:
                print(f"| {number + 1} | {each.case} | {each.verdict} | {each.difference_us:.2f} µs "
                      f"({each.low_us:.2f} to {each.high_us:.2f}), {each.difference_percent:.1f} % "
                      f"| {spin_us(options.spin):.2f} µs |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
