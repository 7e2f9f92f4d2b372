"""The anomalies of programs of somebody's own once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from fencepost.harness.api import record_ids
from support.pipeline_reference import PipelineHistory
from support.reference import READ_COMMITTED, Found, Row

NONE, END = -1, 1 << 40


class ApplicationHistory(PipelineHistory):
    """A history with the outputs of a program, and what it declares (`drain`)."""

    @cached_property
    def declared(self) -> Mapping[str, Any]:
        return [json.loads(op["detail"]) for op in self.ops if op["f"] == "drain"][-1]  # type: ignore[no-any-return]

    @cached_property
    def outputs(self) -> list[Row]:
        """What read_committed readers got, a row for each time."""
        return [
            {**output, "final": op["final"]}
            for op in self.ops
            if op["isolation"] == READ_COMMITTED
            for output in op.get("outputs") or ()
        ]

    def whole(self, partition: str) -> bool:
        return partition in self.judged and not self.stalled(partition)

    @cached_property
    def finally_there(self) -> set[tuple[str, int, int]]:
        """(partition, offset, v) of the outputs that complete final reads returned."""
        return {place(one) for one in self.outputs if one["final"] and self.whole(one["partition"])}

    @cached_property
    def counted(self) -> dict[tuple[str, int], int]:
        """What the outputs at (partition, offset) say of the program's state."""
        return {(one["partition"], one["offset"]): one["count"] for op in self.ops for one in op.get("counts") or ()}

    @cached_property
    def inputs(self) -> dict[int, tuple[str, int]]:
        """Visible inputs: identity -> partition and offset."""
        places = {v: (self.home[v]["p"], min(self.places[v])) for v in self.seen_committed if v in self.home}
        return {v: at for v, at in places.items() if at[0] not in self.declared["output_partitions"]}

    def count(self, v: int) -> int:
        return sum(one[2] == v for one in self.finally_there)

    def claimed(self, v: int) -> bool:
        """Whether the program must have processed an input."""
        partition, offset = self.inputs[v]
        if self.declared["group"]:
            return offset < self.at_end.get(partition, -1)
        return bool(self.declared["drained"])


def place(one: Row) -> tuple[str, int, int]:
    return one["partition"], one["offset"], one["v"]


def reprocessed(h: ApplicationHistory) -> Found:
    return {v for v in h.inputs if h.count(v) > h.declared["outputs"][1]}


def unprocessed(h: ApplicationHistory) -> Found:
    if not all(h.whole(partition) for partition in h.declared["output_partitions"]):
        return set()
    return {v for v in h.inputs if h.claimed(v) and h.count(v) < h.declared["outputs"][0]}


def phantom_outputs(h: ApplicationHistory) -> Found:
    found = set()
    for one in h.outputs:
        sent = h.home.get(one["v"])
        status = h.status(sent) if sent else "nobody"
        unknown = status == "info" and not (sent and h.whole(sent["p"]))
        if one["v"] not in h.inputs and status != "ok" and not unknown:
            found.add(place(one)[:2])
    return found


def output_orders(h: ApplicationHistory) -> Found:
    if not h.declared["ordered"]:
        return set()
    first: dict[tuple[str, int], int] = {}
    for partition, offset, v in sorted(h.finally_there):
        if v in h.inputs:
            first.setdefault((partition, v), offset)
    found = set()
    for (partition, v), offset in first.items():
        mine = [(h.inputs[w][1], at) for (p, w), at in first.items() if p == partition and at < offset and key(h, w) == key(h, v)]
        if mine and max(mine)[0] > h.inputs[v][1]:
            found.add((partition, max(mine)[1], offset))
    return found


def torn_states(h: ApplicationHistory) -> Found:
    if not h.declared.get("counts") or not all(h.whole(partition) for partition in h.declared["output_partitions"]):
        return set()
    if any(v not in h.inputs or (partition, offset) not in h.counted for partition, offset, v in h.finally_there):
        return set()
    first: dict[int, tuple[str, int]] = {}
    for partition, offset, v in sorted(h.finally_there):
        first.setdefault(v, (partition, offset))
    found = set()
    for mine in {key(h, v) for v in first}:
        said = sorted((h.counted[at], *at) for v, at in first.items() if key(h, v) == mine)
        for before, now in pairwise([(0, "", NONE), *said]):
            if now[0] != before[0] + 1:
                found.add((*sorted(one[1:] for one in (before, now) if one[1]),))
    return found


def key(h: ApplicationHistory, v: int) -> tuple[str, int, int]:
    return h.inputs[v][0], record_ids.process_of(v), record_ids.key_number_of(v, h.declared.get("keys", 1))


def vanished_outputs(h: ApplicationHistory) -> Found:
    return {
        place(one)[:2]
        for one in h.outputs
        if not one["final"] and h.whole(one["partition"]) and place(one) not in h.finally_there
    }


# -- stores and changelogs ---------------------------------------------------------------------------
def log_of(h: ApplicationHistory, partition: str) -> list[Row]:
    """A changelog, by offset."""
    entries = [one for op in h.ops if op["f"] == "read-log" for one in op.get("entries") or ()]
    rows = {one["offset"]: one for one in entries if one["partition"] == partition}
    return [rows[at] for at in sorted(rows)]


