"""Makes notebooks/recordings/stalls.kscope on a real GPU: where the warps of the kernels of record_counters.py wait.

    python benchmarks/record_stalls.py OUTDIR

Two matrix products, a copy, an axpy with a float32 and by accident with a float64, a reduction, and transposes that
write with a stride, that read shared memory from one bank, and that do neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

import record_counters

import kernelscope


def main() -> int:
    """Make the recording and say how large it is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if kernelscope.dryrun.is_enabled():
        print("this is no GPU: its recording would say so and is no fixture", file=sys.stderr)
        return 1
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with kernelscope.record("stalls", stalls=True) as recorder:
        record_counters.launch_all()
    recording = recorder.recording
    path = recording.save(folder / "stalls")
    print(recording.summary())
    print(f"{path}: {recording.pc_samples.samples.sum():,} samples in {len(recording.pc_samples):,} rows, "
          f"{path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
