"""Histories on another file system, here `viewfs://` mapped onto a directory: only Spark reads them, and nothing else changes."""

from __future__ import annotations

import json
import shutil
from functools import partial
from operator import attrgetter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.histories import COMMITTED, History, write_faults, write_history
from support.long_histories import judge_as_long

from fencepost.checkers.engine.remote import bring, contents, fetch
from fencepost.checkers.history.overview import COLUMNS, TEXTS, read_overview
from fencepost.checkers.history.source import LocalSource, read_errors
from fencepost.checkers.history.spark_source import SparkSource
from fencepost.checkers.model.history_rows import read_rows, write_rows
from fencepost.checkers.model.lawful_history import CONTRACT, write_lawful
from fencepost.checkers.selfcheck.record_damages import lose, repeat
from fencepost.checkers.selfcheck.transaction_damages import tear
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import CampaignError
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.history import writing
from fencepost.harness.api.run import Run
from fencepost.harness.history.merge import OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run

FAR = "viewfs://far/runs"
SAME = ("verdict", "reason", "run", "expect", "properties", "allowed", "findings", "counts", "progress", "unseen", "weakened")
NIGHTLY = partial(pytest.param, marks=pytest.mark.nightly)
LIGHT = ["index", "process", "time", "f"]


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """The directory that lies at `FAR`."""
    folder = tmp_path_factory.mktemp("runs")
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.far.link./runs", f"file:{folder}")
    return folder


@pytest.fixture(scope="module")
def large(runs):
    """A hundred transactions in many row groups."""
    write_lawful(runs / "large", transactions=100, partitions=3, seed=9, row_group=25)
    return "large"


@pytest.fixture
def both(spark, runs, tmp_path):
    """Judge a run's directory as a local and as a remote one; the two documents."""

    def run(name):
        local, remote = tmp_path / "local", tmp_path / "remote"
        shutil.copytree(runs / name, local)
        remote.mkdir()
        history = fetch(spark, f"{FAR}/{name}", remote, OPS_SCHEMA)
        plan = json.loads((remote / "plan.json").read_text())
        (remote / "plan.json").write_text(json.dumps({**plan, "history": history}))
        documents = [json.loads(json.dumps(judge(open_run(folder), spark=spark))) for folder in (local, remote)]
        assert not (remote / "history.parquet").exists()
        assert pq.read_table(local / "anomalies.parquet") == pq.read_table(remote / "anomalies.parquet")
        return documents

    return run


@pytest.mark.parametrize(
    ("damage", "verdict", "short"),
    [(None, "valid", True), (tear, "invalid", False), NIGHTLY(repeat, "invalid", True), NIGHTLY(lose, "invalid", True)],
)
def test_a_remote_history_gets_the_same_verdict_as_a_local_one(runs, large, both, monkeypatch, damage, verdict, short):
    """Scanned by the driver as short histories are, or by the executors as long ones are."""
    if not short:
        judge_as_long(monkeypatch)
    name = "clean" if damage is None else damage.__name__
    shutil.copytree(runs / large, runs / name)
    if damage is not None:
        rows = damage(read_rows(runs / name / "history.parquet"), Random(9)).rows
        write_rows(rows, runs / name / "history.parquet")
    local, remote = both(name)
    assert local["verdict"] == verdict
    assert {key: remote[key] for key in SAME} == {key: local[key] for key in SAME}


def test_a_damaged_page_is_no_other_history(spark, runs, large):
    """Spark compares no checksums of its own accord."""
    (runs / "flipped").mkdir()
    flipped = runs / "flipped" / "history.parquet"
    pq.write_table(table := pq.read_table(runs / large / "history.parquet"), flipped, **writing(table.schema))
    names = pq.read_schema(flipped).names
    time = pq.read_metadata(flipped).row_group(0).column(names.index("time"))
    content = bytearray(flipped.read_bytes())
    content[(time.dictionary_page_offset or time.data_page_offset) + time.total_compressed_size - 5] ^= 1
    flipped.write_bytes(content)
    with pytest.raises(read_errors(), match="CRC checksum"):
        list(SparkSource(f"{FAR}/flipped/history.parquet", spark).batches(["time"])[1])


def write_imported_run(folder: Path) -> History:
    """A duplicate and a loss, an unreadable record, a fault, a broken line, an assignment, and values of other people's."""
    h = History()
    h.add(1, "assign", detail=json.dumps({"partitions": ["t-0"]}))
    h.txn(0, {"t-0": [5, 7], "t-1": [3]}, errors=[{"call": "commit", "name": "_TIMED_OUT"}])
    h.poll(1, {"t-0": [5, (6, -1)]}, strange=[{"partition": "t-0", "offset": 6, "why": "checksum differs", "raw": "x|1|"}])
    h.txn(2, {"t-1": [None]}, type="info", end=None)
    h.settle({"t-0": (10, 10)})
    h.final({"t-0": [5, (9, h.v("t-0", 5))], "t-1": [3]})
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps({"run": "story", "contract": CONTRACT}))
    (folder / "damage.json").write_text('["worker line 3: cut off"]')
    write_history(folder, h.ops)
    write_faults(folder, {"id": 4, "kind": "kill", "injected_ns": h.now - 5_000_000, "healed_ns": h.now, "effective": True})
    named = {h.v("t-0", 5): "apple", h.v("t-0", 7): "pear", h.v("t-1", 3): "plum"}
    pq.write_table(pa.table({"v": list(named), "partition": [""] * 3, "value": list(named.values())}), folder / "values.parquet")
    return h


