"""``kernelscope doctor``: what is installed, what works, and what is missing with the command that brings it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, TypedDict

import kernelscope
from kernelscope import cubin, native
from kernelscope.commands.output import print_answer
from kernelscope.commands.verb import Verb, add_json, decimal
from kernelscope.errors import KernelScopeError
from kernelscope.recorder import overhead
from kernelscope.recorder.overhead import Calibration, Cost, Interval, Stored, stored
from kernelscope.registry import frameworks
from kernelscope.views.answer import Answer, Facts, Many, answer

_TIMEOUT_S = 120

# NVIDIA's driver, by its C interface: this works where no CUDA package is installed.
_GPU = """
import ctypes, json
def ask():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"problem": "no CUDA driver is installed: " + str(error)}
    if hasattr(cuda, "kernelscope_dryrun_interface"):
        return {"problem": "the driver that is found is the dry run's"}
    code = cuda.cuInit(0)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        return {"problem": "the CUDA driver does not start: " + (text.value or b"?").decode() + f" ({code})"}
    number, version = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(number))
    devices = []
    for ordinal in range(number.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        cuda.cuDeviceGetName(name, 256, device)
        capability = []
        for attribute in (75, 76):
            value = ctypes.c_int()
            cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            capability.append(str(value.value))
        devices.append({"name": name.value.decode(), "compute_capability": ".".join(capability)})
    found = {"driver": f"{version.value // 1000}.{version.value % 1000 // 10}", "devices": devices}
    return found if devices else {**found, "problem": "the CUDA driver sees no GPU"}
print(json.dumps(ask()))
"""


def gpu() -> dict[str, Any]:
    """Return ``driver`` and ``devices`` of NVIDIA's CUDA driver, and as ``problem`` why there is no GPU to use."""
    found = ask(_GPU, {"KERNELSCOPE_DRYRUN": "0"})
    return {"problem": None, "driver": None, "devices": [], **found}


def ask(code: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run `code` in a new interpreter and return the JSON object that it prints last; a failure is a ``problem``."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", code], env=child_environment(environment), capture_output=True, text=True,
            timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no answer within {_TIMEOUT_S} s"}
    except OSError as error:
        return {"problem": f"{sys.executable} does not run: {error}"}
    try:
        found: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = run.stderr.strip().splitlines()[-1:] or [f"exit code {run.returncode}"]
        return {"problem": re.sub(r"^[\w.]+\.(?=\w+: )", "", last[0])}
    return found


def child_environment(changes: dict[str, str]) -> dict[str, str]:
    """Return this process' environment with `changes`, in which a child finds this very kernelscope."""
    home = str(Path(kernelscope.__file__).resolve().parents[1])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **changes}


# ``kernelscope doctor --calibrate``.

_HOW = "kernelscope doctor --calibrate measures it, in half a minute"


class CalibrationAnswer(Answer):
    """What kernelscope doctor --calibrate says."""

    file: str | None
    problem: str | None
    calibrations: Annotated[Any, "as they are stored"]


def calibrate_main(arguments: argparse.Namespace) -> int:
    """Measure, store, and print what was measured."""
    from kernelscope.recorder.overhead import calibration_file, store
    from kernelscope.studies.calibration import calibrate

    path = calibration_file()
    if not sys.stderr or not sys.stderr.isatty():  # a terminal gets a line that is written over
        seconds = f"{arguments.seconds + 5:.0f} s"
        print(f"measuring what recording costs, for some {seconds} ...", file=sys.stderr, flush=True)
    made = calibrate(seconds=arguments.seconds, save=False, path=path)
    problem: KernelScopeError | None = None
    try:
        store(made, path)
    except KernelScopeError as error:  # what took half a minute to measure is shown all the same
        problem = error
    if arguments.json:
        print_answer(answer(CalibrationAnswer, {
            "verdict": "; ".join(summary(each) for each in made) + ".", "file": None if problem else str(path),
            "problem": None if problem is None else str(problem),
            "calibrations": Many(made, lambda each: each.to_json())}, arguments.limit))
        return 0 if problem is None else 1
    else:
        text = [line for each in made for line in measured_lines(each)]
        print("\n".join([*text, "" if problem else f"stored in {path}: recordings state this cost from now on"]))
    if problem is not None:
        raise problem
    return 0


