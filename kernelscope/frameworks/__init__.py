"""One folder a framework: its hooks, and what explains its compiles; see `kernelscope.registry`."""
