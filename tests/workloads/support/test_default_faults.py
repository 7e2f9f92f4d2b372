"""Faults of workloads when none is named: how often each strikes in a run of half a minute."""

from collections import Counter

from fencepost.harness.cli.arguments import from_options
from fencepost.harness.planning.schedule import draw

SEEDS, RUN_S = 50, 30.0


def test_members_are_killed_end_in_order_and_freeze_at_least_twice_in_half_a_minute():
    """On average. A frozen one has time between two freezes in which it may get back what it had."""
    faults = from_options(workload="pipeline").nemesis
    planned = [Counter((fault.kind, fault.lane) for fault in draw(faults, RUN_S, seed)) for seed in range(SEEDS)]
    for fault in (("kill", "main"), ("scale", "main"), ("pause", "frozen")):
        assert sum(counts[fault] for counts in planned) >= 2 * SEEDS, fault
    assert sum(counts["kill", "main"] == 0 for counts in planned) <= SEEDS / 10
