"""Fingerprints, tried on recorded controls and on the plans of all tests that come along and expect an anomaly."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import report_example as example
from support.build_tools import path_with_build_tools
from support.recorded_findings import RecordedRun, extract, recorded

from fencepost.harness.api.expectations import anomaly_and_word
from fencepost.harness.api.plans import Test
from fencepost.harness.api.run import Run
from fencepost.harness.campaign.campaign import read
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.memory.fingerprints import DIGITS, digest, finding_parts, fingerprint, run_parts
from fencepost.harness.memory.rows import row_of
from fencepost.harness.planning import clients
from fencepost.harness.planning.plan import make_plan
from fencepost.harness.system.package_files import campaigns

SEEDS = {False: (3, 4), True: range(20)}  # whether it is the nightly
SAME_BUG = {  # by the same test in two campaigns
    frozenset({"first: torn", "nightly: torn"}),  # KAFKA-17754
    frozenset({"canary: canary", "controls: P5 read_uncommitted"}),
}


def fingerprints(run: RecordedRun) -> dict[str, set[str]]:
    """The fingerprints of each anomaly of a run."""
    found: dict[str, set[str]] = defaultdict(set)
    of = Run(directory=Path("run"), plan=run.plan)
    for finding in run.findings:
        found[finding["anomaly"]].add(fingerprint(finding, of))
    return found


# --------------------------------------------------------------------------------------------------
# Recorded controls
# --------------------------------------------------------------------------------------------------
def test_a_bug_has_one_fingerprint_for_each_promise_that_it_breaks_whatever_the_seed():
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in recorded():
        for anomaly, marks in fingerprints(run).items():
            seen[run.test, anomaly] |= marks
    assert len(seen) > 15
    assert {place: marks for place, marks in seen.items() if len(marks) != 1} == {}


def test_no_two_recorded_bugs_share_a_fingerprint():
    owners: dict[str, set[str]] = defaultdict(set)
    for run in recorded():
        for marks in fingerprints(run).values():
            for mark in marks:
                owners[mark].add(run.test)
    assert [tests for tests in owners.values() if len(tests) > 1] == []


# --------------------------------------------------------------------------------------------------
# Plans of all seeds
# --------------------------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def plans_alone(tmp_path_factory, monkeypatch):
    """Plans for which no driver is built, no release of Kafka fetched, and no tool of Go or Node.js has to be there."""
    monkeypatch.setenv("PATH", path_with_build_tools(tmp_path_factory.mktemp("tools"), os.environ["PATH"]))
    monkeypatch.setattr(clients, "_named", lambda kind: {"kind": kind, "version": "", "driver": None})
    monkeypatch.setattr("fencepost.clusters.local.provider.fetch", lambda version: SimpleNamespace(jars={}))


@cache
def planned(nightly: bool) -> dict[str, tuple[Test, list[tuple[str, ...]]]]:
    """Every test that comes along and expects an anomaly, with what its plans of several seeds add to a fingerprint."""
    tests = {f"{name}: {test.name}": test for name, path in campaigns().items() for test in read(path).tests}
    return {
        name: (test, [_parts(test, seed) for seed in SEEDS[nightly]]) for name, test in tests.items() if test.expect != ("valid",)
    }


def _parts(test: Test, seed: int) -> tuple[str, ...]:
    return run_parts(json.loads(json.dumps(make_plan(test, run=f"run{seed}", seed=seed, command=f"--seed {seed}"), default=str)))


@pytest.mark.parametrize("nightly", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_plans_of_all_seeds_add_the_same_to_a_fingerprint(nightly):
    assert len(planned(nightly)) > 40
    assert [name for name, (_, parts) in planned(nightly).items() if len(set(parts)) != 1] == []


def test_no_two_tests_that_come_along_share_a_fingerprint_unless_they_show_one_bug():
    owners: dict[str, set[str]] = defaultdict(set)
    for name, (test, parts) in planned(False).items():
        for anomaly in {anomaly_and_word(text)[0] for text in (*test.expect, *test.tolerate)}:
            owners[digest(anomaly, *parts[0])].add(name)
    assert {frozenset(names) for names in owners.values() if len(names) > 1} <= SAME_BUG


# --------------------------------------------------------------------------------------------------
# Parts
# --------------------------------------------------------------------------------------------------
PLAN: dict[str, Any] = {
    "test": "a",
    "workload": {"kind": "transactions", "options": {"writers": 4, "new_ids": False, "offsets": "after"}},
    "client": {"kind": "librdkafka@2.16.1", "producer": {"acks": "all", "linger.ms": 5, "client.id": "x"}, "readers": None},
    "topics": {"t": {"settings": {"min.insync.replicas": "2"}}},
    "cluster": {"kind": "local", "options": {"settings": {"a.b.ms": 5}}, "description": {"kafka": "4.3.0"}},
    "contract": {"acks": "all", "transactional": "true"},
    "nemesis": ["kill", "pause"],
}
FINDING = {"anomaly": "lost-write", "records": [{"role": "missing", "offset": 5}], "sentence": "t-0@5", "time": 5, "faults": [1]}


def mark(finding: dict[str, Any] = FINDING, **plan: Any) -> str:
    return fingerprint(finding, Run(directory=Path("run"), plan=PLAN | plan))


SAME = {
    "name": {"test": "b"},
    "order of faults": {"nemesis": ["pause", "kill"]},
    "drawn faults": {"schedule": [{"kind": "kill"}]},
    "numbers": {"workload": {"kind": "transactions", "options": {"writers": 9, "new_ids": False, "offsets": "after"}}},
    "new option": {"workload": {"kind": "transactions", "options": {"more": 0, "other": "", "flag": False, "offsets": "after"}}},
    "release of the client": {"client": PLAN["client"] | {"kind": "librdkafka", "version": "librdkafka 3.0"}},
    "release of the brokers": {"cluster": PLAN["cluster"] | {"description": {}}},
    "client's numbers and names": {"client": PLAN["client"] | {"producer": {"acks": "all", "client.id": "y", "linger.ms": "7"}}},
    "default recovery": {"client": PLAN["client"] | {"recovery": "documented"}},
    "names of topics": {"topics": {"u": {"settings": {"min.insync.replicas": "3"}}}},
    "value of a broker's setting": {"cluster": PLAN["cluster"] | {"options": {"settings": {"a.b.ms": 50}}}},
    "default of the contract": {"contract": PLAN["contract"] | {"strict_errors": "false"}},
}  # fmt: skip
OTHER = {
    "workload": {"workload": {"kind": "pipeline", "options": PLAN["workload"]["options"]}},
    "flag": {"workload": {"kind": "transactions", "options": {"new_ids": True, "offsets": "after"}}},
    "word": {"workload": {"kind": "transactions", "options": {"offsets": "before"}}},
    "library": {"client": PLAN["client"] | {"kind": "java@4.4.0"}},
    "library of the readers": {"client": PLAN["client"] | {"readers": {"kind": "java"}}},
    "recovery": {"client": PLAN["client"] | {"recovery": "new-producer"}},
    "client's flag": {"client": PLAN["client"] | {"producer": {"acks": "all", "enable.idempotence": True}}},
    "client's word": {"client": PLAN["client"] | {"producer": {"acks": "all", "compression.type": "lz4"}}},
    "topic's word": {"topics": {"t": {"settings": {"cleanup.policy": "compact"}}}},
    "broker's setting": {"cluster": PLAN["cluster"] | {"options": {"settings": {"c.d": 1}}}},
    "contract": {"contract": {"acks": "1"}},
    "other contract": {"overridden": {"acks": "all"}},
    "faults": {"nemesis": ["kill"]},
    "no faults": {"nemesis": []},
}


@pytest.mark.parametrize("change", SAME)
def test_what_does_not_make_another_bug(change):
    assert mark() == mark(**SAME[change])


@pytest.mark.parametrize("change", OTHER)
def test_what_makes_another_bug(change):
    assert mark() != mark(**OTHER[change])


def test_every_one_of_them_makes_a_bug_of_its_own():
    assert len({mark(**change) for change in OTHER.values()}) == len(OTHER)


def test_of_a_finding_the_anomaly_and_its_definite_errors_count():
    """The roles of its records do not: of a large finding only the first two hundred are shown."""
    elsewhere = FINDING | {"records": [{"role": "read", "offset": 9}] * 2, "sentence": "t-1@9", "time": 9, "id": 4, "faults": []}
    assert mark(elsewhere) == mark()
    assert len({mark(), mark(FINDING | {"anomaly": "duplicate"}), mark(FINDING | {"errors": ["INVALID_TXN_STATE"]})}) == 3


def test_a_program_counts_by_its_name_and_not_by_its_place_or_release():
    def application(*command: str) -> str:
        return mark(workload={"kind": "application", "options": {"command": list(command)}})

    assert application("/opt/a/bin/python3.11", "/x/loop.py", "-n", "5") == application("/b/python3.12", "/y/loop.py", "-n", "7")
    assert application("python", "loop.py") != application("python", "other.py")


@pytest.mark.parametrize(
    "plan", [{}, {"workload": None}, {"topics": {"t": {}}}, {"client": {"readers": None}}, {"schedule": [{}]}]
)
def test_a_plan_from_elsewhere_may_lack_anything(plan):
    assert len(fingerprint({}, Run(directory=Path("run"), plan=plan))) == DIGITS
    assert finding_parts({"errors": None, "anomaly": "x\ud83d"})
    assert len(digest("x\ud83d")) == DIGITS


def test_a_row_has_a_finding_for_each_fingerprint_with_its_count(tmp_path):
    run = open_run(example.RUNS["torn"](tmp_path / "campaign" / "run"))
    [finding] = row_of(run, tmp_path).findings
    assert (finding.anomaly, finding.count) == ("torn-transaction", 3)
    assert finding.fingerprint == fingerprint(run.verdict["findings"][0], run)


def test_the_extract_of_a_run_has_its_fingerprints(tmp_path):
    directory = example.RUNS["torn"](tmp_path / "campaign" / "run")
    extracted = extract(directory)
    whole = row_of(open_run(directory), tmp_path)
    run = RecordedRun(extracted["plan"], tuple(extracted["findings"]))
    assert {entry for marks in fingerprints(run).values() for entry in marks} == {entry.fingerprint for entry in whole.findings}
