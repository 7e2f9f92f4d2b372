"""The content of a node's log segments, record by record: the witness of what was appended, by whom, and how it was decided.

Reads record batches of version 2 (KIP-98), as every broker since 0.11 writes them. Of a compressed batch only its head is read;
`batch_records` unpacks gzip.
Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from fencepost.clusters.kafka.transaction_state import TOPIC, state_record
from fencepost.harness.api.stored_kinds import ABORT, COMMIT, CONTROL, DAMAGED_BATCH, EMPTY_BATCH, LOG, RECORD

MOST_BYTES = 256 << 20  # of a node's segments; of the coordinators' own topic, so many again
MOST_ROWS = 900_000  # of a node: some five seconds of one core, and 500 MB of memory
HEAD_BYTES = 64  # of a record's value: its identity is among them
_PARTITION = re.compile(r"(?!__).+-\d+")  # Kafka's own topics begin with two underscores
_STATES = re.compile(rf"{TOPIC}-\d+")
_WATERMARKS, _STARTS = "replication-offset-checkpoint", "log-start-offset-checkpoint"  # files of a node
_ATTEMPTS = 3  # to read a partition whose segments a broker that lives removes meanwhile
_BATCH = struct.Struct(">qiiBIHiqqqhii")  # a batch's head, to the number of its records
_MAGIC, _MAGIC_BYTE, _LENGTH_BYTES = 2, 16, 12
_COMPRESSION, _CONTROL = 0b111, 0b100000  # bits of a batch's attributes
_GZIP, _TRANSACTIONAL = 1, 0b10000
_CODECS = ("", "gzip", "snappy", "lz4", "zstd")
_MARKERS = {0: ABORT, 1: COMMIT}
_CONTROL_KEY = struct.Struct(">hh")  # version, kind
_MARKER = struct.Struct(">hi")  # version, coordinator epoch

# partition, offset, leader epoch, producer id, producer epoch, sequence, timestamp (ms), kind, value; of its batch first and last
# offset, first sequence, checksum, whether it belongs to a transaction; the coordinator epoch of a marker; a transaction's state
# (`transaction_state.State`)
Row = list[Any]


def stored_records(data: Path) -> tuple[list[Row], str]:
    """Every record of every partition in a node's directory, in the order of the log; and why there are none, if so.

    The kind is `record`, `COMMIT`, `ABORT`, `control`, or `gzip batch` and the like, which stands for all records of the batch;
    `empty batch`: one of which compaction left the head; `damaged batch`: one that cannot be read. The value is the beginning of
    the record's, a byte a character; None for null. Of `__transaction_state` the kind is the state. Before the rows of a log
    comes one of the kind `log`: its offset is where the log begins, its last offset the node's high watermark by its last
    checkpoint (-1: none). Raises OSError.
    """
    logs = sorted(path for path in data.iterdir() if path.is_dir() and _PARTITION.fullmatch(path.name))
    states = sorted(path for path in data.iterdir() if path.is_dir() and _STATES.fullmatch(path.name))
    size = _size(logs)
    if size > MOST_BYTES:
        return [], f"its log segments have {size >> 20} MB, more than {MOST_BYTES >> 20} MB"
    starts, watermarks = (_checkpoint(data / name) for name in (_STARTS, _WATERMARKS))
    rows: list[Row] = []
    for log in (states if _size(states) <= MOST_BYTES else []) + logs:  # a decision that is read has its markers in what follows
        own = _log_rows(log, MOST_ROWS - len(rows))
        if len(rows) + len(own[1]) >= MOST_ROWS:  # with the row of the log itself
            return [], f"its logs have more than {MOST_ROWS:,} records"
        start = max(starts.get(log.name, 0), own[0])
        rows.append([log.name, start, -1, -1, -1, -1, -1, LOG, None, start, watermarks.get(log.name, -1), -1, 0, False, -1, None])
        rows += ([log.name, *row] for row in own[1])
    return rows, ""


def _size(logs: list[Path]) -> int:
    return sum(segment.stat().st_size for log in logs for segment in log.glob("*.log"))


def _log_rows(log: Path, most: int) -> tuple[int, list[Row]]:
    """The first offset of a log, and its rows without the partition: one more than `most` at most."""
    for attempt in range(_ATTEMPTS):
        segments = sorted(log.glob("*.log"))
        try:
            states = _STATES.fullmatch(log.name) is not None
            every = (row for segment in segments for row in segment_rows(segment.read_bytes(), states))
            rows = list(islice(every, max(most, 0) + 1))
        except FileNotFoundError:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return (int(segments[0].stem) if segments else 0), rows
    raise AssertionError("unreachable")


def _checkpoint(path: Path) -> dict[str, int]:
    """Partition -> offset of one of a node's checkpoints; empty where it has none yet."""
    try:
        lines = path.read_text().splitlines()[2:]  # after a version and a count
    except FileNotFoundError:
        return {}
    entries = (line.rsplit(" ", 2) for line in lines)
    return {f"{entry[0]}-{entry[1]}": int(entry[2]) for entry in entries if len(entry) == 3 and entry[2].isdecimal()}


