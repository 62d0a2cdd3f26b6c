"""``kernelscope demo``: the quickstart notebook, executed and written as one HTML file with its cards."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernelscope
from kernelscope import dryrun
from kernelscope.commands.doctor import child_environment, gpu
from kernelscope.commands.output import print_answer
from kernelscope.commands.verb import Verb, add_json
from kernelscope.errors import KernelScopeError
from kernelscope.suggestions import did_you_mean_file
from kernelscope.units import counted
from kernelscope.views.answer import Answer, Many, WrittenMembers, answer, written

_NOTEBOOK = Path("notebooks") / "00_quickstart.ipynb"
_CELL_TIMEOUT_S = 600

# nbconvert's page without what it loads from the network: require.js, MathJax, mermaid, and the widgets' manager.
_TEMPLATE = """\
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}{%- endblock html_head_js -%}
{%- block jupyter_widgets -%}{%- endblock jupyter_widgets -%}
{%- block html_head_js_mathjax -%}{%- endblock html_head_js_mathjax -%}
{%- block html_head_js_mermaidjs -%}{%- endblock html_head_js_mermaidjs -%}
{%- block html_head_css -%}
<style>main { max-width: 1100px; margin: 0 auto; padding: 24px 16px; }</style>
{%- endblock html_head_css -%}
"""
# Of an output with several forms the first of these; a widget's live one would need its script.
_SHOWN = ["text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/latex", "text/plain"]


class DemoAnswer(Answer):
    """What kernelscope demo says."""

    dry_run: bool
    cards: int
    written: Many[WrittenMembers]


def main(arguments: argparse.Namespace) -> int:
    """Execute, print the cards as text, write the HTML; return the exit code."""
    try:
        # Imported first, so that nothing runs before a missing package is reported.
        for name in ("nbclient", "nbconvert", "ipykernel"):
            importlib.import_module(name)
        import nbformat
    except ImportError as error:
        raise KernelScopeError(f"the demo needs {error.name}: pip install 'kernelscope[notebook]'") from None
    source = find_notebook(arguments.notebook)
    try:
        notebook: Any = nbformat.read(source, as_version=4)
    except (OSError, ValueError) as error:
        raise KernelScopeError(f"{source} is no notebook: {error}") from None
    target = _writable(arguments.out)
    machine = {} if dryrun.is_enabled() else gpu()
    on_gpu = bool(machine.get("devices"))
    where = f"on the GPU {machine['devices'][0]['name']}" if on_gpu else "as a dry run: kernels do not execute"
    said = sys.stderr if arguments.json else sys.stdout
    print(f"running {source.name} {where}", file=said, flush=True)
    shown = 0
    for text in executed(notebook, source.parent, {} if on_gpu else {"KERNELSCOPE_DRYRUN": "1"}):
        shown += 1
        print(f"\n{text}", file=said, flush=True)
    target.write_text(as_html(notebook, source.stem), encoding="utf-8")
    if arguments.json:
        print_answer(answer(DemoAnswer, {
            "verdict": f"ran {where}; {counted(shown, 'card')} in {target.absolute()}", "dry_run": not on_gpu,
            "cards": shown, "written": written([target.absolute()], "html")}))
    else:
        print(f"\nran {where}\nwrote {target.absolute()}")
    return 0


def find_notebook(given: str | None) -> Path:
    """Return the notebook's path: the given one, or the quickstart's in the checkout or in this folder.

    Raises
    ------
    KernelScopeError
        There is no such file.
    """
    if given is not None:
        if not Path(given).is_file():
            raise KernelScopeError(f"there is no notebook {given}{did_you_mean_file(given, '.ipynb')}")
        return Path(given).resolve()
    folders = [Path(kernelscope.__file__).resolve().parents[1], Path.cwd()]
    for folder in folders:
        if (folder / _NOTEBOOK).is_file():
            return folder / _NOTEBOOK
    looked = " and ".join(dict.fromkeys(str(folder) for folder in folders))
    raise KernelScopeError(f"there is no {_NOTEBOOK} in {looked}: run the demo in a checkout of KernelScope, or name "
                           "a notebook with --notebook")


def executed(notebook: Any, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Execute the notebook's cells in a new kernel; yield each card that they show, as text.

    Parameters
    ----------
    notebook : NotebookNode
        What to execute; it gets the outputs.
    folder : Path
        The kernel's working folder.
    environment : dict of str to str
        Variables to set for the kernel.

    Raises
    ------
    KernelScopeError
        A cell failed that is not tagged ``raises-exception``.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    client = NotebookClient(
        notebook, timeout=_CELL_TIMEOUT_S, kernel_name="python3", store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        # Kernels warn on stderr of what has no meaning here, such as TCP without encryption on this machine.
        extra_arguments=["--log-level=ERROR"],
    )
    code = [place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()]
    # An IPython kernel finds its modules by the environment it is started in.
    with client.setup_kernel(env=child_environment(environment)):
        for number, place in enumerate(code, 1):
            cell = notebook.cells[place]
            first = next(line for line in cell.source.splitlines() if line.strip())
            print(f"[{number}/{len(code)}] {first[:80]}", file=sys.stderr, flush=True)
            try:
                client.execute_cell(cell, place)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                reason = f"{error.ename}: {error.evalue}" if isinstance(error, CellExecutionError) else str(error)
                raise KernelScopeError(f"cell {number} of the notebook failed: {reason}") from None
            yield from cards(cell)


def cards(cell: Any) -> Iterator[str]:
    """Yield the cards among an executed cell's outputs, as text."""
    for output in cell.outputs:
        data = output.get("data", {})
        if 'class="kscope"' in "".join(data.get("text/html", "")) and "text/plain" in data:
            yield "".join(data["text/plain"])


def as_html(notebook: Any, title: str) -> str:
    """Return an executed notebook as one HTML document that loads nothing."""
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    from kernelscope.views.widget import front_end

    notebook.metadata.setdefault("title", title)
    notebook.metadata.setdefault("language_info", {"name": "python", "pygments_lexer": "ipython3"})
    exporter = HTMLExporter(
        config=Config({"NbConvertBase": {"display_data_priority": _SHOWN}}), template_name="lab",
        extra_loaders=[DictLoader({"self_contained.j2": _TEMPLATE})])
    exporter.template_file = "self_contained.j2"
    document: str = exporter.from_notebook_node(notebook)[0]
    before, end, after = document.rpartition("</body>")
    return f'{before}<script type="module">{front_end("cards_page")}</script>{end}{after}'


def _writable(out: str) -> Path:
    target = Path(out).expanduser()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KernelScopeError(f"cannot write {target}: {error.strerror or error}") from None
    if target.is_dir():
        raise KernelScopeError(f"cannot write {target}: a folder has that name")
    return target


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("--out", metavar="FILE", default="build/demo/quickstart.html",
                        help="where to write (default: %(default)s)")
    parser.add_argument("--notebook", metavar="FILE.ipynb", help="another notebook")
    add_json(parser, rows=False)


VERBS = {"demo": Verb(_arguments, main, about=(
    "Execute the quickstart notebook in an IPython kernel and write it, with its cards, as one HTML file that\n"
    "needs no network. It runs on the GPU where there is one, and otherwise as a dry run."))}
