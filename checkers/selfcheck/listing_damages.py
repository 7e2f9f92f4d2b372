"""Damages to what coordinators and leaders answered: a small history put before another one, with a few answers at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.prefix_history import prepend
from fencepost.checkers.selfcheck.schedules import TICK, ScheduledHistory, scheduled_history

SECOND = 1_000_000_000
COMMIT = "A1* A2+0 A2! A2. A3+0 A3! A3."  # two transactions of one transactional id, both committed
PRODUCER_ID, EPOCH, BEGAN_MS = 7_000_000, 0, 1
TIMEOUT_MS = 6_000


@dataclass(frozen=True)
class Answers:
    """The same answer a few times after two committed transactions of an id (the topic's name).

    times_s: when, in seconds after the transactions.
    ongoing: True if the coordinator has the id `Ongoing`.
    opened: at which offset a transaction is open, counted from the end of the log; None: none is.
    """

    times_s: tuple[float, ...]
    what: str
    ongoing: bool = False
    opened: int | None = None

    def __call__(self, rows: HistoryRows, rng: Random) -> DamagedHistory:
        carried = scheduled_history(COMMIT, rows)
        last = max(operation.end for operation in carried.operations.values())
        for number, at in enumerate(last + round(time_s * SECOND) for time_s in self.times_s):
            carried.answer(number, at, at + TICK, self._value(carried, (at - last) / SECOND))
        records = frozenset(v for log in carried.logs.values() for _, v in log)
        what = f"before the history, in partitions of their own: {self.what}"
        made = carried.rows(rows.table.schema)
        return DamagedHistory(prepend(made, rows), what, records, frozenset(carried.logs), own_partitions=True)

    def _value(self, carried: ScheduledHistory, quiet_s: float) -> Mapping[str, Any]:
        producer = {"producer_id": PRODUCER_ID, "epoch": EPOCH}
        (partition,) = carried.logs
        transaction = {"transactional_id": carried.topic, "state": "Ongoing", "timeout_ms": TIMEOUT_MS, "started_ms": BEGAN_MS}
        ongoing: Sequence[Any] = [{**producer, **transaction, "partitions": [partition]}] if self.ongoing else []
        place = {"partition": partition, "offset": carried.ends[partition] + (self.opened or 0)}
        opened: Sequence[Any] = [] if self.opened is None else [{**producer, **place}]
        return {"transactions": ongoing, "open": opened, "silent": [], "quiet_s": quiet_s}


def _damage(name: str, expects: str, answers: Answers, *accompanying: str) -> PlantedDamage:
    return PlantedDamage(name, answers, (expects,), accompanying, "needs nothing")


HANG = _damage(
    "hang",
    "hanging-transaction",
    Answers((5, 6, 36), "a leader has a transaction open for 30 s that its coordinator does not know", opened=0),
)
OVERDUE = _damage(
    "overdue",
    "hanging-transaction",
    Answers((5, 35), "a coordinator has an id `Ongoing` 24 s after its timeout", ongoing=True),
    "misreported-transaction",
)
MISREPORT = _damage(
    "misreport",
    "misreported-transaction",
    Answers((5, 6), "a coordinator has an id `Ongoing` whose transactions had all committed", ongoing=True),
)
REOPEN = _damage(
    "reopen",
    "misreported-transaction",
    Answers((5, 6), "a leader has a transaction open below what readers got", opened=-4),
)
