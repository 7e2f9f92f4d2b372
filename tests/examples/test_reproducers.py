"""Reproducers that start brokers of their own, by night: what they show must still be so with the version that they name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import external_kafka

from fencepost.clusters.kafka.distribution import fetch

PROGRAMS = Path(__file__).parents[2] / "examples" / "reproducers"
MINUTES_5 = 300


def output(*argv):
    return subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=MINUTES_5, check=False)


@pytest.mark.nightly
@pytest.mark.cluster
def test_a_transaction_that_could_not_be_logged_is_over_when_the_request_timeout_has_passed():
    completed = output(sys.executable, PROGRAMS / "late_completion.py", "--tries", "1", "--request-timeout-ms", "5000")
    assert completed.returncode == 1, completed.stderr
    assert "late: 1 of 1" in completed.stdout


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.parametrize(("size", "status"), [(77, 1), (78, 0)])
def test_a_transaction_whose_marker_was_refused_is_over_when_the_coordinator_loads_it_again(size, status):
    completed = output(sys.executable, PROGRAMS / "refused_marker.py", "--bytes", size)
    assert completed.returncode == status, completed.stderr
    between = ["'second', "] if size == 78 else []
    assert f"the next transaction: committed, visible ['first', {''.join(between)}'third']" in completed.stdout


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.parametrize(("how", "status"), [("join", 1), ("assign", 1), ("stay", 0)])
def test_a_consumer_that_waits_for_an_offset_forgets_it_when_its_assignment_changes(how, status):
    completed = output(sys.executable, PROGRAMS / "unstable_offsets.py", "--how", how)
    assert completed.returncode == status, completed.stdout + completed.stderr
    assert "the group's offsets are 100" in completed.stdout


@pytest.mark.nightly
@pytest.mark.cluster
def test_a_connector_with_an_offsets_topic_of_its_own_begins_again():
    completed = output(sys.executable, PROGRAMS / "own_offsets_topic.py")
    assert completed.returncode == 1, completed.stderr
    assert int(completed.stdout.split("Kafka 4.3.0: ")[1].split()[0]) >= 100


@pytest.mark.nightly
@pytest.mark.cluster
def test_a_connector_that_stays_with_the_workers_offsets_topic_goes_on():
    completed = output(sys.executable, PROGRAMS / "own_offsets_topic.py", "--own", "connect-offsets")
    assert completed.returncode == 0, completed.stderr + completed.stdout


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.parametrize(("first", "status", "end"), [("restart", 1, "has written nothing more"), ("config", 0, "writes again")])
def test_only_a_restart_whose_write_failed_costs_the_leader_its_privileges(first, status, end):
    completed = output(sys.executable, PROGRAMS / "lost_write_privileges.py", "--first", first)
    assert completed.returncode == status, completed.stderr
    assert f"Kafka 4.3.0: the worker {end}" in completed.stdout


@pytest.mark.nightly
@pytest.mark.cluster
@pytest.mark.skipif(not shutil.which("javac"), reason="a JDK compiles it (apt install default-jdk-headless)")
def test_a_lower_transaction_version_ends_a_java_producer(tmp_path):
    with external_kafka.started(tmp_path) as cluster:
        jars = fetch("4.3.0").directory / "*"
        program = PROGRAMS / "LoweredTransactionVersion.java"
        completed = output("java", "-cp", jars, program, cluster.inside["bootstrap.servers"], "1")
    assert "commit at once: commit: TransactionAbortableException; abort: InvalidTxnStateException" in completed.stdout, (
        completed.stderr
    )
    assert "flush, then commit: committed" in completed.stdout
