"""Rows of Quadrants' kernels and specializations, and what can be told of a compile's cause."""

from __future__ import annotations

import json
import sys
from typing import Any

from kernelscope.probes.functions import function_facts
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "quadrants"

#: Quadrants' short names of types, as numba and NumPy call them.
_TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32",
          "i64": "int64", "u1": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
#: Backends that make a graph of a kernel with ``graph=True``.
_WITH_GRAPHS = ("cuda", "amdgpu")
#: The compute capability from which on a graph can loop by itself.
_LOOPS_FROM = 90


class KernelRows:
    """Makes rows at first sight; kernels are kept alive until the session ends, specializations are known by ``id``."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        #: By the ``id`` of a KernelCxx, its specialization's row.
        self._rows: dict[int, int] = {}
        self._materialized: set[tuple[int, int]] = set()

    def target(self, kernel: Any, number: int | None, error: str | None) -> int:
        """Return the id of what a launch went to: `number` is the ``id`` of the KernelCxx, None if none was found."""
        specialization = UNKNOWN
        if number is not None:
            specialization = self._rows.get(number, UNKNOWN)
            if specialization == UNKNOWN:
                specialization = self.specialization(kernel, kernel._last_launch_key, "before")
        return self._sink.target(self.dispatcher(kernel), specialization, UNKNOWN, error)

    def forget(self, number: int) -> None:
        """The KernelCxx of that ``id`` is a new one."""
        self._rows.pop(number, None)

    def name(self, kernel: Any) -> str:
        """Return a kernel's qualified name; that of a gradient has ``.grad`` behind it."""
        name = kernel.func.__qualname__.replace("<locals>.", "")
        return name if _mode(kernel) in ("NONE", "VALIDATION") else f"{name}.grad"

    def dispatcher(self, kernel: Any) -> int:
        """Return the id of the row of a ``Kernel``."""
        return self._sink.dispatchers.intern((FRAMEWORK, id(kernel)), lambda: self._dispatcher_row(kernel), live=kernel)

    def specialization(self, kernel: Any, key: Any, origin: str) -> int:
        """Return the id of the row of a kernel's specialization, made if its KernelCxx is new."""
        made = kernel.materialized_kernels.get(key)
        known = self._rows.get(id(made))
        if known is None:
            origin = "before" if origin == "wait" else origin
            identity = FRAMEWORK, id(kernel), len(self._sink.specializations)
            known = self._sink.specializations.intern(identity, lambda: {
                "dispatcher_id": self.dispatcher(kernel), "signature": self.signature(kernel, key),
                "compute_capability": self._compute_capability(kernel), "origin": origin,
                "attributes": json.dumps({"arch": _arch(kernel), "instance": key[1], "graph": bool(kernel.use_graph),
                                          "do_while": self.loops(kernel)}),
            })
            self._rows[id(made)] = known
        return known

    def signature(self, kernel: Any, key: Any) -> str:
        """Return the arguments' types of a specialization, in numba's notation."""
        features = _features(kernel, key[1])
        metas = list(kernel.arg_metas)
        shown = [_type_text(meta, features[at] if at < len(features) else None) for at, meta in enumerate(metas)]
        return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"

    def loops(self, kernel: Any) -> list[dict[str, Any]]:
        """Return a kernel's ``qd.graph.do_while`` loops: the argument that they go by, and the loop around each."""
        return [{"while": str(level.cond_arg_name), "inside": level.parent_id if level.parent_id >= 0 else None}
                for level in getattr(kernel, "graph_do_while_levels", ())]

    def fell_back(self, kernel: Any, number: int) -> None:
        """A kernel with ``graph=True`` was launched without a graph: say why, as far as that can be told."""
        row = self._sink.specializations.rows[self._rows[number]]
        attributes = json.loads(row.get("attributes") or "{}")
        row["attributes"] = json.dumps({**attributes, "plain_because": self._why_plain(kernel)})

    def cache_folder(self, kernel: Any) -> str | None:
        """Return the folder of the offline cache; None where it is switched off."""
        config = kernel.runtime._prog.config() if kernel.runtime._prog is not None else None
        return str(config.offline_cache_file_path) if config is not None and config.offline_cache else None

    def reason(self, kernel: Any, key: Any) -> dict[str, str]:
        """Return reason columns where the cause is not in the arguments' types: a new program, a template's value."""
        identity = id(kernel), key[1]
        if identity in self._materialized:
            return {"reason_code": "recompile", "fix": "call qd.init once, and no qd.reset between launches",
                    "reason": "qd.init or qd.reset made a new program, which has no kernels: each is compiled again"}
        self._materialized.add(identity)
        mine = _features(kernel, key[1])
        # The nearest other specialization of these argument types, by how many arguments are not the same.
        others = [features for features, instance in list(kernel.mapper.mapping.items()) if instance < key[1]]
        nearest = min(others, key=lambda features: len(_different(mine, features)), default=None)
        if nearest is None:
            return {"reason_code": "first_use", "reason": "the kernel had no specialization yet: this is its first"}
        metas = list(kernel.arg_metas)
        names = [metas[at].name for at in _different(mine, nearest) if at < len(metas) and _is_template(metas[at])]
        if not names or len(names) < len(_different(mine, nearest)):
            return {}
        return {
            "reason_code": "literal", "argument": names[0],
            "reason": f"template argument `{names[0]}` is another one: a kernel is compiled for each that it is given",
            "fix": f"if `{names[0]}` changes often, annotate it with its type, such as qd.i32 or qd.types.ndarray(), "
                   "so that it is an argument of one compiled kernel",
        }

    def _dispatcher_row(self, kernel: Any) -> dict[str, Any]:
        function, code = kernel.func, kernel.func.__code__
        options: dict[str, Any] = {name: True for name, flag in (
            ("graph", kernel.use_graph), ("checkpoints", getattr(kernel, "use_checkpoints", False)),
            ("fastcache", getattr(kernel.quadrants_callable, "is_pure", False))) if flag}
        if _mode(kernel) != "NONE":
            options["autodiff"] = _mode(kernel).lower()
        return {"framework": FRAMEWORK, "name": self.name(kernel), "module": function.__module__,
                "filename": code.co_filename, "lineno": code.co_firstlineno,
                "options": json.dumps(options) if options else None, **function_facts(code)}

    def _compute_capability(self, kernel: Any) -> str | None:
        capability = _capability() if _arch(kernel) == "cuda" else None
        return None if capability is None else f"{capability // 10}.{capability % 10}"

    def _why_plain(self, kernel: Any) -> str:
        arch = _arch(kernel)
        module = sys.modules.get("quadrants.lang.kernel")
        if arch not in _WITH_GRAPHS:
            return f"the backend {arch} makes no graphs"
        if not getattr(module, "_GRAPH_ENABLED", True):
            return "QD_GRAPH is set to something else than 1"
        capability = _capability() if arch == "cuda" else None
        if self.loops(kernel) and (arch != "cuda" or (capability or _LOOPS_FROM) < _LOOPS_FROM):
            return "qd.graph.do_while needs compute capability 9.0: here the host runs the loop"
        if getattr(kernel, "use_checkpoints", False) and self.loops(kernel):
            return "a qd.checkpoint around a qd.graph.do_while cannot go into a graph"
        return "Quadrants does not tell"


