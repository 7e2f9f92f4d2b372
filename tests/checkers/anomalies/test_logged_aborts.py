"""Transactions of unknown outcome that the brokers' logs have aborted, and those of which the logs say nothing, or both."""

from __future__ import annotations

from random import Random

import pytest
from support import logs_reference
from support.histories import KEPT, answer, finding
from support.judging import no_session
from support.log_model import LogModel, random_model

from fencepost.checkers.pipeline import logged_decisions
from fencepost.checkers.verdict.opening import view_of
from fencepost.harness.history.run_directory import open_run

LOSSES = {"lost-write", "stale-read"}


def story(**changes):
    """A transaction of unknown outcome, which its coordinator aborts, over t-0@0 and t-1@0; a read_committed reader gets the one.

    Another transaction commits above it, and the complete final read has that alone.
    """
    m = LogModel(2)
    m.initialise(0, "id-0")
    m.initialise(1, "id-1")
    m.transaction(0, {"t-0": 1, "t-1": 1}, commit=False, answer="info")
    m.h.ops[-1] |= {"intent": "commit", "decided": m.h.ops[-1]["end"] - 1, **changes}
    m.h.poll(2, {"t-0": [0]})
    m.transaction(1, {"t-0": 1, "t-1": 1})
    m.h.final({"t-0": [2], "t-1": [2]}, uncommitted={"t-0": [0, 2], "t-1": [0, 2]})
    return m


def violated(m, folder, rows=None, contract=None):
    document = m.judged(folder, rows, contract, checks=None)
    return document, {row["name"] for row in document["properties"] if row["verdict"] == "violated"}


def test_a_record_of_one_is_an_aborted_read_and_nothing_was_lost(tmp_path):
    document, found = violated(story(), tmp_path)
    assert "aborted-read" in found
    assert not found & LOSSES
    assert document["counts"]["aborted"] == 1
    assert finding(document, "aborted-read")["sentence"] == (
        "Transaction 1 of process 0 ended without a known outcome, and the logs have it aborted, yet poll 0 of process 2 read "
        "its record at t-0@0."
    )


def half_shown(answer):
    """A transaction of which the final read has the one record, and not the other."""
    m = LogModel(2)
    m.initialise(0, "id-0")
    m.transaction(0, {"t-0": 1, "t-1": 1}, commit=False, answer=answer)
    m.h.ops[-1] |= {"intent": "commit", "decided": m.h.ops[-1]["end"] - 1}
    m.h.final({"t-0": [0], "t-1": []}, uncommitted={"t-0": [0], "t-1": [0]})
    return m


@pytest.mark.parametrize("answer", ["info", "fail"])
def test_a_transaction_that_every_log_has_aborted_is_not_torn_as_well(tmp_path, answer):
    assert violated(half_shown(answer), tmp_path)[1] == {"aborted-read"}


def test_one_that_a_log_has_committed_is_torn(tmp_path):
    m = half_shown("fail")
    next(row for row in m.of("ABORT") if row["partition"] == "t-0")["kind"] = "COMMIT"
    assert {"aborted-read", "torn-transaction"} <= violated(m, tmp_path)[1]


def test_and_one_of_which_no_log_was_kept(tmp_path):
    document = half_shown("fail").judged(tmp_path, [], checks=None)
    assert {"aborted-read", "torn-transaction"} <= {row["name"] for row in document["properties"] if row["verdict"] == "violated"}


def test_nobody_who_reads_all_of_it_makes_it_committed(tmp_path):
    m = story()
    m.h.ops = m.h.ops[:-4]
    m.h.final({"t-0": [0, 2], "t-1": [0, 2]})
    document, found = violated(m, tmp_path)
    assert found == {"aborted-read"}
    assert answer(document, "lost-write")["verdict"] in KEPT


@pytest.mark.parametrize("decision", ["COMMIT", None])
def test_where_a_log_has_another_marker_or_none_it_committed_as_readers_say(tmp_path, decision):
    m = story()
    for row in m.of("ABORT"):
        if decision is None:
            m.rows.remove(row)
        elif row["partition"] == "t-1":
            row["kind"] = decision
    _, found = violated(m, tmp_path)
    assert "aborted-read" not in found
    assert "lost-write" in found


