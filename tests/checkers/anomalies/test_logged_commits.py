"""Transactions of unknown outcome that the brokers' logs have committed, and those of which the logs do not say that."""

from __future__ import annotations

import json
from random import Random

import pytest
from support import logs_reference
from support.histories import UNCOMMITTED, finding
from support.judging import no_session
from support.log_model import LogModel, random_model

from fencepost.checkers.verdict.opening import view_of
from fencepost.harness.history.run_directory import open_run

LOSSES = {"lost-write", "stale-read", "torn-transaction", "poll-skip", "false-ack"}


def story(protocol=1, shown=(), **changes):
    """A transaction of unknown outcome, which its coordinator commits, over t-0@0 and t-1@0; the complete read_committed final
    read has another transaction above it, and of this one the partitions `shown`. The log has both.
    """
    m = LogModel(2 if protocol == 2 else 1)
    m.initialise(0, "id-0")
    m.initialise(1, "id-1")
    m.transaction(0, {"t-0": 1, "t-1": 1}, answer="info")
    m.h.ops[-1] |= changes
    m.transaction(1, {"t-0": 1, "t-1": 1})
    got = {partition: [0, 2] if partition in shown else [2] for partition in ("t-0", "t-1")}
    m.h.final(got, uncommitted={"t-0": [0, 2], "t-1": [0, 2]})
    return m


def killed():
    """What the history has of a transaction whose worker was killed in the call of commit: what it was to send."""
    return {"decided": None, "end": None}


def unanswered(m):
    """Nothing is known of what became of the first transaction's records: its worker was killed."""
    op = next(op for op in m.h.ops if op["f"] == "txn")
    op["mops"] = [(*mop[:3], None, None, None) for mop in op["mops"]]
    return m


def judged(m, folder, rows=None, contract=None):
    document = m.judged(folder, rows, contract, checks=None)
    return document, {row["name"] for row in document["properties"] if row["verdict"] == "violated"}


# --------------------------------------------------------------------------------------------------
# Lost
# --------------------------------------------------------------------------------------------------
def test_what_was_acknowledged_as_committed_and_the_logs_have_committed_is_lost_and_no_false_ack(tmp_path):
    """The complete read_uncommitted final read has it, and no read_committed reader: as it would be had it aborted."""
    document, found = judged(story(type="ok"), tmp_path)
    assert found == {"lost-write"}
    assert all("was acknowledged as committed, but" in row["sentence"] for row in document["findings"])
    m = story(type="ok")
    for row in m.of("COMMIT")[:2]:
        row["kind"] = "ABORT"
    assert "false-ack" in judged(m, tmp_path)[1]


@pytest.mark.parametrize("protocol", [1, 2])
def test_what_the_logs_have_committed_and_nobody_got_is_lost(tmp_path, protocol):
    document, found = judged(story(protocol), tmp_path)
    assert found == {"lost-write"}
    assert document["counts"]["committed"] == 2
    assert {row["sentence"] for row in document["findings"]} == {
        f"Transaction 1 of process 0 ended without a known outcome, and the logs have it committed, but the record it wrote to "
        f"{partition}@0 was not returned by the complete final read."
        for partition in ("t-0", "t-1")
    }


def test_neighbours_of_which_one_is_committed_by_the_logs_alone_were_committed(tmp_path):
    m = LogModel()
    m.initialise(0, "id-0")
    for answer in ("info", "ok", "ok"):
        m.transaction(0, {"t-0": 1}, answer=answer)
    m.h.final({"t-0": [4]})
    assert finding(judged(m, tmp_path)[0], "lost-write")["sentence"] == (
        "2 records of 2 operations, next to each other in t-0 (t-0@0 and t-0@2), were committed, and were not returned by the "
        "complete final read."
    )


def test_without_logs_nobody_knows_whether_it_was_committed(tmp_path):
    m = story()
    document, found = judged(m, tmp_path, [row for row in m.replicas() if row["partition"].startswith("__")])
    assert not found & LOSSES
    assert document["counts"]["committed"] == 1


