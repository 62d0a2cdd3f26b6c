"""numba-cuda's disk cache: what its index held before a compile, which file code went to, and whose options it has.

Nothing here changes the cache. The index is read as numba-cuda reads it, and what cannot be read is a fact to note:
numba-cuda reads the same file right after and fails, or does not, by itself.
"""

from __future__ import annotations

import io
import os
import pickle
import re
from dataclasses import dataclass
from typing import Any

from kernelscope.errors import message_of

#: How many files of the cache's folder are looked at for an index that this one has replaced.
_MOST_FILES = 20_000
#: How many launch configurations of the index are noted.
_MOST_CONFIGURATIONS = 20
#: Launch bounds as numba-cuda writes them into LLVM.
_BOUND = r'!"(maxntidx|minctasm|cluster_max_blocks)", i32 (-?\d+)'
_BOUNDS = ("maxntidx", "minctasm", "cluster_max_blocks")
#: What numba-cuda appends to a dispatcher's `link` by itself.
_OWN_LINKS = ("reshape_funcs.cu", "nrt.cu")


@dataclass
class Look:
    """The disk cache of a dispatcher as it was before a compile.

    Attributes
    ----------
    cache : CUDACache
        The cache, which the dispatcher may lose in the compile.
    launch_key : object
        The part of the key for the launch configuration that the load used; None without.
    content : bytes or None
        The index file; None where there was none.
    error : str or None
        Why the index file could not be read.
    """

    cache: Any
    launch_key: Any
    content: bytes | None = None
    error: str | None = None

    @classmethod
    def of(cls, cache: Any, launch_key: Any = None) -> Look:
        """Return what the cache's index holds now."""
        seen = cls(cache, launch_key)
        try:
            with open(cache._cache_file._index_path, "rb") as file:
                seen.content = file.read()
        except FileNotFoundError:
            pass
        except OSError as problem:
            seen.error = short(problem)
        return seen

    def entries(self) -> tuple[dict[str, Any] | None, dict[Any, str]]:
        """Return the index's entries, or why there are none; read as ``IndexDataCacheFile._load_index`` reads them."""
        if self.error is not None:
            return {"state": "unreadable", "error": self.error}, {}
        if self.content is None:
            return {"state": "absent", **_moved(self.cache)}, {}
        file = self.cache._cache_file
        try:
            stream = io.BytesIO(self.content)
            version = pickle.load(stream)
            if version != file._version:
                return {"state": "numba_version", "was": str(version), "is": str(file._version)}, {}
            stamp, entries = pickle.loads(stream.read())
        except Exception as problem:
            return {"state": "unreadable", "error": short(problem)}, {}
        if stamp != file._source_stamp:
            return {"state": "source", **_stamps(stamp, file._source_stamp)}, {}
        return None, entries

    def data_file(self, key: Any) -> str | None:
        """Return the file that has the code under a key, or None."""
        state, entries = self.entries()
        return self.cache._cache_file._data_path(entries[key]) if state is None and key in entries else None


def look(dispatcher: Any, config: Any, module: Any) -> Look | None:
    """Read the index of a dispatcher's disk cache; None where it has no disk cache.

    Parameters
    ----------
    dispatcher : CUDADispatcher
        What is about to compile or to load.
    config : object or None
        The launch configuration that it does so for.
    module : module
        ``numba.cuda.dispatcher``.
    """
    cache = dispatcher._cache
    if not isinstance(cache, module.CUDACache):
        return None
    return Look.of(cache, _launch_key(dispatcher, cache, config, module))


def note(row: dict[str, Any], attributes: dict[str, Any], seen: Look, dispatcher: Any, sig: Any, kernel: Any,
         error: BaseException | None, module: Any) -> None:
    """Add the cache's columns to a compile's row, and what the cache had to its attributes.

    Parameters
    ----------
    row, attributes : dict
        The row of ``compilations``, its outcome included, and its attributes.
    seen : Look
        What `look` found before.
    dispatcher, sig, kernel, error : object
        Who compiled what, and what came of it.
    module : module
        ``numba.cuda.dispatcher``.
    """
    cache = seen.cache
    file = cache._cache_file
    row["cache_file"] = file._index_path
    row["lcs_marker"] = os.path.exists(cache._launch_config_marker_path)
    try:
        key = cache._index_key(sig, dispatcher.targetctx.codegen())
    except Exception as problem:
        # What a closure captures is in the key, and may not be pickled: numba-cuda has failed at the same place.
        attributes["disk"] = {"key_error": short(problem)}
        return
    row["cache_key"] = repr(key)
    if row["outcome"] == "disk":
        row["cache_data_file"] = seen.data_file(key)
        return
    if row["outcome"] not in ("compiled", "failed"):
        return
    if row["trigger"] != "recompile":  # which empties the index first
        attributes["disk"] = _found(seen, key, bool(getattr(kernel, "launch_config_sensitive", False)))
    failure = _cache_failure(error)
    if failure is not None:
        attributes.setdefault("disk", {})[failure] = short(error)
    elif dispatcher._cache is not cache:
        # numba-cuda gives the disk cache up without a word where it cannot write the marker.
        attributes.setdefault("disk", {})["marker_unwritable"] = True
    if row["outcome"] == "compiled" and dispatcher._cache is cache:
        row["cache_data_file"] = Look.of(cache).data_file(key)


