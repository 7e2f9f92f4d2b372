"""The driver of aiokafka, with a library in memory."""

from __future__ import annotations

import base64
import shutil
import sys
import time
from pathlib import Path

import pytest

from fencepost.harness.api import CallError
from fencepost.harness.drivers.process import DriverProcess
from fencepost.workloads.clients import python_packages

DRIVER = Path(python_packages.__file__).parent.parent / "drivers" / "python" / "aiokafka_driver.py"
PATIENCE_S = 60.0
SETTINGS = {"name": "c0", "bootstrap": "nowhere:1", "group": "g"}


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
    driver.call("open", timeout_ms=60_000, **SETTINGS, transactional_id=None, producer=None, consumer={})
    driver.call("assign", positions={"t-0": "start"})
    deadline = time.monotonic() + PATIENCE_S
    while not (ends := driver.call("poll", timeout_ms=10, limit=10)["ends"]) and time.monotonic() < deadline:
        pass
    assert ends == {"t-0": 7}


def write(driver, number, value):
    record = {"topic": "t", "partition": 0, "key": None, "value": base64.b64encode(value).decode(), "headers": []}
    driver.call("begin")
    driver.call("send", record=number, **record)
    driver.call("commit", timeout_ms=60_000)


def test_a_transaction_whose_record_was_given_up_is_not_committed(driver):
    """aiokafka would commit it: the fate of a record is for the application to look at. The next transaction is another."""
    driver.call("open", timeout_ms=60_000, **SETTINGS, transactional_id="c0", producer={}, consumer=None)
    with pytest.raises(CallError) as error:
        write(driver, 1, b"lost")
    assert (error.value.name, error.value.abortable, error.value.retriable) == ("OutOfOrderSequenceNumber", True, False)
    driver.call("abort", timeout_ms=60_000)
    write(driver, 2, b"x")
