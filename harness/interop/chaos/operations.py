"""Operations that are read off a `workload.log`, and the identities of their records.

The log names records by what the workload writes into them. Which operation a read record belongs to is decided at the end, when
all sends are known: a name may be sent again, by a transaction that repeats what another one failed to do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.harness.api import Outcome, record_id
from fencepost.harness.api.evidence import Gap, GapKind
from fencepost.harness.api.words import and_more
from fencepost.harness.history.contradictions import WRITES
from fencepost.harness.interop.chaos.log_lines import WORKERS_LINE, LogLine

UNSENT = "its content was sent by no operation of this log"


@dataclass
class Record:
    """A record that an operation sends, or got from a poll.

    name: its content, in the workload's words.
    offset: where it was acknowledged or read; None: not known.
    began: when it was sent.
    ended: when it was acknowledged, or returned by poll.
    """

    partition: str
    name: str
    offset: int | None = None
    began: int | None = None
    ended: int | None = None


@dataclass
class Operation:
    """An operation; `sends` and `reads` in their order, the other fields as in docs/history.md.

    label: the name of a transaction.
    unnamed: it sent a record of which the log does not tell the name.
    inputs: records that it processes, each with the number of its sends that are made of it.
    """

    process: int
    op: int
    f: str
    time: int
    role: str
    type: str = Outcome.INFO.value
    end: int | None = None
    decided: int | None = None
    intent: str | None = None
    sends: list[Record] = field(default_factory=list)
    reads: list[Record] = field(default_factory=list)
    inputs: list[Record] = field(default_factory=list)
    offsets: list[tuple[str, int]] = field(default_factory=list)
    rebalances: list[list[Any]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    unnamed: bool = False

    def complete(self, type: Outcome, line: LogLine) -> None:
        self.type, self.end = type.value, line.time


class Operations:
    """All operations of a log, by the threads that make them.

    others: names of other instances of the workload whose records were met.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._counts: dict[int, int] = {}
        self.all: list[Operation] = []
        self.others: set[str] = set()

    def begin(self, line: LogLine, f: str, role: str, process: int | None = None) -> Operation:
        process = line.thread if process is None else process
        op = self._counts.get(process, 0)
        self._counts[process] = op + 1
        self.all.append(Operation(process, op, f, line.time, role, intent="commit" if f == "txn" else None))
        return self.all[-1]

    def gaps(self) -> list[Gap]:
        """What other instances did, of which this log tells nothing; and lines that are there twice."""
        return [*self._again(), *self._left_out()]

    def _again(self) -> list[Gap]:
        """Producers number what they send, and repeat none: so a number that comes again says that lines do."""
        sends = (
            (record.partition, record.name) for operation in self.all if operation.role == "writer" for record in operation.sends
        )
        transactions = (("", operation.label) for operation in self.all if operation.label)
        twice = [key for key, count in Counter([*sends, *transactions]).items() if count > 1]
        if not twice:
            return []
        why = f"a producer begins with {twice[0][1]}{and_more(len(twice) - 1)} once more: lines are there twice"
        return [Gap(file=self._file, why=why, kind=GapKind.UNRELIABLE, evidence=WRITES)]

    def _left_out(self) -> list[Gap]:
        if not self.others:
            return []
        names = ", ".join(sorted(self.others)[:3])
        why = f"{names} wrote to the same topics, and what they did is in their own logs: their records are left out"
        return [Gap(file=self._file, why=why, kind=GapKind.MISSING, evidence=WORKERS_LINE)]

    def rows(self, whole: bool) -> tuple[list[dict[str, Any]], list[tuple[int, str, str]]]:
        """Rows of `history.parquet` in the order of their times, and (identity, partition, name) of each record.

        whole: each line was read.
        """
        self.all.sort(key=lambda operation: (operation.time, operation.process, operation.op))
        identities = _Identities(self.all, whole)
        rows = [identities.row(index, operation) for index, operation in enumerate(self.all)]
        return rows, identities.names


