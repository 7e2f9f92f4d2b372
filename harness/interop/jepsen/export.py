"""A run's history as Jepsen's Kafka checker reads it: `jepsen.tests.kafka`, one operation per line, EDN or JSON.

docs/foreign-histories.md says what becomes of what.
"""

from __future__ import annotations

import heapq
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import pyarrow.compute as pc
import pyarrow.dataset as ds

from fencepost.harness.api import CampaignError, Isolation
from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.api.history import OPERATIONS, UNREADABLE, Column
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.values import MOST_DIGITS, from_digits
from fencepost.harness.interop.jepsen.lines import UNRELIABLE
from fencepost.harness.interop.jepsen.printing import Edn, HistoryLine, Json, Records
from fencepost.harness.interop.micro_operations import micro_operations
from fencepost.harness.interop.output import opened

FORMATS = ("jepsen-edn", "jepsen-json")
JUDGED = frozenset(
    (
        *(Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS, Evidence.POSITIONS),
        *(Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED, Evidence.LEVELS),
    )
)  # evidence that operations are, of which a checker would take the absence for a fault
_EXPORTED = ("txn", "send", "poll", "assign", "subscribe", "seek", "crash")
_NEEDED = ("process", "f", "type", "intent", "time", "end", "mops")
_ABSENT = {"errors": None, "detail": None, "final": False, "isolation": None}  # other columns, and what stands for them


def export(run: Run, format: str, out: Path | None) -> int:
    """Write the merged history of a run to the file `out`, or into the run's directory (`file_of`); the number of lines.

    Raises CampaignError: no such format; HistoryError: no history that can be read.
    """
    if format not in FORMATS:
        raise CampaignError([f'"{format}" is no format; there are {", ".join(FORMATS)}'])
    path = run.path(RunFile.HISTORY)
    run.demand_table(RunFile.HISTORY, _columns())
    source = ds.dataset(path, format="parquet")
    keys, receipts = _keys(source), run.known_receipts()
    words = Edn() if format == "jepsen-edn" else Json()
    with opened(run, file_of(format), out) as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        return _Exporter(text, words, keys, run.contract).all(source, receipts, _lacking(run.gaps))


def _lacking(gaps: Sequence[Gap]) -> Mapping[str, Gap]:
    """Gaps as operations of functions that nobody knows: the first of those that make all unreliable, and of the others."""
    found: dict[str, Gap] = {}
    for gap in gaps:
        if gap.kind is not GapKind.UNATTESTED and JUDGED.intersection(gap.evidence):
            found.setdefault(UNRELIABLE if gap.kind is GapKind.UNRELIABLE else UNREADABLE, gap)
    return found


def file_of(format: str) -> str:
    """The name of the file in the run's directory that a format has."""
    return f"history.{format.rpartition('-')[2]}"


def _columns() -> list[Column]:
    """The columns that a history must have, and those that it may have."""
    return [replace(column, optional=column.name in _ABSENT) for column in OPERATIONS if column.name in (*_NEEDED, *_ABSENT)]


