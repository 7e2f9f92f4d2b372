"""Large partitions: what waits on the disk comes back as it was, and is judged as what stayed in memory."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.installed import DAMAGES
from support.open_files import open_files

from fencepost.checkers.anomalies import consecutive_reads, producer_order
from fencepost.checkers.api import partition_check
from fencepost.checkers.engine import answers, job
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.graph.edges import FIRSTS, LATEST, TIME_COLUMNS, decode
from fencepost.checkers.history import large_partitions
from fencepost.checkers.history.large_partitions import PackedParts
from fencepost.checkers.history.overview import read_overview
from fencepost.checkers.history.part_files import stored
from fencepost.checkers.history.scan import PackedPart, scan_locally
from fencepost.checkers.history.source import LocalSource, from_message
from fencepost.checkers.model.history_rows import HistoryRows, read_rows, write_rows
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.threads import results
from fencepost.checkers.model.values import Resets, Settings
from fencepost.checkers.verdict.judge import judge
from fencepost.checkers.views import log
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.unseen import moments
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.system import array_files
from fencepost.harness.system.array_files import ArrayFiles

SLICED = ("dirty-read", "duplicate", "real-time-inversion", "lso-overrun", "order-inversion", "poll-skip", "nonmonotonic-poll")
CHECKS = [check for check in installed_checks()[0] if check.scope == "partition"]
GATHERING = [check for check in installed_checks()[0] if check.gather is not None]


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lawful")
    write_lawful(folder, transactions=200, partitions=2, seed=3)
    return folder / "history.parquet"


@pytest.fixture(scope="module")
def rows(history) -> HistoryRows:
    return read_rows(history)


@pytest.fixture
def own_folder(tmp_path, monkeypatch) -> Path:
    """A folder, for files without a name too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("large", [1, 3000, 1 << 30])
def test_parts_come_back_in_order_and_leave_no_file_open(history, own_folder, monkeypatch, large):
    monkeypatch.setattr(large_partitions, "LARGE", large)
    for parts in scan_locally(LocalSource(history)).values():
        held = PackedParts()
        for part in parts * 3:
            held.append(part)
        assert held.size == 3 * sum(len(part.shared) + len(part.own) for part in parts)
        taken = held.take(ArrayFiles())
        assert [PackedPart(side, bytes(shared), bytes(own)) for side, shared, own in taken] == parts * 3
        assert large > 1 or open_files(own_folder)
        del taken
    assert open_files(own_folder, history.parent) == []


def test_parts_that_executors_stored_come_back_in_order_and_leave_no_file_open(history, own_folder, monkeypatch):
    """Of several processes, whose parts of a partition lie in several files; a process appends to its own."""
    packed = scan_locally(LocalSource(history))
    held: dict[str, PackedParts] = {}
    for pid in (7, 8, 7):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        for name, part in stored(own_folder, ((name, part) for name, parts in packed.items() for part in parts)):
            held.setdefault(name, PackedParts()).append(part)
    assert sorted(path.name for path in own_folder.iterdir()) == ["parts-7", "parts-8"]
    for name, parts in packed.items():
        assert held[name].size == 3 * sum(part.size for part in parts)
        taken = held.pop(name).take(ArrayFiles())
        assert [PackedPart(side, bytes(shared), bytes(own)) for side, shared, own in taken] == parts * 3
        del taken
    assert open_files(own_folder, history.parent) == []


@pytest.mark.parametrize("name", SLICED)
def test_a_damaged_history_is_judged_the_same_however_few_rows_are_looked_at_at_once(history, rows, tmp_path, monkeypatch, name):
    """State that is carried from one slice to the next loses nothing and adds nothing."""
    damage = next(damage for damage in DAMAGES if name in damage.expects)
    (tmp_path / "plan.json").write_bytes(history.with_name("plan.json").read_bytes())
    write_rows(damage.plant(rows, Random(1)).rows, tmp_path / "history.parquet")
    monkeypatch.setattr(job, "joinable", lambda *_: [])
    whole = judged(tmp_path)
    for module in (log, consecutive_reads, producer_order):
        monkeypatch.setattr(module, "SLICE", 61)
    assert name in whole[1]["anomaly"].to_pylist()
    assert judged(tmp_path) == whole


# --------------------------------------------------------------------------------------------------
# Two threads
# --------------------------------------------------------------------------------------------------
@partition_check("broken")
def broken(log):
    """A check that raises."""
    raise ValueError(f"nothing can be said of {log.partition}")


