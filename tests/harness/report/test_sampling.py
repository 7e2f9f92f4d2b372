"""The operations of a long history that are drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fencepost.harness.report.documents import NEVER, Ops, Words
from fencepost.harness.report.sampling import SECOND, evenly, sample


def operations(count: int, each_ms: float = 1, outcomes: dict[int, str] | None = None, took_ms: float = 0.5) -> Ops:
    """So many operations, one behind the other; `outcomes` of those that are not ok, by index."""
    names = ["ok", "fail", "info"]
    codes = np.zeros(count, dtype=np.int16)
    for index, outcome in (outcomes or {}).items():
        codes[index] = names.index(outcome)
    time = (np.arange(count) * each_ms * 1e6).astype(np.int64) + 5 * SECOND
    words = Words(np.zeros(count, dtype=np.int16), np.array(["txn"]))
    numbers = np.zeros(count, dtype=np.int64)
    return Ops(
        path=Path("nowhere"),
        index=np.arange(count),
        process=numbers,
        slot=numbers,
        op=np.arange(count),
        time=time,
        end=np.where(codes == 2, NEVER, time + int(took_ms * 1e6)),
        final=np.zeros(count, dtype=np.bool_),
        f=words,
        type=Words(codes, np.array(names)),
        intent=words,
        node=words,
        role=words,
    )


def test_a_short_history_is_drawn_whole():
    drawn = sample(operations(100), {5}, [], 100)
    assert drawn.positions.tolist() == list(range(100))
    assert (drawn.windows, drawn.every) == ((), 1)


def test_the_rest_is_an_even_sample():
    """Every tenth or so, not the first hundred."""
    drawn = sample(operations(1000), {555}, [], 101)
    assert 555 in drawn.positions
    assert drawn.every == 10
    assert np.diff(drawn.positions).max() <= 11
    assert len(drawn.positions) <= 101


def test_every_failed_and_unknown_operation_is_drawn():
    """Where they are rare: an even sample would have missed nearly all of them."""
    rare = {137: "fail", 139: "info", 777: "fail"}
    drawn = sample(operations(10_000, outcomes=rare), set(), [], 100)
    assert set(rare) <= set(drawn.positions.tolist())
    assert drawn.uncertain == (3, 3)


def test_so_many_failures_that_they_do_not_fit_are_counted():
    """A million failures do not make a page of a million operations."""
    drawn = sample(operations(10_000, outcomes=dict.fromkeys(range(0, 10_000, 2), "fail")), set(), [], 300)
    assert drawn.uncertain == (100, 5_000)
    assert len(drawn.positions) <= 300


def test_around_a_moment_every_operation_is_drawn_and_the_window_says_where():
    ops = operations(100_000)
    moment = int(ops.time[50_000])
    drawn = sample(ops, set(), [moment], 3_000)
    ((begin, end),) = drawn.windows
    assert begin < moment < end
    inside = np.flatnonzero((ops.time >= begin) & (ops.time < end))
    assert len(inside) > 500
    assert set(inside.tolist()) <= set(drawn.positions.tolist())
    assert drawn.every > 30
    assert len(drawn.positions) <= 3_000


def test_an_operation_that_was_under_way_all_the_time_is_in_the_window():
    """It began long before, and ended long after."""
    ops = operations(100_000)
    ops.end[3] = int(ops.time[-1])
    moment = int(ops.time[50_000])
    assert 3 in sample(ops, set(), [moment], 3_000).positions


def test_windows_that_overlap_are_one():
    ops = operations(100_000)
    moments = [int(ops.time[50_000]), int(ops.time[50_100])]
    assert len(sample(ops, set(), moments, 3_000).windows) == 1


def test_where_no_window_fits_none_is_claimed():
    """A thousand operations in each millisecond, and room for a few."""
    ops = operations(100_000, each_ms=0.001)
    drawn = sample(ops, set(), [int(ops.time[50_000])], 100)
    assert drawn.windows == ()
    assert len(drawn.positions) <= 100


def test_operations_of_findings_come_first():
    drawn = sample(operations(1_000), set(range(500, 700)), [], 50)
    assert len(drawn.positions) == 50
    assert set(drawn.positions.tolist()) <= set(range(500, 700))
    assert drawn.every == 0


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_operations_are_found_by_their_index_in_any_order(order):
    indices = np.array([3, 4, 9, 1 << 40])[order]
    found = replace(operations(4), index=indices).at({4, 1 << 40, 5, -1})
    assert sorted(indices[found].tolist()) == [4, 1 << 40]
    assert found.tolist() == sorted(found.tolist())


def test_even_distances():
    assert evenly(np.arange(5), 9).tolist() == [0, 1, 2, 3, 4]
    assert evenly(np.arange(100), 3).tolist() == [0, 49, 99]