def test_a_worker_that_was_killed_may_have_called_commit(tmp_path):
    assert judged(unanswered(story(**killed())), tmp_path)[1] == {"lost-write"}


def test_it_is_torn_where_readers_got_a_part(tmp_path):
    document, found = judged(story(shown=("t-0",)), tmp_path)
    assert found == {"lost-write", "torn-transaction"}
    assert finding(document, "torn-transaction")["sentence"] == (
        "Transaction 1 of process 0 ended without a known outcome, and the logs have it committed; its record at t-0@0 was read, "
        "but the record it wrote to t-1 (acknowledged at offset 0) was not returned by the complete final read."
    )


def test_a_reader_that_went_past_it_has_lost_it_without_a_final_read(tmp_path):
    m = story()
    m.h.ops = [op for op in m.h.ops if not op["final"]]
    m.h.poll(2, {"t-0": [2]})
    document, found = judged(m, tmp_path)
    assert found == {"lost-write"}
    assert finding(document, "lost-write")["sentence"].endswith("read by nobody, though later records were.")


def test_without_a_final_read_a_reader_skips_what_one_at_read_uncommitted_got(tmp_path):
    m = story()
    m.h.ops = [op for op in m.h.ops if not op["final"]]
    m.h.poll(3, {"t-0": [0, 2]}, UNCOMMITTED)
    m.h.poll(2, {"t-0": [2]})
    assert "poll-skip" in judged(m, tmp_path)[1]


# --------------------------------------------------------------------------------------------------
# Pipelines
# --------------------------------------------------------------------------------------------------
GROUP = {"consumption": "recorded"}


def pipeline(offset, shown=()):
    """A transaction of unknown outcome that makes out-0@0 of in-0@0, and the group's offset at the end."""
    m = LogModel()
    m.initialise(0, "id-0")
    m.initialise(1, "id-1")
    m.transaction(0, {"in-0": 1})
    m.transaction(1, {"out-0": 1}, answer="info")
    chain = {"partition": "in-0", "offset": 0, "v": m.h.v("in-0", 0), "output": m.h.v("out-0", 0)}
    m.h.ops[-1] |= {"chains": [chain], "offsets": [{"partition": "in-0", "offset": 1}]}
    m.h.final({"in-0": [0], "out-0": list(shown)}, uncommitted={"in-0": [0], "out-0": [0]})
    m.h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": offset}}))
    return m


def test_an_output_that_the_logs_have_committed_was_lost_with_what_was_made(tmp_path):
    """Its offset is the group's by right: it was no aborted transaction that committed it."""
    assert judged(pipeline(1), tmp_path, contract=GROUP)[1] == {"lost-write", "unprocessed"}


def test_an_offset_in_it_is_committed_like_its_outputs(tmp_path):
    assert judged(pipeline(None), tmp_path, contract=GROUP)[1] == {"lost-write", "torn-offset"}


def test_a_pipeline_whose_outputs_are_there_did_its_work(tmp_path):
    assert judged(pipeline(1, [0]), tmp_path, contract=GROUP)[1] == set()


def hidden(offset, marker):
    """The same of a transaction whose commit returned ok, and whose output the log has, but no read_committed reader."""
    m = pipeline(offset)
    next(op for op in m.h.ops if op.get("chains"))["type"] = "ok"
    for row in m.of("COMMIT", "out-0"):
        row["kind"] = marker
    return m


@pytest.mark.parametrize(
    ("marker", "offset", "expected"),
    [
        ("ABORT", None, {"false-ack"}),
        ("ABORT", 1, {"false-ack", "torn-offset", "unprocessed"}),
        ("COMMIT", None, {"lost-write", "torn-offset"}),
        ("COMMIT", 1, {"lost-write", "unprocessed"}),
    ],
)
def test_of_a_commit_that_returned_ok_the_logs_say_what_became_of_its_offset(tmp_path, marker, offset, expected):
    m = hidden(offset, marker)
    kept = [row for row in m.replicas() if not row["partition"].startswith("__")]
    assert judged(m, tmp_path, kept, GROUP)[1] == expected


