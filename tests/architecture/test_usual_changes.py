"""The usual changes of docs/architecture.md, each made in a copy of the package: the files that it names are enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TOY, TOY_PROBE = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "how-to-write-a-probe.md").read_text(
    encoding="utf-8"), re.MULTILINE | re.DOTALL)[:2]


@dataclass(frozen=True)
class Change:
    """One addition.

    Attributes
    ----------
    row : str
        The first cell of its row in the page's table.
    most : int
        How many files of the package it may touch.
    edits : tuple
        File, text that it has once, and what takes its place; a new file has no text to replace.
    seen : str
        Code that fails where a user would not see it; see `SEEN`.
    generated : tuple
        Files that a command writes: ``python -m kernelscope.native.record``.
    """

    row: str
    most: int
    edits: tuple[tuple[str, str, str], ...]
    seen: str
    generated: tuple[str, ...] = field(default=())

    @property
    def files(self) -> set[str]:
        """The files that it touches, beside those in ``kernelscope/`` by their names there."""
        return {file for file, _, _ in self.edits} | set(self.generated)


# Comes before what looks: everything was recorded by `PLAY`, and nothing here needs numba or cuda.
SEEN = """
import contextlib, inspect, io, sys
from pathlib import Path
import kernelscope
from kernelscope.commands import cli
from kernelscope.schema import TABLES

assert kernelscope.__file__.startswith(sys.argv[1]), kernelscope.__file__
recording = kernelscope.load("play.kscope")

def said(*words):
    "What the command line prints."
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
        cli.main(words)
    return " ".join(out.getvalue().split())
"""
PLAY = """
import os
import toy
from numba import cuda
from kernelscope.commands import cli

@cuda.jit
def axpy(n):
    pass

axpy[4, 128](1)
axpy[4, 128](2)
toy.Kernel("played").run((4,), (128,))
assert cli.main(["recover", os.path.join("journals", *os.listdir("journals")), "-o", "recovered.kscope"]) == 0
"""

COLUMN = Change("a column of a table", 2, (
    ("schema/tables.py", '        text("signature", "The requested argument types."',
     '        word("caller", "The function of the framework that compiled it.", nullable=True),\n'
     '        text("signature", "The requested argument types."'),
    ("probes/numba_cuda/compile.py", '            row["_sig"] = sig\n',
     '            row["_sig"] = sig\n            row["caller"] = caller\n'),
), """
assert recording.compilations.caller.tolist() == ["_compile_for_args"]
assert kernelscope.load("recovered.kscope").compilations.caller.tolist() == ["_compile_for_args"]
assert TABLES["compilations"].column("caller").meaning == "The function of the framework that compiled it."
from kernelscope.recording.merge import merge
both = merge([recording, recording])
assert both.compilations.caller.tolist() == ["_compile_for_args"] * 2
assert "_compile_for_args" in (recording.to_csv("tables") / "compilations.csv").read_text()
""" + f"""
older = kernelscope.load({str(ROOT / "notebooks" / "recordings" / "quickstart.kscope")!r})
assert len(older.compilations) and older.compilations.caller.isna().all()
assert kernelscope.load(older.save("older.kscope")).rows("compilations") == older.rows("compilations")
""")
BOUNDARY = Change("a boundary of a launch", 5, (
    ("schema/launch_record.py", '    Field("submit_start_ns"',
     '    Field("checked_ns", "int64_t", "ns", "The kernel is asked whether it is launch-config sensitive."),\n'
     '    Field("submit_start_ns"'),
    ("schema/launch_record.py", "\nRECORD_VERSION = 2\n", "\nRECORD_VERSION = 3\n"),
    ("schema/__init__.py", "\nSCHEMA_VERSION = 7\n", "\nSCHEMA_VERSION = 8\n"),
    ("native/csrc/launch.c", "        state->slot->dispatch_end_ns = ks_clock(state);\n",
     "        state->slot->checked_ns = (state->slot->dispatch_end_ns = ks_clock(state));\n"),
), """
for name in ("play.kscope", "recovered.kscope"):
    launches = kernelscope.load(name).launches
    assert (launches.checked_ns[:2] == launches.dispatch_end_ns[:2]).all(), launches
    assert launches.checked_ns.isna().tolist() == [False, False, True], launches
