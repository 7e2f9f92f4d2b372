"""A topic of a workload that was deleted and created again: what was sent before every broker knew it again is left out."""

import json

import pytest
from support.histories import History, answer, violated, write_faults
from support.judging import judge_here

from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import write_damage


def deletion(known_ns, topic="t"):
    evidence = {"deletions": [{"topic": topic, "began_ms": 1}]}
    healing = {"again": {"known_ms": 2, "known_ns": known_ns} if known_ns is not None else {}}
    return {"id": 0, "kind": "delete-topic", "evidence": json.dumps(evidence), "healing": json.dumps(healing), "injected_ns": 1}


def judged(folder, h, *receipts, contract="records", **more):
    write_faults(folder, *receipts)
    return judge_here(folder, h.ops, {"topic_deletions": contract, **more}, schedule=[{"kind": "delete-topic"}])


def story(*last):
    """A story in which t-0 loses its offsets 0 to 9 and begins again; u-0 stays. last: offsets in t-0 of the last transaction."""
    h = History()
    h.txn(0, {"t-0": [1, 2], "u-0": [1]})
    h.poll(1, {"t-0": [1, 2]})
    h.txn(0, {"t-0": [7], "u-0": [3]})
    open_then = h.txn(2, {"t-0": [9]})
    late = [mop[2] for mop in h.ops[open_then]["mops"]]
    known = h.now
    h.txn(0, {"t-0": [0], "u-0": [5]})
    h.poll(1, {"t-0": [(1, late[0])]})
    h.txn(0, {"t-0": list(last) or [3]})
    h.final({"t-0": [0, (1, late[0]), *(offset for offset in last or [3] if offset < 100)], "u-0": [1, 3, 5]})
    return h, deletion(known)


def test_without_the_deletion_all_of_it_would_be_violations(tmp_path):
    h, _ = story()
    assert {"lost-write", "inconsistent-offset"} & set(violated(judged(tmp_path, h)))


def test_what_was_sent_before_the_topic_was_back_is_left_out(tmp_path):
    h, receipt = story()
    document = judged(tmp_path, h, receipt)
    assert violated(document) == []
    assert answer(document, "lost-write")["compared"] == 5  # of u-0 three, of t-0 the two later ones
    assert document["weakened"][-1].startswith("t was deleted: ")
    assert (tmp_path / RunFile.PRESENT).exists()


def test_what_is_lost_in_the_new_topic_is_lost(tmp_path):
    h, receipt = story(3, 100)
    assert "lost-write" in violated(judged(tmp_path, h, receipt))


def test_another_topic_is_judged_as_ever(tmp_path):
    h, receipt = story()
    h.ops = [
        op if op["f"] != "poll" or not op["final"] else {**op, "mops": [m for m in op["mops"] if m[1:4:2] != ("u-0", 3)]}
        for op in h.ops
    ]
    assert "lost-write" in violated(judged(tmp_path, h, receipt))


def test_where_the_time_of_recreation_is_unknown_nothing_of_the_topic_is_compared(tmp_path):
    h, _ = story(3, 100)
    document = judged(tmp_path, h, deletion(None))
    assert violated(document) == []
    assert answer(document, "lost-write")["compared"] == 3


@pytest.mark.parametrize("more", [{"consumption": "subscribed"}, {"application": "exactly-once"}])
def test_what_a_group_made_of_a_deleted_topic_is_not_known(tmp_path, more):
    h, receipt = story(3, 100)
    document = judged(tmp_path, h, receipt, **more)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert answer(document, "lost-write")["reason"].startswith("the input or the output of a group was deleted")


def test_without_receipts_nothing_is_compared(tmp_path):
    h, _ = story()
    (tmp_path / "faults.parquet").unlink(missing_ok=True)
    document = judge_here(tmp_path, h.ops, {"topic_deletions": "records"}, schedule=[{"kind": "delete-topic"}])
    assert (document["verdict"], violated(document)) == ("unknown", [])


def test_without_the_contract_the_whole_history_is_judged(tmp_path):
    h, receipt = story()
    assert violated(judged(tmp_path, h, receipt, contract=""))
    assert not (tmp_path / RunFile.PRESENT).exists()


def test_what_held_elsewhere_is_no_answer_for_a_topic_whose_recreation_nobody_saw(tmp_path):
    """A real loss in the topic after it was back is not compared; so the run is not valid, but unknown."""
    h, _ = story(3, 100)
    document = judged(tmp_path, h, deletion(None))
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert answer(document, "lost-write")["reason"].startswith("when every broker knew t again, which was deleted, is not known")


def test_a_loss_in_another_topic_is_found_also_then(tmp_path):
    h, _ = story()
    h.ops = [
        op if op["f"] != "poll" or not op["final"] else {**op, "mops": [m for m in op["mops"] if m[1:4:2] != ("u-0", 3)]}
        for op in h.ops
    ]
    assert "lost-write" in violated(judged(tmp_path, h, deletion(None)))


def test_a_history_of_others_without_receipts_says_nothing_of_deleted_topics(tmp_path):
    h, _ = story()
    contract = {"topic_deletions": "records"}
    document = judge_here(tmp_path, h.ops, contract, source={"path": "x", "format": "fencepost-parquet", "receipts": False})
    assert (document["verdict"], violated(document)) == ("unknown", [])


def test_receipts_without_a_deletion_say_that_there_was_none(tmp_path):
    h, _ = story()
    write_faults(tmp_path)
    write_damage(tmp_path, [], [])
    contract = {"topic_deletions": "records"}
    document = judge_here(tmp_path, h.ops, contract, source={"path": "x", "format": "fencepost-parquet", "receipts": True})
    assert document["verdict"] == "invalid"
