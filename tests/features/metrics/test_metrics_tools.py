"""The tool ``metrics`` of ``kernelscope mcp``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp_fixtures import ODD, Ask

from kernelscope.commands.mcp import Folder
from kernelscope.features.metrics.tools import metrics
from kernelscope.views.answer import MOST_LETTERS


def test_every_kernel_has_an_answer_whatever_is_asked(hostile: Path) -> None:
    served = Folder(hostile)
    for value in ODD:
        text, _ = metrics(served, None, "ok.kscope", value)
        assert len(text) <= MOST_LETTERS and text.isascii() and json.loads(text)


def test_a_client_asks_for_a_recording_without_measurements(ask: Ask) -> None:
    async def questions(session: Any) -> Any:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert [*tools["metrics"].input_schema["properties"]] == ["recording", "kernel", "limit"]
        return await session.call_tool("metrics", {"recording": "specializations.kscope"})

    result = ask(questions)
    assert not result.is_error
    assert "No kernel's counters were measured" in json.loads(result.content[0].text)["verdict"]