@pytest.mark.parametrize("offset", [None, 1])
def test_without_logs_nobody_knows_what_became_of_the_offset(tmp_path, offset):
    m = hidden(offset, "ABORT")
    assert "torn-offset" not in judged(m, tmp_path, [], GROUP)[1]


# --------------------------------------------------------------------------------------------------
# Lawful
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("crashed", [False, True])
def test_who_reads_all_of_it_reads_what_the_coordinator_committed(tmp_path, crashed):
    """The client had sent its EndTxn, and learned nothing more."""
    m = story(shown=("t-0", "t-1"), **(killed() if crashed else {}))
    document, found = judged(unanswered(m) if crashed else m, tmp_path)
    assert found == set()
    assert document["counts"]["committed"] == 2


def test_above_the_end_of_the_final_read_it_may_have_been_committed_later(tmp_path):
    m = LogModel()
    m.initialise(0, "id-0")
    m.transaction(0, {"t-0": 1})
    m.transaction(0, {"t-0": 1}, answer="info")
    m.h.final({"t-0": [0]}, end=2, position=2)
    document, found = judged(m, tmp_path)
    assert found == set()
    assert document["counts"]["committed"] == 1


def test_a_commit_that_nobody_called_is_found_by_who_reads_it(tmp_path):
    """EndTxn was never sent: the brokers alone made it visible, or a late EndTxn of the transaction before."""
    m = story(shown=("t-0", "t-1"), decided=None)
    document, found = judged(m, tmp_path)
    assert found == {"dirty-read"}
    assert finding(document, "dirty-read")["sentence"].endswith(", for which commit was never called.")
    assert document["counts"]["committed"] == 1


@pytest.mark.parametrize("end", [None, 1_000_000_000])
def test_what_was_to_abort_promises_nothing(tmp_path, end):
    assert not judged(story(intent="abort", decided=None, end=end), tmp_path)[1] & LOSSES


def test_the_reader_goes_back_after_a_commit_of_unknown_outcome(tmp_path):
    """A client that goes back after an operation that did not end ok gets the same once more, committed or not."""
    m = LogModel()
    m.initialise(0, "id-0")
    m.initialise(1, "id-1")
    m.transaction(1, {"in-0": 1})
    m.transaction(0, {"t-0": 1}, answer="info")
    op = m.h.ops[-1]
    op["mops"] = [*op["mops"], (1, "in-0", m.h.v("in-0", 0), 0, None, op["end"])]
    m.h.poll(0, {"in-0": [0]})
    m.h.final({"in-0": [0], "t-0": [0]})
    assert judged(m, tmp_path, contract={"aborted_polls": "kept"})[1] == {"nonmonotonic-poll"}
    document, found = judged(m, tmp_path, contract={"aborted_polls": "rewound"})
    assert found == set()
    assert document["counts"]["committed"] == 2


# --------------------------------------------------------------------------------------------------
# Nothing is concluded
# --------------------------------------------------------------------------------------------------
def other_marker(m):
    m.of("COMMIT", "t-1")[0]["kind"] = "ABORT"


def no_marker(m):
    m.rows.remove(m.of("COMMIT", "t-1")[0])


def no_record(m):
    m.rows.remove(m.at("t-1", 0))


def not_sent(m):
    """The operation was to send another record, which is in no log."""
    op = next(op for op in m.h.ops if op["f"] == "txn")
    op["mops"] = [*op["mops"], (0, "t-1", op["mops"][-1][2] + 1, None, None, None)]


def of_a_later_transaction(m):
    """A marker whose epoch lies two above the record's: between them another transaction ended."""
    m.of("COMMIT", "t-1")[0]["producer_epoch"] += 2


def of_an_earlier_epoch(m):
    m.at("t-1", 0)["producer_epoch"] += 1


