"""The anomalies of source connectors once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from support.reference import READ_COMMITTED, Found, Row

Place = tuple[str, int]


class SourceHistory:
    """A history with what a connector wrote: as the final reader got it, and as the leaders have it."""

    def __init__(self, ops: Sequence[Mapping[str, Any]]) -> None:
        self.ops = ops

    @cached_property
    def visible(self) -> list[Row]:
        rows = [
            entry
            for op in self.ops
            if op["final"] and op["isolation"] == READ_COMMITTED
            for entry in op.get("entries") or ()
            if entry["kind"] == "record"
        ]
        return list({place(one): one for one in rows}.values())

    @cached_property
    def log(self) -> list[Row]:
        """By partition and offset; `txn`: how many markers of its producer lie before in its partition, `ended`: the next one."""
        rows = {place(entry): entry for op in self.ops if op["f"] == "read-log" for entry in op.get("entries") or ()}
        ordered = [rows[at] for at in sorted(rows)]
        return [{**one, **self._transaction(ordered, one)} for one in ordered]

    def _transaction(self, rows: list[Row], one: Row) -> Row:
        if not one["transactional"]:
            return {"txn": None, "ended": "plain"}
        markers = [
            row
            for row in rows
            if (row["partition"], row["producer_id"]) == (one["partition"], one["producer_id"]) and marker(row)
        ]
        before = [row for row in markers if row["offset"] < one["offset"]]
        after = [row["kind"] for row in markers if row["offset"] > one["offset"]]
        return {"txn": len(before), "ended": after[0] if after else "open"}

    @cached_property
    def committed(self) -> list[Row]:
        """Records as the leaders have them that are not aborted."""
        return [one for one in self.log if one["kind"] == "record" and one["ended"] in ("plain", "COMMIT")]

    @cached_property
    def all_stored(self) -> list[Row]:
        """Committed offsets; without copies in the workers' topic, where the connector has one of its own."""
        found = [one for one in self.log if one["kind"] == "offset" and one["ended"] in ("plain", "COMMIT")]
        own = [one for one in found if "connect-offsets-" not in one["partition"]]
        return [one for one in found if one in own or one["ended"] == "COMMIT"] if own else found

    @cached_property
    def stored(self) -> list[Row]:
        """Those of tasks."""
        return [one for one in self.all_stored if not self.is_alteration(one)]

    # -- offsets that were altered or reset on request
    @cached_property
    def requests(self) -> list[Row]:
        asked = [json.loads(op["detail"]) for op in self.ops if op["f"] == "rest" and op["type"] != "fail"]
        return [one for one in asked if one["path"].endswith("/offsets") and one["method"] in ("PATCH", "DELETE")]

    def is_alteration(self, one: Row) -> bool:
        if any(other["kind"] == "record" and self.producer(other) == self.producer(one) for other in self.log):
            return False
        if one["number"] == -1:
            return any(request["method"] == "DELETE" for request in self.requests)
        return any([one["name"], one["number"]] in request.get("altered", ()) for request in self.requests)

    @staticmethod
    def producer(one: Row) -> tuple[int, int]:
        return one["producer_id"], one["producer_epoch"]

    @cached_property
    def judged(self) -> bool:
        """Whether it is known which records came before an alteration."""
        if not self.requests:
            return True
        said = all("altered" in one or one["method"] == "DELETE" for one in self.requests)
        places = {
            one["name"]: {other["partition"] for other in self.all_stored if other["name"] == one["name"]} for one in self.log
        }
        plain = any(one["ended"] == "plain" for one in (*self.all_stored, *(row for row in self.log if row["kind"] == "record")))
        return said and not plain and all(len(one) <= 1 for one in places.values())

    def part(self, one: Row) -> tuple[str, int] | None:
        """The source, and how many alterations of it lie before a stored offset, or before that of a record;
        None: there is no such offset."""
        if not self.requests:
            return one["name"], 0
        if one["kind"] == "record":
            row = next((other for other in self.log if place(other) == place(one)), one)
            mine = [other for other in self.stored if other["name"] == one["name"] and self.producer(other) == self.producer(row)]
            mine = [other for other in mine if other["number"] >= one["number"]]
            if not mine:
                return None
            one = min(mine, key=lambda other: other["number"])
        before = [
            other
            for other in self.all_stored
            if other["name"] == one["name"] and other["offset"] < one["offset"] and self.is_alteration(other)
        ]
        return one["name"], len(before)

    @cached_property
    def known(self) -> list[Row]:
        """Visible records of sources of which every one has a part."""
        partial = {one["name"] for one in self.visible if self.part(one) is None}
        return [one for one in self.visible if one["name"] not in partial]

    def parts(self) -> list[tuple[str, int]]:
        return sorted({part for one in self.known if (part := self.part(one))})

    def positions(self, part: tuple[str, int]) -> list[int]:
        return [one["number"] for one in self.known if self.part(one) == part]


