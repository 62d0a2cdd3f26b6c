from __future__ import annotations

import json

from handmade import MS, Script

from kernelscope import Recording
from kernelscope.analysis.compiles import explain
from kernelscope.analysis.redaction import redacted


def test_reasons_are_written_again_from_neutral_names() -> None:
    script = Script()
    script.kernel("secret_kernel", arguments="secret_x, n")
    record = "Record(secret_field[type=float32;offset=0];4;False)"
    script.compilation(0, 100 * MS, signature=f"(array({record}, 1d, C), int64)")
    script.now += 200 * MS
    script.compilation(0, 100 * MS, signature=f"(array({record}, 1d, A), int64)")
    given = explain(script.recording())
    assert "secret" in str(given.rows("compilations"))
    shown = redacted(given)
    first, second = shown.rows("compilations")
    assert "secret" not in str(shown.rows("compilations"))
    assert [first["reason_code"], second["reason_code"]] == given.column("compilations", "reason_code").tolist()
    assert second["reason_code"] == "new_layout"
    assert "name_1" in second["reason"] and second["fix"]


def test_a_reason_whose_facts_are_withheld_says_so() -> None:
    script = Script()
    script.kernel("secret_kernel")
    script.compilation(0, reason_code="cache_stale", reason="the file secret.py has changed", fix="keep secret.py",
                       attributes=json.dumps({"disk": {"file": "secret.py"}}))
    row, = redacted(script.recording()).rows("compilations")
    assert row["reason_code"] == "cache_stale"
    assert row["reason"] == "cache stale: what was said of it is withheld"
    assert "secret" not in str(row)


def test_without_compiles() -> None:
    assert redacted(Recording({}, {"name": "secret"})).name == "redacted"
