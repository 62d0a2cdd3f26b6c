"""Whose line each launch is of: ways to launch, and the line that a person would name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda, vectorize

import kernelscope
from kernelscope.native import core
from kernelscope.probes.lines import OTHERS, USERS, USERS_IF_NO_OTHER, UserCode, place_of
from kernelscope.recording.model import select_cell

HELPER = '''
def launch(k, x):
    k[1, 32](x)  # <
'''
LIBRARY = '''
def call(function, *args):
    return function(*args)

def launch(k, x):
    k[1, 32](x)
'''

#: Programs by name. Each line that ends in `# <` launches, and no other; `k` is a kernel and `x` its argument.
WAYS = {
    "a call": "k[1, 32](x)  # <",
    "a call of several lines": "k[1, 32](  # <\n    x,\n)",
    "a configuration of several lines": "k[  # <\n    1,\n    32\n](\n    x)",
    "arguments of several lines": "args = [x]\nk[1, 32](  # <\n    *args\n)",
    "a configured kernel": "conf = k[1, 32]\nconf(x)  # <\nconf(x)  # <",
    "configure": "k.configure(1, 32)(x)  # <",
    "for": "for _ in range(3):\n    k[1, 32](x)  # <",
    "while": "n = 2\nwhile n:\n    n -= 1\n    k[1, 32](x)  # <",
    "an else of a loop": "for _ in []:\n    pass\nelse:\n    k[1, 32](x)  # <",
    "a list comprehension": "[k[1, 32](x) for _ in range(2)]  # <",
    "a dict comprehension": "{n: k[1, 32](x) for n in range(2)}  # <",
    "a set comprehension": "{k[1, 32](x) for _ in range(2)}  # <",
    "a comprehension of several lines": "[\n    k[1, 32](x)  # <\n    for _ in range(2)\n    if x is not None\n]",
    "a nested comprehension": "[[k[1, 32](x)  # <\n  for _ in range(2)]\n for _ in range(2)]",
    "a generator expression": "list(k[1, 32](x) for _ in range(2))  # <",
    "lambda": "f = lambda: k[1, 32](x)  # <\nf()",
    "a lambda of several lines": "f = lambda: (\n    k[1, 32](x))  # <\nf()",
    "a decorated function": """\
import functools
def twice(f):
    @functools.wraps(f)
    def call(*args):
        f(*args)
        f(*args)
    return call
@twice
def step():
    k[1, 32](x)  # <
step()""",
    "a decorator": "def launching(f):\n    k[1, 32](x)  # <\n    return f\n@launching\ndef step(): pass",
    "a cached function": "import functools\n@functools.lru_cache\ndef step():\n    k[1, 32](x)  # <\nstep()\nstep()",
    "single dispatch": "import functools\n@functools.singledispatch\ndef f(a):\n    k[1, 32](x)  # <\nf(3)",
    "a generator": "def steps():\n    k[1, 32](x)  # <\n    yield\n    k[1, 32](x)  # <\nfor _ in steps(): pass",
    "send": "def steps():\n    while (yield):\n        k[1, 32](x)  # <\ns = steps()\nnext(s)\ns.send(1)",
    "yield from": "def a():\n    yield k[1, 32](x)  # <\ndef b():\n    yield from a()\nlist(b())",
    "await": "import asyncio\nasync def a():\n    k[1, 32](x)  # <\nasync def b():\n    await a()\nasyncio.run(b())",
    "tasks": """\
import asyncio
async def step(n):
    await asyncio.sleep(0)
    k[1, 32](x)  # <
async def main():
    await asyncio.gather(step(1), asyncio.create_task(step(2)))
asyncio.run(main())""",
    "async for and with": """\
import asyncio, contextlib
@contextlib.asynccontextmanager
async def around():
    k[1, 32](x)  # <
    yield
async def steps():
    yield k[1, 32](x)  # <
async def main():
    async with around():
        async for _ in steps():
            k[1, 32](x)  # <
asyncio.run(main())""",
    "a loop's callback": """\
import asyncio
def step():
    k[1, 32](x)  # <
async def main():
    asyncio.get_running_loop().call_soon(step)
    await asyncio.sleep(0)
