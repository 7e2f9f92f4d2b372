"""The anomalies once more, slowly and obviously: one plain function each, written from the definitions, not from the checks.

The docstring of a check names its slow twin here. The two are compared on random histories and on the worked example in the
docstring. `anomalies` returns for each name a set that says what was found; `by_records` gives findings that form.

`Contract` has what the twins know of settings. Where consumers stand is followed operation by operation (`Consumer`), as
docs/anomalies.md and docs/foreign-histories.md say.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from fencepost.harness.api import record_ids

Matches = set[Any]
Row = dict[str, Any]
READ_COMMITTED = "read_committed"
MOVING = ("assign", "subscribe", "seek", "poll", "txn", "committed")  # operations that may say where a consumer stands


@dataclass(frozen=True)
class Contract:
    """The parts of a contract that the references judge by.

    readers: every reader of the main phase is judged as read_committed.
    uncommitted: the workload reads at read_uncommitted.
    ordered: producers keep the order of sends in flight.
    from_start: processes begin to read at the log's start.
    groups: consumers are members of a group until they are assigned partitions.
    deletes: topics delete records.
    """

    readers: bool = False
    uncommitted: bool = False
    ordered: bool = True
    from_start: bool = True
    groups: bool = False
    deletes: bool = False


class Consumer:
    """State of one process in one partition, operation after operation.

    known: whether the next read follows `last` (None: the log's start).
    member: of a group.
    since: the operation from which the member surely owns the partition; None while it is unknown.
    owned: whether it does so throughout the present operation.
    blind: whether the history lacks the result of some poll of the present operation.
    parted: whether such a poll may lie between any two of its records; else only between two of several polls.
    before: its last read, wherever it stands now.
    highest: the highest offset that it had read before a seek.
    seeks: whether a seek back leads to a known place; else its place is unknown after one.
    """

    def __init__(self, partition: str, contract: Contract, seeks: bool = True) -> None:
        self.partition, self.groups, self.seeks = partition, contract.groups, seeks
        self.last: Row | None = None
        self.before: Row | None = None
        self.highest = -1
        self.known, self.member = contract.from_start, contract.groups
        self.since: int | None = None
        self.owned = self.blind = self.parted = False

    def begin(self, number: int, op: Mapping[str, Any]) -> None:
        """Apply what is known before an operation's reads."""
        detail = json.loads(op["detail"] or "{}") if op["f"] in MOVING else {}
        words = [word for word, some in detail.get("rebalances", []) if self.partition in some]
        if op["f"] == "subscribe" and op["type"] != "fail":
            self.forget()
            self.since, self.member = None, self.member or self.groups
        elif op["f"] == "assign" and op["type"] != "fail":
            self.assigned(op, detail)
        elif op["f"] == "seek":
            self.rebalanced(number, words)
            self.sought(number, op, {**(detail.get("positions") or {}), **dict.fromkeys(words and [self.partition])})
        elif op["f"] == "committed":
            self.rebalanced(number, words)
        elif op["f"] in ("poll", "txn"):
            self.rebalanced(number, words)
            self.blind, self.parted = unheard(op), self.partition in detail.get("parted", [])

    def assigned(self, op: Mapping[str, Any], detail: Mapping[str, Any]) -> None:
        """Only a partition that stays assigned, without a seek, leaves its consumer where it was."""
        mine, seeks = self.partition in detail["partitions"], detail.get("seek_to_beginning", False)
        if self.member or not mine or seeks:
            self.forget()
        self.since, self.member = None, False
        if mine and seeks and op["type"] == "ok":
            self.last, self.known = None, True

    def sought(self, number: int, op: Mapping[str, Any], positions: Mapping[str, Any]) -> None:
        """A seek moves the partitions that it names (all, if it names none); back, and not beyond what had been read."""
        place = positions.get(self.partition)
        if not positions or self.partition in positions:
            self.forget()
        if self.seeks and place is not None and op["type"] == "ok" and self.before and 0 <= place <= self.highest + 1:
            self.last, self.known = {**self.before, "op": number, "offset": place - 1}, True

    def rebalanced(self, number: int, words: Sequence[str]) -> None:
        """Of a partition that a rebalance names nothing is sure in the operation, unless it was new to the member."""
        fresh = list(words) == ["assigned"] and self.since is None
        if words:
            self.since = None if words[-1] != "assigned" else number if fresh else number + 1
        self.owned = self.since is not None and self.since <= number

    def forget(self) -> None:
        self.last, self.known = None, False

    def follows(self, read: Row) -> bool:
        """True if a read must follow the one before it."""
        inside = self.last is not None and self.last["op"] == read["op"]
        if inside and self.last is not None and self.blind and (self.parted or self.last["ended"] != read["ended"]):
            return False
        if not self.member:
            return inside or self.known
        if inside:
            return self.owned or (self.last is not None and self.last["ended"] == read["ended"])
        return self.last is not None and self.owned and self.since is not None and self.since <= self.last["op"]

    def end(self, op: Mapping[str, Any]) -> None:
        """Apply what is known after an operation's reads."""
        if op["f"] == "crash" or unheard(op):
            self.forget()
        telling = op["f"] in ("poll", "txn", "seek") or (op["f"] == "committed" and "rebalances" in (op["detail"] or ""))
        if op["f"] == "crash" or (telling and op["type"] == "info"):
            self.since = None


def unheard(op: Mapping[str, Any]) -> bool:
    """True if an operation may have polled records that the history lacks."""
    return op["f"] in ("poll", "txn") and (op["end"] is None or bool(json.loads(op["detail"] or "{}").get("unheard")))


class FlatHistory:
    """A history's operations, and flat lists of what they sent and read, each in the order of the history.

    op: number of the operation; p: partition; v: identity of the record; offset: None for unknown; times in ns.
    """

    def __init__(self, ops: Sequence[Mapping[str, Any]], contract: Contract | None = None) -> None:
        self.ops, self.contract = ops, contract or Contract()
        self.sends: list[Row] = []
        self.reads: list[Row] = []
        for number, op in enumerate(ops):
            for kind, partition, v, offset, began, ended in op["mops"]:
                row = {"op": number, "p": partition, "v": v, "offset": offset, "ended": ended}
                if kind == 0:
                    self.sends.append({**row, "began": began})
                else:
                    self.reads.append(row)
        self.home = {send["v"]: send for send in self.sends}

    # ---- operations ----
    def status(self, send: Row) -> str:
        """ok, fail or info: the outcome of the operation that sent a record."""
        op = self.ops[send["op"]]
        return "fail" if op["f"] == "txn" and op["type"] == "ok" and op["intent"] == "abort" else str(op["type"])

    def txn(self, send: Row) -> bool:
        return bool(self.ops[send["op"]]["f"] == "txn")

    def promised(self, send: Row) -> bool:
        """A promise in any case."""
        return self.status(send) == "ok" if self.txn(send) else send["ended"] is not None

    def aborted(self, send: Row) -> bool:
        return self.txn(send) and self.status(send) == "fail"

    def process(self, row: Row) -> int:
        return int(self.ops[row["op"]]["process"])

    def committed(self, read: Row) -> bool:
        """True if the reader is read_committed."""
        return bool(self.ops[read["op"]]["isolation"] == READ_COMMITTED)

    def judged_reader(self, read: Row) -> bool:
        """True if the reader is judged as read_committed."""
        return self.committed(read) or (self.contract.readers and not self.ops[read["op"]]["final"])

    def never_called(self, number: int) -> bool:
        """An operation of unknown outcome for which commit was never called: it is completed, or was to abort."""
        op = self.ops[number]
        return op["type"] == "info" and self.finished(number) and op["decided"] is None

    def finished(self, number: int) -> bool:
        return self.ops[number]["end"] is not None or self.ops[number]["intent"] == "abort"

    # ---- reads ----
    @cached_property
    def here(self) -> list[Row]:
        """Reads of records that were sent to the partition in which they were read."""
        return [read for read in self.reads if read["v"] in self.home and self.home[read["v"]]["p"] == read["p"]]

    @cached_property
    def misplaced(self) -> set[int]:
        """Records that were read in a partition to which they were not sent."""
        return {read["v"] for read in self.reads if read["v"] in self.home and self.home[read["v"]]["p"] != read["p"]}

    @cached_property
    def seen(self) -> set[int]:
        return {read["v"] for read in self.here}

    @cached_property
    def seen_committed(self) -> set[int]:
        return {read["v"] for read in self.here if self.committed(read)}

    @cached_property
    def proven(self) -> set[int]:
        """Operations of which a read_committed reader got some record: they are committed."""
        return {self.home[v]["op"] for v in self.seen_committed}

    # ---- final reads ----
    @cached_property
    def written_late(self) -> set[str]:
        """Partitions to which somebody wrote when their final phase had begun: with a settling, or the first final reader."""
        begun: dict[str, list[int]] = defaultdict(list)
        for op in self.ops:
            if op["f"] == "final-read":
                first = min(
                    (poll["time"] for poll in self.ops if poll["final"] and poll["process"] == op["process"]), default=None
                )
                for partition in json.loads(op["detail"]) if first is not None else ():
                    begun[partition].append(first)
        for op in [op for op in self.ops if op["f"] == "settle" and op["detail"]][-1:]:
            detail = json.loads(op["detail"])
            for partition, pair in detail.get("partitions", detail).items():
                begun[partition] += [op["time"]] if min(pair) >= 0 else []
        ends = {number: op["end"] for number, op in enumerate(self.ops) if op["type"] == "ok"}
        times = [(send["p"], [send["began"], send["ended"], ends.get(send["op"])]) for send in self.sends]
        return {p for p, some in times if p in begun and max(time or 0 for time in some) > min(begun[p])}

    @cached_property
    def final_readers(self) -> dict[tuple[str, str], set[int]]:
        """(partition, isolation) -> processes whose final read reached the end."""
        complete = defaultdict(set)
        for op in self.ops:
            if op["f"] == "final-read" and op["type"] != "fail":
                for partition, (first, end, position) in json.loads(op["detail"] or "{}").items():
                    if 0 <= first <= end <= position and partition not in self.written_late:
                        complete[partition, op["isolation"]].add(op["process"])
        return complete

    @cached_property
    def judged(self) -> set[str]:
        """Partitions with a complete read_committed final read."""
        return {partition for (partition, isolation), who in self.final_readers.items() if who and isolation == READ_COMMITTED}

    @cached_property
    def witnessed(self) -> set[str]:
        """Partitions with a complete read_uncommitted final read."""
        return {partition for (partition, isolation), who in self.final_readers.items() if who and isolation != READ_COMMITTED}

    def finally_read(self, isolation: str) -> set[int]:
        """Records that a complete final read at an isolation level returned."""
        return {
            read["v"]
            for read in self.here
            if self.ops[read["op"]]["isolation"] == isolation
            and self.ops[read["op"]]["final"]
            and self.process(read) in self.final_readers[read["p"], isolation]
        }

    @cached_property
    def final(self) -> set[int]:
        return self.finally_read(READ_COMMITTED)

    @cached_property
    def witness(self) -> set[int]:
        return self.finally_read("read_uncommitted")

    def ends(self, partition: str, isolation: str) -> list[int]:
        """Ends of the complete final reads of a partition."""
        return [
            json.loads(op["detail"])[partition][1]
            for op in self.ops
            if op["f"] == "final-read" and op["isolation"] == isolation and op["type"] != "fail"
            if op["process"] in self.final_readers[partition, isolation] and partition in json.loads(op["detail"])
        ]

    @cached_property
    def settled(self) -> dict[str, tuple[int, int]]:
        """The last look at partitions: last stable offset and high watermark, where both are known and contradict nothing."""
        looks = [op for op in self.ops if op["f"] == "settle" and op["detail"] and op["type"] != "fail"]
        last = json.loads(looks[-1]["detail"]) if looks else {}
        stood = looks and looks[-1]["type"] == "info" and last.get("waited_s", 1e9) >= last.get("bound_s", 0)
        offsets = {partition: pair for partition, pair in last.get("partitions", last).items() if min(pair) >= 0}
        return {partition: pair for partition, pair in offsets.items() if pair[0] == pair[1] or (pair[0] < pair[1] and stood)}

    def covered(self, send: Row) -> bool:
        """True if a complete read_committed final read had to return a record if it committed."""
        partition, where = send["p"], self.place[send["v"]]
        if partition not in self.judged:
            return False
        reach = min(self.ends(partition, READ_COMMITTED))
        transactions = any(self.txn(other) for other in self.sends if other["p"] == partition)
        if partition not in self.settled and partition not in self.witnessed and transactions:  # hidden, or cut off
            return where is None or where < reach or send["v"] in self.seen_committed
        lso, high = self.settled.get(partition, (0, 0))
        stalled = lso < high or self.ends_differ(partition)
        return not stalled or (where is not None and where < reach)

    def ends_differ(self, partition: str) -> bool:
        """True if the read_committed final reads ended below those at read_uncommitted."""
        committed = self.ends(partition, READ_COMMITTED)
        return bool(committed) and min(committed) < max(self.ends(partition, "read_uncommitted"), default=0)

    # ---- polls without known result ----
    def may_read(self, number: int, partition: str) -> bool:
        """True if the consumer of an operation may be assigned a partition.

        Where assignments are recorded at all, who has none recorded has none."""
        if partition in json.loads(self.ops[number]["detail"] or "{}").get("parted", []):
            return True
        moves = [op for op in self.ops if op["f"] in ("assign", "subscribe")]
        own = [op for op in moves if op["process"] == self.ops[number]["process"] and op["index"] < number]
        own = [op for op in own if op["type"] != "fail"]
        if not own:
            return not moves
        return own[-1]["f"] == "subscribe" or partition in json.loads(own[-1]["detail"])["partitions"]

    @cached_property
    def blind(self) -> dict[str, list[tuple[float, int]]]:
        """Polls that may have returned records of a partition that the history lacks: when each had ended at the latest, and up
        to which offset its consumer surely had come (-1: nobody knows)."""
        polls = [(number, op) for number, op in enumerate(self.ops) if unheard(op)]
        partitions = {row["p"] for row in (*self.sends, *self.reads)}
        return {
            partition: [
                (float("inf") if op["end"] is None else op["end"], self.position(number, partition))
                for number, op in polls
                if self.may_read(number, partition)
            ]
            for partition in partitions
        }

    def position(self, number: int, partition: str) -> int:
        """The last offset that the consumer of an operation surely had read before it (-1: unknown)."""
        consumer = self.followed(self.ops[number]["process"], partition, number)[0]
        sure = consumer.known and not consumer.member and consumer.last is not None
        return int(consumer.last["offset"]) if sure and consumer.last is not None else -1

    def followed(self, process: int, partition: str, until: int | None = None) -> tuple[Consumer, list[tuple[int, int]]]:
        """A consumer before an operation (None: at the end), and its steps so far from one offset to the next (-1: the start)."""
        consumer, steps = Consumer(partition, self.contract, seeks=False), []
        for number, op in enumerate(self.ops[:until]):
            if op["process"] != process:
                continue
            consumer.begin(number, op)
            for read in (read for read in self.reads if read["op"] == number and read["p"] == partition):
                if consumer.follows(read):
                    steps.append((-1 if consumer.last is None else consumer.last["offset"], read["offset"]))
                consumer.last, consumer.known = read, True
            consumer.end(op)
        return consumer, steps

    @cached_property
    def crossed(self) -> dict[str, set[int]]:
        """Offsets of a partition that some consumer surely passed or read (-1: below the first)."""
        crossed: dict[str, set[int]] = defaultdict(set)
        for partition in {read["p"] for read in self.reads}:
            for process in {self.process(read) for read in self.reads if read["p"] == partition}:
                for low, high in self.followed(process, partition)[1]:
                    crossed[partition] |= set(range(low, high))
        return crossed

    # ---- records ----
    @cached_property
    def swallowed(self) -> set[int]:
        """Records that no reader got, acknowledged where a reader got one that the same producer had sent before."""
        return {
            send["v"] for send in self.sends if send["offset"] is not None and send["v"] not in self.seen and self.older(send)
        }

    def older(self, send: Row) -> list[Row]:
        """Reads, at the offset of a record's acknowledgement, of records that its producer had sent to the partition before."""
        there = [read for read in self.here if (read["p"], read["offset"]) == (send["p"], send["offset"])]
        producer = record_ids.process_of(send["v"])
        return [read for read in there if record_ids.process_of(read["v"]) == producer and read["v"] < send["v"]]

    @cached_property
    def places(self) -> dict[int, set[int]]:
        """Every offset at which a record was acknowledged or read in its own partition."""
        places = {send["v"]: set() if send["v"] in self.swallowed else {send["offset"]} - {None} for send in self.sends}
        for read in self.here:
            places[read["v"]].add(read["offset"])
        return places

    @cached_property
    def place(self) -> dict[int, int | None]:
        """The lowest of a record's offsets."""
        return {v: min(places, default=None) for v, places in self.places.items()}

    def missing(self, send: Row) -> bool:
        """True if a record had to be returned, if it is a promise, and was not."""
        v, partition = send["v"], send["p"]
        if self.contract.deletes:
            return False
        if partition in self.judged:
            if self.covered(send):
                return v not in self.final
            return partition in self.witnessed and v not in self.witness and v not in self.final
        if partition in self.witnessed:
            return v not in self.witness
        return v not in self.seen and self.passed(send)

    def passed(self, send: Row) -> bool:
        """True if a record lies below one that was read, and no poll without known result can have returned it, or some consumer
        surely passed it."""
        place = self.place[send["v"]]
        mine = [read for read in self.reads if read["p"] == send["p"]]
        if place is not None:
            low, above = place, [read["offset"] for read in mine if read["offset"] > place]
        else:
            earlier = [
                read["offset"] for read in mine if self.in_the_log(read) < (-1 if send["began"] is None else send["began"])
            ]
            low, above = max(earlier, default=-1), [read["offset"] for read in mine if self.sent_after(read, send)]
        if not above:
            return False
        until = min(above) if place is None else place + 1
        crossed = self.crossed[send["p"]]
        return not self.perhaps_returned(send, until) or (low in crossed and crossed >= set(range(low, until)))

    def perhaps_returned(self, send: Row, above: int) -> bool:
        """True if a poll without known result may have returned a record that lies at its place, else below a known one."""
        place, began = self.place[send["v"]], -1 if send["began"] is None else send["began"]
        polls = [position for end, position in self.blind.get(send["p"], []) if end >= began]
        return any(position < place if place is not None else position < above for position in polls)

    def in_the_log(self, read: Row) -> float:
        """Time by which a record that was read was in the log at that place."""
        send = self.home.get(read["v"])
        if send is None or send["p"] != read["p"] or len(self.places[read["v"]]) != 1:
            return float(read["ended"])
        op = self.ops[send["op"]]
        times = [read["ended"], send["ended"], op["end"] if op["type"] == "ok" else None]
        return float(min(time for time in times if time is not None))

    def sent_after(self, read: Row, send: Row) -> bool:
        """True if a record that was read in the partition of another was sent after that one had been appended."""
        other = self.home.get(read["v"])
        began = other["began"] if other is not None and other["p"] == read["p"] else None
        return began is not None and self.appended_by(send) < began

    def shown(self, send: Row) -> bool:
        """True if read_committed readers got a record: the complete final read, where there is one."""
        if send["p"] not in self.judged:
            return send["v"] in self.seen_committed and not self.missing(send)
        return self.covered(send) and send["v"] in self.final

    def tried(self, send: Row) -> bool:
        """True if a record belongs to its operation: a planned send that never began does not."""
        return send["began"] is not None or self.status(send) == "ok" or not self.finished(send["op"])

    def appended_by(self, send: Row) -> float:
        """Time by which a record was in the log, if it ever was."""
        op = self.ops[send["op"]]
        times = [] if send["ended"] is None else [send["ended"]]
        if op["type"] == "ok":
            times.append(op["end"])
        if op["type"] == "info":  # a reader that got any record of it proves the commit, before which all were appended
            times += [read["ended"] for read in self.here if self.committed(read) and self.home[read["v"]]["op"] == send["op"]]
        return min(times, default=float("inf"))

    @cached_property
    def lost(self) -> set[int]:
        """Promises that are missing."""
        return {send["v"] for send in self.sends if self.promised(send) and self.missing(send)}

    @cached_property
    def gone(self) -> set[int]:
        """Records that are lost, and those that others got before the final read, which did not return them, began."""
        deletable = {send["v"] for send in self.sends if self.contract.deletes}
        return self.lost | ({v for _, v in stale_final_reads(self, True)} - self.final - deletable)

    def cut_off(self, send: Row) -> bool:
        """True if the complete read_uncommitted final read shows that a record is in the log no more."""
        looked = send["p"] in self.witnessed and not self.contract.deletes
        return looked and send["v"] not in self.witness | self.final

    @cached_property
    def fixed(self) -> list[Row]:
        """Sends that lie at one known place and are not gone."""
        return [send for send in self.sends if len(self.places[send["v"]]) == 1 and send["v"] not in self.gone]

    @cached_property
    def visible(self) -> list[Row]:
        """Sends with a place in the version order: promised or read, not aborted, not lost, at one place."""
        known = [send for send in self.fixed if self.promised(send) or send["v"] in self.seen]
        return [send for send in known if not self.aborted(send)]

    def due(self, partition: str, committed: bool) -> set[int]:
        """Offsets of records that no reader at an isolation level may pass over, because others got them."""
        offsets = set()
        for send in self.fixed:
            v = send["v"]
            if send["p"] != partition or v not in self.seen:
                continue
            promise = self.promised(send) and partition not in self.judged
            withdrawn = self.txn(send) and self.never_called(send["op"]) and v not in self.final
            if committed and withdrawn and partition in self.judged:
                continue
            if not committed or (not self.aborted(send) and (v in self.seen_committed or promise)):
                offsets |= self.places[v]
        return offsets

    def steps(self) -> Iterator[tuple[Row | None, Row]]:
        """Every read of a record with a place, and the read that its process had before it in the partition (None: none)."""
        fixed = {v for v, places in self.places.items() if len(places) == 1}
        line = defaultdict(list)
        for read in self.here:
            hidden = self.committed(read) and self.aborted(self.home[read["v"]])
            if read["v"] in fixed and not hidden:
                line[self.process(read), read["p"]].append(read)
        for (process, partition), reads in line.items():
            consumer = Consumer(partition, self.contract)
            for number, op in enumerate(self.ops):
                if op["process"] == process:
                    consumer.highest = self.highest_read(process, partition, number) if op["f"] == "seek" else -1
                    consumer.begin(number, op)
                    yield from self.continued(consumer, [read for read in reads if read["op"] == number])
                    consumer.end(op)

    def highest_read(self, process: int, partition: str, before: int) -> int:
        """The highest offset of a partition that a process had read before an operation; -1: it had read nothing."""
        mine = [read for read in self.reads if self.process(read) == process and read["p"] == partition and read["op"] < before]
        return max((read["offset"] for read in mine if read["offset"] is not None), default=-1)

    def continued(self, consumer: Consumer, reads: Sequence[Row]) -> Iterator[tuple[Row | None, Row]]:
        """Those reads of one operation that must follow the one before; from and to what is gone nothing is judged."""
        for read in reads:
            if consumer.follows(read) and not {read["v"], consumer.last and consumer.last["v"]} & self.gone:
                yield consumer.last, read
            consumer.last = consumer.before = read
            consumer.known = True

    def neighbours(self) -> Iterator[tuple[Row, Row]]:
        """Visible sends of one process to one partition that follow each other in the order of the calls."""
        line = defaultdict(list)
        for send in sorted(self.visible, key=lambda send: send["v"]):
            line[send["p"], record_ids.process_of(send["v"])].append(send)
        for sends in line.values():
            yield from pairwise(sends)


# ---- losses ----
def lost_writes(h: FlatHistory) -> Matches:
    matches, uncommitted = set(), false_acks(h)
    for send in h.sends:
        acked = send["ended"] is not None or not h.finished(send["op"])
        proven = h.txn(send) and h.status(send) == "info" and send["op"] in h.proven and acked and not h.never_called(send["op"])
        elsewhere = send["v"] in h.misplaced | h.swallowed | uncommitted
        if (h.promised(send) or proven) and h.missing(send) and not elsewhere:
            matches.add(send["v"])
    return matches


# ---- copies and conflicts ----
def duplicates(h: FlatHistory) -> Matches:
    matches = set()
    for v, send in h.home.items():
        everybody = h.contract.uncommitted or not h.txn(send)
        read = {read["offset"] for read in h.here if read["v"] == v and (everybody or h.judged_reader(read))}
        acknowledged = {send["offset"]} - {None} if h.status(send) != "fail" else set()
        acknowledged -= {read["offset"] for read in h.reads if read["p"] == send["p"]}
        if read and len(read | acknowledged) > 1:
            matches.add(v)
    return matches


def inconsistent_offsets(h: FlatHistory) -> Matches:
    at = defaultdict(set)
    for read in h.reads:
        at[read["p"], read["offset"]].add(read["v"])
    read_places = set(at)
    for send in h.sends:
        where = (send["p"], send["offset"])
        sure = h.status(send) == "ok" or not h.txn(send) or (h.status(send) == "info" and send["op"] in h.proven)
        if send["offset"] is not None and send["v"] not in h.lost | h.swallowed and (where in read_places or sure):
            at[where].add(send["v"])
    return {where for where, records in at.items() if len(records) > 1}


def swallowed_writes(h: FlatHistory) -> Matches:
    return h.swallowed


# ---- placement ----
def phantoms(h: FlatHistory) -> Matches:
    return {(read["p"], read["offset"]) for read in h.reads if read["v"] not in h.home}


def wrong_partitions(h: FlatHistory) -> Matches:
    return {(read["p"], read["offset"]) for read in h.reads if read["v"] in h.misplaced and read["p"] != h.home[read["v"]]["p"]}


# ---- transactions ----
def aborted_reads(h: FlatHistory) -> Matches:
    judged = {read["v"] for read in h.here if h.judged_reader(read)}
    refused = {send["v"] for send in h.sends if h.status(send) == "fail" and not h.txn(send) and send["ended"] is None}
    return {v for v in judged if h.aborted(h.home[v])} | (h.seen & refused)


def dirty_reads(h: FlatHistory) -> Matches:
    matches = set()
    for read in h.here:
        send = h.home[read["v"]]
        op = h.ops[send["op"]]
        refused = h.judged_reader(read) if h.txn(send) else send["ended"] is None
        if h.status(send) == "fail" and refused:  # `aborted-read` judges it
            continue
        if send["began"] is not None and read["ended"] < send["began"]:
            matches.add(read["v"])
        early = op["decided"] is not None and read["ended"] < op["decided"]
        if h.txn(send) and h.judged_reader(read) and (send["op"] == read["op"] or h.never_called(send["op"]) or early):
            matches.add(read["v"])
    return matches


def lso_overruns(h: FlatHistory) -> Matches:
    """Operations that read past an open transaction."""
    matches = set()
    fixed = {send["v"] for send in h.fixed if not h.aborted(send)}
    for read in h.here:
        mine = h.home[read["v"]]
        times = [mine["began"], h.ops[mine["op"]]["decided"] if h.txn(mine) else None]
        if read["v"] not in fixed or mine["op"] == read["op"] or any(time and read["ended"] < time for time in times):
            continue
        for send in h.fixed:
            below = send["p"] == read["p"] and h.place[send["v"]] < read["offset"]
            if h.txn(send) and below and h.judged_reader(read) and _was_open(h, send, read):
                matches.add(read["op"])
    return matches


def _was_open(h: FlatHistory, send: Row, read: Row) -> bool:
    """True if the transaction of a record was surely open when another record was read."""
    op = h.ops[send["op"]]
    if send in h.visible and (h.status(send) == "ok" or send["v"] in h.seen_committed):
        return send["op"] == read["op"] or (op["decided"] is not None and read["ended"] < op["decided"])
    appended = [
        other
        for other in h.fixed
        if (other["op"], other["p"]) == (send["op"], send["p"])
        and other["ended"] is not None
        and other["v"] not in h.seen_committed
        and (other["p"] not in h.witnessed or other["v"] in h.witness)
    ]
    later = [other["began"] for other in appended if (other["began"] or 0) > (send["began"] or 0)]
    return h.status(send) != "ok" and send in appended and any(read["ended"] < began for began in later)


def torn_transactions(h: FlatHistory) -> Matches:
    matches = set()
    for number in range(len(h.ops)):
        mine = [send for send in h.sends if send["op"] == number and h.txn(send) and send["v"] not in h.swallowed]
        shown = [send["v"] for send in mine if h.shown(send)]
        missing = [send["v"] for send in mine if h.tried(send) and h.missing(send) and send["v"] not in h.misplaced]
        if mine and h.status(mine[0]) == "fail":
            missing = [send["v"] for send in mine if send["v"] in missing and h.covered(send)]
        if shown and missing:
            matches.update([*shown, *missing])
    return matches


# ---- order of sends ----
def order_inversions(h: FlatHistory) -> Matches:
    """The later sends: those that lie too low."""
    matches = set()
    there = [send for send in h.sends if send["v"] not in h.gone and not h.cut_off(send) and h.place[send["v"]] is not None]
    for earlier, later in combinations(sorted(there, key=lambda send: send["v"]), 2):
        same = earlier["p"] == later["p"] and record_ids.process_of(earlier["v"]) == record_ids.process_of(later["v"])
        first = h.contract.ordered or (
            earlier["ended"] is not None and later["began"] is not None and earlier["ended"] < later["began"]
        )
        if same and first and h.place[earlier["v"]] > h.place[later["v"]]:
            matches.add(later["v"])
    return matches


def real_time_inversions(h: FlatHistory) -> Matches:
    """The sends that lie too low. Of two at one place the one with the lower `v` counts as the lower."""
    matches = set()
    for partition in {send["p"] for send in h.visible}:
        timed = [send for send in h.visible if send["p"] == partition and send["began"] is not None]
        for low, high in combinations(sorted(timed, key=lambda send: (h.place[send["v"]], send["v"])), 2):
            others = record_ids.process_of(low["v"]) != record_ids.process_of(high["v"])
            if others and high["ended"] is not None and high["ended"] < low["began"]:
                matches.add(low["v"])
    return matches


def nonmonotonic_sends(h: FlatHistory) -> Matches:
    return {
        after["v"]
        for before, after in h.neighbours()
        if before["op"] != after["op"] and h.place[after["v"]] <= h.place[before["v"]]
    }


def int_nonmonotonic_sends(h: FlatHistory) -> Matches:
    return {
        after["v"]
        for before, after in h.neighbours()
        if before["op"] == after["op"] and h.place[after["v"]] <= h.place[before["v"]]
    }


def int_send_skips(h: FlatHistory) -> Matches:
    matches = set()
    for before, after in h.neighbours():
        places = [h.place[send["v"]] for send in h.visible if send["p"] == before["p"]]
        if before["op"] == after["op"] and any(h.place[before["v"]] < place < h.place[after["v"]] for place in places):
            matches.add(after["v"])
    return matches


# ---- readers: (operation, partition, offset of the later read), and for a skip each offset that was passed over ----
def poll_skips(h: FlatHistory) -> Matches:
    return set(_skips(h, inside=False))


def int_poll_skips(h: FlatHistory) -> Matches:
    return set(_skips(h, inside=True))


def _skips(h: FlatHistory, inside: bool) -> Iterator[tuple[int, str, int, int]]:
    due = {(p, level): h.due(p, level) for p in {read["p"] for read in h.reads} for level in (True, False)}
    for last, read in h.steps():
        if (last is not None and last["op"] == read["op"]) == inside:
            low = -1 if last is None else last["offset"]
            for offset in due[read["p"], h.committed(read)]:
                if low < offset < read["offset"]:
                    yield read["op"], read["p"], read["offset"], offset


def nonmonotonic_polls(h: FlatHistory) -> Matches:
    return set(_returns(h, inside=False))


def int_nonmonotonic_polls(h: FlatHistory) -> Matches:
    return set(_returns(h, inside=True))


def _returns(h: FlatHistory, inside: bool) -> Iterator[tuple[int, str, int]]:
    for last, read in h.steps():
        if last is not None and (last["op"] == read["op"]) == inside and read["offset"] <= last["offset"]:
            yield read["op"], read["p"], read["offset"]


def stale_reads(h: FlatHistory) -> Matches:
    """(process of the final read, record that it lacks); of a read_uncommitted one what is not lacked, or skipped, anyway."""
    matches = set(stale_final_reads(h, True))
    return matches | {
        (process, v) for process, v in stale_final_reads(h, False) if v not in h.gone and not _skipped(h, process, v)
    }


def stale_final_reads(h: FlatHistory, committed: bool) -> Iterator[tuple[int, int]]:
    """(process of a final read at one level, record that it lacks)."""
    for (partition, isolation), processes in list(h.final_readers.items()):
        for process in processes if (isolation == READ_COMMITTED) == committed else ():
            began = min(op["time"] for op in h.ops if op["process"] == process)
            mine = {read["v"] for read in h.here if read["p"] == partition and h.process(read) == process}
            for read in h.here:
                send = h.home[read["v"]]
                got = h.committed(read) or (not h.txn(send) and h.covered(send))
                earlier = read["p"] == partition and got and h.process(read) != process and read["ended"] < began
                doubtful = h.txn(send) and (h.aborted(send) or h.never_called(send["op"]))
                if earlier and not doubtful and read["v"] not in mine:
                    yield process, read["v"]


def _skipped(h: FlatHistory, process: int, v: int) -> bool:
    """True if a record has one place, which lies between two records that a process got, or below all, where it began at 0."""
    partition = h.home[v]["p"]
    offsets = [read["offset"] for read in h.reads if read["p"] == partition and h.process(read) == process]
    offsets = [offset for offset in offsets if offset is not None]
    if not offsets or v not in {send["v"] for send in h.fixed}:
        return False
    place = h.place[v] or 0
    return place < max(offsets) and (h.contract.from_start or place > min(offsets))


# ---- settling ----
def unsettled(h: FlatHistory) -> set[str]:
    """Anomalies that are unknown where no last stable offset was looked at."""
    blind = h.judged - h.settled.keys()
    above = [send for send in h.sends if send["p"] in blind - h.witnessed and not h.covered(send)]
    promised = any(h.promised(send) and send["v"] not in h.swallowed for send in above)
    unknown = {"lost-write"} if promised else set()
    return unknown | ({"lso-stall"} if any(h.ends_differ(partition) for partition in blind) else set())


def lso_stalls(h: FlatHistory) -> Matches:
    return {partition for partition, (lso, high_watermark) in h.settled.items() if lso < high_watermark}


# ---- fencing ----
def fencings(h: FlatHistory) -> dict[int, int]:
    """Times at which the instances of transactions were fenced (those that never were are left out). A process that initialised
    one id opened all of its producers by that.
    """
    times = {}
    initialised = [op for op in h.ops if op["f"] == "initialise"]
    for number, op in enumerate(h.ops):
        ours = [call for call in initialised if call["process"] == op["process"] and call["time"] < op["time"]]
        several = len({call["transactional_id"] for call in initialised if call["process"] == op["process"]}) > 1
        own = [call for call in ours if not several or call["transactional_id"] == op["transactional_id"]][-1:]
        others = [
            call["end"]
            for call in initialised
            if own and call["process"] != op["process"] and call["transactional_id"] == own[0]["transactional_id"]
            if call["type"] == "ok" and own[0]["end"] is not None and call["time"] >= own[0]["end"]
        ]
        if op["f"] == "txn" and others:
            times[number] = min(others)
    return times


def _zombies(h: FlatHistory) -> tuple[Matches, Matches]:
    """Visible records of transactions that were committed by a fenced instance, and those that were sent by one."""
    fenced, commits, writes = fencings(h), set(), set()
    for number, when in fenced.items():
        sends = [send for send in h.sends if send["op"] == number and send["v"] in h.seen_committed]
        sends = [send for send in sends if h.status(send) != "fail"]
        late = {send["v"] for send in sends if send["began"] is not None and send["began"] > when}
        if (h.ops[number]["decided"] or 0) > when and not late:
            commits |= {send["v"] for send in sends}
        writes |= late
    return commits, writes


def zombie_commits(h: FlatHistory) -> Matches:
    return _zombies(h)[0]


def zombie_writes(h: FlatHistory) -> Matches:
    return _zombies(h)[1]


def false_acks(h: FlatHistory) -> Matches:
    """Records of transactions whose commit returned ok, of which no reader sees any, and that were never committed."""
    matches, fenced = set(), fencings(h)
    for number, op in enumerate(h.ops):
        sends = [send for send in h.sends if send["op"] == number]
        gone = all(h.missing(send) and send["v"] not in h.misplaced | h.swallowed | h.seen_committed for send in sends)
        if op["f"] != "txn" or not sends or not gone or h.status(sends[0]) != "ok":
            continue
        held = any(h.covered(send) and send["p"] in h.judged & h.witnessed and send["v"] in h.witness for send in sends)
        if held or (number in fenced and (op["decided"] or 0) > fenced[number]):
            matches |= {send["v"] for send in sends}
    return matches


TWINS: dict[str, Callable[[FlatHistory], Matches]] = {
    "lost-write": lost_writes,
    "duplicate": duplicates,
    "aborted-read": aborted_reads,
    "dirty-read": dirty_reads,
    "lso-overrun": lso_overruns,
    "torn-transaction": torn_transactions,
    "inconsistent-offset": inconsistent_offsets,
    "swallowed-write": swallowed_writes,
    "phantom": phantoms,
    "wrong-partition": wrong_partitions,
    "order-inversion": order_inversions,
    "real-time-inversion": real_time_inversions,
    "nonmonotonic-send": nonmonotonic_sends,
    "int-nonmonotonic-send": int_nonmonotonic_sends,
    "int-send-skip": int_send_skips,
    "poll-skip": poll_skips,
    "int-poll-skip": int_poll_skips,
    "nonmonotonic-poll": nonmonotonic_polls,
    "int-nonmonotonic-poll": int_nonmonotonic_polls,
    "stale-read": stale_reads,
    "lso-stall": lso_stalls,
    "false-ack": false_acks,
    "zombie-commit": zombie_commits,
    "zombie-write": zombie_writes,
}
NAMES = tuple(TWINS)


def anomalies(ops: Sequence[Mapping[str, Any]], contract: Contract | None = None) -> dict[str, Matches]:
    """Name -> what the function of that name returns; the micro-operations of `ops` are tuples."""
    history = FlatHistory(ops, contract)
    return {name: twin(history) for name, twin in TWINS.items()}


def by_records(findings: Sequence[Mapping[str, Any]], ops: Sequence[Mapping[str, Any]]) -> dict[str, Matches]:
    """The checker's findings in the form that the functions here return."""
    matches: dict[str, Matches] = {name: set() for name in NAMES}
    for finding in findings:
        name, records = finding["anomaly"], finding["records"]
        missing = [record for record in records if record["role"] == "missing"]
        if name in ("phantom", "wrong-partition", "inconsistent-offset"):
            matches[name] |= {(record["partition"], record["offset"]) for record in records}
        elif name in ("order-inversion", "nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip"):
            matches[name].add(max(record["v"] for record in records))
        elif name == "real-time-inversion":
            matches[name].add(min((record["offset"], record["v"]) for record in records)[1])
        elif name in ("lost-write", "swallowed-write"):
            matches[name] |= {record["v"] for record in missing}
        elif name in ("poll-skip", "int-poll-skip"):
            landing = max(record["offset"] for record in records)
            reader = max(record["operation"] for record in records if record["role"] == "read")
            matches[name] |= {(reader, record["partition"], landing, record["offset"]) for record in missing}
        elif name in ("nonmonotonic-poll", "int-nonmonotonic-poll"):
            landing = min(record["offset"] for record in records)
            matches[name].add((max(record["operation"] for record in records), records[0]["partition"], landing))
        elif name == "stale-read":
            reader = next(
                record["operation"] for record in records if record["role"] in ("read", "read-uncommitted") and record["v"] < 0
            )
            matches[name] |= {(ops[reader]["process"], record["v"]) for record in missing}
        elif name == "lso-overrun":
            matches[name] |= {record["operation"] for record in records if record["role"] == "read"}
        elif name == "lso-stall":
            matches[name] |= {record["partition"] for record in records}
        elif name in matches:
            matches[name] |= {record["v"] for record in records}
    return matches
