"""axe-core, which checks a page against WCAG: names, roles, keyboard, contrast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from browsing import missing

_AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
_RUN = """async (selector) => {
  const { violations } = await axe.run(selector, { resultTypes: ["violations"] });
  return violations.filter((each) => ["serious", "critical"].includes(each.impact)).flatMap((each) =>
    each.nodes.map((node) => `${each.id}: ${node.target} ${node.any.concat(node.all).map((one) => one.message)}`));
}"""


def violations(page: Any, selector: str) -> list[str]:
    """Return what is seriously wrong for people who do not see the page, or see or use it in another way."""
    if not _AXE.is_file():
        missing("axe-core", "it with  make frontend")
    page.evaluate(f"() => {{ globalThis.axe ?? (() => {{ {_AXE.read_text(encoding='utf-8')} }})(); }}")
    return page.evaluate(_RUN, selector)
