"""Notification of a round: in GitHub Actions, and by the user's command."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from support.rounds import night, performed, rounds_of

from fencepost.harness.rounds import on_red
from fencepost.harness.rounds.annotations import command
from fencepost.harness.system import processes

COMMAND = "cat > mail; env | grep ^FENCEPOST_ > variables"


def annotated(err):
    return [line for line in err.splitlines() if line.startswith("::")]


def test_a_red_test_is_an_annotation_at_its_line(fencepost, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    _, _, err = fencepost("campaign", night("valid", "lost, twice: [a]", "broken"))
    lines = annotated(err)
    [record] = rounds_of()
    assert len(lines) == 1, "a name with other words is valid for the engine"
    assert lines[0].startswith("::error file=night.toml,line=12,title=night%3A broken::no verdict%0Aresults/night/")
    assert record.round.tests[2].line == 12


def test_the_message_has_the_sentence_and_the_report(fencepost, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setattr(fencepost.engine, "sentence", "100 % of 7:\n\r::error::x")
    _, _, err = fencepost("campaign", night("lost"))
    [line] = annotated(err)
    assert "::invalid: lost-letter%0Alost-letter: 100 %25 of 7:%0A\\u000d::error::x%0Aresults/night/" in line
    assert line.endswith("/report.html")


def test_values_are_escaped_as_github_demands():
    assert command("error", {"title": "a:b,c%\n"}, "d,e:f%\n") == "::error title=a%3Ab%2Cc%25\\u000a::d,e:f%25%0A"


def test_elsewhere_there_are_no_annotations(fencepost):
    assert annotated(fencepost("campaign", night("lost"))[2]) == []


def test_no_more_annotations_than_a_runner_shows_and_what_was_left_out_is_a_warning(fencepost, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    file = night(
        *(f"lost[{number}]" for number in range(14)), ("valid", "valid", "time_s = 9000\n"), head="hours = 2\nseed = 1\n"
    )
    lines = annotated(fencepost("campaign", file)[2])
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 10 + ["::warning"]
    assert lines[9].endswith("::5 more tests are not as expected")
    assert lines[10].endswith("::1 of 15 runs not performed")


def test_an_untrusted_round_comes_before_all_else(fencepost, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setattr(fencepost.engine, "blind", ("canary",))
    first, *_ = annotated(fencepost("campaign", night("valid", head="seed = 7\ncanary = true\n"))[2])
    assert first.startswith("::error title=night::the harness cannot be trusted in this round")


def test_the_summary_is_appended_to_the_page_of_the_job(fencepost, monkeypatch):
    Path("page").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "page")
    fencepost("campaign", night("lost"))
    assert Path("page").read_text().startswith("before\n## night: against expectation")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "nowhere/page")
    code, _, err = fencepost("campaign", night("lost"))
    assert code == 1
    assert "GITHUB_STEP_SUMMARY: nowhere/page cannot be written: No such file or directory" in err


def test_a_red_round_runs_the_command_with_its_summary_and_paths(fencepost):
    code, _, err = fencepost("campaign", night("lost", head=f"seed = 7\non_red = '{COMMAND}'\n"))
    [record] = rounds_of()
    variables = dict(line.split("=", 1) for line in Path("variables").read_text().splitlines())
    assert (code, err) == (1, "")
    assert Path("mail").read_text() == (record.directory / "summary.md").read_text()
    assert (variables["FENCEPOST_CAMPAIGN"], variables["FENCEPOST_EXIT"]) == ("night", "1")
    assert Path(variables["FENCEPOST_JUNIT"]) == (record.directory / "junit.xml").absolute()
    assert Path(variables["FENCEPOST_RESULTS"]) == Path("results").absolute()


@pytest.mark.parametrize(
    ("tests", "options"),
    [(["valid"], []), (["lost"], ["--dry-run"]), (["lost"], ["--only", "lost"])],
    ids=["a green round", "a dry run", "a single test"],
)
def test_the_command_is_not_run(fencepost, tests, options):
    fencepost("campaign", night(*tests, head=f"seed = 7\non_red = '{COMMAND}'\n"), *options)
    assert not Path("mail").exists()


def test_the_option_comes_before_the_file_and_counts_for_single_tests_too(fencepost):
    fencepost("campaign", night("lost", head="on_red = 'touch never'\n"), "--only", "lost", "--on-red", "touch mail")
    assert (Path("mail").exists(), Path("never").exists()) == (True, False)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("echo no such list; exit 3", "on_red: the command ended with 3: echo no such list; exit 3\nno such list"),
        ("nonesuch", "on_red: the command ended with 127: nonesuch\n"),
        ("printf 'a\\033b'; exit 1", "a\\u001bb"),
    ],
)
def test_a_command_that_fails_is_a_sentence_and_changes_nothing(fencepost, given, says):
    code, _, err = fencepost("campaign", night("lost"), "--on-red", given)
    assert code == 1
    assert says in err
    assert "\x1b" not in err


def test_a_command_that_does_not_end_is_ended_with_all_it_has_started(fencepost, monkeypatch):
    monkeypatch.setattr(on_red, "TIMEOUT_S", 1.0)
    endless = f"sleep 4711.{os.getpid()}"  # of this process of the tests alone
    code, _, err = fencepost("campaign", night("lost"), "--on-red", f"{endless} & {endless}")
    assert code == 1
    assert "has not ended within 1 second, and was ended" in err
    deadline = time.monotonic() + 60
    while any(endless in " ".join(processes.command_line(pid)) for pid in processes.process_ids()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_recorded_round_has_no_command_to_run(fencepost):
    file = night("lost", head="seed = 7\non_red = 'touch mail'\n")
    fencepost("campaign", file)
    [record] = rounds_of()
    assert "touch" not in (record.directory / "round.json").read_text()
    document = json.loads((record.directory / "round.json").read_text())
    document["choices"]["on_red"] = document["on_red"] = "touch never"
    (record.directory / "round.json").write_text(json.dumps(document))
    fencepost("campaign", file, "--resume")
    assert not Path("never").exists()
    Path("mail").unlink()
    fencepost("merge", "results")
    assert not Path("mail").exists()
    assert fencepost("merge", "results", "--on-red", "touch mail")[0] == 1
    assert Path("mail").exists()


def test_retries_and_canaries_are_no_reason_for_the_command(fencepost):
    fencepost("campaign", night("broken+valid", head="retries = 1\non_red = 'touch mail'\n"))
    assert performed(fencepost.engines[-1]) == ["broken+valid"] * 2
    assert not Path("mail").exists()
    assert re.match(r"## night: all as expected", (rounds_of()[0].directory / "summary.md").read_text())
