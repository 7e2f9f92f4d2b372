"""Files for CI systems: their commands are those of the command line, and their forms are valid, as far as can be seen here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.harness.cli import main

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples" / "ci"
FILES = [*sorted(CI.iterdir()), ROOT / ".github" / "workflows" / "nightly.yml"]
COMMAND = re.compile(
    r"""(?:"\$fencepost"|(?<![\w:.-])(?:%h/fencepost/)?(?:\.venv/bin/)?fencepost|(?:[\w./]*/)night\.sh) ([a-z-].*)"""
)
STAND_INS = {
    "$campaign": "nightly",
    "$output": "public",
    "${{ matrix.shard }}": "2",
    "${{ github.run_id }}": "17",
    "${{ needs.time.outputs.round }}": "20261125T190000Z",
    '"$@"': "",
}


def commands_in(file):
    """The words of each command of fencepost in a file; those of night.sh are those of `fencepost campaign`."""
    text = file.read_text()
    for name, value in STAND_INS.items():
        text = text.replace(name, value)
    for line in text.splitlines():
        if not (match := COMMAND.search(line)) or line.strip().startswith(("#", "//", "name:", "echo", "Description")):
            continue
        words = shlex.split(re.split(r"\|\||&&|;|'$", match.group(1).rstrip("`"))[0])
        yield ["campaign", *words] if "night.sh " in match.group(0) else words


COMMANDS = [(file, words) for file in FILES for words in commands_in(file)]


def test_every_file_calls_the_command():
    timer = CI / "fencepost-nightly.timer"
    assert {file for file, _ in COMMANDS} == {*FILES} - {timer}
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(
    ("file", "words"), COMMANDS, ids=lambda value: value.name if isinstance(value, Path) else " ".join(value)
)
def test_the_commands_are_those_of_the_command_line(file, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("public").mkdir()  # as night.sh does
    command = main.command_line().commands[words[0]]
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("file", [file for file in FILES if file.suffix == ".yml"], ids=lambda file: file.name)
def test_the_yaml_can_be_read(file):
    """By whichever Python of this machine has a reader of YAML: none of our dependencies has."""
    reading = "import sys, yaml; assert yaml.safe_load(open(sys.argv[1], encoding='utf-8'))"
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import yaml"], capture_output=True, check=False).returncode == 0:
            read = subprocess.run([python, "-c", reading, str(file)], capture_output=True, text=True, check=False)
            assert read.returncode == 0, read.stderr
            return
    pytest.skip("no Python here reads YAML")


def test_systemd_takes_the_units(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd here")
    for unit in CI.glob("fencepost-nightly.*"):
        text = unit.read_text().replace("%h/fencepost/.venv/bin/fencepost", shutil.which("true")).replace("%h", str(tmp_path))
        (tmp_path / unit.name).write_text(text)
    (tmp_path / "fencepost").mkdir()
    units = [str(path) for path in sorted(tmp_path.glob("fencepost-nightly.*"))]
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    complaints = [line for line in verified.stderr.splitlines() if "fencepost-nightly" in line]
    assert complaints == []


@pytest.mark.parametrize(("code", "site"), [(0, 0), (1, 0), (255, 0), (1, 1)])
def test_the_script_makes_the_page_whatever_came_of_the_campaign_and_ends_with_its_exit_code(tmp_path, code, site):
    fake = tmp_path / "fencepost"
    fake.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ "$1" = campaign ] && exit {code}\n[ "$1" = report ] && exit {site}\n'
    )
    fake.chmod(0o755)
    environment = {**os.environ, "FENCEPOST": str(fake), "OUTPUT": str(tmp_path / "out")}
    words = [str(CI / "night.sh"), "mine.toml", "--only", "a b"]
    assert subprocess.run(words, env=environment, cwd=tmp_path, check=False, capture_output=True).returncode == code
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [
        "doctor",
        f"campaign mine.toml --junit {tmp_path}/out/junit.xml --only a b",
        f"report --site {tmp_path}/out/site",
    ]
    assert (tmp_path / "out").is_dir()
