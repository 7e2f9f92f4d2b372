"""Record batches of version 2 (KIP-98), laid out as the protocol says."""

import struct


def zigzag(number):
    number, encoded = (number << 1) ^ (number >> 63), b""
    while number >= 0x80:
        encoded, number = encoded + bytes([number & 0x7F | 0x80]), number >> 7
    return encoded + bytes([number])


def field(data):
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def record(number, value, key=b"k", headers=()):
    body = b"\x00" + zigzag(3 * number) + zigzag(number) + field(key) + field(value) + zigzag(len(headers))
    body += b"".join(field(name.encode()) + field(content) for name, content in headers)
    return zigzag(len(body)) + body


def batch(offset, values, producer=7, epoch=2, sequence=0, attributes=0, keys=None, payload=None, count=None):
    keys = keys or [b"k"] * len(values)
    records = b"".join(record(number, value, key) for number, (value, key) in enumerate(zip(values, keys, strict=True)))
    body = struct.pack(
        ">hiqqqhii", attributes, len(values) - 1, 1000, 1000, producer, epoch, sequence, len(values) if count is None else count
    )
    body += records if payload is None else payload
    head = struct.pack(">ibI", 5, 2, 0)
    return struct.pack(">qi", offset, len(head) + len(body)) + head + body


def marker(offset, kind, coordinator=0):
    return batch(
        offset, [struct.pack(">hi", 0, coordinator)], sequence=-1, attributes=0b110000, keys=[struct.pack(">hh", 0, kind)]
    )
