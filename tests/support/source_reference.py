"""The anomalies of source connectors once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from support.reference import READ_COMMITTED, Matches, Row

Place = tuple[str, int]


class SourceHistory:
    """A history with what a connector wrote: as the final reader got it, and as the leaders have it."""

    def __init__(self, ops: Sequence[Mapping[str, Any]]) -> None:
        self.ops = numbered(ops)

    @cached_property
    def visible(self) -> list[Row]:
        rows = [
            entry
            for op in self.ops
            if op["final"] and op["isolation"] == READ_COMMITTED
            for entry in op.get("entries") or ()
            if entry["kind"] == "record"
        ]
        return list({place(entry): entry for entry in rows}.values())

    @cached_property
    def log(self) -> list[Row]:
        """By partition and offset; `txn`: how many markers of its producer lie before in its partition, `ended`: the next one."""
        rows = {place(entry): entry for op in self.ops if op["f"] == "read-log" for entry in op.get("entries") or ()}
        ordered = [rows[at] for at in sorted(rows)]
        return [{**entry, **self._transaction(ordered, entry)} for entry in ordered]

    def _transaction(self, rows: list[Row], entry: Row) -> Row:
        if not entry["transactional"]:
            return {"txn": None, "ended": "plain"}
        markers = [
            row
            for row in rows
            if (row["partition"], row["producer_id"]) == (entry["partition"], entry["producer_id"]) and marker(row)
        ]
        before = [row for row in markers if row["offset"] < entry["offset"]]
        after = [row["kind"] for row in markers if row["offset"] > entry["offset"]]
        return {"txn": len(before), "ended": after[0] if after else "open"}

    @cached_property
    def committed(self) -> list[Row]:
        """Records as the leaders have them that are not aborted."""
        return [entry for entry in self.log if entry["kind"] == "record" and entry["ended"] in ("plain", "COMMIT")]

    @cached_property
    def all_stored(self) -> list[Row]:
        """Committed offsets; without copies in the workers' topic, where the connector has one of its own."""
        stored = [entry for entry in self.log if entry["kind"] == "offset" and entry["ended"] in ("plain", "COMMIT")]
        own = [entry for entry in stored if "connect-offsets-" not in entry["partition"]]
        return [entry for entry in stored if entry in own or entry["ended"] == "COMMIT"] if own else stored

    @cached_property
    def stored(self) -> list[Row]:
        """Those of tasks."""
        return [entry for entry in self.all_stored if not self.is_alteration(entry)]

    @cached_property
    def stores_positions(self) -> bool:
        """True if a task has stored a position, in a transaction of whatever fate."""
        stored = [entry for entry in self.log if entry["kind"] == "offset" and entry["number"] >= 0]
        return any(not self.is_alteration(entry) for entry in stored)

    # -- offsets that were altered or reset on request
    @cached_property
    def requests(self) -> list[Row]:
        requests = [json.loads(op["detail"]) for op in self.ops if op["f"] == "rest" and op["type"] != "fail"]
        return [
            request for request in requests if request["path"].endswith("/offsets") and request["method"] in ("PATCH", "DELETE")
        ]

    def is_alteration(self, entry: Row) -> bool:
        if any(other["kind"] == "record" and self.producer(other) == self.producer(entry) for other in self.log):
            return False
        if entry["number"] == -1:
            return any(request["method"] == "DELETE" for request in self.requests)
        return any([entry["name"], entry["position"]] in request.get("altered", ()) for request in self.requests)

    @staticmethod
    def producer(entry: Row) -> tuple[int, int]:
        return entry["producer_id"], entry["producer_epoch"]

    @cached_property
    def judged(self) -> bool:
        """True if it is known which records came before an alteration."""
        if not self.requests:
            return True
        stated = all("altered" in request or request["method"] == "DELETE" for request in self.requests)
        places = {
            entry["name"]: {other["partition"] for other in self.all_stored if other["name"] == entry["name"]}
            for entry in self.log
        }
        plain = any(
            entry["ended"] == "plain" for entry in (*self.all_stored, *(row for row in self.log if row["kind"] == "record"))
        )
        return stated and not plain and all(len(partitions) <= 1 for partitions in places.values())

    def part(self, entry: Row) -> tuple[str, int] | None:
        """The source, and how many alterations of it lie before a stored offset, or before that of a record;
        None: there is no such offset."""
        if not self.requests:
            return entry["name"], 0
        if entry["kind"] == "record":
            row = next((other for other in self.log if place(other) == place(entry)), entry)
            mine = [
                other for other in self.stored if other["name"] == entry["name"] and self.producer(other) == self.producer(row)
            ]
            mine = [other for other in mine if other["number"] >= entry["number"]]
            if not mine:
                return None
            entry = min(mine, key=lambda other: other["number"])
        before = [
            other
            for other in self.all_stored
            if other["name"] == entry["name"] and other["offset"] < entry["offset"] and self.is_alteration(other)
        ]
        return entry["name"], len(before)

    @cached_property
    def known(self) -> list[Row]:
        """Visible records of sources of which every one has a part."""
        partial = {record["name"] for record in self.visible if self.part(record) is None}
        return [record for record in self.visible if record["name"] not in partial]

    def parts(self) -> list[tuple[str, int]]:
        return sorted({part for record in self.known if (part := self.part(record))})

    def positions(self, part: tuple[str, int]) -> list[int]:
        return [record["number"] for record in self.known if self.part(record) == part]


