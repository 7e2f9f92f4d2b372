"""The checks and the slow reference find the same in small random histories, lawful and damaged, under several contracts.

Judged in this process, without Spark. The nightly has thousands of them.
"""

from random import Random

import pyarrow.parquet as pq
import pytest
from support.broker_model import Flaw
from support.client_model import Setting, model_history
from support.installed import rule_of
from support.judging import judge_here
from support.random_histories import (
    blind_history,
    moving_history,
    open_history,
    undecided_history,
    varied_contract,
    varied_history,
)
from support.reference import NAMES, FlatHistory, anomalies, by_records, unsettled

from fencepost.checkers.contract.rules import INAPPLICABLE, full_contract
from fencepost.checkers.engine.registry import installed_checks

CHECKS = [check for check in installed_checks()[0] if check.name in NAMES]
MOVED, MOVING_SEEDS = {"poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll"}, 6
SEEDS, NIGHTLY_SEEDS = 8, 4008
BLIND_KNOWN = (11, 24, 32, 260, 438, 465, 482, 620)  # bounds by time, groups, polls of one operation, nobody's assignment
MOVING_KNOWN = (641,)  # a seek of unknown outcome, of a member
OPEN_KNOWN = (23, 86)  # read past transactions that did not commit
UNDECIDED_KNOWN = (79, 151)  # a record without offset, and a poll without known result
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
    met = set().union(*(compare(tmp_path, seed, moving_history, 0.5) for seed in (*range(MOVING_SEEDS), *MOVING_KNOWN)))
    assert met & MOVED, "histories without skips prove little"


def test_histories_that_lack_what_polls_returned_are_judged_as_by_the_reference(tmp_path):
    met = set().union(*(compare(tmp_path, seed, blind_history, 0.5) for seed in (*range(SEEDS), *BLIND_KNOWN)))
    assert {"lost-write", "torn-transaction", "int-poll-skip"} <= met


def test_transactions_that_send_on_are_judged_as_by_the_reference(tmp_path):
    assert "lso-overrun" in set().union(*(compare(tmp_path, seed, open_history) for seed in (*range(SEEDS), *OPEN_KNOWN)))


@pytest.mark.nightly
def test_thousands_of_transactions_that_send_on_are_judged_as_by_the_reference(tmp_path):
    assert "lso-overrun" in set().union(*(compare(tmp_path, seed, open_history, 0.2) for seed in range(SEEDS, 2000)))


def of_model(flaw, plain):
    """Histories of clients of a small model of Kafka, with a flaw of its brokers or without."""
    return lambda rng: model_history(rng.randrange(1 << 20), Setting(flaw=flaw, plain=plain)).ops


@pytest.mark.nightly
@pytest.mark.parametrize("plain", [False, True], ids=["transactions", "some outside transactions"])
def test_what_flawed_brokers_do_is_judged_as_by_the_reference(tmp_path, plain):
    flaws = (None, *(flaw for flaw in Flaw if flaw not in (Flaw.LOSES_OFFSETS, Flaw.ADMITS_FORMER_OWNERS)))
    met = set().union(*(compare(tmp_path, seed, of_model(flaw, plain)) for flaw in flaws for seed in range(20)))
    assert {"lost-write", "aborted-read", "duplicate", "poll-skip", "torn-transaction"} <= met


def judge_undecided(folder, seed):
    """The verdict on a history without final reads, and whether it shows that a record is gone."""
    ops, shown = undecided_history(Random(seed), lose=bool(seed % 2))
    return judge_here(folder, ops, {"first_poll": "anywhere", "final_read": "false"})["verdict"], shown


def test_what_a_proven_commit_promised_is_found_or_leaves_the_verdict_open(tmp_path):
    """And a lawful history is never accused, whatever is missing in it."""
    judged = {seed: judge_undecided(tmp_path, seed) for seed in (*range(2 * SEEDS), *UNDECIDED_KNOWN)}
    assert not [seed for seed, (verdict, shown) in judged.items() if shown and verdict == "valid"]
    assert not [seed for seed, (verdict, _) in judged.items() if seed % 2 == 0 and verdict == "invalid"]
    assert any(shown for _, shown in judged.values())


@pytest.mark.nightly
def test_thousands_of_undecided_histories_are_found_or_left_open(tmp_path):
    judged = {seed: judge_undecided(tmp_path, seed) for seed in range(3000)}
    assert not [seed for seed, (verdict, shown) in judged.items() if shown and verdict == "valid"]
    assert not [seed for seed, (verdict, _) in judged.items() if seed % 2 == 0 and verdict == "invalid"]
    assert any(shown and verdict == "invalid" for verdict, shown in judged.values())


@pytest.mark.nightly
def test_thousands_of_histories_that_lack_polls_are_judged_as_by_the_reference(tmp_path):
    assert set().union(*(compare(tmp_path, seed, blind_history, 0.5) for seed in range(SEEDS, 2000))) == set(NAMES)


@pytest.mark.nightly
def test_thousands_of_moved_consumers_are_judged_as_by_the_reference(tmp_path):
    assert set().union(*(compare(tmp_path, seed, moving_history, 0.5) for seed in range(MOVING_SEEDS, 2000))) >= MOVED


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 500))
def test_thousands_of_random_histories_are_judged_as_by_the_reference(tmp_path, start):
    met = set().union(*(compare(tmp_path, seed) for seed in range(start, start + 500)))
    assert met == set(NAMES)
