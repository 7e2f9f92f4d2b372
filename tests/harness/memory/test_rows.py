"""A run in a row, from its documents."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from support import report_example as example

from fencepost.harness.api.history import STORED, schema
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.memory.rows import row_of


def test_a_row_holds_what_plan_and_verdict_say(tmp_path):
    directory = example.RUNS["torn"](tmp_path / "campaign" / "run")
    run = open_run(directory)
    row = row_of(run, tmp_path)
    assert row.place == "campaign/run"
    assert (row.run, row.test, row.verdict) == (run.id, run.test, run.verdict["verdict"])
    forbidden = [finding for finding in run.verdict["findings"] if finding.get("forbidden", True)]
    assert sum(finding.count for finding in row.findings) == len(forbidden)
    assert set(row.anomalies) == {prop["name"] for prop in run.verdict["properties"] if prop["verdict"] == "violated"}


def test_a_row_names_the_transaction_protocol_that_the_logs_show(tmp_path):
    """The second one raises a producer's epoch with each transaction."""
    directory = example.RUNS["torn"](tmp_path / "campaign" / "run")
    (directory / "stored.parquet").unlink(missing_ok=True)
    assert row_of(open_run(directory), tmp_path).protocol == ""
    for epochs, protocol in (((3, 3), "TV1"), ((3, 4), "TV2")):
        marker = {"node": "n1", "partition": "t-0", "producer_id": 7, "kind": "COMMIT"}
        rows = [marker | {"offset": offset, "producer_epoch": epoch} for offset, epoch in enumerate(epochs)]
        pq.write_table(pa.Table.from_pylist(rows, schema=schema(STORED)), directory / "stored.parquet")
        assert row_of(open_run(directory), tmp_path).protocol == protocol
        assert row_of(open_run(directory), tmp_path).problems == ()


def test_a_run_without_a_verdict_is_red(tmp_path):
    directory = example.RUNS["valid"](tmp_path / "campaign" / "run")
    (directory / "verdict.json").unlink()
    row = row_of(open_run(directory), tmp_path)
    assert (row.verdict, row.met, row.findings, row.red) == ("", None, (), True)
