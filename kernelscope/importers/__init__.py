"""One folder a format of other tools' traces, which it reads as recordings; see `kernelscope.registry`."""
