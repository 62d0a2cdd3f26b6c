from __future__ import annotations

import re
from pathlib import Path

import kernelscope.widgets
from kernelscope.renderers.style import PHASE_COLORS
from kernelscope.widgets import picture_lanes
from kernelscope.widgets.frontend import CODE, MODULES, front_end, style_sheet

STATIC = Path(kernelscope.widgets.__file__).parent / "static"
TOP = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)


def source(name: str) -> str:
    return (STATIC / f"{name}.js").read_text(encoding="utf-8")


def test_every_module_is_in_it_once() -> None:
    # The widget's own module is put before them in notebooks only.
    assert sorted([*MODULES, *CODE, "widget"]) == sorted(path.stem for path in STATIC.glob("*.js"))
    text = front_end()
    for name in MODULES:
        first = TOP.search(source(name))
        assert first is not None
        assert len(re.findall(rf"{first.group().removeprefix('export ')}\b", text)) == 1


def test_it_is_one_module_that_imports_nothing_and_fetches_nothing() -> None:
    text = front_end()
    assert not re.search(r"^\s*import\b", text, re.MULTILINE)
    assert re.findall(r"^export .*$", text, re.MULTILINE) == ["export { mount };"]
    for word in ("fetch(", "XMLHttpRequest", "eval(", "new Function", "innerHTML", "outerHTML", "insertAdjacentHTML",
                 "document.write", "http:", "https:", "url(", "@import"):
        assert word not in text, word


def test_modules_import_what_comes_before_them_and_use_what_they_import() -> None:
    for place, name in enumerate(MODULES):
        text = source(name)
        for names, other in re.findall(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', text, re.MULTILINE):
            assert other in MODULES[:place], (name, other)
            for each in (part.strip() for part in names.split(",") if part.strip()):
                made = rf"^export (?:async )?(?:function|class|const) {each}\b"
                assert re.search(made, source(other), re.MULTILINE), each
                assert len(re.findall(rf"\b{each}\b", text)) > 1, (name, each)


def test_no_two_modules_share_a_name() -> None:
    names = [found for name in MODULES for found in TOP.findall(source(name))]
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


def test_the_style_sheet_is_scoped() -> None:
    style = re.sub(r"/\*.*?\*/", "", style_sheet(), flags=re.DOTALL)
    selectors = re.findall(r"(?:^|[{}])\s*([^{}@]+?)\s*\{", style)
    assert selectors
    assert [each for each in selectors if not all(".kst" in part for part in re.split(r",(?![^(]*\))", each))] == []


def test_the_picture_has_the_timeline_s_colors() -> None:
    text = source("colors")
    kernels = re.search(r"KERNEL_COLORS = \[([^\]]*)\]", text)
    assert kernels is not None
    assert tuple(re.findall(r"#\w{6}", kernels[1])) == picture_lanes.KERNEL_COLORS
    named = dict(re.findall(r'(\w+) = "(#\w{6})"', text))
    for name, color in (("COPY", picture_lanes.COPY_COLOR), ("MEMSET", picture_lanes.MEMSET_COLOR),
                        ("CELL", picture_lanes.CELL_COLOR), ("COMPILE", picture_lanes.COMPILE_COLOR),
                        ("WAIT", picture_lanes.WAIT_COLOR), ("GRAPH", picture_lanes.GRAPH_COLOR),
                        ("RANGE", picture_lanes.RANGE_COLOR)):
        assert named[name] == color, name
    unsplit = re.findall(r"#\w{6}", re.search(r"PHASE_COLORS = \[([^\]]*)\]", text)[1])[5]  # type: ignore[index]
    assert unsplit == picture_lanes.WHOLE_COLOR
