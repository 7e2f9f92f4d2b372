"""The anomalies of source connectors once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

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
    def stored(self) -> list[Row]:
        """Committed offsets; without copies in the workers' topic, where the connector has one of its own."""
        found = [one for one in self.log if one["kind"] == "offset" and one["ended"] in ("plain", "COMMIT")]
        own = [one for one in found if "connect-offsets-" not in one["partition"]]
        return [one for one in found if one in own or one["ended"] == "COMMIT"] if own else found

    def names(self) -> list[str]:
        return sorted({one["name"] for one in (*self.visible, *self.committed, *self.stored)})

    def positions(self, name: str) -> list[int]:
        return [one["number"] for one in self.visible if one["name"] == name]


def marker(row: Row) -> bool:
    return row["kind"] in ("COMMIT", "ABORT")


def place(row: Row) -> Place:
    return row["partition"], row["offset"]


def source_duplicates(h: SourceHistory) -> Found:
    return {place(one) for one in h.visible if h.positions(one["name"]).count(one["number"]) > 1}


def source_losses(h: SourceHistory) -> Found:
    """(source, position)."""
    missing = set()
    for name in h.names():
        there = set(h.positions(name))
        if there:
            last = max(there | {one["number"] for one in h.stored if one["name"] == name})
            missing |= {(name, number) for number in range(min(there), last + 1) if number not in there}
    return missing


def source_offsets_torn(h: SourceHistory) -> Found:
    """Places of records."""
    if not any(one["number"] >= 0 for one in h.stored):
        return set()
    return {place(one) for one in h.committed if torn(h, one)}


def torn(h: SourceHistory, record: Row) -> bool:
    own = offsets_of(h, record)
    if record["ended"] == "plain" or not own:
        return True
    if not any(all(record[key] == one[key] for key in ("producer_id", "producer_epoch")) for one in own):
        return True
    together = [
        other
        for other in h.committed
        if all(other[key] == record[key] for key in ("name", "partition", "producer_id", "txn")) and other["ended"] == "COMMIT"
    ]
    return max(reach(h, other) for other in together) != own[0]["number"]


def offsets_of(h: SourceHistory, record: Row) -> list[Row]:
    """The stored offsets with one of which a record is committed: the lowest that reach so far."""
    fit = [one for one in h.stored if one["name"] == record["name"] and one["number"] >= record["number"]]
    return [one for one in fit if one["number"] == min(other["number"] for other in fit)]


def reach(h: SourceHistory, record: Row) -> float:
    own = offsets_of(h, record)
    return own[0]["number"] if own else float("inf")


def source_offset_regressions(h: SourceHistory) -> Found:
    """Places of offsets."""
    found = set()
    for at, one in enumerate(h.stored):
        before = [other for other in h.stored[:at] if all(other[key] == one[key] for key in ("name", "partition"))]
        if any(other["number"] > one["number"] for other in before):
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
            found[name] |= {(known[0]["name"], number) for number in range(known[0]["number"] + 1, last + 1)}
        elif name == "source-offset-regression":
            found[name].add(place(known[0]))
        elif name in found:
            found[name] |= {place(row) for row in rows if row["role"] == "read"}
    return found
