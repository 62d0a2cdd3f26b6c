"""The command line, notebooks and the server of `kernelscope mcp`."""

from command_fixtures import *  # noqa: F403 - fixtures
from mcp_fixtures import *  # noqa: F403 - fixtures
