"""The curves over the run's time."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support import report_example as example

from fencepost.harness.api import record_id
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import records, series
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page

SECOND = 1_000_000_000


def charts(folder, rows, **judged):
    """The charts of these operations, by key."""
    rows = example.ordered(rows)
    example.write(folder, example.plan(), {**example.verdict(rows, []), **judged}, rows, [])
    return {chart.key: chart for chart in page(read(open_run(folder))).charts}


def values(chart, key):
    return next(line.values for line in chart.lines if line.key == key)


def peak(chart, key):
    return next(line.peak for line in chart.lines if line.key == key)


@pytest.mark.parametrize(("span_s", "width_s"), [(0.0, 0.1), (10, 0.1), (59, 0.2), (60, 0.2), (61, 0.5), (600, 2), (86_400, 300)])
def test_bins_are_round_and_at_most_a_few_hundred(span_s, width_s):
    over = series.bins(5, 5 + int(span_s * SECOND))
    assert over.width == width_s * SECOND
    assert 1 <= over.count <= 301
    assert over.of(np.array([5, 5 + int(span_s * SECOND)])).tolist() == [0, over.count - 1]


def test_every_write_is_counted_once(tmp_path):
    """Two commits in the first tenth, a failure later, and one that never completed counts when it began."""
    moments = [(10, 50, "ok"), (30, 50, "ok"), (150, 40, "fail"), (210, None, "info")]
    rate = charts(tmp_path, [example.op(n, 0, at, took, type=kind) for n, (at, took, kind) in enumerate(moments)])["rate"]
    assert rate.moments == [0, 100_000, 200_000]
    assert [values(rate, name) for name in ("ok", "fail", "info")] == [[20, 0, 0], [0, 10, 0], [0, 0, 10]]
    assert peak(rate, "ok") == "at most 20/s, 2 in all"


def test_percentiles_are_those_of_a_slow_obvious_computation(tmp_path):
    took = np.random.default_rng(3).integers(1, 400, 500)
    rows = [example.op(n % 7, n, 4 * n, float(ms)) for n, ms in enumerate(took.tolist())]
    latency = charts(tmp_path, rows)["latency"]
    ended = 4 * np.arange(500) + took
    width = (latency.moments[1] - latency.moments[0]) / 1000
    for place, (p50, p99) in enumerate(zip(values(latency, "p50"), values(latency, "p99"), strict=True)):
        inside = np.sort(took[np.minimum(ended // width, len(latency.moments) - 1) == place])
        if not len(inside):
            assert p50 is p99 is None
            continue
        assert p50 == inside[int(np.ceil(0.5 * len(inside))) - 1]
        assert p99 == inside[int(np.ceil(0.99 * len(inside))) - 1]
    assert f"The slowest took {took.max()} ms" in latency.note


def test_failures_have_no_latency(tmp_path):
    assert "latency" not in charts(tmp_path, [example.op(0, 0, 0, 10, type="fail"), example.op(1, 0, 0, None, type="info")])


def test_transactions_under_way_are_counted_at_once(tmp_path):
    """Three overlap; the next begins when one ends; one never completes, and counts until its worker goes on."""
    rows = [
        example.op(0, 0, 0, 50),
        example.op(1, 0, 10, 50),
        example.op(2, 0, 20, 5),
        example.op(0, 1, 50, 20),
        example.op(3, 0, 300, None, type="info"),
        example.op(3, 1, 650, 10),
    ]
    opened = charts(tmp_path, rows)["open"]
    assert values(opened, "open") == [3, 0, 0, 1, 1, 1, 1]
    assert peak(opened, "open") == "at most 3 at 0.020 s"
    assert "1 that never completed" in opened.note


def test_without_transactions_there_is_no_such_chart(tmp_path):
    assert "open" not in charts(tmp_path, [example.op(0, 0, 0, 10, f="send", intent=None)])


def sent(partition, offset, at_ms):
    return {"kind": 0, "partition": partition, "v": record_id(0, 0, offset), "offset": offset} | example_times(at_ms)


def polled(partition, offset, at_ms):
    return {"kind": 1, "partition": partition, "v": record_id(0, 0, offset), "offset": offset} | example_times(at_ms)


def example_times(at_ms):
    return {"began": example.START + int(at_ms * example.MS) - 1, "ended": example.START + int(at_ms * example.MS)}


def reader(process, number, at_ms, mops, role="reader", **fields):
    return example.op(process, number, at_ms - 5, 5, f="poll", role=role, intent=None, mops=mops, **fields)


def test_the_lag_is_that_of_the_slowest_reader(tmp_path):
    """Ten records are acknowledged at 100 ms; one reader gets all of them at once, another five at 200 ms and no more."""
    rows = [
        example.op(0, 0, 0, 100, mops=[sent("t-0", n, 100) for n in range(10)]),
        reader(1, 0, 110, [polled("t-0", n, 110) for n in range(10)]),
        reader(2, 0, 200, [polled("t-0", n, 200) for n in range(5)]),
        example.op(0, 1, 900, 100, mops=[]),
    ]
    readers = charts(tmp_path, rows)["readers"]
    moments = (np.array(readers.moments) / 1000).round().tolist()
    lag = dict(zip(moments, values(readers, "lag"), strict=True))
    assert lag[100] == 10
    assert lag[200] == 5
    assert lag[900] == 5
    assert peak(readers, "lag") == "at most 10 at 0.100 s"


def test_members_of_groups_count_as_one_reader(tmp_path):
    """Each reads its own partition, and together they have read everything."""
    rows = [
        example.op(0, 0, 0, 100, mops=[sent("t-0", 0, 100), sent("t-1", 0, 100)]),
        reader(1, 0, 200, [polled("t-0", 0, 200)], role="member"),
        reader(2, 0, 200, [polled("t-1", 0, 200)], role="member"),
    ]
    assert values(charts(tmp_path, rows)["readers"], "lag")[-1] == 0


def test_a_reader_lags_only_in_partitions_that_it_reads(tmp_path):
    rows = [
        example.op(0, 0, 0, 100, mops=[sent("t-0", 0, 100), sent("t-1", 7, 100)]),
        reader(1, 0, 200, [polled("t-0", 0, 200)]),
    ]
    assert values(charts(tmp_path, rows)["readers"], "lag")[-1] == 0


def test_the_final_read_is_no_reader(tmp_path):
    rows = [
        example.op(0, 0, 0, 100, mops=[sent("t-0", 0, 100)]),
        reader(1, 0, 200, [polled("t-0", 0, 200)], role="final", final=True),
    ]
    assert "readers" not in charts(tmp_path, rows)


def test_for_too_many_records_no_lag_is_computed_and_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MOST", 10)
    shown = page(read(open_run(example.valid(tmp_path))))
    (readers,) = [chart for chart in shown.charts if chart.key == "readers"]
    assert [line.key for line in readers.lines] == ["unseen"]
    assert "Lag is not computed for so many records." in readers.note


def test_every_chart_of_a_run_is_small(tmp_path):
    """Whatever its length, a page carries a few hundred points."""
    shown = page(read(open_run(example.large(tmp_path))))
    assert {chart.key for chart in shown.charts} >= {"rate", "latency", "open"}
    for chart in shown.charts:
        assert len(chart.moments) <= 301
        assert {len(line.values) for line in chart.lines} == {len(chart.moments)}
        assert {line.style for line in chart.lines} == {"solid", "dashed", "dotted"} or len(chart.lines) < 3
    assert len(json.dumps(shown.timeline_data["charts"])) < 30_000