def examine_calibration(
    gpus: Sequence[str | None], held: Stored | None = None, today: datetime | None = None,
) -> dict[str, Any]:
    """Return what is stored, as plain JSON values.

    Parameters
    ----------
    gpus : sequence of str or None
        The names of this machine's, None for the dry run.
    held : Stored, optional
        By default what the file holds.
    today : datetime, optional
        The present.

    Returns
    -------
    dict
        ``file``; ``calibrations``, each as it is stored with ``days``, its age, ``summary``, and ``ignored``, why it
        does not hold here or null; and ``problems``, what is wrong with the file.
    """
    held = stored() if held is None else held
    today = today or datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    for each in held.calibrations:
        setting = each.setting
        gpu = setting.gpu if setting.gpu in gpus else next((name for name in gpus if name), None)
        ignored = each.objection(overhead.setting(gpu, setting.detail), today)
        if ignored is None and setting.gpu not in gpus:
            ignored = f"of a GPU that is not here: {setting.gpu}"
        days = round(each.days(today), 1)
        rows.append({**each.to_json(), "days": days, "summary": summary(each), "ignored": ignored})
    return {"file": str(held.path), "calibrations": rows, "problems": list(held.problems)}


def calibration_lines(found: dict[str, Any]) -> list[str]:
    """Return what `examine` found as lines of text."""
    shown = [f"{row['summary']}, {_age(row['days'])}" for row in found["calibrations"] if row["ignored"] is None]
    if not shown:
        shown.append(f"not calibrated, recordings state an estimate; {_HOW}")
    shown += [f"ignored: {row['summary']}, {row['ignored']}" for row in found["calibrations"] if row["ignored"]]
    return shown + [f"ignored: {problem}" for problem in found["problems"]]


def summary(each: Calibration) -> str:
    """Return a calibration on one line."""
    added = each.worst.added
    where = each.setting.gpu or "dry run"
    return f"{where}, detail {each.setting.detail!r}: {difference(added)} a launch"


def measured_lines(each: Calibration) -> list[str]:
    """Return what was measured in one setting, line by line."""
    setting = each.setting
    shown = [f"{setting.gpu or 'dry run'}, detail {setting.detail!r}"]
    shown += [f"  {line}" for cost in each.costs for line in _cost_lines(cost)]
    return shown + [f"  {line}" for line in _doubts(each)]


def difference(added: Interval) -> str:
    """Return a difference with its interval, or that none was seen."""
    ends = f"{added.low_ns:+.0f} to {added.high_ns:+.0f} ns"
    if added.is_seen:
        return f"{added.middle_ns:+.0f} ns ({ends})"
    return f"no difference seen ({ends}), counted as {added.counted_ns:.0f} ns"


def _cost_lines(cost: Cost) -> Iterable[str]:
    launch = f"{cost.arguments} device arrays" if cost.arguments else "no argument"
    yield f"{launch}: {difference(cost.added)}; launches of {cost.launch_ns / 1000:.1f} µs"
    tail = cost.tail
    is_seen = tail.added.low_ns > 0 or tail.added.high_ns < 0
    added = f"{tail.added.middle_ns:+.0f} ns" if is_seen else "no difference seen"
    yield (f"{' ' * len(launch)}  99 of 100 launches took at most {tail.without_ns / 1000:.1f} µs, recorded "
           f"{tail.recorded_ns / 1000:.1f} µs: {added} ({tail.added.low_ns:+.0f} to {tail.added.high_ns:+.0f} ns)")


def _doubts(each: Calibration) -> Iterable[str]:
    if not each.quiet:
        yield "the machine was busy with something else: repeat it at a quiet time for a narrower interval"
    if not each.is_sound:
        yield "two times not recording differ by more than they should: something disturbed the measurement, repeat it"


def _age(days: float) -> str:
    if days < 1:
        return "measured today"
    return "measured yesterday" if days < 2 else f"measured {days:.0f} days ago"


# ``kernelscope doctor``.

_NEEDED = ("numba-cuda", "cuda-core", "cuda-bindings", "numpy", "pyarrow", "pyelftools", "pandas", "ipython",
           "ipywidgets", "anywidget", "plotly", "nvtx")

#: Packages that something can do without, what that is, and the command.
_OPTIONAL = {
    "ipykernel": ("running notebooks", "pip install 'kernelscope[notebook]'"),
    "nbclient": ("kernelscope demo", "pip install 'kernelscope[notebook]'"),
    "nbconvert": ("kernelscope demo", "pip install 'kernelscope[notebook]'"),
}

