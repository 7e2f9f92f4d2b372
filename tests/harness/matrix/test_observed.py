"""What faults met: states of ids by what was on the wire, roles by receipts, and what follows for the crossings."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.api.run import Run
from fencepost.harness.api.wire import wire_schema
from fencepost.harness.matrix.cells import Cell
from fencepost.harness.matrix.crossing import crossing_of
from fencepost.harness.matrix.crossings import crossings, uncovered_lines
from fencepost.harness.matrix.evidence import Caught
from fencepost.harness.matrix.id_states import IdStates
from fencepost.harness.matrix.observed import Observed
from fencepost.harness.matrix.results import ABSENT, HELD, UNEXERCISED, VIOLATED, Strike, of_strikes, strikes_of

CELL = Cell(gap="end-txn", point="before", act="kill")
NAME = "end-txn/before/kill/coordinator/v1/java/no-group/committed"
BASE = {"node": "n1", "client_id": "w", "transactional_id": "t", "error": "NONE", "rules": [], "version": 1}


def init(at, epoch=0, client="w", producer=7):
    return {**BASE, "api": "InitProducerId", "arrived_ns": at, "answered_ns": at + 1, "client_id": client,
            "answer_producer_id": producer, "answer_producer_epoch": epoch}  # fmt: skip


def end(at, committed=True, epoch=0, producer=7):
    return {**BASE, "api": "EndTxn", "arrived_ns": at, "answered_ns": at + 1, "producer_id": producer, "producer_epoch": epoch,
            "committed": committed}  # fmt: skip


def request(at=100, api="EndTxn", epoch=0, producer=7, **more):
    return {**BASE, "api": api, "arrived_ns": at, "producer_id": producer, "producer_epoch": epoch, "rules": ["rule 1"], **more}


def caught(api="EndTxn", at=101, client="w"):
    return Caught(node="n1", api=api, client_id=client, time_ns=at)


@pytest.mark.parametrize(
    ("before", "row", "state"),
    [
        ([init(1)], request(), "fresh"),
        ([init(1), end(5)], request(), "committed"),
        ([init(1), end(5), end(9, committed=False)], request(), "aborted"),
        ([init(1), end(5), init(9, epoch=1)], request(epoch=1), "fresh"),
        ([init(1), end(5), init(9, epoch=1, client="rival")], request(), "fenced"),
        ([init(1), end(5), init(100, epoch=1, client="rival")], request(), "committed"),  # it was not answered yet
        ([init(1), end(5), end(9, epoch=1)], request(epoch=2), "committed"),  # protocol v2: the epoch grows with each end
        ([init(1)], request(producer=8), ""),
    ],
)
def test_the_state_of_a_producers_request(before, row, state):
    assert IdStates(before, [row]).state("end-txn", caught()) == state


@pytest.mark.parametrize(
    ("before", "state"),
    [
        ([], "fresh"),
        ([init(1), end(5)], "committed"),
        ([init(1), end(5, committed=False), init(9, epoch=1)], "aborted"),
        ([init(1), end(5), init(9, client="fencepost", epoch=1)], "fenced"),
    ],
)
def test_the_state_when_a_producer_begins(before, state):
    row = request(api="InitProducerId", producer=-1, epoch=-1)
    assert IdStates(before, [row]).state("init-producer-id", caught("InitProducerId")) == state


def test_a_marker_is_of_the_transaction_before_whose_end_the_state_was():
    row = request(api="WriteTxnMarkers", transactional_id=None, client_id="broker-1", epoch=0)
    known = [init(1), end(5, committed=False), end(90)]
    assert IdStates(known, [row]).state("markers", caught("WriteTxnMarkers", client="broker-1")) == "aborted"


def test_behind_an_answered_end_the_state_is_its_own():
    states = IdStates([init(1), end(5)], [request(committed=False)])
    assert states.state("next-begin", caught()) == "aborted"


def test_a_message_that_is_not_in_the_record_has_no_state():
    assert IdStates([init(1)], []).state("end-txn", caught()) == ""
    assert IdStates([init(1)], [request(at=500)]).state("end-txn", caught()) == ""


def run(tmp_path, rows, receipts, schedule=(), verdict="valid", findings=()):
    columns = {name: [row.get(name) for row in rows] for name in wire_schema().names}
    columns["made_by_proxy"] = [False] * len(rows)
    pq.write_table(pa.table(columns, wire_schema()), tmp_path / "wire.parquet")
    plan = {
        "run": "abc",
        "schedule": [{"id": 4, "kind": "protocol", "options": {"cell": NAME}}, *schedule],
        "client": {"kind": "java@4.3.0"},
        "workload": {"kind": "transactions", "options": {}},
        "cluster": {"options": {"features": {"transaction.version": 1}}, "description": {"kafka": "4.4.0"}},
    }
    document = {"verdict": verdict, "findings": list(findings)}
    return Run(directory=tmp_path, plan=plan, verdict=document, read_receipts=lambda: receipts)


def receipt(target="broker:n1", kind="kill"):
    fired = {"kind": kind, "options": {"target": target}, "effective": True}
    return {
        "id": 4,
        "kind": "protocol",
        "effective": True,
        "note": "",
        "injected_ns": 1,
        "evidence": {"during": [msgspec.to_builtins(caught())], "fired": fired},
    }


def child(node, kind="kill"):
    return {"id": 50, "kind": kind, "effective": True, "injected_ns": 200, "targets": [node], "evidence": {}, "note": ""}


def test_the_values_of_a_start_are_those_of_the_plan(tmp_path):
    made = Observed(run(tmp_path, [init(1), end(5), request()], [receipt()])).values(CELL, receipt())
    assert made == {
        "gap": "end-txn", "point": "before", "act": "kill", "role": "coordinator", "version": "v1", "client": "java",
        "group": "no-group", "id": "committed",
    }  # fmt: skip


def test_a_version_that_a_fault_changes_is_changing(tmp_path):
    other = {"id": 5, "kind": "transaction-version", "options": {}}
    made = Observed(run(tmp_path, [init(1), request()], [receipt()], schedule=[other])).values(CELL, receipt())
    assert made["version"] == "changing"


@pytest.mark.parametrize(
    ("target", "node", "role"),
    [
        ("controller", "n2", "bystander"),
        ("controller", "n1", "coordinator"),
        ("leader", "n3", "leader"),
        ("leader", "n1", "coordinator"),
    ],
)
def test_who_was_hit_decides_the_role(tmp_path, target, node, role):
    """A leader, or the controller, that is the broker with the message counts as that."""
    one = receipt(target)
    assert Observed(run(tmp_path, [init(1), request()], [one, child(node)])).values(CELL, one)["role"] == role


def states(*runs):
    found = crossings(strike for each in runs for strike in strikes_of(each))
    return {str(result.crossing): result for result in found.results}, found


def test_a_crossing_that_was_met_is_held_or_violated(tmp_path):
    rows = [init(1), end(5), request()]
    by_name, found = states(run(tmp_path, rows, [receipt()]))
    assert by_name[NAME].state == HELD
    assert ("gap", "end-txn", "id", "committed") in found.covered
    finding = {"anomaly": "lost-write", "forbidden": True, "faults": [4], "time": 5}
    by_name, _ = states(run(tmp_path, rows, [receipt()], verdict="invalid", findings=[finding]))
    assert by_name[NAME].words == "violated: lost-write"


def test_a_fault_that_met_another_state_counts_for_that_one(tmp_path):
    by_name, found = states(run(tmp_path, [init(1), request()], [receipt()]))
    assert by_name[NAME].words == "not exercised: id was fresh"
    assert by_name[NAME.replace("committed", "fresh")].state == HELD
    assert ("gap", "end-txn", "id", "committed") not in found.covered


def test_what_is_not_known_is_met_by_nobody(tmp_path):
    by_name, _ = states(run(tmp_path, [], [receipt()]))
    assert by_name[NAME].words == "not exercised: id was not known"
    by_name, found = states(run(tmp_path, [init(1), request()], [receipt()], verdict="unknown"))
    assert by_name[NAME].words == "not exercised: its run has no verdict"
    assert not found.covered
    assert {result.state for name, result in by_name.items() if name != NAME} == {ABSENT}


def test_faults_without_effect_say_why():
    strike = Strike(run="abc", fault=1, struck=False, note="no EndTxn came", crossing=NAME)
    found = crossings([(CELL, strike)])
    result = next(each for each in found.results if each.crossing == crossing_of(NAME))
    assert (result.state, result.words) == (UNEXERCISED, "not exercised: no EndTxn came")


def test_what_struck_says_more_than_what_did_not(tmp_path):
    more = {"id": 9, "kind": "protocol", "options": {"cell": NAME}}  # without a receipt
    by_name, _ = states(run(tmp_path, [init(1), request()], [receipt()], schedule=[more]))
    assert by_name[NAME].words == "not exercised: id was fresh"


def test_the_cell_counts_by_its_name_whatever_was_met(tmp_path):
    found = of_strikes(strikes_of(run(tmp_path, [init(1), request()], [receipt()])))
    assert next(result for result in found if result.cell == CELL).state == HELD


def test_every_pair_is_covered_or_named():
    found = crossings([])
    assert not found.covered
    text = "\n".join(uncovered_lines(found))
    assert "gap produce with: " in text
    assert sum(line.count(",") + line.count(";") + 1 for line in text.splitlines()) == len(found.uncovered)
    assert VIOLATED not in {result.state for result in found.results}
