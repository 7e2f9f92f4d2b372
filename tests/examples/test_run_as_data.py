"""The notebook of docs/run-as-data.md, cell by cell, on an example run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from support import report_example
from support.judging import no_session

from fencepost.checkers.service import SparkJudge

NOTEBOOK = Path(__file__).parents[2] / "examples" / "run_as_data.py"


@pytest.fixture
def performed(tmp_path, monkeypatch):
    """What the notebook's names are when it was performed on a run."""

    def perform(write, **variables):
        monkeypatch.setenv("RUN", str(write(tmp_path / "run")))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(NOTEBOOK))

    return perform


def test_it_is_made_of_cells():
    cells = re.split(r"^# %%.*$", NOTEBOOK.read_text(), flags=re.MULTILINE)
    assert cells[0] == ""
    assert all(cell.strip() for cell in cells[1:])


def test_outcomes_latency_and_the_surroundings_of_a_finding(performed, monkeypatch, capsys):
    monkeypatch.setattr(SparkJudge, "start_session", no_session)
    names = performed(report_example.torn)
    assert names["outcomes"].to_numpy().sum() == names["run"].verdict["counts"]["operations"]
    latency = names["latency"]
    assert list(latency.index) == ["0 cut-clients", "1 cut-clients", "2 pause", "none"]
    assert latency.loc["1 cut-clients", "p99_ms"] > 5 * latency.loc["none", "p99_ms"]
    assert names["by_call"]["commit", "_TIMED_OUT"] > 3
    assert set(names["run"].findings[0].operations) <= set(names["neighbourhood"])
    assert " before " in capsys.readouterr().out


def test_a_run_without_findings_and_faults(performed):
    names = performed(report_example.empty)
    assert len(names["neighbourhood"]) == 0
    assert list(names["latency"].index) == ["none"]


def test_the_cell_of_spark(performed, spark, capsys):
    performed(report_example.torn, WITH_SPARK="1")
    assert "|partition|  kind|count|" in capsys.readouterr().out
