"""Why the disk cache did not spare a compile, whether what it gave is safe, and what another device needed.

The probe notes in a compile's attributes what the cache's index held before (``disk``), how code that came from it
differs from its definition (``unsafe``), and which device a specialization was built for anew (``device``). These
functions turn that into codes, sentences and fixes; `kernelscope.analysis.compiles` calls them. The codes:

``disk``, ``disk_unsafe``
    It came from the disk cache; the second one: made with other options or other captured values.
``cache_absent``, ``cache_stale``
    The disk cache had no index, or nothing for these types; it had something that does not count any more.
``cache_unwritable``
    The code could not be saved.
``new_device``
    A specialization was built for a device of another compute capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.columns import items, json_object, mapping, owner_of, texts
from kernelscope.analysis.signatures import noted_shape
from kernelscope.units import listed

#: Codes that another cause gives way to: without a hit on disk there would have been no compile.
_GIVES_WAY = ("first_use", "redefined", "unknown")
#: Codes whose fixes are here.
CODES = ("disk", "disk_unsafe", "cache_absent", "cache_stale", "cache_unwritable", "new_device")


def is_cacheable(kernel: Mapping[str, Any]) -> bool:
    """Return whether numba-cuda can keep a kernel, a row of ``dispatchers``, on disk.

    It finds a place for functions of files and of notebook cells, not of strings and of stdin, for which it refuses
    ``cache=True``; and it saves none that links files. Only the user's own kernels can be given it.
    """
    if kernel.get("framework") == "torch.compile":
        return False  # inductor keeps its graphs itself
    if json_object(kernel["options"]).get("link") or owner_of(kernel) not in (None, "user"):
        return False
    file = kernel["filename"]
    return not (file and file.startswith("<") and not file.startswith("<ipython-input"))


def disk_hit(attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Return code and sentence of a load from the disk cache."""
    sentence = "not compiled: the disk cache had these types"
    unsafe = mapping(attributes.get("unsafe"))
    options, captured = mapping(unsafe.get("options")), texts(unsafe.get("captured"))
    functions = texts(unsafe.get("functions"))
    parts = [_option(name, pair) for name, pair in options.items()]
    if captured:
        parts.append(f"it was compiled with other values than its code would have now; captured: {listed(captured)}")
    elif functions:
        parts.append(f"it was compiled with other functions than it would call now: {listed(functions)}")
    if parts:
        return "disk_unsafe", f"{sentence}, but {'; '.join(parts)} (the cache's key has neither options nor globals)"
    unchecked = attributes.get("captures_not_checked")
    if unchecked:
        names = texts(attributes.get("captures"))
        told = f" ({listed(names)})" if names else ""
        sentence += f"; whether the values that it captures{told} are still those was not checked: {unchecked}"
    return "disk", sentence


def new_device(attributes: Mapping[str, Any]) -> tuple[str, str]:
    """Return code and sentence of a build for another device."""
    device = mapping(attributes.get("device"))
    earlier = listed(texts(device.get("compiled_for")))
    return "new_device", (
        f"device {device.get('ordinal', '?')} is of compute capability {device.get('compute_capability', '?')}; it had "
        f"been compiled for {earlier or 'another one'}, and code of one does not run on the other"
    )


def with_disk(row: Mapping[str, Any], attributes: Mapping[str, Any], code: str, sentence: str) -> tuple[str, str]:
    """Return code and sentence of a compile, given those without the disk cache, where the kernel has one.

    A kernel that had other types in memory is compiled for its types: the cache's state is added to the sentence.
    Otherwise the cache's state is the cause.
    """
    disk = mapping(attributes.get("disk"))
    if not disk or row["outcome"] not in ("compiled", "failed"):
        return code, sentence
    problem = _problem(disk)
    if problem is not None:
        return problem
    found = _state(disk)
    if found is None or (row["outcome"] == "failed" and code not in _GIVES_WAY):
        return code, sentence
    if code in _GIVES_WAY:
        again = "the definition ran again, and " if code == "redefined" else ""
        return found[0], again + found[1]
    return code, sentence if found[0] == code else f"{sentence}; {found[1]}"


def failed_in_cache(attributes: Mapping[str, Any]) -> bool:
    """Return whether a compile failed in the disk cache's own files."""
    disk = mapping(attributes.get("disk"))
    return not disk.keys().isdisjoint(("load_error", "save_error", "key_error"))


def fix_for_cache(code: str, row: Mapping[str, Any], attributes: Mapping[str, Any] | None) -> str | None:
    """Return what would avoid a compile of one of `CODES`, or None where nothing should."""
    attributes = attributes or {}
    disk = mapping(attributes.get("disk"))
    if code == "disk_unsafe":
        return _fix_unsafe(mapping(attributes.get("unsafe")))
    if code == "new_device":
        ordinal = mapping(attributes.get("device")).get("ordinal", "?")
        return f"launch it once on device {ordinal} before it matters: each compute capability needs code of its own"
    if code == "cache_unwritable":
        return _fix_unwritable(disk)
    if code == "cache_absent":
        return None if row["outcome"] == "failed" else (
            "none is needed: it is on disk now, and the next process loads it while source, versions and device are "
            "the same")
    return _fix_stale(row, disk) if code == "cache_stale" else None


