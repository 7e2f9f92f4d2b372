"""The contents of the state stores of a program's instances at the end of a run, dumped by the instances on request.

The request is a file `dump` in the instance's directory, the answer the file that it names (docs/your-application.md). Each copy
of a partition of a store is an operation `read-store` of the harness: a row of kind `active` or `standby` with the position up to
which the copy has its changelog, then its keys. Dumps are requested while the changelogs do not grow, so the position of an
active copy is the end of its changelog.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fencepost.harness.api import Cluster, ClusterError, Isolation, LogEntry, LogRecord, Outcome, ReadingLogs
from fencepost.harness.api.beneath import limited, remove, write_text
from fencepost.harness.api.errors import UnwritableFile
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.system.answers import Offset, decoded, shown

FUNCTION = "read-store"
REQUEST = "dump"
ACTIVE, STANDBY = "active", "standby"
TRIES = 4
MOST_DUMP = 256 << 20  # bytes
ANSWER_S = 30.0  # for all instances to answer one request
REST_S, REST_BOUND_S, LOOK_S = 3.0, 30.0, 0.25  # for so long changelogs must not grow before they are at rest
UNKNOWN = -1
EntryOf = Callable[[LogRecord], LogEntry | None]


@dataclass(frozen=True)
class Copy:
    """An instance's copy of one partition of a store.

    role: ACTIVE or STANDBY.
    position: end of the part of its changelog that it has; UNKNOWN: not known, or moved meanwhile; None: the dump gives none.
    rows: (key, value).
    """

    store: str
    partition: int
    role: str
    position: int | None = None
    rows: Sequence[tuple[bytes, bytes]] = ()


class BadDump(ValueError):
    """A dump that is not as docs/your-application.md says."""


class _Line(msgspec.Struct):
    """A line of a dump: of a copy, or of a key in it."""

    store: str
    partition: Offset
    role: str | msgspec.UnsetType = msgspec.UNSET
    position: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] | None = None
    key: str | msgspec.UnsetType = msgspec.UNSET
    key_hex: str | msgspec.UnsetType = msgspec.UNSET
    value: str | msgspec.UnsetType = msgspec.UNSET
    value_hex: str | msgspec.UnsetType = msgspec.UNSET


def copies_in(text: str) -> list[Copy]:
    """The copies in a dump. Raises BadDump, with the line's number."""
    copies: dict[tuple[str, int], Copy] = {}
    rows: dict[tuple[str, int], list[tuple[bytes, bytes]]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            parsed = decoded(line.encode(), _Line)
            place = (parsed.store, parsed.partition)
            if parsed.role is not msgspec.UNSET:
                copies[place] = Copy(*place, _role(parsed.role), parsed.position)
            else:
                row = (_bytes("key", parsed.key, parsed.key_hex), _bytes("value", parsed.value, parsed.value_hex))
                rows.setdefault(place, []).append(row)
        except ValueError as error:
            raise BadDump(f"line {number} of the dump cannot be read: {error}") from error
    if without := rows.keys() - copies.keys():
        raise BadDump("the dump has keys of {}-{}, and no line with the role of that copy".format(*min(without)))
    return [replace(copy, rows=rows.get(place, [])) for place, copy in copies.items()]


def _role(word: str) -> str:
    if word not in (ACTIVE, STANDBY):
        raise ValueError(f"the role is {shown(word)}: {ACTIVE} or {STANDBY}")
    return word


def _bytes(name: str, text: str | msgspec.UnsetType, as_hex: str | msgspec.UnsetType) -> bytes:
    """A key or value: as text, or as `key_hex`, `value_hex`. Raises ValueError."""
    if text is not msgspec.UNSET:
        return text.encode()
    if as_hex is msgspec.UNSET:
        raise ValueError(f"it has neither {name} nor {name}_hex")
    return bytes.fromhex(as_hex)


@dataclass
class StoreDumps:
    """Dumps of some instances.

    changelogs: topic by the store's name.
    directories: of the instances, by node.
    tend: called while they are waited for.
    """

    cluster: Cluster
    changelogs: Mapping[str, str]
    directories: Mapping[str, Path]
    tend: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _number: int = field(default=0, init=False)

    def record(self, entry: EntryOf, writer: HistoryWriter, number: Callable[[], int]) -> Iterator[str]:
        """Record every copy; yields what is not known, and why."""
        answers, ends = self._answers()
        for node in sorted(self.directories):
            answer = answers[node]
            copies, problem = ([], answer) if isinstance(answer, str) else (answer, "")
            for copy in copies:
                self._record_one(node, copy, ends, entry, (writer, number()))
            if problem:
                at = number()
                writer.invoke(-1, at, FUNCTION, {})
                writer.complete(Outcome.INFO, -1, at, FUNCTION, {"node": node, "problem": problem}, errors=[])
                yield f"the state stores of instance {node} are not compared: {problem}"

    def _answers(self) -> tuple[dict[str, list[Copy] | str], Mapping[str, int]]:
        """The copies of each instance, or why they are not known, and the ends of the changelogs meanwhile."""
        if not isinstance(self.cluster, ReadingLogs):
            return dict.fromkeys(self.directories, "the changelogs of this cluster cannot be read"), {}
        answers: dict[str, list[Copy] | str] = {}
        for _ in range(TRIES):
            before = self._ends_at_rest()
            if not before:
                answers = dict.fromkeys(self.directories, "the changelogs did not come to rest")
                continue
            answers = self._dumps()
            if self._ends() == (before, before):
                return answers, before
            answers = dict.fromkeys(self.directories, "the changelogs grew while the instances dumped their stores")
        return answers, {}

    # -- the changelogs --------------------------------------------------------------------------------
    def _ends(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """The last stable offsets and the high watermarks of the changelogs."""
        try:
            assert isinstance(self.cluster, ReadingLogs)
            partitions = [name for topic in self.changelogs.values() for name in self.cluster.partitions_of(topic)]
            stable, high = (self.cluster.admin().end_offsets(partitions, level) for level in _LEVELS)
        except ClusterError:
            return {}, {}
        return stable, (high if len(high) == len(partitions) else {})

    def _ends_at_rest(self) -> Mapping[str, int]:
        """The ends of the changelogs, when they have not grown for a while and nothing is open in them; empty: no rest."""
        deadline, since, last = self.clock() + REST_BOUND_S, self.clock(), self._ends()
        while self.clock() < deadline:
            self.tend()
            self.sleep(LOOK_S)
            now = self._ends()
            if now != last or now[0] != now[1]:
                since, last = self.clock(), now
            elif now[1] and self.clock() - since >= REST_S:
                return now[1]
        return {}

    # -- the instances ---------------------------------------------------------------------------------
    def _dumps(self) -> dict[str, list[Copy] | str]:
        """Request a dump from all instances at once; returns their answers."""
        self._number += 1
        name = f"state-{self._number}.jsonl"
        for directory in self.directories.values():
            with suppress(UnwritableFile):
                write_text(directory, REQUEST, name)
        missing, deadline = set(self.directories), self.clock() + ANSWER_S
        while missing and self.clock() < deadline:
            self.tend()
            self.sleep(LOOK_S)
            missing = {node for node in missing if not (self.directories[node] / name).exists()}
        return {node: self._answer(directory, name) for node, directory in self.directories.items()}

    def _answer(self, directory: Path, name: str) -> list[Copy] | str:
        remove(directory, REQUEST)
        try:
            return copies_in(limited(directory, name, MOST_DUMP).decode())
        except FileNotFoundError:
            return f"no dump came within {ANSWER_S:.0f} s"
        except OSError as error:
            return f"the dump cannot be read: {error.strerror or error}"
        except ValueError as error:
            return str(error)

    # -- the history -----------------------------------------------------------------------------------
    def _record_one(
        self, node: str, copy: Copy, ends: Mapping[str, int], entry: EntryOf, place: tuple[HistoryWriter, int]
    ) -> None:
        changelog = f"{self.changelogs.get(copy.store, copy.store)}-{copy.partition}"
        end = ends.get(changelog, UNKNOWN) if copy.role == ACTIVE else UNKNOWN
        known = end if copy.position is None else copy.position
        partition = f"{node}:{changelog}"
        records = [(offset, _record(partition, offset, *row)) for offset, row in enumerate(copy.rows, start=1)]
        rows = [[0, *_NO_PRODUCER, copy.role, copy.store, known]]
        rows += [
            [at, *_NO_PRODUCER, meaning.kind, meaning.name, meaning.number]
            for at, record in records
            if (meaning := entry(record))
        ]
        writer, number = place
        writer.invoke(-1, number, FUNCTION, {})
        writer.complete(Outcome.OK, -1, number, FUNCTION, [["entries", partition, rows]], errors=[])


_LEVELS = (Isolation.COMMITTED, Isolation.UNCOMMITTED)
_NO_PRODUCER = (None, None, None, None)  # timestamp and producer of a row


def _record(partition: str, offset: int, key: bytes, value: bytes) -> LogRecord:
    """A row of a dump in the form of a record."""
    producer: dict[str, Any] = {"timestamp_ms": 0, "producer_id": -1, "producer_epoch": -1, "transactional": False}
    return LogRecord(partition=partition, offset=offset, kind="record", key=key, value=value, **producer)
