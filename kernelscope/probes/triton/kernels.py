"""Rows of Triton's kernels and specializations, and what their compiles' causes can be told from."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import json
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from kernelscope.errors import CubinError
from kernelscope.probes.code import CodeCapture
from kernelscope.probes.driver import device, with_context
from kernelscope.probes.functions import written
from kernelscope.probes.numba_cuda.kernels import SIZES
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "triton"
#: Where torch's inductor puts the kernels that it generates, in files of a temporary folder.
_INDUCTOR = "torch._inductor."

#: What metadata have that a compile found out, or that says where files are; all else was asked for.
_FOUND = frozenset({
    "hash", "target", "triton_version", "name", "shared", "tmem_size", "global_scratch_size", "global_scratch_align",
    "profile_scratch_size", "profile_scratch_align", "tensordesc_meta", "extern_libs", "backend_name", "cluster_dims",
})
#: Stages of a compile whose texts are kept, and what the table ``code`` calls them.
_STAGES = {"ttir": "ttir", "ttgir": "ttgir", "llir": "llvm", "ptx": "ptx"}
#: So long is the text of a constexpr's or a global's value at most.
_MOST_TEXT = 60
#: So many functions that a kernel calls have their source kept.
_MOST_CALLED = 50
#: So many names of kernels are remembered after their recording.
_MOST_NAMES = 1024
_ALIGNED = 16


class KernelRows:
    """Makes rows at first sight. Kernel functions are kept alive until the session ends, compiled kernels are not."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._noted: set[int] = set()
        self._described: set[int] = set()

    def dispatcher(self, function: Any) -> int:
        """Return the id of the row of a ``JITFunction``."""
        return self._sink.dispatchers.intern((FRAMEWORK, id(function)), lambda: _dispatcher_row(function),
                                             live=function)

    def dispatcher_of_file(self, name: str) -> int:
        """Return the id of the row of what was compiled from a file of IR, which has no Python function."""
        return self._sink.dispatchers.intern((FRAMEWORK, name), lambda: {"framework": FRAMEWORK, "name": name})

    def target(self, function: Any, kernel: Any, error: str | None) -> int:
        """Return the id of what a launch went to; `kernel` is the compiled one, None if none was found."""
        specialization, gpu = UNKNOWN, UNKNOWN
        if kernel is not None:
            specialization = self.specialization(function, kernel, "before")
            gpu = device(self._sink, self._sink.specializations.objects[specialization][1])
        file = str(getattr(kernel, "name", "unknown"))
        dispatcher = self.dispatcher_of_file(file) if function is None else self.dispatcher(function)
        return self._sink.target(dispatcher, specialization, gpu, error)

    def function_of(self, kernel: Any) -> Any:
        """Return the ``JITFunction`` of a compiled kernel; None for one from a file."""
        return getattr(kernel.src, "fn", None)

    def compiled(self, kernel: Any) -> Any:
        """Return the compiled kernel itself, where Triton has a stand-in for one that another thread compiles."""
        return kernel.kernel if type(kernel).__name__ == "FutureKernel" else kernel

    def shape(self, kernel: Any) -> tuple[int, int, tuple[int, ...] | None]:
        """Return threads a block, shared memory in bytes, and blocks a cluster or None, of a compiled kernel."""
        metadata = kernel.metadata
        warp = getattr(metadata, "warp_size", None) or metadata.target.warp_size
        blocks = int(getattr(metadata, "num_ctas", 1) or 1)
        cluster = tuple(getattr(metadata, "cluster_dims", ()) or ()) or (blocks,)
        return int(metadata.num_warps) * int(warp), int(metadata.shared), cluster if blocks > 1 else None

    def specialization(self, function: Any, kernel: Any, origin: str) -> int:
        """Return the id of the row of a compiled kernel, made at first sight."""
        dispatcher = self.dispatcher_of_file(kernel.name) if function is None else self.dispatcher(function)
        ordinal = _ordinal(function, kernel)
        key = FRAMEWORK, dispatcher, ordinal, kernel.hash
        number = self._sink.specializations.intern(
            key, lambda: self._row(dispatcher, kernel, ordinal, origin), live=[weakref.ref(kernel), ordinal])
        self._sink.specializations.objects[number][0] = weakref.ref(kernel)  # the newest, of a kernel compiled again
        return number

    def note_known(self, function: Any) -> None:
        """Make rows of what a kernel function had compiled before the recording, once."""
        if id(function) in self._noted:
            return
        self._noted.add(id(function))
        for cache in list(function.device_caches.values()):
            for kernel in list(cache[0].values()):
                if type(kernel).__name__ == "CompiledKernel":
                    self.specialization(function, kernel, "before")

    def describe(self, used: Iterable[tuple[int, int]]) -> None:
        """Fill in sizes of every compiled kernel that still exists, and ask for the occupancy of what was launched."""
        for number, row in enumerate(self._sink.specializations.rows):
            held = self._sink.specializations.objects[number]
            kernel = _own(held) if number not in self._described else None
            if kernel is not None:
                # What is loaded only later is asked once more.
                if getattr(kernel, "module", None) is not None:
                    self._described.add(number)
                self._describe(row, kernel)
        done = {(entry["specialization_id"], entry["configuration_id"], entry["device_id"])
                for entry in self._sink.occupancies}
        for target, configuration in used:
            launched = self._sink.targets.rows[target]
            place = launched["specialization_id"], configuration, launched["device_id"]
            if UNKNOWN not in place and place not in done:
                done.add(place)
                self._occupancy(*place)

    def _describe(self, row: dict[str, Any], kernel: Any) -> None:
        """Sizes, of the machine code; of the driver what Triton has asked it when it loaded the kernel."""
        code = kernel.asm.get("cubin")
        if isinstance(code, bytes) and "cubin_bytes" not in row:
            row["cubin_bytes"] = len(code)
            try:
                from kernelscope import cubin

                found = cubin.read(code).kernel(row["entry_name"])
            except CubinError as problem:
                self._sink.swallow(FRAMEWORK, problem)
                found = None
            if found is not None:
                row.update({column: getattr(found, column) for column in SIZES})
        if getattr(kernel, "module", None) is not None:
            row["regs"], row["local_bytes"] = int(kernel.n_regs), 4 * int(kernel.n_spills)
            row["max_threads"] = int(kernel.n_max_threads)

    def _occupancy(self, specialization: int, configuration: int, device: int) -> None:
        """Ask the driver, in the context that the kernel was loaded in; without that, nothing is known."""
        kernel = _own(self._sink.specializations.objects[specialization])
        function, driver = getattr(kernel, "function", None), with_context()
        if not isinstance(function, int) or driver is None:
            return

        def active(threads: int, shared: int) -> int | None:
            blocks = ctypes.c_int()
            error = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(blocks), ctypes.c_void_p(function), ctypes.c_int(threads), ctypes.c_size_t(shared))
            return None if error else blocks.value

        self._sink.add_occupancy(specialization, configuration, device, active)

    def _row(self, dispatcher: int, kernel: Any, ordinal: int, origin: str) -> dict[str, Any]:
        held = facts(kernel.src, kernel.metadata._asdict())
        arch = kernel.metadata.target.arch
        capability = f"{arch // 10}.{arch % 10}" if isinstance(arch, int) else None
        return {"dispatcher_id": dispatcher, "signature": signature_text(kernel.src, held),
                "compute_capability": capability, "origin": origin, "entry_name": kernel.name,
                "attributes": json.dumps({**held, "device": ordinal, "shared": int(kernel.metadata.shared)})}


