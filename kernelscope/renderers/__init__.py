"""Renderers: a recording to text and to HTML. They print what `kernelscope.analysis` found, and know no probe."""
