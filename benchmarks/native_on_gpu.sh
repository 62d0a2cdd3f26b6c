#!/usr/bin/env bash
# All of benchmarks/native.py on a machine with a GPU, in at most eight minutes.
#
#     [MINUTES=7] benchmarks/native_on_gpu.sh OUTDIR [PYTHON]
#
# OUTDIR/native.md, native.json and native.log grow part by part, so that what was found is there whenever it ends.
# The C extension is compiled in place where it is not there yet.
set -uo pipefail
out=$(mkdir -p "${1:?say where the figures go: native_on_gpu.sh OUTDIR [PYTHON]}" && cd "$1" && pwd)
python=${2:-python3}
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
{
    nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
    cat /proc/loadavg
    if ! "$python" -c 'from kernelscope.native import core' 2>/dev/null; then
        timeout 60 "$python" setup.py -q build_ext --inplace
    fi
} >"$out/native.log" 2>&1
timeout --kill-after=5 465 "$python" benchmarks/native.py --minutes "${MINUTES:-7}" --output "$out/native.json" 2>>"$out/native.log" |
    tee "$out/native.md"
status=$?
cat /proc/loadavg >>"$out/native.log"
tail -n 40 "$out/native.log"
exit $status
