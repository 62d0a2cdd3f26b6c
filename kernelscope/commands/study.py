"""``study``: launch-overhead studies, with the same options on the command line and in notebooks."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from kernelscope.commands import output
from kernelscope.commands.verb import Verb, add_json, decimal, number
from kernelscope.errors import StudyArgumentError, StudyError, StudyFileError
from kernelscope.units import counted
from kernelscope.views.answer import Answer, Many, answer, written
from kernelscope.views.base import checked

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession

# Options of both. Nothing of the studies is imported: ``--help`` needs none of them.

#: Exit codes beside 0: an error, wrong arguments, over the limit of ``--fail-over``, interrupted.
FAILED, WRONG, OVER, INTERRUPTED = 1, 2, 3, 130

_ABOUT = """\
How many microseconds does a launch cost on the host, and does it differ between versions of numba-cuda?

Each target is measured in fresh processes, in turn with the others. Differences come with intervals that hold for all
of them together, and with a verdict: faster, slower, no difference seen, too noisy.

Exit codes: 0 done; 1 an error, or a target that failed (what the others measured is kept); 2 wrong arguments; 3 a
slowdown over the limit of --fail-over; 130 interrupted (what was measured is printed and saved)."""

_LAUNCH = """\
Measure what a launch costs the host, in each of several targets; the first is the baseline. Without --target it is this
environment alone.

TARGET is LABEL=SPEC or SPEC, and SPEC one of:
  current             this environment
  FOLDER              the source of numba-cuda or numba-cuda-mlir, or a virtual environment
  git:REF             a git ref of the repository --repo; git:FOLDER@REF of another one
  numba-cuda==0.29.0  a requirement as pip takes it, of numba-cuda or numba-cuda-mlir
  PYTHON              an interpreter

The table goes to stdout, progress and notes to stderr."""

_AGAINST = """\
Measure git refs of one repository against each other; the first is the baseline:
  kernelscope study against HEAD~ HEAD --repo ../numba-cuda"""

_FAIL_OVER = """\

