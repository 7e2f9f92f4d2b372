"""Log segments as they lie on disk: the batches of a partition, read without Kafka."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

HEAD = struct.Struct(">qiibIhiqqqhii")
CONTROL = 0x20


@dataclass(frozen=True)
class Batch:
    """A batch. What two writers cannot have in common is left out: its CRC, its timestamps, and the number of its producer id.

    producer: which of the partition's producer ids it is, in the order of their first batches; -1: none.
    """

    base_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    last_offset_delta: int
    producer: int
    epoch: int
    first_sequence: int
    count: int
    records: bytes

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)


def batches(log_dir: Path, topic: str, partition: int) -> list[Batch]:
    """The batches of a partition whose log is one segment."""
    (segment,) = (log_dir / f"{topic}-{partition}").glob("*.log")
    content, at, made, producers = segment.read_bytes(), 0, [], {-1: -1}
    while at < len(content):
        base, size, leader, magic, _, attributes, delta, _, _, producer, epoch, sequence, count = HEAD.unpack_from(content, at)
        records = content[at + HEAD.size : at + 12 + size]
        number = producers.setdefault(producer, len(producers) - 1)
        made.append(Batch(base, leader, magic, attributes, delta, number, epoch, sequence, count, records))
        at += 12 + size
    return made
