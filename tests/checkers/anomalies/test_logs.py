"""Sequence numbers, markers, producer ids and states in the brokers' logs: lawful runs, damaged ones, and the slow twins."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import logs_reference as twin
from support.histories import answer, finding
from support.judging import judge_here
from support.log_model import CHECKS, STATE_LOG, LogModel, places, random_model, said, violated

from fencepost.checkers.anomalies.epochs import epoch_regression
from fencepost.checkers.anomalies.markers import late_marker
from fencepost.checkers.contract.rules import full_contract, rule_for
from fencepost.checkers.model.history_rows import read_rows
from fencepost.checkers.selfcheck.log_damages import UNLOG
from fencepost.harness.api.evidence import Manifest
from fencepost.harness.api.history import STORED, schema
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import write_manifest

NAMES = [check.name for check in CHECKS]


def two_producers(protocol=1, start=0):
    """Two producers with three transactions each over two partitions; the last one of each aborts."""
    m = LogModel(protocol, start=start)
    for process in (0, 1):
        m.initialise(process, f"id-{process}")
    for number in range(3):
        for process in (0, 1):
            m.transaction(process, {"t-0": 2, "t-1": 1}, commit=number < 2)
    return m


# --------------------------------------------------------------------------------------------------
# Lawful logs, and what was compared in them
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", [1, 2])
def test_lawful_logs_hold_and_say_how_much_was_compared(tmp_path, protocol):
    document = two_producers(protocol).judged(tmp_path)
    assert not violated(document)
    compared = {name: answer(document, name)["compared"] for name in NAMES}
    assert compared["sequence-gap"] == {1: 14, 2: 6}[protocol], (
        "18 records, of which the first of each producer and epoch has none before"
    )
    assert compared["sequence-start"] == {1: 4, 2: 12}[protocol]
    assert compared["producer-id-reuse"] == 2
    assert compared["wrong-marker"] == compared["record-after-marker"] == 12
    assert compared["unlawful-state"] == 24
    assert compared["unlogged-answer"] == 6 + 2
    assert compared["replica-divergence"] == 2 * (18 + 12 + 26)
    assert compared["leader-epoch-regression"] == (18 + 12 - 2) + (26 - 1), "alike replicas are one log"


@pytest.mark.parametrize("seed", range(8))
def test_random_lawful_logs_hold(tmp_path, seed):
    m = random_model(seed)
    document = m.judged(tmp_path)
    assert not violated(document), [row["sentence"] for row in document["findings"]]
    rows = m.replicas()
    assert not any(twin.sequences(rows).values())
    assert not (twin.wrong_markers(rows) | twin.late_records(rows) | twin.unlawful_states(rows) | twin.divergences(rows))
    assert not (twin.shared_ids(rows, m.h.ops) | twin.unlogged(rows, m.h.ops))


def test_numbers_begin_anew_after_the_highest(tmp_path):
    m = two_producers(start=(1 << 31) - 3)
    assert set(violated(m.judged(tmp_path))) == {"sequence-start"}
    m.of("record", "t-0")[5]["first_sequence"] = 7  # after 2^31 - 1 comes 0
    assert "sequence-gap" in violated(m.judged(tmp_path))


def test_a_first_number_that_another_record_may_have_had_says_nothing(tmp_path):
    """A leader takes any first number of a producer that it does not know; the record with the one before never arrived."""
    found = []
    for never_arrived in (False, True):
        m = LogModel(start=1)
        m.initialise(0, "id")
        if never_arrived:
            m.h.txn(0, {"t-0": None}, "fail", transactional_id="id")
        m.transaction(0, {"t-0": 2})
        document = m.judged(tmp_path)
        found.append((set(violated(document)), answer(document, "sequence-start")["compared"]))
    assert found == [({"sequence-start"}, 1), (set(), 0)]


def test_a_batch_counts_as_many_numbers_as_it_has_offsets_whatever_became_of_its_records(tmp_path):
    m = two_producers()
    first, second = m.at("t-0", 0), m.at("t-0", 1)
    second |= {"first_offset": 0, "first_sequence": 0}
    first["last_offset"] = 1
    rows = m.replicas()
    assert not {name for name in violated(m.judged(tmp_path, rows)) if name.startswith("sequence")}
    batch = {"kind": "zstd batch", "last_offset": 1}
    there = [row for row in rows if row["kind"] != "log" and (row["partition"], row["offset"]) != ("t-0", 1)]
    compressed = [{**row, **batch} if (row["partition"], row["offset"]) == ("t-0", 0) else row for row in there]
    assert not {name for name in violated(m.judged(tmp_path, compressed)) if name.startswith("sequence")}


def test_of_compressed_batches_is_not_said_that_there_are_none(tmp_path):
    """As franz-go writes them, unless it is told otherwise: who wrote them is not known, and neither is who is missing."""
    m = LogModel(2)
    m.initialise(0, "id-0")
    m.transaction(0, {"t-0": 1})
    rows = [row | ({"kind": "snappy batch", "v": None} if row["kind"] == "record" else {}) for row in m.replicas()]
    rows = [row for row in rows if row["partition"] != STATE_LOG]
    reasons = {name: answer(m.judged(tmp_path, rows), name)["reason"] for name in ("producer-id-reuse", "sequence-start")}
    assert set(reasons.values()) == {"batches in the logs are compressed: which records of this run are in them was not read"}


# --------------------------------------------------------------------------------------------------
# Three damages with corrected checksums, and what else can be wrong
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("by", [1, 3, 17, 70_000])
def test_a_gap_is_found(tmp_path, by):
    m = two_producers()
    for row in m.of("record", "t-0")[4:]:
        if row["producer_id"] == 0:
            row["first_sequence"] = row["sequence"] = row["first_sequence"] + by
            row["checksum"] += 1
    document = m.judged(tmp_path)
    assert set(violated(document)) == {"sequence-gap"}
    assert f": {by} are missing" in finding(document, "sequence-gap")["sentence"]


def test_a_batch_behind_different_ones_on_its_replicas_is_told_of_the_right_one(tmp_path):
    """One replica lacks a record: the batch behind it is the same one everywhere, and lawful on the others."""
    m = two_producers()
    for lost, words in (
        (1, "on n2 the batch at offset 6, .* number 2, and 1 had to follow"),
        (3, "on n2 the batch at offset 4, .* is the first one of these, and begins with sequence number 1"),
    ):
        rows = [
            row
            for row in m.replicas()
            if (row["node"], row["partition"], row["offset"], row["kind"]) != ("n2", "t-0", lost, "record")
        ]
        document = m.judged(tmp_path, rows)
        assert re.search(words, said(document, "sequence-gap") + said(document, "sequence-start"))


@pytest.mark.parametrize("by", [1, 2])
def test_a_number_that_is_there_twice_is_found(tmp_path, by):
    m = two_producers()
    for row in m.of("record", "t-0")[4:]:
        if row["producer_id"] == 1:
            row["first_sequence"] = row["sequence"] = row["first_sequence"] - by
            row["checksum"] += 1
    document = m.judged(tmp_path)
    assert set(violated(document)) == {"sequence-repetition"}
    assert "it was there already" in finding(document, "sequence-repetition")["sentence"]


@pytest.mark.parametrize("protocol", [1, 2])
def test_two_producer_ids_merged_into_one_are_found(tmp_path, protocol):
    m = two_producers(protocol)
    for row in m.rows:
        if row["producer_id"] == 1:
            row["producer_id"] = 0
    document = m.judged(tmp_path)
    assert "producer-id-reuse" in violated(document)
    assert (
        "roducer id 0 belongs to transactional id id-0 and transactional id id-1"
        in finding(document, "producer-id-reuse")["sentence"]
    )


def several_producers(named):
    """A process with two producers. named: its operations say which of them they use."""
    m = LogModel()
    for name in ("id-0", "id-0-p1"):
        m.initialise(0, name)
        m.transaction(0, {"t-0": 2})
    if not named:
        for op in m.h.ops:
            op |= {"transactional_id": op["transactional_id"] and "id-0"}
    return m


@pytest.mark.parametrize("named", [True, False])
def test_a_process_with_several_producers_writes_with_the_ids_of_each(tmp_path, named):
    """An older history has one transactional id for the process; by the coordinators' logs each producer has its own."""
    m = several_producers(named)
    document = m.judged(tmp_path)
    assert ("producer-id-reuse" in violated(document), answer(document, "producer-id-reuse")["compared"]) == (False, 2)
    for row in m.of("record", "t-0"):
        row["producer_id"] = 0
    merged = [row | ({"state": {**row["state"], "producer_id": 0}} if row.get("state") else {}) for row in m.replicas()]
    assert (
        "transactional id id-0 and transactional id id-0-p1"
        in finding(m.judged(tmp_path, merged), "producer-id-reuse")["sentence"]
    )