--fail-over P ends with exit code 3 where a slowdown is established and its best estimate is above P percent. Where the
study cannot tell, it says so and ends with 0: a busy machine fails nothing."""

_SHOW = "Show a study, or an anatomy, that was saved with -o."

_COMPARE = """\
Compare two saved studies, target by target and case by case, such as yesterday's with today's. Studies of different
machines, GPUs or versions differ for more reasons than one: what differs is said."""

_ANATOMY = """\
Split one launch into its parts (configure, dispatch, each argument's preparation, the configuration object, submit,
finish), with the time of each, and say where a target spends more than the baseline. TARGET is as for study launch."""

_SUITE = """\
Run numba-cuda's own benchmarks of launches (pytest-benchmark) in each target and compare them; or compare results that
pytest-benchmark saved, LABEL=FILE.json: several files of one label are several runs, the first label is the
baseline."""


_CLEAN = """\
Remove the virtual environments that studies made of requirements with their version, such as numba-cuda==0.29.0, and
keep for the next study. Those in use now stay. They lie in the folder that KERNELSCOPE_STUDY_ENVIRONMENTS names, or
else in the user's cache; one that no study used for 30 days is removed automatically."""


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    """Add what there is to do, and the options of each; parsers of verbs are of the parser's class."""
    parser.description, parser.formatter_class = _ABOUT, argparse.RawDescriptionHelpFormatter
    verbs = parser.add_subparsers(dest="study", metavar="WHAT", required=True)

    def add(name: str, summary: str, about: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=summary, description=about, formatter_class=parser.formatter_class)
        added.set_defaults(parser=added)
        return added

    launch = add("launch", "host time of a launch, by target and case", _LAUNCH + "\n" + _FAIL_OVER)
    _parse_targets(launch)
    _measuring(launch)
    launch.add_argument("--list-cases", action="store_true", help="list the cases that there are, and do nothing else")
    against = add("against", "the same of git refs", _AGAINST + "\n" + _FAIL_OVER)
    against.add_argument("refs", metavar="REF", nargs="+", help="two or more")
    _repo(against)
    _environments(against)
    _measuring(against)
    show = add("show", "show a saved study", _SHOW)
    show.add_argument("file", metavar="FILE.json")
    compare = add("compare", "compare two saved studies", _COMPARE)
    compare.add_argument("old", metavar="OLD.json")
    compare.add_argument("new", metavar="NEW.json")
    anatomy = add("anatomy", "the parts of a launch, and where a target spends more", _ANATOMY)
    _parse_targets(anatomy)
    anatomy.add_argument("--case", metavar="NAME", action="append", help="which launch; once for each")
    anatomy.add_argument("--loops", metavar="N", type=_count,
                         help="launches a batch (default: as many as take some milliseconds)")
    _counts(anatomy)
    _machine(anatomy)
    suite = add("suite", "numba-cuda's own benchmarks, or results of pytest-benchmark", _SUITE)
    suite.add_argument("files", metavar="[LABEL=]FILE.json", nargs="*", help="saved results, instead of --target")
    _parse_targets(suite)
    suite.add_argument("-k", "--keyword", metavar="EXPRESSION", help="which benchmarks, as pytest's -k takes it")
    suite.add_argument("--processes", metavar="N", type=_count, help="how many times each target runs them")
    suite.add_argument("--max-time", metavar="SECONDS", type=_seconds, help="for each benchmark in a run")
    suite.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="how long one run may take")
    _machine(suite)
    clean = add("clean", "remove the environments that studies keep", _CLEAN)
    if not in_notebook:
        add_json(clean)
    for each in (launch, against, show, compare, suite):
        each.add_argument("--fail-over", metavar="P%", type=_percent, help="exit code 3 for a slowdown above this")
    for each in (launch, against, anatomy, suite):
        each.add_argument("-o", "--output", metavar="FILE.json", help="save everything that was measured")
    for each in (launch, against, show, compare, anatomy, suite):
        each.add_argument("--html", metavar="FILE.html", help="write a page with the figures, which needs no network")
        if in_notebook:
            # The card has a static figure instead of 2 MB of plotly.js.
            if each is not compare:
                each.add_argument("--charts", action="store_true", help="show the figures under the card")
        else:
            # --limit is a time for what measures.
            add_json(each, rows=False)
            rows = "--rows" if each in (launch, against, anatomy) else "--limit"
            each.add_argument(rows, metavar="ROWS", dest="rows", type=number("a number of rows", 0),
                              help="how many rows each list of --json has; 0 for all (default: as many as fit)")
    for each in (launch, against, anatomy, suite):
        each.add_argument("-q", "--quiet", action="store_true", help="show no progress and no notes")


def _parse_targets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-t", "--target", metavar="TARGET", action="append", dest="targets",
                        help="what to measure, the baseline first; once for each")
    _repo(parser)
    _environments(parser)


def _repo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repo", metavar="FOLDER", help="the repository of git refs (default: this folder)")


def _environments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--find-links", metavar="FOLDER", action="append", help="where pip finds wheels; once for each")
    parser.add_argument("--no-index", action="store_true", help="pip uses those folders alone, and no network")
    parser.add_argument("--no-install", dest="install", action="store_false",
                        help="use the source of checkouts and git refs as it is, in this environment")


def _measuring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--args", metavar="N-M", help="numbers of arguments of the empty kernel, such as 0-4 or 0,2,8 "
                                                      "(default: 0-4, unless cases are named)")
    parser.add_argument("--case", metavar="NAME", action="append", dest="cases",
                        help="a case or a group of cases; once for each")
    parser.add_argument("--loops", metavar="N", type=_loops,
                        help="launches a batch: one number, one for each case, or FIRST,...,LAST "
                             "(default: as many as take 1 ms)")
    _counts(parser)
    parser.add_argument("--half-width", metavar="P%", type=_percent,
                        help="stop as soon as every interval is this narrow to both sides; 0: do not (default: 1.2%%)")
    _machine(parser)


def _counts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", metavar="N", type=_count, help="batches of each case in a process")
    parser.add_argument("--processes", metavar="N", type=_count, help="processes of each target, at most")
    parser.add_argument("--limit", metavar="SECONDS", type=_seconds, help="stop after this time of measuring")
    parser.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="how long a process may be silent")
    parser.add_argument("--seed", metavar="N", type=int, help="of the order of batches")


