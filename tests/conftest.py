"""For all tests: machines are shared, so nothing is held to a time."""

from hypothesis import settings

settings.register_profile("patient")
settings.load_profile("patient")
