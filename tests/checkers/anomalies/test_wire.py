"""Requests on the wire beside the machine, batches with used numbers, and acknowledgements that no broker gave."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pyarrow.parquet as pq
import pytest
from support.histories import History, answer, violated
from support.judging import judge_here

from fencepost.checkers.anomalies.wire_answers import sequence_reuse, unproven_ack
from fencepost.checkers.anomalies.wire_model import _is_recorded, protocol_violation
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.model.history_rows import read_rows, write_rows
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.pipeline.wire_findings import WireFinding, WireResult, explained_by_wire
from fencepost.checkers.pipeline.wire_log import WireLog
from fencepost.checkers.selfcheck.lawful_wire import as_table, lawful_wire, named, row
from fencepost.checkers.verdict.judge import judge
from fencepost.checkers.views.run_view import Fencing
from fencepost.checkers.wire import judging
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import NODES, OPERATORS_CLIENT, NodeRecord, with_nodes
from fencepost.harness.history.run_directory import open_run

CHECKS = [protocol_violation, sequence_reuse, unproven_ack]
ID = {"transactional_id": "id"}
SETTINGS = {"cluster": {"description": {"broker_settings": {}}}}
MS = 1_000_000


class Wire:
    """A story with what was on the wire: two transactions of one id, the second one aborted."""

    def __init__(self, protocol=1):
        self.h, self.rows, self.second, self.epoch, self.sequence = History(), [], protocol == 2, 0, 0
        self.h.add(0, "initialise", **ID)
        self.ask("InitProducerId", 4, self.h.now - MS, answer_producer_id=7, answer_producer_epoch=0)
        self.transaction(5, commit=True)
        self.transaction(7, commit=False)
        self.h.final({"t-0": [5]})

    def ask(self, api, version, at, **more):
        self.rows.append({**row(api, version, at, at + 2, **ID, **more)})
        return self.rows[-1]

    def transaction(self, offset, commit):
        at, who = self.h.now, {"producer_id": 7, "producer_epoch": self.epoch}
        self.h.txn(0, {"t-0": offset}, intent="commit" if commit else "abort", **ID)
        if not self.second:
            self.ask("AddPartitionsToTxn", 3, at, **who, partitions=json.dumps([{"topic": "t", "partition": 0}]))
        batch = {"producer_id": 7, "epoch": self.epoch, "first_sequence": self.sequence, "records": 1, "crc": offset}
        batch["transactional"] = True
        place = {"topic": "t", "partition": 0}
        written = json.dumps([{**place, "batches": [batch]}])
        answered = json.dumps([{**place, "base_offset": offset}])
        self.ask("Produce", 12 if self.second else 9, at + 5, **who, partitions=written, answer_partitions=answered)
        given = {"answer_producer_id": 7, "answer_producer_epoch": self.epoch + 1} if self.second else {}
        self.ask("EndTxn", 5 if self.second else 3, at + 10, **who, committed=commit, **given)
        self.epoch, self.sequence = self.epoch + self.second, 0 if self.second else self.sequence + 1

    def of(self, api):
        return [row for row in self.rows if row["api"] == api]

    def judged(self, folder, nodes=None, **plan):
        table = as_table(self.rows)
        pq.write_table(table if nodes is None else with_nodes(table, nodes), folder / RunFile.WIRE)
        return judge_here(folder, self.h.ops, None, CHECKS, **{**SETTINGS, **plan})


@pytest.fixture(params=[1, 2])
def w(request):
    return Wire(request.param)


def names(document):
    return set(violated(document))


def test_a_lawful_record_holds_and_says_how_much_was_compared(tmp_path, w):
    document = w.judged(tmp_path)
    assert not names(document)
    compared = {check.name: answer(document, check.name)["compared"] for check in CHECKS}
    assert compared == {"protocol-violation": 4, "sequence-reuse": 2, "unproven-ack": 4}


@pytest.mark.parametrize(("client_id", "wrong"), [("some-client", False), ("AddPartitionsManager-client-1", True)])
def test_a_client_that_adds_partitions_by_the_brokers_version_has_added_them(tmp_path, client_id, wrong):
    """@platformatic/kafka sends version 5, by which leaders ask about transactions too."""
    w = Wire()
    for asked in w.of("AddPartitionsToTxn"):
        asked |= {"version": 5, "client_id": client_id}
    assert ("protocol-violation" in names(w.judged(tmp_path))) == wrong


def test_an_answer_from_behind_the_end_of_the_record_accuses_nobody(tmp_path, w):
    """An instance that the record does not show may have taken the id over after the end, and before the answer."""
    end = w.of("EndTxn")[1]
    end |= {"error": "INVALID_TXN_STATE"}
    assert "protocol-violation" in names(w.judged(tmp_path))
    ended = {"n1": NodeRecord(end["answered_ns"] - 1, "a line is missing")}
    (tmp_path / "ended").mkdir()
    document = w.judged(tmp_path / "ended", ended)
    assert answer(document, "protocol-violation")["verdict"] == "unknown"


def test_without_a_record_nothing_was_compared(tmp_path):
    document = judge_here(tmp_path, Wire().h.ops, None, CHECKS)
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"not exercised"}


@pytest.mark.parametrize("protocol", [1, 2])
def test_generated_lawful_histories_hold(tmp_path, protocol):
    run = write_lawful(tmp_path / "run", transactions=120, seed=protocol)
    rows = named(read_rows(tmp_path / "run" / RunFile.HISTORY))
    write_rows(rows, tmp_path / "run" / RunFile.HISTORY)
    pq.write_table(as_table(lawful_wire(rows)), run.path(RunFile.WIRE))
    document = judge(open_run(run.directory), spark=pytest.fail, here=True, checks=CHECKS)
    assert not names(document)
    assert all(answer(document, check.name)["compared"] > 100 for check in CHECKS)


def test_an_exchange_that_nothing_allows_is_a_finding_with_its_rule(tmp_path, w):
    end = w.of("EndTxn")[1]
    again = {**end, "committed": True, "forwarded_ns": end["answered_ns"] + 1, "answered_ns": end["answered_ns"] + 2}
    w.rows.append(again)
    document = w.judged(tmp_path)
    assert names(document) == {"protocol-violation", "unproven-ack"} or names(document) == {"protocol-violation"}
    sentence = next(found["sentence"] for found in document["findings"] if found["anomaly"] == "protocol-violation")
    assert "EndTxn (commit)" in sentence
    assert "of id with NONE" in sentence
    assert "KIP-98" in sentence or "KIP-890" in sentence


def test_an_answer_made_by_the_proxy_is_none_of_the_broker(tmp_path):
    w = Wire()
    w.of("EndTxn")[0] |= {"made_by_proxy": True, "error": "INVALID_TXN_STATE"}
    assert not names(w.judged(tmp_path))
    w.of("EndTxn")[0] |= {"made_by_proxy": False}
    assert names(w.judged(tmp_path)) == {"protocol-violation", "unproven-ack"}


def test_ids_that_an_operator_fenced_and_unknown_versions_are_not_judged(tmp_path):
    w = Wire()
    w.of("EndTxn")[1] |= {"error": "INVALID_TXN_STATE"}
    assert "protocol-violation" in names(w.judged(tmp_path))
    w.of("EndTxn")[1] |= {"version": 99}
    document = w.judged(tmp_path)
    assert answer(document, "protocol-violation")["verdict"] == "unknown"
    assert "version 99" in answer(document, "protocol-violation")["reason"]


def test_a_bound_on_states_is_said_and_leaves_the_rest_judged(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "MOST", 5)
    w = Wire()
    held = answer(document := w.judged(tmp_path), "protocol-violation")
    assert held["verdict"] == "held"
    assert held["compared"]
    assert "answers were not compared" in held["reason"]
    assert any(held["reason"] in sentence for sentence in document["weakened"])


def test_behind_the_end_of_a_brokers_record_nothing_is_judged(tmp_path):
    w = Wire()
    end = w.of("EndTxn")[1]
    end |= {"error": "INVALID_TXN_STATE"}
    cut = {"n1": NodeRecord(), "n2": NodeRecord(end["forwarded_ns"], "its host was lost")}
    document = w.judged(tmp_path, cut)
    assert {answer(document, name)["verdict"] for name in ("protocol-violation", "unproven-ack")} == {"unknown"}
    assert "its host was lost" in answer(document, "protocol-violation")["reason"]
    later = {**cut, "n2": NodeRecord(end["answered_ns"] + 1, "its host was lost")}
    assert "protocol-violation" in names(w.judged(tmp_path, later)), "what was before is judged"


def test_a_record_that_does_not_name_its_brokers_or_is_damaged_is_unknown(tmp_path):
    w = Wire()
    w.judged(tmp_path)
    table = pq.read_table(tmp_path / RunFile.WIRE)
    assert NODES in table.schema.metadata
    pq.write_table(table.replace_schema_metadata(None), tmp_path / RunFile.WIRE)
    document = judge_here(tmp_path, w.h.ops, None, CHECKS)
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"unknown"}
    (tmp_path / RunFile.WIRE).write_text("no table")
    document = judge_here(tmp_path, w.h.ops, None, CHECKS)
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"unknown"}


def test_two_batches_with_one_number_are_a_finding_and_one_batch_sent_again_is_none(tmp_path, w):
    first = w.of("Produce")[0]
    again = {**first, "forwarded_ns": first["answered_ns"], "answered_ns": first["answered_ns"] + 1}
    w.rows.append(again)
    assert not names(w.judged(tmp_path))
    changed = json.loads(first["partitions"])
    changed[0]["batches"][0]["crc"] += 1
    again["partitions"] = json.dumps(changed)
    assert names(w.judged(tmp_path)) == {"sequence-reuse"}
    again["answer_partitions"] = json.dumps([{"topic": "t", "partition": 0, "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}])
    assert not names(w.judged(tmp_path)), "the second one was refused"


def test_what_is_behind_the_end_of_the_record_is_unknown_and_what_was_found_before_stays(tmp_path, w):
    """The other batch with the number may lie behind it."""
    ended = {"n1": NodeRecord(w.of("EndTxn")[1]["forwarded_ns"], "a line is missing")}
    document = w.judged(tmp_path, ended)
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"unknown"}
    first = w.of("Produce")[0]
    changed = json.loads(first["partitions"])
    changed[0]["batches"][0]["crc"] += 1
    w.rows.append({**first, "partitions": json.dumps(changed)})
    assert "sequence-reuse" in names(w.judged(tmp_path, ended))


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("lacking", [None, "[]"])
def test_a_record_that_the_proxy_could_not_read_may_have_begun_a_transaction(tmp_path, protocol, lacking):
    """A Produce of a version that is newer than the proxy's: it adds its partition by itself, and takes offsets."""
    w = Wire(protocol)
    w.of("Produce")[1].update(version=14, partitions=lacking, answer_partitions=lacking, transactional_id=None, producer_id=None)
    document = w.judged(tmp_path)
    assert not names(document)
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"unknown"}


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("commits", [True, False])
def test_an_end_that_was_sent_before_a_transaction_began_is_not_its_own(tmp_path, protocol, commits):
    """The commit before had no answer in its client's time; it comes in the next transaction, which sends none."""
    w = Wire(protocol)
    before, own = w.of("EndTxn")
    first, second = (op for op in w.h.ops if op["f"] == "txn")
    first["type"], second["intent"] = "info", "commit" if commits else "abort"
    before["answered_ns"] = before["returned_ns"] = second["time"] + 1
    w.rows.remove(own)
    document = w.judged(tmp_path)
    assert names(document) == ({"unproven-ack"} if commits else set())
    if commits:
        assert "no broker granted an EndTxn in its time" in document["findings"][0]["sentence"]