asyncio.run(main())""",
    "to_thread": "import asyncio\ndef f():\n    k[1, 32](x)  # <\nasyncio.run(asyncio.to_thread(f))",
    "a thread": "import threading\ndef f():\n    k[1, 32](x)  # <\nt = threading.Thread(target=f)\nt.start()\nt.join()",
    "a thread's subclass": """\
import threading
class Worker(threading.Thread):
    def run(self):
        k[1, 32](x)  # <
t = Worker()
t.start()
t.join()""",
    "a pool of threads": """\
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    pool.submit(lambda: k[1, 32](x)).result()  # <
    list(pool.map(lambda _: k[1, 32](x), range(2)))  # <""",
    "map": "list(map(k[1, 32], [x, x]))  # <",
    "map over a function": "def f(_):\n    k[1, 32](x)  # <\nlist(map(f, range(2)))",
    "filter": "list(filter(lambda _: k[1, 32](x), [1]))  # <",
    "sorted": "def key(_):\n    k[1, 32](x)  # <\n    return 0\nsorted([2, 1], key=key)",
    "partial": "import functools\nf = functools.partial(k[1, 32], x)\nf()  # <",
    "a partial of a function": "import functools\ndef f(a):\n    k[1, 32](a)  # <\nfunctools.partial(f, x)()",
    "reduce of functools": "import functools\nfunctools.reduce(lambda a, _: k[1, 32](x), range(3))  # <",
    "recursion": "def f(n):\n    if n:\n        f(n - 1)\n    k[1, 32](x)  # <\nf(3)",
    "a method": "class A:\n    def step(self):\n        k[1, 32](x)  # <\nA().step()",
    "a static method": "class A:\n    @staticmethod\n    def step():\n        k[1, 32](x)  # <\nA.step()",
    "a class method": "class A:\n    @classmethod\n    def step(cls):\n        k[1, 32](x)  # <\nA.step()",
    "a property": "class A:\n    @property\n    def step(self):\n        k[1, 32](x)  # <\nA().step",
    "an inherited method": """\
class A:
    def step(self):
        k[1, 32](x)  # <
class B(A):
    def step(self):
        super().step()
        k[1, 32](x)  # <
B().step()""",
    "a callable object": "class A:\n    def __call__(self):\n        k[1, 32](x)  # <\nA()()",
    "a constructor": "class A:\n    def __init__(self):\n        k[1, 32](x)  # <\nA()",
    "a dataclass": """\
import dataclasses
@dataclasses.dataclass
class A:
    n: int
    def __post_init__(self):
        k[1, 32](x)  # <
A(3)""",
    "an operator": "class A:\n    def __add__(self, _):\n        k[1, 32](x)  # <\nA() + A()",
    "an item": "class A:\n    def __getitem__(self, _):\n        k[1, 32](x)  # <\nA()[3]",
    "a descriptor": "class D:\n    def __get__(self, *_):\n        k[1, 32](x)  # <\nclass A:\n    d = D()\nA().d",
    "a finalizer": "class A:\n    def __del__(self):\n        k[1, 32](x)  # <\ndel [A()][0]",
    "a class's body": "class A:\n    k[1, 32](x)  # <",
    "a subclass": "class A:\n    def __init_subclass__(cls):\n        k[1, 32](x)  # <\nclass B(A): pass",
    "a default": "def f(a=k[1, 32](x)): pass  # <",
    "with": "import contextlib\nwith contextlib.nullcontext():\n    k[1, 32](x)  # <",
    "a context": """\
class A:
    def __enter__(self):
        k[1, 32](x)  # <
    def __exit__(self, *_):
        k[1, 32](x)  # <
with A():
    pass""",
    "a context manager": """\
import contextlib
@contextlib.contextmanager
def around():
    k[1, 32](x)  # <
    yield
    k[1, 32](x)  # <
with around():
    k[1, 32](x)  # <""",
    "an exit stack": "import contextlib\nwith contextlib.ExitStack() as s:  # <\n    s.callback(k[1, 32], x)",
    "try": "try:\n    k[1, 32](x)  # <\nfinally:\n    k[1, 32](x)  # <",
    "except": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    k[1, 32](x)  # <\nelse:\n    pass",
    "finally after return": "def f():\n    try:\n        return 1\n    finally:\n        k[1, 32](x)  # <\nf()",
    "a conditional": "x is None or k[1, 32](x)  # <\nk[1, 32](x) if x is not None else None  # <",
    "a conditional of several lines": "value = (None\n         if x is None\n         else k[1, 32](x))  # <",
    "assert": "assert k[1, 32](x) is None  # <",
    "an f-string": 'f"{k[1, 32](x)}"  # <',
    "walrus": "if (made := k[1, 32](x)) is None:  # <\n    pass",
    "match": "match 3:\n    case 3:\n        k[1, 32](x)  # <",
    "several on a line": "k[1, 32](x); k[1, 32](x)  # <",
    "a closure": "def outer():\n    def inner():\n        k[1, 32](x)  # <\n    return inner\nouter()()",
    "nonlocal calls": "def f(g):\n    g()\nf(lambda:\n  k[1, 32](x))  # <",
    "exec": 'exec("k[1, 32](x)")  # <',
    "exec of several lines": 'exec("\\n\\n\\nk[1, 32](x)")  # <',
    "eval": 'eval("k[1, 32](x)")  # <',
    "a copy of a function": """\
import types
def f():
    k[1, 32](x)  # <
types.FunctionType(f.__code__, f.__globals__)()""",
    "a pickled function": """\
import marshal, types
def f():
    k[1, 32](x)  # <
types.FunctionType(marshal.loads(marshal.dumps(f.__code__)), globals())()""",
    "another context": "import contextvars\ncontextvars.copy_context().run(k[1, 32], x)  # <",
    "a signal's handler": """\
import signal
def handle(*_):
    k[1, 32](x)  # <
before = signal.signal(signal.SIGUSR1, handle)
signal.raise_signal(signal.SIGUSR1)
signal.signal(signal.SIGUSR1, before)""",
    "a callback of NumPy": "import numpy\ndef f(_):\n    k[1, 32](x)  # <\nnumpy.frompyfunc(f, 1, 1)([1])",
    "timeit": "import timeit\ntimeit.timeit(lambda: k[1, 32](x), number=2)  # <",
    "a module of the folder": "import helper\nhelper.launch(k, x)",
    "a package's module": "import inner.deep\ninner.deep.launch(k, x)",
    "a library that launches": "import library\nlibrary.launch(k, x)  # <",
    "a library that calls back": "import library\nlibrary.call(lambda: k[1, 32](x))  # <",
    "a library that calls a kernel": "import library\nlibrary.call(k[1, 32], x)  # <",
    "an editable package": "import editable_package\neditable_package.launch(k, x)",
    "forall": "k.forall(1)(x)  # <",
    "vectorize": "ufunc(x)  # <",
    "a reduction": "reduction(x)  # <",
    "a pre-launch callback": """\
def before(kernel, launch_config):
    other[1, 32](x)  # <
conf = k[1, 16]
conf.pre_launch_callbacks.append(before)
conf(x)  # <
conf.pre_launch_callbacks.clear()""",
    "a stream": "k[1, 32, cuda.stream()](x)  # <",
    "a host array": "import numpy\nk[1, 32](numpy.ones(4, numpy.float32))  # <",
}
#: Programs of which no line can be known: nothing of the user's is on the thread.
WITHOUT = {
    "a kernel as a thread's target":
        "import threading\nt = threading.Thread(target=k[1, 32], args=(x,))\nt.start()\nt.join()",
    "a kernel in a pool":
        "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool(1) as p:\n    p.submit(k[1, 32], x)",
}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What programs work with, compiled."""
    @cuda.jit
    def k(x: Any) -> None:
        x[0] = 1

    @cuda.jit
    def other(x: Any) -> None:
        x[0] = 2

    @vectorize(["float32(float32)"], target="cuda")
    def ufunc(a: float) -> float:
        return a + 1

    held = {"cuda": cuda, "k": k, "other": other, "ufunc": ufunc, "reduction": cuda.reduce(lambda a, b: a + b),
            "x": cuda.to_device(np.ones(4, np.float32))}
    for program in ("k[1, 32](x)", "other[1, 32](x)", "k.forall(1)(x)", "ufunc(x)", "reduction(x)"):
        eval(program, held)
    return held


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working folder with modules, beside it a library and a package that are installed, one of them editable."""
    base = tmp_path_factory.mktemp("lines")
    here, site, editable = base / "project", base / "venv" / "site-packages", base / "elsewhere" / "src"
    for place, name, text in ((here, "helper.py", HELPER), (here / "inner", "deep.py", HELPER),
                              (site, "library.py", LIBRARY), (editable, "editable_package.py", HELPER)):
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    facts = site / "editable_package-1.0.dist-info"
    facts.mkdir()
    (facts / "direct_url.json").write_text(
        f'{{"url": "file://{editable.parent}", "dir_info": {{"editable": true}}}}')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        for each in (editable, site, here):
            patch.syspath_prepend(each)
        before = set(sys.modules)
        yield here
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("helper", "inner", "library", "editable_package"):
                del sys.modules[name]


