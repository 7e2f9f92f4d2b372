"""The pace of writes before, during and after a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report.documents import ReportData, read
from fencepost.harness.report.model import page
from fencepost.harness.report.paces import Pace, paces

FAST = [(at, 10) for at in range(0, 20_000, 100)]  # ten a second, of 10 ms each
STALLED = [(at, took) for at, took in FAST if not 8_000 <= at < 10_000] + [(8_000, 1_500)]


def run_of(folder: Path, operations: list[tuple[int, int]], *faults: dict, kind: str = "ok") -> ReportData:
    rows = example.ordered([example.op(number, 0, at, took, type=kind) for number, (at, took) in enumerate(operations)])
    return read(open_run(example.write(folder, example.plan(), example.verdict(rows, list(faults)), rows, list(faults))))


def rounded(pace: Pace | None) -> tuple[float, float] | None:
    return pace and (round(pace.rate, 1), round((pace.p99_ns or 0) / 1e6))


def test_each_fault_has_the_pace_before_during_and_after_it(tmp_path):
    run = run_of(tmp_path, STALLED, example.fault(0, "kill", 8, 2))
    assert [rounded(pace) for pace in paces(run)[0]] == [(10.0, 10), (0.5, 1500), (10.0, 10)]
    (fault,) = page(run).faults
    assert fault.rates == ("10", "0.5", "10")
    assert fault.latencies == ("10 ms", "1.5 s", "10 ms")


def test_the_time_of_another_fault_is_no_time_before_or_after(tmp_path):
    """The second strikes while the first is active; a third 1 s after; the last is not healed."""
    faults = [example.fault(0, "kill", 4, 4), example.fault(1, "kill", 6, 4), example.fault(2, "kill", 11, 2)]
    run = run_of(tmp_path, FAST, *faults, example.fault(3, "kill", 18, None))
    known = {id: [pace is not None for pace in some] for id, some in paces(run).items()}
    assert known == {0: [True, True, False], 1: [False, True, True], 2: [True, True, True], 3: [True, True, False]}
    assert rounded(paces(run)[1][2]) == (10.0, 10)


def test_nothing_is_said_where_nothing_is_known(tmp_path):
    """No fault that struck; no success at all; no history."""
    assert paces(run_of(tmp_path / "a", FAST, example.fault(0, "kill", 4, 4, injected_ns=0, healed_ns=0))) == {}
    failed = run_of(tmp_path / "b", FAST, example.fault(0, "kill", 4, 4), kind="fail")
    assert [pace.rate for pace in paces(failed)[0]] == [0.0, 0.0, 0.0]
    assert page(failed).faults[0].latencies == ()
    (tmp_path / "b" / "history.parquet").unlink()
    assert page(read(open_run(tmp_path / "b"))).faults[0].rates == ()


@pytest.mark.parametrize("at_s", [0.1, 19.9])
def test_a_fault_at_the_edge_of_the_run_has_no_pace_beyond_it(tmp_path, at_s):
    before, _, after = paces(run_of(tmp_path, FAST, example.fault(0, "kill", at_s, 0.05)))[0]
    assert (before is None, after is None) == (at_s < 1, at_s > 1)
