"""Several tests at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.processes import heed_signals
from support.rounds import night, rounds_of

from fencepost.harness.api.errors import MachineError
from fencepost.harness.cli import jobs

FAKE = [sys.executable, str(Path(__file__).parents[2] / "support" / "fake_engine.py")]
TESTS = ("valid", ("torn", "torn-letter"), "valid[2]", "valid[3]")


@pytest.fixture(autouse=True)
def room(monkeypatch):
    """Parts are performed by the engine that performs nothing, on a machine with room."""
    monkeypatch.setattr(jobs, "command", lambda words: [*FAKE, *words])
    monkeypatch.setattr(jobs, "available_memory", lambda: 64 << 30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def test_two_at_once_come_to_one_round(fencepost):
    code, out, err = fencepost("campaign", night(*TESTS, "lost"), "--jobs", "2")
    names = [record.name[16:] for record in rounds_of()]
    merged = rounds_of()[-1]
    assert (code, sorted(names)) == (1, ["-1of2", "-2of2", "-merged"])
    assert {(record.round.round, record.round.seed) for record in rounds_of()} == {(merged.round.round, 7)}
    assert len(merged.round.runs) == 5
    assert all(run.done for run in merged.round.runs)
    assert {line[:3] for line in err.splitlines()} == {"1: ", "2: "}
    assert "lost: results/night/" in out


def test_all_parts_draw_the_same_seed_and_json_is_one_document(fencepost):
    code, out, _ = fencepost("campaign", night(*TESTS, head=""), "--jobs", "2", "--json")
    assert (code, len(json.loads(out)["runs"])) == (0, 4)
    assert len({record.round.seed for record in rounds_of()}) == 1


def test_seeds_that_no_option_leaves_alone_are_refused(fencepost):
    code, _, err = fencepost("campaign", night("valid", ("torn", "torn-letter", "seed = 3\n"), head=""), "--jobs", "2")
    assert code == 254
    assert "--jobs: the parts would draw different seeds" in err
    assert not Path("results").exists()


def test_options_reach_every_part(fencepost):
    file = night("valid", ("torn", "torn-letter"), "lost", head="canary = true\n")
    fencepost("campaign", file, "--jobs", "2", "--only", "lost", "--only", "torn", "--repeat", "3", "--hours", "4", "--canary")
    merged = rounds_of()[-1].round
    tests = [run.test for run in merged.runs]
    assert [name.partition(",")[0] for name in tests] == ["canary"] * 2 + ["baseline"] * 2 + ["torn"] * 3 + ["lost"] * 3
    assert merged.choices.hours == 4
    fencepost("campaign", file, "--jobs", "2", "--only-red", "--no-canary")
    assert [run.test for run in rounds_of()[-1].round.runs] == ["lost"] * 3


def test_the_command_for_a_red_round_and_the_annotations_are_of_the_whole(fencepost, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "page")
    file = night("valid", "lost", head="seed = 7\non_red = 'cat >> mail'\n")
    _, _, err = fencepost("campaign", file, "--jobs", "2", "--junit", "j.xml")
    assert sum(line.startswith("::error") for line in err.splitlines()) == 1
    assert Path("page").read_text().count("## night") == 1
    assert Path("mail").read_text().count("## night") == 1
    assert "lost" in Path("j.xml").read_text()


def test_a_mistake_is_named_and_no_round_is_made(fencepost):
    code, _, err = fencepost("campaign", night("valid"), "--jobs", "2", "--spark-conf", "nonsense")
    assert code == 254
    assert "1: --spark-conf nonsense: must be key=value" in err
    assert rounds_of() == [] if Path("results/night").exists() else True


@pytest.mark.parametrize(
    ("cores", "gib", "says"), [(1, 64, "may use 1 core"), (8, 7, "7.0 GiB of memory are free, and 8 GiB needed")]
)
def test_a_machine_without_room_is_refused(monkeypatch, cores, gib, says):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(jobs, "available_memory", lambda: gib << 30)
    with pytest.raises(MachineError, match=says):
        jobs.demand_room(2)


@pytest.mark.parametrize("options", [["--jobs", "2", "--shard", "1/2"], ["--jobs", "2", "--resume"], ["--jobs", "0"]])
def test_what_does_not_go_together_is_refused(fencepost, options):
    assert fencepost("campaign", night("valid"), *options)[0] == 254


PROGRAM = """
import os, sys
from fencepost.harness.cli import jobs, main
jobs.command = lambda words: {fake} + list(words)
jobs.demand_room = lambda number: None
main.main(sys.argv[1:])
"""


def start_endless(count):
    night(*(f"endless[{number}]" for number in range(count)))
    program = PROGRAM.format(fake=FAKE)
    words = [sys.executable, "-c", program, "campaign", "night.toml", "--jobs", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(words, **pipes, start_new_session=True, preexec_fn=heed_signals)
    output = ""
    while output.count("25 of 30 s") < 2:
        line = process.stdout.readline()
        assert line, output
        output += line
    return process


def test_ctrl_c_stops_all_and_judges_what_there_is(stranger):
    process = start_endless(4)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    merged = rounds_of()[-1].round
    assert [len(run.attempts) for run in sorted(merged.runs, key=lambda run: run.number)].count(1) == 2
    assert "not performed" in output


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL])
def test_no_part_outlives_the_command(stranger, number):
    process = start_endless(2)
    process.send_signal(number)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while any(str(stranger) in line for line in working_directories()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def working_directories():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield os.readlink(entry / "cwd")
            except OSError:
                continue
