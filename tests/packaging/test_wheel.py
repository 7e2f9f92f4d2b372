"""The wheel that others install: what it holds, and that it works where there is no working copy.

For speed it is installed without its dependencies, which come from the environment of the tests; every process that runs on that
installation notes what it opens below the working copy, which must be nothing. By night all dependencies are installed too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from support.build_tools import path_with_build_tools
from support.fencepost_command import only_run, verdict

from fencepost.harness.fetching.store import cache_dir

ROOT = Path(__file__).parents[2]
FOLDERS = ("harness", "clusters", "nemesis", "workloads", "checkers", "campaigns", "examples")
MINUTES_15 = 900
WATCH = """
import os, sys

def note(folder, name, text):
    with open(os.path.join(folder, f"{os.getpid()}-{name}"), "a") as file:
        file.write(text + "\\n")

def look(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str):
        path = os.path.realpath(arguments[0])
        if path.startswith(TREE) and not path.startswith(DEPENDENCIES):
            note(NOTES, "opened", path)

note(NOTES, "started", " ".join(sys.orig_argv))
sys.addaudithook(look)
"""


class Installed(NamedTuple):
    """An environment with the wheel, apart from everything else."""

    directory: Path
    environment: dict[str, str]
    notes: Path

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    def run(self, cwd, *arguments, program="fencepost", **more):
        argv = [str(self.directory / "bin" / program), *map(str, arguments)]
        return subprocess.run(argv, cwd=cwd, env=self.environment, capture_output=True, text=True, timeout=MINUTES_15, **more)

    def noted(self, name):
        return [line for path in self.notes.glob(f"*-{name}") for line in path.read_text().splitlines()]


def demand(done):
    """The standard output of a command that has succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(source, target, kind):
    argv = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    demand(subprocess.run(argv, cwd=source, capture_output=True, text=True, timeout=120))
    (file,) = target.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def bare_environment(home):
    """The variables that a service or a container gives a command."""
    inherited = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    return {**inherited, "HOME": str(home), "FENCEPOST_CACHE": str(cache_dir())}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel in an environment of its own, with the dependencies of the tests' environment."""
    place = tmp_path_factory.mktemp("installed")
    venv = Installed(place / "env", bare_environment(place / "home"), place / "notes")
    venv.notes.mkdir()
    (place / "home").mkdir()
    venv.environment["PATH"] = path_with_build_tools(place / "home", venv.environment["PATH"])
    demand(subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv.directory], capture_output=True, text=True))
    pip = [sys.executable, "-m", "pip", "--python", venv.python, "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    demand(subprocess.run([*map(str, pip), str(wheel)], capture_output=True, text=True, timeout=120))
    (packages,) = venv.directory.glob("lib/python*/site-packages")
    dependencies = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    known = {"TREE": f"{ROOT}/", "DEPENDENCIES": tuple(map(os.path.realpath, dependencies)), "NOTES": str(venv.notes)}
    (packages / "watch_opened_files.py").write_text("".join(f"{name} = {value!r}\n" for name, value in known.items()) + WATCH)
    (packages / "dependencies.pth").write_text("\n".join(["import watch_opened_files", *dependencies]))
    return venv


@pytest.fixture
def untouched(installed):
    """After the test: no process of the installation has opened anything of the working copy."""
    yield
    assert installed.noted("opened") == []


# -- what is built ------------------------------------------------------------------------------------
def test_the_wheel_holds_the_package_alone_and_all_files_of_its_folders(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    held = {name for name in names if not name.startswith("fencepost-")}
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("no git here, or no repository: which files belong to the package is not known")
    files = {f"fencepost/{name}" for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert held == files | {"fencepost/__init__.py", "fencepost/__main__.py", "fencepost/py.typed"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_the_wheel_has_its_licence(wheel):
    with zipfile.ZipFile(wheel) as file:
        (metadata,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        text = file.read(metadata).decode()
        licence = file.read(metadata.replace("METADATA", "licenses/LICENSE"))
    assert "License-Expression: Apache-2.0\nLicense-File: LICENSE\n" in text
    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_from_the_sdist_is_the_same(wheel, tmp_path):
    sdist = built(ROOT, tmp_path / "sdist", "sdist")
    (tmp_path / "source").mkdir()
    demand(subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path / "source"], capture_output=True, text=True))
    (source,) = (tmp_path / "source").iterdir()
    again = built(source, tmp_path / "again", "wheel")
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


# -- what is installed --------------------------------------------------------------------------------
ORIGINS = """
import importlib, json, pkgutil, sys
import fencepost.harness.cli.main, fencepost.checkers.service
from fencepost.harness.plugins import registry
for group in (*registry.GROUPS, "service"):
    for name in registry.names(group):
        registry.load(group, name)
print(json.dumps({name: [module.__file__] if module.__file__ else list(module.__path__)
                  for name, module in sys.modules.items() if name.partition(".")[0] == "fencepost"}))
"""


@pytest.mark.usefixtures("untouched")
def test_everything_imported_is_of_the_wheel(installed, tmp_path):
    origins = json.loads(demand(installed.run(tmp_path, "-c", ORIGINS, program="python")))
    assert len(origins) > 200
    for name, paths in origins.items():
        assert all(Path(path).is_relative_to(installed.directory) for path in paths), name


COMMANDS = """
import sys
from fencepost.harness.cli.main import main
for line in sys.stdin.read().splitlines():
    try:
        main(line.split())
    except SystemExit as left:
        assert left.code == 0, (line, left.code)
"""
QUICK = (
    "plugins",
    "plugins kill",
    "client list",
    "cluster list",
    "connect list",
    "example",
    "completion bash",
    "list",
    "campaign museum --dry-run",
    "campaign campaigns/application.toml --dry-run",
    "campaign external --show",
)
KINDS = ("nemesis", "workload", "transactional-workload", "checker", "cluster", "client")


@pytest.mark.usefixtures("untouched")
def test_commands_work_in_an_empty_directory_and_new_plug_ins_pass_their_tests(installed, tmp_path):
    lines = [*QUICK, *(f"new {kind} my_{kind.replace('-', '_')}" for kind in KINDS)]
    shown = demand(installed.run(tmp_path, "-c", COMMANDS, program="python", input="\n".join(lines)))
    assert str(installed.directory) in shown  # where the examples are
    tests = demand(installed.run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path, program="python"))
    assert "skipped" not in tests
    assert {path.stem for path in tmp_path.glob("test_*.py")} == {f"test_my_{kind.replace('-', '_')}" for kind in KINDS}


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.usefixtures("untouched")
def test_a_campaign_is_performed_judged_and_reported(installed, tmp_path):
    findings = {finding["name"]: finding for finding in json.loads(installed.run(tmp_path, "doctor", "--json").stdout)}
    wanting = {name for name, finding in findings.items() if finding["ok"] is False}
    assert wanting <= {"memory", "disk"}, findings  # other tests take of both at the same time
    shown = demand(installed.run(tmp_path, "campaign", "smoke", "--show"))
    assert "\ntime_s = 10\n" in shown
    (tmp_path / "quick.toml").write_text(shown.replace("\ntime_s = 10\n", "\ntime_s = 5\nrate = 60\n"))
    demand(installed.run(tmp_path, "campaign", "quick.toml", "--cluster-set", "brokers=1"))
    run_dir = only_run(tmp_path / "results")
    on_spark = verdict(run_dir)
    assert on_spark["verdict"] == "valid"
    assert (run_dir / "report.html").stat().st_size > 50_000
    demand(installed.run(tmp_path, "check", "latest"))
    assert verdict(run_dir)["properties"] == on_spark["properties"], "a process of its own has answered otherwise"
    started = "\n".join(installed.noted("started"))
    for module in ("fencepost.harness.perform.performer", "fencepost.harness.perform.worker", "worker_daemon"):
        assert module in started


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.nightly
def test_an_installation_with_all_dependencies_does_what_the_readme_shows(wheel, tmp_path):
    """Needs the network: half a gigabyte is downloaded."""
    venv = Installed(tmp_path / "env", bare_environment(tmp_path), tmp_path)
    demand(subprocess.run([sys.executable, "-m", "venv", venv.directory], capture_output=True, text=True))
    demand(venv.run(tmp_path, "install", "--quiet", wheel, program="pip"))
    work = tmp_path / "work"
    work.mkdir()
    for words in (
        ("doctor",),
        ("campaign", "smoke"),
        ("selfcheck", "latest"),
        ("check", "latest"),
        ("export", "latest", "--format", "jepsen-edn"),
        ("new", "nemesis", "my_own"),
        ("run", "--nemesis", "my_own:MyOwn", "--time", "10"),
        ("campaign", "application", "--only", "right loop"),
        ("client", "fetch", "aiokafka@0.14.0"),
    ):
        demand(venv.run(work, *words))
    commands = [json.loads(path.read_text())["workload"]["options"].get("command") for path in work.glob("results/*/*/plan.json")]
    (command,) = filter(None, commands)
    assert all(Path(word).is_relative_to(venv.directory) for word in command)
    shutil.rmtree(venv.directory)  # half a gigabyte, which pytest would keep
