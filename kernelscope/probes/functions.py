"""What a kernel's Python function tells by itself: arguments, whose code it is, and which functions are the same."""

from __future__ import annotations
import __future__

import ast
import dis
import enum
import hashlib
import inspect
import sys
import sysconfig
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

#: So many names are remembered, so many definitions of each, and so many signatures of each of these.
_MOST_NAMES, _MOST_DEFINITIONS, _MOST_SIGNATURES = 1024, 8, 32
#: How many captured names are looked at, and how many bytes of an array count.
_MOST_CAPTURED, _MOST_BYTES = 24, 1 << 20
#: Packages of the frameworks, wherever they are installed.
FRAMEWORKS = ("numba", "numba_cuda", "numba_cuda_mlir", "quadrants", "triton")
_UFUNCS = ("__vectorized_", "__gufunc_")
# Looked up once: it takes half a millisecond, which a kernel's first launch in a recording would pay.
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


def function_facts(code: CodeType) -> dict[str, str]:
    """Return the columns ``arguments`` and ``code_sha256`` of a kernel's row."""
    return {"arguments": argument_text(code), "code_sha256": code_sha256(code)}


def argument_text(code: CodeType) -> str:
    """Return a function's arguments as ``x, y, *rest``; kernels have no keyword-only ones."""
    count = code.co_argcount
    names = list(code.co_varnames[:count])
    if code.co_flags & inspect.CO_VARARGS:
        names.append(f"*{code.co_varnames[count + code.co_kwonlyargcount]}")
    return ", ".join(names)


def written(function: Any) -> tuple[Any, str]:
    """Return the function that somebody wrote behind a kernel's function, and whose it is.

    Returns
    -------
    function : function
        For ``vectorize`` and ``guvectorize`` the ufunc's, for ``cuda.reduce`` the one that reduces, else the kernel's.
    owner : str
        ``user``, ``ufunc``, ``reduce``, or ``library`` for code of an installed package or of a framework.
    """
    owner, core = "user", None
    if function.__name__.startswith(_UFUNCS):
        owner, core = "ufunc", function.__globals__.get("__core__")
    elif str(function.__module__).endswith("cuda.kernels.reduction"):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        owner, core = "reduce", next((cell.cell_contents for name, cell in cells if name == "reduce_op"), None)
    source = getattr(core, "py_func", function)
    return source, "library" if is_library(source) else "user" if source is function else owner


def is_library(function: Any) -> bool:
    """Whether a function is of a framework, of Python's library or of another installed package."""
    if str(function.__module__).partition(".")[0] in FRAMEWORKS:
        return True
    file = function.__code__.co_filename
    if file.startswith("<"):  # made by exec, or typed in
        file = str(function.__globals__.get("__file__") or "")
    return _is_installed(file)


@lru_cache(1024)  # a kernel's first launch in a recording asks three times
def _is_installed(file: str) -> bool:
    path = PurePath(file)
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or path.is_relative_to(_STANDARD_LIBRARY)


@dataclass(frozen=True)
class Captured:
    """One value that a function's code reads from outside.

    Attributes
    ----------
    name : str
        As the code has it: ``SCALE``, or ``settings.SCALE`` where it is reached through modules and classes.
    owners : tuple of str
        The functions that it is read in, from the one that the kernel calls on; none for the kernel itself.
    value : object
        The value.
    is_function : bool
        Whether it is a function that is compiled with the kernel, whose own values are there too.
    is_in_closure : bool
        Whether the function's closure holds it.
    """

    name: str
    owners: tuple[str, ...]
    value: Any
    is_function: bool = False
    is_in_closure: bool = False

    @property
    def path(self) -> str:
        """Return the name behind those of the functions that it is read in: ``scale.FACTOR``."""
        return ".".join((*self.owners, self.name))

    @property
    def text(self) -> str:
        """Return the name with whose it is: ``FACTOR of scale``."""
        return f"{self.name} of {self.owners[-1]}" if self.owners else self.name


