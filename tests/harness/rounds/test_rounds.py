"""A round: what a campaign's performance leaves in its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.rounds import night, performed, rounds_of

from fencepost.harness.history import results_folder
from fencepost.harness.history.run_directory import read_plan
from fencepost.harness.rounds.beginning import begin
from fencepost.harness.rounds.folders import MERGED, ROUNDS, find_round, new_round
from fencepost.harness.rounds.record import Choices

TESTS = ("valid", ("torn", "torn-letter"), "lost", "unknown", "broken", "absent")


def test_a_round_records_what_was_planned_and_what_came_of_it(fencepost):
    code, out, _ = fencepost("campaign", night(*TESTS))
    [record] = rounds_of()
    round = record.round
    runs = {run.test: run for run in round.runs}
    assert code == 254 == round.exit
    assert f"results/night/rounds/{round.round}/summary.md" in out
    assert list(runs) == ["valid", "torn", "lost", "unknown", "broken", "absent"]
    assert (runs["valid"].seed, runs["valid"].command) == (7, "fencepost campaign night.toml --only valid --seed 7")
    assert [run.last.verdict.get("verdict") for run in round.runs] == ["valid", "invalid", "invalid", "unknown", None, None]
    assert runs["lost"].last.verdict["findings"] == [{"anomaly": "lost-letter", "sentence": "letter 7 lies in two parts"}]
    assert (runs["broken"].last.exit, runs["broken"].last.error[:15]) == (254, "n2 did not answ")
    assert runs["absent"].last.directory == ""
    assert round.ended


def test_the_plan_of_a_run_names_its_round_and_its_directory_stands_in_the_record(fencepost):
    fencepost("campaign", night("valid"))
    [record] = rounds_of()
    directory = record.folder / record.round.runs[0].last.directory
    assert read_plan(directory)["round"] == record.round.round
    assert [run.directory for run in results_folder.each_run(Path("results"))] == [directory], "the folder of rounds is no run"


def test_a_round_is_no_run_for_any_command(fencepost):
    fencepost("campaign", night("valid"))
    [record] = rounds_of()
    listed = json.loads(fencepost("list", "--json")[1])
    assert [Path(run["directory"]).parent.name for run in listed] == ["night"]
    assert not results_folder.is_run(record.directory)
    assert not results_folder.is_run(record.directory.parent)
    assert fencepost("clean", "--runs", "0", "--yes")[0] == 0
    assert record.directory.is_dir()
    assert fencepost("list", "--json")[1].strip() == "[]"


def test_two_rounds_of_a_second_have_different_times(stranger):
    from fencepost.harness.campaign.campaign import read

    loaded = read(Path(night("valid")))
    records = []
    for _ in range(3):
        records.append(new_round(Path("results"), loaded))
        records[-1].make()
        records[-1].change(records[-1].round)
    assert len({record.name for record in records}) == 3
    assert find_round(records[0].folder, "latest") == records[-1].name


@pytest.mark.parametrize("suffix", ["", MERGED])
def test_processes_that_begin_at_the_same_time_take_different_times(stranger, suffix):
    from fencepost.harness.campaign.campaign import read

    loaded = read(Path(night("valid")))
    one, other = (begin(Path("results"), loaded, Choices(), ()) for _ in range(2))
    assert one.record.name == other.record.name, "nothing is written when a round is begun"
    with one.reserved(suffix) as first, other.reserved(suffix) as second:
        assert first.record.name == one.record.name < second.record.name
        for begun in (first, second):
            assert {begun.record.round.round} == {begun.record.name} == {run.round for run in begun.planned.values()}
            assert (begun.record.folder / ROUNDS / f"{begun.record.name}{suffix}").is_dir()
    assert not begun.record.folder.exists(), "nothing was performed"


def test_a_dry_run_and_a_run_alone_leave_no_round(fencepost):
    fencepost("campaign", night("valid"), "--dry-run")
    assert not Path("results").exists()
    fencepost(
        "run", "--workload", "letters", "--cluster", "attic", "--client", "pigeon", "--nemesis", "hammer", "--name", "valid"
    )
    assert [path.name for path in Path("results").iterdir()] == ["valid"]
    assert len([*Path("results/valid").iterdir()]) == 1


def test_the_next_round_has_an_estimate_and_begins_with_what_was_red_and_short(fencepost):
    file = night(
        ("valid", "valid", "time_s = 90\n"), ("unknown", "valid", "time_s = 60\n"), ("torn", "torn-letter", "time_s = 5\n")
    )
    assert fencepost("campaign", file)[1].splitlines()[0] == "night: 3 runs, about 4 min (no earlier round)  seed 7"
    assert performed(fencepost.engines[-1]) == ["valid", "unknown", "torn"], "the order of the file"
    _, out, _ = fencepost("campaign", file)
    assert performed(fencepost.engines[-1]) == ["unknown", "torn", "valid"]
    assert "(from 1 earlier round)" in out.splitlines()[0] or "no earlier round" in out.splitlines()[0]
    fencepost("campaign", file, "--order", "file")
    assert performed(fencepost.engines[-1]) == ["valid", "unknown", "torn"]


def test_an_unknown_order_is_a_mistake(fencepost):
    code, _, err = fencepost("campaign", night("valid"), "--order", "fiel")
    assert code == 254
    assert 'did you mean "file"' in err


def test_a_round_that_cannot_be_written_goes_on(fencepost, monkeypatch):
    from fencepost.harness.api.errors import UnwritableFile
    from fencepost.harness.rounds import folders

    def full(directory, file, text, synced):
        raise UnwritableFile([f"{directory / file}: cannot be written (No space left on device)"])

    monkeypatch.setattr(folders, "write_text", full)
    code, out, _ = fencepost("campaign", night("valid"))
    assert code == 0
    assert "the round is not recorded: " in out


def test_json_has_the_round(fencepost):
    _, out, _ = fencepost("campaign", night("valid"), "--json")
    [record] = rounds_of()
    document = json.loads(out)
    assert (document["round"], document["directory"]) == (record.round.round, str(record.directory))
    assert (document["left_out"], document["untrusted"]) == (0, "")
