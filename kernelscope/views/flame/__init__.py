"""The flame graph of a recording's call paths: as text, as static SVG and live."""
