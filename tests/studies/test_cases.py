"""The cases of a study: every built-in one runs, on the dry run; which are meant; a case of one's own."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernelscope.errors import StudyError
from kernelscope.schema import DETAILS
from kernelscope.studies.cases import (
    Case,
    built_in_cases,
    case,
    empty,
    graph,
    groups,
    launches,
    parse_args,
    recorded,
    select,
)

ROOT = Path(__file__).resolve().parents[2]

# As a target's process does it, and one launch after another: what the driver was asked for while the statement ran
# three times, and how the case was refused if it was.
RUN = """
import json, linecache, sys, types, warnings
import kernelscope.dryrun as dryrun
dryrun.enable()
import numpy as np
from numba import cuda

warnings.simplefilter("ignore")

class Unavailable(Exception):
    pass

class FakeArray:
    def __init__(self):
        self.own = cuda.device_array(1, np.float32)
        self.__cuda_array_interface__ = {**self.own.__cuda_array_interface__, "stream": None}

def zeros(shape, dtype):
    if one["is_blind"]:
        raise RuntimeError("cudaErrorNoDevice")
    return FakeArray()

torch, cupy = types.ModuleType("torch"), types.ModuleType("cupy")
torch.float32 = "float32"
torch.cuda = types.SimpleNamespace(is_available=lambda: not one["is_blind"])
torch.zeros = lambda *shape, dtype, device: FakeArray()
cupy.zeros = zeros
sys.modules.update(torch=torch, cupy=cupy)

