"""Another judgement of a run leaves the run's own as it is."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from support.judging import no_session
from support.recorded_run import record_run

from fencepost.checkers.service import SparkJudge
from fencepost.harness.api.run import RunFile
from fencepost.harness.cli import main
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.runs import leftovers
from fencepost.harness.runs.judgements import judged_by, judgements

OWN = (RunFile.VERDICT, RunFile.REPORT, RunFile.SUMMARY, RunFile.ANOMALIES)


@pytest.fixture
def call(capsys, monkeypatch):
    """Runs a command on local Spark, in a wide terminal; returns its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(SparkJudge, "start_session", no_session)

    def run(*arguments) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main.main([str(argument) for argument in arguments])
        return int(left.value.code or 0), capsys.readouterr().out

    return run


@pytest.fixture
def run(tmp_path) -> Path:
    """A run whose contract calls a phase final that it does not have, so that other contracts come to other verdicts."""
    return record_run(tmp_path / "nightly" / "20261121T120000Z-lawful")


def contents(run: Path) -> dict[str, bytes]:
    return {file: (run / file).read_bytes() for file in OWN}


def test_another_contract_has_a_place_of_its_own_that_every_command_knows(run, tmp_path, call):
    assert call("check", run)[0] == 0
    own = contents(run)
    code, text = call("check", run, "--contract", "transactional=false", "--contract", "idempotence=false")
    [other] = judgements(open_run(run))
    assert contents(run) == own
    assert code == {"valid": 0, "invalid": 1, "unknown": 2}[other.verdict["verdict"]]
    assert other.verdict["judged_by"] == {"contract": {"transactional": "false", "idempotence": "false"}, "checkers": []}
    assert text.splitlines()[-1] == str(other.path(RunFile.REPORT))
    assert other.path(RunFile.REPORT).is_relative_to(run / RunFile.JUDGEMENTS)
    assert all(other.path(file).is_file() for file in OWN)
    assert "judged by" in other.path(RunFile.SUMMARY).read_text() + other.path(RunFile.REPORT).read_text()

    listed = call("list", "--results", tmp_path)[1].splitlines()
    assert "valid, as expected" in listed[1]
    assert "judged by transactional=false, idempotence=false" in listed[2]
    [document] = json.loads(call("list", "--results", tmp_path, "--json")[1])
    assert (document["verdict"], len(document["judgements"])) == ("valid", 1)
    assert document["judgements"][0]["contract"] == {"transactional": "false", "idempotence": "false"}

    other.path(RunFile.REPORT).unlink()
    assert call("report", other.path(RunFile.REPORT).parent)[1].strip() == str(other.path(RunFile.REPORT))
    assert call("export", run)[0] == 0
    assert contents(run) == own
    (old,) = leftovers.old_runs(tmp_path, 1, datetime(2027, 1, 1, tzinfo=timezone.utc))
    assert str(run) in str(old)


def test_the_same_question_takes_the_same_place_and_another_one_another(run):
    opened = open_run(run)
    first = judged_by(opened, {"compaction": "true"}, ())
    assert judged_by(opened, {"compaction": "true"}, ()).path(RunFile.VERDICT) == first.path(RunFile.VERDICT)
    others = [
        judged_by(opened, *question)
        for question in (({"retention": "1"}, ()), ({}, ("a:B",)), ({"compaction": "true"}, ("a:B",)))
    ]
    assert len({other.path(RunFile.VERDICT) for other in (first, *others)}) == 4
    assert first.path(RunFile.HISTORY) == opened.path(RunFile.HISTORY)


def test_what_the_plan_asks_for_itself_is_the_runs_own_judgement(run):
    plan = json.loads((run / RunFile.PLAN).read_text())
    (run / RunFile.PLAN).write_text(json.dumps({**plan, "checkers": ["mine:Check"]}))
    opened = open_run(run)
    assert judged_by(opened, {"acks": plan["contract"]["acks"]}, ("mine:Check",)).judgement == ""
    assert judged_by(opened, {}, ("another:Check",)).judgement != ""


@pytest.mark.parametrize("content", ["", "[]", '{"judged_by": 7}'])
def test_a_damaged_judgement_is_named_and_hides_no_run(run, tmp_path, call, content):
    folder = judged_by(open_run(run), {"compaction": "true"}, ()).path(RunFile.VERDICT).parent
    (folder / RunFile.VERDICT).write_text(content)
    code, text = call("list", "--results", tmp_path)
    assert code == 0
    assert "lawful" in text
    assert "verdict.json could not be read" in text
    assert call("report", folder)[0] == 254