#: Returns the Python functions that are compiled where a callable value, or a method or attribute of a name, is used.
Implementations = Callable[[Any], Sequence[Any]]


def captured(function: Any, implementations: Implementations | None = None) -> list[Captured]:
    """Return what a function's code reads from outside.

    That is what its closure holds, global values, what it reaches through modules and classes (``settings.SCALE``),
    types and functions that have other names than their own, and classes and functions of the user's. Device functions
    are there themselves, and what they read, with the defaults of their arguments. What Python, NumPy and the
    frameworks have under their own names is left out.

    Parameters
    ----------
    function : function
        The kernel's.
    implementations : callable, optional
        Returns the Python functions that are compiled where a callable is called, or, given a string, where an
        attribute of this name is read; without it device functions alone are known.
    """
    found: dict[str, Captured] = {}
    _collect(function, (), found, {function.__code__}, implementations or (lambda value: ()))
    return list(found.values())


def is_device_function(value: Any) -> bool:
    """Whether a captured value is a device function, or another function that a framework compiles."""
    return not isinstance(value, ModuleType) and hasattr(getattr(value, "py_func", None), "__code__")


def _collect(function: Any, owners: tuple[str, ...], found: dict[str, Captured], seen: set[CodeType],
             implementations: Implementations) -> None:
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is empty yet
            cells[name] = cell.cell_contents
    values: dict[str, Captured] = {}
    attributes: dict[str, None] = {}
    for is_cell, root, names in _reads(function.__code__):
        scope: Mapping[str, Any] = cells if is_cell else function.__globals__
        if root in scope:
            name, value, rest = _reached(root, scope[root], names)
            attributes.update(dict.fromkeys(rest))
            if _is_captured(name, value):
                values[name] = Captured(name, owners, value, is_in_closure=is_cell and name == root)
        else:
            attributes.update(dict.fromkeys(names))
    if owners:  # a kernel's own are not filled in
        parameters = function.__code__.co_varnames[:function.__code__.co_argcount]
        defaults = function.__defaults__ or ()
        pairs = [*zip(parameters[len(parameters) - len(defaults):], defaults, strict=True),
                 *(function.__kwdefaults__ or {}).items()]
        values |= {name: Captured(name, owners, value) for name, value in pairs if _is_captured(name, value)}
    for each in values.values():
        inner = [each.value.py_func] if is_device_function(each.value) else implementations(each.value)
        _add(each, inner, found, seen, implementations)
    for name in attributes:
        inner = implementations(name)
        if inner:
            _add(Captured(name, owners, None), inner, found, seen, implementations)


def _add(one: Captured, inner: Sequence[Any], found: dict[str, Captured], seen: set[CodeType],
         implementations: Implementations) -> None:
    if len(found) >= _MOST_CAPTURED:
        return
    found.setdefault(one.path, replace(one, is_function=bool(inner)))
    for function in inner:
        if function.__code__ not in seen:
            seen.add(function.__code__)
            _collect(function, (*one.owners, one.name), found, seen, implementations)


#: What the interpreter has between the instructions of ``settings.SCALE``.
_BETWEEN = frozenset(("EXTENDED_ARG", "CACHE", "PUSH_NULL", "NOP"))


def _reads(code: CodeType) -> Iterator[tuple[bool, str, list[str]]]:
    """Yield what a code reads from outside: whether it is a free variable, its name, and the attributes read of it.

    Attributes of what is no global or free variable come with an empty name.
    """
    pending = [code]
    while pending:
        each = pending.pop(0)
        pending += [constant for constant in each.co_consts if isinstance(constant, CodeType)]  # defined inside
        root: tuple[bool, str, list[str]] | None = None
        for instruction in dis.get_instructions(each):
            if instruction.opname in _BETWEEN:
                continue
            name = str(instruction.argval)
            if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                if root is None:
                    root = False, "", []
                root[2].append(name)
                continue
            if root is not None:
                yield root
                root = None
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                root = False, name, []
            elif instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF") and name in code.co_freevars:
                root = True, name, []
        if root is not None:
            yield root


