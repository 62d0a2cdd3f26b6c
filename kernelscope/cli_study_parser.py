"""What ``kernelscope study`` and ``%kernelscope study`` accept: one parser for both.

It imports nothing of the studies: ``kernelscope --help`` needs none of them.
"""

from __future__ import annotations

import argparse
import math
import re

#: Exit codes beside 0: an error, wrong arguments, over the limit of ``--fail-over``, interrupted.
FAILED, WRONG, OVER, INTERRUPTED = 1, 2, 3, 130

#: What there is to do; the first is meant where the magic names none.
VERBS = ("launch", "against", "show", "compare", "anatomy", "suite", "clean")

STUDY = """\
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
else in the user's cache; one that no study used for 30 days goes by itself."""


def fill(parser: argparse.ArgumentParser, *, in_notebook: bool = False) -> None:
    """Add what there is to do, and the options of each.

    Parameters
    ----------
    parser : ArgumentParser
        The parser of ``study``; those of its verbs are of its class.
    in_notebook : bool
        Whether it is the magic's.
    """
    parser.description, parser.formatter_class = STUDY, argparse.RawDescriptionHelpFormatter
    verbs = parser.add_subparsers(dest="study", metavar="WHAT", required=True)

    def add(name: str, summary: str, about: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=summary, description=about, formatter_class=parser.formatter_class)
        added.set_defaults(parser=added)
        return added

    launch = add("launch", "host time of a launch, by target and case", _LAUNCH + "\n" + _FAIL_OVER)
    _targets(launch)
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
    _targets(anatomy)
    anatomy.add_argument("--case", metavar="NAME", action="append", help="which launch; once for each")
    anatomy.add_argument("--loops", metavar="N", type=_count,
                         help="launches a batch (default: as many as take some milliseconds)")
    _counts(anatomy)
    _machine(anatomy)
    suite = add("suite", "numba-cuda's own benchmarks, or results of pytest-benchmark", _SUITE)
    suite.add_argument("files", metavar="[LABEL=]FILE.json", nargs="*", help="saved results, instead of --target")
    _targets(suite)
    suite.add_argument("-k", "--keyword", metavar="EXPRESSION", help="which benchmarks, as pytest's -k takes it")
    suite.add_argument("--processes", metavar="N", type=_count, help="how many times each target runs them")
    suite.add_argument("--max-time", metavar="SECONDS", type=_seconds, help="for each benchmark in a run")
    suite.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="how long one run may take")
    _machine(suite)
    add("clean", "remove the environments that studies keep", _CLEAN)
    for each in (launch, against, show, compare, suite):
        each.add_argument("--fail-over", metavar="P%", type=_percent, help="exit code 3 for a slowdown above this")
    for each in (launch, against, anatomy, suite):
        each.add_argument("-o", "--output", metavar="FILE.json", help="save everything that was measured")
    for each in (launch, against, show, compare, anatomy, suite):
        each.add_argument("--html", metavar="FILE.html", help="write a page with the figures, which needs no network")
        if in_notebook:
            # The card has a picture of its own, and not 2 MB of plotly.js in it.
            if each is not compare:
                each.add_argument("--charts", action="store_true", help="show the figures under the card")
        else:
            each.add_argument("--json", action="store_true", help="print JSON instead of the table")
    for each in (launch, against, anatomy, suite):
        each.add_argument("-q", "--quiet", action="store_true", help="show no progress and no notes")


def _targets(parser: argparse.ArgumentParser) -> None:
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


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    value = _number(text.removesuffix("s").strip())
    if value is None or value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _percent(text: str) -> float:
    value = _number(text.strip().removesuffix("%").strip())
    if value is None or not 0 <= value < 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage, such as 3%")
    return value


def _loops(text: str) -> str:
    if not re.fullmatch(r"\s*[0-9_]+\s*(,\s*([0-9_]+|\.\.\.)\s*)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} are no numbers of loops, such as 10000 or 100000,...,10000")
    return text


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
