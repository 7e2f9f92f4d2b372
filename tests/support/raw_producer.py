"""A transactional record written to a broker without asking a coordinator: what a late Produce request is (KAFKA-14402)."""

from __future__ import annotations

import struct

from fencepost.clusters.kafka.protocol import Address, WireError, ask, string

_PRODUCE, _TRANSACTIONAL = 0, 0x10
_CRC32C = 0x82F63B78  # Castagnoli's polynomial, reversed


def produce(address: Address, transactional_id: str, producer: tuple[int, int], topic: str, number: int, value: bytes) -> int:
    """The offset at which the leader appended one record of a producer (id, epoch). Raises WireError."""
    batch = record_batch(producer, value)
    partition = struct.pack(">i", number) + struct.pack(">i", len(batch)) + batch
    body = string(transactional_id) + struct.pack(">hii", -1, 5000, 1) + string(topic) + struct.pack(">i", 1) + partition
    reply = ask(address, _PRODUCE, 3, body, 5.0)
    ((_, ((_, error, offset, _),)),) = reply.array(lambda: (reply.text(), reply.array(lambda: reply.numbers(">ihqq"))))
    if error:
        raise WireError(f"not appended: error {error}")
    return offset


def record_batch(producer: tuple[int, int], value: bytes) -> bytes:
    """A batch (format 2) of one record, the first of its producer in the partition."""
    record = b"\x00\x00\x00" + _zigzag(-1) + _zigzag(len(value)) + value + b"\x00"
    records = struct.pack(">i", 1) + _zigzag(len(record)) + record
    checked = struct.pack(">hiqqqhi", _TRANSACTIONAL, 0, 0, 0, *producer, 0) + records
    head = struct.pack(">ibI", -1, 2, crc32c(checked))
    return struct.pack(">qi", 0, len(head) + len(checked)) + head + checked


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CRC32C if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _zigzag(value: int) -> bytes:
    """A small signed number of variable length."""
    number = value << 1 ^ value >> 31
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])
