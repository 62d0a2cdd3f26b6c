"""What all tests of commands share."""

from command_fixtures import *  # noqa: F403 - fixtures
from mcp_fixtures import *  # noqa: F403 - fixtures
