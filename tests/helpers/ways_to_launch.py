"""Ways to launch, as programs of which a person has marked the lines that launch; and a folder to run them in."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda, vectorize

import kernelscope
from kernelscope.recording.model import select_cell

Lines = set[tuple[str, int]]

HELPER = '''
def launch(k, x):
    k(x)  # <
'''
LIBRARY = '''
def call(function, *args):
    return function(*args)

def launch(k, x):
    k(x)
'''

#: Programs by name. Each line that ends in `# <` launches, and no other; `k` is a kernel and `x` its argument.
WAYS = {
    "a call": "k[1, 32](x)  # <",
    "a call of several lines": "k[1, 32](  # <\n    x,\n)",
    "arguments of several lines": "args = [x]\nk[1, 32](  # <\n    *args\n)",
    "a configured kernel": "conf = k[1, 32]\nconf(x)  # <\nconf(x)  # <",
    "for": "for _ in range(3):\n    k[1, 32](x)  # <",
    "while": "n = 2\nwhile n:\n    n -= 1\n    k[1, 32](x)  # <",
    "an else of a loop": "for _ in []:\n    pass\nelse:\n    k[1, 32](x)  # <",
    "a list comprehension": "[k[1, 32](x) for _ in range(2)]  # <",
    "a dict comprehension": "{n: k[1, 32](x) for n in range(2)}  # <",
    "a set comprehension": "{id(k[1, 32](x)) for _ in range(2)}  # <",
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
    "filter": "list(filter(lambda _: [k[1, 32](x)], [1]))  # <",
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
    "assert": "assert [k[1, 32](x)]  # <",
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
    "a module of the folder": "import helper\nhelper.launch(k[1, 32], x)",
    "a package's module": "import inner.deep\ninner.deep.launch(k[1, 32], x)",
    "a library that launches": "import library\nlibrary.launch(k[1, 32], x)  # <",
    "a library that calls back": "import library\nlibrary.call(lambda: k[1, 32](x))  # <",
    "a library that calls a kernel": "import library\nlibrary.call(k[1, 32], x)  # <",
    "an editable package": "import editable_package\neditable_package.launch(k[1, 32], x)",
}
#: Further programs, of what only numba has.
WAYS_OF_NUMBA = {
    "a configuration of several lines": "k[  # <\n    1,\n    32\n](\n    x)",
    "configure": "k.configure(1, 32)(x)  # <",
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


def ways_of(framework: str) -> dict[str, str]:
    """The programs for numba; or those where `k` is something callable of another framework, which launches on `x`."""
    if framework == "numba":
        return WAYS | WAYS_OF_NUMBA
    return {way: program.replace("k[1, 32]", "k") for way, program in WAYS.items()}


def without_of(framework: str) -> dict[str, str]:
    """The programs of which no line can be known, as `ways_of`."""
    return {way: program if framework == "numba" else program.replace("k[1, 32]", "k")
            for way, program in WITHOUT.items()}


def names_of_numba() -> dict[str, Any]:
    """What programs for numba work with, compiled."""
    @cuda.jit
    def k(x: Any) -> None:
        x[0] = 1

    @cuda.jit
    def other(x: Any) -> None:
        x[0] = 2

    @vectorize(["float32(float32)"], target="cuda")
    def ufunc(a: float) -> float:
        return a + 1

    names = {"cuda": cuda, "k": k, "other": other, "ufunc": ufunc, "reduction": cuda.reduce(lambda a, b: a + b),
             "x": cuda.to_device(np.ones(4, np.float32))}
    for program in ("k[1, 32](x)", "other[1, 32](x)", "k.forall(1)(x)", "ufunc(x)", "reduction(x)"):
        eval(program, names)
    return names


@contextmanager
def project(base: Path) -> Iterator[Path]:
    """A working folder with modules, beside it a library and a package that are installed, one of them editable."""
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
        try:
            yield here
        finally:
            for name in set(sys.modules) - before:
                if name.partition(".")[0] in ("helper", "inner", "library", "editable_package"):
                    del sys.modules[name]


def program_of(folder: Path, program: str) -> Path:
    """The file of a program, written."""
    path = folder / f"program_{hash(program) % 2**32}.py"
    path.write_text(program + "\n")
    return path


def run_program(path: Path, names: Mapping[str, Any]) -> None:
    """Run a program, as a module of its own with these names."""
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), {"__name__": "program", **names})


def record_each(programs: Mapping[str, str], folder: Path, names: Mapping[str, Any],
                failed: dict[str, Exception] | None = None, **options: Any) -> dict[str, kernelscope.Recording]:
    """What each program made: each is a cell of one recording. Errors of programs are raised, or put into `failed`."""
    recorder = kernelscope.Recorder(**options).start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numba's: of a small grid, of a host array
            for way, program in programs.items():
                recorder.begin_cell(way)
                try:
                    run_program(program_of(folder, program), names)
                except Exception as error:
                    if failed is None:
                        raise
                    failed[way] = error
                recorder.end_cell()
    finally:
        recording = recorder.stop()
    return {way: select_cell(recording, at) for at, way in enumerate(programs)}


def named_lines(folder: Path, program: str) -> Lines:
    """The lines that a person would name: those that are marked, of the program or else of the module that it uses."""
    found = _marked(program_of(folder, program))
    if not found:
        used = next(name for name in ("helper", "inner.deep", "editable_package") if name in program)
        found = _marked(Path(sys.modules[used].__file__ or ""))
    return found


def _marked(path: Path) -> Lines:
    return {(str(path), number) for number, line in enumerate(path.read_text().splitlines(), 1) if "# <" in line}


def lines_of(recording: kernelscope.Recording, table: str = "launches", kind: str | None = None) -> Lines:
    """The lines that a table's rows have, those of one kind; ``("", 0)`` for no line."""
    lines = recording.rows("lines")
    return {("", 0) if row["line_id"] is None else (lines[row["line_id"]]["file"], lines[row["line_id"]]["line"])
            for row in recording.rows(table) if kind is None or row["kind"] == kind}
