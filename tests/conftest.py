"""For all tests: no deadlines, as machines are shared, and no luck; marks by what a test uses; and what runs side by side."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # the process that only distributes the tests needs none

# The same examples in every run: what fails does so where it was broken. By night they are drawn anew.
settings.register_profile("patient", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
gc.set_threshold(20_000, 20, 20)  # thousands of tests are millions of objects, which live until the end: see below

MEMORY = Path("/dev/shm")

# What one process runs from its first test to its last, since it shares what takes seconds to start; the longest first.
# Under each name how paths of files begin, and `@provider` for that provider's part of clusters/test_providers.py.
# Every other file is a unit of its own, and comes after these.
UNITS = {
    "spark": (
        "checkers/engine/",
        "checkers/anomalies/test_losses.py",
        "checkers/graph/test_cycles.py",
        "checkers/graph/test_history_graph.py",
        "checkers/selfcheck/test_selfcheck.py",
        "checkers/test_against_reference.py",
        "checkers/verdict/test_loss_settings.py",
        "checkers/verdict/test_sessions.py",
        "checkers/verdict/test_verdicts.py",
        "harness/data/test_on_spark.py",
        "examples/test_run_as_data.py",
        "e2e/test_histories.py",
        "e2e/test_runs_elsewhere.py",
    ),
    "runs": ("e2e/test_runs.py",),
    "docker": ("@docker", "clusters/docker/"),
    "ssh": ("@ssh", "clusters/ssh/"),
    "local": ("@local",),
    "kit": ("e2e/test_nemesis_check.py",),
    "other clusters": ("clusters/local/", "clusters/external/", "e2e/"),
    "installation": ("packaging/",),
    "browser": (
        "harness/report/test_browser",
        "harness/report/test_timeline_browser.py",
        "harness/report/test_timeline_modules.py",
        "harness/site/test_site_browser.py",
    ),
    "driver kit": ("harness/conformance/test_client_kit.py",),
    "rounds": ("harness/rounds/",),
}


@pytest.fixture(autouse=True, scope="session")
def unsynced_files() -> Iterator[None]:
    """`os.fsync` returns at once: no test cuts the power of the machine that it runs on, and each sync waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def plain_starts() -> Iterator[None]:
    """Drivers and instances that tests start do not ask the kernel to be killed with their parent.

    For that Python forks the tests' process, which is large: 20 ms for each of a hundred starts. Tests end what they start, and
    where it matters they start it in a process of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in ("fencepost.harness.drivers.process", "fencepost.harness.perform.instance"):
            patch.setattr(f"{module}.die_with", lambda _: None)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a process."""
    from fencepost.checkers.engine.session import start_session

    session = start_session("local[2]")
    yield session
    session.stop()


def pytest_configure(config: pytest.Config) -> None:
    """Without brokers the tests' files lie in memory, where there is room: thousands of small ones, which each run makes anew."""
    if "not cluster" in config.option.markexpr and _has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _has_room(folder: Path) -> bool:
    """Return whether programs may be written and executed there (not in a container, often), and a gigabyte is free."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    filesystem = os.statvfs(folder)
    return not filesystem.f_flag & os.ST_NOEXEC and filesystem.f_bavail * filesystem.f_frsize >= 1 << 30


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks `spark` what starts Spark, by the fixture or through the command line (e2e); and puts the longest units first."""
    for item in items:
        whole_runs = item.path.parent.name == "e2e"
        if "spark" in getattr(item, "fixturenames", ()) or whole_runs:
            item.add_marker("spark")
            if not whole_runs and unit(item.nodeid) != "spark":  # each process that has such a test starts a session
                raise pytest.UsageError(
                    f"{item.nodeid} uses the fixture spark: its file belongs to the unit of that name (UNITS)"
                )
    order = list(UNITS)
    items.sort(key=lambda item: order.index(name) if (name := unit(item.nodeid)) in UNITS else len(order))


@cache
def unit(nodeid: str) -> str:
    """The name of the unit that a test belongs to."""
    file, _, test = nodeid.removeprefix("tests/").partition("::")
    provider = re.search(r"\b(local|docker|ssh)\b", test) if file == "clusters/test_providers.py" else None
    place = f"@{provider[1]}" if provider else file
    return next((name for name, beginnings in UNITS.items() if place.startswith(beginnings)), file)


def pytest_collection_finish() -> None:
    """Freeze what was imported, which is never garbage: each full collection would spend a quarter of a second on it."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """One message about a test that passed, from the process that ran it to the one that counts: pytest-xdist sends five.

    Who asks for durations or for a file of all phases gets them all.
    """
    wants_all = any(item.config.getoption(name, None) is not None for name in ("durations", "xmlpath"))
    if wants_all or not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Units go to processes in their order: to whichever is free. Without tests that start Spark its files are as others."""
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            name = unit(nodeid)
            return nodeid.partition("::")[0] if name == "spark" and sparkless else name

        def _reschedule(self, node: Any) -> None:
            """Without the units that are over, which would be counted again after each test."""
            units = self.assigned_work[node]
            for name in [name for name, tests in units.items() if all(tests.values())]:
                del units[name]
            super()._reschedule(node)

        def _assign_work_unit(self, node: Any) -> None:
            """The last of several processes begins with what only computes: the others wait for brokers half of their time."""
            if len(self.nodes) > 2 and node is self.nodes[-1]:
                computing = next((name for name in self.workqueue if name not in UNITS), None)
                if computing is not None:
                    self.workqueue.move_to_end(computing, last=False)
            super()._assign_work_unit(node)

    sparkless = "not spark" in config.option.markexpr
    config.option.loadscopereorder = False
    return ByUnit(config, log)
