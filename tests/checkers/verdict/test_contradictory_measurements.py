"""A measurement that contradicts itself is none: what rests on it is unknown, and nobody is accused."""

import json

import pytest
from support.histories import History, answer, violated, write_faults
from support.judging import judge_here
from support.reference import FlatHistory

SECOND = 1_000_000_000


def judged(tmp_path, h, *receipts, contract=None, **plan):
    if receipts:
        write_faults(tmp_path, *receipts)
    return judge_here(tmp_path, h.ops, contract, **plan)


# --------------------------------------------------------------------------------------------------
# Final reads
# --------------------------------------------------------------------------------------------------
def lost(span, type="ok"):
    """The final reads, of some span, lack a record of t-0, and one of t-1 the last record."""
    h = History()
    h.txn(0, {"t-0": [0]})
    h.txn(0, {"t-0": [2]})
    h.final({"t-0": [0]})
    for op in h.ops:
        if op["f"] == "final-read":
            op |= {"detail": json.dumps({"t-0": span, "t-1": [0, 9, 4]}), "type": type}
    return h


@pytest.mark.parametrize("span", [[9, 5, 5], [9, 5, 9], [5, 4, 4], [4, 3, 3000]])
def test_a_final_read_that_begins_above_its_end_is_none(tmp_path, span):
    h = lost(span)
    document = judged(tmp_path, h)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert "no complete read_committed final read of t-0" in document["weakened"]
    assert FlatHistory(h.ops).judged == set()


@pytest.mark.parametrize("type", ["ok", "info"])
def test_a_final_read_is_complete_where_it_came_to_the_end(tmp_path, type):
    """Whatever kept it from the end of another partition; so it ended `info`."""
    h = lost([0, 5, 5], type)
    document = judged(tmp_path, h)
    assert "lost-write" in violated(document)
    assert FlatHistory(h.ops).judged == {"t-0"}


def test_a_final_read_that_was_none_says_nothing(tmp_path):
    h = lost([0, 5, 5], "fail")
    document = judged(tmp_path, h)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert FlatHistory(h.ops).judged == set()


# --------------------------------------------------------------------------------------------------
# Settling
# --------------------------------------------------------------------------------------------------
def settled(pair, type="info", **fields):
    h = History()
    h.txn(0, {"t-0": [0]})
    h.settle({"t-0": pair, "t-1": [4, 4]}, type=type)
    h.ops[-1]["detail"] = json.dumps({**json.loads(h.ops[-1]["detail"]), **fields})
    h.final({"t-0": [0], "t-1": []})
    return h


def test_a_last_stable_offset_that_stayed_below_until_the_bound_had_passed_is_a_stall(tmp_path):
    for number, fields in enumerate([{}, {"waited_s": 30.0}, {"waited_s": 31}, {"waited_s": 29.9996}]):
        (tmp_path / str(number)).mkdir()
        assert violated(judged(tmp_path / str(number), settled([3, 5], **fields))) == ["lso-stall"]


@pytest.mark.parametrize(
    ("pair", "type", "fields"),
    [
        pytest.param([9, 5], "info", {}, id="it is above the high watermark"),
        pytest.param([9, 5], "ok", {}, id="it is above, and all was well"),
        pytest.param([3, 5], "ok", {}, id="it is below, although all had reached theirs"),
        pytest.param([3, 5], "fail", {}, id="nobody looked"),
        pytest.param([3, 5], "info", {"waited_s": 1.2}, id="the bound had not passed"),
        pytest.param([3, 5], "info", {"waited_s": 0.0}, id="nobody waited"),
    ],
)
def test_last_stable_offsets_that_contradict_the_rest(tmp_path, pair, type, fields):
    h = settled(pair, type, **fields)
    document = judged(tmp_path, h)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    row = answer(document, "lso-stall")
    assert (row["verdict"], "last stable offset of t-0" in row["reason"]) == ("unknown", True)
    assert FlatHistory(h.ops).settled.keys() == ({"t-1"} if type != "fail" else set())


@pytest.mark.parametrize("pair", [[3, 3], [9, 3]])
def test_what_was_written_after_settling_is_late_whatever_that_says(tmp_path, pair):
    """The ends up to which final readers read may have been measured then."""
    h = History()
    h.send(0, {"t-0": [0]})
    h.settle({"t-0": pair})
    h.send(0, {"t-0": [5]})
    h.final({"t-0": [0]}, end=3, position=3)
    document = judged(tmp_path, h, contract={"transactional": "false"})
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert FlatHistory(h.ops).written_late == {"t-0"}


# --------------------------------------------------------------------------------------------------
# Offsets of groups
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("offset", "name"), [(None, "torn-offset"), (-1, None), (-1001, None)])
def test_a_negative_offset_of_a_group_is_none(tmp_path, offset, name):
    h = History()
    h.txn(0, {"in-0": [0]})
    chain = {"partition": "in-0", "offset": 0, "v": h.v("in-0", 0), "output": None}
    h.txn(1, {}, chains=[chain], offsets=[{"partition": "in-0", "offset": 4}], role="member")
    h.final({"in-0": [0]})
    detail = json.dumps({"group": "g", "offsets": {"in-0": offset}})
    h.add(-1, "group-offsets", isolation=None, role="harness", detail=detail)
    document = judged(tmp_path, h, contract={"consumption": "subscribed"})
    assert violated(document) == [name] * bool(name)


