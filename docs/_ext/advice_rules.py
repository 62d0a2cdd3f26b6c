"""A Sphinx directive that documents every rule of advice."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from schema_tables import inline, table_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kernelscope.analysis.advice import rules


class AdviceRules(SphinxDirective):
    """Render one row per rule: its code, subject, threshold and the effect of following it."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [[[nodes.literal("", rule.code)], *map(inline, (rule.title, rule.when, rule.effect))]
                for rule in rules().values()]
        return [table_of(("Rule", "Subject", "Threshold", "Effect"), (20, 24, 36, 20), rows)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("advice-rules", AdviceRules)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
