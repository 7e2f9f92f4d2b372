"""The anomalies of pipelines once more, slowly and obviously, as `support.reference` has those of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

from support.reference import READ_COMMITTED, FlatHistory, Matches, Row, false_acks

TELLING = ("poll", "txn", "seek", "committed", "subscribe")  # operations that may tell of rebalances


class PipelineHistory(FlatHistory):
    """A history of a pipeline: what its operations processed (`chains`) and committed (`offsets`)."""

    @cached_property
    def chains(self) -> list[Row]:
        return [{**chain, "op": number} for number, op in enumerate(self.ops) for chain in op.get("chains") or ()]

    @cached_property
    def at_end(self) -> dict[str, int]:
        """The group's offsets as they were at the end; -1 where it had none. Not where several groups have different ones."""
        ends: dict[str, dict[str, int]] = {}
        for op in self.ops:
            if op["f"] == "group-offsets" and op["type"] == "ok":
                told = json.loads(op["detail"])
                for partition, offset in told["offsets"].items():
                    ends.setdefault(partition, {})[told["group"]] = -1 if offset is None else offset
        return {partition: min(some.values()) for partition, some in ends.items() if len({*some.values()}) == 1}

    @cached_property
    def read_back(self) -> bool:
        """True if every partition of inputs and outputs has a complete final read that nothing is hidden from."""
        partitions = {chain["partition"] for chain in self.chains}
        partitions |= {self.home[chain["output"]]["p"] for chain in self.chains if chain["output"] in self.home}
        return all(partition in self.judged and not self.stalled(partition) for partition in partitions)

    def stalled(self, partition: str) -> bool:
        lso, high = self.settled.get(partition, (0, 0))
        reach = min(self.ends(partition, READ_COMMITTED))
        return lso < high or reach < max(self.ends(partition, "read_uncommitted"), default=0)

    def visible(self, v: int | None) -> bool:
        if v is None or v not in self.seen_committed:
            return False
        send = self.home[v]
        return not (self.txn(send) and self.status(send) == "fail")

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
            {**commit, "op": number, "fate": self.fate(number), "began": op["time"], "ended": op["end"], "process": op["process"]}
            for number, op in enumerate(self.ops)
            for commit in op.get("offsets") or ()
        ]

    @cached_property
    def looks(self) -> list[Row]:
        """The group's offsets as members fetched them."""
        fetches = [(number, op) for number, op in enumerate(self.ops) if op["f"] == "committed" and op["type"] == "ok"]
        return [
            {"op": number, "partition": partition, "offset": offset, "began": op["time"], "ended": op["end"]}
            for number, op in fetches
            for partition, offset in json.loads(op["detail"])["offsets"].items()
        ]

    def assigned_between(self, process: int, partition: str, first: int, last: int) -> bool:
        """True if a rebalance assigned a partition to a process after one operation, and up to another."""
        for op in self.ops[first + 1 : last + 1]:
            events = json.loads(op["detail"] or "{}").get("rebalances", []) if op["f"] in TELLING else []
            if op["process"] == process and any(kind == "assigned" and partition in some for kind, some in events):
                return True
        return False


def reprocessed(h: PipelineHistory) -> Matches:
    makers: dict[int, set[int]] = {}
    for chain in h.chains:
        if h.visible(chain["output"]):
            makers.setdefault(chain["v"], set()).add(chain["op"])
    return {v for v, ops in makers.items() if len(ops) > 1}


def unprocessed(h: PipelineHistory) -> Matches:
    matches: Matches = set()
    for v in h.seen_committed if h.read_back and h.chains else ():
        where = h.place[v]
        if where is None or not h.visible(v) or where >= h.at_end.get(h.home[v]["p"], -1):
            continue
        attempts = [_attempt(h, v, op) for op in {chain["op"] for chain in h.chains if chain["v"] == v}]
        if True not in attempts and None not in attempts:
            matches.add(v)
    return matches