#: Frameworks by package: what is recorded of each where it is imported.
_FRAMEWORKS = {
    "numba-cuda": "launches with all phases, compiles and the disk cache with reasons",
    "numba-cuda-mlir": "launches, compiles and the disk cache with reasons",
    "cuda-cccl": "calls of cuda.compute, requests to its build cache with reasons",
    "quadrants": "calls of kernels, compiles with reasons, graphs",
    "triton": "launches with grids and options, compiles with stages and reasons by argument",
    "torch": "compiles of torch.compile with stages, reasons by argument, graph breaks, caches, CUDA graph trees",
    **{package: what for framework in frameworks() for package, what in framework.packages.items()},
}

# CUDA's libraries by the names of cuda.pathfinder, and what they are for.
_LIBRARIES = {"nvvm": "compiles kernels", "nvrtc": "compiles CUDA C++", "nvJitLink": "links kernels",
              "cupti": "what the GPU itself did"}
_GET_LIBRARIES = "pip install 'kernelscope[cu13]', or [cu12] where the driver is of CUDA 12"
_COMPILERS = ("cc", "gcc", "clang")

_FIND_LIBRARIES = f"""
import json
from cuda import pathfinder
found = {{}}
for name in {tuple(_LIBRARIES)!r}:
    try:
        found[name] = pathfinder.load_nvidia_dynamic_lib(name).abs_path or "loaded"
    except Exception as error:
        found[name] = None
print(json.dumps({{"found": found}}))
"""

# Whether the GPU's counters may be read, which only a measurement tells.
_COUNTERS = """
import json
from kernelscope.counters.examine import examine
print(json.dumps(examine()))
"""

# Whether Python runs what is to run when it starts: asked of a process that is started as this one was.
_AT_START = """
import json, os, sys
module = sys.modules.get("kernelscope_at_start")
files = [os.path.join(folder, "kernelscope.pth") for folder in sys.path]
print(json.dumps({"module": module and os.path.realpath(module.__file__), "no_site": bool(sys.flags.no_site),
                  "file": next(filter(os.path.isfile, files), None)}))
"""
_BY_HAND = "begin programs with  import kernelscope; kernelscope.processes.start_from_environment()"

# Advice on small grids, which the trial's is, is none here.
_QUIET = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}

# One launch, recorded: if this works, everything on the way does. The last line is all that is read.
_TRIAL = """
import json, os, sys
import kernelscope
kernelscope.dryrun.enable_from_environment()
out = {"dry_run": kernelscope.dryrun.status()._asdict()} if kernelscope.dryrun.is_enabled() else {}
try:
    from numba import cuda
    import numpy
    @cuda.jit
    def trial(array):
        array[0] = 1
    array = cuda.to_device(numpy.zeros(1, dtype=numpy.float32))
    with kernelscope.record("trial") as recorder:
        trial[1, 1](array)
    recording = recorder.recording
    rows = recording.rows("launches")
    out["launches"] = len(rows)
    out["simulator"] = recording.is_simulated
    out["probes"] = [{key: row[key] for key in ("probe", "status", "message", "fix")}
                     for row in recording.rows("health")]
    known = {row["probe"] for row in out["probes"]}
    out["probes"] += [{"probe": name, "status": "ok", "message": None, "fix": None}
                      for name in recording.metadata["probes"] if name not in known]
    if not rows:
        out["problem"] = "a launch was made and not seen"
except Exception as error:
    out["problem"] = " ".join(f"{type(error).__name__}: {error}".split())
print()
print(json.dumps(out))
"""


def main(arguments: argparse.Namespace) -> int:
    """Examine, print, and return 0 if recording is possible; or calibrate, and print what was measured."""
    if arguments.calibrate:
        return calibrate_main(arguments)
    found = examine()
    if arguments.json:
        print_answer(doctor_answer(found, arguments.limit))
    else:
        print("\n".join(lines(found)))
    return 0 if found["can_record"] else 1


class DoctorDeviceMembers(TypedDict):
    """A GPU."""

    name: str
    compute_capability: str


class DoctorGpuMembers(TypedDict):
    """The GPUs, and whether a launch there was recorded."""

    problem: str | None
    driver: str | None
    devices: Many[DoctorDeviceMembers]
    trial_problem: str | None
    trial_launches: int | None


class DoctorCountersMembers(TypedDict):
    """Whether the GPU's counters may be read."""

    problem: str | None
    may_read: bool | None
    why: str | None
    fix: str | None
    note: str | None


