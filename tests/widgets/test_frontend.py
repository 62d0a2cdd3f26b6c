from __future__ import annotations

import re
from pathlib import Path

import pytest

import kernelscope
from kernelscope.views.html import PHASE_COLORS
from kernelscope.views.timeline import model
from kernelscope.views.widget import BUNDLES, front_end, style_sheet

STATIC = Path(kernelscope.__file__).parent / "static"
TOP = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)


def source(name: str) -> str:
    return (STATIC / f"{name}.js").read_text(encoding="utf-8")


each_bundle = pytest.mark.parametrize("bundle", BUNDLES)
#: What a bundle leaves in a page under a name: its views' function, or anywidget's.
EXPORTS = {"timeline": "export { mount };", "inspector": "export { mount };", "graph": "export { mount };",
           "timeline_widget": "export default function timeline() {",
           "graph_widget": "export default function timeline() {",
           "inspector_widget": "export default function inspector() {"}


def test_every_file_is_in_a_bundle() -> None:
    modules = {name for bundle in BUNDLES.values() for name in bundle.modules}
    assert modules == {path.stem for path in STATIC.glob("*.js")}
    styles = {name for bundle in BUNDLES.values() for name in bundle.styles}
    assert styles == {path.stem for path in STATIC.glob("*.css")}


@each_bundle
def test_every_module_is_in_it_once(bundle: str) -> None:
    text = front_end(bundle)
    assert len(set(BUNDLES[bundle].modules)) == len(BUNDLES[bundle].modules)
    for name in BUNDLES[bundle].modules:
        first = TOP.search(source(name))
        assert first is not None
        assert len(re.findall(rf"^{first.group().removeprefix('export ')}\b", text, re.MULTILINE)) == 1


@each_bundle
def test_it_is_one_module_that_imports_nothing_and_fetches_nothing(bundle: str) -> None:
    text = front_end(bundle)
    assert not re.search(r"^\s*import\b(?! ?\()", text, re.MULTILINE)
    assert re.findall(r"^export .*$", text, re.MULTILINE) == [EXPORTS[bundle]]
    for word in ("fetch(", "XMLHttpRequest", "eval(", "new Function", "innerHTML", "outerHTML", "insertAdjacentHTML",
                 "document.write", "http:", "https:", "url(", "@import"):
        assert word not in text, word


@each_bundle
def test_modules_import_what_comes_before_them_and_use_what_they_import(bundle: str) -> None:
    modules = BUNDLES[bundle].modules
    for place, name in enumerate(modules):
        text = source(name)
        for names, other in re.findall(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', text, re.MULTILINE):
            assert other in modules[:place], (name, other)
            for each in (part.strip() for part in names.split(",") if part.strip()):
                made = rf"^export (?:async )?(?:function|class|const) {each}\b"
                assert re.search(made, source(other), re.MULTILINE), each
                assert len(re.findall(rf"\b{each}\b", text)) > 1, (name, each)


@each_bundle
def test_no_two_modules_share_a_name(bundle: str) -> None:
    names = [found for name in BUNDLES[bundle].modules for found in TOP.findall(source(name))]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_modules_fit_a_reader() -> None:
    for path in STATIC.iterdir():
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) < 400, path.name
        assert max(map(len, lines)) <= 120, path.name


def test_phases_have_the_card_s_colors() -> None:
    listed = re.search(r"PHASE_COLORS = \[([^\]]*)\]", source("colors"))
    assert listed is not None
    assert re.findall(r"#\w{6}", listed[1])[:5] == list(PHASE_COLORS.values())
    order = re.search(r"PHASES = \[([^\]]*)\]", source("levels"))
    assert order is not None
    assert re.findall(r'"(\w+)"', order[1])[:5] == list(PHASE_COLORS)


@pytest.mark.parametrize(("bundle", "scopes"), [("timeline", (".kst",)), ("inspector", (".ksi", ".ksc")),
                                              ("graph", (".ksg",))])
def test_the_style_sheet_is_scoped(bundle: str, scopes: tuple[str, ...]) -> None:
    style = re.sub(r"/\*.*?\*/", "", style_sheet(bundle), flags=re.DOTALL)
    selectors = re.findall(r"(?:^|[{}])\s*([^{}@]+?)\s*\{", style)
    assert selectors
    parts = [part for each in selectors for part in re.split(r",(?![^(]*\))", each)]
    assert [part for part in parts if not any(scope in part for scope in scopes)] == []


def test_the_picture_has_the_timeline_s_colors() -> None:
    text = source("colors")
    kernels = re.search(r"KERNEL_COLORS = \[([^\]]*)\]", text)
    assert kernels is not None
    assert tuple(re.findall(r"#\w{6}", kernels[1])) == model.KERNEL_COLORS
    named = dict(re.findall(r'(\w+) = "(#\w{6})"', text))
    for name, color in (("COPY", model.COPY_COLOR), ("MEMSET", model.MEMSET_COLOR),
                        ("CELL", model.CELL_COLOR), ("COMPILE", model.COMPILE_COLOR),
                        ("WAIT", model.WAIT_COLOR), ("GRAPH", model.GRAPH_COLOR),
                        ("EVENT", model.EVENT_COLOR),
                        ("RANGE", model.RANGE_COLOR)):
        assert named[name] == color, name
    unsplit = re.findall(r"#\w{6}", re.search(r"PHASE_COLORS = \[([^\]]*)\]", text)[1])[5]  # type: ignore[index]
    assert unsplit == model.UNSPLIT_COLOR