def _machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="let processes move between cores")
    parser.add_argument("--dryrun", action="store_true", help="without a GPU: the driver call is a stub")


_count = number("a whole number above 0")
_seconds = decimal("a number of seconds above 0", "s", lambda value: value > 0)
_percent = decimal("a percentage, such as 3%", "%", lambda value: 0 <= value < 1_000)


def _loops(text: str) -> str:
    if not re.fullmatch(r"\s*[0-9_]+\s*(,\s*([0-9_]+|\.\.\.)\s*)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} are no numbers of loops, such as 10000 or 100000,...,10000")
    return text


# ``kernelscope study``.

# What the parser calls an option, and the functions of `kernelscope.studies` a parameter.
_PARAMETERS = {"args": "args", "loops": "loops", "repeats": "repeats", "processes": "processes", "limit": "limit_s",
               "timeout": "timeout_s", "seed": "seed", "repo": "repo", "find_links": "find_links", "case": "case",
               "keyword": "keyword", "max_time": "max_time_s"}


def main(arguments: argparse.Namespace) -> int:
    """Measure, read or compare; print and write the result; return the exit code.

    What is wrong in the line itself ends as argparse ends it, whether the parser sees it or the study.
    """
    with _ending_as_interrupted():
        try:
            return _main(arguments)
        except StudyArgumentError as error:
            return arguments.parser.error(str(error))


def _main(arguments: argparse.Namespace) -> int:
    is_json, limit = bool(getattr(arguments, "json", False)), getattr(arguments, "rows", None)
    made = _text_only_answer(arguments, limit) if is_json else None
    if made is not None:
        output.print_answer(made)
        return 0
    printed = text_only(arguments)
    if printed is not None:
        print(printed)
        return 0
    check_outputs(arguments)
    result, is_partial = measured(arguments)
    try:
        files = write(result, arguments)
    except StudyError:
        # Minutes of measuring: what cannot be written is shown at least.
        print(result, file=sys.stderr if is_json else sys.stdout)
        raise
    check = None if is_partial else limit_check(result, arguments)
    if is_json:
        from kernelscope.studies.answer import study_answer

        output.print_answer(study_answer(result, limit, check=check, written=written(files)))
    else:
        print(result, flush=True)
    if not getattr(arguments, "quiet", False):
        for path in files:
            print(f"wrote {path}", file=sys.stderr)
    if is_partial:
        print("kernelscope: interrupted; what was measured until then is shown", file=sys.stderr)
        return INTERRUPTED
    if check is not None:
        if not is_json:
            print(check, file=sys.stderr)
        if check.failed:
            return OVER
    targets = getattr(getattr(result, "measured", None), "targets", ())
    return FAILED if arguments.study != "show" and any(each.error is not None for each in targets) else 0


def measured(arguments: argparse.Namespace) -> tuple[Any, bool]:
    """Return the result, a `StudyResult`, `Comparison` or `AnatomyResult`, and whether an interruption cut it short.

    Raises
    ------
    StudyError
        It cannot be had.
    KeyboardInterrupt
        It was interrupted before anything was measured.
    """
    try:
        return _result(arguments), False
    except KeyboardInterrupt as stopped:
        result = getattr(stopped, "result", None)
        if result is None:
            raise KeyboardInterrupt(str(stopped)) from None  # without our frames
        return result, True


def _result(arguments: argparse.Namespace) -> Any:
    from kernelscope import studies

    given, targets = options_of(arguments), tuple(getattr(arguments, "targets", None) or ("current",))
    match arguments.study:
        case "launch":
            return studies.launch_overhead(targets, arguments.cases, **given)
        case "against":
            if len(arguments.refs) < 2:
                arguments.parser.error(
                    f"a comparison needs two refs or more, and there is {arguments.refs[0]!r} alone")
            return studies.against(*arguments.refs, cases=arguments.cases, **given)
        case "show":
            return studies.load(arguments.file)
        case "compare":
            return studies.compare(arguments.old, arguments.new)
        case "anatomy":
            return studies.anatomy(targets, **given)
        case _:
            if not arguments.files:
                return studies.suite(targets, **given)
            if arguments.targets:
                arguments.parser.error("files are compared, or targets are run: name --target or files, not both")
            return studies.read_benchmarks(arguments.files)