def other_options(dispatcher: Any, kernel: Any) -> dict[str, list[Any]]:
    """Return the compile options of a kernel from the disk that differ from its dispatcher's: [loaded, defined].

    The cache's key has no options: what was compiled with some is taken for others. An option is compared as
    numba-cuda applies it, so that two ways to say the same are no difference.
    """
    library, options = kernel._codelibrary, dispatcher.targetoptions
    nvvm = library._nvvm_options
    compared: dict[str, tuple[Any, Any]] = {
        "debug": (bool(kernel.debug), bool(options.get("debug"))),
        "lineinfo": (bool(kernel.lineinfo), bool(options.get("lineinfo"))),
        "fastmath": (_plain(nvvm.get("fastmath") or False), _plain(options.get("fastmath") or False)),
        "opt": (nvvm.get("opt") == 3, bool(options.get("opt", True))),
        "max_registers": (library._max_registers, options.get("max_registers")),
        "lto": (bool(library._lto), bool(options.get("lto"))),
        "shared_memory_carveout": (kernel.shared_memory_carveout, _carveout(kernel, options)),
        "launch_bounds": (loaded_bounds(library), _bounds(options.get("launch_bounds"))),
        "extensions": (_kinds(kernel.extensions), _kinds(options.get("extensions"))),
        "link": ([], _links(options.get("link"))),  # a kernel that links files is never on disk
    }
    return {name: [loaded, defined] for name, (loaded, defined) in compared.items() if loaded != defined}


def loaded_bounds(library: Any) -> list[int] | None:
    """Return the launch bounds that a library's LLVM has, or None."""
    known = dict(re.findall(_BOUND, library.llvm_strs[0]))
    return [int(known[name]) for name in _BOUNDS if name in known] or None


def _launch_key(dispatcher: Any, cache: Any, config: Any, module: Any) -> Any:
    """The launch configuration's part of the key that ``_configure_cache_for_launch_config`` is about to set."""
    if dispatcher._launch_config_sensitive or dispatcher._launch_config_is_specialized:
        return dispatcher._cache_launch_config_key(config)
    known = cache._launch_config_sensitive_flag
    if not (os.path.exists(cache._launch_config_marker_path) if known is None else known):
        return None
    if config is None:
        return getattr(module, "_NO_LAUNCH_CONFIG_CACHE_KEY", None)
    return dispatcher._launch_config_key(config)


def _found(seen: Look, key: Any, sensitive: bool) -> dict[str, Any]:
    """Why the load before the compile found nothing; `key` is the one that the compile's result is kept under."""
    state, entries = seen.entries()
    if state is not None:
        return state
    wanted = key[:4] if seen.launch_key is None else (*key[:4], ("launch_config", seen.launch_key))
    if wanted in entries:
        # The load came upon an OSError, or the code turned out to be bound to a launch configuration unmarked.
        return {"state": "unmarked" if sensitive and seen.launch_key is None else "data_file"}
    same = [known for known in entries if types_of(known[0]) == types_of(key[0])]
    if not same:
        return {"state": "types", "signatures": len({types_of(known[0]) for known in entries})}
    if sensitive and seen.launch_key is None and all(len(known) > 4 for known in same):
        return {"state": "marker_gone"}
    nearest = min(reversed(same), key=lambda known: len(_differences(known, wanted)))
    differs = _differences(nearest, wanted)
    if list(differs) == ["launch_config"]:
        configurations = [_configuration(known) for known in same if list(_differences(known, wanted)) ==
                          ["launch_config"]]
        return {"state": "launch_config",
                "configurations": [each for each in configurations if each][-_MOST_CONFIGURATIONS:]}
    return {"state": "keys", "differs": differs}


def _stamps(was: Any, present: Any) -> dict[str, Any]:
    """How a source differs: a file's stamp is its time and size, that of a notebook's function its text's hash."""
    if isinstance(was, tuple) and isinstance(present, tuple) and len(was) == len(present) == 2:
        return {"source": "file", "size": [was[1], present[1]], "newer": present[0] > was[0]}
    return {"source": "text"}