def test_one_replica_with_another_marker_is_enough_to_know_nothing(tmp_path):
    m = story()
    rows = [{**row, "kind": "COMMIT"} if row["kind"] == "ABORT" and row["node"] == "n3" else row for row in m.replicas()]
    assert "aborted-read" not in violated(m, tmp_path, rows)[1]


@pytest.mark.parametrize("which", [{"producer_id": 7}, {"offset": 0}])
def test_a_marker_of_somebody_else_or_before_it_decides_nothing(tmp_path, which):
    m = story()
    for row in m.of("ABORT"):
        if "producer_id" in which:
            row |= which
        else:
            other = m.at(row["partition"], 0)
            row["offset"] = row["first_offset"] = row["last_offset"] = 0
            other["offset"] = other["first_offset"] = other["last_offset"] = 1
    assert "aborted-read" not in violated(m, tmp_path)[1]


@pytest.mark.parametrize("contract", [{"unclean_leader_election": "true"}, {"operator_aborts": "open"}, {"compaction": "true"}])
def test_where_markers_need_not_be_what_was_decided_nothing_is_known(tmp_path, contract):
    document, _ = violated(story(), tmp_path, contract=contract)
    assert document["counts"]["aborted"] == 0


def test_a_log_with_a_batch_that_cannot_be_read_says_nothing(tmp_path):
    m = story()
    for partition in ("t-0", "t-1"):
        row = m.append(partition, "damaged batch", sent=False)
        row["producer_id"] = 9
    assert violated(m, tmp_path)[0]["counts"]["aborted"] == 0


def test_a_table_that_breaks_its_reader_takes_no_other_result_with_it(tmp_path, monkeypatch):
    def broken(*_):
        raise KeyError("no such column")

    monkeypatch.setattr(logged_decisions, "stored_logs", broken)
    document, found = violated(story(), tmp_path)
    assert document["counts"]["aborted"] == 0
    assert "lost-write" in found


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows_decide_nothing(tmp_path, count):
    m = story()
    rows = [row for row in m.replicas() if row["kind"] == "record"][:count]
    assert violated(m, tmp_path, rows)[0]["counts"]["aborted"] == 0


def test_without_a_word_of_commit_it_is_an_aborted_read_too(tmp_path):
    """Its worker was killed: commit may have been called, and the marker says what came of it."""
    assert "aborted-read" in violated(story(decided=None, end=None), tmp_path)[1]


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_copy_that_somebody_else_aborted_says_nothing_of_the_original(tmp_path, protocol):
    """A connector copies records with their identities, in transactions of its own; the log of the original was not kept."""
    m = LogModel(protocol)
    m.initialise(0, "id-0")
    m.initialise(1, "copier")
    m.transaction(0, {"t-0": 1}, answer="info")
    m.transaction(1, {"copies-0": 1}, commit=False)
    m.h.ops.pop()
    m.of("record", "copies-0")[0]["v"] = m.h.v("t-0", 0)
    m.h.final({"t-0": [0]})
    whole = m.replicas()
    document, found = violated(m, tmp_path, [row for row in whole if row["partition"] != "t-0"])
    assert (document["counts"]["aborted"], found) == (0, set())
    m.h.ops = [op for op in m.h.ops if not op["final"]]
    m.h.final({"t-0": []}, uncommitted={"t-0": [0]}, end=2, position=2)
    document, found = violated(m, tmp_path, whole)
    assert document["counts"]["committed"] == 1, "nor is it less committed"
    assert "lost-write" in found


@pytest.mark.parametrize("seed", range(6))
def test_random_logs_give_what_the_slow_twin_gives(tmp_path, seed):
    m = random_model(seed + 40)
    rng = Random(seed)
    for op in m.h.ops:
        if op["f"] == "txn" and rng.random() < 0.5:
            op["type"] = "info"
    rows = [row for row in m.replicas() if row["kind"] not in ("COMMIT", "ABORT") or rng.random() < 0.9]
    m.judged(tmp_path, rows)
    view = view_of(open_run(tmp_path), no_session, here=True).view
    assert view.decisions.aborted.tolist() == logs_reference.decided(rows, m.h.ops)[0]
    every = logged_decisions.decided_in_logs(view, view.overview.index).aborted
    assert every.tolist() == logs_reference.decided(rows, m.h.ops, ("ok", "fail", "info"))[0]
