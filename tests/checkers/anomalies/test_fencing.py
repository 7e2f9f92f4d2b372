"""Fenced instances: what they still commit or write, and commits that never happened; and innocent histories that look alike."""

from __future__ import annotations

import pytest
from support.histories import History, answer, finding, violated
from support.judging import judge_here
from support.reference import anomalies

ID = {"transactional_id": "id"}
NAMES = ("zombie-commit", "zombie-write", "false-ack")


def initialise(h, process, type="ok", **fields):
    return h.add(process, "initialise", type=type, **{**ID, **fields})


def interrupted(h, process, sends, interruption, type="ok", **fields):
    """A transaction that commits after something else, whose records were sent before it."""
    index = h.txn(process, sends, type, **{**ID, **fields})
    interruption()
    h.ops[index] |= {"decided": h.now, "end": h.now + 1}
    h.now += 1_000_000
    return index


def fenced(**fields):
    """Process 0 initialises, sends, is fenced by process 1, and commits."""
    h = History()
    initialise(h, 0)
    interrupted(h, 0, {"t-0": [5]}, lambda: initialise(h, 1), **fields)
    h.txn(1, {"t-0": [8]}, **ID)
    return h


def judged(tmp_path, h):
    document = judge_here(tmp_path, h.ops)
    return [name for name in violated(document) if name in (*NAMES, "lost-write")], document


def test_a_commit_after_the_fencing_that_shows_is_a_zombies(tmp_path):
    h = fenced()
    h.final({"t-0": [5, 8]})
    names, document = judged(tmp_path, h)
    assert names == ["zombie-commit"]
    zombie = finding(document, "zombie-commit")
    assert zombie["operations"] == [1, 2]
    assert "process 1 had finished initialising the same transactional id" in zombie["sentence"]


def test_so_is_one_of_unknown_outcome_that_shows(tmp_path):
    h = fenced(type="info")
    h.final({"t-0": [5, 8]})
    assert judged(tmp_path, h)[0] == ["zombie-commit"]


def test_a_refused_commit_that_shows_nothing_is_what_fencing_is_for(tmp_path):
    h = fenced(type="info")
    h.final({"t-0": [8]}, {"t-0": [5, 8]})
    names, document = judged(tmp_path, h)
    assert names == []
    assert answer(document, "zombie-commit")["compared"] == 1


def test_an_acknowledged_commit_of_a_fenced_instance_that_shows_nothing_is_a_false_acknowledgement_and_no_loss(tmp_path):
    """Even if no log holds its records: they were refused."""
    for held in ([5, 8], [8]):
        h = fenced()
        h.final({"t-0": [8]}, {"t-0": held})
        names, document = judged(tmp_path, h)
        assert names == ["false-ack"]
        assert "had fenced it" in finding(document, "false-ack")["sentence"]


def test_a_record_sent_after_the_fencing_is_a_zombies_write_and_not_also_its_commit(tmp_path):
    h = History()
    initialise(h, 0)
    initialise(h, 1)
    h.txn(0, {"t-0": [5]}, **ID)
    h.txn(1, {"t-0": [8]}, **ID)
    h.final({"t-0": [5, 8]})
    names, document = judged(tmp_path, h)
    assert names == ["zombie-write"]
    assert finding(document, "zombie-write")["includes"] == ["zombie-commit"]


def test_another_id_or_an_instance_that_may_have_come_first_fences_no_instance(tmp_path):
    for fields in ({"transactional_id": "other"}, {"type": "info"}, {"time": 1}):
        h = History()
        initialise(h, 0)
        interrupted(h, 0, {"t-0": [5]}, lambda h=h, fields=fields: initialise(h, 1, **fields))
        h.final({"t-0": [5]})
        names, document = judged(tmp_path, h)
        assert (names, answer(document, "zombie-commit")["verdict"]) == ([], "not exercised")


