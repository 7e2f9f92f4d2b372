"""Transactions that the logs end both ways: lawful ones that look alike, torn ones, and the slow twin."""

from __future__ import annotations

from random import Random

import pytest
from support import logs_reference as twin
from support.histories import answer, finding
from support.log_model import STATE_LOG, LogModel, random_model, two_producers, violated

NAME = "mixed-markers"


def one_transaction(protocol=1, answer="ok", **more):
    """A transaction over two partitions, which its coordinator commits, before and behind another one of the same producer."""
    m = LogModel(protocol)
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1, "t-1": 1}, commit=False)
    m.transaction(0, {"t-0": 1, "t-1": 2}, answer=answer, **more)
    m.transaction(0, {"t-0": 1, "t-1": 1}, commit=False)
    return m


def turned(m, partition="t-1"):
    m.of("COMMIT", partition)[0]["kind"] = "ABORT"
    return m


def without_coordinators(rows):
    return [row for row in rows if row["partition"] != STATE_LOG]


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_a_transaction_that_the_logs_end_both_ways_is_found_without_coordinators_and_readers(tmp_path, protocol, outcome):
    m = turned(one_transaction(protocol, outcome))
    document = m.judged(tmp_path, without_coordinators(m.replicas()))
    assert set(violated(document)) == {NAME}
    how = {"ok": "was acknowledged as committed", "info": "ended without a known outcome"}[outcome]
    assert finding(document, NAME)["sentence"] == (
        f"Transaction 2 of process 0 {how}; the logs have what it wrote to t-0@2 (by the marker at t-0@3) committed, and what it "
        "wrote to t-1@2 (by the marker at t-1@4) aborted."
    )
    assert finding(document, NAME)["operations"] == [2]


def test_beside_a_coordinators_log_the_wrong_marker_is_named_too(tmp_path):
    assert set(violated(turned(one_transaction()).judged(tmp_path))) == {NAME, "wrong-marker"}


@pytest.mark.parametrize("protocol", [1, 2])
def test_transactions_of_one_producer_in_one_epoch_are_told_apart(tmp_path, protocol):
    """The first protocol gives all of them one producer id and epoch, and so both kinds of markers."""
    m = LogModel(protocol)
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.transaction(0, {"t-1": 1}, commit=False)
    m.transaction(0, {"t-0": 1, "t-1": 1})
    document = m.judged(tmp_path)
    assert not violated(document)
    assert answer(document, NAME)["compared"] == 1


def test_a_late_end_divides_a_transaction_although_each_marker_is_what_was_decided(tmp_path):
    """KAFKA-17754: the EndTxn of the transaction before commits the records that are there, and the client aborts the others."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1}, end=False)
    m._decide("id", "Commit")
    first = m.h.ops[-1]
    m.transaction(0, {"t-1": 1}, commit=False)
    late = m.of("record", "t-1")[0]
    late["v"] = m.of("record", "t-0")[0]["v"] + 1
    kind, partition, _, *rest = m.h.ops.pop()["mops"][0]
    first["mops"] = [*first["mops"], (kind, partition, late["v"], *rest)]
    document = m.judged(tmp_path)
    assert set(violated(document)) >= {NAME}
    assert "wrong-marker" not in violated(document)


def test_one_that_is_run_again_in_a_later_epoch_is_another_one(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1}, answer="info", commit=False, end=False)
    m.initialise(0, "id")
    m.transaction(0, {"t-1": 1})
    first, second = m.of("record", "t-0")[0], m.of("record", "t-1")[0]
    first["v"] = second["v"]
    assert NAME not in violated(m.judged(tmp_path))


def test_a_transaction_that_timed_out_is_aborted_everywhere_with_the_next_epoch(tmp_path):
    """Its coordinator aborts it while the client calls commit, which is refused; nothing is torn."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1, "t-1": 1}, answer="info", end=False)
    m.ids["id"]["epoch"] += 1
    m._decide("id", "Abort", raised=True)
    assert not violated(m.judged(tmp_path))


# --------------------------------------------------------------------------------------------------
# What proves nothing
# --------------------------------------------------------------------------------------------------
def undecided(m, rows):
    """The log ends before the marker."""
    return [row for row in rows if not (row["partition"] == "t-1" and row["offset"] >= 4 and row["kind"] != "log")]


