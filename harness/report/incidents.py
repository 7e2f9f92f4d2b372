"""Incidents: the forbidden findings of a verdict, those of one cause together.

Two findings have one cause when both accuse the same operation. A finding accuses

* the transactions and sends that its records of role `sent` or `missing` name. A read proves something about a record, and is
  accused of nothing: two findings that one poll proves stay two incidents;
* where it names none of these, those of its other records that are transactions or sends (`unprocessed` names the transaction
  that processed an input, and misses its output);
* where its only operations look (polls, `settle`), the transaction whose record lies at the place that it names, by the log
  segments: the last stable offsets of several partitions that stand at records of one transaction have one cause;
* else the place itself.

Findings of cycles accuse all operations of their cycle together: two are one incident when they are cycles of the same
operations, and a cycle through a transaction is not an incident of that transaction alone. A finding that accuses nothing (a
client that does not recover) is an incident of its own. An incident is a set of findings connected by what they accuse.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api import split_record_id

Doc = Mapping[str, Any]
WRITES = ("txn", "send")  # functions of the operations that can be accused
_ACCUSING = ("sent", "missing")


@dataclass(frozen=True, slots=True, order=True)
class Written:
    """An operation that writes: its process and its number there."""

    process: int
    number: int


@dataclass(frozen=True)
class Incident:
    """Findings of one cause, in the verdict's order.

    accused: the transactions and sends that they accuse.
    """

    findings: tuple[Doc, ...]
    accused: tuple[Written, ...] = ()

    @property
    def id(self) -> int:
        """The number of its first finding."""
        return int(self.findings[0].get("id", 0))

    @property
    def anomalies(self) -> tuple[str, ...]:
        """Its anomalies, each once."""
        return tuple(dict.fromkeys(str(finding.get("anomaly", "?")) for finding in self.findings))

    @property
    def time(self) -> int | None:
        """The first moment of its findings; None: not known."""
        return min((finding["time"] for finding in self.findings if (finding.get("time") or 0) > 0), default=None)

    @property
    def records(self) -> tuple[Doc, ...]:
        """The records of its findings, each once in each of its roles."""
        named = {_identity(record): record for finding in self.findings for record in finding.get("records", ())}
        return tuple(named.values())

    @property
    def operations(self) -> tuple[int, ...]:
        """The operations of its findings, by their index in the history; in order."""
        return tuple(sorted({index for finding in self.findings for index in finding.get("operations", ()) if index >= 0}))


def incidents(findings: Sequence[Doc], writes: Mapping[int, Written] | None) -> tuple[Incident, ...]:
    """The incidents of these findings, in the order of their first ones.

    writes: the operations that write, of those that the findings name, by index; None: the history is not known. Then findings
    are joined by the senders of their records alone.
    """
    first: dict[Hashable, int] = {}
    leads_to = list(range(len(findings)))
    for position, finding in enumerate(findings):
        for key in _accused(finding, writes):
            own, earlier = _root(leads_to, position), _root(leads_to, first.setdefault(key, position))
            leads_to[max(own, earlier)] = min(own, earlier)
    groups: dict[int, list[Doc]] = {}
    for position, finding in enumerate(findings):
        groups.setdefault(_root(leads_to, position), []).append(finding)
    return tuple(_incident(group, writes) for group in groups.values())


def _root(leads_to: list[int], position: int) -> int:
    """The first position of the group that a position belongs to."""
    while leads_to[position] != position:
        leads_to[position] = leads_to[leads_to[position]]
        position = leads_to[position]
    return position


def _incident(findings: list[Doc], writes: Mapping[int, Written] | None) -> Incident:
    keys = {key for finding in findings for key in _accused(finding, writes)}
    return Incident(findings=tuple(findings), accused=tuple(sorted(key for key in keys if isinstance(key, Written))))


def _accused(finding: Doc, writes: Mapping[int, Written] | None) -> Iterator[Hashable]:
    """The keys of what a finding accuses; none: nothing that another finding could accuse too."""
    vertices = (finding.get("cycle") or {}).get("vertices")
    records = [record for record in finding.get("records", ()) if record.get("partition")]
    if vertices:
        yield frozenset(vertices)
    elif writes is None:
        yield from _senders(record.get("v") for record in records if record.get("role") in _ACCUSING)
    else:
        named = [(record.get("role"), writes.get(record.get("operation", -1))) for record in records]
        accused = [written for role, written in named if written and role in _ACCUSING]
        accused = accused or [written for _, written in named if written]
        yield from accused or _at_places(finding, records)


def _at_places(finding: Doc, records: Sequence[Doc]) -> Iterator[Hashable]:
    """The senders of what lies at the places of these records, by the log segments; else the places."""
    rows = (finding.get("stored") or {}).get("rows", ())
    stored = {(row.get("partition"), row.get("offset")): row.get("v") for row in rows}
    for record in records:
        place = (record.get("partition"), record.get("offset"))
        if record.get("offset") is not None and record["offset"] >= 0:
            senders: list[Hashable] = list(_senders([stored.get(place)]))
            yield from senders or [place]


def _senders(identities: Any) -> Iterator[Written]:
    for v in identities:
        if v is not None and v >= 0:
            yield Written(*split_record_id(v)[:2])


def _identity(record: Doc) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in ("partition", "offset", "v", "operation", "role"))
