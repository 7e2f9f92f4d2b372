"""Readers that jump, go back, or end too early: for each a guilty story and an innocent one that looks alike."""

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
from support.histories import COMMITTED, UNCOMMITTED, History, answer, finding, violated
from support.installed import INSTALLED
from support.reference import anomalies, by_records

from fencepost.checkers.anomalies.losses import lost_write
from fencepost.checkers.anomalies.polls import int_nonmonotonic_poll, int_poll_skip, nonmonotonic_poll, poll_skip
from fencepost.checkers.anomalies.stale_reads import stale_read
from fencepost.checkers.model.values import Resets

CHECKS = (poll_skip, int_poll_skip, nonmonotonic_poll, int_nonmonotonic_poll, stale_read, lost_write)
FOREIGN = {"first_poll": "anywhere", "aborted_polls": "rewound"}


@pytest.fixture
def judge_reads(judged):
    """Judge a history by these checks only."""

    def run(history, contract=None):
        return judged(history, contract, checks=CHECKS)

    return run


def written(*offsets):
    """One transaction per offset of t-0, and another process that reads them all."""
    h = History()
    for offset in offsets:
        h.txn(0, {"t-0": [offset]})
    h.poll(1, {"t-0": list(offsets)})
    return h


def assign(h, process, f="assign", type="ok", **detail):
    h.add(process, f, type=type, detail=json.dumps(detail))


# ---- poll-skip ----
def test_a_reader_that_passes_over_a_record_that_another_reader_got_skips_it(judge_reads):
    h = written(5, 7, 9)
    first = h.poll(2, {"t-0": [5]})
    second = h.poll(2, {"t-0": [9]})
    document = judge_reads(h)
    assert violated(document) == ["poll-skip"]
    skip = finding(document, "poll-skip")
    assert [(record["role"], record["offset"]) for record in skip["records"]] == [("read", 5), ("missing", 7), ("read", 9)]
    assert skip["sentence"] == (
        "Process 2 read t-0@5 and next t-0@9 (between poll 0 of process 2 and poll 1 of process 2), past t-0@7, which others got."
    )
    assert {first, second} < set(skip["operations"])


def test_offsets_of_markers_and_aborted_records_are_no_skip(judge_reads):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [7]}, type="fail")
    h.txn(0, {"t-0": [40]})
    h.poll(1, {"t-0": [5, 7, 40]}, UNCOMMITTED)
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [40]})
    assert violated(judge_reads(h)) == []


def test_a_read_uncommitted_reader_must_not_skip_an_aborted_record(judge_reads):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [7]}, type="fail")
    h.txn(0, {"t-0": [9]})
    h.poll(1, {"t-0": [5, 7, 9]}, UNCOMMITTED)
    h.poll(2, {"t-0": [5, 9]}, UNCOMMITTED)
    assert violated(judge_reads(h)) == ["int-poll-skip"]


def test_a_record_of_unknown_outcome_that_no_committed_reader_got_may_be_absent(judge_reads):
    """Its commit timed out; the read_uncommitted reader saw it in the log, and it may have been aborted."""
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [7]}, type="info")
    h.txn(0, {"t-0": [9]})
    h.poll(1, {"t-0": [5, 7, 9]}, UNCOMMITTED)
    h.poll(2, {"t-0": [5, 9]})
    assert violated(judge_reads(h)) == []
    h.poll(3, {"t-0": [5, 7, 9]})
    assert violated(judge_reads(h)) == ["int-poll-skip"]


def test_a_committed_record_that_only_an_uncommitted_reader_got_must_not_be_skipped(judge_reads):
    """No final read tells of a loss; the record was in the log, and its transaction is committed."""
    h = History()
    for offset in (5, 7, 9):
        h.txn(0, {"t-0": [offset]})
    h.poll(1, {"t-0": [5, 7, 9]}, UNCOMMITTED)
    h.poll(2, {"t-0": [5, 9]})
    assert violated(judge_reads(h)) == ["int-poll-skip"]


def test_a_record_that_no_reader_got_is_lost_and_not_skipped(judge_reads):
    h = History()
    for offset in (5, 7, 9):
        h.txn(0, {"t-0": [offset]})
    h.poll(1, {"t-0": [5, 9]})
    assert violated(judge_reads(h)) == ["lost-write"]


def test_a_reader_must_begin_at_the_log_start_unless_its_start_is_unknown(judge_reads):
    h = written(5, 7)
    h.poll(2, {"t-0": [7]})
    document = judge_reads(h)
    assert violated(document) == ["poll-skip"]
    assert "Process 2 began at the log's start and got t-0@7 first, past t-0@5" in finding(document, "poll-skip")["sentence"]
    assert violated(judge_reads(h, FOREIGN)) == []


def test_a_new_process_that_begins_again_does_not_go_back(judge_reads):
    h = written(5, 7)
    h.poll(2, {"t-0": [5, 7]})
    h.poll(3, {"t-0": [5, 7]})
    assert violated(judge_reads(h)) == []


def test_the_unpolled_tail_is_no_skip(judge_reads):
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5, 7]})
    assert violated(judge_reads(h)) == []


