"""Records of `__transaction_state`, as the transaction coordinators write them (KIP-98; the tagged fields are KIP-890's).

Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import struct
from typing import Any

from fencepost.harness.api.stored_kinds import CONTROL, REMOVED, STATES

TOPIC = "__transaction_state"
OTHER = CONTROL  # the kind of a record that is none of a transactional id
_NONE = -1
_FLEXIBLE = 1  # the first version with compact lengths and tagged fields
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = 0, 1, 2  # tags
_HEAD = struct.Struct(">hqhib")  # version, producer id and epoch, timeout (ms), state
_TIMES = struct.Struct(">qq")  # last update, start (ms)

# transactional id, producer id, producer epoch, previous and next producer id, timeout, started and updated (ms), version of the
# client's protocol, partitions
State = list[Any]


def state_record(key: bytes | None, value: bytes | None) -> tuple[str, State | None]:
    """The state that a record gives to a transactional id, and what it says of that; `OTHER` and None for another record.

    A record that cannot be read is another record.
    """
    try:
        name = _transactional_id(key)
        if name is None:
            return OTHER, None
        if value is None:
            return REMOVED, [name, *[_NONE] * 8, []]
        return _state(name, value)
    except (struct.error, IndexError, UnicodeDecodeError):
        return OTHER, None


def _transactional_id(key: bytes | None) -> str | None:
    """The id of a key of version 0; None for other keys."""
    if key is None or len(key) < 4:
        return None
    version, length = struct.unpack_from(">hh", key)
    return key[4 : 4 + length].decode() if version == 0 and len(key) == 4 + length else None


def _state(name: str, value: bytes) -> tuple[str, State | None]:
    version, producer, epoch, timeout, state = _HEAD.unpack_from(value)
    if version not in (0, _FLEXIBLE) or not 0 <= state < len(STATES):
        return OTHER, None
    reader = _Reader(value, _HEAD.size, version == _FLEXIBLE)
    partitions = reader.partitions()
    updated, started = _TIMES.unpack_from(value, reader.at)
    reader.at += _TIMES.size
    tags = reader.tags()
    previous, following = (_signed(tags.get(tag), _NONE) for tag in (_PREVIOUS_ID, _NEXT_ID))
    client = _signed(tags.get(_CLIENT_VERSION), 0)
    return STATES[state], [name, producer, epoch, previous, following, timeout, started, updated, client, partitions]


def _signed(content: bytes | None, absent: int) -> int:
    return absent if content is None else int.from_bytes(content, "big", signed=True)


class _Reader:
    """Lists and texts from a position on, with fixed lengths or compact ones."""

    def __init__(self, content: bytes, at: int, compact: bool) -> None:
        self.content, self.at, self.compact = content, at, compact

    def partitions(self) -> list[str]:
        """`topic-number` of each partition."""
        found = []
        for _ in range(self._length(4)):
            topic = self._text()
            count = self._length(4)
            found += [f"{topic}-{number}" for number in struct.unpack_from(f">{count}i", self.content, self.at)]
            self.at += 4 * count
            self.tags()
        return found

    def tags(self) -> dict[int, bytes]:
        """The tagged fields at the position; none in versions without them."""
        found: dict[int, bytes] = {}
        for _ in range(self._number() if self.compact else 0):
            tag, size = self._number(), self._number()
            found[tag] = self.content[self.at : self.at + size]
            self.at += size
        return found

    def _text(self) -> str:
        size = self._length(2)
        self.at += size
        return self.content[self.at - size : self.at].decode()

    def _length(self, size: int) -> int:
        """A length of so many bytes, or a compact one; 0 for null."""
        if self.compact:
            return max(0, self._number() - 1)
        self.at += size
        if self.at > len(self.content):
            raise IndexError(self.at)
        return max(0, int.from_bytes(self.content[self.at - size : self.at], "big", signed=True))

    def _number(self) -> int:
        """A number without a sign, of variable length."""
        value = shift = 0
        while True:
            byte = self.content[self.at]
            value |= (byte & 0x7F) << shift
            self.at, shift = self.at + 1, shift + 7
            if byte < 0x80:
                return value