def _reached(name: str, value: Any, attributes: Sequence[str]) -> tuple[str, Any, Sequence[str]]:
    """Return the name and value that attributes of modules and classes lead to, and the attributes of that value.

    Nothing of the user's runs for it: no ``__getattr__`` of a module, no descriptor.
    """
    for at, attribute in enumerate(attributes):
        held: Mapping[str, Any] = {}
        if isinstance(value, enum.EnumMeta):
            held = value._member_map_
        elif isinstance(value, ModuleType) and not _is_of_library(value.__name__):
            held = vars(value)
        elif isinstance(value, type) and not _is_of_library(value.__module__):
            held = {key: inner for base in reversed(value.__mro__) for key, inner in vars(base).items()}
        if attribute not in held:
            return name, value, attributes[at:]
        name, value = f"{name}.{attribute}", held[attribute]
    return name, value, ()


def _is_captured(name: str, value: Any) -> bool:
    """Whether code may be made with other values of a name: not what libraries have under its own name."""
    if isinstance(value, ModuleType):
        return not _is_of_library(value.__name__)
    if is_device_function(value):
        return True
    last = name.rpartition(".")[2]
    if callable(value) and getattr(value, "__name__", None) == last:
        return not _is_of_library(str(getattr(value, "__module__", None) or type(value).__module__))
    return not any(vars(sys.modules[module]).get(last) is value for module in _NAMESPACES if module in sys.modules)


#: Whose names kernels import: types, and objects such as ``threadIdx``.
_NAMESPACES = ("numba", "numba.types", "numba.cuda", "numba.cuda.types", "numba_cuda_mlir", "numba_cuda_mlir.cuda",
               "numba_cuda_mlir.types", "numpy", "math", "operator", "builtins")


def _is_of_library(module: str) -> bool:
    """Whether a module is one of Python's, of NumPy or of a framework, whose names stand for the same always."""
    root = module.partition(".")[0]
    return root in FRAMEWORKS or root in ("numpy", "cuda") or root in sys.stdlib_module_names


