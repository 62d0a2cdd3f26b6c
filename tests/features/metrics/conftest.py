"""The server of `kernelscope mcp`."""

from mcp_fixtures import *  # noqa: F403 - fixtures
