"""Entries of the records of a connector, and of the topics in which Connect and the coordinators keep their state.

Layouts: KIP-618 and `KafkaConfigBackingStore` (the configuration), `TransactionLogKey` and `TransactionLogValue` (coordinators).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fencepost.harness.api import LogEntry, LogRecord, Polled
from fencepost.workloads.support.inputs_and_outputs import counting, json_of, naming, number_of, pointed, telling

STRANGE = "strange"
UNCOMPARED = "stored"  # the kind of a stored offset that is not asked for its position
OVERRIDDEN = "fencepost-overridden"  # a transactional id that nobody may have
MOST_RECORDS = 1_000_000  # of a position
TRANSACTIONS = "__transaction_state"
EMPTY = 0  # of the states of a transaction
_CONFIG_KINDS = (  # beginnings of keys, the longest of those that share a beginning first
    ("tasks-fencing-", "task-count", "task-count"),
    ("commit-", "generation", "tasks"),
    ("connector-", "connector", ""),
    ("task-", "task", ""),
    ("target-state-", "target-state", ""),
    ("restart-connector-", "restart", ""),
)
_STATE = struct.Struct(">hqhib")  # version, producer id and epoch, timeout, state: the same in both versions
_SHOWN, _MOST_SHOWN = 40, 200  # bytes of a key or value, characters of a sentence
_TOLD, _DROPPED = (re.compile(b'"%s":(-?\\d{1,18})[,}]' % key) for key in (b"told", b"dropped"))
NOTHING = (ValueError, LookupError, TypeError)


@dataclass(frozen=True)
class SourceRecords:
    """The ways in which records and stored offsets name a position in a source.

    source: the way in which a record names its source (`inputs_and_outputs.naming`); empty: there is one source, without a name.
    position: the way in which a record tells its position (`inputs_and_outputs.counting`); several: its parts, the first one
        first (`inputs_and_outputs.telling`).
    offset_source: JSON pointer to the source in a stored source partition.
    offset_position: JSON pointer to the position in a stored source offset; several: to its parts; empty: it has none.
    next_offset: the stored position is that of the next record, not of the last one.
    offset_unit: how much the stored position grows by a position.
    place: the way in which a record tells which one of the records of its position it is, from 0; empty: a position gives one.
    count: the way in which it tells how many these are, or their number where it is always the same.
    sequence: the way in which a record tells its number among all of its source, rising by one, beside its position; empty: it
        does not.
    """

    source: str
    position: str | tuple[str, ...]
    offset_source: str
    offset_position: str | tuple[str, ...]
    next_offset: bool = False
    offset_unit: int = 1
    place: str = ""
    count: str = ""
    sequence: str = ""

    def __post_init__(self) -> None:
        if self.source:
            naming(self.source)
        if bool(self.place) != bool(self.count):
            raise ValueError("place_by and count_by: both, where a position gives several records, or neither")
        if self._parted and (self.place or self.next_offset or self.offset_unit != 1):
            raise ValueError(
                "place_by, next_offset and offset_unit are for positions that are one number: of a position of several parts, or "
                "beside sequence_by, the place is one part more of position_by"
            )
        if self.offset_position and len(self._pointers) != len(self._parts):
            raise ValueError(
                f"offset_position has {len(self._pointers)} parts, and position_by {len(self._parts)}: as many, or none at all"
            )
        _ = self._ways, self._within, self._sequence

    @property
    def _parted(self) -> bool:
        """True if a position is written out, for it has several parts, or is told beside a number in a sequence."""
        return not isinstance(self.position, str) or bool(self.sequence)

    @property
    def _parts(self) -> tuple[str, ...]:
        return (self.position,) if isinstance(self.position, str) else self.position

    @property
    def _pointers(self) -> tuple[str, ...]:
        return (self.offset_position,) if isinstance(self.offset_position, str) else self.offset_position

    @cached_property
    def _ways(self) -> tuple[Callable[[Any], str], Callable[[Any], int]]:
        name = naming(self.source) if self.source else lambda record: ""
        return name, self._sequence if self._parted else counting(self._parts[0])

    @cached_property
    def _sequence(self) -> Callable[[Any], int]:
        return counting(self.sequence) if self.sequence else lambda record: -1

    @cached_property
    def _within(self) -> Callable[[Any], str]:
        """The function that names a record's kind: `record`, which of the records of its position it is (`record 2/3`), or at
        which position of several parts (`record at ["file",154]`)."""
        if self._parted:
            parts = [telling(part) for part in self._parts]
            return lambda record: _at("record", [part(record) for part in parts])
        if not self.place:
            return lambda record: "record"
        place = counting(self.place)
        if self.count.isdecimal():
            return lambda record: _one_of(place(record), int(self.count))
        count = counting(self.count)
        return lambda record: _one_of(place(record), count(record))

    def entry(self, record: Polled | LogRecord) -> LogEntry:
        """The entry of a record of a connector: its source and position."""
        name, number = self._ways
        try:
            return LogEntry(self._within(record), name(record), number(record))
        except NOTHING as error:
            return _strange(record, error)

    def offset(self, record: LogRecord) -> LogEntry | None:
        """The entry of a record of an offsets topic: a source and its stored position, -1 for a tombstone."""
        try:
            _, partition = _key_of(record)
            if record.value is None:
                return LogEntry("offset", self._name(partition), -1)
            return self.stored(partition, json_of(record.value))
        except NOTHING as error:
            return _strange(record, error)

    def stored(self, partition: Any, offset: Any) -> LogEntry:
        """The entry of a stored offset. Raises NOTHING."""
        name = self._name(partition)
        if not self.offset_position:
            return LogEntry(UNCOMPARED, name, -1)
        if self._parted:
            return LogEntry(_at("offset", [pointed(offset, pointer) for pointer in self._pointers]), name, 0)
        return LogEntry("offset", name, self._number(offset))

    def _name(self, partition: Any) -> str:
        return str(pointed(partition, self.offset_source)) if self.source else ""

    def _number(self, offset: Any) -> int:
        return number_of(pointed(offset, self._pointers[0])) // self.offset_unit - self.next_offset

    def moved(self, partition: Any, offset: Any, by: int) -> tuple[Any, LogEntry]:
        """A stored offset of so many positions more, but not below the first one, and what it says."""
        number = max(0, self._number(offset) + by)
        value = (number + self.next_offset) * self.offset_unit
        return replaced(offset, self._pointers[0], value), LogEntry("offset", self._name(partition), number)


def told(record: LogRecord) -> int | None:
    """Up to which number a record of the numbered source says that the worker had called commitRecord; None: it does not say."""
    return _says(_TOLD, record)


def dropped(record: LogRecord) -> int | None:
    """How many batches that are to be dropped a record of the numbered source says were before it.

    -1: it is of such a batch. None: it does not say.
    """
    return _says(_DROPPED, record)


def _says(key: re.Pattern[bytes], record: LogRecord) -> int | None:
    found = key.search(record.value or b"")
    return int(found[1]) if found else None


def _at(kind: str, parts: Sequence[Any]) -> str:
    """`record at ["file",154]`: digits in a text are a number. Raises ValueError."""
    known = [number_of(part) if str(part).removeprefix("-").isdecimal() else part for part in parts]
    odd = [part for part in known if not isinstance(part, int | str) or isinstance(part, bool)]
    if odd:
        raise ValueError(f"{str(odd[0])[:_SHOWN]!r} is no part of a position: a whole number or a text")
    return f"{kind} at {json.dumps(known, separators=(',', ':'))}"


def _one_of(place: int, count: int) -> str:
    """`record 2/3` of place 1 and count 3. Raises ValueError where no position gives such a record."""
    if not 0 <= place < count <= MOST_RECORDS:
        raise ValueError(f"record {place} of {count} of a position: from 0, and of {MOST_RECORDS:,} at most")
    return "record" if count == 1 else f"record {place + 1}/{count}"


def _strange(record: Polled | LogRecord, error: Exception) -> LogEntry:
    """A record that tells no position: why, and how it begins."""
    key, value = (None if part is None else part[:_SHOWN].decode("utf-8", "replace") for part in (record.key, record.value))
    return LogEntry(STRANGE, f"{error}; key {key!r}, value {value!r}"[:_MOST_SHOWN], -1)


def _key_of(record: LogRecord) -> tuple[Any, Any]:
    """The connector and the source partition in the key of a record of an offsets topic. Raises ValueError."""
    key = json_of(record.key or b"null")
    if not isinstance(key, list) or len(key) != 2:
        raise ValueError("its key is no list of a connector and a partition")
    return key[0], key[1]


def connector_of(record: LogRecord) -> str:
    """The connector of a record of an offsets topic; empty when it tells none."""
    try:
        name, _ = _key_of(record)
    except NOTHING:
        return ""
    return str(name)


def replaced(document: Any, pointer: str, value: Any) -> Any:
    """A copy of a document with another value where a JSON pointer leads."""
    _, first, *rest = pointer.split("/")
    key = first.replace("~1", "/").replace("~0", "~")
    return {**document, key: replaced(document[key], "/" + "/".join(rest), value) if rest else value}


def configuration(record: LogRecord) -> LogEntry | None:
    """The entry of a record of the configuration topic."""
    key = (record.key or b"").decode("utf-8", "replace")
    for beginning, kind, field in _CONFIG_KINDS:
        if key.startswith(beginning):
            return LogEntry(kind, key.removeprefix(beginning), _count(record.value, field))
    return LogEntry("other", key, -1)


def _count(value: bytes | None, field: str) -> int:
    """A number in a document; -1: there is none, or the record is a tombstone; 0: none was to be."""
    if value is None:
        return -1
    if not field:
        return 0
    with suppress(*NOTHING):
        document = json_of(value)
        return number_of(document.get(field, -1)) if isinstance(document, dict) else -1
    return -1


def transaction(record: LogRecord, beginnings: tuple[str, ...]) -> LogEntry | None:
    """The entry of a record of the coordinators' log, if its transactional id begins in one of these ways; else None.

    `initialised` has the timeout (ms) of the producer that was initialised, `transaction` the transaction's new state.
    """
    key, value = record.key or b"", record.value or b""
    if len(value) < _STATE.size:
        return None
    name = key[4:].decode("utf-8", "replace")
    if not name.startswith(beginnings):
        return None
    _, producer, epoch, timeout_ms, state = _STATE.unpack_from(value)
    kind, number = ("initialised", timeout_ms) if state == EMPTY else ("transaction", state)
    return LogEntry(kind, name, number, (producer, epoch))
