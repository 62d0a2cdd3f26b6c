"""How long `kernelscope.analysis.compiles.explain` takes for 1,000 compilations: python benchmarks/reasons.py.

By hand-made recordings, so that it needs neither a GPU nor a framework; lru caches are emptied before each round, as a
new process has them.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / "helpers")]

from handmade import Script  # noqa: E402

from kernelscope.analysis import signatures  # noqa: E402
from kernelscope.analysis.compiles import explain  # noqa: E402
from kernelscope.recording.model import Recording  # noqa: E402

ROUNDS = 9
COMPILES = 1_000
DTYPES = ("int8", "int16", "int32", "int64", "float16", "float32", "float64")


def main() -> int:
    """Print a line for each kind of recording."""
    for label, kernels, sensitive in (("one kernel, all of other types", 1, False),
                                      ("50 kernels of 20 specializations", 50, False),
                                      ("a kernel each", COMPILES, False),
                                      ("one launch-config sensitive kernel", 1, True)):
        recording = compiled(kernels, sensitive)
        times: list[float] = []
        for _ in range(ROUNDS):
            forget()
            start = time.perf_counter()
            explain(recording)
            times.append((time.perf_counter() - start) * 1e3)
        print(f"{COMPILES:,} compilations, {label}: {statistics.median(times):.0f} ms "
              f"({min(times):.0f} to {max(times):.0f})")
    return 0


def compiled(kernels: int, sensitive: bool) -> Recording:
    """Return a recording of compilations that none but its launch configuration or its types tells from another."""
    script = Script()
    for at in range(kernels):
        script.kernel(f"kernel_{at}", arguments="x, y, t, n")
    for at in range(COMPILES):
        script.configuration((at + 1,))
        turn = 0 if sensitive else at // kernels
        x, y = DTYPES[turn % 7], DTYPES[turn // 7 % 7]
        types = f"(array({x}, {turn % 3 + 1}d, C), array({y}, 1d, A), UniTuple({x} x {turn // 40 + 1}), int64)"
        script.compilation(at % kernels, signature=types, configuration_id=at, launch_config_sensitive=sensitive,
                           attributes=json.dumps({"known_signatures": []}))
    return script.recording()


def forget() -> None:
    """Empty what is kept from one signature to the next."""
    for module in (signatures, signatures):
        for each in vars(module).values():
            if hasattr(each, "cache_clear"):
                each.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
