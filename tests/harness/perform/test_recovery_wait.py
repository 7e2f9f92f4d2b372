"""Waiting after healing until every client has succeeded again."""

from itertools import count
from types import SimpleNamespace

import pytest

from fencepost.harness.api import ClusterError, Isolation, Member, Outcome, Reader, Writer
from fencepost.harness.perform import performer
from fencepost.harness.perform import settling as settling_module
from fencepost.harness.perform.performer import Performance
from fencepost.harness.perform.recovery_wait import SlotCounts, Standing, StandingOffsets, answered, unrecovered
from fencepost.harness.perform.settling import Settling
from fencepost.harness.perform.stop_request import StopRequest

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


class Offsets:
    """End offsets of two partitions whose high watermarks rise with each look; in those that hang, the stable one stays."""

    all = ("t-0", "t-1")

    def __init__(self, hang=()):
        self.hang, self.looks = hang, 0

    def ends(self, isolation):
        self.looks += 1
        high = dict.fromkeys(self.all, self.looks + 10)
        return (
            high
            if isolation is Isolation.UNCOMMITTED
            else {name: 7 if name in self.hang else end - 2 for name, end in high.items()}
        )


def settling(offsets, most_s, receipts=(), emit=lambda _: None):
    """The waiting of a run with these end offsets."""
    return Settling(
        plan={},
        cluster=SimpleNamespace(),
        roles=ROLES,
        offsets=offsets,
        clock_jumps=SimpleNamespace(jumps=[]),
        most_s=most_s,
        number=count().__next__,
        emit=emit,
        receipts=dict(receipts),
    )


def waited(monkeypatch, pool, receipts=(0,), stop="", bound_s=140.0, hang=(), settle_s=20.0, receipt=None):
    """How long a performance waits, and what it says."""
    clock, said = Clock(), []
    monkeypatch.setattr(performer, "time", clock)
    performance = Performance.__new__(Performance)
    performance._plan, performance._roles = {"recovery": {"bound_s": bound_s}}, ROLES
    performance._receipts, performance._stop = {n: receipt or {} for n in receipts}, StopRequest()
    performance._stop.ask(stop)
    performance._instances, performance._conductors = set(), set()
    performance._offsets, performance._emit = Offsets(hang), said.append
    performance._settling = settling(performance._offsets, settle_s, performance._receipts, said.append)
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


@pytest.mark.parametrize(("settle_s", "most_s"), [(20.0, 20.5), (2.0, 10.5)])
def test_a_client_is_not_waited_for_where_a_transaction_hangs_for_longer_than_it_may(monkeypatch, settle_s, most_s):
    now, texts = waited(monkeypatch, Pool(never=[2]), hang=["t-1"], settle_s=settle_s)
    assert now == most_s
    assert texts[-1] == "the last stable offset of t-1 stays at 7: waiting no longer"
    assert waited(monkeypatch, Pool(), hang=["t-1"], settle_s=0.5)[0] <= 1, "all have succeeded: settling looks on"


def test_what_a_clock_that_was_ahead_has_stamped_has_its_time(monkeypatch):
    """Set right at 1 s, it had been 30 s ahead: so long a coordinator may keep a transaction open besides."""
    ahead = {"injected_ns": 1, "healed_ns": 1_000_000_000, "evidence": {"by_s": 30.0}}
    assert waited(monkeypatch, Pool(never=[2]), hang=["t-1"], receipt=ahead)[0] == 51.5


def looks(*answers):
    """What is known after each look, a second apart; None: nobody answers."""
    left = [each for each in answers for _ in range(1 if each is None else 2)]

    def ends(isolation):
        answer = left.pop(0)
        if answer is None:
            raise ClusterError("nobody answers")
        return {partition: pair[isolation is Isolation.UNCOMMITTED] for partition, pair in answer.items()}

    standing = StandingOffsets(ends)
    return [standing.longest(float(at)) for at in range(len(answers))]


def test_an_offset_stands_as_long_as_each_look_sees_it_in_the_same_place_below_its_high_watermark():
    stands, moves, whole = {"t-0": (5, 9)}, {"t-0": (6, 9)}, {"t-0": (9, 9)}
    assert looks(stands, stands, stands) == [("t-0", 5, 0.0)] * 3
    assert looks(stands, moves, moves) == [("t-0", 5, 0.0), ("t-0", 6, 1.0), ("t-0", 6, 1.0)]
    assert looks(stands, whole, stands) == [("t-0", 5, 0.0), None, ("t-0", 5, 2.0)]
    assert looks(stands, None, stands) == [("t-0", 5, 0.0), None, ("t-0", 5, 2.0)], "nobody saw it stand meanwhile"
    assert looks({**stands, "t-1": (1, 2)}, {**moves, "t-1": (1, 3)})[-1] == ("t-1", 1, 0.0)


class SettleWriter:
    """A history's writer that keeps what settling says."""

    def invoke(self, *_):
        self.said = {}

    def complete(self, outcome, _process, _number, _f, value, errors):
        self.said = {"outcome": outcome, **value}


@pytest.mark.parametrize(
    ("stuck", "outcome", "waited_s"),
    [
        (Standing("t-1", 7, 100.0 - 30), Outcome.INFO, 30.0),  # it stands: the bound has passed already
        (Standing("t-1", 5, 100.0 - 30), Outcome.INFO, 20.1),  # it has moved, and stands anew
        (None, Outcome.INFO, 20.1),
    ],
)
def test_settling_gives_no_second_bound_to_what_has_stood_for_one(monkeypatch, stuck, outcome, waited_s):
    clock = Clock()
    clock.now = 100.0
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    clock.monotonic_ns = lambda: round(clock.now * 1e9)
    monkeypatch.setattr(settling_module, "time", clock)
    wait, writer = settling(Offsets(["t-1"]), 20.0), SettleWriter()
    wait.stuck = stuck
    wait.await_stable_offsets(writer)
    assert (writer.said["outcome"], writer.said["bound_s"]) == (outcome, 20.0)
    assert writer.said["partitions"]["t-1"][0] == 7
    assert (writer.said["partitions"]["t-0"][0] == -1) == (waited_s == 30.0), "it was looked at once"
    assert writer.said["waited_s"] == pytest.approx(waited_s, abs=0.2)
