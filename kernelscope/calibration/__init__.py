"""What recording costs a launch on this machine: measured by ``kernelscope doctor --calibrate``, stored, looked up.

`kernelscope.studies.calibrate` measures; this package keeps what was measured and finds it again. It needs neither a
probe nor NumPy.
"""

from __future__ import annotations

from kernelscope.calibration.files import Stored, calibration_file, store, stored
from kernelscope.calibration.model import Calibration, Cost, Interval, Setting, Tail

__all__ = ["Calibration", "Cost", "Interval", "Setting", "Stored", "Tail", "calibration_file", "store", "stored"]
