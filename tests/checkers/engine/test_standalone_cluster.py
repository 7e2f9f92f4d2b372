"""A real Spark cluster of a master and a worker with two executors, from PySpark's own jars, judges as the local one does.

So it does when a Python worker, or a whole executor, is lost in the middle of a check.
"""

import json
import shutil
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from support.fatal_check import ended, fatal
from support.spark_cluster import Driver, standalone

from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.history_rows import read_rows, write_rows
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.selfcheck.transaction_damages import tear
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run

DECIDED = ("verdict", "reason", "properties", "allowed", "findings", "counts", "progress")
ATTEMPTS = ("spark.task.maxFailures=2", "spark.stage.maxConsecutiveAttempts=2")  # two, as on one machine


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the cluster knows as `viewfs://far/runs`, too."""
    return tmp_path_factory.mktemp("far")


@pytest.fixture(scope="module")
def driver(far, tmp_path_factory):
    """A driver on the cluster: all that is asked of it runs there, one after the other."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder) as master:
        driver = Driver(master, folder / "driver.log", *ATTEMPTS, f"spark.hadoop.fs.viewfs.mounttable.far.link./runs=file:{far}")
        try:
            yield driver
        finally:
            driver.close()


# --------------------------------------------------------------------------------------------------
# The same answer
# --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def torn(far, spark):
    """A torn transaction among a hundred, in the far directory, in several row groups; and what one machine says of it."""
    history = far / "history.parquet"
    write_lawful(far, transactions=100, partitions=3, seed=9)
    write_rows(tear(read_rows(history), Random(9)).rows, history)
    pq.write_table(pq.read_table(history), history, row_group_size=25)
    return far, json.loads(json.dumps(judge(open_run(far), spark=spark)))


@pytest.mark.nightly
def test_a_standalone_cluster_gives_the_same_verdict_as_local_spark(torn, driver, tmp_path):
    """Properties, findings and counts are the same, to the letter; the workers are the Python that PYSPARK_PYTHON names."""
    here, local = torn
    shutil.copytree(here, tmp_path / "there")
    agree(driver, tmp_path / "there", local)
    assert driver.used.exists()


@pytest.mark.nightly
def test_a_standalone_cluster_reads_a_history_on_another_file_system(torn, driver, tmp_path):
    """Driver and executors know the file system by the settings that they are given."""
    here, local = torn
    plan = json.loads((here / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "history": "viewfs://far/runs/history.parquet"}))
    agree(driver, tmp_path, local)


def agree(driver, there, local):
    """The executors scan and shuffle, as they do for a long history."""
    remote = driver.judge(there, short=False)
    assert remote["checker"]["master"] == driver.master
    assert local["verdict"] == "invalid"
    for key in DECIDED:
        assert remote[key] == local[key], key


# --------------------------------------------------------------------------------------------------
# What is lost
# --------------------------------------------------------------------------------------------------
@pytest.fixture
def history(tmp_path: Path) -> Path:
    write_lawful(tmp_path, transactions=300, partitions=4, seed=3, row_group=200)
    return tmp_path


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["worker", "executor"])
def test_the_task_of_a_worker_or_executor_lost_once_is_repeated(driver, history, what):
    document = driver.judge(history, ends=what, times=1)
    assert ended(history) == 1, "the check never ended anything"
    assert document["verdict"] == "valid", document["reason"]
    assert all(row["compared"] for row in document["properties"] if row["name"] in ("lost-write", "duplicate", "fatal"))


def test_the_task_of_a_local_worker_lost_once_is_repeated(spark, history):
    document = judge(open_run(history), spark=spark, checks=[*installed_checks()[0], fatal(history, "worker", 1)])
    assert ended(history) == 1, "the check never ended anything"
    assert document["verdict"] == "valid", document["reason"]


@pytest.mark.nightly
def test_executors_lost_every_time_make_the_verdict_unknown(driver, history):
    document = driver.judge(history, ends="executor", times=1000)
    assert ended(history) > 1
    assert document["verdict"] == "unknown"
    assert "the Spark job did not finish" in document["reason"]
