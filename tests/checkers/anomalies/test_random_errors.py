"""The table of errors and its slow twin, on random histories of errors."""

from __future__ import annotations

from random import Random

import pytest
from support.histories import answer, write_faults
from support.judging import judge_here
from support.random_errors import ROWS, STATE, counted, errors_history

from fencepost.checkers.anomalies.wrong_errors import wrong_error

SEEDS = 60


def faults_of(rng, ops):
    """Up to two faults somewhere in the history, healed or not."""
    first, last = ops[0]["time"], ops[-1]["time"]
    spans = [(rng.randint(first, last), rng.choice([None, 1_000_000, 4_000_000_000])) for _ in range(rng.choice([0, 0, 1, 2]))]
    return [(began, None if lasts is None else began + lasts) for began, lasts in spans]


@pytest.mark.parametrize("block", range(4))
def test_the_check_counts_and_finds_what_its_slow_twin_does(tmp_path, block):
    for seed in range(block * SEEDS // 4, (block + 1) * SEEDS // 4):
        rng, folder = Random(seed), tmp_path / str(seed)
        folder.mkdir()
        ops = errors_history(rng)
        faults = faults_of(rng, ops)
        write_faults(
            folder,
            *({"id": at, "kind": "kill", "injected_ns": began, "healed_ns": ended} for at, (began, ended) in enumerate(faults)),
        )
        document = judge_here(folder, ops, checks=[wrong_error])
        counts, violations = counted(ops, faults)
        table = {row["situation"]: row for row in answer(document, "wrong-error").get("table", ())}
        mine = {row: (table[row]["met"], table[row]["violated"]) for row in ROWS} if table else {}
        assert mine == ({row: (counts[row, True], counts[row, False]) for row in ROWS} if table else {}), seed
        assert table or not counts, seed
        forbidden = {op for finding in document["findings"] if finding["forbidden"] for op in finding["operations"]}
        assert forbidden == {op for op, _, certain in violations if certain}, seed


def test_the_histories_violate_every_row_with_doubt_and_without():
    seen = set()
    for seed in range(400):
        rng = Random(seed)
        ops = errors_history(rng)
        seen |= {(row, certain) for _, row, certain in counted(ops, faults_of(rng, ops))[1]}
    assert {row for row, _ in seen} == set(ROWS)
    assert {(STATE, True), (STATE, False)} <= seen