def marker(row: Row) -> bool:
    return row["kind"] in ("COMMIT", "ABORT")


def place(row: Row) -> Place:
    return row["partition"], row["offset"]


def source_duplicates(h: SourceHistory) -> Found:
    if not h.judged:
        return set()
    return {
        place(one) for part in h.parts() for one in h.known if h.part(one) == part and h.positions(part).count(one["number"]) > 1
    }


def source_losses(h: SourceHistory) -> Found:
    """(source, how many alterations lie before, position)."""
    missing = set()
    for part in h.parts() if h.judged else ():
        there = set(h.positions(part))
        last = max(there | {one["number"] for one in h.stored if h.part(one) == part})
        missing |= {(*part, number) for number in range(min(there), last + 1) if number not in there}
    return missing


def source_offsets_torn(h: SourceHistory) -> Found:
    """Places of records."""
    if not h.judged or not any(one["number"] >= 0 for one in h.stored):
        return set()
    return {place(one) for one in h.committed if torn(h, one)}


def torn(h: SourceHistory, record: Row) -> bool:
    mine = [one for one in h.stored if one["name"] == record["name"] and h.part(record) in (None, h.part(one))]
    stretches: list[list[Row]] = []
    for one in mine:
        before = stretches[-1][-1] if stretches else None
        if before is None or (one["partition"] == before["partition"] and one["number"] < before["number"]):
            stretches.append([])
        stretches[-1].append(one)
    return all(torn_from(h, record, some) for some in (mine, *stretches))


def torn_from(h: SourceHistory, record: Row, stored: list[Row]) -> bool:
    """Whether a record is not in the transaction of its offset, of some stored offsets of its source."""
    own = offsets_of(record, stored)
    if record["ended"] == "plain" or not own:
        return True
    if not any(all(record[key] == one[key] for key in ("producer_id", "producer_epoch")) for one in own):
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
    fit = [one for one in stored if one["number"] >= record["number"]]
    return [one for one in fit if one["number"] == min(other["number"] for other in fit)]


def reach(record: Row, stored: list[Row]) -> float:
    own = offsets_of(record, stored)
    return own[0]["number"] if own else float("inf")


def source_offset_regressions(h: SourceHistory) -> Found:
    """Places of offsets."""
    found = set()
    if not h.judged or not any(one["number"] >= 0 for one in h.stored):
        return found
    for at, one in enumerate(h.stored):
        before = [other for other in h.stored[:at] if h.part(other) == h.part(one) and other["partition"] == one["partition"]]
        if before and before[-1]["number"] > one["number"]:
            found.add(place(one))
    return found


TWINS: Mapping[str, Callable[[SourceHistory], Found]] = {
    "source-duplicate": source_duplicates,
    "source-loss": source_losses,
    "source-offset-torn": source_offsets_torn,
    "source-offset-regression": source_offset_regressions,
}


def by_records(findings: Sequence[Mapping[str, Any]], h: SourceHistory) -> dict[str, Found]:
    """Findings in the form of their twins' answers."""
    entries = {place(one): one for one in (*h.log, *h.visible)}
    found: dict[str, Found] = {name: set() for name in TWINS}
    for one in findings:
        name, rows = one["anomaly"], one["records"]
        known = sorted((entries[place(row)] for row in rows), key=lambda entry: entry["number"])
        if name == "source-loss":
            last = known[-1]["number"] - (known[-1]["kind"] == "record")
            part = h.part(known[0])
            found[name] |= {(*part, number) for number in range(known[0]["number"] + 1, last + 1)}
        elif name == "source-offset-regression":
            found[name].add(place(known[0]))
        elif name in found:
            found[name] |= {place(row) for row in rows if row["role"] == "read"}
    return found
