"""`fencepost new`: what it writes works at once, and nothing is overwritten."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.harness.cli import main
from fencepost.harness.plugins import registry, scaffold
from fencepost.harness.plugins.validation import breaches, guess

NAMES = {"nemesis": "SlowDisk", "workload": "drip", "transactional-workload": "swap", "checker": "no-gaps", "cluster": "tiny_one"}
PATHS = {
    "nemesis": "slow_disk:SlowDisk",
    "workload": "drip:Drip",
    "transactional-workload": "swap:Swap",
    "checker": "no_gaps:no_gaps",
    "cluster": "tiny_one:TinyOne",
}


@pytest.fixture
def fencepost(stranger, capsys):
    """Runs the command in an empty directory: exit code, standard output, standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            main.main([*arguments])
        output = capsys.readouterr()
        return left.value.code, output.out, output.err

    return call


def test_what_is_written_is_a_sound_plug_in_and_its_tests_pass(fencepost):
    """All kinds; their own tests in a pytest of their own, as the author will run them."""
    for kind, name in NAMES.items():
        code, out, _ = fencepost("new", kind, name)
        assert code == 0
        assert f"  fencepost nemesis check {PATHS[kind]}\n" in out or kind != "nemesis"
        group = kind.removeprefix("transactional-")
        plug_in = registry.load(group, PATHS[kind])
        assert guess(plug_in) == group
        assert breaches(group, plug_in) == []
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in Path().glob("*.py")) == sorted(
        f"{prefix}{path.partition(':')[0]}.py" for path in PATHS.values() for prefix in ("", "test_")
    )


@pytest.mark.parametrize(("kind", "template"), scaffold.TEMPLATES.items())
def test_nothing_of_the_example_stays_in_what_is_written(kind, template):
    for file in (f"fencepost_example/{template.module}.py", f"tests/test_{template.module}.py"):
        text = template.text(file, "quite_another")
        left = [word for word in ("fencepost_example", template.camel, template.snake, template.kebab) if word in text]
        assert left == []
        assert {"nemesis": "class QuiteAnother", "checker": '    "quite-another",'}.get(kind, "") in template.text(
            f"fencepost_example/{template.module}.py", "quite_another"
        )


def test_what_is_there_is_left_alone(fencepost):
    Path("test_slow_disk.py").write_text("mine")
    code, _, err = fencepost("new", "nemesis", "slow_disk")
    assert code == 254
    assert "test_slow_disk.py is there already, and is left alone" in err
    assert [path.name for path in Path().iterdir()] == ["test_slow_disk.py"]
    assert Path("test_slow_disk.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("3disks", '"3disks" cannot be a module of Python'),
        ("class", '"class" cannot be a module of Python'),
        ("signal", '"signal" is the name of a module that is installed'),
        ("nemesis", '"nemesis" is the name of a module that is installed'),
    ],
)
def test_a_name_that_would_not_be_found_is_refused(fencepost, name, sentence):
    code, _, err = fencepost("new", "nemesis", name)
    assert code == 254
    assert sentence in err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("nemesis", "receipt", '"receipt" would define Receipt, a name that what is written here uses itself'),
        ("nemesis", "none", '"none" would define None, which is a word of Python; use another name, like my_none'),
        ("nemesis", "_", '"_" cannot be a module of Python'),
        ("nemesis", "fake_cluster", '"fake_cluster" would define FakeCluster'),
        ("workload", "role", '"role" would define Role, a name that what is written here uses itself; use another, like my_role'),
        ("cluster", "local", '"local" would define Local'),
        ("checker", "found", '"found" would define found'),
    ],
)
def test_a_name_that_would_break_what_is_written_is_refused(fencepost, kind, name, sentence):
    """It would stand in the place of what the file imports, or be no name at all."""
    code, _, err = fencepost("new", kind, name)
    assert code == 254
    assert sentence in " ".join(err.split())
    assert list(Path().iterdir()) == []


def test_what_only_looks_like_a_taken_name_is_written(fencepost):
    """A check is a function in small letters, so that a class of the template is not in its way; and the other way round."""
    assert fencepost("new", "checker", "receipt")[0] == 0
    assert fencepost("new", "nemesis", "my_none")[0] == 0
    assert "class MyNone:" in Path("my_none.py").read_text()


@pytest.mark.parametrize("place", ["nowhere", "x" * 5000])
def test_a_place_that_is_not_there_is_refused(fencepost, place):
    code, _, err = fencepost("new", "workload", "drip", "--dir", place)
    assert code == 254
    assert f"--dir {place}: there is no such directory" in err


@pytest.mark.parametrize("kind", ["nemesis", "client"])
def test_where_pytest_is_not_installed_its_installation_is_the_first_thing_to_try(kind, monkeypatch, tmp_path):
    """As after an installation with pipx or uv."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pytest" else find_spec(name))
    commands = scaffold.new(kind, "my_own", tmp_path)[1]
    assert commands[:2] == [
        f"{sys.executable} -m pip install pytest",
        f"{sys.executable} -m pytest {tmp_path / 'test_my_own.py'}",
    ]