class DoctorDryRunMembers(TypedDict):
    """Whether a launch of the dry run was recorded."""

    problem: str | None
    launches: int | None


class DoctorRecorderMembers(TypedDict):
    """What records launches."""

    extension: str | None
    compiler: str | None
    clock: str | None
    old: str | None


class DoctorAtStartMembers(TypedDict):
    """What starts recording with Python."""

    file: str | None
    problem: str | None


class DoctorProbeMembers(TypedDict):
    """A probe, and what it said of the trial launch."""

    probe: str
    status: str
    message: str | None
    fix: str | None


class DoctorFrameworkMembers(TypedDict):
    """A framework that is installed."""

    package: str
    version: str
    recorded: str


class DoctorMissingMembers(TypedDict):
    """What is missing, with the command that brings it."""

    what: str
    command: str


class CalibrationMembers(TypedDict):
    """A stored calibration."""

    summary: str
    days: float
    ignored: str | None


class DoctorCostMembers(TypedDict):
    """What is known of recording's own cost."""

    file: str | None
    calibrations: Many[CalibrationMembers]
    problems: Many[str]


class DoctorAnswer(Answer):
    """What kernelscope doctor says."""

    can_record: bool
    missing: Many[DoctorMissingMembers]
    gpu: DoctorGpuMembers
    counters: DoctorCountersMembers
    dry_run: DoctorDryRunMembers
    simulator: bool
    recorder: DoctorRecorderMembers
    at_start: DoctorAtStartMembers
    probes: Many[DoctorProbeMembers]
    frameworks: Many[DoctorFrameworkMembers]
    own_cost: DoctorCostMembers
    kernelscope: str
    python: str
    platform: str
    packages: Annotated[Facts, "by name; null where it is missing"]
    libraries: Annotated[Facts, "by name; null where it is missing"]


def doctor_answer(found: dict[str, Any], limit: int | None = None) -> dict[str, Any]:
    """Return what `examine` found as an answer for programs; names and texts are this machine's, not a recording's."""
    trial, counters = found["gpu"]["trial"], found["counters"]

    def calibration(row: dict[str, Any]) -> CalibrationMembers:
        return {"summary": row["summary"], "days": row["days"], "ignored": row["ignored"]}

    return answer(DoctorAnswer, {
        "verdict": _verdict(found), "can_record": found["can_record"], "missing": Many(found["missing"], weight=2),
        "gpu": {
            "problem": found["gpu"]["problem"], "driver": found["gpu"]["driver"],
            "devices": Many(found["gpu"]["devices"]),
            "trial_problem": None if trial is None else trial.get("problem"),
            "trial_launches": None if trial is None else trial.get("launches")},
        "counters": {"problem": counters.get("problem"), "may_read": counters.get("may_read"),
                     "why": counters.get("why"), "fix": counters.get("fix"), "note": counters.get("note")},
        "dry_run": {"problem": found["dry_run"].get("problem"), "launches": found["dry_run"].get("launches")},
        "simulator": found["simulator"], "recorder": found["recorder"], "at_start": found["at_start"],
        "probes": Many(found["probes"], weight=2), "frameworks": Many(found["frameworks"], weight=2),
        "own_cost": {
            "file": found["own_cost"]["file"],
            "calibrations": Many(found["own_cost"]["calibrations"], calibration),
            "problems": Many(found["own_cost"]["problems"])},
        "kernelscope": found["kernelscope"], "python": found["python"], "platform": found["platform"],
        "packages": Facts(found["packages"], weight=4),
        "libraries": Facts({**found["libraries"], "nvdisasm": found["nvdisasm"]}, weight=4)}, limit)


