"""``kernelscope study``: what a launch costs the host, in several versions; what the magic shares with it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelscope.analysis.units import counted
from kernelscope.cli_study_parser import FAILED, INTERRUPTED, OVER
from kernelscope.errors import StudyArgumentError, StudyError, StudyFileError
from kernelscope.renderers.files import checked

# What the parser calls an option, and the functions of `kernelscope.studies` a parameter.
_PARAMETERS = {"args": "args", "loops": "loops", "repeats": "repeats", "processes": "processes", "limit": "limit_s",
               "timeout": "timeout_s", "seed": "seed", "repo": "repo", "find_links": "find_links", "case": "case",
               "keyword": "keyword", "max_time": "max_time_s"}


def main(arguments: argparse.Namespace) -> int:
    """Measure, read or compare; print and write what was asked for; return the exit code.

    What is wrong in the line itself ends as argparse ends it, whether the parser sees it or the study.
    """
    with _ending_as_interrupted():
        try:
            return _main(arguments)
        except StudyArgumentError as error:
            return arguments.parser.error(str(error))


def _main(arguments: argparse.Namespace) -> int:
    told = told_only(arguments)
    if told is not None:
        print(told)
        return 0
    check_outputs(arguments)
    code = 0
    try:
        result = run(arguments)
    except KeyboardInterrupt as stopped:
        result = partial_result(stopped)
        if result is None:
            raise
        code = INTERRUPTED
    try:
        notes = write(result, arguments)
    except StudyError:
        # Minutes of measuring: what cannot be written is shown at least.
        print(result)
        raise
    print(result.to_json() if getattr(arguments, "json", False) else result, flush=True)
    if not getattr(arguments, "quiet", False):
        for note in notes:
            print(note, file=sys.stderr)
    if code == INTERRUPTED:
        print("kernelscope: interrupted; what was measured until then is shown", file=sys.stderr)
        return code
    return max(_limit(result, arguments), FAILED if failed_targets(result) and arguments.study != "show" else 0)


def run(arguments: argparse.Namespace) -> Any:
    """Return what was asked for: a `StudyResult`, a `Comparison` of two, or an `AnatomyResult`.

    Raises
    ------
    StudyError
        It cannot be had.
    KeyboardInterrupt
        It was interrupted; `partial_result` has what was measured until then.
    """
    return _RUN[arguments.study](arguments)


def told_only(arguments: argparse.Namespace) -> str | None:
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
    taken: dict[Path, str] = {Path(each).resolve(): each for each in _inputs(arguments)}
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
        if target.resolve() in taken:
            raise StudyFileError(f"{path} would replace {taken[target.resolve()]}: name another file")
        taken[target.resolve()] = path


def write(result: Any, arguments: argparse.Namespace) -> list[str]:
    """Write the files that were asked for, and return a line about each."""
    notes: list[str] = []
    if getattr(arguments, "output", None):
        notes.append(f"wrote {result.save(arguments.output)}")
    if arguments.html:
        notes.append(f"wrote {result.to_html(arguments.html)}")
    return notes


def partial_result(stopped: BaseException) -> Any:
    """Return what an interrupted study measured until then; None if nothing."""
    return getattr(stopped, "result", None)


def limit_check(result: Any, arguments: argparse.Namespace) -> Any:
    """Return what the limit of ``--fail-over`` came to, a `LimitCheck`; None where none was asked for."""
    limit = getattr(arguments, "fail_over", None)
    if limit is None:
        return None
    if not hasattr(result, "check"):
        raise StudyArgumentError("--fail-over is about a study's differences, and this is an anatomy")
    return result.check(limit)


def failed_targets(result: Any) -> list[str]:
    """Return the labels of the targets that did not finish."""
    measured = getattr(result, "measured", None)
    return [each.label for each in getattr(measured, "targets", ()) if each.error is not None]


def cases_text() -> str:
    """Return the built-in cases, by group, with what each is compared with."""
    from kernelscope import studies

    known = studies.catalogue()
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
    from kernelscope.studies import venvs

    folder = venvs.environments_folder()
    try:
        removed = venvs.forget()
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


def _limit(result: Any, arguments: argparse.Namespace) -> int:
    found = limit_check(result, arguments)
    if found is None:
        return 0
    print(found, file=sys.stderr)
    return OVER if found.failed else 0


def _inputs(arguments: argparse.Namespace) -> list[str]:
    named = [getattr(arguments, name, None) for name in ("file", "old", "new")]
    # LABEL=FILE.json, unless a file is called so.
    named += [each if Path(each).exists() else each.rpartition("=")[2] for each in getattr(arguments, "files", ())]
    return [each for each in named if each]


def _launch(arguments: argparse.Namespace) -> Any:
    from kernelscope import studies

    return studies.launch_overhead(_targets(arguments), arguments.cases, **options_of(arguments))


def _against(arguments: argparse.Namespace) -> Any:
    from kernelscope import studies

    if len(arguments.refs) < 2:
        arguments.parser.error(f"a comparison needs two refs or more, and there is {arguments.refs[0]!r} alone")
    return studies.against(*arguments.refs, cases=arguments.cases, **options_of(arguments))


def _show(arguments: argparse.Namespace) -> Any:
    from kernelscope import studies

    return studies.load(arguments.file)


def _compare(arguments: argparse.Namespace) -> Any:
    from kernelscope import studies

    return studies.compare(arguments.old, arguments.new)


def _anatomy(arguments: argparse.Namespace) -> Any:
    from kernelscope import studies

    return studies.anatomy(_targets(arguments), **options_of(arguments))


def _suite(arguments: argparse.Namespace) -> Any:
    from kernelscope import studies

    if not arguments.files:
        return studies.suite(_targets(arguments), **options_of(arguments))
    if arguments.targets:
        arguments.parser.error("files are compared, or targets are run: name --target or files, not both")
    return studies.read_benchmarks(arguments.files)


def _targets(arguments: argparse.Namespace) -> tuple[str, ...]:
    return tuple(arguments.targets or ("current",))


_RUN: Mapping[str, Callable[[argparse.Namespace], Any]] = {
    "launch": _launch, "against": _against, "show": _show, "compare": _compare, "anatomy": _anatomy, "suite": _suite}
