"""numba-cuda-mlir's disk cache, as far as a compile's row says it; see `kernelscope.probes.numba_cuda.disk`."""

from __future__ import annotations

from typing import Any

from kernelscope.probes.numba_cuda.disk import Look, entries_of, moved, short, types_of, written_to

#: Options that change the code and are no part of the cache's key, with what they are where nothing is said.
_OPTIONS = {"debug": False, "lineinfo": False, "fastmath": False, "opt_level": 3, "max_registers": None,
            "ptxas_options": None, "features": None, "shared_memory_carveout": None}


def look(dispatcher: Any) -> Look | None:
    """Read the index of a dispatcher's disk cache; None where it has none."""
    file = getattr(dispatcher._cache, "_cache_file", None)
    if file is None:
        return None
    seen = Look(dispatcher._cache, None)
    try:
        with open(file._index_path, "rb") as index:
            seen.content = index.read()
    except FileNotFoundError:
        pass
    except OSError as problem:
        seen.error = short(problem)
    return seen


def note(row: dict[str, Any], attributes: dict[str, Any], seen: Look, sig: Any, context: Any) -> None:
    """Add the cache's columns to a compile's row, and what the cache had to its attributes.

    Parameters
    ----------
    row, attributes : dict
        The row of ``compilations``, its outcome included, and its attributes.
    seen : Look
        What `look` found before.
    sig : object
        The signature that the cache was asked for.
    context : object
        numba-cuda-mlir's target context.
    """
    file = seen.cache._cache_file
    row["cache_file"] = file._index_path
    key = seen.cache._index_key(sig, context.codegen())
    row["cache_key"] = repr(key)
    state, entries = entries_of(file, seen.content)
    if row["outcome"] == "disk":
        row["cache_data_file"] = file._data_path(entries[key]) if state is None and key in entries else None
        return
    if seen.error is not None:
        attributes["disk"] = {"state": "unreadable", "error": seen.error}
    elif seen.content is None:
        attributes["disk"] = {"state": "absent", **moved(seen.cache)}
    elif state is not None:
        attributes["disk"] = state
    elif key in entries:
        attributes["disk"] = {"state": "data_file"}
    elif not any(types_of(known[0]) == types_of(key[0]) for known in entries):
        attributes["disk"] = {"state": "types", "signatures": len({types_of(known[0]) for known in entries})}
    else:
        attributes["disk"] = {"state": "keys", "differs": {}}
    if row["outcome"] == "compiled":
        row["cache_data_file"] = written_to(file, key)


def other_options(dispatcher: Any, kernel: Any) -> dict[str, list[Any]]:
    """Return the options of a kernel from the disk that differ from its dispatcher's: [loaded, defined]."""
    loaded, defined = kernel.metadata.get("targetoptions") or {}, dispatcher.targetoptions
    compared = {name: (loaded.get(name, usual), defined.get(name, usual)) for name, usual in _OPTIONS.items()}
    return {name: [_plain(was), _plain(now)] for name, (was, now) in compared.items() if was != now}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
