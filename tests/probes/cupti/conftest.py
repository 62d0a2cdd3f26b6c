"""CUPTI's stand-in, and a GPU of the dry run that it watches."""

from cupti_fixtures import *  # noqa: F403 - fixtures