def of_partitions(folder: Path, threads: int, *more) -> list[Any]:
    """Results of a worker that judges large partitions with so many threads, as text."""
    source = LocalSource(folder / "history.parquet")
    overview = read_overview(source)
    gatherers = tuple(check.gather for check in GATHERING if check.name == "G0")
    asked = job.Questions((*CHECKS, *more), overview.final_reads, Settings(), Resets(), moments(overview), gatherers)
    judge = partial(job._judged, asked)
    answers = []
    for name, some in scan_locally(source).items():
        parts = PackedParts()
        for part in some:
            parts.append(part)
        answers += judge(name, parts, of_large=threads)
    return answers


@pytest.fixture
def large(monkeypatch):
    """Every partition is large, and waits for no other one of this machine."""
    monkeypatch.setattr(large_partitions, "LARGE", 1)
    monkeypatch.setattr(job, "large_partition_lock", lambda size: nullcontext())


@pytest.mark.parametrize("name", ["poll-skip", "torn-transaction", "order-inversion"])
def test_two_threads_find_what_one_finds(history, rows, tmp_path, large, name):
    damage = next(damage for damage in DAMAGES if name in damage.expects)
    write_rows(damage.plant(rows, Random(2)).rows, tmp_path / "history.parquet")
    single, parallel = (of_partitions(tmp_path, threads) for threads in (1, 2))
    assert any(part.results[name].rows for part in single if isinstance(part, job.PartitionResult))
    assert repr(parallel) == repr(single)


@pytest.mark.parametrize(
    "name", sorted({name for damage in DAMAGES for name in damage.expects} & {check.name for check in CHECKS})
)
def test_arrays_in_files_are_judged_as_those_in_memory(history, rows, tmp_path, large, monkeypatch, name):
    """And no check writes into an array that others share: these files are read-only, and a check that tries raises."""
    damage = next(damage for damage in DAMAGES if name in damage.expects)
    write_rows(damage.plant(rows, Random(3)).rows, tmp_path / "history.parquet")
    in_memory = of_partitions(tmp_path, 1)
    monkeypatch.setattr(array_files, "SMALL", 1)
    in_files = of_partitions(tmp_path, 1)
    assert any(part.results[name].rows for part in in_files if isinstance(part, job.PartitionResult))
    assert not any(result.error for part in in_files if isinstance(part, job.PartitionResult) for result in part.results.values())
    assert repr(in_files) == repr(in_memory)


def test_a_check_that_raises_in_a_thread_takes_no_other_answer_with_it(history, large):
    single, parallel = (of_partitions(history.parent, threads, broken) for threads in (1, 2))
    errors = [part.results["broken"].error for part in parallel if isinstance(part, job.PartitionResult)]
    assert len(errors) == 2
    assert all(error.startswith("ValueError: nothing can be said of t-") for error in errors)
    assert all("test_large_partitions.py, line" in error for error in errors)
    assert repr(parallel) == repr(single)


def test_threads_share_the_cores_of_this_machine_only():
    def threads(master: str, cores: int) -> int:
        return job._threads(SimpleNamespace(sparkContext=SimpleNamespace(master=master, defaultParallelism=cores)))

    assert [threads("local[1,2]", 1), threads("local[2,2]", 2), threads("local[*]", 64)] == [1, 2, 2]
    assert threads("spark://host:7077", 64) == 1


def test_a_small_partition_is_judged_by_one_thread(history, monkeypatch):
    monkeypatch.setattr(answers, "in_threads", lambda functions, threads: results(functions, {1: 1}[threads]))
    assert of_partitions(history.parent, 2)


def judged(folder):
    """Answers of all checks of partitions, the rows of their findings, and what is gathered for checks of the run."""
    gathered: dict[str, list[tuple[int, ...]]] = {}  # by partition or name; what run checks compare follows from it

    def noted(run: RunView) -> CheckResult:
        assert not run.gathered.error
        gathered.clear()
        for message in run.gathered.collected:
            gathered.setdefault(message.partition, []).extend(zip(*decode(message.content).values(), strict=True))
        for name, content in run.gathered.to_driver:
            columns = decode(content, TIME_COLUMNS) if name in (FIRSTS, LATEST) else from_message(content).to_pydict()
            gathered.setdefault(name, []).extend(zip(*columns.values(), strict=True))
        gathered["read to the end"] = []
        return CheckResult(0)

    document = judge(open_run(folder), here=True, checks=[*CHECKS, *(replace(check, function=noted) for check in GATHERING)])
    assert gathered.keys() > {"t-0", "t-1", LATEST, "read to the end"}
    return (
        document["properties"],
        pq.read_table(folder / "anomalies.parquet"),
        {name: sorted(gathered[name]) for name in gathered},
    )