def numbered(ops: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Operations whose entries have the place in the list of all records of their source as `number`, and `position` besides.

    A record of the kind `record 2/3` is the second of the three of its position. The offset of a position is its last record.
    """
    counts: dict[tuple[str, int], int] = {}
    for entry in (entry for op in ops for entry in op.get("entries") or ()):
        if entry["kind"].startswith("record "):
            counts[entry["name"], entry["number"]] = int(entry["kind"].split("/")[1])

    def first(name: str, position: int) -> int:
        return sum(counts.get((name, before), 1) for before in range(position))

    def of(entry: Row) -> Row:
        kind, position = entry["kind"].split(" ")[0], entry["number"]
        number = position
        if kind == "record":
            number = first(entry["name"], position) + int(entry["kind"].removeprefix("record").split("/")[0] or 1) - 1
        elif kind == "offset" and position >= 0:
            number = first(entry["name"], position + 1) - 1
        place = number - first(entry["name"], position) if kind == "record" else 0
        return {**entry, "kind": kind, "number": number, "position": position, "place": place}

    return [{**op, "entries": [of(entry) for entry in op["entries"]]} if op.get("entries") else dict(op) for op in ops]


def marker(row: Row) -> bool:
    return row["kind"] in ("COMMIT", "ABORT")


def place(row: Row) -> Place:
    return row["partition"], row["offset"]


def source_duplicates(h: SourceHistory) -> Matches:
    if not h.judged:
        return set()
    return {
        place(record)
        for part in h.parts()
        for record in h.known
        if h.part(record) == part and h.positions(part).count(record["number"]) > 1
    }


def begin(h: SourceHistory, name: str, number: int) -> int:
    """The number of the first record of the position of a record."""
    record = next(record for record in h.visible if (record["name"], record["number"]) == (name, number))
    return number - record["place"]


def source_losses(h: SourceHistory) -> Matches:
    """(source, how many alterations lie before, position)."""
    missing = set()
    for part in h.parts() if h.judged else ():
        there = set(h.positions(part))
        last = max(there | {offset["number"] for offset in h.stored if h.part(offset) == part})
        missing |= {(*part, number) for number in range(begin(h, part[0], min(there)), last + 1) if number not in there}
    return missing


def source_offsets_torn(h: SourceHistory) -> Matches:
    """Places of records."""
    if not h.judged or not h.stores_positions:
        return set()
    return {place(record) for record in h.committed if torn(h, record)}


def torn(h: SourceHistory, record: Row) -> bool:
    if not torn_by_all(h, record):
        return False
    copies = [other for other in h.committed if other is not record and same_position(h, other, record)]
    if all(torn_by_all(h, other) for other in copies):
        return True
    keys = ("name", "producer_id", "producer_epoch")
    own = [o for o in h.stored if all(o[key] == record[key] for key in keys) and h.part(record) in (None, h.part(o))]
    place = ("name", "partition", "txn")
    last = max(other["number"] for other in h.committed if all(other[key] == record[key] for key in place))
    if record["ended"] == "COMMIT" and any(o["number"] == last for o in own):
        return False
    return torn_from(h, record, own) or early(h, record, own)


def same_position(h: SourceHistory, one: Row, other: Row) -> bool:
    return all(one[key] == other[key] for key in ("name", "number")) and h.part(one) == h.part(other)


def torn_by_all(h: SourceHistory, record: Row) -> bool:
    mine = [offset for offset in h.stored if offset["name"] == record["name"] and h.part(record) in (None, h.part(offset))]
    if all(torn_from(h, record, some) for some in (mine, *stretches_of(mine))):
        return True
    positions = [offset for offset in mine if offset["number"] >= 0]
    return len(stretches_of(positions)) == 1 and early(h, record, positions)


def stretches_of(offsets: list[Row]) -> list[list[Row]]:
    """Stored offsets of a source between two steps back."""
    stretches: list[list[Row]] = []
    for offset in offsets:
        before = stretches[-1][-1] if stretches else None
        if before is None or (offset["partition"] == before["partition"] and offset["number"] < before["number"]):
            stretches.append([])
        stretches[-1].append(offset)
    return stretches


def early(h: SourceHistory, record: Row, stored: list[Row]) -> bool:
    """True if a record's transaction is one too many for its stored offset, which others store."""
    keys = ("producer_id", "producer_epoch")
    own = offsets_of(record, stored)
    storing = {(o["partition"], o["txn"]) for o in own if all(o[key] == record[key] for key in keys)}
    fits = [
        other
        for other in h.committed
        if all(other[key] == record[key] for key in ("name", "partition", *keys)) and h.part(other) == h.part(record)
        if reach(other, stored) == own[0]["number"] and not torn_from(h, other, stored)
    ]
    transactions = sorted({other["txn"] for other in fits})
    holding = {other["txn"] for other in fits if other["number"] == own[0]["number"]}
    others = [txn for txn in transactions if txn not in holding]
    return record["txn"] in others[: max(0, len(transactions) - len(storing))]


def torn_from(h: SourceHistory, record: Row, stored: list[Row]) -> bool:
    """True if a record is not in the transaction of its offset, of some stored offsets of its source."""
    own = offsets_of(record, stored)
    if record["ended"] == "plain" or not own:
        return True
    if not any(all(record[key] == offset[key] for key in ("producer_id", "producer_epoch")) for offset in own):
        return True
    together = [
        other
        for other in h.committed
        if all(other[key] == record[key] for key in ("name", "partition", "producer_id", "txn")) and other["ended"] == "COMMIT"
        if h.part(other) == h.part(record)
    ]
    return max(reach(other, stored) for other in together) != own[0]["number"]


def offsets_of(record: Row, stored: list[Row]) -> list[Row]:
    """The stored offsets with one of which a record is committed: the lowest that reach so far."""
    fit = [offset for offset in stored if offset["number"] >= record["number"]]
    return [offset for offset in fit if offset["number"] == min(other["number"] for other in fit)]


def reach(record: Row, stored: list[Row]) -> float:
    own = offsets_of(record, stored)
    return own[0]["number"] if own else float("inf")


def source_offset_regressions(h: SourceHistory) -> Matches:
    """Places of offsets."""
    matches = set()
    if not h.judged or not h.stores_positions:
        return matches
    for at, offset in enumerate(h.stored):
        before = [
            other for other in h.stored[:at] if h.part(other) == h.part(offset) and other["partition"] == offset["partition"]
        ]
        if before and before[-1]["number"] > offset["number"]:
            matches.add(place(offset))
    return matches


TWINS: Mapping[str, Callable[[SourceHistory], Matches]] = {
    "source-duplicate": source_duplicates,
    "source-loss": source_losses,
    "source-offset-torn": source_offsets_torn,
    "source-offset-regression": source_offset_regressions,
}


def by_records(findings: Sequence[Mapping[str, Any]], h: SourceHistory) -> dict[str, Matches]:
    """Findings in the form of their twins' answers."""
    entries = {place(entry): entry for entry in (*h.log, *h.visible)}
    matches: dict[str, Matches] = {name: set() for name in TWINS}
    for finding in findings:
        name, rows = finding["anomaly"], finding["records"]
        known = sorted((entries[place(row)] for row in rows), key=lambda entry: entry["number"])
        if name == "source-loss":
            last = known[-1]["number"] - (known[-1]["kind"] == "record")
            part = h.part(known[0])
            first = known[0]["number"] + 1 if len(known) > 1 else known[0]["number"] - known[0]["place"]
            matches[name] |= {(*part, number) for number in range(first, last + 1)}
        elif name == "source-offset-regression":
            matches[name].add(place(known[0]))
        elif name in matches:
            matches[name] |= {place(row) for row in rows if row["role"] == "read"}
    return matches
