"""Launch-overhead studies: what a launch costs the host, in several versions of a framework, and what differs."""