def program_of(folder: Path, program: str) -> Path:
    path = folder / f"program_{hash(program) % 2**32}.py"
    path.write_text(program + "\n")
    return path


def run(folder: Path, program: str, names: dict[str, Any], **options: Any) -> kernelscope.Recording:
    path = program_of(folder, program)
    with kernelscope.record(gpu="none", **options) as recorder:
        exec(compile(path.read_text(), str(path), "exec"), dict(names))
    return recorder.recording


def marked(path: Path) -> set[tuple[str, int]]:
    return {(str(path), number) for number, line in enumerate(path.read_text().splitlines(), 1) if "# <" in line}


def lines_of(recording: kernelscope.Recording) -> set[tuple[str, int]]:
    rows = recording.rows("lines")
    return {(rows[each]["file"], rows[each]["line"]) if each is not None else ("", 0)
            for each in recording.arrow("launches").column("line_id").to_pylist()}


@pytest.fixture(scope="module")
def every_way(folder: Path, names: dict[str, Any]) -> dict[str, set[tuple[str, int]]]:
    """The lines that each way's launches were recorded with: each way is a cell of one recording."""
    recorder = kernelscope.Recorder(gpu="none").start()
    programs = WAYS | WITHOUT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's: of a small grid, of a host array
        for way, program in programs.items():
            path = program_of(folder, program)
            recorder.begin_cell(way)
            exec(compile(path.read_text(), str(path), "exec"), dict(names))
            recorder.end_cell()
    recording = recorder.stop()
    return {way: lines_of(select_cell(recording, at)) for at, way in enumerate(programs)}