found = {}
for number, one in enumerate(json.load(sys.stdin)):
    names = {"cuda": cuda, "np": np, "Unavailable": Unavailable}
    here = f"<case {number}>"
    linecache.cache[here] = (len(one["setup"]), None, one["setup"].splitlines(True), here)
    try:
        exec(compile(one["setup"], here, "exec"), names)
        exec(one["before"], names)
        statement = compile(one["statement"], "<statement>", "exec")
        exec(statement, names)
        before = dryrun.counters()
        for _ in range(3):
            exec(statement, names)
        after = dryrun.counters()
        exec(one["after"], names)
        cuda.synchronize()
    except Unavailable as error:
        found[one["name"]] = {"unavailable": str(error)}
        continue
    kernel = names.get("sensitive_kernel")
    found[one["name"]] = {
        **{what: getattr(after, what) - getattr(before, what)
           for what in ("launches", "captured_launches", "graph_launches", "graph_kernels")},
        "calls": {name: count - before.calls.get(name, 0) for name, count in after.calls.items()
                  if count != before.calls.get(name, 0)},
        "callbacks": len(getattr(names["held"], "pre_launch_callbacks", ())),
        "sensitive": kernel is not None and kernel._launch_config_sensitive,
        "recorded": len(names["recorder"].recording.launches) if "recorder" in names else None,
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ran() -> dict[str, dict]:
    """What each built-in case did, and more of their groups; ``blind`` in front of those where no GPU is seen."""
    built_in = list(built_in_cases().values())
    cases = [(one, False) for one in (*built_in, empty(7), graph(3), launches(3), launches(1))]
    cases += [(replace(one, name=f"blind {one.name}"), True) for one in built_in if {*one.needs} & {"torch", "cupy"}]
    texts = [{"is_blind": is_blind, **{part: getattr(one, part) for part in ("name", "statement", "setup", "before",
                                                                             "after")}} for one, is_blind in cases]
    done = subprocess.run([sys.executable, "-c", RUN], input=json.dumps(texts), capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [name for name, one in built_in_cases().items()
                                  if one.group not in ("capture", "graph")])
def test_every_launch_is_a_launch(ran: dict[str, dict], name: str) -> None:
    assert ran[name]["launches"] == 3
    assert not ran[name]["captured_launches"] and not ran[name]["graph_launches"]


def test_graphs_and_captures(ran: dict[str, dict]) -> None:
    assert ran["capturing stream"]["captured_launches"] == 3 and ran["capturing stream"]["launches"] == 0
    assert ran["20 launches"]["launches"] == 60
    for kernels, name in ((1, "graph of 1 kernel"), (20, "graph of 20 kernels")):
        counted = ran[name]
        assert (counted["launches"], counted["graph_launches"], counted["graph_kernels"]) == (0, 3, 3 * kernels)


def test_what_makes_a_case_is_there(ran: dict[str, dict]) -> None:
    assert ran["1 pre-launch callback"]["callbacks"] == 1 and ran["4 pre-launch callbacks"]["callbacks"] == 4
    assert {one["callbacks"] for name, one in ran.items() if "callback" not in name and "blind" not in name} == {0}
    assert ran["launch-config sensitive"]["sensitive"]
    assert not any(one.get("sensitive") for name, one in ran.items() if name != "launch-config sensitive")
    for detail in DETAILS:  # 100 before the timed ones, and four here
        assert ran[f"4 args + recorder ({detail})"]["recorded"] == 104
    assert any(name.startswith("cuMemcpy") for name in ran["4 host arrays"]["calls"])
    assert not any(name.startswith("cuMemcpy") for name in ran["4 args"]["calls"])


def test_cases_that_cannot_be_had_say_why(ran: dict[str, dict]) -> None:
    assert ran["blind 4 torch tensors"] == {"unavailable": "torch is there, and sees no GPU"}
    assert ran["blind 4 cupy arrays"] == {
        "unavailable": "cupy is there, and cannot make an array: RuntimeError: cudaErrorNoDevice"}


def test_more_of_a_group_is_made_on_request(ran: dict[str, dict]) -> None:
    names = [one.name for one in (empty(7), graph(3), launches(3), launches(1))]
    assert [ran[name]["launches"] for name in names] == [3, 0, 9, 3]
    assert [ran[name]["graph_kernels"] for name in names] == [0, 9, 0, 0]
    for make in (graph, launches):
        with pytest.raises(ValueError, match="a graph of 0 kernels: it needs at least 1"):
            make(0)
    with pytest.raises(ValueError, match="the detail 'swift' is not one of launch, phases"):
        recorded("swift")
    one, none = (recorded("launch", count) for count in (1, 0))
    assert (one.name, one.against, none.against) == (
        "1 arg + recorder (launch)", "1 arg + no recorder", "0 args + no recorder")


def test_the_catalogue_is_whole() -> None:
    known = built_in_cases()
    assert all(name == one.name and not one.is_live for name, one in known.items())
    assert set(groups()) == {"empty", "arguments", "many", "signature", "configure", "stream", "callbacks", "capture",
                             "launch-config", "graph", "recording"}
    for one in known.values():
        assert one.against is None or one.against in known
        assert one.against != one.name
        for text in (one.statement, one.setup, one.before, one.after):
            compile(text, one.name, "exec")
    assert [known[name].args for name in ("0 args", "1 arg", "4 args", "26 args")] == [0, 1, 4, 26]
    assert known["4 args"].statement == "held(a0, a1, a2, a3)"


@pytest.mark.parametrize(("args", "numbers"), [
    ("0-4", [0, 1, 2, 3, 4]), ("0,2,4", [0, 2, 4]), (" 3 , 0 - 1 , 3,", [3, 0, 1]), (2, [2]), (range(2), [0, 1]),
    ([4, 4], [4]), (None, []), ("64", [64]),
])
def test_numbers_of_arguments(args: object, numbers: list[int]) -> None:
    assert parse_args(args) == numbers


@pytest.mark.parametrize(("args", "said"), [
    ("0-x", "'0-x' is no number and no range such as 0-4"),
    ("4-0", "'4-0' goes backwards; write 0-4"),
    ("0-999999999", "a kernel with 65 arguments: a study makes kernels with 0 to 64"),
    ([-1], "a kernel with -1 arguments"),
    ("-1", "'-1' is no number"),
])
def test_numbers_of_arguments_that_are_none(args: object, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        parse_args(args)


def test_selection() -> None:
    def names(*args: object, **options: object) -> list[str]:
        return [one.name for one in select(*args, **options)]

    assert names() == ["0 args", "1 arg", "2 args", "3 args", "4 args"]
    assert names("0,2") == ["0 args", "2 args"]
    assert names(None, "stream") == ["4 args", "explicit stream"]
    assert names(None, "capture") == ["explicit stream", "capturing stream"]
    assert names(None, ["capture"], references=False) == ["capturing stream"]
    assert names("0", ["26 args", "0 args"]) == ["0 args", "4 args", "26 args"]
    assert names(None, "1 args, 7 args") == ["1 arg", "7 args"]
    assert names(None, "2 args + recorder (phases)") == [
        "2 args + no recorder", "2 args + recorder (phases)"]
    assert names(None, "graph of 50 kernels") == ["50 launches", "graph of 50 kernels"]
    assert names(None, "graph")[-2:] == ["20 launches", "graph of 20 kernels"]
    assert [one.against for one in select(None, "capture")] == [None, "explicit stream"]
    assert set(names(None, "all")) == set(built_in_cases())
    assert len(names("0-4", "all")) == len(built_in_cases())


def test_selection_of_one_s_own() -> None:
    mine = case("held(a0)", setup="...", name="mine", against="4 args")
    other = case("x = 1", against="mine")
    assert [one.name for one in select(None, [other, mine])] == ["mine", "x = 1", "4 args"]
    assert [one.name for one in select(None, mine)] == ["4 args", "mine"]
    assert [one.name for one in select(None, [mine, other])] == ["4 args", "mine", "x = 1"]
    assert [one.is_live for one in select(None, [lambda: None])] == [True]


@pytest.mark.parametrize(("names", "said"), [
    (["explicit steam"], r"no case and no group 'explicit steam'; groups are .*; did you mean 'explicit stream'.*\?$"),
    ("nothing at all like it", r"there is no case and no group 'nothing at all like it'; groups are empty, arguments"),
    ([Case("a", "x"), Case("a", "y")], "two different cases are called 'a'"),
    ([Case("4 args", "x")], None),
    ([Case("a", "x", against="b")], "case 'a' is to be compared with 'b', which is no case of the study"),
    ("65 args", "a kernel with 65 arguments"),
])
def test_selections_that_are_none(names: object, said: str | None) -> None:
    if said is None:
        assert [one.statement for one in select(None, names)] == ["x"]
        return
    with pytest.raises(StudyError, match=said):
        select(None, names)


def test_a_case_as_text() -> None:
    one = case("held(a0)", "    import math\n    held = math.sqrt\n", args=1, most_loops=5, needs="math",
               before="a0 = 4")
    assert one == Case("held(a0)", "held(a0)", "import math\nheld = math.sqrt", 1, most_loops=5, needs=("math",),
                       before="a0 = 4")
    assert not one.is_live
    assert case("x = 1\ny = 2").name == "x = 1 y = 2"
    assert case("f(" + "1, " * 40 + ")").name == "f(" + "1, " * 19 + "…"


def test_a_case_as_a_callable(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel() -> None:
        ...

    assert case(kernel).name == "kernel" and case(kernel).function is kernel and case(kernel).is_live
    assert case(lambda: kernel()).name == "kernel()"
    assert case(lambda: [kernel(), max(1,
                                       2)][0]).name == "[kernel(), max(1, 2)][0]"
    assert case(lambda: "é".join("ü")).name == '"é".join("ü")'
    assert case(lambda: 1, name="one").name == "one"
    monkeypatch.setitem(linecache.cache, "<string>", (9, None, ["import sys;exec(x)\n"], "<string>"))
    assert case(eval("lambda: kernel()")).name == "lambda at line 1"
    assert case(KernelLike()).name == "KernelLike"


class KernelLike:
    def __call__(self) -> None:
        ...


@pytest.mark.parametrize(("arguments", "said"), [
    ({"what": "f("}, r"the statement of case 'f\(' is no Python in line 1: '\(' was never closed"),
    ({"what": "x", "setup": "a\nb c", "name": "my"}, "the setup of case 'my' is no Python in line 2: invalid syntax"),
    ({"what": "break"}, "the statement of case 'break' is no Python in line 1: 'break' outside loop"),
    ({"what": "return"}, "'return' outside function"),
    ({"what": " \n"}, "its statement is empty"),
    ({"what": "x\0"}, "is no Python: .*null"),
    ({"what": "x", "most_loops": 0}, "most_loops=0 is no number of loops from 1"),
    ({"what": print, "setup": "x"}, "a case that is a callable has no setup: do it before"),
])
def test_cases_that_are_none(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        case(**arguments)
