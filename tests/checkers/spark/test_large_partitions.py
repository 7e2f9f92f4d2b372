"""Large partitions: what waits on the disk comes back as it was, and is judged as what stayed in memory."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from checkers.anomalies import consecutive_reads, producer_order
from checkers.lawful_history import write_lawful
from checkers.partition import log
from checkers.registry import installed_checks
from checkers.selfcheck.damages import DAMAGES
from checkers.selfcheck.history_rows import HistoryRows, read_rows, write_rows
from checkers.spark import large_partitions
from checkers.spark.large_partitions import PackedParts
from checkers.spark.scan import PackedPart, scan_locally
from checkers.spark.source import LocalSource
from checkers.verdict.judge import judge
from harness.runs.directory import open_run

SLICED = ("dirty-read", "duplicate", "real-time-inversion", "lso-overrun", "order-inversion", "poll-skip", "nonmonotonic-poll")
CHECKS = [check for check in installed_checks()[0] if check.scope == "partition" or check.gather is not None]


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lawful")
    write_lawful(folder, transactions=200, partitions=2, seed=3)
    return folder / "history.parquet"


@pytest.fixture(scope="module")
def rows(history) -> HistoryRows:
    return read_rows(history)


def opened_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("large", [1, 3000, 1 << 30])
def test_parts_come_back_in_order_and_leave_no_file_open(history, monkeypatch, large):
    monkeypatch.setattr(large_partitions, "LARGE", large)
    before = opened_files()
    for parts in scan_locally(LocalSource(history)).values():
        held = PackedParts()
        for part in parts * 3:
            held.append(part)
        assert held.size == 3 * sum(len(part.shared) + len(part.own) for part in parts)
        taken = held.take()
        assert [PackedPart(side, bytes(shared), bytes(own)) for side, shared, own in taken] == parts * 3
        del taken
    assert opened_files() == before


@pytest.mark.parametrize("name", SLICED)
def test_a_damaged_history_is_judged_the_same_however_few_rows_are_looked_at_at_once(history, rows, tmp_path, monkeypatch, name):
    """What is carried from one slice to the next loses nothing and adds nothing."""
    damage = next(damage for damage in DAMAGES if name in damage.expects)
    (tmp_path / "plan.json").write_bytes(history.with_name("plan.json").read_bytes())
    write_rows(damage.plant(rows, Random(1)).rows, tmp_path / "history.parquet")
    whole = judged(tmp_path)
    for module in (log, consecutive_reads, producer_order):
        monkeypatch.setattr(module, "SLICE", 61)
    assert name in whole[1]["anomaly"].to_pylist()
    assert judged(tmp_path) == whole


def judged(folder):
    """What every check of partitions, or of what is gathered of them, compared and found; and the rows of its findings."""
    document = judge(open_run(folder), here=True, checks=CHECKS)
    return document["properties"], pq.read_table(folder / "anomalies.parquet")