def fate(log: Sequence[Row], one: Row) -> str:
    """plain, COMMIT, ABORT or open: how the transaction of a record ended."""
    after = [row for row in log if row["offset"] > one["offset"] and row["producer_id"] == one["producer_id"]]
    markers = [row["kind"] for row in after if row["kind"] in ("COMMIT", "ABORT")]
    return "plain" if not one["transactional"] else markers[0] if markers else "open"


def values(log: Sequence[Row], position: int) -> tuple[dict[str, Row], set[str]]:
    """The last committed record of each key below a position; and the keys of which nobody knows it."""
    records = [one for one in log if one["name"] and one["offset"] < position]
    open_keys = {one["name"] for one in records if fate(log, one) == "open"}
    return {one["name"]: one for one in records if fate(log, one) in ("plain", "COMMIT")}, open_keys


def store_divergences(h: ApplicationHistory) -> Found:
    found = set()
    for op in h.ops:
        rows = op.get("entries") or ()
        if op["f"] != "read-store" or not rows or rows[0]["number"] == NONE:
            continue
        log = log_of(h, rows[0]["partition"].partition(":")[2])
        if not log or [one["offset"] for one in log] != list(range(len(log))) or rows[0]["number"] > len(log):
            continue
        last, unknown = values([one for one in log if one["offset"] < rows[0]["number"] or not one["name"]], rows[0]["number"])
        there = {one["name"]: one for one in last.values() if one["kind"] != "removed"}
        mine = {one["name"]: one for one in rows[1:]}
        for name in {*there, *mine} - unknown:
            pair = [one for one in (mine.get(name), there.get(name)) if one]
            said = [(one["kind"], one["number"]) for one in pair]
            if (len(said) == 1 or said[0] != said[1]) and "strange" not in dict(said):
                found |= {place_of(one) for one in (rows[0], *pair)}
    return found


def wrong_states(h: ApplicationHistory) -> Found:
    if any(op["f"] == "read-log" and op["type"] != "ok" for op in h.ops):
        return set()
    logs = {one["partition"] for op in h.ops if op["f"] == "read-log" for one in op.get("entries") or ()}
    said: dict[str, Row] = {}
    unknown: set[str] = set()
    for partition in logs:
        last, undecided = values(log_of(h, partition), END)
        said |= last
        unknown |= undecided
    if not any(one["kind"] in ("counted", "last") for name, one in said.items() if name not in unknown):
        return set()  # nothing that is decided tells what the values mean
    claimed = sorted((v for v in h.inputs if h.claimed(v)), key=lambda v: h.inputs[v])
    known = set(h.at_end) if h.declared["group"] else {h.inputs[v][0] for v in claimed}
    names = {v: "/".join(map(str, key(h, v))) for v in claimed}
    found = set()
    for name in ({*said, *names.values()} - unknown) if claimed else ():
        mine, record = [v for v in claimed if names[v] == name], said.get(name)
        partition = name.split("/")[0]
        if partition not in known or not h.whole(partition) or (record and record["kind"] == "strange"):
            continue
        if not right(record, mine):
            found |= {place_of(record)} if record else set()
            found |= {h.inputs[mine[-1]]} if mine else set()
    return found


def right(record: Row | None, inputs: Sequence[int]) -> bool:
    if record is None or record["kind"] == "removed":
        return not inputs
    return bool(inputs) and record["number"] == (len(inputs) if record["kind"] == "counted" else inputs[-1])


def place_of(one: Row) -> tuple[str, int]:
    return one["partition"], one["offset"]


TWINS: dict[str, Callable[[ApplicationHistory], Found]] = {
    "phantom-output": phantom_outputs,
    "output-order": output_orders,
    "torn-state": torn_states,
    "store-divergence": store_divergences,
    "wrong-state": wrong_states,
    "vanished-output": vanished_outputs,
}
FROM_OUTSIDE = {**TWINS, "reprocessed": reprocessed, "unprocessed": unprocessed}


def by_records(findings: Sequence[Mapping[str, Any]]) -> dict[str, Found]:
    """The checker's findings in the form that the functions here return."""
    found: dict[str, Found] = {name: set() for name in FROM_OUTSIDE}
    for one in findings:
        name, records = one["anomaly"], one["records"]
        read = [(record["partition"], record["offset"]) for record in records if record["role"] == "read"]
        if name in ("reprocessed", "unprocessed"):
            role = "sent" if name == "reprocessed" else "missing"
            found[name] |= {record["v"] for record in records if record["role"] == role}
        elif name == "output-order":
            found[name] |= {(*min(read), offset) for _, offset in sorted(read)[1:]}
        elif name == "torn-state":
            found[name].add(tuple(sorted(read)))
        elif name in ("store-divergence", "wrong-state"):
            found[name] |= {(record["partition"], record["offset"]) for record in records}
        elif name in found:
            found[name] |= set(read)
    return found