def of_a_replaced_coordinator(m):
    m.of("COMMIT", "t-1")[0]["coordinator_epoch"] = 4
    row = m.append("t-1", "COMMIT", sent=True, producer_id=0, producer_epoch=0, coordinator_epoch=3)
    assert row["offset"] > 0


def of_somebody_else(m):
    m.of("COMMIT", "t-1")[0]["producer_id"] = 7


def elsewhere(m):
    """It was acknowledged at another place than the logs have it."""
    op = next(op for op in m.h.ops if op["f"] == "txn")
    *others, mop = op["mops"]
    op["mops"] = [*others, (*mop[:3], 5, *mop[4:])]


def twice(m):
    row = m.append("t-1", "record", sent=True, **{name: m.at("t-1", 0)[name] for name in ("producer_id", "producer_epoch", "v")})
    m.append("t-1", "COMMIT", sent=True, producer_id=row["producer_id"], producer_epoch=0, coordinator_epoch=0)


def unreadable(m):
    for partition in ("t-0", "t-1"):
        m.append(partition, "damaged batch", sent=False)["producer_id"] = 9


DAMAGES = (
    other_marker,
    no_marker,
    no_record,
    not_sent,
    of_a_later_transaction,
    of_an_earlier_epoch,
    of_a_replaced_coordinator,
    of_somebody_else,
    elsewhere,
    twice,
    unreadable,
)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_logs_that_do_not_have_all_of_it_committed_say_nothing(tmp_path, damage):
    m = story()
    damage(m)
    document, found = judged(m, tmp_path)
    assert not found & LOSSES
    assert document["counts"]["committed"] == 1


@pytest.mark.parametrize("lacks", [("COMMIT", "t-1"), ("record", "t-1")])
def test_a_replica_without_it_is_enough_to_know_nothing(tmp_path, lacks):
    m = story()
    gone = m.of(*lacks)[0]
    rows = [row for row in m.replicas() if (row["node"], row["partition"], row["offset"]) != ("n3", "t-1", gone["offset"])]
    document, found = judged(m, tmp_path, rows)
    assert not found & LOSSES
    assert document["counts"]["committed"] == 1


@pytest.mark.parametrize("contract", [{"unclean_leader_election": "true"}, {"operator_aborts": "open"}, {"compaction": "true"}])
def test_where_markers_need_not_be_what_was_decided_nothing_is_known(tmp_path, contract):
    assert judged(story(), tmp_path, contract=contract)[0]["counts"]["committed"] == 1


@pytest.mark.parametrize(("shown", "expected"), [(("t-0",), {"torn-transaction", "lost-write"}), ((), set())])
def test_what_was_decided_both_ways_is_the_markers_fault_and_torn_for_who_reads_it(tmp_path, shown, expected):
    m = story(shown=shown)
    other_marker(m)
    assert judged(m, tmp_path)[1] == {"mixed-markers", "wrong-marker", *expected}


# --------------------------------------------------------------------------------------------------
# The slow twin
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(12))
def test_random_logs_give_what_the_slow_twin_gives(tmp_path, seed):
    m = random_model(seed + 80)
    rng = Random(seed)
    for op in m.h.ops:
        if op["f"] == "txn" and rng.random() < 0.7:
            op["type"] = "info"
            op |= rng.choice([{}, {}, {"decided": None}, {"decided": None, "end": None}, {"intent": "commit"}])
    rows = m.replicas()
    for _ in range(rng.randint(0, 4)):
        row = rng.choice([row for row in rows if row["kind"] in ("COMMIT", "ABORT", "record")])
        what = rng.choice(["producer_epoch", "producer_id", "coordinator_epoch", "kind", "gone"])
        if what == "gone":
            rows.remove(row)
        elif what != "kind":
            row[what] += 1
        elif row["kind"] != "record":
            row["kind"] = "ABORT" if row["kind"] == "COMMIT" else "COMMIT"
    m.judged(tmp_path, rows)
    view = view_of(open_run(tmp_path), no_session, here=True).view
    assert [view.decisions.aborted.tolist(), view.decisions.committed.tolist()] == list(logs_reference.decided(rows, m.h.ops))
