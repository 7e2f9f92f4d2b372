"""Completion in shells: the script is one that the shell reads, and `fencepost` answers what it asks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from fencepost.harness.cli import main


def script(shell, capsys):
    with pytest.raises(SystemExit) as left:
        main.main(["completion", shell])
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef fencepost"), ("fish", "complete --command")]
)
def test_each_shell_has_its_script(shell, mark, capsys):
    text = script(shell, capsys)
    assert mark in text
    assert "_FENCEPOST_COMPLETE" in text


def test_bash_reads_its_script(capsys, tmp_path):
    (tmp_path / "script").write_text(script("bash", capsys))
    assert subprocess.run([shutil.which("bash"), "-n", tmp_path / "script"], capture_output=True).stderr == b""


def test_another_shell_is_a_mistake(capsys):
    with pytest.raises(SystemExit) as left:
        main.main(["completion", "tcsh"])
    assert left.value.code == 254


COMPLETIONS = [
    ("fencepost sel", ["selfcheck"]),
    ("fencepost run --nemesis pau", ["pause"]),
    ("fencepost run --bro", ["--brokers", "--broker-setting"]),
    ("fencepost campaign mus", ["museum", "museum-brokers", "museum-steps"]),
    ("fencepost example swal", ["swallowed_write"]),
    ("fencepost run -n kill,ta", ["kill,target="]),
    ("fencepost run -n kill,target=contr", ["kill,target=controller"]),
    ("fencepost run -n kill,target=br", ["kill,target=broker:"]),
    ("fencepost run -n kill,target=leader,when=", ["kill,target=leader,when=transaction-open"]),
    ("fencepost run -n no-such-fault,ta", []),
    ("fencepost run --set wri", ["writers="]),
    ("fencepost run -w pipeline --set members", ["members="]),
    ("fencepost run --set new_ids=t", ["new_ids=true"]),
    ("fencepost run --cluster-set brok", ["brokers="]),
    ("fencepost run --producer ack", ["acks="]),
    ("fencepost run --consumer isol", ["isolation.level="]),
    ("fencepost run --contract acks=a", ["acks=all"]),
    ("fencepost run --lane main,or", ["main,order="]),
    ("fencepost run --budget n", ["nodes="]),
    ("fencepost run --at-least fa", ["faults="]),
    ("fencepost check latest --contract acks=a", ["acks=all"]),
    ("fencepost campaign first --only st", ["steady"]),
    ("fencepost campaign no-such-campaign --only st", []),
]


def environment(words):
    """Environment that bash sets when it completes a word."""
    return {"_FENCEPOST_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}


@pytest.mark.parametrize(("words", "answer"), COMPLETIONS)
def test_what_bash_asks_is_answered(words, answer, capsys, monkeypatch):
    for name, value in environment(words).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as left:
        main.main([])
    assert left.value.code == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(answer)


def completed(words, capsys, monkeypatch):
    for name, value in environment(words).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main.main([])
    return capsys.readouterr().out.split()


def test_runs_are_completed_the_newest_first(capsys, monkeypatch, tmp_path):
    for number, run in enumerate(("abc123", "abd456", "xyz789")):
        directory = tmp_path / "results" / "t" / f"2026010{number}T000000Z-{run}"
        directory.mkdir(parents=True)
        (directory / "plan.json").write_text(json.dumps({"run": run, "created": f"2026-01-0{number + 1}T00:00:00+00:00"}))
    monkeypatch.chdir(tmp_path)
    assert completed("fencepost report ab", capsys, monkeypatch) == ["abd456", "abc123"]
    assert completed("fencepost check la", capsys, monkeypatch) == ["latest"]
    assert completed(f"fencepost report --results {tmp_path / 'none'} ab", capsys, monkeypatch) == []


def test_settings_of_kafka_are_completed_where_a_version_has_told_them(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    assert completed("fencepost run --topic reten", capsys, monkeypatch) == []
    assert completed("fencepost run --kafka 4", capsys, monkeypatch) == []
    monkeypatch.setattr(
        "fencepost.clusters.kafka.service.distribution.installed",
        lambda: [SimpleNamespace(version="4.3.0", directory=tmp_path)],
    )
    definitions = {"broker": {"log.dirs": ["list", "", ""]}, "topic": {"retention.ms": ["long", "", ""]}, "others": []}
    (tmp_path / "settings.json").write_text(json.dumps(definitions))
    assert completed("fencepost run --topic reten", capsys, monkeypatch) == ["retention.ms="]
    assert completed("fencepost run --broker-setting log", capsys, monkeypatch) == ["log.dirs="]
    assert completed("fencepost run --kafka 4", capsys, monkeypatch) == ["4.3.0"]


@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("fencepost run -n kill,ta", "kill,target="),
        ("fencepost run -n kill,target=contr", "controller"),  # bash completes what follows the last = or :
        ("fencepost run -n kill,target=controller,wh", "controller,when="),
        ("fencepost run --cluster loc", "local"),
    ],
)
def test_bash_gets_what_it_takes_for_the_last_word(line, replies, capsys, tmp_path):
    shim = tmp_path / "fencepost"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fencepost "$@"\n')
    shim.chmod(0o755)
    (tmp_path / "script").write_text(script("bash", capsys))
    ask = f'source {tmp_path}/script; COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; _fencepost_completion {shim}'
    done = subprocess.run(
        [shutil.which("bash"), "-c", f'{ask}; printf "%s\\n" "${{COMPREPLY[@]}}"'], capture_output=True, text=True
    )
    assert done.stdout.split() == [replies], done.stderr


def test_bash_is_answered_by_a_process_of_its_own():
    words, answer = COMPLETIONS[1]
    command = [sys.executable, "-m", "fencepost"]
    done = subprocess.run(command, env={**os.environ, **environment(words)}, capture_output=True, text=True)
    assert sorted(done.stdout.split()) == sorted(answer), done.stderr
