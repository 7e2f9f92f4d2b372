"""Shards of a campaign, and their rounds merged."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.rounds import night, performed, rounds_of

from fencepost.harness.api.plans import Test
from fencepost.harness.campaign.campaign import PlannedRun
from fencepost.harness.rounds.estimates import OVERHEAD_S, shards_of

TESTS = (("valid", "valid", "time_s = 60\n"), ("torn", "torn-letter", "time_s = 90\nrepeat = 3\n"), "lost", "unknown")


def shards(fencepost, file, of, *options, only=None):
    """Each shard on a machine of its own, whose results are in a folder of its own."""
    for number in only or range(1, of + 1):
        fencepost("campaign", file, "--shard", f"{number}/{of}", "--results", f"m{number}/results", *options)
        yield performed(fencepost.engines[-1])


def test_shards_share_the_runs_and_no_run_is_in_two(fencepost):
    parts = [*shards(fencepost, night(*TESTS), 3)]
    assert sorted(name for part in parts for name in part) == ["lost", "torn", "torn", "torn", "unknown", "valid"]
    assert all(parts)
    [record] = rounds_of(results="m2/results")
    assert record.name == f"{record.round.round}-2of3"
    assert len(record.round.runs) == 6, "the record has the runs of all shards"


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_the_parts_take_nearly_the_same_time_and_do_not_depend_on_what_a_machine_knows(shards):
    plan = [PlannedRun(Test(name=str(number), time_s=float(number % 13 * 20)), 1, "") for number in range(60)]
    chosen = shards_of(plan, shards)
    assert chosen == shards_of(plan, shards)
    loads = [
        sum(run.test.time_s + OVERHEAD_S for run, part in zip(plan, chosen, strict=True) if part == shard + 1)
        for shard in range(shards)
    ]
    assert max(loads) - min(loads) <= 260


@pytest.mark.parametrize("shard", ["0/3", "4/3", "2", "a/b", "1/0", "1/9999", "-1/3", "1/3/4"])
def test_what_is_no_shard_is_refused(fencepost, shard):
    code, _, err = fencepost("campaign", night("valid"), f"--shard={shard}")
    assert code == 254
    assert "must be K/N" in err


def test_shards_that_would_draw_different_seeds_are_refused(fencepost):
    file = night("valid", head="")
    code, _, err = fencepost("campaign", file, "--shard", "1/2")
    assert code == 254
    assert "give all the same one (--seed, or seed in the file)" in err
    assert fencepost("campaign", file, "--shard", "1/1")[0] == 0


def test_parts_may_have_a_time_of_start_in_common(fencepost):
    file, stamp = night("valid", ("torn", "torn-letter")), "20261125T190000Z"
    [*shards(fencepost, file, 2, "--round", stamp)]
    assert {rounds_of(results=f"m{number}/results")[0].round.round for number in (1, 2)} == {stamp}
    record, _ = merged(fencepost, "m1", "m2", code=0)
    assert record.name == f"{stamp}-merged"
    for options, says in (
        (["--shard", "1/2", "--round", stamp, "--results", "m1/results"], "is there already"),
        (["--shard", "1/2", "--round", "tonight"], "have a time in common, such as 20261125T190000Z"),
        (["--shard", "1/1", "--round", stamp], "have a time in common"),
    ):
        code, _, err = fencepost("campaign", file, *options)
        assert (code, says in err) == (254, True)


def merged(fencepost, *paths, code=None):
    result = fencepost("merge", *paths, "--results", "all")
    if code is not None:
        assert result[0] == code, result
        return rounds_of(results="all")[-1], result
    return result


def test_merged_rounds_have_one_table_one_junit_and_one_exit_code(fencepost):
    file = night(*TESTS)
    whole = fencepost("campaign", file)
    [*shards(fencepost, file, 3)]
    record, (_, out, err) = merged(fencepost, "m1", "m2", "m3", code=1)
    assert err == ""
    assert (whole[0], record.name) == (1, f"{record.round.round}-merged")
    rows = {line.split()[0]: line for line in out.splitlines() if line and not line.startswith(" ")}
    assert "3 of 3 hit: torn-letter" in rows["torn"], "repeats on several machines are one test"
    suite = ElementTree.parse(record.directory / "junit.xml").getroot()
    assert [(case.get("name"), next(child.tag for child in case)) for case in suite.iter("testcase")] == [
        ("valid", "system-out"), ("torn", "system-out"), ("lost", "failure"), ("unknown", "error")
    ]  # fmt: skip
    assert record.round.exit == 1
    report = next(run for run in record.round.runs if run.test == "lost").last.directory
    assert (record.folder / report / "plan.json").is_file(), "its directory lies where the shard left it"


def test_a_results_folder_stands_for_its_latest_round_of_each_shard(fencepost):
    file = night(*TESTS)
    for _ in range(2):
        for number in (1, 2):
            fencepost("campaign", file, "--shard", f"{number}/2")
    record, _ = merged(fencepost, "results", code=1)
    latest = rounds_of()[-2:]
    assert record.round.round == latest[1].round.round


def test_a_part_of_an_earlier_night_does_not_stand_for_a_missing_one_unless_it_is_named(fencepost):
    """The seed is fixed, so that nothing else tells the nights apart."""
    file = night("valid", ("torn", "torn-letter"))
    [*shards(fencepost, file, 2, "--round", "20261124T190000Z")]
    [*shards(fencepost, file, 2, "--round", "20261125T200000Z", only=[1])]
    _, (_, _, err) = merged(fencepost, "m1", "m2", code=2)
    assert "shard 2 of 2 is missing" in err
    merged(fencepost, "m1", "m2/results/night/rounds/20261124T190000Z-2of2", code=0)


def test_a_merged_round_is_looked_over_when_others_are_merged_and_can_say_what_was_red(fencepost):
    file = night(*TESTS)
    [*shards(fencepost, file, 2)]
    merged(fencepost, "m1", "m2", code=1)
    merged(fencepost, "m1", "m2", "all/night/rounds/..", code=None)
    fencepost("campaign", file, "--only-red", "--results", "all")
    assert performed(fencepost.engines[-1]) == ["lost", "unknown"]
    code, _, err = fencepost("campaign", file, "--resume", "--round", rounds_of(results="all")[0].name, "--results", "all")
    assert code == 254
    assert "is merged of others" in err


def test_a_missing_shard_is_named_and_what_it_should_have_performed_is_left_out(fencepost):
    file = night("valid", ("torn", "torn-letter"))
    [*shards(fencepost, file, 2, only=[1])]
    record, (_, _, err) = merged(fencepost, "m1", code=2)
    assert "shard 2 of 2 is missing" in err
    assert "left out: 1 of 2 runs: shard 2 of 2 is missing" in err
    assert "* shard 2 of 2 is missing" in (record.directory / "summary.md").read_text()
    cases = ElementTree.parse(record.directory / "junit.xml").getroot().iter("testcase")
    skipped = [case.find("skipped").get("message") for case in cases if case.find("skipped") is not None]
    assert skipped == ["shard 2 of 2 is missing"]


def test_a_shard_that_ended_early_leaves_its_runs_out(fencepost):
    file = night("valid", "valid[2]", "valid[3]", "valid[4]")
    [*shards(fencepost, file, 2)]
    [record] = rounds_of(results="m2/results")
    runs = tuple(replace(run, attempts=()) if run.test == record.round.own[-1].test else run for run in record.round.runs)
    record.change(replace(record.round, runs=runs, ended=""))
    _, (_, _, err) = merged(fencepost, "m1", "m2", code=2)
    assert "left out: 1 of 4 runs: shard 2 of 2 ended before" in err


def test_the_same_round_given_twice_counts_once_and_that_is_said(fencepost):
    [*shards(fencepost, night("valid", ("torn", "torn-letter")), 2)]
    shutil.copytree("m1", "copy")
    record, (_, _, err) = merged(fencepost, "m1", "copy", "m2", code=0)
    assert "is the same round of shard 1 of 2 as m1" in err
    assert len(record.round.runs) == 2


def test_shards_of_different_versions_are_merged_and_that_is_said(fencepost):
    [*shards(fencepost, night("valid", ("torn", "torn-letter")), 2)]
    [record] = rounds_of(results="m2/results")
    record.change(replace(record.round, fencepost="0.0.9"))
    _, (_, _, err) = merged(fencepost, "m1", "m2", code=0)
    assert "by different versions of fencepost: 0.0.9, " in err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda file: (file, "--seed", "8"), "its seed is 8, not 7"),
        (lambda file: (night("valid", ("torn", "torn-letter", "rate = 3\n")),), 'the test "torn" is another'),
        (lambda file: (night("valid", head='name = "dawn"\nseed = 7\n'),), 'its campaign is "dawn", not "night"'),
    ],
)  # fmt: skip
def test_rounds_that_do_not_belong_together_are_refused_with_the_difference(fencepost, change, says):
    file = night("valid", ("torn", "torn-letter"))
    [*shards(fencepost, file, 2, only=[1])]
    file, *options = change(file)
    [*shards(fencepost, file, 2, *options, only=[2])]
    code, _, err = merged(fencepost, "m1", "m2")
    assert code == 254
    assert says in err
    assert not Path("all/night").exists()


def test_another_number_of_shards_and_another_round_of_a_shard_are_refused(fencepost):
    file = night("valid", ("torn", "torn-letter"), "lost")
    [*shards(fencepost, file, 2, only=[1])]
    [*shards(fencepost, file, 3, only=[2])]
    assert "it is one of 3 shards, not of 2" in merged(fencepost, "m1", "m2")[2]
    shutil.move("m1", "first")
    [*shards(fencepost, file, 2, only=[1])]
    [record] = rounds_of(results="m1/results")
    record.change(replace(record.round, sittings=("another",)))
    assert "is another round of shard 1 of 2 than first" in merged(fencepost, "first", "m1")[2]


@pytest.mark.parametrize("path", ["nowhere", "empty", "night.toml"])
def test_a_path_without_a_round_is_a_sentence(fencepost, path):
    night("valid")
    Path("empty").mkdir()
    code, _, err = merged(fencepost, path)
    assert code == 254
    assert "there is no round of a campaign" in err


def test_every_shard_has_its_canary_and_one_that_fails_makes_the_whole_untrusted(fencepost, monkeypatch):
    file = night("valid", ("torn", "torn-letter"), head="seed = 7\ncanary = true\n")
    [*shards(fencepost, file, 2, only=[1])]
    monkeypatch.setattr(fencepost.engine, "blind", ("canary",))
    [*shards(fencepost, file, 2, only=[2])]
    record, (_, out, _) = merged(fencepost, "m1", "m2", code=255)
    why = "the harness cannot be trusted in this round: canary, shard 2 of 2: valid, but expected was: aborted-read"
    assert why in out
    cases = {case.get("name"): case for case in ElementTree.parse(record.directory / "junit.xml").getroot().iter("testcase")}
    controls = [f"{name}, shard {number} of 2" for number in (1, 2) for name in ("canary", "baseline")]
    assert [*cases] == [*controls, "valid", "torn"]
    assert cases[controls[2]].find("error").get("message") == why
    assert [cases[name].find("error") for name in (controls[0], controls[1], controls[3])] == [None] * 3


def test_a_link_is_not_followed_and_hostile_texts_are_only_texts(fencepost):
    file = night("valid", ("torn", "torn-letter"))
    [*shards(fencepost, file, 2)]
    os.symlink(Path("m1").resolve(), "m2/results/night/again")
    [record] = rounds_of(results="m2/results")
    document = json.loads((record.directory / "round.json").read_text())
    for run in document["runs"]:
        for attempt in run["attempts"]:
            attempt |= {"directory": "../../../../../../etc", "error": "\x1b[31m<script>", "exit": 7}
    (record.directory / "round.json").write_text(json.dumps(document))
    _, (_, out, err) = merged(fencepost, "m1", "m2", code=255)
    assert "\x1b" not in out + err


def test_json_has_all_runs(fencepost):
    [*shards(fencepost, night(*TESTS), 2)]
    code, out, _ = fencepost("merge", "m1", "m2", "--json", "--results", "all")
    document = json.loads(out)
    assert (code, document["exit"], len(document["runs"]), document["left_out"]) == (1, 1, 6, 0)


def test_a_shard_goes_on_by_itself(fencepost):
    file = night(*TESTS)
    [*shards(fencepost, file, 2)]
    [record] = rounds_of(results="m2/results")
    lost = record.round.own[-1]
    shutil.rmtree(record.folder / lost.last.directory)
    record.change(record.round.with_run(replace(lost, attempts=())))
    fencepost("campaign", file, "--resume", "--results", "m2/results")
    assert performed(fencepost.engines[-1]) == [lost.test]
