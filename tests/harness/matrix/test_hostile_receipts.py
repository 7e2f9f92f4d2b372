"""Receipts and plans of runs from anywhere: whatever stands in them, each fault of a cell is told of, and nothing breaks."""

from __future__ import annotations

import copy
import json

import pytest

from fencepost.harness.api.run import Run
from fencepost.harness.matrix.crossings import crossings
from fencepost.harness.matrix.results import UNEXERCISED, of_strikes, strikes_of

from .test_observed import init, receipt, request, run

ODD = (None, [], {}, "x", -1, True, 1e300, 10**30, [None], {"a": None}, [["x"]], [[[]]])
PLACES = [
    ("evidence",),
    ("healing",),
    ("evidence", "during"),
    ("evidence", "during", 0),
    *(("evidence", "during", 0, key) for key in ("node", "api", "client_id", "time_ns")),
    ("evidence", "fired"),
    *(("evidence", "fired", key) for key in ("kind", "effective", "options")),
    ("evidence", "fired", "options", "target"),
]


def replaced(document, place, value):
    """A copy of a document with another value in a place."""
    made = copy.deepcopy(document)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return made


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_evidence_of_any_form_breaks_nothing(tmp_path, place):
    for value in ODD:
        odd = replaced(receipt(), place, value)
        found = strikes_of(run(tmp_path, [init(1), request()], [odd]))
        assert len(found) == 1, value
        crossings(found)


@pytest.mark.parametrize("place", [("evidence", "fired"), ("evidence", "during", 0, "api")], ids=str)
def test_evidence_of_another_form_than_a_run_leaves_is_none(tmp_path, place):
    odd = replaced(receipt(), place, 5)
    result = next(each for each in of_strikes(strikes_of(run(tmp_path, [init(1), request()], [odd]))) if each.strikes)
    assert result.state == UNEXERCISED
    assert result.words == "not exercised, 0 of 1 faults struck: its evidence is not of the form that a run leaves"


@pytest.mark.parametrize("place", [("cluster", "options", "features"), ("workload", "options", "protocol")], ids=str)
def test_plans_of_any_form_break_nothing(tmp_path, place):
    made = run(tmp_path, [init(1), request()], [receipt()])
    for value in ODD:
        plan = replaced(json.loads(json.dumps(made.plan)), place, value)
        [(cell, strike)] = strikes_of(Run(directory=tmp_path, plan=plan, verdict=made.verdict, read_receipts=lambda: [receipt()]))
        crossings([(cell, strike)])
