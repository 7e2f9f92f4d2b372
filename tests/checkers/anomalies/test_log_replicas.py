"""Replicas of one log, and the epochs of their leaders."""

from __future__ import annotations

import pytest
from support import logs_reference as twin
from support.histories import answer, finding
from support.log_model import CHECKS, STATE_LOG, LogModel, places, said, two_producers, violated

from fencepost.checkers.anomalies.epochs import epoch_regression


def test_replicas_that_differ_are_found_below_the_watermarks_of_both_only(tmp_path):
    m = two_producers()
    rows = m.replicas()
    for row in rows:
        if (row["node"], row["partition"], row["offset"]) == ("n2", "t-1", 3) and row["kind"] != "log":
            row["checksum"] += 1
    m.judged(tmp_path, rows)
    assert places(tmp_path, "replica-divergence") == {("t-1", 3)}
    for row in rows:
        if (row["node"], row["partition"], row["kind"]) == ("n2", "t-1", "log"):
            row["last_offset"] = 3
    assert not violated(m.judged(tmp_path, rows))
    lost = [
        row for row in m.replicas() if (row["node"], row["partition"], row["offset"], row["kind"]) != ("n3", "t-0", 4, "record")
    ]
    document = m.judged(tmp_path, lost)
    assert "offset 4 is in the log of n1 and not in that of n3" in finding(document, "replica-divergence")["sentence"]


def left_by_a_leader(m, partition, end, tail):
    """The rows of all nodes; n1 led a partition up to an offset, has a tail behind it that nobody else has, and is not back yet.
    The others went on behind another leader."""
    for row in m.rows:
        if row["partition"] == partition and row["offset"] >= end:
            row["leader_epoch"] = 1
    own = [row for row in m.replicas() if (row["node"], row["partition"]) == ("n1", partition)]
    kept = [row | ({"last_offset": end} if row["kind"] == "log" else {}) for row in own if row["offset"] < end]
    numbered = enumerate(tail, end)
    made = [{**row, "node": "n1", "offset": at, "first_offset": at, "last_offset": at, "leader_epoch": 0} for at, row in numbered]
    others = [row for row in m.replicas() if (row["node"], row["partition"]) != ("n1", partition)]
    return [*others, *kept, *made]


@pytest.mark.parametrize(
    "how", [{"contract": {"compaction": "true"}}, {"topics": {"out": {"partitions": 1}}}], ids=["own", "foreign"]
)
def test_what_compaction_has_done_in_one_replica_and_not_in_another_is_no_divergence(tmp_path, how):
    """It leaves the head of a batch, a part of one, or nothing. What is left is alike, or it is a divergence all the same."""
    m = two_producers()
    gone = ("n2", "t-1", 3)
    cleaned = [row for row in m.replicas() if (row["node"], row["partition"], row["offset"]) != gone or row["kind"] == "log"]
    for row in cleaned:
        if (row["node"], row["partition"], row["offset"]) == ("n2", "t-0", 4) and row["kind"] != "log":
            row |= {"kind": "empty batch", "v": None, "timestamp": -1, "checksum": 7}
    assert "replica-divergence" in violated(m.judged(tmp_path, cleaned, topics={"t": {"partitions": 2}}))
    assert "replica-divergence" not in violated(m.judged(tmp_path, cleaned, **how))
    for row in cleaned:
        if (row["node"], row["partition"], row["kind"]) == ("n3", "t-0", "record"):
            row["timestamp"] += 1
    assert "replica-divergence" in violated(m.judged(tmp_path, cleaned, **how))