class _Identities:
    """whole: each line was read; else an operation that cannot be read may have sent a name once more, and was not aborted."""

    def __init__(self, operations: Sequence[Operation], whole: bool) -> None:
        self.names: list[tuple[int, str, str]] = []
        self._read: dict[int, int] = {}  # by id of the record that was read
        self._strange: set[int] = set()
        self._unsent = -2
        by_name: dict[tuple[str, str], list[tuple[Operation, Record]]] = {}
        for operation in operations:
            for record in operation.reads:
                by_name.setdefault((record.partition, record.name), []).append((operation, record))
        _name_the_unnamed(operations, by_name)
        sent: dict[tuple[str, str], list[tuple[Operation, int]]] = {}
        for operation in operations:
            for seq, record in enumerate(operation.sends):
                v = record_id(operation.process, operation.op, seq)
                if whole or operation.type != Outcome.FAIL.value:
                    sent.setdefault((record.partition, record.name), []).append((operation, v))
                self.names.append((v, record.partition, record.name))
        for key, reads in by_name.items():
            self._attribute(key, reads, sent.get(key, []))

    def _attribute(
        self, key: tuple[str, str], reads: list[tuple[Operation, Record]], candidates: list[tuple[Operation, int]]
    ) -> None:
        """Give the reads of a name the identities of its sends: in the order of offsets those of the sends that took place."""
        offsets = sorted({record.offset for _, record in reads if record.offset is not None})
        if not candidates:
            v, self._unsent = self._unsent, self._unsent - 1
            self.names.append((v, *key))
            self._strange.update(id(record) for _, record in reads)
            self._read.update((id(record), v) for _, record in reads)
            return
        last = max(record.ended or operation.time for operation, record in reads)
        chosen = _those_that_took_place(candidates, len(offsets), last)
        of_offset: dict[int | None, int] = {offset: chosen[min(place, len(chosen) - 1)] for place, offset in enumerate(offsets)}
        self._read.update((id(record), of_offset.get(record.offset, chosen[0])) for _, record in reads)

    def row(self, index: int, operation: Operation) -> dict[str, Any]:
        sent = [record_id(operation.process, operation.op, seq) for seq in range(len(operation.sends))]
        mops = [_mop(1, record, self._read[id(record)]) for record in operation.reads]
        mops += [_mop(0, record, v) for record, v in zip(operation.sends, sent, strict=True)]
        strange = [
            {"partition": record.partition, "offset": record.offset, "why": UNSENT, "raw": record.name}
            for record in operation.reads
            if id(record) in self._strange
        ]
        detail = {**operation.detail, **({"rebalances": operation.rebalances} if operation.rebalances else {})}
        names = ("process", "op", "f", "type", "time", "end", "decided", "intent", "role")
        return {
            **{name: getattr(operation, name) for name in names},
            "index": index,
            "slot": operation.process,
            "isolation": "read_committed",
            "final": False,
            "mops": mops,
            "errors": [],
            "strange": strange,
            "detail": json.dumps(detail) if detail else None,
            "chains": list(self._chains(operation, sent)),
            "offsets": [{"partition": partition, "offset": offset} for partition, offset in operation.offsets],
        }

    def _chains(self, operation: Operation, sent: Sequence[int]) -> Iterator[dict[str, Any]]:
        """An input and the record that was made of it."""
        for record, output in zip(operation.inputs, sent, strict=False):
            v = self._read.get(id(record))
            if v is not None and v >= 0:
                yield {"partition": record.partition, "offset": record.offset, "v": v, "output": output}


def _mop(kind: int, record: Record, v: int) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in ("partition", "offset", "began", "ended")}
    return {"kind": kind, "v": v, **fields}


def _name_the_unnamed(operations: Sequence[Operation], reads: dict[tuple[str, str], list[tuple[Operation, Record]]]) -> None:
    """Add to transactions that sent a record without a name the records of theirs that were read, if the log names them nowhere.

    A name begins with that of its transaction.
    """
    named = {(record.partition, record.name) for operation in operations for record in operation.sends}
    by_transaction = {operation.label: operation for operation in operations if operation.unnamed}
    for partition, name in sorted(reads.keys() - named):
        owner = by_transaction.get(name.partition(":")[0])
        if owner is not None:
            owner.sends.append(Record(partition, name, began=owner.time))


def _those_that_took_place(candidates: list[tuple[Operation, int]], count: int, last: int) -> list[int]:
    """The identities of so many sends of a name that may be the ones in the log, in the order of time.

    A committed transaction is there, and an aborted one is not; of one of unknown outcome nobody knows, but not one that began
    after the last read (ns).
    """
    ranks = {Outcome.OK.value: 0, Outcome.INFO.value: 1, Outcome.FAIL.value: 2}
    early = [candidate for candidate in candidates if candidate[0].time <= last] or candidates
    likely = sorted(early, key=lambda candidate: (ranks[candidate[0].type], candidate[0].time))[: max(count, 1)]
    return [v for _, v in sorted(likely, key=lambda candidate: candidate[0].time)]
