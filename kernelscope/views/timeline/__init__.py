"""The timeline of a recording: live, as static SVG, and as a trace for the Perfetto UI."""