@pytest.mark.parametrize("story", ["never sent", "refused", "aborted instead", "committed instead"])
def test_an_end_that_no_broker_granted_is_unproven(tmp_path, story):
    w = Wire()
    first, second = w.of("EndTxn")
    match story:
        case "never sent":
            w.rows.remove(first)
        case "refused":
            first["error"] = "COORDINATOR_NOT_AVAILABLE"
        case "aborted instead":
            first["committed"] = False
        case "committed instead":
            second["committed"] = True
    assert names(w.judged(tmp_path)) == {"unproven-ack"}


@pytest.mark.parametrize("named", [True, False])
def test_the_ends_of_each_of_several_producers_are_its_own(tmp_path, named):
    """An older history does not say which of its producers a process used: nothing of it can be compared."""
    w = Wire()
    second = {"transactional_id": "id-p1"}
    w.rows.append({**w.rows[0], **second})
    w.of("EndTxn")[1].update(second)
    w.h.ops[2] |= second if named else {}
    document = w.judged(tmp_path)
    assert "unproven-ack" not in names(document)
    assert answer(document, "unproven-ack")["compared"] == (4 if named else 2)  # two ends and two records; the records alone
    w.of("EndTxn")[1]["committed"] = True
    assert ("unproven-ack" in names(w.judged(tmp_path))) == named


