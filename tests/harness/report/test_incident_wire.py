"""Requests that proxies recorded, in the card of an incident: those of its transactional ids, and what became of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.proxy.record import WIRE
from fencepost.harness.report.incident_wire import WireRow, wire_rows

S, MS = 1_000_000_000, 1_000_000
ROW = {
    "node": "n2", "api": "EndTxn", "version": 1, "client_id": "w0", "arrived_ns": 100 * S, "forwarded_ns": 100 * S,
    "answered_ns": 100 * S + 15 * MS, "returned_ns": 100 * S + 15 * MS, "copies": 1, "transactional_id": "id", "producer_id": 5,
    "producer_epoch": 0, "committed": True, "error": "NONE", "partitions": "[]", "rules": [], "lost": None,
    "made_by_proxy": False,
}  # fmt: skip


def test_a_request_is_told_in_words():
    row = WireRow(**ROW)
    assert row.words == "EndTxn 1, commit, producer 5 epoch 0"
    assert (row.fate, row.struck) == ("answer NONE after 15 ms", False)
    many = replace(row, api="AddPartitionsToTxn", committed=None, partitions='[{"topic": "t", "partition": 0}]')
    assert many.words == "AddPartitionsToTxn 1, t-0, producer 5 epoch 0"


@pytest.mark.parametrize(
    ("change", "fate", "label"),
    [
        (
            {
                "forwarded_ns": 98 * S,
                "arrived_ns": 96 * S,
                "answered_ns": 98 * S + MS,
                "returned_ns": None,
                "lost": "cut by rule a",
            },
            "passed on 2.0 s later; answer NONE after 1 ms, which the client never got (cut by rule a)",
            "EndTxn, 2.0 s late",
        ),
        (
            {"returned_ns": None, "lost": "cut by rule a"},
            "answer NONE after 15 ms, which the client never got (cut by rule a)",
            "EndTxn: answer lost",
        ),
        ({"answered_ns": None, "returned_ns": None, "error": None}, "never answered", "EndTxn: no answer"),
        (
            {"forwarded_ns": None, "answered_ns": 100 * S, "made_by_proxy": True, "error": "NOT_COORDINATOR", "rules": ["a"]},
            "the proxy answers NOT_COORDINATOR",
            "EndTxn: NOT_COORDINATOR by the proxy",
        ),
        (
            {"forwarded_ns": None, "answered_ns": None, "returned_ns": None, "lost": "cut by rule a"},
            "not passed on (cut by rule a)",
            "EndTxn: not passed on",
        ),
    ],
)
def test_what_a_rule_did_is_told(change, fate, label):
    row = WireRow(**{**ROW, **change})
    assert (row.fate, row.label, row.struck) == (fate, label, True)


def run_with(directory: Path, *rows: dict) -> Run:
    whole = [{**dict.fromkeys(WIRE.names), "connection": 1, "number": n, **row} for n, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(whole, WIRE), directory / RunFile.WIRE)
    return Run(directory=directory)


def test_those_around_an_operation_of_its_id_are_taken_and_the_markers_of_their_producer(tmp_path):
    """Also one that came long before and was passed on then; not those of another id, of another time, of another producer."""
    marker = {"api": "WriteTxnMarkers", "transactional_id": None}
    run = run_with(
        tmp_path,
        {**ROW, "producer_epoch": 0},
        {**ROW, "producer_epoch": 1, "arrived_ns": 80 * S},
        {**ROW, "producer_epoch": 2, "arrived_ns": 80 * S, "forwarded_ns": 80 * S},
        {**ROW, "producer_epoch": 3, "transactional_id": "other"},
        {**ROW, **marker, "producer_epoch": 4},
        {**ROW, **marker, "producer_epoch": 5, "producer_id": 6},
        {**ROW, **marker, "producer_epoch": 6, "arrived_ns": 90 * S, "forwarded_ns": 90 * S},
    )
    assert [row.producer_epoch for row in wire_rows(run, [("id", 100 * S, 101 * S)])] == [1, 0, 4]


def test_without_a_record_and_with_a_damaged_one_there_are_none(tmp_path):
    assert wire_rows(Run(directory=tmp_path), [("id", 0, S)]) == ()
    (tmp_path / RunFile.WIRE).write_bytes(b"PAR1")
    assert wire_rows(Run(directory=tmp_path), [("id", 0, S)]) == ()
    assert wire_rows(None, [("id", 0, S)]) == ()
