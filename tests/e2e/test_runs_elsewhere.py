"""Runs that lie on another file system, through the command line: `viewfs://`, which Hadoop has without a download.

The first test starts a process, as a person does, in the nightly only; the others run the same command in this process, on a warm
Spark.
"""

from __future__ import annotations

import json
import shutil
from random import Random

import pytest
from support.fencepost_command import fencepost, only_run, verdict

from fencepost.checkers.model.history_rows import read_rows, write_rows
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.selfcheck.transaction_damages import tear

TIMELESS = {"timing", "checker"}


@pytest.fixture(scope="module")
def shelf(spark, tmp_path_factory):
    """The directory that this process's Spark knows as `viewfs://shelf/runs`."""
    folder = tmp_path_factory.mktemp("shelf")
    spark.sparkContext._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.shelf.link./runs", f"file:{folder}")
    return folder


def decided(document: dict) -> dict:
    return {key: value for key, value in document.items() if key not in TIMELESS}


@pytest.mark.nightly
def test_a_torn_run_is_judged_where_it_lies_and_explained_here(here, tmp_path):
    """The verdict is that of a check beside the history, and the report has its timeline and the operations of the finding."""
    run = tmp_path / "runs" / "torn"
    write_lawful(run, transactions=300, partitions=6, seed=9)
    write_rows(tear(read_rows(run / "history.parquet"), Random(9)).rows, run / "history.parquet")
    shutil.copytree(run, tmp_path / "here")
    mapped = f"spark.hadoop.fs.viewfs.mounttable.far.link./runs=file:{tmp_path / 'runs'}"
    code, out, err = fencepost(tmp_path / "results", "check", "viewfs://far/runs/torn", "--spark-conf", mapped, "--json")
    assert code == 1, err
    document, directory = json.loads(out), only_run(tmp_path / "results")
    assert f"what is needed of it goes to {directory}" in err
    assert not list(directory.rglob("history*"))
    assert decided(verdict(directory)) == decided(document)
    assert sorted(path.name for path in run.iterdir()) == ["history.parquet", "plan.json"]
    page = (directory / "report.html").read_text()
    assert "The history itself lies at viewfs://far/runs/torn/history.parquet" in page
    assert "no timeline" not in page
    [torn] = [row for row in document["findings"] if row["anomaly"] == "torn-transaction"]
    assert torn["sentence"].partition(":")[0] in page
    code, out, err = here("check", str(tmp_path / "here"), "--json")
    assert code == 1, err
    assert decided(json.loads(out)) == decided(document)


def test_a_history_without_a_run_is_judged_by_what_can_be_taken_for_granted(here, shelf, tmp_path):
    write_lawful(shelf, transactions=300, partitions=6, seed=9)
    (shelf / "history.parquet").rename(shelf / "alone.parquet")
    code, out, err = here("check", "viewfs://shelf/runs/alone.parquet", "--contract", "min_insync_replicas=1")
    assert code == 0, out + err
    directory = only_run(tmp_path / "results")
    assert out.splitlines()[-1] == f"{directory}/report.html"
    plan = json.loads((directory / "plan.json").read_text())
    assert (plan["contract"]["min_insync_replicas"], plan["contract"]["final_read"]) == ("1", "true")
    assert plan["topics"]["t"]["partitions"] == 6


def test_nothing_there_is_254_and_leaves_nothing_behind(here, shelf, tmp_path):
    code, _, err = here("check", "viewfs://shelf/runs/nobody")
    assert (code, len(err.splitlines())) == (254, 2), err
    assert err.startswith("viewfs://shelf/runs/nobody: there is nothing at this address")
    assert not list((tmp_path / "results").glob("*/*"))


def test_a_file_system_without_its_connector_is_254_and_says_what_to_add(here):
    code, _, err = here("check", "s3a://bucket/run")
    assert code == 254
    assert "--spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:" in err
    assert "Traceback" not in err
