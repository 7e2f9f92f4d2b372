"""For all tests: machines are shared, so nothing is held to a time; and what may run side by side (`make test`)."""

from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
TOGETHER = {"clusters": "clusters", "e2e": "clusters", "checkers": "checkers"}  # folder -> what runs one after the other


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process has the real clusters; meanwhile another has Spark, and then all the rest, file by file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return TOGETHER.get(file.split("/")[1], file)

    return ByRoom(config, log)
