"""examples/plugin, installed as any stranger's package is: found, sound, and used by a real run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fencepost_command import fencepost, only_run, verdict

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
WORKLOADS = {("workload", "trickle"), ("workload", "transfer")}
PLUGINS = {("nemesis", "hiccup"), *WORKLOADS, ("checker", "read-before-sent"), ("cluster", "frugal")}
FAULT = "hiccup,target=leader,every_s=1,lasts_s=1"
RUN = ("--workload", "trickle", "--cluster", "frugal", "--cluster-set", "brokers=1", "--nemesis", FAULT, "--time", "5")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment in which the package is installed, beside this one."""
    place = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*argv, "--target", str(place), str(EXAMPLE)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}


def run(argv, env, cwd):
    return subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)


def test_what_it_brings_is_listed_beside_the_built_ins(installed, tmp_path):
    done = run([sys.executable, "-m", "fencepost", "plugins", "--json"], installed, tmp_path)
    listed = {(group, name) for group, names in json.loads(done.stdout).items() for name in names}
    assert listed >= PLUGINS | {("nemesis", "kill"), ("cluster", "local")}


def test_its_own_tests_pass(installed, tmp_path):
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")]
    done = run(argv, installed, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


OWN_CHECK = """
from fencepost.checkers.api import CheckResult, partition_check
from fencepost.checkers.views.result_rows import read_rows


@partition_check("first-place")
def first_place(log):
    'A record was read at offset 0: there always is one.'
    return CheckResult(len(log.reads), read_rows(log, log.reads.offset == 0, log.reads.op))
"""


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_run_uses_its_fault_its_workload_its_check_and_its_cluster(installed, tmp_path):
    """And a check that is not installed, named by its import path; it finds what it looks for, as is expected here."""
    (tmp_path / "own_check.py").write_text(OWN_CHECK)
    path = os.pathsep.join([installed["PYTHONPATH"], str(tmp_path)])
    own = ("--checker", "own_check:first_place", "--expect", "first-place")
    code, out, err = fencepost(tmp_path, "run", *RUN, *own, "--seed", "5", PYTHONPATH=path)
    assert code == 0, out + err
    document = verdict(only_run(tmp_path))
    answer = next(row for row in document["properties"] if row["name"] == "read-before-sent")
    assert (answer["verdict"], answer["compared"] > 0) == ("held", True)
    receipts = [json.loads(line) for line in (only_run(tmp_path) / "history" / "faults.jsonl").read_text().splitlines()]
    assert {(receipt["kind"], receipt["role"], receipt["effective"]) for receipt in receipts} == {("hiccup", "leader", True)}
    plan = json.loads((only_run(tmp_path) / "plan.json").read_text())
    assert (plan["cluster"]["kind"], plan["workload"]["kind"]) == ("frugal", "trickle")
