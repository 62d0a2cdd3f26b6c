"""CUDA graphs: layout, text, SVG and widget."""
