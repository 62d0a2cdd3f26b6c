"""Pure functions from a `Recording` to data: totals, phases, reasons and advice. Nothing here prints.

Every function takes a recording and gives frozen dataclasses or Arrow tables; none changes the recording, and
none needs a GPU or a framework. The work on launches is vectorized, so that 100,000 of them cost milliseconds.
"""