@pytest.mark.parametrize("known", [True, False])
def test_a_topic_of_which_only_the_id_is_known_leaves_it_open(tmp_path, known):
    """A name may look like an id: 22 letters, digits, `-` and `_`."""
    w, name = Wire(protocol=2), "orders_archive_2024_eu"
    named = {"topic": name, "topic_id": "ID" if known else name}
    for asked in w.of("Produce"):
        asked |= {"version": 13, "partitions": json.dumps([{**json.loads(asked["partitions"])[0], **named}])}
    assert (answer(w.judged(tmp_path), "unproven-ack")["verdict"] == "unknown") != known


def test_an_abort_of_what_was_never_begun_needs_no_answer(tmp_path):
    w = Wire()
    w.rows.remove(w.of("EndTxn")[1])
    assert not names(w.judged(tmp_path))


def test_a_retried_end_is_proven_by_the_answer_that_came(tmp_path):
    w = Wire()
    first = w.of("EndTxn")[0]
    w.rows.append({**first, "forwarded_ns": first["forwarded_ns"] + 5, "answered_ns": first["answered_ns"] + 5})
    first |= {"answered_ns": None, "error": None, "lost": "client closed"}
    assert not names(w.judged(tmp_path))


def test_an_acknowledged_record_whose_batch_was_refused_or_lies_elsewhere_is_unproven(tmp_path):
    w = Wire()
    w.of("Produce")[0]["answer_partitions"] = json.dumps([{"topic": "t", "partition": 0, "base_offset": 4}])
    assert names(w.judged(tmp_path)) == {"unproven-ack"}
    w.of("Produce")[0]["answer_partitions"] = json.dumps([{"topic": "t", "partition": 0, "error": "NOT_ENOUGH_REPLICAS"}])
    assert names(w.judged(tmp_path)) == {"unproven-ack"}
    w.of("Produce")[0]["answer_partitions"] = json.dumps([{"topic": "t", "partition": 0}])
    assert not names(w.judged(tmp_path)), "the answer does not say where"


