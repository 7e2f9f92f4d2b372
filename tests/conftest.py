"""For all tests: machines are shared, so nothing is held to a time; and what may run side by side (`make test`)."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
ROOM = Path(__file__).parent
CLUSTERS = ("clusters", "e2e")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process has real clusters, one after the other; meanwhile another has Spark, and then all the rest, file by file."""
    for item in items:
        folder = item.path.relative_to(ROOM).parts[0]
        group = "clusters" if folder in CLUSTERS else folder if folder == "checkers" else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))