@pytest.mark.parametrize(("offset", "told"), [(1, True), (None, True), (-1, False)])
def test_a_negative_offset_that_a_member_was_told_is_none(tmp_path, offset, told):
    h = History()
    h.txn(0, {"in-0": [0]})
    chain = {"partition": "in-0", "offset": 0, "v": h.v("in-0", 0), "output": None}
    h.txn(1, {}, chains=[chain], offsets=[{"partition": "in-0", "offset": 4}], role="member")
    h.add(2, "committed", role="member", detail=json.dumps({"offsets": {"in-0": offset}}))
    h.final({"in-0": [0]})
    document = judged(tmp_path, h, contract={"consumption": "subscribed"})
    assert (answer(document, "stale-offset")["verdict"] == "violated") == told


# --------------------------------------------------------------------------------------------------
# Answers of coordinators and leaders
# --------------------------------------------------------------------------------------------------
def listed(**changed):
    """Coordinators and leaders have a transaction open 30 s beyond its timeout; whether anything but that is said."""
    h = History()
    h.txn(0, {"t-0": [0]}, "info", end=None, decided=None, transactional_id="id")
    state = {"transactional_id": "id", "producer_id": 7, "epoch": 0, "state": "Ongoing", "timeout_ms": 5000, "started_ms": 1}
    for seconds in (10, 60):
        h.now = seconds * SECOND
        transaction = {**state, "partitions": ["t-0"], **changed}
        opened = [{"partition": "t-0", "producer_id": 7, "epoch": 0, "offset": changed.get("offset", 0)}]
        value = {"transactions": [transaction], "open": opened, "silent": changed.get("silent", []), "quiet_s": float(seconds)}
        h.add(-1, "list-transactions", isolation=None, role="harness", detail=json.dumps(value))
    h.final({"t-0": []})
    return h


def test_a_transaction_that_is_open_for_too_long_hangs(tmp_path):
    assert "hanging-transaction" in violated(judged(tmp_path, listed()))


@pytest.mark.parametrize("changed", [{"started_ms": -1}, {"timeout_ms": -5000}, {"offset": -1}, {"silent": ["n2"]}])
def test_an_answer_that_contradicts_itself_is_none(tmp_path, changed):
    """A transaction that is under way has not begun; one that is open has no record; all answered, and one did not."""
    document = judged(tmp_path, listed(**changed))
    assert violated(document) == []
    assert answer(document, "hanging-transaction")["verdict"] == "unknown"


# --------------------------------------------------------------------------------------------------
# Receipts
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("lasted_ns", "named"), [(1_000_000, True), (-1_000_000, False)])
def test_an_operators_call_that_ended_before_it_began_has_fenced_nobody(tmp_path, lasted_ns, named):
    h = History()
    h.add(0, "initialise", transactional_id="id")
    index = h.txn(0, {"t-0": [5]}, transactional_id="id")
    h.ops[index] |= {"decided": h.now + 2_000_000, "end": h.now + 3_000_000}
    call = {"transactional_id": "id", "began_ns": h.now, "ended_ns": h.now + lasted_ns}
    receipt = {"id": 0, "kind": "fence", "injected_ns": h.now, "evidence": json.dumps({"fencings": [call]})}
    h.now += 4_000_000
    h.final({"t-0": [5]})
    assert bool({"zombie-commit", "zombie-write"} & set(violated(judged(tmp_path, h, receipt)))) == named


@pytest.mark.parametrize(("known_ns", "judged_there"), [(2, True), (SECOND - 1, False)])
def test_a_topic_that_was_there_again_before_it_was_deleted(tmp_path, known_ns, judged_there):
    """Nobody knows what is of the new topic: nothing is compared there."""
    h = History()
    h.now = 2 * SECOND
    h.txn(0, {"t-0": [0]})
    h.final({"t-0": []})
    began_ns = 1 if judged_there else SECOND
    evidence = {"deletions": [{"topic": "t", "began_ms": 1, "began_ns": began_ns}]}
    healing = {"again": {"known_ms": 2, "known_ns": known_ns}}
    receipt = {"id": 0, "kind": "delete-topic", "injected_ns": began_ns, "healed_ns": 3 * SECOND}
    receipt |= {"evidence": json.dumps(evidence), "healing": json.dumps(healing)}
    plan = {"contract": {"topic_deletions": "records"}, "schedule": [{"kind": "delete-topic"}]}
    document = judged(tmp_path, h, receipt, **plan)
    assert ("lost-write" in violated(document), document["verdict"]) == (
        (True, "invalid") if judged_there else (False, "unknown")
    )


@pytest.mark.parametrize(("healed_s", "named"), [(4, True), (0, False), (2, False)])
def test_a_clock_that_was_right_again_before_it_was_wrong(tmp_path, healed_s, named):
    """It may be wrong still: coordinators may wait."""
    evidence = json.dumps({"by_s": 20.0})
    receipt = {"id": 0, "kind": "clock-skew", "injected_ns": 3 * SECOND, "healed_ns": healed_s * SECOND, "evidence": evidence}
    assert ("hanging-transaction" in violated(judged(tmp_path, listed(), receipt))) == named
