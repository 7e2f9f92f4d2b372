"""Waiting after healing until every client has succeeded again."""

from types import SimpleNamespace

import pytest

from fencepost.harness.api import Member, Outcome, Reader, Writer
from fencepost.harness.perform import performer
from fencepost.harness.perform.performer import Performance, StopRequest
from fencepost.harness.perform.recovery_wait import SlotCounts, answered, unrecovered

ROLES = (Writer(), Member(group="g"), Reader())


@pytest.mark.parametrize(
    ("f", "outcome", "value", "expected"),
    [
        ("txn", Outcome.OK, [["send", "t-0", 1]], True),
        ("txn", Outcome.FAIL, [["send", "t-0", 1]], False),
        ("initialise", Outcome.OK, {"cell": "x"}, True),
        ("poll", Outcome.OK, [["poll", {}, 5]], False),
        ("poll", Outcome.OK, [["poll", {"t-0": [[1, 2]]}, 5]], True),
        ("poll", Outcome.INFO, [["poll", {"t-0": [[1, 2]]}, 5]], False),
        ("poll", Outcome.OK, [["poll"]], False),
        ("seek", Outcome.OK, [], False),
    ],
)
def test_an_operation_shows_that_a_broker_answered(f, outcome, value, expected):
    assert answered(f, outcome, value) is expected


def test_each_kind_of_client_recovers_by_what_it_does():
    none = {slot: SlotCounts() for slot in range(3)}
    assert unrecovered(range(3), ROLES, none, none) == [0, 1, 2]
    polled = {slot: SlotCounts(ok=5) for slot in range(3)}
    assert unrecovered(range(3), ROLES, none, polled) == [0, 2], "a member may own no partition"
    failed = {slot: SlotCounts(ok=5, info=1) for slot in range(3)}
    assert unrecovered(range(3), ROLES, none, failed) == [0, 1, 2]
    assert unrecovered(range(3), ROLES, none, {slot: SlotCounts(ok=1, answered=1) for slot in range(3)}) == []


class Pool:
    """Clients of which some succeed with each look, and some never do."""

    def __init__(self, never=()):
        self.never, self.looks = set(never), 0

    def running(self, slots):
        return sorted(slots)

    def slot_counts(self):
        self.looks += 1
        return {slot: SlotCounts(info=self.looks, answered=0 if slot in self.never else self.looks // 2) for slot in range(3)}


class Clock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


def waited(monkeypatch, pool, receipts=(0,), stop="", bound_s=140.0):
    """How long a performance waits, and what it says."""
    clock, said = Clock(), []
    monkeypatch.setattr(performer, "time", clock)
    performance = Performance.__new__(Performance)
    performance._plan, performance._roles = {"recovery": {"bound_s": bound_s}}, ROLES
    performance._receipts, performance._stop = {n: {} for n in receipts}, StopRequest()
    performance._stop.ask(stop)
    performance._instances, performance._conductors = set(), set()
    performance._emit = said.append
    performance._supervise = lambda *_: setattr(clock, "now", clock.now + 0.5)
    performance._await_recovery(pool, SimpleNamespace(), 0.0)
    return clock.now, [event["text"] for event in said]


def test_nobody_waits_where_all_succeed(monkeypatch):
    now, texts = waited(monkeypatch, Pool())
    assert now <= 1
    assert texts == []


@pytest.mark.parametrize(
    ("fields", "most_s", "texts"),
    [
        ({}, 140.5, ["waiting up to 140 s for c0 to succeed again"]),
        ({"bound_s": 7200.0}, 300.5, ["waiting up to 300 s for c0 to succeed again"]),
        ({"receipts": ()}, 10.5, []),  # nothing was broken: nothing to recover from
        ({"stop": "Ctrl-C"}, 10.5, []),
    ],
)
def test_a_client_that_never_does_is_waited_for_within_the_bound(monkeypatch, fields, most_s, texts):
    assert waited(monkeypatch, Pool(never=[0]), **fields) == (most_s, texts)
