"""A record's bytes: process, operation, place, partition and intent of the record, with a checksum (docs/history.md)."""

from __future__ import annotations

import zlib

from fencepost.harness.api import Polled, record_id

SHOWN_BYTES = 200


def encode(run: str, process: int, op: int, seq: int, partition: str, intent: str | None, size: int) -> bytes:
    """The record's value, padded with dots to about `size` bytes, its CRC-32 last."""
    text = f"{run}|{process}|{op}|{seq}|{partition}|{intent or '-'}|"
    body = f"{text}{'.' * max(0, size - len(text) - 9)}|".encode()
    return body + f"{zlib.crc32(body):08x}".encode()


def decode(polled: Polled, run: str) -> tuple[int, str | None]:
    """(identity, None), or (-1, why) for a record that this run did not write in this form.

    A record of this run found in another partition than it was sent to keeps its identity: the checker reports it.
    """
    if not polled.value:
        return -1, "it has no value, or an empty one"
    body, checksum = polled.value[:-8], polled.value[-8:]
    if f"{zlib.crc32(body):08x}".encode() != checksum:
        return -1, "content does not match its checksum"
    try:
        of_run, process, op, seq, _ = body.decode().split("|", 4)
        v = record_id(int(process), int(op), int(seq))
    except ValueError:
        return -1, "not a record of this harness"
    return (v, None) if of_run == run else (-1, f"record of another run ({of_run})")


def strange(polled: Polled, why: str) -> dict[str, object]:
    """A record that could not be understood, kept as evidence."""
    raw = polled.value[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return {"partition": polled.partition, "offset": polled.offset, "why": why, "raw": raw}
