"""The probe of CuPy: compiles through its Python functions. Its launches are those that CUPTI reports."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.compiles import CompileHooks, CompileProbe
from kernelscope.probes.sink import Sink

FRAMEWORK = "cupy"
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


class CupyProbe(CompileProbe):
    """Hooks CuPy's compiler where it is imported, or as soon as it is."""

    name = FRAMEWORK
    module = "cupy.cuda.compiler"
    versions = ("14",)
    fix = "pip install 'cupy-cuda13x>=14,<15'"

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the compiles. See `Probe.hook`."""
        version = str(getattr(sys.modules.get("cupy"), "__version__", ""))
        problems = self_check(module)
        if problems:
            other = self.other_version("cupy", version, "other functions than this probe knows")
            raise ProbeUnavailableError(f"{other}: {'; '.join(problems)}")
        self._hooks = hooks = CupyHooks(sink, module)
        self.patches.hook(module, "_compile_with_cache_cuda", hooks.make_compile)
        name = next(name for name in _NVRTC if name in vars(module))
        self.patches.hook(module, name, lambda original: hooks.make_phase(original, "nvrtc", counts=_has_source))
        if inspect.isfunction(vars(module).get("compile_using_nvcc")):
            self.patches.hook(module, "compile_using_nvcc",
                              lambda original: hooks.make_phase(original, "nvcc", counts=_has_source))
        cache = getattr(module, "_DiskKernelCacheBackend", None)
        if cache is not None and inspect.isfunction(vars(cache).get("load")):
            self.patches.hook(cache, "load", hooks.make_load)
        self.report_version(sink, "cupy", version)


def _has_source(*args: Any) -> bool:
    """Return whether a call compiles: that of an empty source is a look at the compiler's version."""
    return bool(args) and not (type(args[0]) is str and not args[0])


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


class CupyHooks(CompileHooks):
    """Records every compile and every load from the disk cache while enabled.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    compiler : module
        ``cupy.cuda.compiler``.
    """

    framework = FRAMEWORK

    def __init__(self, sink: Sink, compiler: Any) -> None:
        super().__init__(sink)
        self._compiler = compiler

    def make_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of the disk cache's ``load``."""
        def load(cache: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            result, notes = original(cache, name, *args, **kwargs), self.compile
            if notes is not None:
                notes |= {"cache": cache, "key": name}
            return result

        return load

    def write(self, bind: Callable[[], dict[str, Any]], result: Any, error: BaseException | None, start: int, end: int,
              notes: dict[str, Any]) -> None:
        """Write a row for each kernel in the source, of which the first has the time. See `CompileHooks.write`."""
        given, phases = bind(), notes["phases"]
        outcome = "failed" if error is not None else "compiled" if phases else "disk"
        name = str(notes["key"]) if "key" in notes else None
        file = None if name is None else os.path.join(str(getattr(notes["cache"], "_cache_dir", "")), name)
        target, source = self._target(given), str(given["source"])
        mapping = getattr(result, "mapping", None)
        lowered = {str(expression): str((mapping or {}).get(expression, expression))
                   for expression in given.get("name_expressions") or ()}
        in_source = kernels(source, lowered)
        attributes: dict[str, Any] = {"in_memory": True} if given.get("cache_in_memory") else {}
        if len(in_source) > 1:
            attributes["in_one_module"] = len(in_source)
        for index, (entry, kernel, arguments, constants) in enumerate(in_source):
            key = {"arguments": arguments, "constants": constants, "target": target, "options": options_of(given),
                   "code": hashlib.sha256(source.encode()).hexdigest()[:16],
                   "generated": bool(_GENERATED.search(source))}
            owner = "library" if kernel.startswith(_OWN) else "user"
            self.add((kernel,), {"name": kernel, "arguments": ", ".join(arguments),
                                 "attributes": json.dumps({"owner": owner})}, key, signature_text(key), start,
                     start if index else end, outcome, error, [] if index else phases, target=target,
                     entry_name=entry, cache_key=name, cache_file=file, attributes=attributes)

    def _target(self, given: dict[str, Any]) -> str:
        """Return the architecture; where CuPy has chosen it for the device, it has remembered that."""
        arch = given.get("arch")
        return f"sm_{self._compiler._get_arch() if arch is None else arch}"


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