def text_only(arguments: argparse.Namespace) -> str | None:
    """Return what is printed where there is nothing to measure and to show, having done it; None where there is.

    Raises
    ------
    StudyError
        It cannot be done.
    """
    if arguments.study == "clean":
        return cleaned_text()
    return cases_text() if getattr(arguments, "list_cases", False) else None


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that were given, by their names; what was not given has its default there."""
    given = vars(arguments)
    found = {name: given[option] for option, name in _PARAMETERS.items() if given.get(option) is not None}
    found |= {name: given[name] for name in ("install", "pin") if given.get(name) is False}
    if given.get("half_width") is not None:
        found["half_width"] = given["half_width"] / 100 or None
    if given.get("no_index"):
        found["no_index"] = True
    if given.get("dryrun"):
        found["dry_run"] = True
    if given.get("quiet"):
        found["progress"] = False
    return found


def check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse files that cannot be written, before minutes of measuring.

    Raises
    ------
    KernelScopeError
        A folder is missing or cannot be written to, or two outputs are one file, or an input.
    """
    named = [getattr(arguments, name, None) for name in ("file", "old", "new")]
    # LABEL=FILE.json, unless a file is called so.
    named += [each if Path(each).exists() else each.rpartition("=")[2] for each in getattr(arguments, "files", ())]
    inputs = [each for each in named if each]
    taken = {os.path.realpath(each): each for each in inputs}
    for option, suffix, other in (("output", ".json", ".html"), ("html", ".html", ".json")):
        path = getattr(arguments, option, None)
        if path is None:
            continue
        if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
            raise StudyFileError(f"cannot write {path}: it is no regular file; name a {suffix} file")
        target = checked(path)
        target = target if target.suffix else target.with_name(target.name + suffix)
        if target.is_dir():
            raise StudyFileError(f"cannot write {path}: a folder has that name")
        if target.suffix.lower() == other:
            raise StudyFileError(f"cannot write {path}: what goes there is {suffix[1:].upper()}; name a {suffix} file")
        if not os.access(target.parent, os.W_OK):
            raise StudyFileError(f"cannot write {path}: there is no permission to write into {target.parent}")
        real = os.path.realpath(target)
        if real in taken:
            raise StudyFileError(f"{path} would replace {taken[real]}: name another file")
        taken[real] = path


def write(result: Any, arguments: argparse.Namespace) -> list[Path]:
    """Write the requested files, and return where they are."""
    files: list[Path] = []
    if getattr(arguments, "output", None):
        files.append(result.save(arguments.output))
    if arguments.html:
        files.append(result.to_html(arguments.html))
    return files


def limit_check(result: Any, arguments: argparse.Namespace) -> Any:
    """Return the `LimitCheck` of ``--fail-over``; None without the option."""
    limit = getattr(arguments, "fail_over", None)
    if limit is None:
        return None
    if not hasattr(result, "check"):
        raise StudyArgumentError("--fail-over is about a study's differences, and this is an anatomy")
    return result.check(limit)


class CaseMembers(TypedDict):
    """A built-in case."""

    case: str
    group: str
    against: str | None


class StudyCasesAnswer(Answer):
    """What kernelscope study launch --list-cases says."""

    cases: Many[CaseMembers]


class StudyCleanAnswer(Answer):
    """What kernelscope study clean says."""

    lines: Many[str]


def _text_only_answer(arguments: argparse.Namespace, limit: int | None) -> dict[str, Any] | None:
    """Return the answer where there is nothing to measure and to show, having done it; None where there is."""
    if arguments.study == "clean":
        lines = cleaned_text().splitlines()
        return answer(StudyCleanAnswer, {"verdict": lines[-1], "lines": Many(lines[:-1])}, arguments.limit)
    if not getattr(arguments, "list_cases", False):
        return None
    from kernelscope import studies

    known = studies.built_in_cases()
    return answer(StudyCasesAnswer, {
        "verdict": f"{counted(len(known), 'built-in case')}.",
        "cases": Many([*known.items()], lambda each: {
            "case": each[0], "group": each[1].group, "against": each[1].against}, weight=10)}, limit)


