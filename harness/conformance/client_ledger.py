"""The records that a driver was given in a story of many operations, what it reported on them, and what is in the log.

A fault of a driver may strike one operation in hundreds. With `n` operations, each falsified with probability `p` and
independently of the others, at least one is among them with probability 1 - (1 - p)^n; a fault that strikes every k-th
operation is among them whenever k <= n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api import CallError, Delivered, Outgoing, Polled
from fencepost.harness.api.words import plural
from fencepost.harness.conformance.client_fixture import Flaw

CONFIDENCE = 0.98
SHOWN, ALIKE = 40, 16  # bytes of a value: shown; that two have in common only if one was made of the other
PLACES = "report `delivered` only for what the client acknowledged, with partition and offset of that acknowledgement"
FATE = "one event `delivered` for each record, whatever its fate"
ONCE = "send each record once; repeat no call"
CONTENT = "pass values, keys and headers on as they are"


def detectable(count: int) -> int:
    """The largest k for which a fault in 1 of k operations, at random, is among `count` operations with `CONFIDENCE`; 0: none."""
    return int(1 / (1 - (1 - CONFIDENCE) ** (1 / count))) if count else 0


def sensitivity(**counts: int) -> str:
    """`1,200 commits (1 in 307), ...`: the number of operations by kind, and the rate that they show with `CONFIDENCE`."""
    return ", ".join(
        f"{count:,} {kind.replace('_', ' ')} (1 in {detectable(count):,})" if count else f"no {kind.replace('_', ' ')}"
        for kind, count in counts.items()
    )


@dataclass
class Given:
    """A record that the driver was given, and the reports on it."""

    record: Outgoing
    reports: list[Delivered | CallError] = field(default_factory=list)

    @property
    def place(self) -> tuple[str, int | None] | None:
        """Partition and offset of its acknowledgement."""
        last = self.reports[-1] if self.reports else None
        return (last.partition, last.offset) if isinstance(last, Delivered) else None

    @property
    def partition(self) -> str:
        return f"{self.record.topic}-{self.record.partition}"


class Ledger:
    """Records in the order in which the driver was given them; values are unique."""

    def __init__(self) -> None:
        self.given: list[Given] = []
        self._reported = 0

    def __len__(self) -> int:
        return len(self.given)

    def add(self, record: Outgoing) -> Callable[[Delivered | CallError], None]:
        """Note a record; returns the receiver of its reports."""
        self.given.append(Given(record))
        return self.given[-1].reports.append

    def demand_reports(self) -> None:
        """Raise Flaw for a record that was not reported by now, of those since the last call."""
        late = (one for one in self.given[self._reported :] if not one.reports)
        _none(
            late, "not reported when `flush` has answered", "report each record before the answer to the call that waited for it"
        )
        self._reported = len(self.given)

    def compare(self, seen: Iterable[Polled], reported: bool = True) -> None:
        """Raise Flaw unless each record is there once, as it was sent, where it was reported, in its partition's order.

        reported: whether each must have been acknowledged; without it, records that were not are left out.
        """
        if reported:
            _none((one for one in self.given if len(one.reports) != 1), "not reported once", FATE)
            _none((one for one in self.given if one.place is None), "not acknowledged, although the call succeeded", FATE)
        seen = list(seen)
        expected, there = [one for one in self.given if one.place is not None], places_of(seen)
        lost = [one for one in expected if not there.get(one.record.value or b"")]
        at: Mapping[Any, bytes] = {(record.partition, record.offset): record.value for record in seen} if lost else {}
        _none((one for one in lost if _is_changed(one, at.get(one.place))), "there with another value", CONTENT)
        _none(lost, "acknowledged, and not there", PLACES)
        _none((one for one in expected if len(there[one.record.value or b""]) > 1), "there more than once", ONCE)
        pairs = [(one, there[one.record.value or b""][0]) for one in expected]
        _none((one for one, record in pairs if not _exact(one, record)), "not at the reported place", PLACES)
        _none((one for one, record in pairs if not _same(one, record)), "there with other bytes", CONTENT)
        _none(_misplaced(pairs), "in front of one that was sent before it", "send records of a partition in their order")

    def visible(self, seen: Iterable[Polled]) -> list[Given]:
        """Those of its records that are among these."""
        there = places_of(seen)
        return [one for one in self.given if one.record.value in there]


def places_of(seen: Iterable[Polled]) -> dict[bytes, list[Polled]]:
    """Records by their value."""
    there: dict[bytes, list[Polled]] = {}
    for record in seen:
        there.setdefault(record.value, []).append(record)
    return there


def _none(wrong: Iterable[Given], what: str, change: str) -> None:
    """Raise Flaw if there are any, with their number and the first."""
    if found := list(wrong):
        place = f", reported at {found[0].place}" if found[0].place else ""
        first = (found[0].record.value or b"")[:SHOWN]
        raise Flaw(f"{plural(len(found), 'record is', 'records are')} {what}; the first: {first!r}{place}", change)


def _exact(one: Given, record: Polled) -> bool:
    place = one.place
    return place is not None and place[1] in (None, record.offset) and place[0] == record.partition == one.partition


def _is_changed(one: Given, value: bytes | None) -> bool:
    """Whether this value, where the record was reported, is what became of its own: it begins like that."""
    return value is not None and value[:ALIKE] == (one.record.value or b"")[:ALIKE]


def _same(one: Given, record: Polled) -> bool:
    return record.key == one.record.key and tuple(record.headers) == tuple(one.record.headers)


def _misplaced(pairs: Iterable[tuple[Given, Polled]]) -> Iterator[Given]:
    """Records whose offset is below that of one that was given before, in their partition."""
    highest: dict[str, int] = {}
    for one, record in pairs:
        if record.offset < highest.get(record.partition, -1):
            yield one
        highest[record.partition] = max(record.offset, highest.get(record.partition, -1))