def test_each_partition_has_an_order_of_its_own(judge_reads):
    h = History()
    h.txn(0, {"t-0": [5, 6], "t-1": [1, 2]})
    h.poll(1, {"t-0": [5, 6], "t-1": [1, 2]})
    h.poll(2, {"t-1": [1], "t-0": [5]})
    h.poll(2, {"t-0": [6], "t-1": [2]})
    assert violated(judge_reads(h)) == []


def test_a_skip_after_a_failed_transaction_is_a_skip_if_the_client_does_not_seek_back(judge_reads):
    """Our consumers go on where they were, whatever became of the transaction around the poll."""
    h = written(5, 7, 9)
    h.txn(2, {"t-1": [1]}, type="fail", reads=[("t-0", 5, h.v("t-0", 5))])
    h.poll(2, {"t-0": [9]})
    assert violated(judge_reads(h)) == ["poll-skip"]


def test_poll_skip_is_not_exercised_for_group_members_and_under_compaction(judge_reads):
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [9]})
    assert answer(judge_reads(h, {"consumption": "subscribed"}), "poll-skip")["verdict"] == "not exercised"
    assert answer(judge_reads(h, {"compaction": "true"}), "poll-skip")["verdict"] == "not exercised"


def test_the_records_of_a_long_skip_are_listed_up_to_a_bound(judge_reads):
    h = written(*range(300))
    h.poll(2, {"t-0": [0, 299]})
    skip = finding(judge_reads(h), "int-poll-skip")
    assert skip["size"] == 102
    assert "100 records or more" in skip["sentence"]


# ---- nonmonotonic-poll ----
def test_a_reader_that_gets_the_same_record_again_is_not_monotonic(judge_reads):
    h = written(5, 7)
    h.poll(2, {"t-0": [5, 7]})
    h.poll(2, {"t-0": [7]})
    document = judge_reads(h)
    assert violated(document) == ["nonmonotonic-poll"]
    assert finding(document, "nonmonotonic-poll")["sentence"] == (
        "Process 2 read t-0@7 and then got it once more (between poll 0 of process 2 and poll 1 of process 2)."
    )


def test_a_reader_that_goes_back_is_not_monotonic(judge_reads):
    h = written(5, 7)
    h.poll(2, {"t-0": [5, 7]})
    h.poll(2, {"t-0": [5, 7]})
    assert violated(judge_reads(h)) == ["nonmonotonic-poll"]
    inside = written(5, 7)
    inside.poll(2, {"t-0": [5, 7, 5, 7]})
    assert violated(judge_reads(inside)) == ["int-nonmonotonic-poll"]


def test_the_polls_of_one_transaction_follow_each_other(judge_reads):
    """They are one list in the history, in the order of the polls."""
    h = written(5, 7, 9)
    records = [("t-0", offset, h.v("t-0", offset)) for offset in (5, 7, 9)]
    h.txn(2, {"t-1": [1]}, reads=records)
    h.txn(3, {"t-1": [2]}, reads=[records[1], records[0], records[2]])
    document = judge_reads(h)
    assert violated(document) == ["int-nonmonotonic-poll", "int-poll-skip", "poll-skip"]
    assert all("rocess 3" in row["sentence"] for row in document["findings"])


def test_a_client_that_seeks_back_after_a_failed_operation_repeats_by_design(judge_reads):
    """Jepsen's client rewinds to the first record of the failed operation; going on instead would be a jump."""
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [7, 9]}, type="fail")
    h.poll(2, {"t-0": [7, 9]})
    assert violated(judge_reads(h, FOREIGN)) == []
    assert violated(judge_reads(h)) == ["nonmonotonic-poll"]
    on = written(5, 7, 9)
    on.poll(2, {"t-0": [5]})
    on.poll(2, {"t-0": [7]}, type="fail")
    on.poll(2, {"t-0": [9]})
    assert violated(judge_reads(on, FOREIGN)) == ["poll-skip"]
    assert violated(judge_reads(on)) == []


@pytest.mark.parametrize(
    ("place", "then", "expected"),
    [(9, 11, ["poll-skip"]), (9, 9, []), (10, 11, []), (10, 9, ["nonmonotonic-poll"]), (11, 11, [])],
)
def test_a_consumer_that_seeks_back_and_on_again_goes_on_from_there(judge_reads, place, then, expected):
    """Up to right behind all that it had read, which was more than it read last: there the log surely was."""
    h = written(5, 7, 9, 11)
    h.poll(2, {"t-0": [5, 7, 9]})
    h.poll(3, {"t-0": [5, 7, 9, 11]})
    for at, got in ((5, [5]), (place, [then])):
        h.add(2, "seek", role="reader", detail=json.dumps({"positions": {"t-0": at}}))
        h.poll(2, {"t-0": got})
    assert violated(judge_reads(h)) == expected


def test_an_assignment_that_drops_a_partition_or_seeks_lets_a_reader_begin_anew(judge_reads):
    for reset in ({"partitions": ["t-1"]}, {"partitions": ["t-0"], "seek_to_beginning": True}):
        h = written(5, 7)
        h.poll(2, {"t-0": [5, 7]})
        assign(h, 2, **reset)
        h.poll(2, {"t-0": [5, 7]})
        assert violated(judge_reads(h, FOREIGN)) == []


