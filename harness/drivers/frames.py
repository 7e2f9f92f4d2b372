"""Frames: a length in four bytes, big-endian, and so many bytes of JSON, one object (docs/client-drivers.md)."""

from __future__ import annotations

from typing import Any

import msgspec

from fencepost.harness.system.answers import shown

HEADER = 4
LARGEST = 64 << 20


class FrameError(Exception):
    """Bytes that are no frame: what they are instead."""


def packed(message: dict[str, Any]) -> bytes:
    """One object as a frame; bytes in it become base64. Raises FrameError for one that is too large."""
    body = msgspec.json.encode(message)
    if len(body) > LARGEST:
        raise FrameError(f"a frame of {len(body)} bytes; at most {LARGEST} are possible")
    return len(body).to_bytes(HEADER, "big") + body


def length_of(header: bytes) -> int:
    """The length of the body that follows. Raises FrameError."""
    length = int.from_bytes(header, "big")
    if len(header) < HEADER or length > LARGEST:
        raise FrameError(f"no frame begins with {shown(header)}; is there anything else on standard output?")
    return length


def unpacked(body: bytes) -> dict[str, Any]:
    """The object in the body of a frame. Raises FrameError."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"a frame is no JSON object: {error}: {shown(body)}") from error
