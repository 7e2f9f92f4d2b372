"""The anomalies of pipelines once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

from support.reference import READ_COMMITTED, FlatHistory, Found, Row, false_acks


class PipelineHistory(FlatHistory):
    """A history of a pipeline: what its operations processed (`chains`) and committed (`offsets`)."""

    @cached_property
    def chains(self) -> list[Row]:
        return [{**chain, "op": number} for number, op in enumerate(self.ops) for chain in op.get("chains") or ()]

    @cached_property
    def at_end(self) -> dict[str, int]:
        """The group's offsets as they were at the end; -1 where it had none."""
        found: dict[str, int] = {}
        for op in self.ops:
            if op["f"] == "group-offsets" and op["type"] == "ok":
                offsets = json.loads(op["detail"])["offsets"].items()
                found |= {partition: -1 if offset is None else offset for partition, offset in offsets}
        return found

    @cached_property
    def read_back(self) -> bool:
        """Whether every partition of inputs and outputs has a complete final read that nothing is hidden from."""
        partitions = {chain["partition"] for chain in self.chains}
        partitions |= {self.home[chain["output"]]["p"] for chain in self.chains if chain["output"] in self.home}
        return all(partition in self.judged and not self.stalled(partition) for partition in partitions)

    def stalled(self, partition: str) -> bool:
        lso, high = self.settled.get(partition, (0, 0))
        reach = min(self.ends(partition, READ_COMMITTED))
        return lso < high or reach < max(self.ends(partition, "read_uncommitted"), default=0)

    def visible(self, v: int | None) -> bool:
        return v in self.seen_committed

    def fate(self, number: int) -> str:
        """ok, fail or info: of a transaction by what its client and its readers know."""
        outputs = [chain["output"] for chain in self.chains if chain["op"] == number and chain["output"] is not None]
        if any(self.visible(output) for output in outputs):
            return "ok"
        known = self.status({"op": number})
        if not outputs or not self.read_back:
            return known
        false = known == "ok" and not self.falsely_acknowledged.isdisjoint(outputs)
        return "info" if false else "fail" if known == "info" else known

    @cached_property
    def falsely_acknowledged(self) -> set[int]:
        return set(false_acks(self))

    @cached_property
    def commits(self) -> list[Row]:
        """Every offset that an operation was to commit, with its fate and times."""
        return [
            {**one, "op": number, "fate": self.fate(number), "began": op["time"], "ended": op["end"], "process": op["process"]}
            for number, op in enumerate(self.ops)
            for one in op.get("offsets") or ()
        ]

    @cached_property
    def looks(self) -> list[Row]:
        """What members were told of the group's offsets."""
        asked = [(number, op) for number, op in enumerate(self.ops) if op["f"] == "committed" and op["type"] == "ok"]
        return [
            {"op": number, "partition": partition, "offset": offset, "began": op["time"], "ended": op["end"]}
            for number, op in asked
            for partition, offset in json.loads(op["detail"])["offsets"].items()
        ]

    def assigned_between(self, process: int, partition: str, first: int, last: int) -> bool:
        """Whether a rebalance assigned a partition to a process after one operation, and up to another."""
        for op in self.ops[first + 1 : last + 1]:
            events = json.loads(op["detail"] or "{}").get("rebalances", []) if op["f"] in ("poll", "txn", "seek") else []
            if op["process"] == process and any(kind == "assigned" and partition in some for kind, some in events):
                return True
        return False


def reprocessed(h: PipelineHistory) -> Found:
    makers: dict[int, set[int]] = {}
    for chain in h.chains:
        if h.visible(chain["output"]):
            makers.setdefault(chain["v"], set()).add(chain["op"])
    return {v for v, ops in makers.items() if len(ops) > 1}