def test_records_of_two_producers_of_one_process_with_one_producer_id_are_found(tmp_path):
    m = several_producers(named=True)
    for row in m.of("record", "t-0"):
        row["producer_id"] = 0
    assert "transactional id id-0 and transactional id id-0-p1" in finding(m.judged(tmp_path), "producer-id-reuse")["sentence"]


def test_a_producer_id_of_two_idempotent_producers_is_found(tmp_path):
    m = LogModel()
    for process in (0, 1):
        row = m.record("t-0", 5, 0, sent=False)
        m.h.send(process, {"t-0": [row["offset"]]})
        row["v"] = m.h.v("t-0", row["offset"])
    document = m.judged(tmp_path, contract={"transactional": "false"})
    assert "process 0 and process 1" in finding(document, "producer-id-reuse")["sentence"]


def test_copies_of_records_in_other_topics_say_nothing_of_their_writers(tmp_path):
    m = two_producers()
    for row in m.of("record", "t-0"):
        copy = m.record("mirror-0", 77, 0, sent=False)
        copy["v"] = row["v"]
    assert not violated(m.judged(tmp_path))


def test_a_marker_of_the_other_kind_names_the_decision(tmp_path):
    m = two_producers()
    m.of("ABORT", "t-1")[1]["kind"] = "COMMIT"
    sentence = finding(m.judged(tmp_path), "wrong-marker")["sentence"]
    assert "is COMMIT for producer id 1" in sentence
    assert f"the transaction of id-1 that its coordinator decided to abort at {STATE_LOG}@" in sentence