def _problem(disk: Mapping[str, Any]) -> tuple[str, str] | None:
    """Describe how the cache's files made the compile fail."""
    if "load_error" in disk:
        return "cache_stale", (
            f"the disk cache could not be read, and numba-cuda raised that: {disk['load_error']}; every process fails "
            "here until the file is gone")
    if "save_error" in disk:
        return "cache_unwritable", (
            "it was compiled, but numba-cuda could not save it in the disk cache, and raised that: "
            f"{disk['save_error']}; nothing is kept, and each launch compiles again")
    if "key_error" in disk:
        return "cache_unwritable", (
            "numba-cuda could not make the disk cache's key for it, which holds what the kernel captures, and raised "
            f"that: {disk['key_error']}; it is not compiled, and every launch fails here")
    if disk.get("marker_unwritable"):
        return "cache_unwritable", (
            "the kernel depends on its launch configuration (LC-S), and the .lcs marker beside its disk cache could "
            "not be written: numba-cuda has given up this dispatcher's disk cache without saying so")
    return None


def _state(disk: Mapping[str, Any]) -> tuple[str, str] | None:
    """Code and sentence of what the index held."""
    state = disk.get("state")
    if state == "absent":
        return "cache_absent", f"the disk cache had nothing of this kernel yet{_moved(disk)}"
    if state == "types":
        count = disk.get("signatures", 0)
        return "cache_absent", (
            f"the disk cache has this kernel for {count} other signature{'' if count == 1 else 's'}, not for these "
            "types")
    if state == "launch_config":
        known = [str(shape) for each in items(disk.get("configurations")) if (shape := noted_shape(each)) is not None]
        return "launch_config", (
            "the kernel depends on its launch configuration (LC-S); the disk cache has these types for "
            f"{listed(known[-3:], more=len(known) - 3) or 'other ones'}, not for this one")
    text = _stale(disk)
    return None if text is None else ("cache_stale", text)


def _stale(disk: Mapping[str, Any]) -> str | None:
    state = disk.get("state")
    if state == "source" and disk.get("source") == "file":
        was, present = _pair(disk.get("size"))
        size = "its size is the same" if was == present else f"{was} bytes then, {present} now"
        when = "changed or touched after" if disk.get("newer") else "replaced by an older one since"
        return f"the source file was {when} the disk cache was written ({size}), which makes all its entries void"
    if state == "source":
        return "the function's text differs from the one that the disk cache was written for"
    if state == "numba_version":
        return f"the disk cache was written under numba {disk.get('was')}, this is {disk.get('is')}"
    if state == "unreadable":
        return f"the disk cache's index could not be read ({disk.get('error')})"
    if state == "data_file":
        return "the disk cache's index has these types, but their file could not be opened"
    if state == "unmarked":
        return (
            "the disk cache's code for these types has no launch configuration, and the kernel depends on it (LC-S): "
            "without an .lcs marker numba-cuda does not use it")
    if state == "marker_gone":
        return (
            "the disk cache has these types by launch configuration (LC-S), but no .lcs marker: numba-cuda looked for "
            "code without one")
    if state == "keys":
        return f"the disk cache has these types, but {_differs(mapping(disk.get('differs')))}"
    return None


_KEY_PARTS = {"compute_capability": "for compute capability", "cuda_runtime": "for CUDA runtime",
              "numba_cuda": "by numba-cuda"}


def _differs(differs: Mapping[str, Any]) -> str:
    parts: list[str] = []
    for name, words in _KEY_PARTS.items():
        if name in differs:
            was, present = _pair(differs[name])
            parts.append(f"{words} {was or 'of another version'} (this is {present})")
    if differs.get("bytecode"):
        parts.append("for other bytecode of the function")
    if differs.get("closure"):
        parts.append("for other values in the function's closure")
    if differs.get("launch_config"):
        parts.append("for another launch configuration")
    return " and ".join(parts) or "under another key"


def _moved(disk: Mapping[str, Any]) -> str:
    lines, pythons = texts(disk.get("lines")), texts(disk.get("pythons"))
    if lines:
        return (f"; it has one of that name at line {listed(lines)}: a function that moves in its file, or one of two "
                "of the same name, has an index of its own")
    if pythons:
        return f"; what it has is for Python {listed(pythons)}"
    if disk.get("other_text"):
        return "; what it has is for a function of that name in a cell of other text"
    return ""


def _option(name: str, pair: object) -> str:
    loaded, defined = _pair(pair)
    return f"it was compiled with {name}={loaded}, this definition says {name}={defined}"


def _fix_unsafe(unsafe: Mapping[str, Any]) -> str:
    captured = texts(unsafe.get("captured"))
    if unsafe.get("options"):
        return ("call recompile() once: it empties this kernel's disk cache and compiles with the present options; "
                "kernels with different options need different names")
    if not captured:
        return f"call recompile() once after a change of {listed(texts(unsafe.get('functions')))}"
    return f"call recompile() once after such a change, or pass what changes ({listed(captured)}) as an argument"


def _fix_unwritable(disk: Mapping[str, Any]) -> str:
    error = str(disk.get("save_error") or disk.get("key_error") or "")
    if "Error" in error and ("ickl" in error or "serialize" in error):
        return ("leave cache=True out for this kernel, or pass device arrays as arguments instead of capturing them, "
                "and do not link files")
    return "make the cache's folder writable, or set NUMBA_CACHE_DIR to a folder that is"


def _fix_stale(row: Mapping[str, Any], disk: Mapping[str, Any]) -> str:
    state, differs = disk.get("state"), mapping(disk.get("differs"))
    if "load_error" in disk or state == "unreadable":
        return f"delete {row['cache_file']}: numba-cuda writes it anew"
    if state == "source":
        return ("keep kernels in a file that is seldom edited: any change of the file makes its disk cache void"
                if disk.get("source") == "file" else "none is needed: it is saved for the present text")
    if differs.get("closure"):
        return "pass as an argument what the closure captures, or capture the same in every process"
    if state == "data_file":
        return "keep the .nbi and .nbc files together when the cache is copied or cleaned"
    return "none is needed: it is saved for the present versions and device now"


def _pair(value: object) -> tuple[Any, Any]:
    first, second, *_ = [*items(value), None, None]
    return first, second
