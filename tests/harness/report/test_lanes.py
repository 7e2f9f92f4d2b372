"""Intervals share lanes when they do not overlap."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report.documents import read
from fencepost.harness.report.lanes import partitioned
from fencepost.harness.report.model import page


@pytest.mark.parametrize(
    ("spans", "lanes"),
    [
        ([], []),
        ([(0, 5)], [0]),
        ([(0, 5), (5, 9)], [0, 0]),  # an end is not part of its interval
        ([(0, 5), (4, 9), (5, 6)], [0, 1, 0]),
        ([(5, 6), (4, 9), (0, 5)], [0, 1, 0]),  # in any order
        ([(0, 9), (0, 9), (0, 9)], [0, 1, 2]),
        ([(0, 9), (1, 2), (2, 3), (3, 4)], [0, 1, 1, 1]),
    ],
)
def test_an_interval_takes_the_first_lane_that_is_free(spans, lanes):
    assert partitioned(spans) == lanes


def test_there_are_as_many_lanes_as_intervals_overlap_and_none_overlap_in_a_lane():
    rng = Random(1)
    spans = [(begin, begin + rng.randrange(1, 40)) for begin in (rng.randrange(1000) for _ in range(400))]
    lanes = partitioned(spans)
    most = max(sum(begin <= moment < end for begin, end in spans) for moment in range(1100))
    assert len(set(lanes)) == most
    for lane in set(lanes):
        mine = sorted(span for span, of in zip(spans, lanes, strict=True) if of == lane)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))


def drawn(folder, rows):
    """The timeline of these operations."""
    rows = example.ordered(rows)
    example.write(folder, example.plan(), example.verdict(rows, []), rows, [])
    return page(read(open_run(folder))).timeline


def test_crashed_processes_and_their_successors_share_as_many_lanes_as_ran_at_once(tmp_path):
    """A history of Jepsen: each of 500 crashes brings a new process, and three run at a time."""
    rows = [
        example.op(thread + 3 * life, 0, 100 * life + 10 * thread, None, type="info", node="", slot=thread + 3 * life)
        for life in range(170)
        for thread in range(3)
    ]
    shown = drawn(tmp_path, rows)
    assert len(shown["rows"]) == 1  # an operation that never ended holds its lane until the next begins
    busy = [{**row, "end": row["time"] + 95 * example.MS, "type": "ok"} for row in rows]
    shown = drawn(tmp_path / "busy", busy)
    assert [(row["label"], len(row["processes"]), row["more"]) for row in shown["rows"]] == [
        ("p0…507", 60, 110),
        ("p1…508", 60, 110),
        ("p2…509", 60, 110),
    ]
    assert {shown["ops"]["row"][at] for at in range(0, 510, 3)} == {0}


def test_workers_of_different_nodes_or_roles_share_no_lane(tmp_path):
    rows = [
        example.op(0, 0, 10, 5),
        example.op(1, 0, 20, 5),
        example.op(2, 0, 30, 5, node="c0", role="reader", f="poll", intent=None),
        example.op(3, 0, 40, 5, node="c0"),
    ]
    shown = drawn(tmp_path, rows)
    assert [(row["label"], row["role"]) for row in shown["rows"]] == [
        ("c0 p0…3", "writer"),
        ("c1 p1", "writer"),
        ("c0 p2", "reader"),
    ]


def test_faults_that_overlap_lie_in_different_lanes(tmp_path):
    rows = example.ordered([example.op(0, 0, 0, 20_000)])
    faults = [example.fault(n, "kill", at, lasts) for n, (at, lasts) in enumerate([(1, 4), (2, 1), (4, 3), (6, 1)])]
    example.write(tmp_path, example.plan(), example.verdict(rows, faults), rows, faults)
    assert [fault["lane"] for fault in page(read(open_run(tmp_path))).timeline["faults"]] == [0, 1, 1, 0]
