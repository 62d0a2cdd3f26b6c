"""A Jupyter server of the tests' own, and notebooks of it driven in a browser: in JupyterLab, and in Notebook 7."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page

ROOT = Path(__file__).resolve().parents[2]
STARTS_WITHIN_S = 240
SHOWN_WITHIN_MS = 30_000

# It asks a server on the network what is new.
_OFFLINE = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


class Server:
    """``jupyter lab``, which serves Notebook 7 as well: without a token, for this machine alone, nothing of the user's.

    Parameters
    ----------
    folder : Path
        Where notebooks are; everything else that Jupyter writes goes beside it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "notebooks"
        self.folder.mkdir()
        config = folder / "config"
        (config / "labconfig").mkdir(parents=True)
        (config / "labconfig" / "page_config.json").write_text(json.dumps(_OFFLINE))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "helpers")]),
            "KERNELSCOPE_DRYRUN": "1", "JUPYTER_CONFIG_DIR": str(config),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "JUPYTER_DATA_DIR": str(folder / "data"),
            "IPYTHONDIR": str(folder / "ipython"), "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"), "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
        }
        self._contexts: dict[Browser, BrowserContext] = {}
        self._log = (folder / "jupyter.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
             f"--port={self.port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.folder}",
             "--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.disable_check_xsrf=True",
             "--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True",
             "--LabServerApp.extra_labextensions_path=[]"],
            env=environment, cwd=folder, stdout=self._log, stderr=subprocess.STDOUT)
        self._wait(folder / "jupyter.log")

    def _wait(self, log: Path) -> None:
        until = time.monotonic() + STARTS_WITHIN_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.url}/api", timeout=60).close()
                return
            except OSError:
                time.sleep(0.1)
        self.close()
        raise RuntimeError(f"jupyter did not start:\n{log.read_text(errors='replace')[-3000:]}")

    def new_page(self, browser: Browser) -> Page:
        """Open an empty page; all of a browser share a cache, so that JupyterLab is loaded once."""
        if browser not in self._contexts:
            self._contexts[browser] = browser.new_context(viewport={"width": 1400, "height": 1000})
        return self._contexts[browser].new_page()

    def write(self, name: str, *cells: str) -> Path:
        """Write a notebook of code cells and return its path."""
        import nbformat  # half a second, in which its schemas are compiled
        from nbformat.v4 import new_code_cell, new_notebook

        metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = new_notebook(cells=[new_code_cell(source) for source in cells], metadata=metadata)
        path = self.folder / f"{name}.ipynb"
        nbformat.write(notebook, path)
        return path

    def api(self, method: str, path: str) -> Any:
        """Ask the server's REST interface."""
        request = urllib.request.Request(f"{self.url}/api/{path}", method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def end_kernels(self, *names: str) -> None:
        """Shut the kernels of some notebooks down, or every one, so that a notebook that is opened has none."""
        for session in self.api("GET", "sessions"):
            if not names or session["path"].removesuffix(".ipynb") in names:
                self.api("DELETE", f"sessions/{session['id']}")

    def close(self) -> None:
        """End the server and its kernels."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


class Opened:
    """A notebook in a page of the browser.

    Attributes
    ----------
    page : Page
        Playwright's.
    left : list of str
        Addresses of other machines that the page asked for; `browsing.ARGUMENTS` lets none be found.
    errors : list of str
        What was logged as an error, and exceptions that nothing caught.
    """

    def __init__(self, browser: Browser, server: Server, application: str, name: str) -> None:
        self.server = server
        self.left: list[str] = []
        self.errors: list[str] = []
        self.page = server.new_page(browser)
        # Without a route, with which Chromium would keep nothing in its cache.
        self.page.on("request", lambda each: None if each.url.startswith((server.url, "data:", "blob:"))
                     else self.left.append(each.url))
        self.page.on("console", lambda each: self.errors.append(each.text) if each.type == "error" else None)
        self.page.on("pageerror", lambda each: self.errors.append(str(each)))
        start = {"lab": "lab/tree", "notebook": "notebooks"}[application]
        reset = "?reset" if application == "lab" else ""
        self.page.goto(f"{server.url}/{start}/{name}.ipynb{reset}")
        self._wait()

    def reload(self) -> None:
        """Load the page anew, with the same kernel."""
        self.page.reload()
        self._wait()

    def _wait(self) -> None:
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=SHOWN_WITHIN_MS)
        self.page.wait_for_function("""() => {
            const panel = window.jupyterapp?.shell.currentWidget;
            return panel?.sessionContext?.session?.kernel?.status === "idle";
        }""", timeout=SHOWN_WITHIN_MS)
        # What the application itself says while it starts is not ours.
        self.errors.clear()

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Run a command of Jupyter's own, as its menus do."""
        self.page.evaluate("([name, given]) => window.jupyterapp.commands.execute(name, given)",
                           [name, arguments or {}])

    def run(self, *cells: int) -> None:
        """Run cells by number, all without one, and wait until the kernel has run them."""
        self.page.evaluate("""async (cells) => {
            const panel = window.jupyterapp.shell.currentWidget;
            if (!cells.length) return window.jupyterapp.commands.execute("notebook:run-all-cells");
            for (const at of cells) {
                panel.content.activeCellIndex = at;
                await window.jupyterapp.commands.execute("notebook:run-cell");
            }
        }""", list(cells))

    def set_source(self, cell: int, source: str) -> None:
        """Write another source into a cell."""
        self.page.evaluate("([at, source]) => window.jupyterapp.shell.currentWidget.content.widgets[at].model"
                           ".sharedModel.setSource(source)", [cell, source])

    def timelines(self, count: int = 1) -> Locator:
        """Wait until so many live timelines are painted, no more and no fewer; return them."""
        self.page.wait_for_function(
            "(count) => document.querySelectorAll('.ks-painted').length === count", arg=count,
            timeout=SHOWN_WITHIN_MS)
        return self.page.locator(".ks-painted")

    def ask_kernel(self, expression: str) -> str:
        """What an expression gives in the kernel, as text."""
        answer: str = self.page.evaluate("""async (expression) => {
            const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            const asked = {code: "", user_expressions: {value: expression}, silent: true};
            const reply = await kernel.requestExecute(asked).done;
            const value = reply.content.user_expressions.value;
            return value.data ? value.data["text/plain"] : value.evalue;
        }""", expression)
        return answer

    def restart(self) -> None:
        """Restart the kernel."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")

    def pictures(self) -> Locator:
        """Static pictures that can be seen."""
        return self.page.locator("[data-ks-picture] img").locator("visible=true")

    def save(self) -> Any:
        """Save the notebook and read it."""
        import nbformat

        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
        path = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
        return nbformat.read(self.server.folder / path, as_version=4)

    def outputs(self) -> list[Any]:
        """The first cell's outputs as the page's model has them."""
        found: list[Any] = self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.widgets[0].model.toJSON().outputs")
        return found

    def cell_count(self) -> int:
        """How many cells the notebook has."""
        return int(self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length"))

    def close(self) -> None:
        """Close the page."""
        self.page.close()


def until(page: Page, condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Wait for a condition that Python tests."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        page.wait_for_timeout(50)
    return True


def svg_of(html: str) -> str:
    """The picture's SVG of an output's HTML."""
    return base64.b64decode(html.split("data:image/svg+xml;base64,")[1].split('"')[0]).decode()


def free_port() -> int:
    """Return a port that no other process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