@pytest.mark.parametrize("way", WAYS)
def test_the_line_is_the_one_that_a_person_would_name(
        way: str, folder: Path, every_way: dict[str, set[tuple[str, int]]]) -> None:
    expected = marked(program_of(folder, WAYS[way]))
    if not expected:
        used = next(name for name in ("helper", "inner.deep", "editable_package") if name in WAYS[way])
        expected = marked(Path(sys.modules[used].__file__ or ""))
    assert every_way[way] == expected


@pytest.mark.parametrize("way", WITHOUT)
def test_what_cannot_be_known_is_null(way: str, every_way: dict[str, set[tuple[str, int]]]) -> None:
    assert every_way[way] == {("", 0)}


def test_the_two_ends_of_a_launch_have_a_line_too(folder: Path, names: dict[str, Any]) -> None:
    for way in ("a call of several lines", "a thread"):
        recording = run(folder, WAYS[way], names, detail="launch")
        assert lines_of(recording) == marked(program_of(folder, WAYS[way]))


def test_without_lines_there_are_none(folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, WAYS["a call"], names, lines=False)
    assert len(recording.launches) == 1 and recording.launches.line_id.isna().all()
    assert recording.lines.empty and recording.by_line().empty


@pytest.mark.parametrize("package", ["library", "."])
def test_lines_of_a_package_are_the_users_when_asked(package: str, folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, WAYS["a library that launches"], names, lines_of=[package])
    program = program_of(folder, WAYS["a library that launches"])
    file = sys.modules["library"].__file__ if package == "library" else str(program)
    assert {file for file, _ in lines_of(recording)} == {file}