def segment_rows(segment: bytes, states: bool = False) -> Iterator[Row]:
    """The rows of one segment without the partition. states: it is one of `__transaction_state`."""
    for batch in batches(segment):
        head = _BATCH.unpack_from(batch)
        of_batch = [head[0], head[0] + head[6], head[11], head[4], bool(head[5] & _TRANSACTIONAL)]
        control = bool(head[5] & _CONTROL)
        kind = EMPTY_BATCH
        try:
            rows = list(batch_records(batch))
        except (IndexError, UnicodeDecodeError):  # damaged on the disk
            rows, kind = [], DAMAGED_BATCH
        for row in rows:
            if states and row[6] == RECORD:
                kind, state = state_record(row[7], row[8])
                yield [*row[:6], kind, None, *of_batch, -1, state]
            else:
                yield [*row[:7], _text(row[8]), *of_batch, _coordinator_epoch(row[8]) if control else -1, None]
        if not rows:
            yield [head[0], head[2], head[9], head[10], head[11], head[7], kind, None, *of_batch, -1, None]


def _coordinator_epoch(value: bytes | None) -> int:
    """The epoch of the coordinator that a marker's value names; -1 where it names none."""
    return int(_MARKER.unpack_from(value)[1]) if value is not None and len(value) >= _MARKER.size else -1


def batches(content: bytes) -> Iterator[bytes]:
    """The record batches of a log's bytes. They end where one is cut off, or is none of version 2."""
    at = 0
    while at + _BATCH.size <= len(content) and content[at + _MAGIC_BYTE] == _MAGIC:
        end = at + _LENGTH_BYTES + int.from_bytes(content[at + 8 : at + 12], "big", signed=True)
        if not at + _BATCH.size <= end <= len(content):
            return
        yield content[at:end]
        at = end


def last_offset(batch: bytes) -> int:
    """The offset of a batch's last record, which compaction may have taken away."""
    head = _BATCH.unpack_from(batch)
    return int(head[0] + head[6])


def is_transactional(batch: bytes) -> bool:
    """Return whether the records of a batch belong to a transaction."""
    return bool(_BATCH.unpack_from(batch)[5] & _TRANSACTIONAL)


def batch_records(batch: bytes, unpack: bool = False) -> Iterator[Row]:
    """The records of a batch: a `Row` without the partition, then key and headers: offset, leader epoch, producer id and epoch,
    sequence, timestamp, kind, key, value, headers.

    unpack: also those of a batch that is compressed by gzip.
    """
    offset, _, leader_epoch, _, _, attributes, _, time, _, producer, epoch, sequence, count = _BATCH.unpack_from(batch)
    codec, content = attributes & _COMPRESSION, batch[_BATCH.size :]
    if codec == _GZIP and unpack:
        content = zlib.decompress(content, wbits=31)
    elif codec:
        name = _CODECS[codec] if codec < len(_CODECS) else f"codec {codec}"
        yield [offset, leader_epoch, producer, epoch, sequence, time, f"{name} batch", None, None, []]
        return
    at = 0
    for _ in range(count):
        length, at = _varint(content, at)
        time_delta, offset_delta, key, value, headers = _record(content, at)
        kind = _kind(key) if attributes & _CONTROL else RECORD
        # By its place in the batch as it was sent, of which compaction may have left a part; sequence numbers begin anew at 2^31.
        own = sequence + offset_delta & 0x7FFFFFFF if sequence >= 0 else sequence
        yield [offset + offset_delta, leader_epoch, producer, epoch, own, time + time_delta, kind, key, value, headers]
        at += length


def _record(content: bytes, at: int) -> tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes]]]:
    """Time and offset since the batch's, key, value and headers of the record whose attributes are at a position."""
    time_delta, at = _varint(content, at + 1)
    offset_delta, at = _varint(content, at)
    key, at = _bytes(content, at)
    value, at = _bytes(content, at)
    count, at = _varint(content, at)
    headers = []
    for _ in range(count):
        name, at = _bytes(content, at)
        own, at = _bytes(content, at)
        headers.append(((name or b"").decode(), own or b""))
    return time_delta, offset_delta, key, value, headers


def _kind(key: bytes | None) -> str:
    known = key is not None and len(key) >= _CONTROL_KEY.size
    return _MARKERS.get(_CONTROL_KEY.unpack_from(key or b"")[1], CONTROL) if known else CONTROL


def _text(value: bytes | None) -> str | None:
    return None if value is None else value[:HEAD_BYTES].decode("latin-1")


def _bytes(batch: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(batch, at)
    return (None, at) if length < 0 else (batch[at : at + length], at + length)


def _varint(batch: bytes, at: int) -> tuple[int, int]:
    """A signed number of variable length (zigzag), and the position after it."""
    value = shift = 0
    while True:
        byte = batch[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