def test_a_marker_that_nobody_decided_and_one_that_is_missing_are_found(tmp_path):
    m = two_producers(protocol=2)
    marker = m.of("COMMIT", "t-1")[0]
    marker["producer_epoch"] = 30
    document = m.judged(tmp_path)
    sentences = " ".join(row["sentence"] for row in document["findings"])
    assert "and no coordinator logged a decision for it" in sentences or "there is no marker" in sentences
    assert places(tmp_path, "wrong-marker") == {("t-1", marker["offset"]), ("t-1", None)}
    rows = [row for row in m.replicas() if row["offset"] != marker["offset"] or row["partition"] != "t-1" or row["kind"] == "log"]
    assert "there is no marker for the transaction of id-0" in finding(m.judged(tmp_path, rows), "wrong-marker")["sentence"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_producer_id_that_no_coordinator_knows_is_judged_where_all_their_logs_are_whole(tmp_path, whole):
    """A transaction log on one replica that is lost, and begins anew: it says nothing of what was committed before."""
    m = two_producers()
    for row in m.rows:
        if row["producer_id"] == 1 and row["partition"] == "t-1":
            row["producer_id"] = 99
    if not whole:
        m.append(
            "__transaction_state-2",
            "Empty",
            state=dict(m.of("Empty")[0]["state"], transactional_id="x", producer_id=7),
            sent=False,
        )
    document = m.judged(tmp_path)
    assert ("producer id 99 in epoch 0, and no coordinator logged" in said(document, "wrong-marker")) is whole
    assert ("producer id 99 was acknowledged as committed" in said(document, "unlogged-answer")) is whole


@pytest.mark.parametrize(("count", "whole"), [(1, True), (2, False), (6, False)])
def test_a_log_of_a_coordinator_that_was_not_kept_may_know_the_producer(tmp_path, count, whole):
    """The last partition of their topic lies on a node whose logs are missing, which the numbers of the others do not tell."""
    m = two_producers()
    for row in m.rows:
        if row["producer_id"] == 1 and row["partition"] == "t-1":
            row["producer_id"] = 99
    settings = {"transaction.state.log.num.partitions": str(count)}
    document = m.judged(tmp_path, cluster={"description": {"broker_settings": settings}})
    assert ("producer id 99" in said(document, "wrong-marker") + said(document, "unlogged-answer")) is whole


@pytest.mark.parametrize("lost", range(3))
def test_of_several_like_markers_clocks_tell_which_one_is_missing(tmp_path, lost):
    m = LogModel()
    m.initialise(0, "id")
    for _ in range(3):
        m.transaction(0, {"t-0": 1})
    m.rows.remove(m.of("COMMIT", "t-0")[lost])
    decision = m.of("PrepareCommit")[lost]["offset"]
    assert f"decided to commit at {STATE_LOG}@{decision}, although" in finding(m.judged(tmp_path), "wrong-marker")["sentence"]
    for marker in m.of("COMMIT", "t-0"):
        marker["timestamp"] -= 100  # the leader's clock is late
    last = m.of("PrepareCommit")[2]["offset"]
    document = m.judged(tmp_path)
    assert finding(document, "wrong-marker")["size"] == 1
    assert f"decided to commit at {STATE_LOG}@{last}, although" in finding(document, "wrong-marker")["sentence"]


def test_markers_that_two_transactions_lack_in_one_partition_have_sentences_of_their_own(tmp_path):
    m = LogModel()
    for process in range(2):
        m.initialise(process, f"id-{process}")
        m.transaction(process, {"t-0": 1, "t-1": 1})
    m.transaction(1, {"t-0": 1})
    for marker in m.of("COMMIT", "t-0")[:2]:
        m.rows.remove(marker)
    found = [row for row in m.judged(tmp_path)["findings"] if row["anomaly"] == "wrong-marker"]
    assert [re.search(r"transaction of (id-\d)", row["sentence"])[1] for row in found] == ["id-0", "id-1"]
    assert [row["operations"] for row in found] == [[op["index"]] for op in m.h.ops if op["f"] == "txn"][:2]


def test_a_marker_may_be_written_again_unless_nothing_failed(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1, "t-1": 1}, repeat=["t-0"])
    m.transaction(0, {"t-0": 1})
    for marker in m.of("COMMIT", "t-0"):
        marker["coordinator_epoch"] = 0
    assert "repeats the one before although nothing failed" in finding(m.judged(tmp_path), "wrong-marker")["sentence"]
    for marker in m.of("COMMIT", "t-0")[1:]:
        marker["coordinator_epoch"] = 1
    assert not violated(m.judged(tmp_path)), "its coordinator failed over"
    for marker in m.of("COMMIT", "t-0"):
        marker["coordinator_epoch"] = 0
    attested = Manifest(run="r", slots=1, complete=True, files=())
    for ended, found in (((), ["wrong-marker"]), (("the proxy before n1",), [])):
        write_manifest(tmp_path, replace(attested, ended=ended))
        assert list(violated(m.judged(tmp_path))) == found, "something failed that was no fault"


@pytest.mark.parametrize(
    ("contract", "found"), [({}, {"wrong-marker"}), ({"producer_expiry": "60000"}, set())], ids=["kept", "forgotten"]
)
def test_a_marker_of_a_coordinator_that_was_replaced_is_refused(tmp_path, contract, found):
    """The coordinator of epoch 1 wrote the marker; the one before it, which did not know yet, writes it once more."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1}, repeat=["t-0"])
    m.of("COMMIT")[0]["coordinator_epoch"], m.of("COMMIT")[1]["coordinator_epoch"] = 1, 0
    document = m.judged(tmp_path, contract=contract)
    assert set(violated(document)) == found
    assert (
        "of coordinator epoch 0, behind a marker of coordinator epoch 1 at offset 1" in said(document, "wrong-marker")
    ) is bool(found)


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_marker_of_a_replaced_coordinator_is_found_also_behind_all_decisions(tmp_path, protocol):
    """A marker without a decision may be of one that was logged after the coordinators' logs were read; not that one."""
    m = LogModel(protocol)
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    for coordinator_epoch, found in ((0, set()), (-1, set()), (3, set()), (1, {"wrong-marker"})):
        m.of("COMMIT")[0]["coordinator_epoch"] = 0 if coordinator_epoch < 1 else 2
        producer = {"producer_id": 0, "producer_epoch": m.ids["id"]["epoch"] + 1}
        m.append("t-0", "ABORT", coordinator_epoch=coordinator_epoch, sent=True, **producer)
        assert set(violated(m.judged(tmp_path))) == found
        m.ends["t-0"] -= 1
        m.rows.pop()


