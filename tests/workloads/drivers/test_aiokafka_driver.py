"""The driver of aiokafka, with a library in memory."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from harness.drivers.process import DriverProcess
from workloads.clients import python_packages

DRIVER = Path(python_packages.__file__).parent.parent / "drivers" / "python" / "aiokafka_driver.py"
PATIENCE_S = 30.0


@pytest.fixture
def driver(tmp_path):
    package = tmp_path / "aiokafka"
    package.mkdir()
    shutil.copy(Path(__file__).with_name("fake_aiokafka.py"), package / "__init__.py")
    process = DriverProcess([sys.executable, str(DRIVER), str(tmp_path)])
    process.start()
    yield process
    process.end()


def test_a_seek_to_the_start_looks_for_a_new_leader_until_it_has_found_one(driver):
    """aiokafka asks a former leader again and again, until its metadata are five minutes old."""
    settings = {"name": "c0", "bootstrap": "nowhere:1", "transactional_id": None, "group": "g", "producer": None, "consumer": {}}
    driver.call("open", timeout_ms=1000, **settings)
    driver.call("assign", positions={"t-0": "start"})
    deadline = time.monotonic() + PATIENCE_S
    while not (ends := driver.call("poll", timeout_ms=10, limit=10)["ends"]) and time.monotonic() < deadline:
        pass
    assert ends == {"t-0": 7}
