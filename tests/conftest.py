"""For all tests: machines are shared, so nothing is held to a time; and what may run side by side (`make test`)."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
TOGETHER = {  # folder or file -> what runs one after the other
    "clusters": "clusters",
    "e2e": "clusters",
    "e2e/test_histories.py": "checkers",
    "e2e/test_runs_elsewhere.py": "checkers",
    "checkers": "checkers",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a process."""
    from checkers.spark.session import start_session

    session = start_session("local[2]")
    yield session
    session.stop()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process has the real clusters; meanwhile another has Spark, and then all the rest, file by file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return TOGETHER.get(file.removeprefix("tests/")) or TOGETHER.get(file.split("/")[1], file)

    return ByRoom(config, log)