def short_of_its_watermark(m, rows):
    rows = undecided(m, rows)
    return [row | ({"last_offset": 9} if row["kind"] == "log" else {}) for row in rows]


def with_a_damaged_batch(m, rows):
    m.append("t-1", "damaged batch", sent=False)["producer_id"] = 9
    return m.replicas()


def diverged(m, rows):
    return [
        row | ({"kind": "COMMIT"} if (row["node"], row["partition"], row["offset"]) == ("n3", "t-1", 4) else {}) for row in rows
    ]


def of_nobody(m, rows):
    return [row | ({"v": None} if row["partition"] == "t-1" else {}) for row in rows]


def outside_transactions(m, rows):
    return [row | ({"transactional": False} if row["partition"] == "t-1" else {}) for row in rows]


@pytest.mark.parametrize(
    "change",
    [undecided, short_of_its_watermark, with_a_damaged_batch, diverged, of_nobody, outside_transactions],
    ids=lambda change: change.__name__,
)
def test_logs_that_do_not_say_how_both_parts_ended_prove_nothing(tmp_path, change):
    m = turned(one_transaction())
    assert NAME not in violated(m.judged(tmp_path, without_coordinators(change(m, m.replicas()))))


def test_a_replica_that_ends_earlier_is_no_contradiction(tmp_path):
    m = turned(one_transaction())
    rows = [row for row in m.replicas() if not (row["node"] == "n1" and row["partition"] == "t-1" and row["offset"] >= 3)]
    assert NAME in violated(m.judged(tmp_path, without_coordinators(rows)))


def test_logs_that_have_lost_their_beginning_say_what_they_still_have(tmp_path):
    m = turned(one_transaction())
    rows = [row for row in m.replicas() if row["kind"] == "log" or row["offset"] >= 2]
    rows = [row | ({"offset": 2, "first_offset": 2} if row["kind"] == "log" else {}) for row in without_coordinators(rows)]
    assert NAME in violated(m.judged(tmp_path, rows, contract={"retention": "60000"}))


@pytest.mark.parametrize(
    ("contract", "verdict"),
    [
        ({"operator_aborts": "open"}, "violated"),
        ({"unclean_leader_election": "true"}, "violated"),
        ({"topic_deletions": "records"}, "violated"),
        ({"compaction": "true"}, "not exercised"),
        ({"transactional": "false"}, "not exercised"),
    ],
)
def test_where_a_part_may_be_ended_otherwise_it_decides_nothing(tmp_path, contract, verdict):
    document = turned(one_transaction()).judged(tmp_path, contract=contract)
    assert NAME not in {row["name"] for row in document["properties"] if row["verdict"] == "violated"}
    assert answer(document, NAME)["verdict"] == verdict


# --------------------------------------------------------------------------------------------------
# The slow twin
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(12))
def test_random_logs_give_what_the_slow_twin_gives(tmp_path, seed):
    m = random_model(seed + 300)
    rng = Random(seed)
    rows = m.replicas()
    assert twin.mixed_markers(rows, m.h.ops)[0] == set()
    for _ in range(rng.randint(0, 5)):
        row = rng.choice([row for row in rows if row["kind"] in ("COMMIT", "ABORT", "record")])
        alike = [other for other in rows if (other["partition"], other["offset"]) == (row["partition"], row["offset"])]
        alike = [other for other in alike if other["kind"] != "log"]
        what = rng.choice(["kind", "kind", "producer_epoch", "producer_id", "gone"])
        for other in alike if rng.random() < 0.7 else [row]:
            if what == "gone":
                rows.remove(other)
            elif what != "kind":
                other[what] += 1
            elif other["kind"] != "record":
                other["kind"] = "ABORT" if other["kind"] == "COMMIT" else "COMMIT"
    document = m.judged(tmp_path, rows)
    found = [row["operations"] for row in document["findings"] if row["anomaly"] == NAME]
    assert (sorted(op for ops in found for op in ops), answer(document, NAME)["compared"]) == (
        sorted(twin.mixed_markers(rows, m.h.ops)[0]),
        twin.mixed_markers(rows, m.h.ops)[1],
    )


def test_lawful_logs_hold_and_say_how_much_was_compared(tmp_path):
    document = two_producers().judged(tmp_path)
    assert not violated(document)
    assert answer(document, NAME)["compared"] == 6
