"""The drawing of an incident: lanes, arrows and notes; nothing that no event says."""

from __future__ import annotations

from fencepost.harness.report.incident_events import Event
from fencepost.harness.report.sequence import MOST_ARROWS, MOST_LANES, MOST_NOTES, sequence

ROLES = {"c1": "fp-1", "n1": "coordinator"}


def event(time, kind, where, to="", label="x", **fields):
    return Event(time=time, kind=kind, text=label, where=where, to=to, label=label, since=f"{time} s", **fields)


SEND, COMMIT = event(1, "send", "c1", "n2", "t-0@7"), event(2, "call", "c1", "n1", "commit", open=True)


def test_arrows_go_from_the_client_to_the_brokers_and_from_these_to_the_readers():
    drawn = sequence([SEND, COMMIT, event(3, "read", "c9", "n2", "t-0@7 read")], ROLES)
    at = {lane.name: lane.x for lane in drawn.lanes}
    assert list(at) == ["c1", "n1", "n2", "c9"]
    assert [(step.x1, step.x2) for step in drawn.steps] == [(at["c1"], at["n2"]), (at["c1"], at["n1"]), (at["n2"], at["c9"])]
    assert [step.open for step in drawn.steps] == [False, True, False]
    assert drawn.label == "1 s c1 to n2: t-0@7; 2 s c1 to n1: commit; 3 s n2 to c9: t-0@7 read"


def test_time_goes_down():
    steps = sequence([COMMIT, SEND], {}).steps
    assert [step.label for step in steps] == ["t-0@7", "commit"]
    assert steps[0].y < steps[1].y


def test_markers_of_one_decision_go_to_every_leader_and_to_itself():
    drawn = sequence([SEND, event(3, "marker", "n1", "n2", "COMMIT markers", also=("n1",))], {})
    marker, loop = drawn.steps[1:]
    assert (marker.label, marker.loop, loop.label, loop.loop) == ("COMMIT markers", False, "", True)
    assert marker.y == loop.y


def test_sends_of_one_fate_to_one_broker_are_one_arrow():
    sends = [event(n, "send", "c1", "n2", f"t-{n}: no ack", open=True) for n in range(3)]
    drawn = sequence([*sends, COMMIT], {})
    assert [step.label for step in drawn.steps] == ["t-0, t-1, t-2: no ack", "commit"]


def test_too_little_or_too_much_is_not_drawn():
    assert sequence([], {}) is None
    assert sequence([SEND], {}) is None
    assert sequence([event(n, "send", "c1", f"n{n}") for n in range(MOST_LANES)], {}) is None


def test_arrows_and_notes_have_a_bound():
    arrows = [event(n, "read", "c9", "n1", f"r{n}") for n in range(40)]
    notes = [event(100 + n, "error", "c9", "", f"e{n}") for n in range(40)]
    drawn = sequence([*arrows, *notes], {})
    assert sum(step.x1 != step.x2 for step in drawn.steps) == MOST_ARROWS
    assert len(drawn.steps) == MOST_ARROWS + MOST_NOTES


def test_a_note_at_a_node_without_a_lane_is_left_out():
    assert len(sequence([SEND, COMMIT, event(3, "error", "c7", "", "e")], {}).steps) == 2


def test_labels_lie_inside():
    long = event(5, "error", "c9", "", "y" * 400)
    drawn = sequence([SEND, COMMIT, event(3, "read", "c9", "n2"), long, event(4, "fault", "n2", "", "kill n2 begins")], {})
    assert all(0 < step.x <= drawn.width and len(step.label) <= 40 for step in drawn.steps)
    assert next(step for step in drawn.steps if step.kind == "error").anchor == "end"