@pytest.mark.parametrize(
    ("epochs", "back"),
    [
        ([0, 0, 0, 0], set()),
        ([0, 0, 1, 4], set()),
        ([5, 5, 7, 7], set()),  # retention took what was before
        ([0, 1, 0, 1], {2}),
        ([0, 3, 2, 2], {2, 3}),
        ([2, 0, 1, 2], {1, 2}),
        ([3, -1, 2, 2], set()),  # an older message format (KIP-101): replicas are cut off by high watermarks
        ([3, -1, 2, 1], {3}),
        ([-1, -1, 0, 0], set()),
    ],
)
@pytest.mark.parametrize("nodes", [("n1", "n2", "n3"), ("n2",)], ids=["all", "one"])
def test_leader_epochs_that_go_back_along_a_log_are_found(tmp_path, epochs, back, nodes):
    """KIP-101 and KIP-279: on one replica alone that no other one can be compared with, too."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 3})
    rows = [row for row in m.replicas() if row["node"] in (("n2",) if len(nodes) == 1 else nodes)]
    for row in rows:
        if row["partition"] == "t-0" and row["kind"] != "log":
            row["leader_epoch"] = epochs[row["offset"]]
    document = m.judged(tmp_path, rows)
    assert places(tmp_path, "leader-epoch-regression") == {("t-0", offset) for offset in back} == twin.lower_leader_epochs(rows)
    assert set(violated(document)) == ({"leader-epoch-regression"} if back else set())
    if back:
        offset = min(back)
        words = f"on {', '.join(nodes)} the batch at offset {offset} is of leader epoch {epochs[offset]}, behind one of leader"
        assert words in said(document, "leader-epoch-regression")


def test_leader_epochs_are_judged_of_each_log_by_itself(tmp_path):
    """A log of the coordinators, of a compacted topic, above the high watermark, and a batch of several records; not across a
    damaged batch, whose head may say anything."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 4})

    def judged(epochs, partition="t-0", on=("n1", "n2", "n3"), **changes):
        rows = m.replicas()
        for row in rows:
            if row["partition"] == partition and row["kind"] != "log" and row["node"] in on:
                row["leader_epoch"] = epochs.get(row["offset"], 4)
                row |= changes.get(f"at_{row['offset']}", {})
            elif row["partition"] == partition and row["kind"] == "log":
                row["last_offset"] = changes.get("watermark", row["last_offset"])
        found = m.judged(tmp_path, rows, {"compaction": changes.get("compaction", "false")})
        return places(tmp_path, "leader-epoch-regression"), said(found, "leader-epoch-regression")

    assert judged({3: 2}, STATE_LOG)[0] == {(STATE_LOG, 3)}
    assert judged({3: 2}, compaction="true")[0] == {("t-0", 3)}
    assert judged({3: 2}, watermark=1)[0] == {("t-0", 3)}
    assert "on n3 the batch at offset 3" in judged({3: 2}, on=("n3",))[1]
    assert judged({2: 9}, at_2={"kind": "damaged batch", "v": None}) == (set(), "")
    assert judged({1: 2, 2: 9}, at_2={"kind": "damaged batch", "v": None})[0] == {("t-0", 1)}
    assert judged({1: 2, 2: 2}, at_1={"last_offset": 2}, at_2={"first_offset": 1})[0] == {("t-0", 1)}, "one batch"


def test_without_known_leader_epochs_nothing_is_said_of_them(tmp_path):
    """A cluster that does not show them, and logs with one batch."""
    m = LogModel()
    row = m.record("t-0", 5, 0, sent=False)
    m.h.send(0, {"t-0": [row["offset"]]})
    row["v"] = m.h.v("t-0", 0)
    one = answer(m.judged(tmp_path, contract={"transactional": "false"}), "leader-epoch-regression")
    m = two_producers()
    for row in m.rows:
        row["leader_epoch"] = None
    unknown = answer(m.judged(tmp_path), "leader-epoch-regression")
    assert {(each["verdict"], each["reason"]) for each in (one, unknown)} == {
        ("not exercised", "no log has two batches whose leader epochs are known")
    }


@pytest.mark.parametrize("length", [1, 3, 30])
def test_what_a_leader_left_that_was_replaced_is_not_what_the_partition_holds(tmp_path, length):
    """Records of the epoch before that nobody else has, and decisions: longer than what the others have, or not."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 2})
    end, of_state = m.ends["t-0"], m.ends[STATE_LOG]
    m.ids["id"]["open"] = ["t-0"]
    m.state("id", "Ongoing")
    again = dict(m.of("Ongoing")[-1])
    m.initialise(1, "id")
    m.transaction(1, {"t-0": 2})
    late = dict(m.at("t-0", 1), v=None, first_sequence=2)
    checks = [*CHECKS, epoch_regression]
    records = left_by_a_leader(m, "t-0", end, [late | {"first_sequence": 2 + number} for number in range(length)])
    assert not violated(m.judged(tmp_path, records, checks=checks))
    assert not twin.wrong_markers(records)
    decisions = left_by_a_leader(m, STATE_LOG, of_state + 1, [again | {"kind": "PrepareCommit"}] * length)
    assert not violated(m.judged(tmp_path, decisions, checks=checks))
    assert not twin.late_records(decisions)