from kernelscope.native.record import LAYOUT
from kernelscope.recording.merge import merge
assert "checked_ns" in dict(LAYOUT) and "checked_ns" in TABLES["launches"].names
clock = recording.metadata["clock"]
later = recording.metadata | {"clock": clock | {"wall_ns": clock["wall_ns"] + 10**12}}
both = merge([recording, kernelscope.Recording({name: recording.arrow(name) for name in TABLES}, later)]).launches
assert (both.checked_ns[3] - both.checked_ns[0], both.start_ns[3] - both.start_ns[0]) == (10**12, 10**12)
""", ("native/csrc/record.h",))
RULE = Change("a rule of advice", 1, (
    ("analysis/advice.py", '@rule("same_code",', '''\
@rule("any_kernel", "kernels", when="any kernel is launched", effect="none")
def _any_kernel(evidence: Evidence) -> Iterator[RuleResult]:
    for each in evidence.kernels:
        yield Finding(each.name, f"`{each.name}` was launched <{each.launches}> times.", 1e9 * each.launches)


@rule("same_code",'''),
), """
assert "First: `axpy` was launched <2> times." in said("show", "play.kscope")
assert '<span class="ks-arg">axpy</span> was launched &lt;2&gt; times.' in recording._repr_html_()
from kernelscope.analysis.advice import RULES
assert (RULES["any_kernel"].title, RULES["any_kernel"].effect) == ("kernels", "none")
""")
EXPORTER = Change("an exporter", 2, (
    ("views/exports.py", '    Exporter(\n        "csv",',
     '    Exporter("names", "kernelscope.views.names:to_names", ".names", "the kernels\' names", "any editor",\n'
     '             (".names",)),\n    Exporter(\n        "csv",'),
    ("views/names.py", "", '''\
from kernelscope.recording.redact import shareable
from kernelscope.views.base import checked, whole_file


def to_names(recording, path, *, paths=False, progress=None):
    target = checked(path)
    with whole_file(target) as file:
        file.write(" ".join(shareable(recording, paths=paths).column("dispatchers", "name")).encode())
    return target
'''),
), """
assert said("export", "play.kscope", "--to", "names") == "wrote play.names"
assert recording.to_names("b.names").read_text() == Path("play.names").read_text() == "axpy played"
assert "names the kernels' names (out.names)" in said("export", "--help")
assert "did you mean 'names'?" in said("export", "play.kscope", "--to", "nams")
assert "'x.names' is the name of a file in the format names" in said("export", "play.kscope", "--to", "csv", "-o",
                                                                     "x.names")
from kernelscope.views.exports import exporter_named_by, reference_table
assert exporter_named_by("c.names").name == "names"
assert "| `names` | any editor | the kernels' names | `out.names` |" in reference_table()
""")
OPTION = Change("an option of a recording", 2, (
    ("recorder/core_options.py", "\n    mode: str =", '''
    tempo: str = field(default="slow", metadata=option(
        "how fast to play it", flag("--tempo"), choices=("slow", "fast")))
    mode: str ='''),
    ("recorder/session.py", '        "detail": session.sink.detail,\n',
     '        "detail": session.sink.detail,\n        "tempo": session.options.tempo,\n'),
), """
from IPython.core.interactiveshell import InteractiveShell

assert recording.metadata["tempo"] == "fast"
for function in (kernelscope.record, kernelscope.Recorder, kernelscope.recorded):
    assert inspect.signature(function).parameters["tempo"].default == "slow"
    assert "tempo : str\\n    How fast to play it." in inspect.getdoc(function)
try:
    kernelscope.record(tempo="medium")
except ValueError as error:
    assert str(error) == "tempo 'medium' is not one of slow, fast"
else:
    raise AssertionError("tempo 'medium' is taken")
assert "--tempo {slow,fast}" in said("run", "--help")

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "kernelscope")
for help in (lambda: shell.run_line_magic("kernelscope", "on --help"),
             lambda: shell.run_cell_magic("kernelscope", "--help", "1")):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        help()
    assert "--tempo {slow,fast}" in " ".join(out.getvalue().split())
shell.run_cell("%%kernelscope -q --tempo fast\\nimport kernelscope.recorder.session\\n"
               "tempo = kernelscope.recorder.session.Session.active.options.tempo")
