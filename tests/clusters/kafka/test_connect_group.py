"""Who does what among Connect's workers, by the coordinator's answer in literal bytes (DescribeGroups 0, KIP-415)."""

import struct

import pytest
from support.fake_broker import broker, ints, text

from clusters.kafka.connect_group import duties
from clusters.kafka.roles import WireRoles
from harness.api import ClusterError, ConnectDuties

LEADER = "http://10.0.0.1:8083/"


class Roles(WireRoles):
    def group_coordinator(self, group):
        return "n1"


def data(content):
    return ints(len(content)) + content


def member(url, assigned):
    """A worker with connectors and the numbers of their tasks; None: a rebalance is under way."""
    metadata = struct.pack(">h", 2) + text(url) + struct.pack(">q", 9)
    duties = b"".join(text(name) + ints(len(numbers), *numbers) for name, numbers in (assigned or {}).items())
    assignment = struct.pack(">hh", 2, 0) + text("m") + text(LEADER) + struct.pack(">q", 9) + ints(len(assigned or {})) + duties
    return text("m") + text("c") + text("/10.0.0.1") + data(metadata) + data(b"" if assigned is None else assignment)


def reply(error, *members):
    words = [text(word) for word in ("g", "Stable", "connect", "sessioned")]
    return ints(1) + struct.pack(">h", error) + b"".join(words) + ints(len(members)) + b"".join(members)


def asked(content):
    with broker(content) as (address, heard):
        found = duties(Roles(names={}, brokers={"n1": address}, controllers={}), "g")
    assert heard == [struct.pack(">hhi", 15, 0, 1) + text("fencepost") + ints(1) + text("g")]
    return found


def test_each_worker_has_its_connectors_and_tasks_and_one_leads():
    found = asked(reply(0, member(LEADER, {"s": [-1, 2]}), member("http://10.0.0.2:8084/", {"s": [0, 1], "r": [0]})))
    assert found == {
        "http://10.0.0.1:8083": ConnectDuties(leads=True, connectors=("s",), tasks=(("s", 2),)),
        "http://10.0.0.2:8084": ConnectDuties(leads=False, tasks=(("s", 0), ("s", 1), ("r", 0))),
    }


def test_a_worker_in_a_rebalance_has_no_duties():
    assert asked(reply(0, member(LEADER, None))) == {}


def test_a_group_that_is_not_known_is_an_error():
    with pytest.raises(ClusterError, match="error 16"):
        asked(reply(16))
