"""The anomalies of programs of somebody's own once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from fencepost.harness.api import record_ids
from support.pipeline_reference import PipelineHistory
from support.reference import READ_COMMITTED, Matches, Row

NONE, END = -1, 1 << 40


class ApplicationHistory(PipelineHistory):
    """A history with the outputs of a program, and what it declares (`drain`)."""

    @cached_property
    def declared(self) -> Mapping[str, Any]:
        return [json.loads(op["detail"]) for op in self.ops if op["f"] == "drain"][-1]  # type: ignore[no-any-return]

    @cached_property
    def outputs(self) -> list[Row]:
        """Outputs as read_committed readers got them, a row for each time."""
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
        return {place(output) for output in self.outputs if output["final"] and self.whole(output["partition"])}

    @cached_property
    def shown(self) -> set[tuple[str, int, int]]:
        """The same of all final reads, complete or not."""
        return {place(output) for output in self.outputs if output["final"]}

    @cached_property
    def counted(self) -> dict[tuple[str, int], int]:
        """Count of its key that the output at each (partition, offset) carries."""
        return {(output["partition"], output["offset"]): output["count"] for op in self.ops for output in op.get("counts") or ()}

    @cached_property
    def inputs(self) -> dict[int, tuple[str, int]]:
        """Visible inputs: identity -> partition and offset."""
        places = {v: (self.home[v]["p"], min(self.places[v])) for v in self.seen_committed if v in self.home}
        return {v: at for v, at in places.items() if at[0] not in self.declared["output_partitions"]}

    def count(self, v: int) -> int:
        return sum(output[2] == v for output in self.finally_there)

    def claimed(self, v: int) -> bool:
        """True if the program must have processed an input."""
        partition, offset = self.inputs[v]
        if self.declared["group"]:
            return offset < self.at_end.get(partition, -1)
        return bool(self.declared["drained"])


def place(output: Row) -> tuple[str, int, int]:
    return output["partition"], output["offset"], output["v"]


def reprocessed(h: ApplicationHistory) -> Matches:
    return {v for v in h.inputs if sum(output[2] == v for output in h.shown) > h.declared["outputs"][1]}


def unprocessed(h: ApplicationHistory) -> Matches:
    if not all(h.whole(partition) for partition in h.declared["output_partitions"]):
        return set()
    return {v for v in h.inputs if h.claimed(v) and h.count(v) < h.declared["outputs"][0]}


def phantom_outputs(h: ApplicationHistory) -> Matches:
    matches = set()
    for output in h.outputs:
        sent = h.home.get(output["v"])
        status = h.status(sent) if sent else "unsent"
        unknown = status == "info" and not (sent and h.whole(sent["p"]))
        if output["v"] not in h.inputs and status != "ok" and not unknown:
            matches.add(place(output)[:2])
    return matches


def output_orders(h: ApplicationHistory) -> Matches:
    if not h.declared["ordered"]:
        return set()
    first: dict[tuple[str, int], int] = {}
    for partition, offset, v in sorted(h.shown):
        if v in h.inputs:
            first.setdefault((partition, v), offset)
    matches = set()
    for (partition, v), offset in first.items():
        mine = [(h.inputs[w][1], at) for (p, w), at in first.items() if p == partition and at < offset and key(h, w) == key(h, v)]
        if mine and max(mine)[0] > h.inputs[v][1]:
            matches.add((partition, max(mine)[1], offset))
    return matches


def torn_states(h: ApplicationHistory) -> Matches:
    if not h.declared.get("counts") or not all(h.whole(partition) for partition in h.declared["output_partitions"]):
        return set()
    if any(v not in h.inputs or (partition, offset) not in h.counted for partition, offset, v in h.finally_there):
        return set()
    first: dict[int, tuple[str, int]] = {}
    for partition, offset, v in sorted(h.finally_there):
        first.setdefault(v, (partition, offset))
    matches = set()
    for mine in {key(h, v) for v in first}:
        counts = sorted((h.counted[at], *at) for v, at in first.items() if key(h, v) == mine)
        for before, now in pairwise([(0, "", NONE), *counts]):
            if now[0] != before[0] + 1:
                matches.add((*sorted(output[1:] for output in (before, now) if output[1]),))
    return matches


def key(h: ApplicationHistory, v: int) -> tuple[str, int, int]:
    return h.inputs[v][0], record_ids.process_of(v), record_ids.key_number_of(v, h.declared.get("keys", 1))


def vanished_outputs(h: ApplicationHistory) -> Matches:
    return {
        place(output)[:2]
        for output in h.outputs
        if not output["final"] and h.whole(output["partition"]) and place(output) not in h.finally_there
    }


# -- stores and changelogs ---------------------------------------------------------------------------
def log_of(h: ApplicationHistory, partition: str) -> list[Row]:
    """A changelog, by offset."""
    entries = [entry for op in h.ops if op["f"] == "read-log" for entry in op.get("entries") or ()]
    rows = {entry["offset"]: entry for entry in entries if entry["partition"] == partition}
    return [rows[at] for at in sorted(rows)]


def fate(log: Sequence[Row], record: Row) -> str:
    """plain, COMMIT, ABORT or open: how the transaction of a record ended."""
    after = [row for row in log if row["offset"] > record["offset"] and row["producer_id"] == record["producer_id"]]
    markers = [row["kind"] for row in after if row["kind"] in ("COMMIT", "ABORT")]
    return "plain" if not record["transactional"] else markers[0] if markers else "open"


def values(log: Sequence[Row], position: int) -> tuple[dict[str, Row], set[str]]:
    """The last committed record of each key below a position; and the keys for which it is unknown."""
    records = [record for record in log if record["name"] and record["offset"] < position]
    open_keys = {record["name"] for record in records if fate(log, record) == "open"}
    return {record["name"]: record for record in records if fate(log, record) in ("plain", "COMMIT")}, open_keys


def store_divergences(h: ApplicationHistory) -> Matches:
    matches = set()
    for op in h.ops:
        rows = op.get("entries") or ()
        if op["f"] != "read-store" or not rows or rows[0]["number"] == NONE:
            continue
        log = log_of(h, rows[0]["partition"].partition(":")[2])
        if not log or [record["offset"] for record in log] != list(range(len(log))) or rows[0]["number"] > len(log):
            continue
        last, unknown = values(
            [record for record in log if record["offset"] < rows[0]["number"] or not record["name"]], rows[0]["number"]
        )
        there = {record["name"]: record for record in last.values() if record["kind"] != "removed"}
        mine = {entry["name"]: entry for entry in rows[1:] if entry["kind"] != "removed"}
        for name in {*there, *mine} - unknown:
            pair = [entry for entry in (mine.get(name), there.get(name)) if entry]
            states = [(entry["kind"], entry["number"]) for entry in pair]
            if (len(states) == 1 or states[0] != states[1]) and "strange" not in dict(states):
                matches |= {place_of(entry) for entry in (rows[0], *pair)}
    return matches


def wrong_states(h: ApplicationHistory) -> Matches:
    if any(op["f"] == "read-log" and op["type"] != "ok" for op in h.ops):
        return set()
    logs = {entry["partition"] for op in h.ops if op["f"] == "read-log" for entry in op.get("entries") or ()}
    committed: dict[str, Row] = {}
    unknown: set[str] = set()
    for partition in logs:
        last, undecided = values(log_of(h, partition), END)
        committed |= last
        unknown |= undecided
    written = [entry["kind"] for partition in logs for entry in log_of(h, partition)]
    if "counted" not in written and "last" not in written:
        return set()  # nothing tells what the values mean
    claimed = sorted((v for v in h.inputs if h.claimed(v)), key=lambda v: h.inputs[v])
    known = set(h.at_end) if h.declared["group"] else {h.inputs[v][0] for v in claimed}
    names = {v: "/".join(map(str, key(h, v))) for v in claimed}
    matches = set()
    for name in ({*committed, *names.values()} - unknown) if claimed else ():
        mine, record = [v for v in claimed if names[v] == name], committed.get(name)
        partition = name.split("/")[0]
        if partition not in known or not h.whole(partition) or (record and record["kind"] == "strange"):
            continue
        if not right(record, mine):
            matches |= {place_of(record)} if record else set()
            matches |= {h.inputs[mine[-1]]} if mine else set()
    return matches


def right(record: Row | None, inputs: Sequence[int]) -> bool:
    if record is None or record["kind"] == "removed":
        return not inputs
    return bool(inputs) and record["number"] == (len(inputs) if record["kind"] == "counted" else inputs[-1])


def place_of(entry: Row) -> tuple[str, int]:
    return entry["partition"], entry["offset"]


TWINS: dict[str, Callable[[ApplicationHistory], Matches]] = {
    "phantom-output": phantom_outputs,
    "output-order": output_orders,
    "torn-state": torn_states,
    "store-divergence": store_divergences,
    "wrong-state": wrong_states,
    "vanished-output": vanished_outputs,
}
FROM_OUTSIDE = {**TWINS, "reprocessed": reprocessed, "unprocessed": unprocessed}


def by_records(findings: Sequence[Mapping[str, Any]]) -> dict[str, Matches]:
    """The checker's findings in the form that the functions here return."""
    matches: dict[str, Matches] = {name: set() for name in FROM_OUTSIDE}
    for finding in findings:
        name, records = finding["anomaly"], finding["records"]
        read = [(record["partition"], record["offset"]) for record in records if record["role"] == "read"]
        if name in ("reprocessed", "unprocessed"):
            role = "sent" if name == "reprocessed" else "missing"
            matches[name] |= {record["v"] for record in records if record["role"] == role}
        elif name == "output-order":
            matches[name] |= {(*min(read), offset) for _, offset in sorted(read)[1:]}
        elif name == "torn-state":
            matches[name].add(tuple(sorted(read)))
        elif name in ("store-divergence", "wrong-state"):
            matches[name] |= {(record["partition"], record["offset"]) for record in records}
        elif name in matches:
            matches[name] |= set(read)
    return matches