def unprocessed(h: PipelineHistory) -> Found:
    found: Found = set()
    for v in h.seen_committed if h.read_back and h.chains else ():
        where = h.place[v]
        if where is None or where >= h.at_end.get(h.home[v]["p"], -1):
            continue
        attempts = [_attempt(h, v, op) for op in {chain["op"] for chain in h.chains if chain["v"] == v}]
        if True not in attempts and None not in attempts:
            found.add(v)
    return found


def _attempt(h: PipelineHistory, v: int, number: int) -> bool | None:
    """Whether an operation has processed an input record; None: nobody knows."""
    outputs = [chain["output"] for chain in h.chains if chain["op"] == number and chain["v"] == v]
    if outputs != [None]:
        return all(h.visible(output) for output in outputs)
    proven = h.status({"op": number}) == "ok" or h.fate(number) == "ok"
    return True if proven else None if h.status({"op": number}) == "info" else False


def torn_offsets(h: PipelineHistory) -> Found:
    found = set()
    for one in h.commits:
        end = h.at_end.get(one["partition"])
        same = {other["fate"] for other in h.commits if other["partition"] == one["partition"] and other["offset"] == end}
        last = [other["began"] for other in _known(h) if (other["partition"], other["offset"]) == (one["partition"], end)]
        lowered = one["ended"] is not None and one["ended"] < max(last, default=0)
        if end is not None and one["fate"] == "ok" and one["offset"] > end and not lowered:
            found.add((one["op"], one["partition"]))
        if end is not None and one["offset"] == end and same == {"fail"}:
            found.add((one["op"], one["partition"]))
    for look in h.looks:
        by = [one for one in h.commits if (one["partition"], one["offset"]) == (look["partition"], look["offset"])]
        by = sorted((one for one in by if one["began"] <= look["ended"]), key=lambda one: one["began"])
        if by and all(one["fate"] == "fail" for one in by):
            found |= {(by[0]["op"], look["partition"]), (look["op"], look["partition"])}
    return found


def _known(h: PipelineHistory) -> list[Row]:
    return [one for one in h.commits if one["fate"] == "ok" and one["ended"] is not None]


def offset_regressions(h: PipelineHistory) -> Found:
    return {
        (later["op"], later["partition"])
        for later in _known(h)
        for earlier in _known(h)
        if earlier["partition"] == later["partition"]
        and earlier["ended"] < later["began"]
        and earlier["offset"] > later["offset"]
    }


def stale_offsets(h: PipelineHistory) -> Found:
    return {
        (look["op"], look["partition"])
        for look in h.looks
        for earlier in _known(h)
        if earlier["partition"] == look["partition"] and earlier["ended"] < look["began"]
        if look["offset"] is None or earlier["offset"] > look["offset"]
    }


def double_ownerships(h: PipelineHistory) -> Found:
    found = set()
    known = sorted(_known(h), key=lambda one: one["began"])
    for first, second in combinations(known, 2):
        mine = [one for one in known if one["partition"] == first["partition"] == second["partition"]]
        own = [one["op"] for one in mine if one["process"] == first["process"] == second["process"]]
        if second["op"] not in own or own.index(second["op"]) != own.index(first["op"]) + 1:
            continue
        others = [one for one in mine if first["ended"] < one["began"] and one["ended"] < second["began"]]
        apart = any(one["process"] != first["process"] for one in others)
        if apart and not h.assigned_between(first["process"], first["partition"], first["op"], second["op"]):
            found.add((second["op"], second["partition"]))
    return found


def dirty_offsets(h: PipelineHistory) -> Found:
    found = set()
    for look in h.looks:
        by = [one for one in h.commits if (one["partition"], one["offset"]) == (look["partition"], look["offset"])]
        by = [one for one in by if one["began"] <= look["ended"] and h.status(one) != "fail"]
        ops = [h.ops[one["op"]] for one in by]
        asked = [op for op in ops if op["end"] is None or (op["decided"] is not None and op["decided"] <= look["ended"])]
        if ops and not asked:
            found.add((look["op"], look["partition"]))
    return found


