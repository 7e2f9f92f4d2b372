"""Instances that an operator fenced: what they may not do any more, which errors they may get, and what is unknown."""

from __future__ import annotations

import json

from support.histories import History, answer, finding, violated, write_faults
from support.judging import judge_here

ID = {"transactional_id": "id"}
STRICT = {"strict_errors": "true"}
REFUSED = {"call": "commit", "name": "_FENCED", "code": -144, "fatal": True, "retriable": False, "abortable": False}


def fenced(ended=True, **fields):
    """Process 0 initialises, sends, is fenced by an operator, and commits: the history, and the fault's receipt."""
    h = History()
    h.add(0, "initialise", **ID)
    index = h.txn(0, {"t-0": [5]}, **{**ID, **fields})
    began = h.now
    h.ops[index] |= {"decided": began + 2_000_000, "end": began + 3_000_000}
    h.ops[index]["errors"] = [{**error, "time": began + 2_500_000} for error in h.ops[index]["errors"]]
    h.now = began + 4_000_000
    call = {"transactional_id": "id", "began_ns": began, "ended_ns": began + 1_000_000 if ended else None}
    return h, {"id": 0, "kind": "fence-producers", "injected_ns": began, "evidence": json.dumps({"fencings": [call]})}


def judged(tmp_path, h, receipt=None, **more):
    if receipt is not None:
        write_faults(tmp_path, receipt)
    return judge_here(tmp_path, h.ops, **more)


def test_a_commit_after_an_operators_fencing_that_shows_is_a_zombies(tmp_path):
    h, receipt = fenced()
    h.final({"t-0": [5]})
    document = judged(tmp_path, h, receipt)
    assert "zombie-commit" in violated(document)
    zombie = finding(document, "zombie-commit")
    assert zombie["operations"] == [1]
    assert "an operator had fenced the transactional id 1.0 ms before" in zombie["sentence"]


def test_an_acknowledged_one_that_shows_nothing_is_a_false_acknowledgement(tmp_path):
    h, receipt = fenced()
    h.final({"t-0": []}, {"t-0": [5]})
    document = judged(tmp_path, h, receipt)
    assert "false-ack" in violated(document)
    assert "an operator had fenced it 1.0 ms before" in finding(document, "false-ack")["sentence"]


def test_what_may_not_have_happened_forbids_nothing(tmp_path):
    h, receipt = fenced(ended=False)
    h.final({"t-0": [5]})
    assert violated(judged(tmp_path, h, receipt)) == []


def test_a_fencing_that_began_before_the_instance_did_has_not_fenced_it(tmp_path):
    h, receipt = fenced()
    h.final({"t-0": [5]})
    receipt["evidence"] = receipt["evidence"].replace(str(receipt["injected_ns"]), str(h.ops[0]["time"]))
    assert violated(judged(tmp_path, h, receipt)) == []


def test_a_client_with_a_fencing_error_was_fenced_by_an_operator_or_may_have_been(tmp_path):
    """Without the receipt the same error accuses the client: no other instance had initialised since."""
    for ended in (True, False):
        h, receipt = fenced(ended=ended, type="info", errors=[REFUSED])
        assert "wrong-error" not in violated(judged(tmp_path, h, receipt, contract=STRICT))
    (tmp_path / "faults.parquet").unlink()
    assert "wrong-error" in violated(judged(tmp_path, h, contract=STRICT))


def test_without_the_receipts_of_planned_faults_nothing_is_violated(tmp_path):
    h, _ = fenced(type="info", errors=[REFUSED])
    document = judged(tmp_path, h, contract=STRICT, schedule=[{"id": 0, "kind": "fence-producers"}])
    assert answer(document, "wrong-error")["verdict"] != "violated"
