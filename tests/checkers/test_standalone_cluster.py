"""A real Spark cluster of one master and two workers, from PySpark's own jars, judges as the local one does."""

import json
import shutil
from random import Random

import pytest

from checkers.judge import judge
from checkers.lawful import write_lawful
from checkers.selfcheck.rows import read_rows, write_rows
from checkers.selfcheck.transactions import tear

DECIDED = ("verdict", "reason", "properties", "allowed", "findings", "counts", "progress")


@pytest.fixture(scope="module")
def torn(far, spark):
    """A torn transaction among a thousand, in a directory that is `viewfs://far/runs` too, and what one machine says of it."""
    write_lawful(far, transactions=1000, partitions=6, seed=9, row_group=500)
    write_rows(tear(read_rows(far / "history.parquet"), Random(9)).rows, far / "history.parquet")
    return far, json.loads(json.dumps(judge(far, spark=spark)))


@pytest.mark.cluster
def test_a_cluster_and_one_machine_agree(torn, driver, tmp_path):
    """Properties, findings and counts are the same, to the letter."""
    here, local = torn
    there = tmp_path / "there"
    shutil.copytree(here, there)
    agree(driver, there, local)


@pytest.mark.cluster
def test_a_cluster_reads_a_history_that_lies_elsewhere(torn, driver, tmp_path):
    """Driver and executors know the file system by the settings that they are given."""
    here, local = torn
    plan = json.loads((here / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "history": "viewfs://far/runs/history.parquet"}))
    agree(driver, tmp_path, local)


def agree(driver, there, local):
    """The executors scan and shuffle, as they do for a long history."""
    remote = driver.judge(there, near=False)
    assert remote["checker"]["master"] == driver.master
    assert local["verdict"] == "invalid"
    for key in DECIDED:
        assert remote[key] == local[key], key
