"""The plan's entry of workers of Kafka Connect."""

from __future__ import annotations

import pytest

from fencepost.harness.api import ConnectInstance, ConnectWorker
from fencepost.harness.planning.plan import _connect_plan

NOWHERE = "0.0.0"  # a version of which no jars are in the cache


def planned(*settings):
    workers = [ConnectWorker(version=NOWHERE, settings=tuple(own.items())) for own in settings]
    return _connect_plan([ConnectInstance(connect=worker) for worker in workers])


def test_versions_that_workers_may_change_to_are_in_the_plan():
    role = ConnectInstance(connect=ConnectWorker(version=NOWHERE, upgrades=("0.0.1", NOWHERE)))
    assert _connect_plan([role, role]) == {NOWHERE: {"fencing_s": 165.0}, "0.0.1": {"fencing_s": 165.0}}


@pytest.mark.parametrize(
    ("slow", "expected"), [("70000", {"fencing_s": 285.0}), ("${file:/run/connect:rebalance}", {})], ids=["known", "unknown"]
)
def test_a_round_of_fencing_may_take_as_long_as_by_the_slowest_worker(slow, expected):
    assert planned({}, {"rebalance.timeout.ms": slow}) == {NOWHERE: expected}
