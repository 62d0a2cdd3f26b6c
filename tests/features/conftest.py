"""CUPTI's stand-in, for features that sample or measure."""

from cupti_fixtures import *  # noqa: F403 - fixtures