def examine() -> dict[str, Any]:
    """Return everything that the doctor knows, as plain JSON values."""
    packages = {name: _version(name) for name in (*_NEEDED, *_OPTIONAL)}
    device = gpu()
    has_gpu = not device["problem"]
    real = ask(_TRIAL, {"KERNELSCOPE_DRYRUN": "0", **_QUIET}) if has_gpu else None
    dry = ask(_TRIAL, {"KERNELSCOPE_DRYRUN": "1", "NUMBA_ENABLE_CUDASIM": "0", **_QUIET})
    best = real if real is not None and "problem" not in real else dry
    counters = ask(_COUNTERS, {"KERNELSCOPE_DRYRUN": "0"}) if has_gpu else {"problem": "there is no GPU here"}
    libraries: dict[str, str | None] = ask(_FIND_LIBRARIES, {}).get("found", dict.fromkeys(_LIBRARIES))
    return {
        "kernelscope": kernelscope.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "frameworks": [{"package": name, "version": version, "recorded": recorded}
                       for name, recorded in _FRAMEWORKS.items() if (version := _version(name)) is not None],
        "recorder": _recorder(),
        "at_start": at_start(),
        "gpu": {**device, "trial": real},
        "counters": counters,
        "dry_run": dry,
        "simulator": os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
        "libraries": libraries,
        "nvdisasm": str(cubin.find() or "") or None,
        "probes": best.get("probes", []),
        "own_cost": examine_calibration([None, *(each["name"] for each in device["devices"])]),
        "missing": _missing(packages, libraries, cubin.find() is not None),
        "can_record": "problem" not in best,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """Return the findings as lines of text."""
    shown = [f"KernelScope {found['kernelscope']}, Python {found['python']}, {found['platform']}", ""]
    shown += _section("GPU", _gpu_lines(found["gpu"]))
    shown += _section("counters", _counters_lines(found["counters"]))
    shown += _section("dry run", _dry_run_lines(found["dry_run"]))
    if found["simulator"]:
        shown += _section("simulator", ["NUMBA_ENABLE_CUDASIM=1: times say nothing about a GPU"])
    shown += _section("recorder", _recorder_lines(found["recorder"]))
    shown += _section("at start", [at_start_line(found["at_start"])])
    probes = [f"{row['probe']}: {row['status']}" + (f", {row['message']}" if row["message"] else "")
              + (f"; fix: {row['fix']}" if row["fix"] else "") for row in found["probes"]]
    shown += _section("probes", probes or ["not tried, since no launch worked"])
    frameworks = [f"{row['package']} {row['version']}: {row['recorded']}" for row in found["frameworks"]]
    shown += _section("records", frameworks or ["none is installed that is recorded"])
    shown += _section("own cost", calibration_lines(found["own_cost"]))
    used = {**_LIBRARIES, "nvdisasm": "shows machine code"}
    shown += _section("CUDA", [f"{name} ({used[name]}): {path or 'not found'}"
                               for name, path in {**found["libraries"], "nvdisasm": found["nvdisasm"]}.items()])
    installed = [f"{name} {version}" for name, version in found["packages"].items() if version]
    shown += _section("packages", [", ".join(installed[start:start + 5]) for start in range(0, len(installed), 5)])
    shown += _section("missing", [f"{row['what']}: {row['command']}" for row in found["missing"]] or ["nothing"])
    return [*shown, "", _verdict(found)]


def at_start() -> dict[str, str | None]:
    """Return the ``kernelscope.pth`` that Python runs when it starts, and as ``problem`` why it does not."""
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()  # noqa: B009 typeshed does not know it
    environment = {**os.environ, "KERNELSCOPE_RECORD": os.devnull}
    try:
        run = subprocess.run([sys.executable, *flags, "-c", _AT_START], env=environment, capture_output=True, text=True,
                             timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(run.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"file": None, "problem": f"{sys.executable} does not run: {error}"}
    home = Path(kernelscope.__file__).resolve().parents[1]
    problem = None
    if found["no_site"]:
        problem = "Python was started with -S, which leaves kernelscope.pth out; start it without"
    elif found["file"] is None:
        problem = "there is no kernelscope.pth among Python's packages; install kernelscope with pip"
    elif found["module"] is None:
        last = [line for line in run.stderr.splitlines() if re.match(r"\s*\w*Error: ", line)][-1:]
        problem = f"{found['file']} is not run" + (f": {last[0].strip()}" if last else (
            ", because Python does not look for such files in its folder; install kernelscope where it does"))
    elif Path(found["module"]).parent != home:
        problem = f"{found['file']} is of another installation: {Path(found['module']).parent}"
    return {"file": found["file"], "problem": problem}


def at_start_line(found: dict[str, str | None]) -> str:
    """Return what `at_start` found as a line of text."""
    if found["problem"] is None:
        return f"{found['file']}: processes with KERNELSCOPE_RECORD in their environment record themselves"
    return f"processes do not record themselves: {found['problem']}, or {_BY_HAND}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _missing(packages: dict[str, str | None], libraries: dict[str, str | None],
             disassembles: bool) -> list[dict[str, str]]:
    rows = [{"what": name, "command": f"pip install {name}"} for name in _NEEDED if packages[name] is None]
    rows += [{"what": f"{name} (for {use})", "command": command}
             for name, (use, command) in _OPTIONAL.items() if packages[name] is None]
    absent = [name for name, path in libraries.items() if path is None]
    if "cupti" in absent:
        absent.remove("cupti")
        rows.append({"what": "CUPTI (for what the GPU itself did; its licence is NVIDIA's own)",
                     "command": "pip install 'kernelscope[cupti]'"})
    if absent:
        rows.append({"what": f"CUDA's {', '.join(absent)}", "command": _GET_LIBRARIES})
    if not disassembles:
        rows.append({"what": "nvdisasm (for machine code as SASS; its licence is NVIDIA's own)",
                     "command": "pip install 'kernelscope[sass]'"})
    if not any(shutil.which(name) for name in _COMPILERS):
        rows.append({"what": "a C compiler (for the dry run)",
                     "command": "apt-get install gcc libc6-dev"})
    return rows


def _recorder() -> dict[str, str | None]:
    """Return the C extension's path, compiler and clock, and whether its sources are newer."""
    path = native.core.__file__ or ""
    # What compiled a library, as compilers write it into the section ``.comment``.
    found = re.search(rb"(?:GCC: |[ -~]*clang version )[ -~]+", Path(path).read_bytes())
    return {"extension": path, "compiler": found[0].decode() if found else None, "clock": native.core.CLOCK,
            "old": native.why_old()}


def _recorder_lines(recorder: dict[str, str | None]) -> list[str]:
    shown = [f"{recorder['extension']}, compiled by {recorder['compiler'] or 'an unknown compiler'}"]
    if recorder["clock"] == "tsc":
        shown.append("its clock: the processor's counter (tsc), put right by the system's clock each millisecond")
    if recorder["old"]:
        shown.append(f"compile it anew: {recorder['old']}")
    return shown


def _gpu_lines(device: dict[str, Any]) -> list[str]:
    if device["problem"]:
        return [f"none: {device['problem']}"]
    shown = [f"{each['name']}, compute capability {each['compute_capability']}" for each in device["devices"]]
    problem = (device["trial"] or {}).get("problem")
    outcome = f"a launch failed: {problem}" if problem else "a launch was recorded"
    return [*shown, f"CUDA driver {device['driver']}; {outcome}"]


def _counters_lines(counters: dict[str, Any]) -> list[str]:
    if counters.get("problem"):
        return [f"may not be read: {counters['problem']}"]
    shown = [f"may {'' if counters['may_read'] else 'not '}be read: {counters['why']}"]
    shown += [text for text in (counters["note"], counters["fix"] and f"to do: {counters['fix']}") if text]
    return shown + [f"{name}: {path}" for name, path in counters["libraries"].items()]


def _dry_run_lines(dry: dict[str, Any]) -> list[str]:
    if dry.get("problem"):
        return [f"does not work: {dry['problem']}"]
    status = dry.get("dry_run", {})
    capabilities = ", ".join(".".join(str(part) for part in pair) for pair in status.get("compute_capabilities", []))
    return [f"works: a launch was recorded; compute capability {capabilities}, {status.get('library')}"]


def _verdict(found: dict[str, Any]) -> str:
    if not found["can_record"]:
        return "Recording is not possible here: see what is missing above."
    trial = found["gpu"]["trial"]
    if trial is not None and "problem" not in trial:
        return "Recording works here, on the GPU."
    return "Recording works here as a dry run: set KERNELSCOPE_DRYRUN=1, or use %kernelscope dryrun."


def _section(title: str, texts: list[str]) -> list[str]:
    return [f"{title if place == 0 else '':<10} {text}" for place, text in enumerate(texts)]


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    add_json(parser)
    parser.add_argument("--calibrate", action="store_true",
                        help="measure what recording costs a launch here, on the GPU or else on the dry run, for the "
                             "recordings to come to state; nothing else is examined")
    parser.add_argument("--seconds", metavar="S", default=20.0,
                        type=decimal("a number of seconds, up to 3600", "s", lambda value: 0 < value <= 3600),
                        help="how long --calibrate measures (default: 20, and some seconds to start and to end)")


VERBS = {"doctor": Verb(_arguments, main, about="""\
Say what is installed, whether this machine has a GPU and its counters may be read, whether the dry run works, which
probes would, and what is missing with the command that brings it, what is recorded of each framework, and what
recording costs, if that was measured. Exit code 0 if recording is possible, 1 otherwise.""")}