def test_damages_are_planted_where_there_is_a_place(tmp_path):
    write_lawful(tmp_path / "run", transactions=60, seed=3)
    rows = read_rows(tmp_path / "run" / RunFile.HISTORY)
    damages = [damage for check in CHECKS for damage in check.damages]
    assert len(damages) == 7
    for damage in damages:
        assert damage.plant(rows, Random(1)).wire is not None
        assert damage.plant(replace(rows, table=rows.table.slice(0, 0)), Random(1)) is None


def test_checks_need_the_wire():
    assert all(Evidence.WIRE in check.evidence.absence for check in CHECKS)


@pytest.mark.parametrize(("client", "recorded"), [(OPERATORS_CLIENT, True), ("somebody", False)])
def test_an_operators_fencing_is_judged_where_it_passed_a_proxy(client, recorded):
    """Another request of its id at that time is not the operator's."""
    asked = {**row("InitProducerId", 4, 100, 102, **ID), "client_id": client}
    assert _is_recorded(Fencing("id", 90, 110), WireLog([asked])) is recorded
    assert not _is_recorded(Fencing("id", 101, 110), WireLog([asked]))
    assert not _is_recorded(Fencing("other", 90, 110), WireLog([asked]))
    assert _is_recorded(Fencing("id", 90, None), WireLog([asked])) is recorded


def test_findings_of_one_moment_have_sentences_of_their_own():
    """Two ids of which nothing else tells them apart: neither has an operation of its own in the history."""
    found = WireResult(2, [WireFinding(name, 5, f"{name} is wrong", cause) for cause, name in enumerate(("a", "b"))])

    class Made:
        """A run, and what its findings say."""

        def shared(self, make):
            return found if make is find else self

        def nearest(self, finding):
            return 1

        def first_of(self, rows, what):
            return ""

        run = property(lambda self: self)

    def find(run):
        return found

    row = FindingRecord("", 1, -1, -1, 5, "sent")
    sentences = [explained_by_wire(find)(Finding("any", [row], cause=cause), Made()) for cause in (0, 1)]
    assert sentences == ["a is wrong.", "b is wrong."]
