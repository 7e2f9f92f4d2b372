"""Frames: a length in four bytes, big-endian, and so many bytes of JSON, one object (docs/client-drivers.md)."""

from __future__ import annotations

from typing import IO, Any

import msgspec

HEADER = 4
LARGEST = 64 << 20
SHOWN = 60


class FrameError(Exception):
    """Bytes that are no frame: what they are instead."""


def packed(message: dict[str, Any]) -> bytes:
    """One object as a frame; bytes in it become base64. Raises FrameError for one that is too large."""
    body = msgspec.json.encode(message)
    if len(body) > LARGEST:
        raise FrameError(f"a frame of {len(body)} bytes; at most {LARGEST} are possible")
    return len(body).to_bytes(HEADER, "big") + body


def read(stream: IO[bytes]) -> dict[str, Any] | None:
    """The next object of a stream, None at its end. Raises FrameError."""
    header = stream.read(HEADER)
    if not header:
        return None
    length = int.from_bytes(header, "big")
    if len(header) < HEADER or length > LARGEST:
        raise FrameError(f"no frame begins with {_shown(header)}; is there anything else on standard output?")
    body = stream.read(length)
    if len(body) < length:
        raise FrameError(f"the stream ends after {len(body)} of {length} bytes of a frame")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"a frame is no JSON object: {error}: {_shown(body)}") from error


def whole(value: Any) -> int:
    """A whole number that Kafka's int64 holds, 0 or above: an offset, a partition. Raises ValueError for anything else."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is no whole number from 0 to 2^63 - 1")
    return value


def _shown(body: bytes) -> str:
    return repr(body[:SHOWN].decode("utf-8", "backslashreplace"))
