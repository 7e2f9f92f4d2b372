"""What is worked out of many million operations in slices is what it would be of all at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.harness.report import documents
from fencepost.harness.report.documents import NEVER, Ops, operations
from fencepost.harness.report.panels.timeline import _distinct, _rows
from fencepost.harness.report.sampling import _draw, sample
from fencepost.harness.report.series import Bins, _following, latency, rate

SIZES = [1, 7, 100, 1 << 20]
MS = 1_000_000


def history(count: int = 500, seed: int = 1) -> Ops:
    random = np.random.default_rng(seed)
    time = np.cumsum(random.integers(0, MS, count))
    end = np.where(random.random(count) < 0.1, None, time + random.integers(-3, 9 * MS, count))
    columns: dict[str, Any] = {
        "index": np.arange(count),
        "process": random.integers(0, 20, count),
        "slot": random.choice([NEVER, 0, 1, 2, 3], count),
        "op": np.arange(count),
        "node": random.choice(["n1", "n2", None], count),
        "role": random.choice(["writer", "reader"], count),
        "f": random.choice(["txn", "send", "poll"], count),
        "type": random.choice(["ok", "fail", "info", None], count),
        "intent": random.choice(["commit", "abort", None], count),
        "final": random.random(count) < 0.1,
        "time": time,
        "end": pa.array(end.tolist(), pa.int64()),
    }
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    return operations([table], count, Path("history.parquet"))


@pytest.fixture(params=SIZES)
def sliced(request, monkeypatch) -> int:
    monkeypatch.setattr(documents, "_SLICE", request.param)
    return request.param


def test_slices_are_all_positions_in_order(sliced):
    assert [at for part in documents.slices(250) for at in range(250)[part]] == list(range(250))
    assert list(documents.slices(0)) == []


def test_values_are_numbered_as_they_first_appear(sliced):
    values = np.random.default_rng(2).integers(-9, 9, 250) << 40
    different, first, code = _distinct((values[part] for part in documents.slices(250)), 250)
    assert different.tolist() == list(dict.fromkeys(values.tolist()))
    assert first.tolist() == [values.tolist().index(value) for value in different.tolist()]
    assert different[code].tolist() == values.tolist()


def test_each_operation_has_the_same_row(sliced, monkeypatch):
    ops = history()
    rows, row_of = _rows(ops)
    monkeypatch.setattr(documents, "_SLICE", 1 << 20)
    whole, row_of_whole = _rows(ops)
    assert rows == whole
    assert len(rows) > 5
    assert row_of.tolist() == row_of_whole.tolist()


def test_one_of_so_many_is_drawn_whatever_the_slices(sliced):
    others = np.random.default_rng(3).random(250) < 0.4
    for every in (1, 2, 9, 300):
        drawn = np.zeros(250, dtype=np.bool_)
        _draw(drawn, others, every)
        assert np.flatnonzero(drawn).tolist() == np.flatnonzero(others)[::every].tolist()


def test_operations_that_last_long_are_in_every_window_that_they_cross(sliced):
    ops = history()
    long = ops.end.copy()
    long[[3, 200]] = ops.time.max() + 60_000 * MS
    ops = replace(ops, end=long)
    made = sample(ops, set(), [int(ops.time[400])], 200)
    assert len(made.windows) == 1
    assert {3, 200} <= set(made.positions.tolist())


def test_the_rate_counts_each_write_where_it_ended(sliced):
    ops, over = history(), Bins(0, 10 * MS, 60)
    writes = [i for i in range(len(ops)) if ops.f[i] in ("txn", "send") and not ops.final[i]]
    for line in rate(ops, over).lines:
        counts = [0] * over.count
        for i in writes:
            if str(ops.type[i]) == line.key:
                moment = int(ops.time[i] if ops.end[i] == NEVER else ops.end[i])
                counts[min(max(moment // over.width, 0), over.count - 1)] += 1
        assert line.values == [float(f"{count * 100:.4g}") for count in counts]
        assert any(counts)


def test_what_never_completed_lasts_until_the_next_operation_of_its_row(sliced):
    ops, row_of = history(), np.random.default_rng(4).integers(0, 9, 500).astype(np.int32)
    row_of[-1] = 9
    unfinished = np.flatnonzero(ops.end == NEVER)
    assert len(unfinished) > 9
    for positions in (unfinished, unfinished[:0], np.arange(500)):
        last = int(max(ops.end.max(), ops.time.max()))
        wanted = [next((int(ops.time[j]) for j in range(i + 1, 500) if row_of[j] == row_of[i]), last) for i in positions]
        assert _following(ops, row_of, positions).tolist() == wanted


def test_latencies_are_ranked_within_their_bins(sliced):
    ops, over = history(), Bins(0, 30 * MS, 20)
    done = [i for i in range(len(ops)) if ops.f[i] in ("txn", "send") and not ops.final[i] and ops.type[i] == "ok"]
    took: dict[int, list[int]] = {}
    for i in done:
        if ops.end[i] != NEVER:
            took.setdefault(min(int(ops.end[i]) // over.width, over.count - 1), []).append(int(ops.end[i] - ops.time[i]))
    chart = latency(ops, over)
    assert chart is not None
    for line, share in zip(chart.lines, (0.5, 0.99), strict=True):
        ranked = [sorted(took.get(place, ())) for place in range(over.count)]
        wanted = [float(f"{some[int(np.ceil(len(some) * share)) - 1] / MS:.4g}") if some else None for some in ranked]
        assert line.values == wanted
    slowest = max((time, -i) for i, time in ((i, int(ops.end[i] - ops.time[i])) for i in done if ops.end[i] != NEVER))
    assert f"ended at {int(ops.end[-slowest[1]]) / 1e9:,.3f} s" in chart.note
