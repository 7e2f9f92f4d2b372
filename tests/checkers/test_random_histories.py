"""The checks and the slow reference find the same in small random histories, lawful and damaged, under several contracts.

Judged in this process, without Spark. The nightly has thousands of them.
"""

from random import Random

import pyarrow.parquet as pq
import pytest
from support.installed import rule_of
from support.judging import judge_here
from support.random_histories import moving_history, varied_contract, varied_history
from support.reference import NAMES, FlatHistory, anomalies, by_records, unsettled

from fencepost.checkers.contract.rules import INAPPLICABLE, full_contract
from fencepost.checkers.engine.registry import installed_checks

CHECKS = [check for check in installed_checks()[0] if check.name in NAMES]
MOVED, MOVING_SEEDS = {"poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"}, 6
SEEDS, NIGHTLY_SEEDS = 8, 4008
KNOWN = 3350  # a promise is gone that another reader had got, and that no final read had to return


def compare(folder, seed, history=varied_history, groups=0.0):
    """Judge one history both ways; returns what was found."""
    rng = Random(seed)
    ops, (contract, texts) = history(rng), varied_contract(rng, groups)
    document = judge_here(folder, ops, texts, CHECKS)
    expected = anomalies(ops, contract)
    matches = by_records(pq.read_table(folder / "anomalies.parquet").to_pylist(), ops)
    full = full_contract(texts)
    judged = [name for name in NAMES if rule_of(name, full).judged != INAPPLICABLE]
    assert {name: matches[name] for name in judged} == {name: expected[name] for name in judged}, seed
    unknown = {row["name"] for row in (*document["properties"], *document["allowed"]) if row["verdict"] == "unknown"}
    assert unknown == {name for name in unsettled(FlatHistory(ops, contract)) if name in judged and not expected[name]}, seed
    return {name for name in judged if expected[name]}


def test_random_histories_are_judged_as_by_the_reference(tmp_path):
    met = set().union(*(compare(tmp_path, seed) for seed in (*range(SEEDS), KNOWN)))
    assert len(met) > len(NAMES) // 2, "histories without trouble prove little"


def test_consumers_that_are_moved_are_judged_as_by_the_reference(tmp_path):
    """Assigned anew, subscribed, sought back, crashed; members of a group that rebalances."""
    met = set().union(*(compare(tmp_path, seed, moving_history, 0.5) for seed in range(MOVING_SEEDS)))
    assert met & MOVED, "histories without skips prove little"


@pytest.mark.nightly
def test_thousands_of_moved_consumers_are_judged_as_by_the_reference(tmp_path):
    assert set().union(*(compare(tmp_path, seed, moving_history, 0.5) for seed in range(MOVING_SEEDS, 2000))) >= MOVED


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 500))
def test_thousands_of_random_histories_are_judged_as_by_the_reference(tmp_path, start):
    met = set().union(*(compare(tmp_path, seed) for seed in range(start, start + 500)))
    assert met == set(NAMES)