@pytest.fixture(scope="module")
def story(runs):
    return write_imported_run(runs / "story")


def test_a_remote_run_brings_original_values_faults_and_reasons_of_unreadable_records(story, both, tmp_path):
    local, remote = both("story")
    assert {key: remote[key] for key in SAME} == {key: local[key] for key in SAME}
    findings = {finding["anomaly"]: finding for finding in remote["findings"]}
    assert "(value apple)" in findings["duplicate"]["sentence"]
    assert "checksum differs" in findings["phantom"]["sentence"]
    assert findings["duplicate"]["faults"] == [4]
    assert sorted(path.name for path in (tmp_path / "remote").iterdir()) == [
        "anomalies.parquet", "damage.json", "faults.parquet", "plan.json"
    ]  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Local and remote sources
# --------------------------------------------------------------------------------------------------
@pytest.fixture
def sources(spark, runs, large):
    """The same history as a local file and on another file system."""
    return LocalSource(runs / large / "history.parquet"), SparkSource(f"{FAR}/{large}/history.parquet", spark)


def rows_of(batches):
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["index"])


def test_both_sources_return_the_same_operations(sources):
    local, remote = sources
    for ops in (np.array([0, 3, 3, 24, 25, 110]), np.array([7]), np.array([10**9]), np.array([], dtype=np.int64)):
        some = rows_of(local.operations(ops, ("index", "mops", "strange")))
        assert rows_of(remote.operations(ops, ("index", "mops", "strange"))) == some
        assert [row["index"] for row in some] == sorted({int(op) for op in ops if op < 10**6})


def test_both_sources_return_the_same_columns(sources):
    counts, batches = zip(*(source.batches(COLUMNS, TEXTS) for source in sources), strict=True)
    assert counts[0] == counts[1] > 100
    assert rows_of(batches[0]) == rows_of(batches[1])
    views = [read_overview(source) for source in sources]
    for name in ("index", "process", "time", "end", "decided", "status", "main", "writer"):
        assert np.array_equal(getattr(views[0], name), getattr(views[1], name)), name
    assert views[0].final_reads == views[1].final_reads != {}


def test_both_sources_select_the_same_rows_by_a_condition(sources):
    condition = ds.field("detail").is_valid() | pc.is_in(ds.field("f"), pa.array(["final-read"]))
    local, remote = (source.select(("index", "f", "detail"), condition).sort_by("index").to_pylist() for source in sources)
    assert local == remote
    assert {row["f"] for row in remote} >= {"final-read"}
    nothing = ds.field("f") == "no such thing"
    assert [len(source.select(("index", "f"), nothing)) for source in sources] == [0, 0]


def test_reading_a_deleted_history_raises_a_read_error(spark, runs):
    for source in (LocalSource(runs / "gone"), SparkSource(f"{FAR}/gone", spark)):
        with pytest.raises(read_errors()):
            source.batches(COLUMNS)


# --------------------------------------------------------------------------------------------------
# What is fetched, and what is refused
# --------------------------------------------------------------------------------------------------
def test_a_single_parquet_file_is_a_history_without_a_plan(spark, runs, large, tmp_path):
    shutil.copyfile(runs / large / "history.parquet", runs / "alone.parquet")
    assert fetch(spark, f"{FAR}/alone.parquet", tmp_path, OPS_SCHEMA) == f"{FAR}/alone.parquet"
    assert not list(tmp_path.iterdir())
    functions, partitions = contents(spark, f"{FAR}/alone.parquet")
    assert partitions == [f"t-{number}" for number in range(3)]
    assert functions["txn"] == 100


def test_a_directory_of_part_files_is_a_history_without_a_plan(spark, runs, large, tmp_path):
    spark.read.parquet(str(runs / large / "history.parquet")).repartition(3).write.parquet(str(runs / "spread.parquet"))
    copy = tmp_path / "copy"
    copy.mkdir()
    history = fetch(spark, f"{FAR}/spread.parquet/", copy, OPS_SCHEMA)
    plan = json.loads((runs / large / "plan.json").read_text())
    (copy / "plan.json").write_text(json.dumps({**plan, "history": history}))
    assert judge(open_run(copy), spark=spark)["verdict"] == "valid"


