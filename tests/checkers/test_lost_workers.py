"""A Python worker, or on a standalone cluster a whole executor, that is lost in the middle of a check."""

from pathlib import Path

import pytest
from fatal import ended, fatal

from checkers.anomaly import installed_checks
from checkers.judge import judge
from checkers.lawful import write_lawful


@pytest.fixture
def history(tmp_path: Path) -> Path:
    write_lawful(tmp_path, transactions=300, partitions=4, seed=3, row_group=200)
    return tmp_path


@pytest.mark.cluster
@pytest.mark.parametrize("what", ["worker", "executor"])
def test_what_is_lost_once_is_done_again_and_the_verdict_is_right(driver, history, what):
    document = driver.judge(history, ends=what, times=1)
    assert ended(history) == 1, "the check never ended anything"
    assert document["verdict"] == "valid", document["reason"]
    assert all(one["compared"] for one in document["properties"] if one["name"] in ("lost-write", "duplicate", "fatal"))


def test_a_worker_lost_once_on_this_machine_is_done_again(spark, history):
    document = judge(history, spark=spark, checks=[*installed_checks()[0], fatal(history, "worker", 1)])
    assert ended(history) == 1, "the check never ended anything"
    assert document["verdict"] == "valid", document["reason"]


@pytest.mark.cluster
def test_executors_that_are_lost_for_ever_end_in_an_honest_unknown(driver, history):
    document = driver.judge(history, ends="executor", times=1000)
    assert ended(history) > 1
    assert document["verdict"] == "unknown"
    assert "the Spark job did not finish" in document["reason"]
