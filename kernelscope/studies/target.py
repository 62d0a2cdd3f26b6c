"""Where it is measured: a target is a label and what brings one version of numba-cuda or numba-cuda-mlir."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("current", "checkout", "ref", "requirement", "python")


@dataclass(frozen=True)
class Target:
    """A label, and one of: this environment, a checkout, a git ref, a requirement, an interpreter.

    Attributes
    ----------
    label : str
        What to call it; unique in a study.
    kind : str
        ``current``; ``checkout`` (a folder with the source of numba-cuda or numba-cuda-mlir); ``ref`` (a git ref of
        the repository `repo`); ``requirement`` (as pip takes it); ``python`` (an interpreter, or the folder of a
        virtual environment).
    value : str
        The folder, ref, requirement or interpreter, as it was given; empty for ``current``.
    repo : str or None
        Of a ref: the repository's folder.
    """

    label: str
    kind: str = "current"
    value: str = ""
    repo: str | None = None

    def __str__(self) -> str:
        if self.kind == "current":
            return "this environment"
        return f"{self.value} of {self.repo}" if self.kind == "ref" and self.repo else self.value
