"""A damage to readers: one stops although its partition goes on, while another partition takes no records.

A small history put before another one, in partitions of its own.
"""

from __future__ import annotations

from random import Random

from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.prefix_history import free_process, free_topic, prepend
from fencepost.checkers.selfcheck.schedules import TICK, ScheduledHistory

LASTS_S = 20  # of the outage
PER_S = 2  # transactions, and polls of each reader, a second
_STEP = 1_000_000_000 // PER_S


def outage(rows: HistoryRows, rng: Random) -> DamagedHistory:
    """A send to partition 1 has no answer for 20 s; partition 0 goes on, and one of its two readers gets nothing more of it."""
    carried = ScheduledHistory(free_process(rows), free_topic(rows))
    for number, text in enumerate(("W+0", "W.", "R<0@0", "R.", "S<0@0", "S.", "X+1"), 1):
        carried.step(text, number * TICK)
    unanswered = carried.operations["X"].mops[0]
    for number in range(1, LASTS_S * PER_S + 1):
        for place, text in enumerate((f"W{number}+0", f"W{number}.", f"S{number}<0@{number}", f"S{number}.", f"R{number}.")):
            carried.step(text, number * _STEP + place * TICK)
    over = (LASTS_S * PER_S + 1) * _STEP
    unanswered["ended"] = over
    carried.step("X.", over + TICK)
    carried.read_back(over + 2 * TICK)
    records = frozenset(v for log in carried.logs.values() for _, v in log)
    what = "before the history, in partitions of their own: a reader gets nothing while another partition is silent"
    made = carried.rows(rows.table.schema)
    return DamagedHistory(prepend(made, rows), what, records, frozenset(carried.logs), own_partitions=True)


OUTAGE = PlantedDamage("reader-stop", outage, ("delayed-read",), (), "needs nothing")