def test_an_instance_that_initialises_again_is_a_new_one(tmp_path):
    h = History()
    for process in (0, 1, 0):
        initialise(h, process)
    h.txn(0, {"t-0": [5]}, **ID)
    h.final({"t-0": [5]})
    assert judged(tmp_path, h)[0] == []


def test_a_transaction_that_only_read_uncommitted_returns_was_never_committed(tmp_path):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [3]})
    h.txn(1, {"t-0": [8], "t-1": [6]})
    h.final({"t-0": [8], "t-1": [6]}, {"t-0": [5, 8], "t-1": [6]})
    names, document = judged(tmp_path, h)
    assert names == ["false-ack"]
    assert len(finding(document, "false-ack")["records"]) == 2


def test_a_transaction_that_no_reader_returns_is_lost_and_one_that_a_reader_got_was_committed(tmp_path):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [8]})
    h.poll(3, {"t-0": [8]})
    h.final({"t-0": []}, {"t-0": [8]})
    assert judged(tmp_path, h)[0] == ["lost-write"]


def test_without_an_initialise_no_zombie_is_looked_for(tmp_path):
    h = History()
    h.txn(0, {"t-0": [5]}, **ID)
    h.final({"t-0": [5]})
    document = judged(tmp_path, h)[1]
    assert "no `initialise` operation" in answer(document, "zombie-write")["reason"]


def pool(transactional_id, interruption=None):
    """A process with two producers, of whose ids another process takes over the second one; and a transaction of one of them."""
    h = History()
    for own in ("id", "id-p1"):
        initialise(h, 0, transactional_id=own)
    if interruption:
        interrupted(h, 0, {"t-0": [5]}, lambda: initialise(h, 1, transactional_id="id-p1"), transactional_id=transactional_id)
    else:
        initialise(h, 1, transactional_id="id-p1")
        h.txn(0, {"t-0": [5]}, transactional_id=transactional_id)
    return h


@pytest.mark.parametrize(
    ("transactional_id", "late", "expected"),
    [
        ("id", False, []),
        ("id", True, []),
        ("id-p1", False, ["zombie-write"]),
        ("id-p1", True, ["zombie-commit"]),
        ("id-p2", False, []),
        (None, False, []),
    ],
)
def test_of_several_producers_of_a_process_each_is_fenced_by_itself(tmp_path, transactional_id, late, expected):
    h = pool(transactional_id, late)
    h.final({"t-0": [5]})
    assert judged(tmp_path, h)[0] == expected
    slow = anomalies(sorted(h.ops, key=lambda op: op["time"]))
    assert {name for name in NAMES if slow[name]} == set(expected)


def test_an_instance_of_another_producer_of_the_process_excuses_no_zombie(tmp_path):
    """It initialised its second id after the first one had been taken from it."""
    h = History()
    initialise(h, 0)
    initialise(h, 1)
    initialise(h, 0, transactional_id="id-p1")
    h.txn(0, {"t-0": [5]}, **ID)
    h.final({"t-0": [5]})
    assert judged(tmp_path, h)[0] == ["zombie-write"]


def test_an_error_of_another_producer_of_the_process_is_none_of_a_fenced_one(tmp_path):
    h = pool("id")
    error = {"call": "commit", "name": "INVALID_PRODUCER_EPOCH", "code": 47, "text": "", "time": h.now - 1}
    h.ops[-1] |= {"type": "info", "errors": [{**error, "fatal": False, "retriable": True, "abortable": False}]}
    h.final({"t-0": []}, {"t-0": [5]})
    assert "wrong-error" not in violated(judge_here(tmp_path, h.ops))


def test_one_initialise_of_a_process_opens_all_of_its_producers(tmp_path):
    """As the harness records it: a process that takes the place of another one fences each of its producers."""
    h = History()
    initialise(h, 0)
    initialise(h, 1)
    h.txn(0, {"t-0": [5]}, transactional_id="id-p1")
    h.final({"t-0": [5]})
    assert judged(tmp_path, h)[0] == ["zombie-write"]
    assert anomalies(h.ops)["zombie-write"]
