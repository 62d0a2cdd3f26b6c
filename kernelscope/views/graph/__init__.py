"""CUDA graphs: layout, text, picture and widget."""
