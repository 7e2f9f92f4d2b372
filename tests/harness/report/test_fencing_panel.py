"""The panel on fencing: cells counted from the `initialise` operations, and rows of the table of errors."""

from __future__ import annotations

import json

import pytest
from support.histories import History, write_history

from fencepost.harness.report.documents import _ops
from fencepost.harness.report.panels.fencing import cells, error_table


@pytest.fixture
def counted(tmp_path):
    """Slot 0: one instance whose commit process 5 takes over, one that is undisturbed."""
    h = History()

    def initialise(process, cell):
        return h.add(process, "initialise", detail=json.dumps({"cell": cell}), slot=0)

    initialise(0, "before commit")
    first = h.txn(0, {"t-0": [1]}, "info", slot=0)
    initialise(5, "before commit")
    h.txn(5, {"t-0": [3]}, slot=0)
    h.ops[first]["end"] = h.now
    h.txn(0, {"t-0": None}, "fail", slot=0)
    initialise(0, "alone")
    for offset in (5, 7):
        h.txn(0, {"t-0": [offset]}, slot=0)
    write_history(tmp_path, h.ops)
    return {row.name: row for row in cells(_ops(tmp_path / "history.parquet"))}


def test_a_rival_is_whoever_initialises_inside_an_operation_of_another_process(counted):
    row = counted["before commit"]
    assert (row.instances, row.rivals, row.first, row.again) == ("1", "1", "1 info", "1 fail")


def test_an_undisturbed_instance_has_no_rival(counted):
    row = counted["alone"]
    assert (row.instances, row.rivals, row.first, row.again) == ("1", "0", "1 ok", "1 ok")


def test_a_row_of_the_table_is_met_violated_or_not_exercised():
    counts = ((3, 0), (3, 1), (0, 0))
    rows = [{"situation": "s", "calls": "c", "demanded": "d", "source": "KIP-98", "met": m, "violated": v} for m, v in counts]
    verdict = {"allowed": [{"name": "wrong-error", "compared": 7, "table": rows}]}
    assert [row.state for row in error_table(verdict)] == ["met", "violated", "not exercised"]
    assert error_table({"allowed": [{"name": "wrong-error", "compared": 0, "table": rows}]}) == ()


def test_the_promises_of_connect_are_a_table_of_their_own():
    row = {"situation": "s", "calls": "c", "demanded": "d", "source": "KIP-618", "met": 2, "violated": 0}
    verdict = {"properties": [{"name": "connect-promise", "compared": 2, "table": [row]}]}
    assert error_table(verdict) == ()
    assert [line.met for line in error_table(verdict, "connect-promise")] == ["2"]
