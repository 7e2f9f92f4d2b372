"""`fencepost nemesis check` on a real cluster: sound faults pass, one that lies is rejected, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from support.fencepost_command import FENCEPOST

from fencepost.harness.conformance.results import STORIES
from fencepost.harness.runs import leftovers

pytestmark = pytest.mark.cluster

LIES = '''
from dataclasses import dataclass
from fencepost.nemesis.pause import Pause


@dataclass(frozen=True, kw_only=True)
class Blinks(Pause):
    """Pauses and resumes within inject, and shows the evidence of the moment in between."""

    def inject(self, cluster, rng):
        receipt = super().inject(cluster, rng)
        super().heal(cluster, receipt)
        return receipt
'''


@pytest.fixture(scope="module")
def liar(tmp_path_factory):
    """Result of checking a fault that lies: exit code, output, and the answers by fault and story."""
    return check(tmp_path_factory, "liar:Blinks")


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Result of checking a fault of ours."""
    return check(tmp_path_factory, "isolate")


def check(tmp_path_factory, fault):
    work = tmp_path_factory.mktemp("work")
    (work / "liar.py").write_text(LIES)
    argv = [str(FENCEPOST), "nemesis", "check", fault, "--json", "answers.json"]
    env = {**os.environ, "TMPDIR": str(work)}  # logs of a rejected fault are kept
    done = subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
    assert (work / "answers.json").exists(), done.stderr
    answers = {
        entry["fault"]: {result["story"]: result for result in entry["stories"]}
        for entry in json.loads((work / "answers.json").read_text())
    }
    return done.returncode, done.stdout, answers


@pytest.mark.nightly
def test_a_fault_of_ours_passes_every_story(ours):
    code, _, answers = ours
    stories = answers["isolate"]
    assert code == 0
    assert list(stories) == list(STORIES)
    assert [story for story, result in stories.items() if result["ok"] is not True] == [], stories


@pytest.mark.nightly
def test_what_was_seen_is_of_real_packets(ours):
    assert re.search(r"network of n\d>n\d: true -> false", ours[2]["isolate"]["effect"]["seen"])


@pytest.mark.nightly
def test_a_liar_is_rejected_where_it_lies_and_nowhere_else(liar):
    """Its evidence is true, of a moment that was over when inject returned."""
    code, out, answers = liar
    failed = {story: result for story, result in answers["liar:Blinks"].items() if result["ok"] is False}
    assert code == 1
    assert set(failed) == {"effect"}
    assert "inject undid by itself what it had done: pause n" in failed["effect"]["seen"]
    assert re.search(r"evidence says state of n\d: frozen; the kit saw: not frozen", failed["effect"]["seen"])
    assert "12 passed, 1 failed" in out
    assert "| liar:Blinks | local | Kafka 4.4.0 | interface ✓ | options ✓ | inject ✓ | receipt ✓ | effect ✗ |" in out


@pytest.mark.nightly
def test_the_killed_harness_left_nothing(liar, tmp_path_factory):
    """By the kit's own word, and by a look at all processes of these tests."""
    place = str(tmp_path_factory.getbasetemp())
    assert liar[2]["liar:Blinks"]["harness died"]["seen"].endswith("with liar:Blinks on")
    left = [
        process.command
        for process in leftovers.processes()
        if place in process.command and "fencepost-nemesis-" in process.command
    ]
    assert left == []


def test_a_missing_capability_is_reported_without_starting_a_cluster(tmp_path):
    argv = [sys.executable, "-m", "fencepost", "nemesis", "check", "isolate", "--cluster-set", "loopback=true"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
    assert done.returncode == 2, done.stderr
    assert "unavailable here, because the campaign asks for loopback" in " ".join(done.stdout.split())
    assert "| isolate | local | - | interface ✓ | options ✓ | inject – |" in done.stdout  # noqa: RUF001
