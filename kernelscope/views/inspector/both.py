"""The inspector of a kernel that two recordings have: as text, a diff of what one made of it and the other."""

from __future__ import annotations

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable, shareable_code
from kernelscope.views.base import clean
from kernelscope.views.inspector.model import Kernel, Specialization, code_of, find_kernels, inspect_kernels
from kernelscope.views.inspector.text import code_diff, comparison
from kernelscope.views.inspector.widget import InspectorWidget, RecordingSource
from kernelscope.views.keys import specialization_keys

#: The forms of code that a text compares.
_FORMS = ("source", "ptx", "sass")


class DiffInspector(InspectorWidget):
    """The inspector of two recordings, one with the specializations of both.

    Parameters
    ----------
    together : Recording
        Both, as `kernelscope.analysis.side_by_side.side_by_side` makes them.
    kernel : str
        The name of the kernel: qualified, or its last part.

    Raises
    ------
    UnknownKernelError
        There is no kernel of that name.
    """

    def __init__(self, together: Recording, kernel: str) -> None:
        super().__init__(RecordingSource(together), kernel)

    def first_pair(self) -> tuple[str, str, str] | None:
        """Return the keys of what both have, or of what each launched most, and the first form in which they differ.

        None where only one has the kernel.
        """
        if self.kernel is None:
            return None
        recording, keys = self.recording, specialization_keys(self.recording)
        kernel = find_kernels(inspect_kernels(recording), self.kernel)[0]
        pair = _first_pair(kernel)
        if pair is None:
            return None
        left, right = pair
        differing = (form for form in _FORMS if form in left.code and form in right.code and code_of(
            recording, kernel, left, form).text != code_of(recording, kernel, right, form).text)
        return keys[left.specialization_id], keys[right.specialization_id], next(differing, "resources")

    def __repr__(self) -> str:
        recording = shareable(self.recording)
        kernels = [] if self.kernel is None else find_kernels(inspect_kernels(recording), self.kernel)
        return "\n".join(_difference(recording, each) for each in kernels)


def _first_pair(kernel: Kernel) -> tuple[Specialization, Specialization] | None:
    """Return the specialization with most launches that both have, or the two with most of what each has."""
    by_source: dict[str, list[Specialization]] = {}
    for each in kernel.specializations:
        by_source.setdefault(_source(each), []).append(each)
    if len(by_source) < 2:
        return None
    (_, left), (_, right), *_ = sorted(by_source.items())
    pairs = [(one, other) for one in left for other in right]
    return max(pairs, key=lambda pair: (pair[0].signature == pair[1].signature, pair[0].launches + pair[1].launches))


def _source(each: Specialization) -> str:
    """Return which of the two recordings it is of."""
    return clean(each.attributes.get("recording"))


def _difference(recording: Recording, kernel: Kernel) -> str:
    """Return how the specializations of one signature differ, and which ones only one of the two has."""
    by_types: dict[str, list[Specialization]] = {}
    for each in sorted(kernel.specializations, key=lambda each: each.number):
        by_types.setdefault(each.signature, []).append(each)
    parts: list[str] = []
    for signature, own in by_types.items():
        title = f"{clean(kernel.name)} {clean(signature)}"
        sources = list(dict.fromkeys(map(_source, own)))
        if len(sources) < 2:
            parts.append(f"{title}: only in {sources[0]}")
            continue
        left, right = own[0], own[-1]
        parts.append(f"{title}: specialization {left.number} is of {sources[0]}, {right.number} of {sources[-1]}")
        parts.append(comparison(kernel, left, right) or "no difference in types and resources")
        for form in _FORMS:
            if form in left.code and form in right.code:
                texts = [code_of(recording, kernel, each, form).text for each in (left, right)]
                if texts[0] is not None and texts[1] is not None:
                    pair = shareable_code(form, texts[0]), shareable_code(form, texts[1])
                    parts.append(code_diff(kernel, left, right, pair, form) or f"no difference in {form}")
    return "\n".join(parts)
