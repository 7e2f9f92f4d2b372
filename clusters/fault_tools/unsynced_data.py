"""The data of a node after a power failure: everything that was fsynced, and nothing else.

Kafka leaves fsync to the kernel, so a broker's last records may lie in memory only for half a minute. It syncs a segment when the
next one begins, and notes in `recovery-point-offset-checkpoint` up to where a partition is surely on disk. The worst that may
happen: each partition's last segment ends at that point. Its indexes (written through mapped memory) are gone, and Kafka
rebuilds them; the KRaft metadata log, checkpoints and epochs are synced by Kafka whenever they are written, and stay.

A sync that Kafka does not note is not known here: with `flush.messages` or `flush.ms` too much would be thrown away.
Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

CHECKPOINT, CLEAN = "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"
SYNCED_BY_KAFKA = "__cluster_metadata"
FLUSHES = re.compile(r"(log\.)?flush\.(interval\.)?(messages|ms)")
_PARTITION = re.compile(r"(.+)-\d+")
_HEAD = struct.Struct(">qi")  # of a record batch: base offset, length of the rest
_LAST_OFFSET_DELTA = 23  # its position in a batch (int32)
_UNSYNCED = (".index", ".timeindex", ".txnindex")


def lose_unsynced(data: Path) -> dict[str, tuple[int, int]]:
    """Throw away what the dead node that owns this directory had not synced.

    Partitions that lost something: (the offset it ends at now, the one it ended at). Raises OSError.
    """
    synced = recovery_points(data / CHECKPOINT)
    lost = {}
    for partition in sorted(path for path in data.iterdir() if path.is_dir()):
        named = _PARTITION.fullmatch(partition.name)
        if named and named.group(1) != SYNCED_BY_KAFKA:
            synced_end, end = _truncate(partition, synced.get(partition.name, 0))
            if synced_end < end:
                lost[partition.name] = (synced_end, end)
    (data / CLEAN).unlink(missing_ok=True)
    return lost


def recovery_points(checkpoint: Path) -> dict[str, int]:
    """Partition -> the offset up to which it is on disk; a partition that is not named has none."""
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    named = (line.rsplit(" ", 2) for line in lines)
    return {f"{topic}-{number}": int(offset) for topic, number, offset in named}


def flush_setting(settings: Iterable[Mapping[str, str]]) -> str:
    """The first setting that makes Kafka sync by itself, as `name=value`; empty when there is none."""
    return next((f"{name}={value}" for table in settings for name, value in table.items() if FLUSHES.fullmatch(name)), "")


def _truncate(partition: Path, synced: int) -> tuple[int, int]:
    """End a partition's last segment at its first batch that was not synced; the offsets it ends at now, and ended at."""
    segments = sorted(partition.glob("*.log"))
    if not segments:
        return 0, 0
    last = segments[-1]
    begin = int(last.stem)
    synced_bytes, synced_end, end = 0, begin, begin
    for position, offset, next_offset in batches(last):
        end = next_offset
        if offset < synced:
            synced_bytes, synced_end = position, next_offset
    if synced_end < end:
        with last.open("r+b") as segment:
            segment.truncate(synced_bytes)
        for suffix in _UNSYNCED:
            last.with_suffix(suffix).unlink(missing_ok=True)
        for snapshot in partition.glob("*.snapshot"):
            if int(snapshot.stem) > synced_end:
                snapshot.unlink()
    return synced_end, end


def batches(segment: Path) -> Iterator[tuple[int, int, int]]:
    """The end in the file, the first offset and the offset after the last, of each whole batch."""
    with segment.open("rb") as file:
        data = file.read()
    position = 0
    while position + _HEAD.size <= len(data):
        offset, length = _HEAD.unpack_from(data, position)
        ends = position + _HEAD.size + length
        if length <= 0 or ends > len(data):
            return
        (delta,) = struct.unpack_from(">i", data, position + _LAST_OFFSET_DELTA)
        position = ends
        yield position, offset, offset + delta + 1
