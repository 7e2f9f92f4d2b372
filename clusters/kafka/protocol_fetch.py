"""Reads partitions as their leaders have them, by Fetch requests of our own: no client shows producers and markers.

Fetch of version 4 (KIP-98) is the oldest that brokers 3.0 to 4.x share. Layout: https://kafka.apache.org/protocol
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from fencepost.clusters.kafka.log_segments import batch_records, batches, is_transactional, last_offset
from fencepost.clusters.kafka.protocol import Partition, Place, WireError, ask, string
from fencepost.harness.api import LogRecord

_FETCH, _CONSUMER, _UNCOMMITTED = 1, -1, 0
_WAIT_MS, _LEAST_BYTES, _MOST_BYTES = 0, 0, 4 << 20


def read_log(address: Place, partition: Partition, start: int, timeout_s: float = 5.0) -> Iterator[LogRecord]:
    """Every record from `start` up to the high watermark of a partition that the broker at `address` leads. Raises OSError."""
    while True:
        high, content = _fetch(address, partition, start, timeout_s)
        last = start - 1
        for batch in batches(content):
            last = last_offset(batch)
            rows = (row for row in batch_records(batch, unpack=True) if start <= row[0] < high)
            yield from (_record(partition.name, row, is_transactional(batch)) for row in rows)
        start = last + 1
        if start >= high:
            return
        if not content:
            raise WireError(f"{partition.name} gives nothing at {start}, below its high watermark {high}")


def _record(partition: str, row: list[Any], transactional: bool) -> LogRecord:
    offset, _, producer, epoch, _, time, kind, key, value, headers = row
    return LogRecord(
        partition=partition,
        offset=offset,
        timestamp_ms=time,
        producer_id=producer,
        producer_epoch=epoch,
        transactional=transactional,
        kind=kind,
        key=key,
        value=value,
        headers=headers,
    )


def _fetch(address: Place, partition: Partition, offset: int, timeout_s: float) -> tuple[int, bytes]:
    """The high watermark of a partition, and batches from the one that holds the offset."""
    where = struct.pack(">iiqi", 1, partition.number, offset, _MOST_BYTES)
    body = struct.pack(">iiiib", _CONSUMER, _WAIT_MS, _LEAST_BYTES, _MOST_BYTES, _UNCOMMITTED)
    reply = ask(address, _FETCH, 4, body + struct.pack(">i", 1) + string(partition.topic) + where, timeout_s)
    reply.number(">i")  # throttle time
    if reply.number(">i") != 1:
        raise WireError(f"no answer about {partition.name}")
    reply.text(), reply.number(">i")
    _, error, high, _ = reply.numbers(">ihqq")
    if error:
        raise WireError(f"{partition.name} cannot be read: error {error}")
    reply.array(lambda: reply.numbers(">qq"))  # aborted transactions
    return high, reply.take(max(0, reply.number(">i")))
