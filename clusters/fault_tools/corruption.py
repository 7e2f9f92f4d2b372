"""Damage to a file of a dead node, as by a disk that returns other bytes than were written.

A batch of records has a checksum (CRC-32C, KIP-98), and so has a snapshot of producers; an index has none and is compared with
its segment. What is damaged stays so: whether it is noticed is what the fault asks.
Standard library only, as all that works on a node's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from fencepost.clusters.fault_tools.unsynced_data import batches
from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.cluster import KafkaCluster
from fencepost.clusters.kafka.options import NodeOptions
from fencepost.harness.api import ClusterError, Damage, DamagedPart

_HEAD_BYTES = 61  # of a record batch: what comes before its records
_SUFFIXES = {"index": ".index", "txnindex": ".txnindex", "snapshot": ".snapshot"}
_SHOWN = 8  # bytes around the damaged one
NOTICE = ("corrupt", "invalid message", "invalid record", "crc", "failed to load producer snapshot")  # words of Kafka's log


class CorruptibleFiles(KafkaCluster):
    """A cluster whose dead brokers' files can be damaged (`Corruptible`), where their data lies in a directory of ours."""

    def __init__(self, nodes: Sequence[PlannedNode], run_dir: Path, options: NodeOptions) -> None:
        super().__init__(nodes, run_dir, options)
        self._log_lengths: dict[str, int] = {}  # node -> the length of its log when a file of it was damaged last

    def corrupt(self, node: str, partition: str, part: DamagedPart, at: float, older: bool = False) -> Damage:
        if (pid := self.pid(self._checked_server(node))) is not None:
            raise ClusterError(f"{node} (pid {pid}) is alive; it must be killed before its files can be damaged")
        self._log_lengths[node] = len(self._log_text(node))
        try:
            return damage(self.data_directory(node) / partition, part, at, older)
        except OSError as error:
            raise ClusterError(f"{partition} of {node} could not be damaged: {error}") from error
        except LookupError as error:
            raise ClusterError(f"{node} has {error.args[0]} of {partition}") from error

    def corruption_notice(self, node: str, partition: str) -> str:
        since = self._log_lengths.get(self._checked_server(node), 0)
        text = self._log_text(node)[since:].replace(str(self._data), "data")  # a run's own directory may have such a word
        lines = (line for line in text.splitlines() if partition in line)
        return next((line.strip()[:500] for line in lines if any(word in line.lower() for word in NOTICE)), "")


def damage(directory: Path, part: DamagedPart, at: float, older: bool = False) -> Damage:
    """Damage a part of a partition's directory.

    at: 0 to 1: where, of all batches or bytes there are. older: in a segment before the last one, which Kafka takes for synced.
    Raises LookupError, with what is missing, and OSError.
    """
    segments = sorted(directory.glob("*.log"))
    if part in _SUFFIXES:
        return _flip(_newest(directory, _SUFFIXES[part], segments[-1].stem if segments else ""), at)
    wanted = segments[:-1] if older else segments[-1:]
    if not wanted:
        raise LookupError("no older segment" if older else "no segment")
    segment = wanted[min(int(at * len(wanted)), len(wanted) - 1)] if older else wanted[0]
    return _damage_batch(segment, at, cut=part == "cut")


def _newest(directory: Path, suffix: str, last: str) -> Path:
    """The newest file of a kind that has content; of the last segment or beyond it, for older ones are not made anew.

    last: the name of the last segment without its suffix.
    """
    paths = [path for path in sorted(directory.glob(f"*{suffix}")) if path.stat().st_size and path.stem >= last]
    if not paths:
        raise LookupError(f"no {suffix} file with content at the last segment")
    return paths[-1]


def _damage_batch(segment: Path, at: float, cut: bool) -> Damage:
    """Flip a byte of a batch's records, or end the file inside the batch."""
    rows = list(batches(segment))
    if not rows:
        raise LookupError("no records in the segment")
    index = min(int(at * len(rows)), len(rows) - 1)
    begin = rows[index - 1][0] if index else 0
    end, first, behind = rows[index]
    position = begin + _HEAD_BYTES + (end - begin - _HEAD_BYTES) // 2
    made = _cut(segment, position) if cut else _flip_at(segment, position)
    return Damage(**{**made, "first_offset": first, "last_offset": behind - 1})


def _flip(path: Path, at: float) -> Damage:
    """Flip a byte of a file that is no segment: of what is in use of it, since an index is longer than its entries."""
    content = path.read_bytes().rstrip(b"\x00")
    if not content:
        raise LookupError(f"no {path.suffix} file with content")
    return Damage(**_flip_at(path, min(int(at * len(content)), len(content) - 1)))


def _flip_at(path: Path, position: int) -> dict[str, Any]:
    with path.open("r+b") as file:
        before = _around(file, position)
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0xFF]))
        file.flush()
        after = _around(file, position)
        size = file.seek(0, 2)
    return _document(path, position, before, after, size, size)


def _cut(path: Path, position: int) -> dict[str, Any]:
    with path.open("r+b") as file:
        before, size = _around(file, position), file.seek(0, 2)
        file.truncate(position)
    return _document(path, position, before, "", size, position)


def _around(file: IO[bytes], position: int) -> str:
    """The bytes from a position on, as hexadecimal digits."""
    file.seek(position)
    return file.read(_SHOWN).hex()


def _document(path: Path, position: int, before: str, after: str, size: int, now: int) -> dict[str, Any]:
    name = f"{path.parent.name}/{path.name}"
    return {"file": name, "position": position, "before": before, "after": after, "bytes_before": size, "bytes_after": now}