def test_what_retention_took_is_not_missing_and_compaction_takes_anything(tmp_path):
    m = two_producers()
    late = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] >= 7 or row["kind"] == "log"]
    for row in late:
        if row["kind"] == "log" and row["partition"] == "t-0":
            row["offset"] = row["first_offset"] = 7
    assert not violated(m.judged(tmp_path, late))
    compacted = [
        row for row in m.replicas() if row["offset"] not in (2, 3, 6) or row["partition"] != "t-0" or row["kind"] == "log"
    ]
    assert {"sequence-gap", "wrong-marker"} & set(violated(m.judged(tmp_path, compacted)))
    assert not violated(m.judged(tmp_path, compacted, {"compaction": "true"}))


def test_a_topic_that_the_run_did_not_make_may_be_compacted(tmp_path):
    """Topics of Connect, and changelogs: a marker that is not there accuses nobody, and one of the other kind does."""
    m = two_producers()
    m.judged(tmp_path)
    kept = [row for row in m.replicas() if row["partition"] != "t-1" or row["kind"] != "COMMIT"]
    assert "wrong-marker" in violated(m.judged(tmp_path, kept, topics={"t": {"partitions": 2}}))
    assert "wrong-marker" not in violated(m.judged(tmp_path, kept, topics={"out": {"partitions": 1}}))
    cleaned = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] not in (3, 7) or row["kind"] == "log"]
    found = {
        name: {"sequence-gap", "sequence-start"} & set(violated(m.judged(tmp_path, cleaned, topics={name: {}})))
        for name in ("t", "out")
    }
    assert found == {"t": {"sequence-gap", "sequence-start"}, "out": set()}
    turned = [{**row, "kind": "ABORT"} if row["kind"] == "COMMIT" and row["partition"] == "t-1" else row for row in m.replicas()]
    assert "wrong-marker" in violated(m.judged(tmp_path, turned, topics={"out": {"partitions": 1}}))


DECIDED = ("wrong-marker", "record-after-marker", "delayed-marker", "unlawful-state")


@pytest.mark.parametrize(
    ("contract", "judged"),
    [
        ({"connect": "enabled"}, "forbidden"),
        ({"connect": "enabled", "unclean_coordinator": "true", "unclean_leader_election": "true"}, "allowed"),
        ({"connect": "enabled", "power_failures": "all replicas"}, "allowed"),
        ({"connect": "preparing"}, "inapplicable"),
        ({"application": "exactly-once"}, "forbidden"),
        ({}, "inapplicable"),
    ],
)
def test_decisions_are_judged_where_workers_of_connect_or_programs_make_them(contract, judged):
    by_name = {check.name: check for check in CHECKS}
    full = full_contract({"transactional": "false", **contract}, {})
    assert {name: rule_for(by_name[name].rules, full).judged for name in DECIDED} == dict.fromkeys(DECIDED, judged)


def test_a_turned_decision_of_connect_is_found(tmp_path):
    m = two_producers()
    for marker in m.of("COMMIT", "t-0")[:1]:
        marker["kind"] = "ABORT"
    assert "wrong-marker" in violated(m.judged(tmp_path, contract={"transactional": "false", "connect": "enabled"}))


def test_a_marker_that_retention_left_says_nothing_of_the_numbers_before_it(tmp_path):
    """The first protocol: a marker has the epoch of the records before it, which may be gone."""
    for protocol, kept in ((1, 2), (2, 2), (1, 3)):
        m = LogModel(protocol)
        m.initialise(0, "id")
        m.transaction(0, {"t-0": 2})
        m.transaction(0, {"t-0": 2})
        rows = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] >= kept or row["kind"] == "log"]
        for row in rows:
            if row["kind"] == "log" and row["partition"] == "t-0":
                row["offset"] = row["first_offset"] = kept
        assert not violated(m.judged(tmp_path, rows))


def test_a_lower_epoch_that_retention_left_shows_that_a_batch_is_the_first_one(tmp_path):
    m = LogModel(protocol=2)
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 2})
    m.transaction(0, {"t-0": 2})
    for row in m.of("record", "t-0")[2:]:
        row["first_sequence"] += 3
    rows = [row for row in m.replicas() if row["partition"] != "t-0" or row["offset"] >= 1 or row["kind"] == "log"]
    for row in rows:
        if row["kind"] == "log" and row["partition"] == "t-0":
            row["offset"] = row["first_offset"] = 1
    assert "sequence-start" in violated(m.judged(tmp_path, rows))


def test_a_record_behind_the_marker_of_its_transaction_is_found(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 2})
    record, marker = m.at("t-0", 1), m.at("t-0", 2)
    for row, offset in ((record, 2), (marker, 1)):
        row |= {"offset": offset, "first_offset": offset, "last_offset": offset}
    document = m.judged(tmp_path)
    assert places(tmp_path, "record-after-marker") == {("t-0", 2)}
    assert "behind the marker of its transaction" in finding(document, "record-after-marker")["sentence"]