def _differences(known: Any, wanted: Any) -> dict[str, Any]:
    """Which parts of two keys for the same types differ; hashes are not shown."""
    try:
        (_, (runtime, capability), package, (code, closure)), launch = known[:4], known[4:]
        (_, (runtime_now, capability_now), package_now, (code_now, closure_now)) = wanted[:4]
    except (TypeError, ValueError):  # the key of a version that has other parts
        return {"numba_cuda": [None, wanted[2]]}
    compared = {
        "compute_capability": (_dotted(capability), _dotted(capability_now)),
        "cuda_runtime": (_dotted(runtime), _dotted(runtime_now)),
        "numba_cuda": (str(package), str(package_now)),
    }
    differs: dict[str, Any] = {name: list(pair) for name, pair in compared.items() if pair[0] != pair[1]}
    if code != code_now:
        differs["bytecode"] = True
    if closure != closure_now:
        differs["closure"] = True
    if launch != wanted[4:]:
        differs["launch_config"] = True
    return differs


def _configuration(key: Any) -> dict[str, Any] | None:
    """The launch configuration of a key, as in ``specializations.launch_config``."""
    value = key[4][1] if len(key) > 4 else None
    if not isinstance(value, tuple) or len(value) != 3:
        return None
    return {"griddim": list(value[0]), "blockdim": list(value[1]), "sharedmem_bytes": value[2]}


def _moved(cache: Any) -> dict[str, Any]:
    """Return which indexes there are of a function of that name, for another line, another text or another Python."""
    base = cache._impl.filename_base
    name, _, own = base.rpartition("-")
    place, _, python = own.rpartition(".py")
    before = ""
    if not place.isdigit():
        # In a notebook the module's name is made of the cell's text.
        name, before = name.partition(".")[2], r"[^.]+\."
    pattern = re.compile(rf"{before}{re.escape(name)}-([^.]*)\.py(\d+)(\w*)\.nbi")
    lines: set[int] = set()
    pythons: set[str] = set()
    texts = False
    try:
        with os.scandir(cache._cache_path) as files:
            for entry, _ in zip(files, range(_MOST_FILES), strict=False):
                found = pattern.fullmatch(entry.name)
                if found is None or entry.name == cache._cache_file._index_name:
                    continue  # its own has just been written
                if found[2] + found[3] != python:
                    pythons.add(f"{found[2][:1]}.{found[2][1:]}{found[3]}")
                elif place.isdigit() and found[1].isdigit():
                    lines.add(int(found[1]))
                else:
                    texts = True
    except OSError:
        return {}
    others: dict[str, Any] = {"lines": sorted(lines)[:5]} if lines else {}
    if pythons:
        others["pythons"] = sorted(pythons)
    if texts:
        others["other_text"] = True
    return others


def _cache_failure(error: BaseException | None) -> str | None:
    """Whether an exception came out of the cache's own file: ``load_error`` or ``save_error``."""
    entry = None if error is None else error.__traceback__
    while entry is not None:
        name = entry.tb_frame.f_code.co_name
        if name in ("_load_overload", "_save_overload"):
            return "load_error" if name == "_load_overload" else "save_error"
        entry = entry.tb_next
    return None


def types_of(sig: Any) -> tuple[str, ...]:
    """Return a signature's argument types as texts."""
    if isinstance(sig, str):
        return (sig,)
    return tuple(str(kind) for kind in getattr(sig, "args", sig))


def _dotted(parts: Any) -> str:
    return ".".join(str(part) for part in parts) if isinstance(parts, tuple) else str(parts)


def short(error: BaseException | None) -> str:
    """Return an exception's text without the paths that an OSError names."""
    text = getattr(error, "strerror", None) or message_of(error).split("\n", 1)[0]
    return f"{type(error).__name__}: {text[:200]}".removesuffix(": ")


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else repr(value)


def _carveout(kernel: Any, options: Any) -> Any:
    carveout = options.get("shared_memory_carveout")
    return None if carveout is None else kernel._parse_carveout(carveout)


def _bounds(bounds: Any) -> list[int] | None:
    if bounds is None:
        return None
    return [bounds] if isinstance(bounds, int) else list(bounds)


def _kinds(extensions: Any) -> list[str]:
    return [f"{type(each).__module__}.{type(each).__qualname__}" for each in extensions or ()]


def _links(files: Any) -> list[str]:
    """Files of the user's that are linked, by their last name."""
    listed = files if isinstance(files, list | tuple | set) else [files] if files else []
    names = [os.path.basename(str(each if isinstance(each, str | os.PathLike) else getattr(each, "name", each)))
             for each in listed]
    return [name for name in names if name not in _OWN_LINKS]
