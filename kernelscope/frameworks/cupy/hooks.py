"""The probe of CuPy: compiles through its Python functions. Its launches are those that CUPTI reports."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Probe, error_text, numbers_of, untried
from kernelscope.probes.sink import Sink

FRAMEWORK = "cupy"
#: The versions, by their first number, that the hooks were tried with.
KNOWN_VERSIONS = ("14",)

_COMPILE = ["source", "options", "arch"]
#: What CuPy calls its own functions for; the innermost that is there compiles.
_NVRTC = ("_compile_using_nvrtc_no_warning", "compile_using_nvrtc")

# Every kernel of CuPy, whatever made its source, is compiled or loaded by ``cupy.cuda.compiler``'s function
# ``_compile_with_cache_cuda``, once for each kernel object, dtypes and device: CuPy keeps the module in memory. The
# calls of NVRTC and NVCC below it tell a compile from a load, and the cache's ``load`` tells the key. Kernels and
# modules are of compiled types without hooks: who launches one is not seen here.
#
# A specialization has the kernel's name as its entry name, so that launches that CUPTI reports are of it, unless
# several have the name: an ElementwiseKernel's does not have its dtypes.


class CupyProbe(Probe):
    """Hooks CuPy's compiler where it is imported, or as soon as it is."""

    name = FRAMEWORK
    module = "cupy.cuda.compiler"
    fix = "pip install 'cupy-cuda13x>=14,<15'"

    def __init__(self) -> None:
        super().__init__()
        self._hooks: CompileHooks | None = None

    @property
    def is_hooked(self) -> bool:
        """Nothing is on the path of a launch. See `Probe.is_hooked`."""
        return False

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the compiles. See `Probe.hook`."""
        version = str(getattr(sys.modules.get("cupy"), "__version__", ""))
        problems = self_check(module)
        if problems:
            raise ProbeUnavailableError(
                f"cupy {version or 'of an unknown version'} has other functions than this probe knows, and its "
                f"compiles are not recorded; those of {', '.join(KNOWN_VERSIONS)} are: {'; '.join(problems)}")
        self._hooks = hooks = CompileHooks(sink, module)
        self.patches.hook(module, "_compile_with_cache_cuda", hooks.make_compile)
        name = next(each for each in _NVRTC if each in vars(module))
        self.patches.hook(module, name, lambda original: hooks.make_phase(original, "nvrtc"))
        if inspect.isfunction(vars(module).get("compile_using_nvcc")):
            self.patches.hook(module, "compile_using_nvcc", lambda original: hooks.make_phase(original, "nvcc"))
        cache = getattr(module, "_DiskKernelCacheBackend", None)
        if cache is not None and inspect.isfunction(vars(cache).get("load")):
            self.patches.hook(cache, "load", hooks.make_load)
        if version and numbers_of(version)[:1] not in map(numbers_of, KNOWN_VERSIONS):
            self.report(sink, untried("cupy", version, ", ".join(KNOWN_VERSIONS)))

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._hooks is not None:
            self._hooks.enabled = False
        super().unhook()


def self_check(module: Any) -> list[str]:
    """Return how what the hooks rely on differs from what it should be."""
    compile_ = vars(module).get("_compile_with_cache_cuda")
    if not inspect.isfunction(compile_):
        return ["there is no function _compile_with_cache_cuda"]
    problems: list[str] = []
    if [*inspect.signature(inspect.unwrap(compile_)).parameters][:3] != _COMPILE:
        problems.append(f"_compile_with_cache_cuda does not take ({', '.join(_COMPILE)}, ...)")
    if not any(inspect.isfunction(vars(module).get(name)) for name in _NVRTC):
        problems.append(f"there is no function {' or '.join(_NVRTC)}")
    return problems


class CompileHooks:
    """Records every compile and every load from the disk cache while enabled.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    compiler : module
        ``cupy.cuda.compiler``.
    """

    def __init__(self, sink: Sink, compiler: Any) -> None:
        self.enabled = True
        self._sink = sink
        self._compiler = compiler
        self._local = threading.local()

    def make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of ``_compile_with_cache_cuda``."""
        def _compile_with_cache_cuda(source: Any, options: Any, arch: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled:
                return original(source, options, arch, *args, **kwargs)
            outer = getattr(self._local, "seen", None)
            self._local.seen = seen = {"phases": []}
            failure: BaseException | None = None
            module = None
            start = self._sink.clock()
            try:
                module = original(source, options, arch, *args, **kwargs)
            except BaseException as error:
                failure = error
                raise
            finally:
                end = self._sink.clock()
                self._local.seen = outer
                try:
                    given = inspect.signature(original).bind(source, options, arch, *args, **kwargs).arguments
                    self._write(given, module, failure, start, end, seen)
                except Exception as problem:
                    if from_signal_handler(problem):
                        raise
                    self._sink.swallow(FRAMEWORK, problem)
            return module

        return _compile_with_cache_cuda

    def make_phase(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return what is called in the place of a function that compiles."""
        def phase(*args: Any, **kwargs: Any) -> Any:
            seen = getattr(self._local, "seen", None)
            # Of an empty source: a look at the version.
            if seen is None or not self.enabled or not args or (type(args[0]) is str and not args[0]):
                return original(*args, **kwargs)
            start = self._sink.clock()
            try:
                return original(*args, **kwargs)
            finally:
                seen["phases"].append({"kind": "phase", "name": name, "start_ns": start,
                                       "duration_ns": self._sink.clock() - start})

        return phase

    def make_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of the disk cache's ``load``."""
        def load(cache: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(cache, name, *args, **kwargs)
            seen = getattr(self._local, "seen", None)
            if seen is not None:
                seen["cache"], seen["key"] = cache, name
            return found

        return load

    def _write(self, given: dict[str, Any], module: Any, error: BaseException | None, start: int, end: int,
               seen: dict[str, Any]) -> None:
        """Write the compile that has ended: a row for each kernel in the source, of which the first has the time."""
        outcome = "failed" if error is not None else "compiled" if seen["phases"] else "disk"
        key = str(seen["key"]) if "key" in seen else None
        file = None if key is None else os.path.join(str(getattr(seen["cache"], "_cache_dir", "")), key)
        target = self._target(given)
        mapping = getattr(module, "mapping", None)
        names = given.get("name_expressions") or ()
        lowered = {str(name): str((mapping or {}).get(name, name)) for name in names}
        found = kernels(str(given["source"]), lowered)
        for at, (entry, name, arguments, constants) in enumerate(found):
            held = {"arguments": arguments, "constants": constants, "target": target, "options": options_of(given),
                    "code": hashlib.sha256(str(given["source"]).encode()).hexdigest()[:16],
                    "generated": bool(_GENERATED.search(str(given["source"])))}
            dispatcher = self._dispatcher(name, entry, arguments)
            row: dict[str, Any] = {
                "dispatcher_id": dispatcher, "thread_id": self._sink.state().thread_id, "trigger": "compile",
                "signature": signature_text(held), "start_ns": start, "end_ns": end if at == 0 else start,
                "outcome": outcome, "cache_key": key, "cache_file": file,
                "error": None if error is None else error_text(error)}
            attributes: dict[str, Any] = {}
            if given.get("cache_in_memory"):
                attributes["in_memory"] = True
            if len(found) > 1:
                attributes["in_one_module"] = len(found)
            if error is not None:
                attributes["requested"] = held
            else:
                row["specialization_id"] = self._specialization(dispatcher, entry, held, target, outcome)
            row["attributes"] = json.dumps(attributes) if attributes else None
            self._sink.add_compile(row, seen["phases"] if at == 0 else [])

    def _target(self, given: dict[str, Any]) -> str | None:
        """The architecture; where CuPy has chosen it for the device, it has remembered that."""
        arch = given.get("arch")
        if arch is None:
            arch = self._compiler._get_arch()
        return f"sm_{arch}"

    def _dispatcher(self, name: str, entry: str, arguments: dict[str, Any]) -> int:
        owner = "library" if name.startswith(_OWN) else "user"
        return self._sink.dispatchers.intern((FRAMEWORK, name), lambda: {
            "framework": FRAMEWORK, "name": name, "arguments": ", ".join(arguments),
            "attributes": json.dumps({"owner": owner})})

    def _specialization(self, dispatcher: int, entry: str, held: dict[str, Any], target: str | None,
                        outcome: str) -> int:
        text = json.dumps(held)
        digits = (target or "").removeprefix("sm_")
        return self._sink.specializations.intern((FRAMEWORK, dispatcher, entry, text), lambda: {
            "dispatcher_id": dispatcher, "signature": signature_text(held), "origin": outcome, "entry_name": entry,
            "compute_capability": f"{digits[:-1]}.{digits[-1]}" if digits.isdigit() else None, "attributes": text})


# What CuPy's sources say of their kernels.

_OWN = ("cupy_", "cupyx_")
_KERNEL = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
                     r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
_TYPEDEF = re.compile(r"typedef\s+([\w:<> ]+?)\s+(\w+)\s*;")
_CARRAY = re.compile(r"^(?:const )?CArray<(.+?), ?(\d+)(?:, ?(\w+))?(?:, ?(\w+))?(?:, ?\w+)?>$")
#: What CuPy adds to a ufunc's name: ``cupy_multiply__float32_float_float32``.
_SUFFIX = re.compile(r"(?<=\w)__(?:(?:bool|u?int\d*|float\d*|complex\d*)(?:_|$))+$")
_DTYPES = {"float": "float32", "double": "float64", "float16": "float16", "bool": "bool", "char": "int8",
           "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16",
           "int": "int32", "unsigned int": "uint32", "long long": "int64", "unsigned long long": "uint64",
           "long": "int64", "unsigned long": "uint64", "complex<float>": "complex64", "complex<double>": "complex128"}
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
#: What only sources have that CuPy makes.
_GENERATED = re.compile(r"CArray<|\b_type_reduce;")
#: Indexers and sizes, which come with every kernel that CuPy makes.
_INTERNAL = re.compile(r"_(\w+_)?ind|_ind\w*|_(segment|array)_size|_block_stride")
#: How many threads reduce, and what each of them takes: `CUB`'s kernels, and CuPy's own.
_REDUCES = re.compile(r"#define\s+(BLOCK_SIZE|ITEMS_PER_THREAD)\s+(\d+)|\b_sdata_raw\s*\[\s*(\d+)")


#: Entry name, name, what is told of each argument, constants.
Found = tuple[str, str, dict[str, Any], dict[str, str]]


def kernels(source: str, lowered: dict[str, str]) -> list[Found]:
    """Return the kernels of a source: entry name, name without dtypes, arguments by name, and template arguments.

    Parameters
    ----------
    source : str
        CUDA C++.
    lowered : dict
        Of kernels that are templates, the expressions that name them, and their mangled names.
    """
    source = _COMMENT.sub(" ", source)
    typedefs = {name: _plain(kind) for kind, name in _TYPEDEF.findall(source)}
    reduction = _reduction(source)
    found: list[Found] = []
    for match in _KERNEL.finditer(source):
        name = match[1]
        arguments = dict(_parameters(source, match.end(), typedefs))
        entries = [(mangled, expression) for expression, mangled in lowered.items()
                   if re.split(r"[<(]", expression)[0].rpartition("::")[2].strip() == name]
        for mangled, expression in entries:
            template = expression[len(expression.split("<")[0]):]
            found.append((mangled, name, arguments, {"template": template} if template else {}))
        if not entries:
            found.append((name, _SUFFIX.sub("", name), arguments, reduction))
    return found or [("unknown", "unknown", {}, {})]


def _reduction(source: str) -> dict[str, str]:
    """What a reduction's source was made for: who reduces, and with how many threads."""
    if not _GENERATED.search(source):
        return {}
    sizes = {name or "BLOCK_SIZE": value or own for name, value, own in _REDUCES.findall(source)}
    return {"reduction": "CUB" if "cub::BlockReduce" in source else "CuPy", **sizes} if sizes else {}


def _parameters(source: str, start: int, typedefs: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The parameters of a function whose list begins at `start`: name, and what is told of its type."""
    depth, at, parts = 0, start, [""]
    while at < len(source):
        letter = source[at]
        if letter == ")" and not depth:
            break
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
        at += 1
    for part in parts:
        match = re.match(r"^(.*?[\s*&>])(\w+)(?:\s*\[.*\])?$", " ".join(part.split()))
        if match and not _INTERNAL.fullmatch(match[2]):
            name = match[2].removeprefix("_raw_")
            array = typedefs.get(f"type_{name}_raw")  # CUB's kernels take addresses, of arrays without gaps
            yield name, (_argument(_plain(match[1]), typedefs) if array is None or "CArray<" in match[1] else
                         {"type": _dtype(array, typedefs), "array": True,
                          "index": "int64" if typedefs.get("sizeT", "int") != "int" else "int32"})


def _argument(kind: str, typedefs: dict[str, str]) -> dict[str, Any]:
    array = _CARRAY.match(kind)
    if array:
        dtype, ndim, contiguous, short = array.groups()
        return {"type": _dtype(dtype, typedefs), "ndim": int(ndim),
                "layout": "C-contiguous" if contiguous in ("1", "true") else "not C-contiguous",
                "index": "int32" if short in ("1", "true") else "int64"}
    pointer = kind.endswith("*")
    name = _dtype(kind.replace("*", "").replace("__restrict__", "").strip(), typedefs)
    return {"type": f"{name}*" if pointer else name}


def _dtype(text: str, typedefs: dict[str, str]) -> str:
    text = typedefs.get(text.removeprefix("const ").strip(), text.removeprefix("const ").strip())
    return _DTYPES.get(text, text)


def _plain(text: str) -> str:
    return " ".join(text.replace("__restrict__", "").split())


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a compile by name, those without a value as True, and the compiler."""
    found: dict[str, Any] = {}
    for each in given.get("options") or ():
        name, equals, value = str(each).partition("=")
        if name.startswith(("-I", "--include-path")):
            continue  # paths of this machine; CuPy's key has them
        found[name] = value if equals else True
    if given.get("backend", "nvrtc") != "nvrtc":
        found["backend"] = str(given["backend"])
    for name in ("jitify", "to_ltoir"):
        if given.get(name):
            found[name] = True
    return found


def signature_text(held: dict[str, Any]) -> str:
    """Return a specialization's arguments: ``(float32[1d], float32*, int32)``, with a template's ``<float>`` before."""
    parts = [each["type"] + (f"[{each['ndim']}d]" if "ndim" in each else "[]" if "array" in each else "")
             for each in held["arguments"].values()]
    return held["constants"].get("template", "") + f"({', '.join(parts)})"