def _keys(source: Any) -> dict[str, int]:
    """Partitions as Jepsen's whole numbers: numbers stay, others are counted in the order of their names."""
    names: set[str] = set()
    for batch in source.to_batches(columns=["mops"]):
        names.update(pc.unique(batch["mops"].flatten().field("partition")).to_pylist())
    if all(name.isdecimal() and len(name) <= MOST_DIGITS for name in names):
        return {name: from_digits(name) for name in names}
    return {name: number for number, name in enumerate(sorted(names, key=_natural))}


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((from_digits(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


# --------------------------------------------------------------------------------------------------
# Lines
# --------------------------------------------------------------------------------------------------
class _Exporter:
    """Writes invocations as they come and keeps completions back until their time."""

    def __init__(self, file: TextIO, words: Edn | Json, keys: dict[str, int], contract: Mapping[str, Any]) -> None:
        self._file, self._words, self._keys = file, words, keys
        self._judged = None if contract.get("isolation") == Isolation.UNCOMMITTED.value else contract.get("readers", "own")
        self._aborted_polls_count = contract.get("aborted_polls", "kept") == "kept"
        self._later: list[HistoryLine] = []
        self._numbers, self._index = itertools.count(), 0
        self._strange = itertools.count(-1, -1)
        self._started: set[int] = set()
        self._begun: int | None = None
        self._latest = 0

    def all(self, source: Any, receipts: Sequence[Mapping[str, Any]], lacking: Mapping[str, Gap]) -> int:
        for receipt in receipts:
            self._fault(receipt)
        if self._later:
            self._begun = self._later[0].time
        for row in _rows(source):
            known = row["f"] in _EXPORTED or _tells(row)
            if row["process"] >= 0 and known and not self._sees_more(row):
                self._operation(_begun_anew(row) if _moves_anywhere(row) else row)
        self._until(None)
        for number, (f, gap) in enumerate(lacking.items() if self._begun is not None else (), max(self._started, default=-1) + 1):
            self._write(self._line(self._latest, number, "invoke", f, self._words.text(str(gap))))
        return self._index

    def _sees_more(self, row: Mapping[str, Any]) -> bool:
        """A reader at read_uncommitted gets aborted records by right; Jepsen's checker knows no isolation of one reader."""
        by_right = self._judged == "own" or (self._judged == "all" and row["final"])
        return bool(by_right and row["f"] == "poll" and row["isolation"] == Isolation.UNCOMMITTED.value)

    def _operation(self, row: Mapping[str, Any]) -> None:
        time, process = row["time"], row["process"]
        if self._begun is None or not self._index:
            self._begun = min(time, self._later[0].time if self._later else time)
        self._until(time)
        self._settled(process)
        if process not in self._started:
            self._started.add(process)
            if row["f"] not in ("assign", "subscribe", "crash"):
                everything = self._words.sequence(sorted(self._keys.values()))
                for type_ in ("invoke", "ok"):
                    self._write(self._line(time, process, type_, "assign", everything))
        for part in _without_polls(row) if self._aborted_polls_count else [row]:
            planned, done = self._values(part)
            more = _more(part, self._words)
            heapq.heappush(self._later, self._line(part["time"], process, "invoke", part["f"], planned, more=more))
            if part["end"] is not None:
                more = (*more, *self._rebalances(part))
                line = self._line(part["end"], process, _outcome(part), part["f"], done, _error(part), more)
                heapq.heappush(self._later, line)
        self._until(time)

    def _values(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """The operation's value of its invocation and of its completion."""
        words = self._words
        if row["f"] in ("assign", "subscribe"):
            value = words.sequence([self._key(name) for name in _detail(row).get("partitions", [])])
            return value, value
        if row["f"] == "crash":
            return words.nothing, words.nothing
        planned, done = [], []
        detail, number = _detail(row), itertools.count()
        parted = detail.get("parted") or ()

        def poll(mop: tuple[Any, ...]) -> tuple[Any, ...]:
            """The poll's identity: equal for records of the same poll; of a key in several polls each record has its own."""
            return (0,) if mop[0] == 0 else (1, mop[5], next(number) if mop[1] in parted else None)

        for (kind, *_), mops in itertools.groupby(row["mops"], key=poll):
            if kind == 0:
                for _, partition, v, offset, _, ended in mops:
                    planned.append(words.send(self._key(partition), v))
                    done.append(planned[-1] if ended is None else words.sent(self._key(partition), offset, v))
            else:
                planned.append(words.poll(None))
                done.append(words.poll(self._polled(mops)))
        if detail.get("unheard"):
            planned.append(words.poll(None))
            done.append(planned[-1])
        if not planned:  # an empty poll leaves no trace in the history
            planned, done = [words.poll(None)], [words.poll({})]
        return words.sequence(planned), words.sequence(done)

    def _rebalances(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The operation's `rebalance-log`, if it had rebalances."""
        log = _detail(row).get("rebalances") if row["f"] in ("poll", "txn") else None
        entries = [(word, self._words.sequence([self._key(name) for name in names])) for word, names in log or ()]
        return (self._words.rebalances(entries),) if entries else ()

    def _polled(self, mops: Iterator[tuple[Any, ...]]) -> Records:
        records: Records = {}
        for _, partition, v, offset, _, _ in mops:
            records.setdefault(self._key(partition), []).append((offset, next(self._strange) if v == -1 else v))
        return records

    def _key(self, partition: str) -> int:
        return self._keys.setdefault(partition, len(self._keys))

    def _fault(self, receipt: Mapping[str, Any]) -> None:
        """A fault as Jepsen writes it: `start-kind` and `stop-kind`, each a line when asked and a line when done."""
        value = self._words.text(", ".join(receipt["targets"] or []) or receipt["role"] or "")
        injected, healed = receipt["injected_ns"], receipt["healed_ns"]
        for f, requested, done in (("start", receipt["planned_ns"] or injected, injected), ("stop", healed, healed)):
            if done:
                for time, content in ((min(requested, done), self._words.nothing), (done, value)):
                    heapq.heappush(self._later, self._line(time, None, "info", f"{f}-{receipt['kind']}", content))

    def _line(
        self, time: int, process: int | None, type_: str, f: str, value: str, error: str = "", more: Sequence[str] = ()
    ) -> HistoryLine:
        return HistoryLine(time, next(self._numbers), process, type_, f, value, error, tuple(more))

    def _until(self, time: int | None) -> None:
        while self._later and (time is None or self._later[0].time <= time):
            self._write(heapq.heappop(self._later))

    def _settled(self, process: int) -> None:
        """Write what is still held back of a process: in Jepsen's history it has at most one open operation."""
        mine = sorted(line for line in self._later if line.process == process)
        if mine:
            self._later = [line for line in self._later if line.process != process]
            heapq.heapify(self._later)
            for line in mine:
                self._write(line)

    def _write(self, line: HistoryLine) -> None:
        assert self._begun is not None
        self._latest = line.time
        self._file.write(self._words.line(self._index, line.time - self._begun, line))
        self._index += 1


def _rows(source: Any) -> Iterator[dict[str, Any]]:
    """The rows in order, `mops` as tuples: far quicker than a dictionary per record."""
    names = [name for name in (*_NEEDED, *_ABSENT) if name in source.schema.names]
    for batch in source.to_batches(columns=names):
        columns = {name: batch[name].to_pylist() for name in names if name != "mops"} | {"mops": micro_operations(batch["mops"])}
        for values in zip(*columns.values(), strict=True):
            yield {**_ABSENT, **dict(zip(columns, values, strict=True))}


def _without_polls(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """An operation; one that did not end ok without what it polled, which is one of its own before it.

    Its consumer went on from there, and Jepsen's checker takes an operation that failed as one that never was.
    """
    polls = [mop for mop in row["mops"] if mop[0] == 1]
    if not polls or _outcome(row) == "ok":
        return [row]
    polled = max([row["time"], *(mop[5] for mop in polls if mop[5] is not None)])
    apart = {**row, "f": "poll", "type": "ok", "intent": None, "errors": None, "end": polled, "mops": polls}
    rest = {**row, "time": polled, "detail": None, "mops": [mop for mop in row["mops"] if mop[0] == 0]}
    return [apart, rest] if rest["mops"] else [apart]


def _tells(row: Mapping[str, Any]) -> bool:
    """True for a question about the group's offsets, which Jepsen's clients do not ask, that tells of a rebalance."""
    return row["f"] == "committed" and "rebalances" in _detail(row)


def _moves_anywhere(row: Mapping[str, Any]) -> bool:
    """True for a seek, a rebalance that such a question tells of, and an assignment of which it is not known whether it sought
    back.
    """
    return bool(row["f"] == "seek" or _tells(row) or (row["f"] == "assign" and "position" in _detail(row)))


def _begun_anew(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A move to an unknown place as what Jepsen has for it: a subscription, after which nobody expects the consumer anywhere."""
    return {**row, "f": "subscribe", "detail": None}


def _more(row: Mapping[str, Any], words: Edn | Json) -> tuple[str, ...]:
    """Further keys that are true: an assignment that sought back, and several records of one `send` that stand for themselves."""
    if row["f"] == "assign" and _detail(row).get("seek_to_beginning"):
        return (words.true("seek-to-beginning?"),)
    if row["f"] == "send" and sum(mop[0] == 0 for mop in row["mops"]) > 1:
        return (words.false("transactional"),)
    return ()


def _detail(row: Mapping[str, Any]) -> dict[str, Any]:
    try:
        detail = json.loads(row["detail"] or "{}")
    except (ValueError, RecursionError):
        return {}  # of a table that is not ours
    return detail if isinstance(detail, dict) else {}


def _outcome(row: Mapping[str, Any]) -> str:
    """An abort that succeeded did not happen, for Jepsen. Nor can a `send` have failed of which a part was acknowledged."""
    aborted = row["f"] == "txn" and row["intent"] == "abort" and row["type"] == "ok"
    partly = row["f"] == "send" and row["type"] == "fail" and any(mop[0] == 0 and mop[5] is not None for mop in row["mops"])
    return "fail" if aborted else "info" if partly else str(row["type"])


def _error(row: Mapping[str, Any]) -> str:
    if row["type"] == "ok" or not row["errors"]:
        return ""
    last = row["errors"][-1]
    return f"{last['call']}: {last['name']}"
