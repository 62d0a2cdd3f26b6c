"""A module that a recording waits for: looked for, read, loaded and imported as without a recording."""

from __future__ import annotations

import copy
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.resources
import importlib.util
import inspect
import linecache
import pickle
import pkgutil
import runpy
import sys
import threading
import traceback
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelscope.probes.base import ImportFinder, ImportHook

#: A package with data, a module that can be run, and metadata.
PACKAGE = {
    "late/__init__.py": "VALUE = 1\n\ndef double(x):\n    return 2 * x\n",
    "late/__main__.py": "RAN = 3\n",
    "late/data.txt": "data\n",
    "late-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: late\nVersion: 1.5\n",
    "late-1.5.dist-info/top_level.txt": "late\n",
}
#: The same as a module of one file, a namespace package, and a package that is in a zip file.
KINDS = ("package", "module", "namespace", "zip")
WAITS = 60


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which modules are found; ``late`` and what a test calls ``late_...`` are unloaded afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "late"]:
        del sys.modules[name]
    importlib.invalidate_caches()


class Hooks:
    """Hooks that wait for ``late`` and note the modules that they are called back with."""

    def __init__(self, count: int = 1, module: str = "late") -> None:
        self.seen: list[ModuleType] = []
        self.hooks = [ImportHook(module, self.seen.append) for _ in range(count)]

    def __enter__(self) -> list[ModuleType]:
        for hook in self.hooks:
            hook.arm()
        return self.seen

    def __exit__(self, *_: object) -> None:
        for hook in self.hooks:
            hook.disarm()


def make(kind: str, folder: Path) -> None:
    if kind == "package":
        write(folder, PACKAGE)
    elif kind == "module":
        write(folder, {"late.py": PACKAGE["late/__init__.py"]})
    elif kind == "namespace":
        write(folder, {"late/inner.py": "VALUE = 1\n"})
    else:
        with zipfile.ZipFile(folder / "late.zip", "w") as archive:
            for name in ("late/__init__.py", "late/__main__.py", "late/data.txt"):
                archive.writestr(name, PACKAGE[name])
        sys.path.insert(0, str(folder / "late.zip"))  # the fixture restores sys.path


def observed() -> dict[str, Any]:
    """What a program that looks for ``late``, and never imports it, is told."""
    spec = importlib.util.find_spec("late")
    assert spec is not None
    loader: Any = spec.loader
    found: dict[str, Any] = {"type": type(spec), "loader": type(loader), "attributes": loader and vars(loader)}
    found["members"] = {name: list(value) if name == "submodule_search_locations" and value is not None else value
                        for name, value in vars(spec).items()}
    for name in ("is_package", "get_filename", "get_source", "get_code", "get_resource_reader"):
        method = getattr(loader, name, None)
        found[name] = method and repr(method("late")).partition(" at 0x")[0]
    if isinstance(loader, importlib.machinery.SourceFileLoader):  # others cannot be compared, or not be pickled
        found["pickled"] = pickle.loads(pickle.dumps(spec)) == spec
        found["copied"] = copy.deepcopy(spec) == spec
    found["iterated"] = [info.name for info in pkgutil.iter_modules() if info.name == "late"]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_who_looks_for_a_module_is_told_what_there_is(kind: str, path: Path) -> None:
    make(kind, path)
    before = observed()
    with Hooks() as seen:
        assert observed() == before
    assert seen == [] and "late" not in sys.modules