REFUSED = {
    "viewfs://far/runs/none": (CampaignError, "there is nothing at this address"),
    "viewfs://far/runs/status-403/none": (CampaignError, "there is nothing at this address"),
    "viewfs://far/runs/empty": (HistoryError, "neither plan.json nor history.parquet is in it"),
    "viewfs://far/runs/unmerged": (HistoryError, "not merged"),
    "viewfs://far/runs/notes.txt": (HistoryError, "cannot be read as Parquet"),
    "viewfs://far/runs/other.parquet": (HistoryError, "index is not there, not bigint; process is bigint, not int;"),
    "viewfs://nowhere/x": (HistoryError, "Empty Mount table"),
    "s3a://bucket/run": (HistoryError, "--spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3."),
    "foo://bucket/run": (HistoryError, 'No FileSystem for scheme "foo"'),
}


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_without_a_readable_run_is_refused_in_one_line(spark, runs, tmp_path, url):
    for name in ("empty", "unmerged/history"):
        (runs / name).mkdir(parents=True, exist_ok=True)
    (runs / "unmerged" / "plan.json").write_text("{}")
    (runs / "notes.txt").write_text("milk, bread")
    pq.write_table(pa.table({"process": [1]}), runs / "other.parquet")
    kind, reason = REFUSED[url]
    with pytest.raises(kind) as refused:
        fetch(spark, url, tmp_path, OPS_SCHEMA)
    assert str(refused.value).startswith(url)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


DENIALS = {  # in the words of HDFS, and of what speaks HTTP
    "Permission denied: user=stranger, access=EXECUTE": "org.apache.hadoop.security.AccessControlException",
    "Server returned HTTP response code: 403 for URL: http://far/runs": "java.io.IOException",
}


@pytest.mark.parametrize("message", DENIALS)
def test_a_denied_address_and_an_empty_one_are_different_errors(spark, large, tmp_path, monkeypatch, message):
    from py4j.protocol import Py4JJavaError

    from fencepost.checkers.engine import remote

    thrown = attrgetter(DENIALS[message])(spark._jvm)(message)

    def denied(files, url, run_dir):
        raise Py4JJavaError("calling getFileStatus", thrown)

    monkeypatch.setattr(remote, "_fetched", denied)
    with pytest.raises(HistoryError, match=r"no permission .*where credentials go") as refused:
        fetch(spark, f"{FAR}/{large}", tmp_path, OPS_SCHEMA)
    assert message in str(refused.value)


def test_a_history_whose_index_does_not_follow_time_is_refused(spark, runs, tmp_path):
    """Whoever put two histories into one directory has every number twice."""
    h = History()
    h.txn(0, {"t-0": 5})
    h.final({"t-0": [5]})
    twice = runs / "twice.parquet"
    for part in ("one", "two"):
        (tmp_path / part).mkdir()
        write_history(tmp_path / part, h.ops)
    twice.mkdir()
    for part in ("one", "two"):
        shutil.copyfile(tmp_path / part / "history.parquet", twice / f"{part}.parquet")
    (tmp_path / "plan.json").write_text(json.dumps({"contract": CONTRACT, "history": f"{FAR}/twice.parquet"}))
    with pytest.raises(HistoryError, match="does not number the operations in the order of their times"):
        judge(open_run(tmp_path), spark=spark)


# --------------------------------------------------------------------------------------------------
# What a report gets
# --------------------------------------------------------------------------------------------------
def remote_run(history, directory):
    return Run(directory=directory, plan={"history": history})


def operation(wanted):
    """The choice of one operation by its index."""
    return lambda light: np.flatnonzero(light["index"].to_numpy() == wanted)


def test_a_report_gets_all_operations_and_the_records_of_those_it_shows(spark, runs, story, tmp_path):
    there = {row["index"]: row for row in pq.read_table(runs / "story" / "history.parquet").to_pylist()}
    bring(spark, remote_run(f"{FAR}/story/history.parquet", tmp_path), LIGHT, operation(1), [])
    brought = pq.read_table(tmp_path / "operations.parquet").to_pylist()
    assert [row["index"] for row in brought] == sorted(there)
    assert brought[1] == there[1]
    for row in brought:
        assert {name: row[name] for name in LIGHT} == {name: there[row["index"]][name] for name in LIGHT}
    assert {row["mops"] is None and row["isolation"] is None for row in brought if row["index"] != 1} == {True}
    assert brought[1]["isolation"] == COMMITTED


def test_a_report_gets_the_original_values_of_shown_records_and_findings(spark, story, tmp_path):
    bring(
        spark,
        remote_run(f"{FAR}/story/history.parquet", tmp_path),
        LIGHT,
        operation(2),
        [story.v("t-1", 3)],
    )
    values = pq.read_table(tmp_path / "values.parquet")
    assert sorted(values["value"].to_pylist()) == ["apple", "plum"]


def test_a_report_of_our_own_history_gets_no_original_values(spark, large, tmp_path):
    bring(spark, remote_run(f"{FAR}/{large}/history.parquet", tmp_path), LIGHT, lambda index: index[:0], [1])
    assert [path.name for path in tmp_path.iterdir()] == ["operations.parquet"]
