"""Entries of the records of a changelog, and of the rows of a state store: a key, and the inputs that its value stands for.

A value is compared by a number: the count that it says (`counted`), the identity of the input that it names (`last`), or a hash
of its bytes (`stored`). `removed` is a tombstone (docs/your-application.md).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import cast

from fencepost.harness.api import LogEntry, LogRecord, Polled
from fencepost.workloads.support.inputs_and_outputs import NO_INPUT, counting, identity_of, naming

COUNTED, LAST, STORED, REMOVED, STRANGE = "counted", "last", "stored", "removed", "strange"
HASH_BYTES = 6
Entry = Callable[[LogRecord, str], LogEntry]


def stored_values(text: str) -> Entry:
    """The reader of stored values: `count HOW`, `last HOW`, or a hash of the bytes for an empty text; HOW as for outputs.

    The function that it returns takes a record and the run. Raises ValueError.
    """
    what, _, how = text.partition(" ")
    if not text:
        return lambda record, run: _entry(record, STORED, lambda stored: _hash(stored.value or b""))
    if what == "count":
        count = counting(how)
        return lambda record, run: _entry(record, COUNTED, lambda stored: count(cast(Polled, stored)))
    if what == "last":
        name = naming(how)
        return lambda record, run: _entry(record, LAST, lambda stored: _identity(name(cast(Polled, stored)), run))
    raise ValueError(f'"{text}" does not say what a stored value holds; there are: count HOW, last HOW')


def _entry(record: LogRecord, kind: str, number: Callable[[LogRecord], int]) -> LogEntry:
    key = key_text(record.key or b"")
    if record.value is None:
        return LogEntry(REMOVED, key, NO_INPUT)
    with suppress(ValueError, LookupError, TypeError):
        return LogEntry(kind, key, number(record))
    return LogEntry(STRANGE, key, NO_INPUT)


def _identity(name: str, run: str) -> int:
    v = identity_of(name, run)
    if v == NO_INPUT:
        raise ValueError(f"{name[:60]!r} names no input of this run")
    return v


def _hash(value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=HASH_BYTES).digest(), "big")


def key_text(key: bytes) -> str:
    """A key as text; one that is no UTF-8 in hexadecimal digits."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