def test_builtin_frozen_and_extension_modules_keep_their_loaders(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_sha3", "__phello__", "_testbuffer", "_ctypes_test", "xxsubtype"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        with Hooks(module=name) as seen:
            module = importlib.import_module(name)
        assert seen == [module]
        assert type(module.__loader__) is type(spec.loader)
        assert module.__spec__ is not None and module.__spec__.loader is module.__loader__
    assert importlib.util.find_spec("xxsubtype") is not None  # one was there


def uses() -> dict[str, Any]:
    """What can be done with a package before its import, and with the import itself."""
    found: dict[str, Any] = {}
    linecache.clearcache()
    spec = importlib.util.find_spec("late")
    assert spec is not None and isinstance(spec.origin, str)
    names = {"__name__": "late", "__loader__": spec.loader, "__spec__": spec}
    linecache.lazycache("<late>", names)
    found["line"] = linecache.getline("<late>", 3)
    found["data"] = pkgutil.get_data("late", "data.txt")  # it imports the package
    for name in [name for name in sys.modules if name.partition(".")[0] == "late"]:
        del sys.modules[name]
    found["resource"] = importlib.resources.files("late").joinpath("data.txt").read_text()
    module: Any = sys.modules["late"]
    found["source"] = inspect.getsource(module), inspect.getsource(module.double)
    found["identical"] = module.__spec__.loader is module.__loader__, module.__loader__.__class__.__name__
    del sys.modules["late"]
    found["ran"] = runpy.run_module("late")["RAN"]
    found["version"] = importlib.metadata.version("late")
    found["reloaded"] = importlib.reload(sys.modules["late"]).VALUE
    return found


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_read_of_a_package_is_the_same(path: Path, count: int) -> None:
    write(path, PACKAGE)
    before = uses()
    del sys.modules["late"]
    with Hooks(count) as seen:
        assert uses() == before
    assert len(seen) == count and len({id(module) for module in seen}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_is_seen_and_the_module_has_its_loader(kind: str, path: Path) -> None:
    make(kind, path)
    module = importlib.import_module("late")
    assert module.__spec__ is not None
    before = type(module.__loader__), module.__spec__ == importlib.util.find_spec("late"), set(vars(module.__spec__))
    del sys.modules["late"]
    with Hooks() as seen:
        module = importlib.import_module("late")
        assert seen == [module]
    assert module.__spec__ is not None
    assert before == (type(module.__loader__), module.__spec__ == importlib.util.find_spec("late"),
                      set(vars(module.__spec__)))
    if kind != "namespace":
        assert module.__loader__ is module.__spec__.loader


def test_the_code_of_a_module_sees_no_frame_and_no_loader_of_ours(path: Path) -> None:
    write(path, {"late.py": (
        "import sys, traceback, warnings\n"
        "warnings.warn('of the importer', stacklevel=2)\n"
        "FRAMES = [(entry.filename, entry.name) for entry in traceback.extract_stack()]\n"
        "LOADER, TYPE = __spec__.loader, type(__spec__)\n"
        "SAME = __loader__ is __spec__.loader\n")})
    found: list[Any] = []
    for hooks in (Hooks(0), Hooks()):
        sys.modules.pop("late", None)
        with hooks, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            late: Any = importlib.import_module("late")
        found.append((late.FRAMES, type(late.LOADER), late.TYPE, late.SAME,
                      [(one.filename, one.lineno) for one in caught]))
    assert found[0] == found[1]


class Slotted(importlib.abc.Loader):
    """A loader without a dictionary, and without a method that one could do without."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def create_module(self, spec: Any) -> None:
        self.calls.append(("create", spec.loader is self, type(spec)))

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        self.calls.append(("exec", module.__loader__ is self, module.__spec__.loader is self))
        module.__dict__["VALUE"] = 1


class Wrapping(importlib.abc.Loader):
    """A loader around another, as tools put one there that have a module call them back."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds ``late`` with a loader that is given, or by all other finders with a loader around theirs."""

    def __init__(self, loader: Any = None, wrap: Any = None) -> None:
        self.loader = loader
        self.wrap = wrap
        self.is_searching = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "late" or self.is_searching:
            return None
        if self.wrap is None:
            return importlib.machinery.ModuleSpec(fullname, self.loader)
        self.is_searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.is_searching = False
        assert spec is not None
        spec.loader = self.wrap(spec.loader)
        return spec


@pytest.fixture
def finders(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    finders: list[Any] = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", finders)
    return finders


def test_a_loader_with_slots(path: Path, finders: list[Any]) -> None:
    loader = Slotted()
    finders.append(Finder(loader))
    with Hooks() as seen:
        module = importlib.import_module("late")
        assert seen == [module]
    assert module.__loader__ is loader
    assert loader.calls == [("create", True, importlib.machinery.ModuleSpec), ("exec", True, True)]


@pytest.mark.parametrize("is_first", [True, False])
def test_another_tool_wraps_the_loader(path: Path, finders: list[Any], is_first: bool) -> None:
    write(path, PACKAGE)
    with Hooks() as seen:
        finders.insert(0 if is_first else 1, Finder(wrap=Wrapping))
        module: Any = importlib.import_module("late")
        assert seen == [module]
    assert type(module.__loader__) is Wrapping
    assert type(module.__loader__.loader) is importlib.machinery.SourceFileLoader


@pytest.mark.parametrize("is_first", [True, False])
def test_an_import_that_loads_lazily(path: Path, finders: list[Any], is_first: bool) -> None:
    write(path, PACKAGE)
    with Hooks() as seen:
        finders.insert(0 if is_first else 1, Finder(wrap=importlib.util.LazyLoader))
        module = importlib.import_module("late")
        assert seen == []
        assert module.VALUE == 1
        assert seen == [module]
    assert type(module) is ModuleType


def lazily() -> Any:
    """Return the module ``late`` as the documentation of importlib has it be loaded at its first use."""
    spec = importlib.util.find_spec("late")
    assert spec is not None and spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["late"] = module
    spec.loader.exec_module(module)
    return module


def test_a_lazy_module_is_seen_when_it_is_used(path: Path) -> None:
    write(path, {"late.py": "LOADS.append(__name__)\nVALUE = 1\n"})
    loads: list[str] = []
    for is_lazy_before in (True, False):
        sys.modules.pop("late", None)
        module = lazily() if is_lazy_before else None
        with Hooks() as seen:
            module = module or lazily()
            module.LOADS = loads  # to set an attribute loads nothing
            assert seen == loads == []
            with pytest.raises(AttributeError, match="nothing"):
                _ = module.nothing
            assert loads == ["late"] and seen == [module]
        assert type(module) is ModuleType and module.VALUE == 1
        loads.clear()


def test_the_code_of_a_lazy_module_fails(path: Path) -> None:
    write(path, {"late.py": "def fail():\n    raise LookupError('users')\n\nfail()\n"})
    found: list[Any] = []
    for hooks in (Hooks(0), Hooks()):
        with hooks:
            module = lazily()
            with pytest.raises(LookupError) as caught:
                _ = module.VALUE
        found.append([entry.name for entry in traceback.extract_tb(caught.value.__traceback__)])
    assert found[0] == found[1]


def test_a_recording_loads_no_lazy_module(path: Path) -> None:
    import kernelscope

    write(path, PACKAGE)
    module = lazily()
    with kernelscope.record():
        pass
    assert type(module) is not ModuleType
    assert module.VALUE == 1


def test_a_module_that_replaces_itself(path: Path) -> None:
    write(path, {"late.py": "import sys\n\nclass Other:\n    VALUE = 1\n\nsys.modules[__name__] = Other\n"})
    with Hooks() as seen:
        module = importlib.import_module("late")
        assert seen == [module] and module.VALUE == 1


def test_an_import_that_fails_and_then_succeeds(path: Path) -> None:
    write(path, {"late.py": "import late_missing\n"})
    with Hooks() as seen:
        with pytest.raises(ModuleNotFoundError, match="late_missing"):
            importlib.import_module("late")
        assert seen == []
        write(path, {"late.py": "VALUE = 'of another length'\n"})
        importlib.invalidate_caches()
        assert seen == [importlib.import_module("late")]


def test_a_module_that_imports_itself_and_is_looked_for_meanwhile(path: Path) -> None:
    write(path, {"late/__init__.py": "import importlib.util\nimport late\nfrom late import inner\n"
                                     "importlib.util.find_spec('late')\nVALUE = 1\n",
                 "late/inner.py": "import late\nfrom late import *\n"})
    states: list[bool] = []
    hook = ImportHook("late", lambda module: states.append(hasattr(module, "VALUE")))
    hook.arm()
    importlib.import_module("late")
    hook.disarm()
    assert states == [True]


def test_a_recording_ends_in_the_middle_of_the_import(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, {"late.py": "import sys\nsys.late_stops()\n"})
    with Hooks(2) as seen:
        hooks = Hooks()
        others = hooks.__enter__()
        monkeypatch.setattr(sys, "late_stops", lambda: hooks.__exit__(), raising=False)
        module = importlib.import_module("late")
    assert others == [] and seen == [module, module]
    assert not [finder for finder in sys.meta_path if isinstance(finder, ImportFinder)]


def test_a_recording_begins_in_the_middle_of_the_import(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the module's own code, and in a thread beside."""
    write(path, {"late.py": "import sys\nsys.late_begins()\nVALUE = 1\n"})
    states: list[bool] = []
    hooks = [ImportHook("late", lambda module: states.append(hasattr(module, "VALUE"))) for _ in range(2)]

    def begin() -> None:
        hooks[0].arm()
        thread = threading.Thread(target=hooks[1].arm)
        thread.start()
        thread.join(WAITS)

    monkeypatch.setattr(sys, "late_begins", begin, raising=False)
    importlib.import_module("late")
    for hook in hooks:
        hook.disarm()
    assert states == [True, True]


def test_two_threads_import_it_and_neither_goes_on_before_it_is_hooked(
    path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(path, {"late.py": "import sys\nsys.late_runs()\n"})
    order: list[str] = []
    is_running, goes_on = threading.Event(), threading.Event()

    def run() -> None:
        is_running.set()
        goes_on.wait(WAITS)

    def imports(name: str) -> None:
        importlib.import_module("late")
        order.append(name)

    monkeypatch.setattr(sys, "late_runs", run, raising=False)
    threads = [threading.Thread(target=imports, args=(name,)) for name in ("imported", "imported")]
    hook = ImportHook("late", lambda _: order.append("hooked"))
    hook.arm()
    threads[0].start()
    assert is_running.wait(WAITS)
    threads[1].start()
    goes_on.set()
    for thread in threads:
        thread.join(WAITS)
    hook.disarm()
    assert order == ["hooked", "imported", "imported"]


def test_what_a_callback_raises_leaves_no_lock_taken(path: Path) -> None:
    """It raises what a signal handler of the user's does; another thread can import the module afterwards."""
    write(path, PACKAGE)

    def interrupt(_: ModuleType) -> None:
        raise KeyboardInterrupt

    hook = ImportHook("late", interrupt)
    hook.arm()
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module("late")
    sys.modules.pop("late", None)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(importlib.import_module("late")), daemon=True)
    thread.start()
    thread.join(WAITS)
    assert found == [sys.modules["late"]]
