"""Interactive views of a recording: the timeline, its data on the wire, and the page that holds both."""