def test_a_transaction_that_is_run_again_is_another_one(tmp_path):
    """Its first attempt was aborted when the application initialised again, and the second one was answered."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1}, commit=False, answer="info")
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    first, second = m.of("record", "t-0")
    first["v"] = second["v"]
    assert first["producer_epoch"] < second["producer_epoch"]
    assert not violated(m.judged(tmp_path))
    second["producer_epoch"] = first["producer_epoch"]
    assert "record-after-marker" in violated(m.judged(tmp_path))


def test_a_record_of_no_transaction_behind_the_last_marker_is_found_without_its_identity(tmp_path):
    m = two_producers()
    m.record("t-0", 0, 0)
    m.judged(tmp_path)
    assert places(tmp_path, "record-after-marker") == {("t-0", m.ends["t-0"] - 1)}


def fenced(late):
    """Instance 1 takes the id of instance 0 over, then process 2 writes. late: after that comes the marker that ended 0's."""
    m = LogModel()
    m.initialise(2, "other")
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1, "t-1": 1}, answer="info", end=False)
    m.initialise(1, "id")
    m.transaction(2, {"t-0": 1})
    m.transaction(1, {"t-1": 1})
    if late:
        marker, record = m.of("ABORT", "t-0")[0], m.of("record", "t-0")[1]
        marker["offset"], record["offset"] = record["offset"], marker["offset"]
        for row in (marker, record):
            row["first_offset"] = row["last_offset"] = row["offset"]
    return m


def test_a_marker_of_an_older_transaction_after_initialise_had_returned_is_found(tmp_path):
    document = fenced(late=False).judged(tmp_path)
    assert not violated(document)
    assert answer(document, "late-marker")["compared"] == 2
    document = fenced(late=True).judged(tmp_path)
    assert "after a later instance of its transactional id had initialised" in finding(document, "late-marker")["sentence"]


def test_an_epoch_that_a_client_raised_itself_is_no_later_instance(tmp_path):
    """An instance's transaction left no record before it was aborted; it raised its epoch, and wrote with the next one only."""
    m = LogModel()
    m.initialise(2, "other")
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.initialise(1, "id")
    m.transaction(2, {"t-0": 1})
    m.ids["id"]["open"] = ["t-0"]
    m.state("id", "Ongoing")
    m._decide("id", "Abort", raised=True)
    m.ids["id"]["epoch"] += 1
    m.state("id", "Empty")
    m.transaction(1, {"t-0": 1})
    document = m.judged(tmp_path)
    assert not violated(document)
    assert answer(document, "late-marker")["compared"] == 1, "that of the first instance's transaction"


def delayed(by_ms):
    """Two transactions of one coordinator; a marker of the first waits, and comes to t-0 behind one of the second."""
    m = LogModel()
    for process in (0, 1):
        m.initialise(process, f"id-{process}")
    m.transaction(0, {"t-0": 1, "t-1": 1})
    m.transaction(1, {"t-0": 1})
    first, record, second = m.of("COMMIT", "t-0")[0], m.of("record", "t-0")[1], m.of("COMMIT", "t-0")[1]
    for row, offset in ((record, 1), (second, 2), (first, 3)):
        row |= {"offset": offset, "first_offset": offset, "last_offset": offset}
    first["timestamp"] += by_ms
    m.of("COMMIT", "t-1")[0]["timestamp"] += by_ms
    return m


def test_a_partition_that_waits_for_another_one_is_found(tmp_path):
    assert answer(delayed(9_000).judged(tmp_path), "delayed-marker")["verdict"] == "held"
    document = delayed(11_000).judged(tmp_path)
    assert places(tmp_path, "delayed-marker") == {("t-0", 3)}
    assert "another partition of the transaction was waited for" in finding(document, "delayed-marker")["sentence"]
    m = delayed(11_000)
    m.of("COMMIT", "t-0")[0]["leader_epoch"] = 1
    assert answer(m.judged(tmp_path), "delayed-marker")["verdict"] == "held", "the partition itself had another leader by then"


def test_which_of_two_decisions_was_later_is_told_by_the_log_and_not_by_clocks(tmp_path):
    """The coordinator's clock was set back between them: the first one has the later time, and its marker came first."""
    m = LogModel()
    for process in (0, 1):
        m.initialise(process, f"id-{process}")
        m.transaction(process, {"t-0": 1, "t-1": 1})
    m.of("PrepareCommit")[0]["state"]["updated"] += 60_000
    for partition in ("t-0", "t-1"):
        m.of("COMMIT", partition)[1]["timestamp"] += 71_000
    document = m.judged(tmp_path)
    assert answer(document, "delayed-marker")["compared"] > 0
    assert answer(document, "delayed-marker")["verdict"] == "held"


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.of("PrepareCommit")[0].update(kind="CompleteCommit"), "it must not follow Ongoing"),
        (lambda m: m.of("PrepareCommit")[0].update(kind="removed"), "the id was forgotten while a transaction was open"),
        (lambda m: m.of("CompleteAbort")[0]["state"].update(producer_epoch=-1), "has a lower epoch"),
        (lambda m: m.of("PrepareAbort")[0]["state"].update(producer_id=9), "changes the producer id 0"),
        (lambda m: m.of("PrepareCommit")[0]["state"].update(partitions=["t-1"]), "lacks partitions"),
        (lambda m: m.of("PrepareCommit")[0]["state"].update(partitions=["t-0", "t-1", "x-0"]), "not in the transaction"),
        (lambda m: m.of("Empty")[0].update(kind="Ongoing"), "is the first record"),
    ],
)
def test_states_in_another_order_are_found(tmp_path, change, words):
    m = two_producers()
    change(m)
    assert words in said(m.judged(tmp_path), "unlawful-state")


