"""Programs of somebody's own, judged by their requests: right ones under faults, and what nothing else shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.fencepost_command import fencepost, only_run, verdict
from support.histories import answer, violated

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
RIGHT = ROOT / "examples" / "applications" / "confluent_loop.py"
BACKWARD = ROOT / "tests" / "support" / "applications" / "backward.py"
WIRE = ("--set", "wire=true", "--cluster-set", "proxy=true")


def run(results, program, *options, time_s):
    """The directory of a run whose program is judged by its requests too, and its verdict."""
    command = f"command={sys.executable} {program}"
    _, out, err = fencepost(results, "run", "-w", "application", "--set", command, "-t", str(time_s), *WIRE, *options)
    directory = only_run(results)
    document = verdict(directory)
    assert document["verdict"] in ("valid", "invalid"), out + err
    return directory, document


def alone(run_directory, directory):
    """The verdict of what was on the wire, by itself. Whoever commits passes the proxies."""
    directory.mkdir()
    adopt(run_directory / RunFile.WIRE, directory, {"offset_commits": "recorded"})
    return judge(open_run(directory), here=True)


def committed(directory):
    """Transactions of the program that were committed, and batches in them that were acknowledged, by its requests."""
    rows = pq.read_table(directory / RunFile.HISTORY, filters=[("role", "=", "instance"), ("f", "=", "txn")]).to_pylist()
    own = [row for row in rows if row["type"] == "ok" and row["intent"] == "commit"]
    return len(own), sum(mop["ended"] is not None for row in own for mop in row["mops"])


def test_a_right_program_is_valid_by_its_requests_under_faults(tmp_path):
    directory, document = run(tmp_path / "results", RIGHT, time_s=30)
    assert (document["verdict"], violated(document)) == ("valid", [])
    transactions, batches = committed(directory)
    assert transactions >= 10
    assert batches >= transactions
    for name in ("lost-write", "protocol-violation", "torn-transaction", "dirty-read"):
        assert answer(document, name)["verdict"] in ("held", "held without occasion"), name
    assert answer(document, "lost-write")["compared"] >= batches
    assert document["occasions"]["client-struck"] + document["occasions"]["server-struck"] >= 3
    by_wire = alone(directory, tmp_path / "alone")
    assert violated(by_wire) == []
    for name in ("offset-regression", "phantom-offset", "dirty-offset", "aborted-read", "lost-write"):
        assert answer(by_wire, name)["verdict"] in ("held", "held without occasion"), name
        assert answer(by_wire, name)["compared"] >= 5, name


def test_offsets_that_go_back_are_found_on_the_wire_alone(tmp_path):
    """No partition moves, so the outputs are right."""
    small = ("--brokers", "1", "--set", "instances=1", "--set", "readers=0", "-n", "none")
    directory, document = run(tmp_path / "results", BACKWARD, *small, time_s=10)
    assert (document["verdict"], violated(document)) == ("valid", [])
    assert committed(directory)[0] >= 10
    assert violated(alone(directory, tmp_path / "alone")) == ["offset-regression"]
