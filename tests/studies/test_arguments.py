"""What the public functions of studies are given wrongly is refused with the value, and with what is expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from handmade_anatomies import anatomy as handmade_anatomy
from handmade_studies import measured

from kernelscope import studies
from kernelscope.errors import StudyArgumentError, StudyError, StudyFileError
from kernelscope.studies import overhead
from kernelscope.studies import target as arguments
from kernelscope.studies.breakdown import AnatomyResult
from kernelscope.studies.result import StudyResult
from kernelscope.studies.target import Target, parse_targets

#: What every function that measures takes, with values that it does not.
SHARED: list[tuple[str, Any]] = [
    ("progress", 3), ("progress", True), ("progress", "no"), ("processes", "8"), ("processes", 2.0),
    ("processes", True), ("processes", 0), ("processes", 10_001), ("timeout_s", None),
    ("timeout_s", "1"), ("timeout_s", 0), ("timeout_s", float("nan")),
    ("install", "no"),
    ("no_index", None), ("pin", 1), ("dry_run", "yes"), ("repo", None), ("repo", 3), ("find_links", 3),
    ("find_links", [None]), ("find_links", None), ("find_links", b"here"),
]


ANATOMY = AnatomyResult(handmade_anatomy({"base": {"dispatch": 1.0}}))


@pytest.fixture(autouse=True)
def _nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was made for arguments that are wrong")

    monkeypatch.setattr(overhead, "prepare", refuse)
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)


@pytest.mark.parametrize(("name", "value"), SHARED, ids=str)
@pytest.mark.parametrize("function", [
    studies.launch_overhead, studies.anatomy, studies.suite, lambda **given: studies.against("HEAD~", "HEAD", **given),
], ids=["launch_overhead", "anatomy", "suite", "against"])
def test_what_all_functions_take(function: Callable[..., Any], name: str, value: Any) -> None:
    shown = re.escape(repr(None if value == [None] else value))
    with pytest.raises(StudyArgumentError, match=f"^{name}={shown} is (no |neither )"):
        function(**{name: value})


@pytest.mark.parametrize(("call", "said"), [
    (lambda: studies.launch_overhead(None), "targets=None is no target and no list of targets; one must be current"),
    (lambda: studies.launch_overhead(3), "targets=3 is no target"),
    (lambda: studies.launch_overhead([None]), "target None is no text: it must be current"),
    (lambda: studies.launch_overhead({"a": 3}), "targets: 'a': 3 is no label with a target's text"),
    (lambda: studies.launch_overhead({"a": Target("b")}), "is no label with a target's text"),
    (lambda: studies.launch_overhead({3: "current"}), "targets: 3: 'current' is no label"),
    (lambda: studies.launch_overhead(cases=3), "cases=3 are no names and no cases"),
    (lambda: studies.launch_overhead(cases=[3]), "3 is no case: name one"),
    (lambda: studies.launch_overhead(args=1.5), "1.5 is no number of arguments"),
    (lambda: studies.launch_overhead(loops={}), "loops={} are 0 numbers for 5 cases"),
    (lambda: studies.launch_overhead(loops=1.5), "loops=1.5: give one number"),
    (lambda: studies.launch_overhead(repeats="3"), "repeats='3' is no number from 1 to 10,000"),
    (lambda: studies.launch_overhead(half_width="1%"), "half_width='1%' is no share of a launch"),
    (lambda: studies.launch_overhead(half_width=0), "half_width=0 is no share"),
    (lambda: studies.launch_overhead(half_width=3), "half_width=3 is no share"),
    (lambda: studies.launch_overhead(limit_s=-1), "limit_s=-1 is no number of seconds"),
    (lambda: studies.launch_overhead(repeats=float("nan")), "repeats=nan is no number"),
    (lambda: studies.launch_overhead(args=True), "True is no number of arguments"),
    (lambda: studies.launch_overhead(args=[]), "no case is named"),
    (lambda: studies.launch_overhead("git:HE\0AD"), "has a zero in it"),
    (lambda: studies.launch_overhead("/a" * 4000), "is too long"),
    (lambda: studies.launch_overhead(limit_s="90"), "limit_s='90' is no number of seconds above 0"),
    (lambda: studies.launch_overhead(seed="x"), "seed='x' is no whole number"),
    (lambda: studies.anatomy(None), "targets=None is no target"),
    (lambda: studies.anatomy(case=3), "cases=3 are no names"),
    (lambda: studies.anatomy(loops="1000"), "loops='1000' is no number of launches in a batch"),
    (lambda: studies.anatomy(seed=1.5), "seed=1.5 is no whole number"),
    (lambda: studies.anatomy(loops=0), "loops=0 is no number"),
    (lambda: studies.anatomy(case=studies.Case("mine", function=print)), "which an anatomy cannot measure"),
    (lambda: studies.anatomy(case="nothing of that name"), "there is no case and no group 'nothing of that name'"),
    (lambda: studies.calibrate(seconds=0), "seconds=0"),
    (lambda: studies.calibrate(seconds="5"), "seconds='5'"),
    (lambda: studies.calibrate(pin=1), "pin=1"),
    (lambda: studies.calibrate(dry_run="no"), "dry_run='no'"),
    (lambda: studies.calibrate(seed=0.5), "seed=0.5"),
    (lambda: studies.suite(None), "targets=None is no target"),
    (lambda: studies.suite(keyword=3), "keyword=3 is no text"),
    (lambda: studies.suite(max_time_s="1"), "max_time_s='1' is no number of seconds above 0"),
    (lambda: studies.read_benchmarks(3), "files=3 is no path and no list of paths"),
    (lambda: studies.read_benchmarks({"a": 3}), "files['a']=3 is no path"),
    (lambda: studies.read_benchmarks([3]), "files=3 is no path"),
    (lambda: studies.suite(max_time_s=0), "max_time_s=0 is no number of seconds above 0"),
    (lambda: studies.suite(["a=current", "a=current"]), "two targets are called 'a'"),
    (lambda: studies.against(), "needs two git refs or more"),
    (lambda: studies.against("HEAD"), "needs two git refs or more"),
    (lambda: studies.against("HEAD", 3), "3 is no git ref"),
    (lambda: studies.against("HEAD", ""), "'' is no git ref"),
    (lambda: studies.against("HEAD", "--force"), "'--force' is no git ref"),
    (lambda: studies.case(3), "what=3 is no source text"),
    (lambda: studies.case("k()", 3), "setup=3 is no source text"),
    (lambda: studies.case("k()", name=3), "name=3 is no name of a case"),
    (lambda: studies.case("k()", args="4"), "args='4' is no number of arguments"),
    (lambda: studies.case("k()", args=-1), "args=-1 is no number of arguments"),
    (lambda: studies.case("k()", against=3), "against=3 is no name of a case"),
    (lambda: studies.case("k()", before=None), "before=None is no source text"),
    (lambda: studies.case("k()", most_loops="9"), "most_loops='9' is no number of loops from 1"),
    (lambda: studies.case("k()", needs=3), "needs=3 is no"),
    (lambda: studies.select(names=3), "cases=3 are no names"),
    (lambda: studies.load(3), "path=3 is no path"),
    (lambda: studies.load(None), "path=None is no path"),
    (lambda: studies.compare(3, 4), "old=3 is no study"),
    (lambda: studies.compare(StudyResult(measured()), None), "new=None is no study"),
    (lambda: studies.compare(ANATOMY, "new.json"), "is no study (of launch_overhead"),
    (lambda: studies.parse_target(3), "target 3 is no text: it must be current"),
    (lambda: studies.parse_target("git:HEAD", None), "repo=None is no path of a repository"),
    (lambda: parse_targets(None), "targets=None is no target and no list"),
    (lambda: parse_targets([3]), "target 3 is no text"),
    (lambda: StudyResult(measured()).check(None), "None is no share of the baseline"),
    (lambda: StudyResult(measured()).check([3]), "[3] is no share of the baseline"),
    (lambda: StudyResult(measured()).plot(["drift"]), "no figure ['drift'] of a study; known: intervals"),
    (lambda: StudyResult(measured()).plot(cases=3), "cases=3 are no names"),
    (lambda: StudyResult(measured()).plot("drift", cases=[[]]), "no case [] was measured"),
    (lambda: ANATOMY.plot(["x"]), "no figure ['x'] of an anatomy"),
])
def test_each_function_says_the_value_and_what_is_expected(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(StudyError, match=re.escape(said)) as raised:
        call()
    assert "\n" not in str(raised.value) and not isinstance(raised.value, StudyFileError)


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    with pytest.raises(StudyArgumentError, match=r"^progress=a Broken is no function"):
        studies.launch_overhead(progress=Broken())  # type: ignore[arg-type]
    assert len(arguments.shown("x" * 5000)) < 200


def test_one_target_need_not_be_in_a_list() -> None:
    assert [each.label for each in parse_targets("current")] == ["current"]
    assert parse_targets(Target("here")) == (Target("here"),)