@pytest.mark.parametrize("sent", [False, True])
def test_an_addition_that_was_logged_and_taken_back_is_lawful_where_nothing_was_sent(tmp_path, sent):
    """Not enough replicas had it in time, so the coordinator answered with an error and went on without the partition."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.transaction(0, {"t-0": 1, "t-1": 1}, commit=False)
    decision = m.of("PrepareAbort")[0]
    decision["state"]["partitions"] = ["t-0"]
    m.rows.remove(m.of("ABORT", "t-1")[0])
    if not sent:
        m.rows.remove(m.of("record", "t-1")[0])
    assert ("unlawful-state" in violated(m.judged(tmp_path))) is sent


@pytest.mark.parametrize("sent", [False, True])
def test_a_first_addition_may_be_taken_back_too(tmp_path, sent):
    """The producer could not begin, and the next instance finds no transaction open."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.ids["id"]["open"] = ["t-1"]
    m.state("id", "Ongoing")
    if sent:
        m.record("t-1", 0, 0)
    m.ids["id"].update(open=[], epoch=1)
    m.state("id", "Empty")
    found = violated(m.judged(tmp_path))
    assert "unlawful-state" in found if sent else not found


@pytest.mark.parametrize("marked", [False, True])
def test_a_decision_may_be_taken_back_before_any_marker(tmp_path, marked):
    """A commit that could not be logged in time got an error, and the transaction was aborted for its age."""
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1}, answer="info", end=False)
    m.state("id", "PrepareCommit")
    if marked:
        m.append("t-0", "COMMIT", coordinator_epoch=0, sent=True, producer_id=0, producer_epoch=0)
    m._decide("id", "Abort")
    found = violated(m.judged(tmp_path))
    assert "unlawful-state" in found if marked else not found


def test_states_that_may_follow_each_other(tmp_path):
    """Exhausted epochs, a record that was repeated, a forgotten id, and the abort of nothing (KIP-890)."""
    m = LogModel(protocol=2)
    m.initialise(0, "id")
    m.wear("id", 32766)
    m.transaction(0, {"t-0": 1})
    m.of("PrepareCommit")[0]["state"]["next_producer_id"] = 40
    own = m.ids["id"]
    own["pid"], own["epoch"] = 40, 0
    m.of("CompleteCommit")[0]["state"].update(producer_id=40, producer_epoch=0)
    m.transaction(0, {"t-0": 1})
    m.state("id", "CompleteCommit")
    m._decide("id", "Abort")
    m.state("id", "removed", producer_id=-1, producer_epoch=-1)
    document = m.judged(tmp_path)
    assert not violated(document), [row["sentence"] for row in document["findings"]]


@pytest.mark.parametrize(
    ("epoch", "removed", "then", "words"),
    [
        (32765, False, (8, 0), "changes the producer id 0, whose epochs were not exhausted"),
        (32766, False, (8, 0), ""),
        (32767, False, (8, 0), ""),
        (32766, False, (8, 1), "begins a producer id with an epoch that is not 0"),
        (3, True, (8, 0), ""),
        (3, True, (8, 1), "begins a producer id with an epoch that is not 0"),
        (3, True, (0, 0), "has a lower epoch than 3, which it had before"),
        (3, True, (0, 4), ""),  # the removal could not be replicated in time, and was taken back
    ],
)
def test_another_producer_id_comes_where_epochs_are_exhausted_or_the_id_was_forgotten(tmp_path, epoch, removed, then, words):
    m = LogModel()
    m.initialise(0, "id")
    m.wear("id", epoch)
    if removed:
        m.state("id", "removed", producer_id=-1, producer_epoch=-1)
    m.ids["id"]["pid"], m.ids["id"]["epoch"] = then
    m.state("id", "Empty")
    document = m.judged(tmp_path)
    assert set(violated(document)) == ({"unlawful-state"} if words else set())
    assert words in said(document, "unlawful-state")


def test_the_first_epoch_of_an_id_is_0(tmp_path):
    m = LogModel()
    m.ids["id"] = {"pid": 9, "epoch": 4, "open": []}
    m.initialise(0, "id")
    assert "begins a producer id with an epoch that is not 0" in finding(m.judged(tmp_path), "unlawful-state")["sentence"]


def test_a_record_of_a_transaction_that_was_begun_and_then_forgotten_lies_behind_no_marker(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 1})
    m.transaction(0, {"t-0": 1}, answer="info", end=False)
    m.state("id", "removed", producer_id=-1, producer_epoch=-1)
    assert set(violated(m.judged(tmp_path))) == {"unlawful-state"}


