"""Leaders and tasks of Connect: judged as by their slow twins on random histories, and in words."""

from random import Random

import pyarrow.parquet as pq
import pytest
from support.connect_histories import ConnectExample, plain_name, random_story
from support.connect_reference import TWINS, ConnectHistory, by_records
from support.judging import judge_here

from checkers.registry import installed_checks

CHECKS = [check for check in installed_checks()[0] if check.name in TWINS]
CONTRACT = {"connect": "enabled", "transactional": "false"}
SEEDS, NIGHTLY_SEEDS = 40, 3040


def compare(folder, seed):
    """Judge one history both ways; what was found."""
    ops = random_story(Random(seed)).ops
    judge_here(folder, ops, CONTRACT, CHECKS)
    history = ConnectHistory(ops)
    expected = {name: twin(history) for name, twin in TWINS.items()}
    assert by_records(pq.read_table(folder / "anomalies.parquet").to_pylist(), history) == expected, seed
    return {name for name, found in expected.items() if found}


def test_random_leaders_and_tasks_are_judged_as_by_the_reference(tmp_path):
    assert set().union(*(compare(tmp_path, seed) for seed in range(SEEDS))) == set(TWINS)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 300))
def test_many_random_leaders_and_tasks_are_judged_as_by_the_reference(tmp_path, start):
    assert set().union(*(compare(tmp_path, seed) for seed in range(start, start + 300))) == set(TWINS)


@pytest.mark.parametrize("name", TWINS)
def test_check_and_slow_twin_find_in_the_docstrings_example_what_it_says(tmp_path, name):
    example = ConnectExample(next(check for check in CHECKS if check.name == name))
    judge_here(tmp_path, example.ops, CONTRACT, CHECKS)
    findings = [one for one in pq.read_table(tmp_path / "anomalies.parquet").to_pylist() if one["anomaly"] == name]
    rows = {(row["role"], plain_name(row["partition"]), row["offset"]) for one in findings for row in one["records"]}
    assert rows == example.found() != set()
    assert f"Slow twin: `{TWINS[name].__name__}` in tests/support/connect_reference.py." in example.text
    history = ConnectHistory(example.ops)
    assert by_records(findings, history)[name] == TWINS[name](history)
