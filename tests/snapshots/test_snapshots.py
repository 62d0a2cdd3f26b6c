"""What is shown of recordings does not change unawares: each output of each is a file in __snapshots__.

The recordings are those of notebooks/recordings, made on real GPUs, and those of tests/helpers/scripted_recordings.py.
tests/helpers/shown.py makes the outputs: text cards, the text of HTML cards, listings, the timeline's data, traces,
tables, the inspector and graphs as text. Of some studies of that folder the text and the card are kept.

Where one was meant to change, ``pytest tests/snapshots --snapshot-update`` writes the files anew and removes those
that nothing makes any more; read the difference before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_recordings import SCRIPTED
from shown import OUTPUTS, html_text
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

import kernelscope
from kernelscope import Recording

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
MADE = {path.stem: path for path in FOLDER.glob("*.kscope")}
NAMES = [*sorted(MADE), *SCRIPTED]
STUDIES = ["anatomy", "launch_overhead", "recording_overhead"]


class TextFile(SingleFileSnapshotExtension):
    """A text file a test."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture(scope="module")
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A recording as it is loaded from its file."""
    path = MADE.get(request.param)
    if path is None:
        path = SCRIPTED[request.param]().save(tmp_path_factory.mktemp("scripted") / "made.kscope")
    return kernelscope.load(path)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("recording", NAMES, indirect=True)
def test_shown(recording: Recording, output: str, snapshot: SnapshotAssertion, tmp_path: Path,
               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    assert OUTPUTS[output](recording, tmp_path) == snapshot(extension_class=TextFile)


@pytest.mark.parametrize("study", STUDIES)
def test_study(study: str, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    result = kernelscope.studies.load(FOLDER / f"{study}.json")
    assert f"{result}\n\n--- HTML\n{html_text(result._repr_html_())}" == snapshot(extension_class=TextFile)


def test_no_snapshot_is_unused(request: pytest.FixtureRequest) -> None:
    # syrupy looks for those of tests without parameters only.
    made = {f"test_shown[{name}-{output}].txt" for name in NAMES for output in OUTPUTS}
    made |= {f"test_study[{name}].txt" for name in STUDIES}
    unused = [path for path in Path(__file__).parent.glob("__snapshots__/**/*.*") if path.name not in made]
    if request.config.option.update_snapshots:
        for path in unused:
            path.unlink()
    else:
        assert not unused