def test_an_assignment_that_keeps_the_partition_or_failed_or_is_of_another_process_excuses_nothing(judge_reads):
    for process, type, partitions in ((2, "ok", ["t-0"]), (2, "fail", ["t-1"]), (3, "ok", ["t-1"])):
        h = written(5, 7)
        h.poll(2, {"t-0": [5, 7]})
        assign(h, process, type=type, partitions=partitions)
        h.poll(2, {"t-0": [5, 7]})
        assert violated(judge_reads(h, FOREIGN)) == ["nonmonotonic-poll"]


def test_resets_lie_strictly_between_two_operations():
    resets = Resets(np.array([2, 2, 3]), np.array([10, 20, 15]), {"kept": [0]})
    ask = [np.array(values) for values in ((2, 2, 2, 3, 4), (9, 10, 20, -1, 0), (10, 11, 30, 99, 99))]
    assert resets.between("t", *ask).tolist() == [False, True, True, True, False]
    assert resets.between("kept", *ask).tolist() == [False, False, True, True, False]


def test_records_without_a_sure_place_make_no_skip_and_no_step_back(judge_reads):
    """One is read at two offsets, one was never sent, one is aborted: each is another check's finding."""
    h = written(5, 7, 9)
    h.txn(0, {"t-0": [8]}, type="fail")
    h.poll(2, {"t-0": [5, (30, h.v("t-0", 7)), (40, 12345), 8, 9]})
    assert violated(judge_reads(h)) == []


def test_a_reader_may_go_back_where_the_log_was_truncated(judge_reads):
    """The record at 9 was read and then truncated; the reader goes on below it. That is a loss."""
    h = written(5, 9)
    h.txn(0, {"t-0": [7]})
    h.poll(1, {"t-0": [7]})
    h.final({"t-0": [5, 7]})
    assert violated(judge_reads(h)) == ["lost-write", "stale-read"]


def test_a_reader_may_pass_over_records_where_the_log_was_truncated(judge_reads):
    """The reader stood at 9, behind the truncated record; 5 and 7 of the new log are below, and 11 is next."""
    h = History()
    h.txn(0, {"t-0": [9]})
    gone = h.v("t-0", 9)
    for offset in (5, 7, 11):
        h.txn(0, {"t-0": [offset]})
    h.poll(2, {"t-0": [(9, gone), 11]})
    h.final({"t-0": [5, 7, 11]})
    assert violated(judge_reads(h)) == ["lost-write", "stale-read"]


# ---- random histories ----
def muddled(rng, number):
    """Sends in partitions and processes of their own, and readers that mostly go forward."""
    h = History()
    h.now += number * 1_000_000_000
    base, partitions = number * 8, [f"h{number}-{p}" for p in range(rng.randint(1, 2))]
    log = {partition: [] for partition in partitions}
    for _ in range(rng.randint(3, 9)):
        type = rng.choice(["ok", "ok", "ok", "fail", "info"])
        partition = rng.choice(partitions)
        offset = (log[partition][-1][0] if log[partition] else 0) + rng.randint(1, 3)
        h.txn(base + rng.randrange(2), {partition: [offset]}, type)
        log[partition].append((offset, h.v(partition, offset), type))
    for process in range(base + 2, base + 6):
        level = rng.choice([COMMITTED, COMMITTED, UNCOMMITTED])
        for partition in partitions:
            mine = [record[:2] for record in log[partition] if level == UNCOMMITTED or record[2] != "fail"]
            if rng.random() < 0.5 and mine:
                mine.pop(rng.randrange(len(mine)))
            if rng.random() < 0.4 and mine:
                mine.insert(rng.randrange(len(mine) + 1), rng.choice(mine))
            while mine:
                size = rng.randint(1, 4)
                h.poll(process, {partition: mine[:size]}, level)
                mine = mine[size:]
    return h.ops


@pytest.mark.parametrize(
    ("seed", "histories"), [(0, 40), *(pytest.param(seed, 120, marks=pytest.mark.nightly) for seed in range(10))]
)
def test_poll_checks_agree_with_their_slow_twins_on_random_histories(judge_reads, tmp_path, seed, histories):
    import pyarrow.parquet as pq

    rng = Random(seed)
    h = History()
    h.ops = [op for number in range(histories) for op in muddled(rng, number)]
    judge_reads(h)
    ops = sorted(h.ops, key=lambda op: op["time"])
    got = by_records(pq.read_table(tmp_path / "anomalies.parquet").to_pylist(), ops)
    expected = anomalies(ops)
    for name in ("poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"):
        assert expected[name], "a seed without trouble of some kind proves little"
        assert got[name] == expected[name]


def test_every_installed_check_is_named_in_the_guide():
    """docs/anomalies.md is where people look a verdict's names up."""
    guide = (Path(__file__).parents[3] / "docs" / "anomalies.md").read_text()
    assert [name for name in sorted(INSTALLED) if f"`{name}`" not in guide] == []
