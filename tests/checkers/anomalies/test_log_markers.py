"""Markers in the brokers' logs, beside what coordinators decided: lawful ones, and damaged ones."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support.histories import answer, finding
from support.log_model import CHECKS, STATE_LOG, LogModel, places, said, two_producers, violated

from fencepost.checkers.contract.rules import full_contract, rule_for
from fencepost.harness.api.evidence import Manifest
from fencepost.harness.history.run_directory import write_manifest


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


BROKERS = {"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}


@pytest.mark.parametrize(("nodes", "sure"), [(("n1",), False), (("n1", "n2"), True), (("n1", "n2", "n3"), True)])
@pytest.mark.parametrize("behind", [STATE_LOG, "t-1"])
def test_a_replica_that_may_lag_proves_nothing_where_the_logs_of_those_in_sync_were_not_kept(tmp_path, behind, nodes, sure):
    """Two of three have to be in sync: of two logs one has all that was acknowledged. The log that is left ends too early."""
    m = two_producers()
    end = m.ends[behind] - 3
    rows = [row for row in m.replicas(nodes) if row["partition"] != behind or row["kind"] == "log" or row["offset"] < end]
    rows = [row | ({"last_offset": end} if (row["partition"], row["kind"]) == (behind, "log") else {}) for row in rows]
    plan = {
        "topics": {"t": {"partitions": 2, "replication": 3, "settings": {"min.insync.replicas": "2"}}},
        "cluster": {"description": {"broker_settings": BROKERS}},
    }
    document = m.judged(tmp_path, rows, **plan)
    assert bool({"wrong-marker", "unlogged-answer"} & set(violated(document))) is sure


def test_a_plan_that_does_not_say_how_many_are_in_sync_takes_what_is_there_for_all(tmp_path):
    m = two_producers()
    m.of("ABORT", "t-1")[1]["kind"] = "COMMIT"
    for topic in ({}, {"replication": None}, {"replication": 3, "settings": {"min.insync.replicas": "9"}}, {"settings": {}}):
        assert "wrong-marker" in violated(m.judged(tmp_path, m.replicas(("n1",)), topics={"t": topic}))


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


def test_an_instance_whose_initialise_took_no_time_is_no_later_one(tmp_path):
    m = fenced(late=False)
    for op in m.h.ops:
        if op["f"] == "initialise":
            op["end"] = op["time"]
    assert not violated(m.judged(tmp_path))


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