assert shell.user_ns["tempo"] == "fast"
""")
PROBE = Change("a probe", 2, (
    ("probes/toy.py", "", TOY_PROBE),
    ("recorder/session.py", "from kernelscope.probes.simulator import SimulatorProbe\n",
     "from kernelscope.probes.simulator import SimulatorProbe\nfrom kernelscope.probes.toy import ToyProbe\n"),
    ("recorder/session.py", "SimulatorProbe(), NvtxProbe(),", "SimulatorProbe(), ToyProbe(), NvtxProbe(),"),
), """
assert "toy" in recording.metadata["probes"] and not recording.health.errors.fillna(0).any()
assert recording.dispatchers.framework.tolist() == ["numba-cuda", "toy"]
assert recording.launches.dispatcher_id.tolist() == [0, 0, 1]
assert "played" in said("show", "play.kscope")
""")
VIEW = Change("a view", 5, (
    ("views/kernels/__init__.py", "", '"""What is shown of the kernels."""\n'),
    ("views/kernels/model.py", "", '''\
def kernels_of(recording):
    return recording.column("dispatchers", "name").tolist()
'''),
    ("views/kernels/text.py", "", '''\
from kernelscope.views.kernels.model import kernels_of


def kernels_text(recording):
    return "kernels: " + ", ".join(kernels_of(recording))
'''),
    ("commands/kernels.py", "", '''\
"""``kernels``: the kernels of a ``.kscope`` file."""

from kernelscope.commands.verb import Verb
from kernelscope.recording.file import load
from kernelscope.views.kernels.text import kernels_text


def _arguments(parser, in_notebook):
    parser.add_argument("file", metavar="FILE.kscope")


def main(arguments):
    print(kernels_text(load(arguments.file)))
    return 0


VERBS = {"kernels": Verb(_arguments, main)}
'''),
    ("commands/verb.py", '    "inspect": "show a file\'s kernels,',
     '    "kernels": "list a file\'s kernels",\n    "inspect": "show a file\'s kernels,'),
), """
assert said("kernels", "play.kscope") == "kernels: axpy, played"
assert "kernels list a file's kernels" in said("--help")
""")
CHANGES = (COLUMN, BOUNDARY, RULE, EXPORTER, OPTION, PROBE, VIEW)


def run(folder: Path, *command: str | Path) -> str:
    """Run Python in the folder, with the copy beside it instead of this checkout; return what it prints."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": str(folder.parent / "copy"), "KERNELSCOPE_DRYRUN": "1", "COLUMNS": "100"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder beside a copy of the package with all changes, in which that has recorded `PLAY`."""
    copy = tmp_path_factory.mktemp("changes") / "copy"
    shutil.copytree(ROOT / "kernelscope", copy / "kernelscope", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    (copy / "setup.py").write_text(setup.replace('"-O2"', '"-O0"'))  # to optimize takes most of the time
    for change in CHANGES:
        for name, old, new in change.edits:
            file = copy / "kernelscope" / name
            text = file.read_text(encoding="utf-8") if old else ""
            assert not old or text.count(old) == 1, f"{change.row}: {name} has not once: {old}"
            assert old or not file.exists(), f"{change.row}: {name} is there already"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text.replace(old, new) if old else new, encoding="utf-8")
    used = copy.with_name("used")
    used.mkdir()
    (used / "toy.py").write_text(TOY)
    (used / "play.py").write_text(PLAY)
    run(copy, "-m", "kernelscope.native.record")
    run(copy, "setup.py", "-q", "build_ext", "--inplace")
    run(used, "-W", "error", "-m", "kernelscope", "run", "--tempo", "fast", "--journal-folder", "journals", "play.py")
    return used


def usual(row: str) -> list[str]:
    """The files that the page's table names in a row, in which ``NAME`` stands for any name."""
    (cells,) = re.findall(rf"^\| {re.escape(row)} \|([^|]*)\|", PAGE, re.MULTILINE)
    return [each.replace("NAME", "*") for each in re.findall(r"`([\w/]+\.\w+)`", cells)]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.row)
def test_the_files_that_the_page_names_are_enough(change: Change, changed: Path) -> None:
    assert len(change.files) <= change.most
    assert [file for file in sorted(change.files) if not any(fnmatch(file, name) for name in usual(change.row))] == []
    run(changed, "-W", "error", "-c", SEEN + change.seen, str(changed.parent / "copy"))


def test_every_file_that_the_page_names_exists() -> None:
    named = {each for each in re.findall(r"`([\w./-]+/[\w.-]*)`", PAGE) if "NAME" not in each}
    assert len(named) > 40
    package = ROOT / "kernelscope"
    places = (ROOT, package, *(package / room for room in ("views", "features", "importers")), ROOT / "frontend")
    assert sorted(each for each in named if not any((place / each).exists() for place in places)) == []