def _features(kernel: Any, instance: int) -> tuple[Any, ...]:
    """What Quadrants told the specialization of that number by, an entry an argument; the values are not kept."""
    return next((features for features, number in list(kernel.mapper.mapping.items()) if number == instance), ())


def _different(one: tuple[Any, ...], other: tuple[Any, ...]) -> list[int]:
    return [at for at, (left, right) in enumerate(zip(one, other, strict=False)) if not _same(left, right)]


def _same(left: Any, right: Any) -> bool:
    """Whether two entries are the same; a user's object is never asked whether it equals another."""
    if type(left) is tuple and type(right) is tuple:
        return len(left) == len(right) and all(map(_same, left, right))
    return left is right or (type(left) is type(right) and type(left) in (int, float, str, bool) and left == right)


def _is_template(meta: Any) -> bool:
    annotation = meta.annotation
    return "template" in (getattr(annotation, "__name__", "").lower(), type(annotation).__name__.lower())


def _type_text(meta: Any, feature: Any) -> str:
    annotation, kind = meta.annotation, type(meta.annotation).__name__
    if kind == "NdarrayType" and isinstance(feature, tuple) and len(feature) >= 2:
        return f"array({_dtype(feature[0])}, {feature[1]}d, C)"
    if _is_template(meta):
        return "template" if feature is None else f"template {_kind(feature)}"
    if isinstance(annotation, type):
        return annotation.__name__
    text = _dtype(annotation)
    return text if text in _TYPES.values() else kind


def _kind(feature: Any) -> str:
    """What a template argument is; its value is nobody's business."""
    return "object" if type(feature).__name__ in ("ReferenceType", "weakref", "tuple") else type(feature).__name__


def _dtype(of: Any) -> str:
    """Numba's name of an element type; Quadrants stands for its own simple ones by their ``id``."""
    if isinstance(of, int):
        types = sys.modules.get("quadrants.types.primitive_types")
        of = next((each for each in getattr(types, "all_types", ()) if id(each) == of), of)
    if isinstance(of, type):
        return of.__name__
    text = of.to_string() if hasattr(of, "to_string") else str(of)
    return _TYPES.get(text, text)


def _mode(kernel: Any) -> str:
    return str(getattr(kernel.autodiff_mode, "name", kernel.autodiff_mode))


def _arch(kernel: Any) -> str:
    program = kernel.runtime._prog
    return "" if program is None else str(program.config().arch).rpartition(".")[2]


def _capability() -> int | None:
    """The device's compute capability times ten; only asked for where Quadrants runs on CUDA."""
    core = getattr(sys.modules.get("quadrants._lib"), "core", None)
    try:
        return int(core.query_int64("cuda_compute_capability")) if core is not None else None
    except Exception:
        return None
