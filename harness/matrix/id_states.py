"""The state in which a transactional id was when a message of it was caught, by what was on the wire (docs/wire.md)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.harness.matrix.evidence import Caught
from fencepost.harness.matrix.factors import ABORTED, BEGINS_ALONE, COMMITTED, FENCED, FRESH

if TYPE_CHECKING:
    from fencepost.harness.api.run import Run

INIT, END = "InitProducerId", "EndTxn"
NONE = "NONE"  # Kafka's name of no error
COLUMNS = (
    "node", "api", "client_id", "arrived_ns", "answered_ns", "transactional_id", "producer_id", "producer_epoch",
    "answer_producer_id", "answer_producer_epoch", "committed", "error",
)  # fmt: skip
OF_MARKERS = ("prepared", "markers")
Row = Mapping[str, Any]


@dataclass
class Reign:
    """The time in which an id belongs to one producer.

    owner: its client.id.
    producer: its producer id.
    epoch: the first one.
    began_ns: when it had the id.
    ends: when its transactions ended, and whether each was committed, in the order of the answers.
    """

    owner: str
    producer: int
    epoch: int
    began_ns: int
    ends: list[tuple[int, bool]] = field(default_factory=list)


class IdStates:
    """The reigns of all ids, and the messages that rules caught."""

    def __init__(self, exchanges: Iterable[Row], caught: Iterable[Row]) -> None:
        self._reigns: dict[str, list[Reign]] = defaultdict(list)
        self._names: dict[int, str] = {}  # producer id -> transactional id
        self._caught: dict[tuple[str, str, str | None], list[Row]] = defaultdict(list)
        for row in sorted(exchanges, key=lambda row: row["answered_ns"]):
            self._add(row)
        for row in sorted(caught, key=lambda row: row["arrived_ns"]):
            self._caught[row["node"], row["api"], row["client_id"]].append(row)

    @classmethod
    def read(cls, run: Run) -> IdStates:
        """Of a run's `wire.parquet`; without one that can be read nothing is known."""
        import pyarrow as pa  # here, because most commands do without it
        from pyarrow import ArrowException, compute

        from fencepost.harness.api.wire_table import wire_table_of

        try:
            table = wire_table_of(run, [*COLUMNS, "rules"])
        except (OSError, ArrowException):
            return cls((), ())
        ends = table.filter(compute.is_in(table["api"], pa.array((INIT, END)))).to_pylist()
        caught = table.filter(compute.greater(compute.list_value_length(table["rules"]), 0)).to_pylist()
        named = [row for row in ends if row["error"] == NONE and row["answered_ns"] and row["transactional_id"]]
        return cls(named, caught)

    def state(self, gap: str, catch: Caught) -> str:
        """The state of the id of a message that was caught; empty: not known."""
        rows = self._caught.get((catch.node, catch.api, catch.client_id), [])
        at = bisect_left([row["arrived_ns"] for row in rows], catch.time_ns + 1)
        if not at:
            return ""
        row = rows[at - 1]
        if gap == "next-begin":
            return _direction(bool(row["committed"]))
        reigns = self._known(self._name(row), row["arrived_ns"])
        return _of_client(reigns, row) if gap in BEGINS_ALONE else _of_producer(reigns, row, gap in OF_MARKERS)

    def _add(self, row: Row) -> None:
        reigns = self._reigns[row["transactional_id"]]
        if row["api"] == INIT:
            producer, epoch = row["answer_producer_id"], row["answer_producer_epoch"]
            if producer is None or epoch is None:  # no record of ours lacks them
                return
            self._names[producer] = row["transactional_id"]
            reigns.append(Reign(row["client_id"], producer, epoch, row["answered_ns"]))
        elif reign := _of(reigns, row["producer_id"], row["producer_epoch"]):
            reign.ends.append((row["answered_ns"], bool(row["committed"])))

    def _name(self, row: Row) -> str:
        return str(row["transactional_id"] or self._names.get(row["producer_id"], ""))

    def _known(self, name: str, until_ns: int) -> list[Reign]:
        """The reigns of an id as they were at a moment."""
        reigns = [reign for reign in self._reigns.get(name, ()) if reign.began_ns <= until_ns]
        return [
            Reign(each.owner, each.producer, each.epoch, each.began_ns, [end for end in each.ends if end[0] <= until_ns])
            for each in reigns
        ]


def _of(reigns: Sequence[Reign], producer: int | None, epoch: int | None) -> Reign | None:
    """The last reign to which a producer id and an epoch can belong."""
    return next((each for each in reversed(reigns) if each.producer == producer and each.epoch <= (epoch or 0)), None)


def _of_client(reigns: Sequence[Reign], row: Row) -> str:
    """Of a request that begins a producer."""
    if reigns and reigns[-1].owner != row["client_id"]:
        return FENCED
    ends = [end for reign in reigns for end in reign.ends]
    return _direction(ends[-1][1]) if ends else FRESH


def _of_producer(reigns: Sequence[Reign], row: Row, own_end: bool) -> str:
    """Of a request that names its producer. own_end: the transaction that it is about has ended, if the answer was sent."""
    reign = _of(reigns, row["producer_id"], row["producer_epoch"])
    if reign is None:
        return ""
    if reign is not reigns[-1]:
        return FENCED
    ends = reign.ends[:-1] if own_end else reign.ends
    return _direction(ends[-1][1]) if ends else FRESH


def _direction(committed: bool) -> str:
    return COMMITTED if committed else ABORTED