def cases_text() -> str:
    """Return the built-in cases, by group, with what each is compared with."""
    from kernelscope import studies

    known = studies.built_in_cases()
    width = max(map(len, known), default=0)
    lines: list[str] = []
    for group in dict.fromkeys(each.group for each in known.values()):
        lines.append(f"{group}:")
        for name, each in known.items():
            if each.group == group:
                against = f"against {each.against}" if each.against else ""
                lines.append(f"  {name.ljust(width)}  {against}".rstrip())
    return "\n".join([*lines, "", "A group's name means all of its cases. --args makes others of the empty kernel."])


def cleaned_text() -> str:
    """Remove the environments that studies keep and none uses, and return a line on each, and where they were.

    Raises
    ------
    StudyError
        They cannot be removed.
    """
    from kernelscope.studies import environments

    folder = environments.environments_folder()
    try:
        removed = environments.remove_unused()
        left = sorted(each.name for each in folder.iterdir() if each.is_dir()
                      and not each.name.startswith(".")) if folder.is_dir() else []
    except OSError as problem:
        raise StudyError(f"environments cannot be removed from {str(folder)!r}: {problem.strerror}") from problem
    lines = [f"removed {each.name}" for each in removed if each.name not in left]
    lines += [f"kept {name}: a study uses it, or it cannot be removed" for name in left]
    return "\n".join([*lines, f"{counted(len(lines) - len(left), 'environment')} removed from {folder}"])


@contextmanager
def _ending_as_interrupted() -> Generator[None]:
    """Take what a CI job's end or a closed terminal sends as a Ctrl-C: worktrees and environments are removed."""
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    taken: list[signal.Signals] = []
    try:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
                    taken.append(number)
                    signal.signal(number, interrupt)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


# ``%kernelscope study``.

#: The variable that holds the newest result.
VARIABLE = "_kernelscope_study"


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    """Measure or read what the line asks for, and show it as an output of the running cell.

    The result, a `StudyResult`, `Comparison` or `AnatomyResult`, becomes the variable `VARIABLE`. What was measured
    before a Ctrl-C is shown as well. A name after ``--case`` may be a variable of the user's: a `Case`, or a callable.
    """
    printed = text_only(asked)
    if printed is not None:
        print(printed)
        return
    check_outputs(asked)
    for name in ("cases", "case"):
        setattr(asked, name, _cases(session.shell, getattr(asked, name, None)))
    result, is_partial = measured(asked)
    session.keep(result, VARIABLE)
    output.publish(session.shell, str(result), result._repr_html_, study=True)
    if getattr(asked, "charts", False):
        output.show_figures(session.shell, "figures", lambda: _figures(result), f"{VARIABLE}.figures() has them")
    check = None if is_partial else limit_check(result, asked)
    lines = [f"wrote {path}" for path in write(result, asked)]
    for line in [*lines, *(str(check).splitlines() if check is not None else [])]:
        print(f"kernelscope: {line}")
    if is_partial:
        # The notebook's next cells must not run as if the study were whole.
        raise KeyboardInterrupt(f"the study was interrupted; {VARIABLE} has what was measured") from None


def _figures(result: Any) -> str:
    from kernelscope.views.charts import figures_html

    return figures_html(result.figures())


def _cases(shell: Any, names: list[str] | None) -> list[Any] | None:
    """Return cases by name, replacing names of the user's variables by their values."""
    if names is None:
        return None
    from kernelscope.studies.cases import Case

    found: list[Any] = []
    for name in names:
        value = shell.user_ns.get(name) if name.isidentifier() else None
        found.append(value if isinstance(value, Case) or callable(value) else name)
    return found


VERBS = {"study": Verb(_arguments, main, _magic, about=_ABOUT, default="launch", runs_user_code=True)}
