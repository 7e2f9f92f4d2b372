"""Tests by rounds, the newest round of each campaign, findings by fingerprint, the history of a test."""

from __future__ import annotations

from dataclasses import replace

from support.many_runs import entries, run_rows

from fencepost.harness.memory.rows import FindingRow, RunRow
from fencepost.harness.memory.standing import histories
from fencepost.harness.memory.trends import changes
from fencepost.harness.site.entries import entry_of
from fencepost.harness.site.findings import finding_groups
from fencepost.harness.site.grid import MOST_ROUNDS, grids, latest_rounds
from fencepost.harness.site.histories import MOST_RUNS, history_of
from fencepost.harness.site.round_memory import RoundMemory


def run(number, night, test="t", met=True, findings=(), **fields):
    created = f"2026-11-{night:02}T01:{number:02}:00+00:00"
    verdict = "invalid" if findings else "valid"
    row = RunRow(
        place=f"c/{night:02}-{number}",
        run=f"r{night}{number}",
        campaign="c",
        test=test,
        round=f"202611{night:02}T010000Z",
        created=created,
        verdict=verdict,
        outcome=f"{verdict}, {'as expected' if met else 'against expectation'}",
        met=met,
        findings=tuple(FindingRow(id=1, anomaly="lost-write", fingerprint=mark, sentence=mark) for mark in findings),
        **fields,
    )
    return entry_of(row, report=f"runs/c/{number}/report.html")


def test_a_cell_counts_the_runs_of_a_round_that_were_as_expected():
    (grid,) = grids([run(1, 1), run(2, 1, met=False, findings="a"), run(3, 2), run(4, 2, "u")])
    assert [label for _, label in grid.rounds] == ["2026-11-02 01:00", "2026-11-01 01:00"]
    cells = {line.test: [(cell.met, cell.count, cell.tone) if cell else None for cell in line.cells] for line in grid.lines}
    assert cells == {"t": [(1, 1, "good"), (1, 2, "bad")], "u": [(1, 1, "good"), None]}


def test_the_test_that_is_red_in_the_newest_round_is_on_top_and_names_count_numbers():
    made = [run(n, 2, f"test {n}", met=n != 10) for n in (1, 2, 10)]
    (grid,) = grids([*made, run(1, 1, "test 2", met=False)])
    assert [line.test for line in grid.lines] == ["test 10", "test 2", "test 1"]


def test_old_rounds_are_left_out_and_counted():
    (grid,) = grids(entries(run_rows(MOST_ROUNDS + 5, tests=1)))
    assert (len(grid.rounds), grid.older) == (MOST_ROUNDS, 5)


def test_the_newest_round_of_each_campaign_has_its_red_runs():
    """What was red last night and is not red now is no longer news."""
    (latest,) = latest_rounds([run(1, 1, met=False), run(1, 2), run(2, 2, "u", met=None)])
    assert (latest.label, latest.met, latest.count) == ("2026-11-02 01:00", 1, 2)
    assert [entry.test for entry in latest.red] == [("c", "u")]


def test_a_round_whose_control_failed_says_that_nothing_in_it_can_be_trusted():
    """Before anything else: what the others found, or did not find, means nothing."""
    caught = run(1, 1, "canary", findings="lost")
    missed = run(1, 2, "canary", met=False)
    (trusted,) = latest_rounds([caught, run(2, 1, met=False, findings="a")])
    (untrusted,) = latest_rounds([caught, missed, run(2, 2, met=False, findings="a")])
    assert trusted.untrusted == ""
    assert untrusted.untrusted == "The harness cannot be trusted in this round. canary: valid, against expectation"
    assert [entry.row.test for entry in untrusted.red] == ["canary", "t"]


def test_findings_are_together_by_fingerprint_with_their_standing():
    """Found on the first and third night of three; and, on the third, one that is new. The newest of both is told first."""
    made = [run(1, 1, met=False, findings="a"), run(1, 2), run(1, 3, met=False, findings="ab"), run(2, 3, "other")]
    memory = RoundMemory(histories=histories([entry.row for entry in made]))
    b, a = finding_groups(made, memory)
    assert (a.fingerprint, a.standing, a.count, len(a.entries)) == ("a", "known", 2, 2)
    assert a.words == "known (on 2 of 3 rounds, since 2026-11-01)"
    assert (b.fingerprint, b.standing, b.words, b.tests) == ("b", "new", "new", (("c", "t"),))


def test_what_tests_expect_comes_last_and_what_is_gone_behind_what_is_there():
    made = [
        run(1, 3, findings="x"),
        run(1, 1, "u", met=False, findings="y"),
        run(1, 2, "u"),
        run(1, 1, "v", met=False, findings="z"),
    ]
    groups = finding_groups(made, RoundMemory(histories=histories([entry.row for entry in made])))
    assert [(group.fingerprint, group.standing, group.expected) for group in groups] == [
        ("z", "new", False),
        ("y", "gone", False),
        ("x", "new", True),
    ]


def test_of_a_red_control_what_it_is_to_find_is_expected():
    made = run(1, 1, met=False, findings="ab", unexpected=("dirty-read",))
    found = [
        replace(finding, anomaly=name) for finding, name in zip(made.row.findings, ("lost-write", "dirty-read"), strict=True)
    ]
    groups = finding_groups([entry_of(replace(made.row, findings=tuple(found)))], RoundMemory())
    assert [(group.anomaly, group.expected) for group in groups] == [("dirty-read", False), ("lost-write", True)]


def test_the_history_of_a_test_has_a_chart_for_each_measure_that_is_known():
    made = [run(1, night, rate=100.0 + night, gap_s=None) for night in (1, 2, 3)]
    history = history_of("c", "t", made)
    assert history.sentence == "As expected in 3 of 3 runs, in 3 rounds."
    (chart,) = history.charts
    assert (chart.title, chart.most, chart.newest, len(chart.points)) == ("Rate", 150.0, "103", 3)
    xs, ys = [point.x for point in chart.points], [point.y for point in chart.points]
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)


def test_a_measure_that_has_changed_is_told_beside_its_chart():
    made = [run(1, night, rate=100.0 + night % 2) for night in range(1, 10)] + [run(1, 10, rate=40.0)]
    charts = history_of("c", "t", made, changes([entry.row for entry in made])).charts
    assert "60 % below the median" in charts[0].trend


def test_a_single_run_a_rate_of_nothing_and_many_runs_have_charts():
    (chart,) = history_of("c", "t", [run(1, 1, rate=0.0)]).charts
    assert (chart.most, len(chart.points)) == (1.0, 1)
    history = history_of("nightly", "x", entries(run_rows(MOST_RUNS + 3, tests=1)))
    assert (len(history.entries), history.older) == (MOST_RUNS, 3)
