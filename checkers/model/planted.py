"""Planted damages: ways to spoil a history, which a check declares (`Check.damages`) and must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from fencepost.checkers.model.history_rows import HistoryRows

COMMITTED_TXN = "needs a committed transaction, all of it read back at read_committed"


@dataclass(frozen=True)
class DamagedHistory:
    """A damaged history, and what the damage was done to.

    what: what was done, in words.
    records: the records it was done to (identities).
    partitions: the partitions it was done to.
    own_partitions: `partitions` and their processes are new, so that whatever is found in them comes from the damage.
    logs: the brokers' logs, where the damage was done to them; None: it was not, and the history is judged without logs.
    wire: the requests on the wire, likewise.
    """

    rows: HistoryRows
    what: str
    records: frozenset[int] = frozenset()
    partitions: frozenset[str] = frozenset()
    own_partitions: bool = False
    logs: pa.Table | None = None
    wire: pa.Table | None = None


Plant = Callable[[HistoryRows, Random], DamagedHistory | None]


@dataclass(frozen=True)
class PlantedDamage:
    """One way to spoil a history.

    plant: the damaged history, or None where this one has no place for it; decided by the random numbers alone.
    expects: anomalies that must be found (those whose checks are installed).
    accompanying: others that the damage brings with it by nature, so that they are no false alarm.
    needs: what a history must have for it, in words.
    cycle: the class of cycles that is forbidden for this damage, so that the whole history is searched for it.
    """

    name: str
    plant: Plant
    expects: tuple[str, ...]
    accompanying: tuple[str, ...] = ()
    needs: str = COMMITTED_TXN
    cycle: str = ""