def test_compiles_ranges_and_copies_have_lines(folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, """\
import nvtx
from numba import cuda
@cuda.jit("void(float32[::1])")  # eager
def fresh(x):
    x[0] = 1
def step():
    with nvtx.annotate("step"):  # range
        fresh[1, 32](x)
step()
@cuda.jit
def lazy(x):
    x[0] = 1
lazy[1, 32](  # lazy
    x)""", names)
    rows = recording.rows("lines")
    text = Path(rows[0]["file"]).read_text().splitlines()

    def words(table: str) -> list[str]:
        return [text[rows[each]["line"] - 1].rpartition("# ")[2]
                for each in recording.arrow(table).column("line_id").to_pylist()]

    assert words("compilations") == ["eager", "lazy"]
    assert words("ranges") == ["range"]
    assert [rows[each["line_id"]]["function"] for each in recording.rows("launches")] == ["step", None]


def test_lines_add_up(folder: Path, names: dict[str, Any]) -> None:
    recording = run(folder, """\
import threading
for _ in range(5):
    k[1, 32](x)
def f():
    other[1, 32](x)
f()
t = threading.Thread(target=k[1, 32], args=(x,))
t.start()
t.join()""", names)
    table = recording.by_line()
    assert dict(zip(table.line.fillna(0), table.launches, strict=True)) == {3: 5, 5: 1, 0: 1}
    assert table.file.isna().tolist() == [False, False, True]  # what has no line comes last
    assert table.host_ns.sum() == (recording.launches.end_ns - recording.launches.start_ns).sum()
    assert table.gpu_ns.isna().all() and table.wait_ns.isna().all()  # nothing of a GPU is known


def test_whose_code_is_whose(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = UserCode()
    site = folder.parent / "venv" / "site-packages" / "library.py"
    known = {
        "<stdin>": USERS, "<ipython-input-3-0a1b2c>": USERS, "<timed exec>": USERS,
        "/tmp/ipykernel_123/4567.py": USERS, "/tmp/marimo_9/__marimo__cell_Hbol_.py": USERS,
        "<string>": USERS_IF_NO_OTHER, "<frozen importlib._bootstrap>": OTHERS, "<attrs generated init a.B>": OTHERS,
        str(folder / "a.py"): USERS, str(folder / "deep" / "a.py"): USERS, str(folder) + "-other/a.py": OTHERS,
        "helper.py": USERS, "no_such.py": USERS_IF_NO_OTHER, str(site): OTHERS, threading_file(): OTHERS,
        str(np.__file__): OTHERS, str(Path(kernelscope.__file__).parent / "probes" / "sink.py"): OTHERS,
        str(folder / ".venv" / "lib" / "python3.11" / "site-packages" / "a.py"): OTHERS,
    }
    assert {file: code.whose(file) for file in known} == known
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert UserCode().whose("a.py") == OTHERS


def threading_file() -> str:
    import threading

    return threading.__file__


def test_frames_are_those_that_python_tells_of() -> None:
    """As CPython's own functions have them: in generators, comprehensions, callbacks, classes and coroutines."""
    def same() -> bool:
        own, public = core.frames(False), core.frames(True)
        return own[1:] == public[1:] and own[0][0] is public[0][0]

    def steps() -> Iterator[bool]:
        yield same()

    async def step() -> bool:
        return same()

    class Body:
        found = same()

        def __getattr__(self, name: str) -> bool:
            return same()

    coroutine = step()
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    found = [same(), *steps(), *(same() for _ in range(2)), *[same() for _ in range(2)], *map(lambda _: same(), "ab"),
             Body.found, Body().any, eval("same()", {"same": same}), stopped.value.value,
             sorted([2, 1], key=lambda _: same()) == [2, 1]]
    assert all(found) and core.READS_FRAMES


def test_a_line_is_that_on_which_the_call_begins() -> None:
    code = compile("f(\n  a,\n  g(\n    b))\n", "f.py", "exec")
    calls = [place_of(code, offset).line for offset, line in enumerate(code.co_positions()) if line[0] == 3]
    assert place_of(code, 10**6).line == code.co_firstlineno and calls is not None
    assert place_of(code, -1) == ("f.py", code.co_firstlineno, None)
