"""Completion in shells: the script is one that the shell reads, and `fencepost` answers what it asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

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
    ("fencepost campaign mus", ["museum", "museum-brokers"]),
    ("fencepost example swal", ["swallowed_write"]),
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


def test_bash_is_answered_by_a_process_of_its_own():
    words, answer = COMPLETIONS[1]
    command = [sys.executable, "-m", "fencepost"]
    done = subprocess.run(command, env={**os.environ, **environment(words)}, capture_output=True, text=True)
    assert sorted(done.stdout.split()) == sorted(answer), done.stderr
