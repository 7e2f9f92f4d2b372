"""Duties of Connect's workers, by the coordinator's answer in literal bytes (DescribeGroups 0, KIP-415)."""

import struct

import pytest
from support.fake_broker import broker, ints, text

from fencepost.clusters.kafka.connect_group import duties
from fencepost.clusters.kafka.roles import WireRoles
from fencepost.harness.api import ClusterError, ConnectDuties

LEADER = "http://10.0.0.1:8083/"


class Roles(WireRoles):
    def group_coordinator(self, group):
        return "n1"


def data(content):
    return ints(len(content)) + content


def connectors(numbers):
    """Connectors with the numbers of their tasks."""
    return ints(len(numbers)) + b"".join(text(name) + ints(len(tasks), *tasks) for name, tasks in numbers.items())


def allocation(assigned, revoked):
    header = struct.pack(">hh", 2, 0) + text("m") + text(LEADER) + struct.pack(">q", 9)
    return header + connectors(assigned) + connectors(revoked) + ints(0)


def member(url, assigned, held=None, revoked=()):
    """A worker that held some tasks, gives up some and gets some. assigned None: a rebalance is under way."""
    metadata = (
        struct.pack(">h", 2) + text(url) + struct.pack(">q", 9) + (ints(-1) if held is None else data(allocation(held, {})))
    )
    assignment = b"" if assigned is None else allocation(assigned, dict(revoked))
    return text("m") + text("c") + text("/10.0.0.1") + data(metadata) + data(assignment)


def eager_member(url, assigned):
    """A worker of `connect.protocol=eager`: it gives up everything before each rebalance."""
    metadata = struct.pack(">h", 0) + text(url) + struct.pack(">q", 9)
    header = struct.pack(">hh", 0, 0) + text("m") + text(LEADER) + struct.pack(">q", 9)
    return text("m") + text("c") + text("/10.0.0.1") + data(metadata) + data(header + connectors(assigned))


def reply(error, *members):
    words = [text(word) for word in ("g", "Stable", "connect", "sessioned")]
    return ints(1) + struct.pack(">h", error) + b"".join(words) + ints(len(members)) + b"".join(members)


def duties_from(content):
    with broker(content) as (address, heard):
        answered = duties(Roles(names={}, brokers={"n1": address}, controllers={}), "g")
    assert heard == [struct.pack(">hhi", 15, 0, 1) + text("fencepost") + ints(1) + text("g")]
    return answered


def test_each_worker_has_its_connectors_and_tasks_and_one_leads():
    workers = duties_from(reply(0, member(LEADER, {"s": [-1, 2]}), member("http://10.0.0.2:8084/", {"s": [0, 1], "r": [0]})))
    assert workers == {
        "http://10.0.0.1:8083": ConnectDuties(leads=True, connectors=("s",), tasks=(("s", 2),)),
        "http://10.0.0.2:8084": ConnectDuties(leads=False, tasks=(("r", 0), ("s", 0), ("s", 1))),
    }


def test_a_rebalance_that_moves_nothing_assigns_nothing_and_each_worker_keeps_what_it_held():
    workers = duties_from(reply(0, member(LEADER, {}, held={"s": [-1, 0]})))
    assert workers == {"http://10.0.0.1:8083": ConnectDuties(leads=True, connectors=("s",), tasks=(("s", 0),))}


def test_what_a_worker_gives_up_it_has_no_longer():
    workers = duties_from(reply(0, member(LEADER, {"r": [1]}, held={"s": [-1, 0, 1]}, revoked={"s": [-1, 1]})))
    assert workers == {"http://10.0.0.1:8083": ConnectDuties(leads=True, tasks=(("r", 1), ("s", 0)))}


def test_an_eager_worker_has_what_it_was_assigned():
    workers = duties_from(reply(0, eager_member(LEADER, {"s": [-1, 0]})))
    assert workers == {"http://10.0.0.1:8083": ConnectDuties(leads=True, connectors=("s",), tasks=(("s", 0),))}


def test_a_worker_in_a_rebalance_has_no_duties():
    assert duties_from(reply(0, member(LEADER, None))) == {}


def test_a_group_that_is_not_known_is_an_error():
    with pytest.raises(ClusterError, match="error 16"):
        duties_from(reply(16))
