"""A whole journal with damage anywhere in it: always a recording that can be saved and shown, or a `JournalError`."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade_journals import START, Handmade, Launch, rows_of_axpy
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.errors import JournalError
from kernelscope.recording.journal import find_journals, read_journal

LAUNCHES = [Launch(index, is_open=index in (7, 30), target=index % 2) for index in range(40)]
MADE = Handmade(LAUNCHES, rows=[*rows_of_axpy(), ("range_labels", 0, {"name": "epoch"})],
                ranges=[START / 1e9, 0, 0, 0, (START + 99_000) / 1e9, 1, 0, 0])
STARTS = {launch.start_ns for launch in LAUNCHES}
#: Where slots hold anything.
USED = 4096 + 64 * len(LAUNCHES)

damage = st.tuples(
    st.sampled_from(["journal.json", "slots", "rows"]), st.sampled_from(["flip", "cut", "noise", "gone"]),
    st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=300))


@settings(max_examples=40, deadline=None)
@given(st.lists(damage, min_size=1, max_size=4))
def test_damage_anywhere(tmp_path_factory: pytest.TempPathFactory, hits: list[tuple[str, str, float, bytes]]) -> None:
    base = tmp_path_factory.mktemp("fuzz")
    folder = MADE.write(base / "journals")
    for name, kind, where, noise in hits:
        hurt(folder / name, kind, where, noise)
    for found in find_journals(base / "journals"):
        try:
            recording = read_journal(found.folder)
        except JournalError as error:
            assert str(folder) in str(error) and found.problem is not None
            continue
        assert found.problem is None
        assert set(recording.column("launches", "start_ns").tolist()) <= STARTS
        assert recording.summary()
        recording.save(base / "out.kscope")


def hurt(path: Path, kind: str, where: float, noise: bytes) -> None:
    """Change a file somewhere where it holds something."""
    data = bytearray(path.read_bytes()) if path.exists() else bytearray()
    at = int(where * min(len(data), USED))
    if kind == "gone":
        path.unlink(missing_ok=True)
        return
    if kind == "cut":
        del data[at:]
    elif kind == "noise":
        data[at:at] = noise
    elif data:
        data[at] ^= noise[0] or 1
    path.write_bytes(data)