class TritonCodeCapture(CodeCapture):
    """Adds the rows of Triton's kernel functions and compiled kernels: the texts of its stages, as it made them."""

    framework = FRAMEWORK

    def _is_own(self, number: int) -> bool:
        row = self._sink.specializations.rows[number]
        return self._sink.dispatchers.rows[row["dispatcher_id"]]["framework"] == FRAMEWORK

    def _read(self, owner: int, number: int, name: str, live: Any) -> bytes | None:
        self._add_source_of(owner, name, self._sink.dispatchers.objects[owner])
        kernel = live[0]()
        if kernel is None:
            self._failed("compiled kernel is gone", name)
            return None
        for stage, kind in _STAGES.items():
            text = kernel.asm.get(stage)
            if isinstance(text, str):
                self._add(owner, number, kind, text)
        code = kernel.asm.get("cubin")
        if not isinstance(code, bytes):
            return None
        self._add_cubin(owner, number, code)
        return code

    def _add_source_of(self, owner: int, name: str, function: Any) -> None:
        """Add the source of a kernel function, and of the user's own functions that it calls."""
        if function is None or owner in self._sources:
            return
        found = self._source_of(function)
        if found is None:
            self._failed("source is not to be found, or has changed since it was imported", name)
        self._sources.add(owner)
        if found is not None:
            self._add(owner, None, "source", found["text"], found["lineno"], file=found["file"])
        called = [{"name": each.__name__, **source} for each in _all_called(function)
                  if (source := self._source_of(each)) is not None]
        if called:
            self._add(owner, None, "functions", json.dumps(called))

    def _source_of(self, function: Any) -> dict[str, Any] | None:
        """Return the source as Triton read it at the definition; if it keeps none, the file's if it is the same."""
        lines, first = getattr(function, "raw_src", None), int(function.starting_line_number)
        code = function.fn.__code__
        if lines is None:
            try:
                lines, first = inspect.getsourcelines(code)
            except (OSError, TypeError):
                return None
            if not self._is_unchanged(code):
                return None
        return {"text": "".join(lines), "lineno": first, "file": os.path.abspath(code.co_filename)}


