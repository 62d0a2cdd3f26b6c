"""A real Chromium for the tests of this folder, pages that note every request and every complaint, and a JupyterLab."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from browsing import Timeline, chromiums
from code_pages import Code, code_page, stencil_code
from everything import everything
from inspector_server import inspections
from jupyter_pages import Opened, Server

from kernelscope.recording.model import Recording

KNOWN = everything()
#: A page that was never opened, and one of text alone, may keep nothing.
_FORGET = "() => { try { sessionStorage.clear(); } catch { /* nothing to forget */ } }"


# Not of the whole session: while Playwright runs, no other test of the process can run an event loop.
@pytest.fixture(scope="module")
def chromium_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Return the running Chromium with one of `browsing.FONTS`, one for all tests of a file."""
    with chromiums(tmp_path_factory.mktemp("chromium")) as with_font:
        yield with_font


@pytest.fixture(scope="module")
def chromium(chromium_with: Callable[[str], Any]) -> Any:
    """A running Chromium for what does not depend on a font."""
    return chromium_with("wide")


@dataclass
class Watched:
    """A page, with what it asked for and complained about."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text)
                     if message.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))


@pytest.fixture(scope="module")
def idle() -> dict[str, list[Watched]]:
    """Pages that no test uses now, by font: opening one takes longer than most tests."""
    return {}


@pytest.fixture
def watch(chromium_with: Callable[[str], Any], idle: dict[str, list[Watched]]) -> Iterator[Callable[..., Watched]]:
    """Give empty pages; those that a test leaves must not have complained."""
    used: list[tuple[list[Watched], Watched]] = []

    def take(dark: bool = False, width: int = 1300, height: int = 900, font: str = "wide") -> Watched:
        free = idle.setdefault(font, [])
        watched = free.pop() if free else Watched(chromium_with(font).new_page())
        watched.page.set_viewport_size({"width": width, "height": height})
        watched.page.emulate_media(color_scheme="dark" if dark else "light")
        watched.page.mouse.move(0, 0)
        watched.requests.clear()
        used.append((free, watched))
        return watched

    yield take
    complaints = [each.complaints.copy() for _, each in used if each.complaints]
    for free, each in used:
        each.page.evaluate(_FORGET)
        each.page.goto("about:blank")
        each.complaints.clear()
        free.append(each)
    assert complaints == []


@pytest.fixture
def artifacts(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The beginning of the names of a test's screenshots, in the folder KERNELSCOPE_ARTIFACTS where that is set."""
    wanted = os.environ.get("KERNELSCOPE_ARTIFACTS")
    folder = Path(wanted) if wanted else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder / re.sub(r"\W+", "-", request.node.name).strip("-")


@pytest.fixture(scope="session")
def real() -> dict[str, str]:
    """The code of a real kernel, by kind."""
    return stencil_code()


@pytest.fixture
def opened(watch: Callable[..., Any], tmp_path: Path) -> Callable[..., Code]:
    """Show the view of code, alone on a page."""
    def make(jupyter: str = "", **options: Any) -> Code:
        watched = watch(**options)
        watched.page.goto(code_page(tmp_path, jupyter).as_uri())
        code = Code(watched.page)
        code.watched = watched  # type: ignore[attr-defined]
        return code

    return make


@pytest.fixture(scope="session")
def known_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the recording that most tests look at."""
    return KNOWN.to_html(tmp_path_factory.mktemp("known") / "report.html")


@pytest.fixture
def opened_timeline(watch: Callable[..., Any], tmp_path: Path, known_page: Path) -> Callable[..., Timeline]:
    """Open a recording's page."""

    def make(recording: Recording | None = None, **options: Any) -> Timeline:
        path = known_page if recording is None else recording.to_html(tmp_path / "report.html")
        watched = watch(**options)
        watched.page.goto(path.as_uri())
        timeline = Timeline(watched.page).wait()
        timeline.watched = watched  # type: ignore[attr-defined]
        return timeline

    return make


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Jupyter server with recordings, one for all tests."""
    with inspections(tmp_path_factory.mktemp("jupyter")) as started:
        yield started


@pytest.fixture
def notebook(chromium_with: Callable[[str], Any], server: Server,
             request: pytest.FixtureRequest) -> Iterator[Callable[..., Opened]]:
    """Write notebooks and open them; at the end nothing has failed or left the machine, and their kernels end."""
    opened: dict[str, Opened] = {}

    def make(*cells: str, application: str = "lab", font: str = "wide", is_run: bool = True) -> Opened:
        name = f"{re.sub(r'[^a-z0-9]+', '_', request.node.name)}_{len(opened)}"
        server.write(name, *cells)
        page = Opened(chromium_with(font), server, application, name)
        opened[name] = page
        if is_run:
            page.run()
        return page

    yield make
    assert [each.errors + each.left for each in opened.values()] == [[]] * len(opened)
    for each in opened.values():
        each.close()
    if opened:  # other tests of the file may share a notebook
        server.end_kernels(*opened)