def offset_edges(h: PipelineHistory) -> set[tuple[int, int, str, str]]:
    """(from, to, kind, partition) of the graph's edges through the group's offsets, as docs/graphs.md defines them."""
    found = set()
    for partition in {one["partition"] for one in h.commits}:
        mine = [one for one in h.commits if one["partition"] == partition]
        follows = {one["op"]: _base(h, one, mine) for one in mine}
        found |= {(base["op"], op, "wr", partition) for op, base in follows.items() if base}
        next_of = {}
        for base in (base for base in follows.values() if base):
            after = [one for one in mine if h.status(one) == "ok" and follows[one["op"]] == base]
            if len(after) == 1:
                next_of[base["op"]] = after[0]["op"]
        found |= {(op, after, "ww", partition) for op, after in next_of.items()}
        for number, ended, offset in _fetches(h, partition):
            owner = _owner(h, offset, mine)
            if owner and owner["began"] < ended:
                found.add((owner["op"], number, "wr", partition))
                found |= {(number, next_of[owner["op"]], "rw", partition)} if owner["op"] in next_of else set()
    return found


def _owner(h: PipelineHistory, offset: int, mine: Sequence[Row]) -> Row | None:
    """The one transaction that may have committed an offset."""
    some = [one for one in mine if one["offset"] == offset and h.status(one) != "fail"]
    return some[0] if len(some) == 1 else None


def _base(h: PipelineHistory, one: Row, mine: Sequence[Row]) -> Row | None:
    """The transaction at whose offset the inputs of another one begin."""
    inputs = [chain["offset"] for chain in h.chains if chain["op"] == one["op"] and chain["partition"] == one["partition"]]
    below = [other["offset"] for other in mine if inputs and h.status(other) == "ok" and other["offset"] <= min(inputs)]
    owner = _owner(h, max(below), mine) if below else None
    possible = owner and owner["op"] != one["op"] and (one["ended"] is None or owner["began"] < one["ended"])
    return owner if possible else None


def _fetches(h: PipelineHistory, partition: str) -> list[tuple[int, int, int]]:
    """(operation, its end, offset) of whoever fetched the group's offset of a partition."""
    asked = [(number, op) for number, op in enumerate(h.ops) if op["f"] in ("committed", "group-offsets") and op["type"] == "ok"]
    told = [(number, op["end"], json.loads(op["detail"])["offsets"].get(partition)) for number, op in asked]
    return [(number, end, offset) for number, end, offset in told if offset is not None]


TWINS: dict[str, Callable[[PipelineHistory], Found]] = {
    "reprocessed": reprocessed,
    "unprocessed": unprocessed,
    "torn-offset": torn_offsets,
    "offset-regression": offset_regressions,
    "stale-offset": stale_offsets,
    "dirty-offset": dirty_offsets,
    "double-ownership": double_ownerships,
}


def by_records(findings: Sequence[Mapping[str, Any]]) -> dict[str, Found]:
    """The checker's findings in the form that the functions here return."""
    found: dict[str, Found] = {name: set() for name in TWINS}
    for one in findings:
        name, records = one["anomaly"], one["records"]
        if name in ("reprocessed", "unprocessed"):
            role = "read" if name == "reprocessed" else "missing"
            found[name] |= {record["v"] for record in records if record["role"] == role}
        elif name == "torn-offset":
            found[name] |= {(record["operation"], record["partition"]) for record in records}
        elif name == "dirty-offset":
            found[name] |= {(record["operation"], record["partition"]) for record in records if record["role"] == "read"}
        elif name == "stale-offset":
            found[name] |= {(record["operation"], record["partition"]) for record in records if record["role"] == "missing"}
        elif name in ("offset-regression", "double-ownership"):
            last = max((record for record in records if record["role"] == "sent"), key=lambda record: record["operation"])
            found[name] |= {(last["operation"], record["partition"]) for record in records}
    return found