def _attempt(h: PipelineHistory, v: int, number: int) -> bool | None:
    """True if an operation has processed an input record; None: unknown."""
    outputs = [chain["output"] for chain in h.chains if chain["op"] == number and chain["v"] == v]
    if outputs != [None]:
        return all(h.visible(output) for output in outputs)
    proven = h.status({"op": number}) == "ok" or h.fate(number) == "ok"
    return True if proven else None if h.status({"op": number}) == "info" else False


def torn_offsets(h: PipelineHistory) -> Matches:
    matches = set()
    for commit in h.commits:
        end = h.at_end.get(commit["partition"])
        same = {other["fate"] for other in h.commits if other["partition"] == commit["partition"] and other["offset"] == end}
        last = [other["began"] for other in _known(h) if (other["partition"], other["offset"]) == (commit["partition"], end)]
        lowered = commit["ended"] is not None and commit["ended"] < max(last, default=0)
        if end is not None and commit["fate"] == "ok" and commit["offset"] > end and not lowered:
            matches.add((commit["op"], commit["partition"]))
        if end is not None and commit["offset"] == end and same == {"fail"}:
            matches.add((commit["op"], commit["partition"]))
    for look in h.looks:
        by = [commit for commit in h.commits if (commit["partition"], commit["offset"]) == (look["partition"], look["offset"])]
        by = sorted((commit for commit in by if commit["began"] <= look["ended"]), key=lambda commit: commit["began"])
        if by and all(commit["fate"] == "fail" for commit in by):
            matches |= {(by[0]["op"], look["partition"]), (look["op"], look["partition"])}
    return matches


def _known(h: PipelineHistory) -> list[Row]:
    return [commit for commit in h.commits if commit["fate"] == "ok" and commit["ended"] is not None]


def offset_regressions(h: PipelineHistory) -> Matches:
    return {
        (later["op"], later["partition"])
        for later in _known(h)
        for earlier in _known(h)
        if earlier["partition"] == later["partition"]
        and earlier["ended"] < later["began"]
        and earlier["offset"] > later["offset"]
    }


def stale_offsets(h: PipelineHistory) -> Matches:
    return {
        (look["op"], look["partition"])
        for look in h.looks
        for earlier in _known(h)
        if earlier["partition"] == look["partition"] and earlier["ended"] < look["began"]
        if look["offset"] is None or earlier["offset"] > look["offset"]
    }


def double_ownerships(h: PipelineHistory) -> Matches:
    matches = set()
    known = sorted(_known(h), key=lambda commit: commit["began"])
    for first, second in combinations(known, 2):
        mine = [commit for commit in known if commit["partition"] == first["partition"] == second["partition"]]
        own = [commit["op"] for commit in mine if commit["process"] == first["process"] == second["process"]]
        if second["op"] not in own or own.index(second["op"]) != own.index(first["op"]) + 1:
            continue
        others = [commit for commit in mine if first["ended"] < commit["began"] and commit["ended"] < second["began"]]
        apart = any(commit["process"] != first["process"] for commit in others)
        if apart and not h.assigned_between(first["process"], first["partition"], first["op"], second["op"]):
            matches.add((second["op"], second["partition"]))
    return matches


def dirty_offsets(h: PipelineHistory) -> Matches:
    matches = set()
    for look in h.looks:
        by = [commit for commit in h.commits if (commit["partition"], commit["offset"]) == (look["partition"], look["offset"])]
        by = [commit for commit in by if commit["began"] <= look["ended"] and h.status(commit) != "fail"]
        ops = [h.ops[commit["op"]] for commit in by]
        decided = [
            op
            for op in ops
            if (op["end"] is None and op["intent"] != "abort") or (op["decided"] is not None and op["decided"] <= look["ended"])
        ]
        if ops and not decided:
            matches.add((look["op"], look["partition"]))
    return matches


def phantom_offsets(h: PipelineHistory) -> Matches:
    matches = set()
    for number, op in enumerate(h.ops):
        if op["f"] not in ("committed", "group-offsets") or op["type"] != "ok":
            continue
        for partition, offset in json.loads(op["detail"])["offsets"].items():
            begun = [commit for commit in h.commits if commit["began"] <= op["end"]]
            if offset is not None and not any((commit["partition"], commit["offset"]) == (partition, offset) for commit in begun):
                matches.add((number, partition))
    return matches if h.commits else set()


