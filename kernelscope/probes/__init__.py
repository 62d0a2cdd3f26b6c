"""Probes: the only modules that know a framework. Each hooks one and writes what it sees to a sink."""