def test_a_producer_id_that_an_id_had_left_does_not_come_back(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.wear("id", 32766)
    m.ids["id"]["epoch"] = 0
    for pid in (8, 0):
        m.ids["id"]["pid"] = pid
        m.state("id", "Empty")
    assert "returns to a producer id" in finding(m.judged(tmp_path), "unlawful-state")["sentence"]


def test_answers_ahead_of_the_log_are_found(tmp_path):
    m = two_producers()
    for row in m.rows:
        if row["state"] and row["state"]["transactional_id"] == "id-1" and row["kind"].endswith("Commit"):
            row["kind"] = row["kind"].replace("Commit", "Abort")
    document = m.judged(tmp_path)
    assert "was acknowledged as committed, and its coordinator logged no such decision" in said(document, "unlogged-answer")
    m = two_producers()
    m.h.add(5, "initialise", transactional_id="id-1")
    assert "2 calls of initialise returned for transactional id id-1" in said(m.judged(tmp_path), "unlogged-answer")


# --------------------------------------------------------------------------------------------------
# Damages at random places, and the slow twins
# --------------------------------------------------------------------------------------------------
def damaged(m, rng):
    """A model with one number, kind or place changed, on all replicas or on one."""
    rows = m.replicas()
    row = rng.choice([row for row in m.rows if not row["partition"].startswith(STATE_LOG)])
    state = rng.choice([row for row in m.rows if row["partition"] == STATE_LOG])
    one = rng.random() < 0.2
    nodes = [rng.choice(("n1", "n2", "n3"))] if one else ["n1", "n2", "n3"]
    target, change = rng.choice(
        [
            (
                row,
                {"first_sequence": max(0, row["first_sequence"] + rng.choice((-2, -1, 1, 3, 9)))}
                if row["kind"] == "record"
                else {},
            ),
            (row, {"producer_id": rng.randrange(3)}),
            (row, {"producer_epoch": rng.randrange(4)}),
            (row, {"kind": {"COMMIT": "ABORT", "ABORT": "COMMIT"}.get(row["kind"], "record")}),
            (row, None),
            (row, {"coordinator_epoch": rng.randrange(3)} if row["kind"] in ("COMMIT", "ABORT") else {}),
            (row, {"checksum": 99}),
            (row, {"leader_epoch": rng.choice((-1, 1, 2))}),
            (state, {"kind": rng.choice(("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "removed"))}),
            (state, {"state": {**state["state"], "producer_epoch": rng.randrange(4)}}),
            (state, {"state": {**state["state"], "partitions": [f"t-{rng.randrange(3)}"]}}),
        ]
    )
    place = (target["partition"], target["offset"])
    hit = [it["node"] in nodes and (it["partition"], it["offset"]) == place and it["kind"] != "log" for it in rows]
    return [{**it, **(change or {})} if yes else it for it, yes in zip(rows, hit, strict=True) if change is not None or not yes]


@pytest.mark.parametrize("seed", [*range(30), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(30, 400))])
def test_the_slow_twins_find_the_same(tmp_path, seed):
    m, rng = random_model(seed), Random(seed)
    rows = damaged(m, rng)
    document = m.judged(tmp_path, rows)
    found = {name: places(tmp_path, name) for name in NAMES}
    for name, expected in twin.sequences(rows).items():
        assert found[name] == expected, name
    assert found["replica-divergence"] == twin.divergences(rows)
    assert found["leader-epoch-regression"] == twin.lower_leader_epochs(rows)
    whole = [row["offset"] for row in rows if row["partition"] == STATE_LOG and row["node"] == "n1" and row["kind"] != "log"]
    if sorted(whole) != list(range(len(whole))):
        return  # the coordinator's log is not whole any more
    assert found["unlawful-state"] == twin.unlawful_states(rows)
    assert bool(found["unlogged-answer"]) == bool(twin.unlogged(rows, m.h.ops))
    assert {partition for partition, _ in found["record-after-marker"]} == {partition for partition, _ in twin.late_records(rows)}
    assert bool(violated(document).get("producer-id-reuse")) == bool(twin.shared_ids(rows, m.h.ops))
    if not found["unlawful-state"]:  # else the coordinator's log itself leaves open what was decided
        assert {partition for partition, _ in found["wrong-marker"]} == {partition for partition, _ in twin.wrong_markers(rows)}


# --------------------------------------------------------------------------------------------------
# Missing evidence
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("contract", [{}, {"corruption": "synced"}], ids=["none", "synced"])
@pytest.mark.parametrize("protocol", [1, 2])
def test_a_batch_that_cannot_be_read_may_have_been_any(tmp_path, protocol, contract):
    """Whatever is left of its head: nothing is missing behind it, there twice, or of an older epoch. The others are judged."""
    heads = (
        {},
        {"first_sequence": 900},
        {"first_sequence": 0},
        {"producer_epoch": 30},
        {"producer_id": 7777},
        {"last_offset": 90_000},
    )
    for offset, head in [*((4, head) for head in heads), (0, {}), (5, {}), (8, {})]:
        m = LogModel(protocol)
        m.initialise(0, "id")
        for _ in range(3):
            m.transaction(0, {"t-0": 2, "t-1": 1})
        m.at("t-0", offset).update({**head, "kind": "damaged batch", "v": None})
        assert not violated(m.judged(tmp_path, contract=contract, checks=[*CHECKS, epoch_regression])), (offset, head)
        m.of("COMMIT", "t-1")[0]["kind"] = "ABORT"
        assert "wrong-marker" in violated(m.judged(tmp_path, contract=contract))


def without(rows, **wanted):
    """Rows with some columns null, on n2."""
    return [row | wanted if row["node"] == "n2" else row for row in rows]


IMPOSSIBLE = {
    "a column lacks values on one node": [
        lambda rows, name=name: without(rows, **{name: None})
        for name in ("leader_epoch", "sequence", "timestamp", "last_offset", "first_sequence", "checksum", "transactional")
    ],
    "a column lacks values": [
        lambda rows, name=name: [row | {name: None} for row in rows] for name in ("producer_id", "producer_epoch", "kind")
    ],
    "states say nothing": [
        lambda rows: [row | ({"state": None} if row["kind"] == "PrepareCommit" else {}) for row in rows],
        lambda rows: [row | ({"state": row["state"] | {"partitions": None}} if row["state"] else {}) for row in rows],
        lambda rows: [row | ({"state": row["state"] | {"transactional_id": None}} if row["state"] else {}) for row in rows],
    ],
    "rows are there twice": [lambda rows: rows * 2, lambda rows: [*rows, *(row for row in rows if row["kind"] == "log")]],
    "rows of another run": [lambda rows: rows + random_model(7).replicas()],
}


@pytest.mark.parametrize("changes", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_table_that_no_brokers_logs_can_hold_is_unknown(tmp_path, changes):
    """None is named by a manifest with its checksum."""
    checks = [*CHECKS, epoch_regression]
    for change in changes:
        document = two_producers().judged(tmp_path, change(two_producers().replicas()), checks=checks)
        assert {answer(document, name)["verdict"] for name in (*NAMES, "epoch-regression")} == {"unknown"}


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_log_that_ends_below_its_high_watermark_lacks_something(tmp_path, protocol):
    """A node wrote the watermark before its segments were read. What is not there accuses nobody."""
    m = two_producers(protocol)
    for partition, count in ((STATE_LOG, 1), (STATE_LOG, 3), (STATE_LOG, 9), ("t-0", 1), ("t-1", 4), ("t-1", 12)):
        end = m.ends[partition] - count
        cut = [row for row in m.replicas() if row["partition"] != partition or row["offset"] < end or row["kind"] == "log"]
        assert not violated(m.judged(tmp_path, cut)), (partition, count)
        known = [row | ({"last_offset": end} if (row["kind"], row["partition"]) == ("log", partition) else {}) for row in cut]
        assert violated(m.judged(tmp_path, known)) or (partition, count) == (STATE_LOG, 1)


def test_behind_a_damaged_batch_numbers_follow_each_other_again(tmp_path):
    m = LogModel()
    m.initialise(0, "id")
    m.transaction(0, {"t-0": 6})
    m.at("t-0", 1).update(kind="damaged batch", v=None)
    for row in m.of("record", "t-0")[3:]:
        row["first_sequence"] += 5
    m.judged(tmp_path)
    assert places(tmp_path, "sequence-gap") == {("t-0", 4)}


@pytest.mark.parametrize("kind", ["damaged batch", "control"])
def test_a_coordinators_log_with_a_record_that_cannot_be_read_is_not_whole(tmp_path, kind):
    """Damaged on the disk, or of a version that is not known."""
    m = two_producers()
    m.of("PrepareCommit")[0].update(kind=kind, state=None)
    document = m.judged(tmp_path)
    assert not violated(document)
    assert "or some cannot be read" in answer(document, "unlawful-state")["reason"]


def test_tables_of_older_versions_and_logs_that_are_not_whole_are_not_exercised(tmp_path):
    m = two_producers()
    m.judged(tmp_path)
    table = pq.read_table(tmp_path / RunFile.STORED)
    old = [column.name for column in STORED if not column.optional]
    document = m.judged(tmp_path, [row for row in m.replicas() if row["partition"] != STATE_LOG or row["offset"] != 4])
    assert "have lost records, by compaction" in answer(document, "wrong-marker")["reason"]
    pq.write_table(table.select(old), tmp_path / RunFile.STORED)
    document = judge_here(tmp_path, m.h.ops, None, CHECKS)
    assert {answer(document, name)["verdict"] for name in NAMES} == {"not exercised"}
    assert "of an older version" in answer(document, "sequence-gap")["reason"]


def test_a_damaged_table_is_unknown(tmp_path):
    m = two_producers()
    m.judged(tmp_path)
    (tmp_path / RunFile.STORED).write_text("no table")
    document = judge_here(tmp_path, m.h.ops, None, CHECKS)
    assert {answer(document, name)["verdict"] for name in NAMES} == {"unknown"}


def test_settings_that_permit_it():
    by_name = {check.name: check for check in CHECKS}

    def judged(name, **contract):
        return rule_for(by_name[name].rules, full_contract({"transactional": "true"}, contract)).judged

    assert judged("sequence-gap", producer_expiry="5000") == "allowed"
    assert judged("sequence-gap", compaction="true") == "inapplicable"
    assert judged("sequence-gap", unclean_leader_election="true") == "forbidden", "no log takes a number that does not follow"
    assert judged("sequence-start", unclean_leader_election="true") == "allowed"
    assert judged("sequence-start", topic_deletions="records") == "allowed"
    assert judged("wrong-marker", operator_aborts="open") == "allowed"
    assert judged("replica-divergence", power_failures="all replicas") == "allowed"
    assert judged("leader-epoch-regression", power_failures="all replicas") == "allowed"
    assert judged("leader-epoch-regression", compaction="true") == "forbidden"
    assert judged("unlawful-state", unclean_coordinator="true") == "allowed"
    assert judged("producer-id-reuse", unclean_leader_election="true") == "forbidden"


@pytest.mark.parametrize("protocol", [1, 2])
def test_a_turned_decision_is_planted_with_each_protocol(tmp_path, protocol):
    """With the second one a decision has another epoch than the records that it decides about."""
    m = two_producers(protocol)
    m.h.final({})
    assert not violated(m.judged(tmp_path))
    rows = replace(read_rows(tmp_path / RunFile.HISTORY), logs=pq.read_table(tmp_path / RunFile.STORED))
    for seed in range(5):
        damaged = UNLOG.plant(rows, Random(seed))
        pq.write_table(damaged.logs, tmp_path / RunFile.STORED)
        assert "unlogged-answer" in violated(judge_here(tmp_path, m.h.ops, None, CHECKS))


def test_every_row_of_the_model_fits_the_table():
    assert pa.Table.from_pylist(random_model(3).replicas(), schema=schema(STORED)).num_rows


@pytest.mark.parametrize("own", ["id-0", "id-1"])
def test_the_instances_of_several_producers_of_a_process_are_told_apart(tmp_path, own):
    """Another process takes the second id over; then the first process writes, with a producer that nobody or somebody fenced."""
    m = LogModel()
    for name in ("id-0", "id-1"):
        m.initialise(0, name)
    m.initialise(1, "id-1")
    m.transaction(1, {"t-1": 1})
    m.names[0] = own
    m.ids[own]["epoch"] = 0
    m.transaction(0, {"t-0": 1})
    m.h.final({})
    document = m.judged(tmp_path, checks=[epoch_regression, late_marker])
    assert set(violated(document)) == ({"late-marker"} if own == "id-1" else set())