def _fingerprint(value: Any) -> str:
    """Return what is the same for equal values, and from which no value can be read."""
    return hashlib.sha256(_value_text(value, 4).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _value_text(value: Any, depth: int) -> str:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if value is None or kind in (bool, int, float, complex, str, bytes) or isinstance(value, np.generic | np.dtype):
        return f"{name}:{value!r}"
    if issubclass(kind, enum.Enum) and depth:
        return f"{name}:{value.name}:{_value_text(value.value, depth - 1)}"
    if issubclass(kind, tuple | list) and depth:
        return f"{name}:[{','.join(_value_text(each, depth - 1) for each in value)}]"
    if kind is np.ndarray and not value.dtype.hasobject:
        content = value.tobytes() if value.nbytes <= _MOST_BYTES else b""
        return f"{name}:{value.dtype!r}{value.shape}{hashlib.sha256(content).hexdigest()}"
    if isinstance(value, enum.EnumMeta) and depth:
        members: Iterable[Any] = value._member_map_.values()
        return f"enum:{value.__qualname__}:[{','.join(_value_text(each, depth - 1) for each in members)}]"
    if isinstance(value, type):
        return f"type:{value.__module__}.{value.__qualname__}:{vars(value).get('_fields')}"
    if is_device_function(value):
        return f"function:{code_sha256(value.py_func.__code__)}"
    if isinstance(value, FunctionType):
        return f"function:{code_sha256(value.__code__)}"
    if name.partition(".")[0] in FRAMEWORKS:  # its types, which are told apart by name, and its arrays
        return f"{name}:{getattr(value, 'name', None)}:{getattr(value, 'dtype', None)}{getattr(value, 'shape', None)}"
    return name


@dataclass
class Definition:
    """One definition that was seen: a function that was made a kernel with these options. It keeps nothing alive.

    Attributes
    ----------
    function : weakref
        The function that somebody wrote.
    options : dict
        Compile options other than the usual ones, as JSON values.
    code : str or None
        The function's `code_sha256`, once it was looked at.
    captured : dict of str to str or None
        What it captured when it was compiled last, as fingerprints by name; device functions in `functions`.
    signatures : list of str
        Types that it was compiled for while it was recorded.
    dispatcher : weakref or None
        The first dispatcher of it that was asked to compile.
    unsafe : bool
        Whether code from the disk cache turned out to have other options or values than this definition.
    recompiled : dict
        What the last ``recompile()`` was good for: see `recompile`.
    """

    function: weakref.ref[Any]
    options: Mapping[str, Any]
    code: str | None = None
    captured: dict[str, str] | None = None
    functions: frozenset[str] = frozenset()
    signatures: list[str] = field(default_factory=list[str])
    dispatcher: weakref.ref[Any] | None = None
    unsafe: bool = False
    recompiled: dict[str, Any] = field(default_factory=dict[str, Any])
    #: What `Definitions.changes` has found.
    found: dict[str, Any] | None = None
    is_compared: bool = False

    def look(self) -> None:
        """Take in the code and what is captured now."""
        function = self.function()
        if function is None:
            return
        self.code = self.code or code_sha256(function.__code__)
        values = captured(function)
        self.captured = {each.path: _fingerprint(each.value) for each in values}
        self.functions = frozenset(each.path for each in values if each.is_function)

    def recompile(self) -> None:
        """Take in that ``recompile()`` was called, and what for.

        That is ``unsafe``, whether it replaces unsafe code from the disk cache, and ``captured``, the names whose
        values have changed since the last compile, or None where that is not known.
        """
        before = self.captured
        self.look()
        known = before is not None and self.captured is not None
        self.recompiled = {"unsafe": self.unsafe,
                           "captured": _changed(before or {}, self.captured or {}) if known else None}
        self.unsafe = False

    def compiled(self, signature: str) -> None:
        """Take in that it was compiled for these types."""
        if signature not in self.signatures:
            self.signatures = [*self.signatures, signature][-_MOST_SIGNATURES:]


class Definitions:
    """The definitions that recordings of this process have seen, so that one that runs again is known in the next.

    A bounded number of them: names are forgotten that were not seen for the longest time.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._names: OrderedDict[Hashable, list[Definition]] = OrderedDict()

    def seen(self, key: Hashable, function: Any, options: Mapping[str, Any]) -> Definition:
        """Return the definition, new or known, of a function and its options under a name."""
        with self._lock:
            known = self._names.setdefault(key, [])
            self._names.move_to_end(key)
            for each in known:
                if each.function() is function and each.options == options:
                    return each
            made = Definition(weakref.ref(function), dict(options))
            known.append(made)
            del known[:-_MOST_DEFINITIONS]
            while len(self._names) > _MOST_NAMES:
                self._names.popitem(last=False)
            return made

    def changes(self, key: Hashable, definition: Definition, usual: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a definition has changed against the nearest one of its name before it; None where there is none.

        Returns
        -------
        dict or None
            ``same_code``; ``same_function`` where ``@cuda.jit`` was applied to one function again; ``captured`` and
            ``functions``, names of values and of device functions that are others; ``options``, by name what they were
            and are, with `usual` where they are not given.
        """
        with self._lock:
            if definition.is_compared:
                return definition.found
            definition.is_compared = True
            known = self._names.get(key, [])
            if definition.code is None:
                definition.look()
            before = known[:next((at for at, each in enumerate(known) if each is definition), 0)]
            found = [_compared(definition, each, usual) for each in before]
            if found:
                nearest = min(reversed(found), key=_distance)
                # Lambdas have one name: those of other code are no definition that ran again.
                is_lambda = getattr(definition.function(), "__name__", "") == "<lambda>"
                definition.found = None if is_lambda and nearest["same_code"] is False else nearest
            return definition.found

    def clear(self) -> None:
        """Forget all: for tests, each of which is as a process of its own."""
        with self._lock:
            self._names.clear()


def _compared(new: Definition, old: Definition, usual: Mapping[str, Any]) -> dict[str, Any]:
    if old.code is None or old.captured is None:
        old.look()
    same = None if None in (new.code, old.code) else new.code == old.code
    result: dict[str, Any] = {"same_code": same}
    if old.function() is not None and old.function() is new.function():
        result["same_function"] = True
    if same and new.captured is not None and old.captured is not None:
        names = _changed(old.captured, new.captured)
        parts = {"captured": [name for name in names if name not in new.functions],
                 "functions": [name for name in names if name in new.functions]}
        result.update({name: changed for name, changed in parts.items() if changed})
    pairs = {name: [old.options.get(name, usual.get(name)), new.options.get(name, usual.get(name))]
             for name in (*new.options, *old.options)}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return {**result, "options": changed} if changed else result


def _distance(found: dict[str, Any]) -> tuple[bool, int]:
    return found["same_code"] is False, sum(len(found.get(name, ())) for name in ("captured", "functions", "options"))


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [name for name in dict.fromkeys((*now, *before)) if before.get(name) != now.get(name)]


#: Those of this process.
definitions = Definitions()


def functions_of(text: str, like: CodeType) -> frozenset[tuple[str, int, str]]:
    """Return name, first line and `code_sha256` of every function that a file's text makes; nothing of it runs.

    Parameters
    ----------
    text : str
        Python source; where it is none there are no functions.
    like : CodeType
        A function of the file, whose ``__future__`` imports count.
    """
    future = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
                 if like.co_flags & getattr(__future__, name).compiler_flag)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A cell of a notebook may await.
            flags = future | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree = compile(text, like.co_filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
            # IPython compiles a cell's statements one by one, and then names that it imports are called otherwise.
            parts = [tree, *(ast.Module([statement], []) for statement in tree.body)]
            pending: list[CodeType] = [compile(part, like.co_filename, "exec", flags, dont_inherit=True)
                                       for part in parts]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found: set[tuple[str, int, str]] = set()
    while pending:
        inner = [each for each in pending.pop().co_consts if isinstance(each, CodeType)]
        found |= {(each.co_name, each.co_firstlineno, code_sha256(each)) for each in inner}
        pending += inner
    return frozenset(found)


def code_sha256(code: CodeType) -> str:
    """Return a hash of a function's bytecode, constants and names: equal for equal code, wherever it stands.

    Captured values and globals, which are not in the code, do not count.
    """
    digest = hashlib.sha256()
    pending = [code]
    while pending:
        each = pending.pop()
        parts = (each.co_code, each.co_names, each.co_varnames, each.co_freevars, each.co_cellvars, each.co_argcount,
                 each.co_kwonlyargcount, each.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))
        digest.update(repr(parts).encode("utf-8", "backslashreplace"))
        for constant in each.co_consts:
            if isinstance(constant, CodeType):
                digest.update(b"code")
                pending.append(constant)
            else:
                digest.update(_constant_text(constant).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _constant_text(constant: object) -> str:
    """A constant of the bytecode as text; a set has no order of its own."""
    if isinstance(constant, str):
        return f"str:{constant.rpartition('<locals>.')[2]}"  # until Python 3.11 an inner function's qualified name
    if isinstance(constant, frozenset):
        return f"frozenset({sorted(repr(each) for each in constant)})"
    return f"{type(constant).__name__}:{constant!r}"
