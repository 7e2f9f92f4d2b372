"""The museum's own workloads (`campaigns/museum_workloads.py`): which keys their records have, and when a process ends."""

import importlib.util
import sys
from pathlib import Path

import pytest

from fencepost.harness.api import Outcome, PlannedOperation
from fencepost.workloads.testing.fake_client import FakeClient, error, perform

PATH = Path(__file__).parents[2] / "campaigns" / "museum_workloads.py"
SENDS = tuple(("send", f"t-{number}") for number in range(4))


@pytest.fixture(scope="module")
def museum():
    spec = importlib.util.spec_from_file_location("museum_workloads", PATH)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def transaction(intent="commit"):
    return PlannedOperation(f="txn", mops=SENDS, intent=intent)


def test_some_records_have_the_key_of_a_marker_and_all_others_one_of_their_own(museum):
    workload, keys = museum.MarkerKeys(every=20), []
    for process in range(4):
        for number in range(25):
            _, op = perform(workload, transaction(), FakeClient(), process, number)
            keys += [workload.content(op, seq, "run1").key for seq in range(4)]
    markers = [key for key in keys if key in museum.MARKER_KEYS]
    assert set(markers) == {b"\0\0\0\0", b"\0\0\0\1"}
    assert len(keys) / 40 < len(markers) < len(keys) / 10
    assert len(set(keys)) == len(keys) - len(markers) + 2


@pytest.mark.parametrize(("number", "renew"), [(0, False), (9, False), (10, True)])
def test_a_process_ends_after_its_transactions(museum, number, renew):
    outcome, op = perform(museum.MarkerKeys(lives=10), transaction(), FakeClient(), 1, number)
    assert (outcome, op.renew) == (Outcome.OK, renew)


@pytest.mark.parametrize(
    ("number", "intent", "undelivered", "renew"),
    [
        (5, "abort", [error("deliver", "_PURGE_QUEUE")], True),
        (4, "abort", [error("deliver", "_PURGE_QUEUE")], False),
        (5, "abort", [], False),
        (5, "commit", [], False),
    ],
)
def test_a_process_ends_when_it_aborted_records_that_were_given_up(museum, number, intent, undelivered, renew):
    workload = museum.LastAbort(think_ms=0, settled=5)
    _, op = perform(workload, transaction(intent), FakeClient({"deliver": undelivered}), 1, number)
    assert op.renew == renew