def _own(held: Any) -> Any:
    """Return the compiled kernel that a row's object is of, if it is Triton's and still exists."""
    return held[0]() if isinstance(held, list) and isinstance(held[0], weakref.ref) else None


def facts(src: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a specialization is told from others by.

    Parameters
    ----------
    src : ASTSource or IRSource
        What Triton compiles.
    metadata : mapping
        Of the compiled kernel; or, of one that failed, the options that were asked for.

    Returns
    -------
    dict
        ``types`` of arguments by name, those of tuples as ``t[0]``; ``constexprs``, as texts, and other values that
        are compiled as constants; names that are
        ``equal_to_1`` and ``divisible_by_16``; ``options``, ``environment``, ``target``, ``hash``. Plain JSON values.
    """
    function = getattr(src, "fn", None)
    declared = {each.name for each in function.params if each.is_constexpr} if function is not None else set()
    paths = {path: _type_at(src.signature, path) for path in _paths(src.signature)}
    names = {path: _name(src.signature, path) for path in paths}
    constants, attributes = getattr(src, "constants", {}), getattr(src, "attrs", {})
    held: dict[str, Any] = {"types": {}, "constexprs": {}, "equal_to_1": [], "divisible_by_16": []}
    for path, kind in paths.items():
        name = names[path]
        value = constants.get(path)
        if kind != "constexpr":
            held["types"][name] = str(kind)
        elif value is None and name not in declared:
            held["types"][name] = value_text(value)
        elif name in declared or value is True or value != 1:
            held["constexprs"][name] = value_text(value)
        else:
            held["equal_to_1"].append(name)
        if any(str(each[0]) == "tt.divisibility" for each in attributes.get(path, ())):
            held["divisible_by_16"].append(name)
    target = metadata.get("target")
    held["options"] = {name: value for name, value in metadata.items()
                       if name not in _FOUND and not name.isupper() and _is_plain(value)}
    held["environment"] = {name: str(value) for name, value in metadata.items() if name.isupper()}
    held["target"] = f"{target.backend}:{target.arch}" if target is not None else None
    held["hash"] = metadata.get("hash")
    return held


def signature_text(src: Any, held: Mapping[str, Any]) -> str:
    """Return a specialization's arguments in the notation of Triton's ahead-of-time compiler.

    As in ``*fp32:16, i32, n=1, BLOCK=256``: divisible by 16, any integer, an integer that is 1, a constexpr.
    """
    parts: list[str] = []
    for path in _paths(getattr(src, "signature", {})):
        name = _name(src.signature, path)
        if name in held["types"]:
            parts.append(held["types"][name] + (f":{_ALIGNED}" if name in held["divisible_by_16"] else ""))
        else:
            parts.append(f"{name}={held['constexprs'].get(name, 1)}")
    return ", ".join(parts)


def values(bound: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a launch's arguments decides on divisibility by 16: integers, and how pointers are aligned.

    Nothing of other arguments is read; pointers that are aligned at 16 bytes are left out.
    """
    found: dict[str, Any] = {"values": {}, "alignments": {}}
    for name, kind in {**held["types"], **dict.fromkeys(held["equal_to_1"], "i32")}.items():
        value = _part(bound, name)
        if kind.startswith("*"):
            address = value.data_ptr() if hasattr(value, "data_ptr") else None
            alignment = address & -address if type(address) is int else 0
            if 0 < alignment < _ALIGNED:
                found["alignments"][name] = alignment
        elif type(value) is int:
            found["values"][name] = value
    return {name: each for name, each in found.items() if each}


def value_text(value: Any) -> str:
    """Return a constant as text: of a function its name and a hash of its code, of all else what Python shows."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if hasattr(value, "cache_key"):
        text = f"{value.__name__} {str(value.cache_key)[:8]}"
    else:
        text = repr(value).replace("triton.language.", "tl.")
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[:_MOST_TEXT - 9]}… {hashlib.sha256(text.encode()).hexdigest()[:7]}"


# A definition that runs again makes a kernel function that shares nothing in memory with the one before. What the one
# before was is remembered here, by name, as texts.

_definitions: OrderedDict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = OrderedDict()
_definitions_lock = threading.RLock()


def definition(function: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what Triton's key of a kernel function is made of, and that of the definition before it or None.

    ``source`` and ``key`` are hashes, ``line`` the first line, ``globals`` the constexprs that it reads by name as
    texts, ``functions`` the other kernel functions that it calls by name, with their keys. Call it when Triton has
    made its key.
    """
    key = str(function.cache_key)
    held = {
        "key": key[:16], "source": hashlib.sha256(str(function.src).encode()).hexdigest()[:16],
        "line": int(function.starting_line_number),
        "globals": {str(name): value_text(value) for (name, _), (value, _) in function.used_global_vals.items()},
        "functions": {name: str(each.cache_key)[:16] for name, each in _called(function)},
    }
    # A function's own id can come again: its key and the object's place in the list tell it from others.
    name = str(function.__module__), str(function.__qualname__)
    with _definitions_lock:  # compiles run in several threads
        earlier = _definitions.setdefault(name, [])
        _definitions.move_to_end(name)
        while len(_definitions) > _MOST_NAMES:
            _definitions.popitem(last=False)
        mark = f"{id(function)}"
        at = next((at for at, (known, facts) in enumerate(earlier) if known == mark and facts == held), None)
        if at is None:
            earlier.append((mark, held))
            del earlier[:-2]
            at = len(earlier) - 1
        return held, earlier[at - 1][1] if at else None


def _all_called(function: Any) -> list[Any]:
    """Return the kernel functions that one calls, and those that they call, without Triton's own."""
    found: dict[int, Any] = {}
    waiting = [function]
    while waiting:
        code, scope = waiting[0].fn.__code__, waiting.pop(0).fn.__globals__
        near = [scope.get(name) for name in code.co_names]
        held = [vars(each).get(name) for each in near if isinstance(each, ModuleType) for name in code.co_names]
        for each in (*near, *held):
            if (type(each).__name__.endswith("JITFunction") and each is not function and id(each) not in found
                    and not each.__module__.startswith("triton.") and len(found) < _MOST_CALLED):
                found[id(each)] = each
                waiting.append(each)
    return list(found.values())


def _called(function: Any) -> Iterator[tuple[str, Any]]:
    scope = function.fn.__globals__
    for name in function.fn.__code__.co_names:
        found = scope.get(name)
        if found is not function and type(found).__name__.endswith(("JITFunction", "ConstexprFunction")):
            yield name, found


def _dispatcher_row(function: Any) -> dict[str, Any]:
    python = function.fn
    code = python.__code__
    options: dict[str, Any] = {}
    for name in ("do_not_specialize", "do_not_specialize_on_alignment"):
        given = getattr(function, name, None)
        if given:
            names = function.arg_names
            options[name] = [names[each] if isinstance(each, int) else str(each) for each in given]
    options |= {name: getattr(function, name) for name in ("debug", "noinline", "version")
                if isinstance(getattr(function, name, None), bool | int | str)}
    return {"framework": FRAMEWORK, "name": function.__qualname__.replace("<locals>.", ""),
            "module": function.__module__, "filename": code.co_filename, "lineno": code.co_firstlineno,
            "arguments": ", ".join(function.arg_names), "options": json.dumps(options) if options else None,
            "code_sha256": hashlib.sha256(str(function.src).encode()).hexdigest(),
            "attributes": json.dumps({"owner": "library" if str(function.__module__).startswith(_INDUCTOR)
                                      else written(python)[1]})}


def _ordinal(function: Any, kernel: Any) -> int:
    """The device that a kernel was compiled for: each has a cache of its own; the current one where none has it."""
    caches = getattr(function, "device_caches", {})
    found = [ordinal for ordinal, cache in list(caches.items())
             if len(caches) == 1 or any(each is kernel for each in list(cache[0].values()))]
    return int(found[0]) if found else 0


def _paths(signature: Mapping[str, Any]) -> Iterator[tuple[int, ...]]:
    def inner(kind: Any, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if isinstance(kind, tuple):
            for at, each in enumerate(kind):
                yield from inner(each, (*path, at))
        else:
            yield path

    for at, kind in enumerate(signature.values()):
        yield from inner(kind, (at,))


def _type_at(signature: Mapping[str, Any], path: tuple[int, ...]) -> Any:
    kind: Any = list(signature.values())[path[0]]
    for at in path[1:]:
        kind = kind[at]
    return kind


def _name(signature: Mapping[str, Any], path: tuple[int, ...]) -> str:
    return str(list(signature)[path[0]]) + "".join(f"[{at}]" for at in path[1:])


def _part(bound: Mapping[str, Any], name: str) -> Any:
    first, *inner = name.split("[")
    value = bound.get(first)
    for at in inner:
        value = value[int(at.rstrip("]"))] if isinstance(value, tuple) else None
    return value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
