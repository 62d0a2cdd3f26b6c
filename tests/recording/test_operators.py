"""Which of PyTorch's operators launched what."""

import numpy as np

from kernelscope.recording.operators import RawOperators, ThreadOperators, add_operators
from kernelscope.schema import UNKNOWN


def test_threads_that_only_cupti_sees() -> None:
    """Of those, such as autograd's, it says the lower 32 bits of their idents."""
    ident = 0x7F0012345678
    launches = {"thread_id": np.array([0, 1, 1]), "cell_id": np.array([UNKNOWN] * 3),
                "submit_start_ns": np.array([15, 15, 25]), "submit_end_ns": np.array([17, 17, 27])}
    raw = RawOperators([ThreadOperators(0x7F0000000001, [(-1, "aten::add")], np.array([[10, 0], [20, -1]])),
                        ThreadOperators(ident, [(-1, "MulBackward0"), (0, "aten::mul")],
                                        np.array([[10, 0], [14, 1], [20, 0], [30, -1]]))])
    rows = add_operators(launches, {}, raw, [{"ident": 0x7F0000000001}, {"ident": ident & 0xFFFFFFFF}], [])
    assert [rows[number]["path"] for number in launches["operator_id"]] == [
        "aten::add", "MulBackward0 / aten::mul", "MulBackward0"]
