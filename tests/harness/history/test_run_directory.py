"""A run's directory, opened once."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.api import HarnessError
from fencepost.harness.api.beneath import write_json
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence, Gap, HistoryFile, Manifest, missing_evidence
from fencepost.harness.api.run import Problem, RunFile, write_left_behind
from fencepost.harness.history.merge import FAULTS_SCHEMA
from fencepost.harness.history.run_directory import (
    open_run,
    read_plan,
    write_damage,
    write_manifest,
    write_plan,
    write_verdict,
)
from fencepost.harness.history.writer import HistoryWriter


def test_an_opened_run_has_every_document_of_its_directory(tmp_path):
    write_plan(tmp_path, {"run": "k3f9x2", "contract": {"acks": "all"}})
    gap = Gap(file="c0-0.jsonl", line=3, why="cut off", role="writer", slot=0, evidence=(Evidence.SENDS, Evidence.POLLS))
    write_damage(tmp_path, [gap], ["c0-0.jsonl"])
    manifest = Manifest(run="k3f9x2", slots=3, complete=False, files=(HistoryFile("c0-0.jsonl", 0, "c0", "writer"),))
    write_manifest(tmp_path, manifest)
    write_left_behind(tmp_path, ["the topic x"])
    write_verdict(tmp_path, {"verdict": "valid"})
    run = open_run(tmp_path)
    assert (run.id, run.contract) == ("k3f9x2", {"acks": "all"})
    assert (run.gaps, run.merged, run.left_behind) == ((gap,), ("c0-0.jsonl",), ("the topic x",))
    assert (run.manifest, run.verdict) == (manifest, {"verdict": "valid"})
    assert not run.problems


def test_damage_as_it_was_written_in_former_days_is_read(tmp_path):
    """Sentences in `damage.json`, and what they held in the contract of an adopted history."""
    write_json(tmp_path, RunFile.DAMAGE, ["h.edn line 3: cut off"])
    write_plan(tmp_path, {"contract": {"left_out": "polls,sends"}})
    run = open_run(tmp_path)
    assert (str(run.gaps[0]), run.merged) == ("history: h.edn line 3: cut off", None)
    assert missing_evidence(run.gaps) == {Evidence.SENDS, Evidence.POLLS, Evidence.POSITIONS}


@pytest.mark.parametrize("gaps", [7, [3], [{"file": "x"}], [{"file": "x", "why": "y", "evidence": ["nonsense"]}]])
def test_damage_of_another_shape_is_a_problem_that_names_the_file(tmp_path, gaps):
    write_json(tmp_path, RunFile.DAMAGE, {"gaps": gaps})
    run = open_run(tmp_path)
    assert run.gaps == ()
    with pytest.raises(HistoryError, match=r"damage\.json could not be read"):
        run.demand_readable(RunFile.DAMAGE)


@pytest.mark.parametrize(("written", "problem"), [("k3f9x2", False), ("", False), ("zzzzzz", True)])
def test_what_merging_said_of_another_runs_history_is_not_believed(tmp_path, written, problem):
    """With the other run's tables beside it every checksum is right."""
    write_plan(tmp_path, {"run": "k3f9x2", "manifest": True})
    write_damage(tmp_path, [], ["c0-0.jsonl"], written)
    run = open_run(tmp_path)
    assert (RunFile.DAMAGE in run.problems, run.merged is None) == (problem, problem)
    assert not problem or "it is that of run zzzzzz" in str(run.problems[RunFile.DAMAGE])


def test_the_history_of_a_run_is_a_path_or_the_address_in_its_plan(tmp_path):
    assert (open_run(tmp_path).is_remote, open_run(tmp_path).history) == (False, str(tmp_path / "history.parquet"))
    write_plan(tmp_path, {"history": "hdfs://there/history.parquet"})
    assert (open_run(tmp_path).is_remote, open_run(tmp_path).history) == (True, "hdfs://there/history.parquet")


def test_a_missing_document_is_a_problem_of_the_run_and_no_error(tmp_path):
    run = open_run(tmp_path)
    assert run.plan == {}
    assert run.lacks(RunFile.PLAN)
    assert str(run.problems[RunFile.PLAN]) == "plan.json is missing"
    run.demand_readable(RunFile.PLAN)


@pytest.mark.parametrize("content", ["{", "[]", "\xff", None])
def test_a_damaged_document_is_a_problem_of_the_run_that_names_the_file(tmp_path, content):
    """Cut off, of another type, of another encoding, a directory."""
    path = tmp_path / RunFile.PLAN
    path.mkdir() if content is None else path.write_text(content, "latin-1")
    run = open_run(tmp_path)
    assert run.plan == {}
    assert not run.lacks(RunFile.PLAN)
    assert str(run.problems[RunFile.PLAN]).startswith("plan.json could not be read (")
    with pytest.raises(HistoryError, match=r"plan\.json could not be read"):
        run.demand_readable(RunFile.PLAN)
    with pytest.raises(HarnessError, match=r"plan\.json could not be read"):
        read_plan(tmp_path)


def test_the_roster_names_the_writer_of_every_history_file(tmp_path):
    folder = tmp_path / RunFile.LINES
    HistoryWriter(folder / "c3-0.jsonl", slot=3, node="c3", role="writer").close()
    (folder / "c4-0.jsonl").write_text("cut")
    (folder / RunFile.FAULT_LINES).write_text("{}\n")
    assert open_run(tmp_path).roster == (HistoryFile("c3-0.jsonl", 3, "c3", "writer"), HistoryFile("c4-0.jsonl"))


def test_receipts_have_their_evidence_as_values(tmp_path):
    receipt = {"id": 1, "kind": "kill", "evidence": '{"pid": 7}', "healing": "no JSON"}
    pq.write_table(pa.Table.from_pylist([receipt], schema=FAULTS_SCHEMA), tmp_path / RunFile.RECEIPTS)
    (read,) = open_run(tmp_path).known_receipts()
    assert (read["evidence"], read["healing"]) == ({"pid": 7}, "no JSON")


def test_missing_receipts_are_none_and_damaged_ones_an_error(tmp_path):
    assert open_run(tmp_path).known_receipts() == ()
    (tmp_path / RunFile.RECEIPTS).write_bytes(b"PAR1 no such thing")
    run = open_run(tmp_path)
    assert isinstance(run.receipts, Problem)
    with pytest.raises(HistoryError, match=r"faults\.parquet could not be read"):
        run.known_receipts()


def test_json_that_cannot_be_written_leaves_the_old_file_whole(tmp_path):
    path = tmp_path / "plan.json"
    write_json(tmp_path, "plan.json", {"seed": 7})
    with pytest.raises(TypeError):
        write_json(tmp_path, "plan.json", {("a", "tuple"): 1})
    assert json.loads(path.read_text()) == {"seed": 7}
