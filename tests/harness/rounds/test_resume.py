"""A round that ended early goes on."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.rounds import night, performed, rounds_of

from fencepost.harness.rounds import beginning
from fencepost.harness.rounds.folders import RoundRecord, read_round
from fencepost.harness.system import liveness

FAKE = [sys.executable, str(Path(__file__).parents[2] / "support" / "fake_engine.py")]
TESTS = ("valid", ("torn", "torn-letter"), "lost")


def cut_back(record: RoundRecord, *left: int) -> None:
    """The record as it was when only these runs (by number) were recorded."""
    runs = tuple(run if run.number in left else replace(run, attempts=()) for run in record.round.runs)
    record.change(replace(record.round, runs=runs, ended="", exit=None))


def directory_of(record, number):
    return record.folder / record.round.runs[number].last.directory


def test_what_is_done_is_not_done_again(fencepost):
    file = night(*TESTS)
    fencepost("campaign", file)
    [record] = rounds_of()
    shutil.rmtree(directory_of(record, 2))
    cut_back(record, 0, 1)
    code, out, _ = fencepost("campaign", file, "--resume")
    assert (code, performed(fencepost.engines[-1])) == (1, ["lost"])
    assert out.splitlines()[0].startswith("night: 1 of 3 runs left, about ")
    assert "valid  " in out, "the table has all tests"
    [record] = rounds_of()
    assert [len(run.attempts) for run in record.round.runs] == [1, 1, 1]
    assert len(record.round.sittings) == 2


def test_a_round_without_anything_left_says_its_outcome_again(fencepost):
    file = night(*TESTS)
    first = fencepost("campaign", file)
    again = fencepost("campaign", file, "--resume")
    assert (again[0], performed(fencepost.engines[-1])) == (first[0], [])
    assert again[1].splitlines()[-8:] == first[1].splitlines()[-8:]


def test_a_run_with_a_verdict_that_was_not_recorded_any_more_counts(fencepost):
    file = night(*TESTS)
    fencepost("campaign", file)
    [record] = rounds_of()
    directories = [run.last.directory for run in record.round.runs]
    cut_back(record, 0)
    code, _, _ = fencepost("campaign", file, "--resume")
    assert (code, performed(fencepost.engines[-1])) == (1, [])
    assert [run.last.directory for run in rounds_of()[0].round.runs] == directories


@pytest.mark.parametrize("lacks", [["verdict.json", "report.html"], ["report.html"]])
def test_a_run_whose_history_is_concluded_is_only_judged(fencepost, lacks):
    file = night(*TESTS)
    fencepost("campaign", file)
    [record] = rounds_of()
    for name in lacks:
        (directory_of(record, 2) / name).unlink()
    before = record.round.runs[2].last.directory
    cut_back(record, 0, 1)
    assert fencepost("campaign", file, "--resume")[0] == 1
    assert [step[0] for step in fencepost.engines[-1].log if isinstance(step, tuple)] == ["judge"]
    assert rounds_of()[0].round.runs[2].last.directory == before


def test_a_run_that_was_cut_off_is_performed_again_and_its_directory_stays(fencepost):
    file = night(*TESTS)
    fencepost("campaign", file)
    [record] = rounds_of()
    directory = directory_of(record, 2)
    for name in ("verdict.json", "report.html", "manifest.json"):
        (directory / name).unlink()
    cut_back(record, 0, 1)
    _, _, err = fencepost("campaign", file, "--resume")
    assert performed(fencepost.engines[-1]) == ["lost"]
    assert f"cut off, and performed again: {directory}" in err
    [record] = rounds_of()
    assert (directory / "plan.json").exists()
    assert record.round.cut_off == (directory.name,)
    assert directory_of(record, 2) != directory
    assert f"{directory.name}: was cut off" in (record.directory / "summary.md").read_text()
    fencepost("campaign", file, "--resume")
    assert performed(fencepost.engines[-1]) == [], "a cut-off run is taken up once"


def test_what_broke_and_what_was_stopped_is_performed_again(fencepost):
    file = night("valid", "broken")
    assert fencepost("campaign", file)[0] == 254
    [record] = rounds_of()
    stopped = replace(record.round.runs[0].last, stopped=True)
    record.change(record.round.with_run(replace(record.round.runs[0], attempts=(stopped,))))
    fencepost("campaign", file, "--resume")
    assert performed(fencepost.engines[-1]) == ["valid", "broken"]


def test_a_run_that_was_stopped_before_its_workload_ends_the_round_and_is_performed_later(fencepost):
    file = night("valid", "early", "lost")
    code, out, err = fencepost("campaign", file, "--order", "file")
    assert code == 2
    assert performed(fencepost.engines[-1]) == ["valid", "early"]
    assert "stopped before the workload began" in out
    assert "2 of 3 runs not performed" in err
    [record] = rounds_of()
    assert [len(run.attempts) for run in record.round.runs] == [1, 0, 0]
    assert not [path for path in record.folder.rglob("plan.json") if "early" in path.parent.parent.name], "nothing is left of it"
    fencepost("campaign", file, "--resume")
    assert performed(fencepost.engines[-1]) == ["early"], "it is performed again, and stopped again"


def test_a_repeated_test_of_which_runs_were_not_performed_is_undecided(fencepost):
    code, out, err = fencepost("campaign", night(("valid+early", "torn-letter", "repeat = 3\n")), "--order", "file")
    assert performed(fencepost.engines[-1]) == ["valid+early", "valid+early"]
    assert (code, "2 of 3 runs not performed" in err) == (2, True)
    assert "not met" not in out
    [record] = rounds_of()
    assert "### valid+early: unknown" in (record.directory / "summary.md").read_text()


def test_a_round_keeps_its_choices_and_its_seed(fencepost):
    file = night("valid", "lost", ("torn", "torn-letter"), head="")
    fencepost("campaign", file, "--only", "valid", "--only", "lost", "--repeat", "2")
    [record] = rounds_of()
    for run in record.round.runs[1:]:
        shutil.rmtree(record.folder / run.last.directory)
    cut_back(record, 0)
    fencepost("campaign", file, "--resume", "--round", record.name[:12])
    assert performed(fencepost.engines[-1]) == ["valid", "lost", "lost"]
    [again] = rounds_of()
    assert [(run.test, run.seed) for run in again.round.runs] == [(run.test, run.seed) for run in record.round.runs]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (('name = "lost"\n', 'name = "lost"\ntime_s = 7\nrate = 3\n'), 'of the test "lost" `time_s` and `rate` changed'),
        (('name = "lost"\n', 'name = "gone"\n'), 'the test "gone" is new'),
        (('name = "lost"\n', 'name = "gone"\n'), 'the test "lost" is there no more'),
        (('name = "lost"\n', 'name = "lost"\nrepeat = 2\n'), 'of the test "lost" `repeat` changed'),
        (('name = "lost"\n', 'name = "lost"\nseed = 9\n'), 'of the test "lost" `seed` changed'),
    ],
)
def test_a_campaign_that_changed_is_refused_with_what_changed(fencepost, changed, says):
    file = Path(night(*TESTS))
    fencepost("campaign", file)
    before = len([*Path("results/night").iterdir()])
    file.write_text(file.read_text().replace(*changed))
    code, _, err = fencepost("campaign", file, "--resume")
    assert code == 254
    assert says in err
    assert len([*Path("results/night").iterdir()]) == before


def test_a_comment_and_the_order_of_keys_change_nothing(fencepost):
    file = Path(night(*TESTS))
    fencepost("campaign", file)
    file.write_text("# more words\n" + file.read_text())
    assert fencepost("campaign", file, "--resume")[0] == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--resume", "--seed", "3"], "leave --seed out"),
        (["--resume", "--only", "valid", "--order", "file"], "leave --only, --order out"),
        (["--resume", "--round", "2020"], 'unknown round "2020"'),
        (["--round", "latest"], "--round: names the round of --resume, --only-red or --shard"),
    ],
)
def test_what_does_not_go_with_a_round_that_goes_on_is_refused(fencepost, options, says):
    file = night(*TESTS)
    fencepost("campaign", file)
    code, _, err = fencepost("campaign", file, *options)
    assert code == 254
    assert says in err


@pytest.mark.parametrize("option", ["--resume", "--only-red"])
def test_without_a_round_there_is_nothing_to_go_on_with(fencepost, option):
    code, _, err = fencepost("campaign", night("valid"), option)
    assert code == 254
    assert "no round: none of this campaign lies in results/night/rounds" in err
    assert not Path("results").exists()


def test_a_round_that_cannot_be_read_is_a_sentence(fencepost):
    file = night("valid")
    fencepost("campaign", file)
    [record] = rounds_of()
    for content in ("{", "[" * 5000, '{"round": 3}', "\ufffe", '{"round": "x", "campaign": "y", "runs": [{"number": "z"}]}'):
        (record.directory / "round.json").write_text(content)
        code, _, err = fencepost("campaign", file, "--resume")
        assert code == 254
        assert "is this the folder of a round?" in err
        assert fencepost("campaign", file, "--dry-run")[0] == 0, "an estimate does without"


def test_a_round_is_performed_by_one_process_alone(fencepost, monkeypatch):
    monkeypatch.setattr("fencepost.harness.rounds.folders.ENDING_S", 0.2)
    file = night("valid")
    fencepost("campaign", file)
    [record] = rounds_of()
    with liveness.hold(record.directory):
        code, _, err = fencepost("campaign", file, "--resume")
    assert code == 254
    assert "this round is being performed by" in err


def test_a_run_that_is_still_performed_is_waited_for(fencepost, monkeypatch):
    monkeypatch.setattr(beginning, "ENDING_S", 0.2)
    file = night(*TESTS)
    fencepost("campaign", file)
    [record] = rounds_of()
    directory = directory_of(record, 2)
    cut_back(record, 0, 1)
    with liveness.hold(directory):
        code, _, err = fencepost("campaign", file, "--resume")
    assert code == 254
    assert "is still being performed or judged" in err


def test_only_red_takes_what_was_red_with_the_seed_of_that_round(fencepost):
    file = night("valid", "lost", "unknown", "broken", head="")
    fencepost("campaign", file, "--repeat", "2")
    [record] = rounds_of()
    code, _, err = fencepost("campaign", file, "--only-red")
    assert (code, performed(fencepost.engines[-1])) == (254, ["lost"] * 2 + ["unknown"] * 2 + ["broken"] * 2)
    assert f"what was red in round {record.name}: lost, unknown, broken" in err
    later = rounds_of()[-1]
    assert later.round.seed == record.round.seed
    assert [run.seed for run in later.round.runs[:2]] == [record.round.seed, record.round.seed + 1]


def test_only_red_of_a_green_round_performs_nothing(fencepost):
    file = night("valid")
    fencepost("campaign", file)
    code, out, _ = fencepost("campaign", file, "--only-red")
    assert (code, out) == (0, "nothing was red: nothing is left to be performed\n")
    assert json.loads(fencepost("campaign", file, "--only-red", "--json")[1])["runs"] == []
    assert len(rounds_of()) == 1


def test_an_untrusted_round_does_not_go_on_unless_told_so(fencepost, monkeypatch):
    file = night("valid", head="seed = 7\ncanary = true\n")
    monkeypatch.setattr(fencepost.engine, "blind", ("canary",))
    fencepost("campaign", file)
    code, _, err = fencepost("campaign", file, "--resume")
    assert code == 254
    assert "cannot be trusted in this round" in err
    code, _, _ = fencepost("campaign", file, "--resume", "--go-on")
    assert (code, performed(fencepost.engines[-1])) == (255, ["valid"])


def test_a_round_that_was_killed_before_its_record_was_written_is_none(fencepost):
    file = night("valid")
    fencepost("campaign", file)
    [record] = rounds_of()
    (record.directory.parent / "29990101T000000Z").mkdir()
    fencepost("campaign", file, "--resume")
    assert len(read_round(record.directory).sittings) == 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 20))])
def test_a_campaign_killed_at_random_moments_comes_to_its_end_and_does_nothing_twice(stranger, seed):
    draw = random.Random(seed)
    file = night(*(f"valid[{number}]" for number in range(4)))
    environment = {**os.environ, "FAKE_PAUSE_S": "0.04"}
    for sitting in range(40):
        words = [*FAKE, "campaign", file, *(["--resume"] if [*Path("results").glob("night/rounds/*/round.json")] else [])]
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            output, _ = process.communicate(timeout=None if sitting > 4 else draw.uniform(0.8, 2.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            continue
        assert process.returncode == 0, output
        break
    for folder in Path("results/night/rounds").iterdir():
        if not (folder / "round.json").exists():  # killed before it was written: it is none
            shutil.rmtree(folder)
    [record] = rounds_of()
    directories = {path.name: path for path in record.folder.iterdir() if path.name != "rounds"}
    judged = {name for name, path in directories.items() if (path / "verdict.json").exists()}
    assert {run.last.directory for run in record.round.runs} == judged
    assert len(judged) == 4
    assert set(record.round.cut_off) == {
        name for name in directories.keys() - judged if (directories[name] / "plan.json").exists()
    }