def offset_edges(h: PipelineHistory) -> set[tuple[int, int, str, str]]:
    """(from, to, kind, partition) of the graph's edges through the group's offsets, as docs/graphs.md defines them."""
    edges = set()
    for partition in {commit["partition"] for commit in h.commits}:
        mine = [commit for commit in h.commits if commit["partition"] == partition]
        follows = {commit["op"]: _base(h, commit, mine) for commit in mine}
        edges |= {(base["op"], op, "wr", partition) for op, base in follows.items() if base}
        next_of = {}
        for base in (base for base in follows.values() if base):
            after = [commit for commit in mine if h.status(commit) == "ok" and follows[commit["op"]] == base]
            if len(after) == 1:
                next_of[base["op"]] = after[0]["op"]
        edges |= {(op, after, "ww", partition) for op, after in next_of.items()}
        for number, ended, offset in _fetches(h, partition):
            owner = _owner(h, offset, mine)
            if owner and owner["began"] < ended:
                edges.add((owner["op"], number, "wr", partition))
                edges |= {(number, next_of[owner["op"]], "rw", partition)} if owner["op"] in next_of else set()
    return edges


def _owner(h: PipelineHistory, offset: int, mine: Sequence[Row]) -> Row | None:
    """The one transaction that may have committed an offset."""
    some = [commit for commit in mine if commit["offset"] == offset and h.status(commit) != "fail"]
    return some[0] if len(some) == 1 else None


def _base(h: PipelineHistory, commit: Row, mine: Sequence[Row]) -> Row | None:
    """The transaction at whose offset the inputs of another one begin."""
    inputs = [chain["offset"] for chain in h.chains if chain["op"] == commit["op"] and chain["partition"] == commit["partition"]]
    below = [other["offset"] for other in mine if inputs and h.status(other) == "ok" and other["offset"] <= min(inputs)]
    owner = _owner(h, max(below), mine) if below else None
    possible = owner and owner["op"] != commit["op"] and (commit["ended"] is None or owner["began"] < commit["ended"])
    return owner if possible else None


def _fetches(h: PipelineHistory, partition: str) -> list[tuple[int, int, int]]:
    """(operation, its end, offset) of whoever fetched the group's offset of a partition."""
    fetches = [
        (number, op) for number, op in enumerate(h.ops) if op["f"] in ("committed", "group-offsets") and op["type"] == "ok"
    ]
    offsets = [(number, op["end"], json.loads(op["detail"])["offsets"].get(partition)) for number, op in fetches]
    return [(number, end, offset) for number, end, offset in offsets if offset is not None]


TWINS: dict[str, Callable[[PipelineHistory], Matches]] = {
    "reprocessed": reprocessed,
    "unprocessed": unprocessed,
    "torn-offset": torn_offsets,
    "offset-regression": offset_regressions,
    "stale-offset": stale_offsets,
    "dirty-offset": dirty_offsets,
    "phantom-offset": phantom_offsets,
    "double-ownership": double_ownerships,
}


def by_records(findings: Sequence[Mapping[str, Any]]) -> dict[str, Matches]:
    """The checker's findings in the form that the functions here return."""
    matches: dict[str, Matches] = {name: set() for name in TWINS}
    for finding in findings:
        name, records = finding["anomaly"], finding["records"]
        if name in ("reprocessed", "unprocessed"):
            role = "read" if name == "reprocessed" else "missing"
            matches[name] |= {record["v"] for record in records if record["role"] == role}
        elif name in ("torn-offset", "phantom-offset"):
            matches[name] |= {(record["operation"], record["partition"]) for record in records}
        elif name == "dirty-offset":
            matches[name] |= {(record["operation"], record["partition"]) for record in records if record["role"] == "read"}
        elif name == "stale-offset":
            matches[name] |= {(record["operation"], record["partition"]) for record in records if record["role"] == "missing"}
        elif name in ("offset-regression", "double-ownership"):
            last = max((record for record in records if record["role"] == "sent"), key=lambda record: record["operation"])
            matches[name] |= {(last["operation"], record["partition"]) for record in records}
    return matches
