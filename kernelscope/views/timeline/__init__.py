"""The timeline of a recording: live, as a static picture, and as a trace for the Perfetto UI."""
