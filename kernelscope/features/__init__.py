"""Features: each folder is one question about a recording, from its option and tables to what is shown of it.

`kernelscope.registry` finds them; nothing else names them, so that a folder can be removed.
"""

import importlib

# The schema takes in the tables of all features: it comes before the first of them.
importlib.import_module("kernelscope.schema")
