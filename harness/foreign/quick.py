"""The plain lines of a block of EDN as columns, all at once: what nearly every line of a Jepsen history is.

Plain is a line of the keys type, f, process, time, index and value, in the order of the block's first such line, whose value
holds sends and polls of whole numbers, printed as Clojure prints them. Everything else is left to `lines`, one by one.

How: the numbers are taken out of the text and parsed in one go. What is left has few different pieces, and each is replaced by
one byte (a *code*), so that a plain line is a short word that one pattern decides about. Codes lie beyond ASCII, where the text
that is looked at has nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from harness.api import MAX_SEQ
from harness.foreign import edn
from harness.foreign.identities import Ints
from harness.foreign.rows import MOPS, OPS, in_order

TYPES, FUNCTIONS = ("invoke", "ok", "fail", "info"), ("txn", "send", "poll")
INVOKE, OK, INFO = (TYPES.index(name) for name in ("invoke", "ok", "info"))
NUMBERS = ("process", "time", "index")
# A record as a poll returns it; a send without and with its offset; a poll's beginning and end; a poll without result; a key of a
# poll and the beginning of its records; what follows the value. From HEAD on: what precedes it, a code for each type and f.
RECORD, SENT, ACKED, POLL, END, UNTOLD, KEY, TAIL, HEAD = range(0x80, 0x89)
_PIECES = (
    (b"[\x01 \x01]", RECORD),
    (b"[:send \x01 \x01]", SENT),
    (b"[:send \x01 \x80]", ACKED),
    (b"[:poll {", POLL),
    (b"}]", END),
    (b"[:poll]", UNTOLD),
    (b"\x01 [", KEY),
)
_PLAIN = re.compile(rb"[\x88-\x93](?:[\x81\x82\x85]|\x83(?:\x86\x80*\])*\x84)*\x87").fullmatch
_DIGITS = b"0123456789"
_NO_DIGITS = bytes(set(range(256)) - set(_DIGITS))
_STRUCTURE = bytes(1 if code in _DIGITS else ord("?") if code == 1 or code > 127 else code for code in range(256))
_LOOKED_AT = 100  # lines, for one that shows the order of the keys


@dataclass(frozen=True)
class Plain:
    """The plain lines of a block.

    rows: for each line of the block the number of the plain line that it is, -1 for others. codes: of all plain lines. numbers:
    likewise, in the order of the text. before, after: which of process, time and index stand before the value, and behind it.
    """

    rows: list[int]
    codes: Any
    numbers: Ints
    before: Sequence[str]
    after: Sequence[str]

    @cached_property
    def at(self) -> Ints:
        """Where the numbers of each code begin."""
        held = np.zeros(256, dtype=np.int64)
        held[[RECORD, SENT, ACKED, KEY, TAIL]] = 2, 2, 3, 1, len(self.after)
        held[HEAD:] = len(self.before)
        counts = held[self.codes]
        return np.asarray(np.cumsum(counts) - counts)

    @cached_property
    def heads(self) -> Ints:
        return np.flatnonzero(self.codes >= HEAD)

    @cached_property
    def tails(self) -> Ints:
        return np.flatnonzero(self.codes == TAIL)

    @cached_property
    def type(self) -> Ints:
        """Of each line, as a place in TYPES."""
        return np.asarray((self.codes[self.heads].astype(np.int64) - HEAD) // len(FUNCTIONS))

    @cached_property
    def f(self) -> Ints:
        """Of each line, as a place in FUNCTIONS."""
        return np.asarray((self.codes[self.heads].astype(np.int64) - HEAD) % len(FUNCTIONS))

    def number(self, key: str) -> Ints:
        """Process, time or index of each line."""
        names, codes = (self.before, self.heads) if key in self.before else (self.after, self.tails)
        return np.asarray(self.numbers[self.at[codes] + names.index(key)])


# --------------------------------------------------------------------------------------------------
# Text to codes
# --------------------------------------------------------------------------------------------------
def plain(text: bytes, lines: Sequence[bytes]) -> Plain | None:
    """The plain lines of a text (`lines`: the same, split). None: there is none, or a number is too large for 64 bits."""
    order = _order(lines)
    if order is None:
        return None
    structure = np.frombuffer(text.translate(_STRUCTURE), dtype=np.uint8)
    digit = structure == 1
    borders = np.flatnonzero(np.diff(digit, prepend=False, append=False))
    begins, ends = borders[::2], borders[1::2]
    try:
        numbers = _numbers(text, ends - begins)
    except pa.ArrowInvalid:
        return None
    kept = ~digit
    kept[begins] = True
    words = _words(structure[kept].tobytes(), order)
    fits = [_PLAIN(word) is not None and (len(word) <= MAX_SEQ or _numberable(word)) for word in words]
    if not any(fits):
        return None
    upto = np.searchsorted(begins, np.flatnonzero(structure == ord("\n")))
    counts = np.diff(upto, prepend=0, append=len(begins))
    codes = b"".join(word for word, fit in zip(words, fits, strict=True) if fit)
    value = order.index("value")
    named = ([key for key in order[:value] if key in NUMBERS], [key for key in order[value:] if key in NUMBERS])
    which = np.array(fits, dtype=np.bool_)
    rows = np.where(which, np.cumsum(which) - 1, -1).tolist()
    return Plain(rows, np.frombuffer(codes, dtype=np.uint8), numbers[np.repeat(which, counts)], *named)


def _order(lines: Sequence[bytes]) -> list[str] | None:
    """The keys of the first line that has those of a plain one, its type and f before its value."""
    for line in lines[:_LOOKED_AT]:
        if b":value [[" not in line:
            continue
        try:
            found = edn.read(line.decode())
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and set(found) == {"type", "f", "value", *NUMBERS}:
            order = list(found)
            return order if max(map(order.index, ("type", "f"))) < order.index("value") else None
    return None


def _numbers(text: bytes, lengths: Ints) -> Ints:
    """The numbers of a text, of which each has so many digits. Raises ArrowInvalid: one is too large."""
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    digits = pa.py_buffer(text.translate(None, _NO_DIGITS))
    written = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(bounds), digits])
    return written.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]


def _words(structure: bytes, order: Sequence[str]) -> list[bytes]:
    """Each line of a text whose numbers are \\x01, with codes for the pieces that are known."""
    words, value = structure.replace(b"#jepsen.history.Op{", b"{"), order.index("value")
    tail = ("]" + "".join(f", :{key} \x01" for key in order[value + 1 :]) + "}").encode(), TAIL
    # heads and tails are most of the text, so they go first; but a tail without a key looks like the end of a poll's map
    pieces = [*_heads(order[:value]), *_PIECES, tail] if tail[0] == b"]}" else [tail, *_heads(order[:value]), *_PIECES]
    for piece, code in pieces:
        words = words.replace(piece, bytes([code]))
    return words.translate(None, b" ,\t\r").split(b"\n")


def _heads(keys: Sequence[str]) -> Iterator[tuple[bytes, int]]:
    """What stands before the value, for each type and f, and its code."""
    for code, (type_, f) in enumerate(((type_, f) for type_ in TYPES for f in FUNCTIONS), HEAD):
        said = {"type": f":{type_}", "f": f":{f}"}
        yield ("{" + "".join(f":{key} {said.get(key, chr(1))}, " for key in keys) + ":value [").encode(), code


def _numberable(word: bytes) -> bool:
    """Whether so many sends may be in one operation."""
    return word.count(SENT) + word.count(ACKED) <= MAX_SEQ


# --------------------------------------------------------------------------------------------------
# Codes to operations
# --------------------------------------------------------------------------------------------------
class Operations:
    """Operations whose invocation and completion are plain lines, as `rows.Rows` would have them.

    invoked, completed: the numbers of their lines. at: the places of the invocations in the history.
    """

    def __init__(self, lines: Plain, invoked: Ints, completed: Ints, at: Ints) -> None:
        self._lines, self._invoked, self._at = lines, invoked, at
        self._type, self._end = lines.type[completed], lines.number("time")[completed]
        starts, lengths = lines.heads[completed], (lines.tails - lines.heads + 1)[completed]
        shift = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        chosen = shift + np.arange(len(shift))
        self._codes, self._numbers = lines.codes[chosen], lines.at[chosen]
        self._owner = np.repeat(np.arange(len(invoked)), lengths)

    def _per_operation(self, *codes: int) -> Ints:
        """How many of these codes each operation has."""
        return np.bincount(self._owner[np.isin(self._codes, codes)], minlength=len(self._invoked))

    @cached_property
    def _f(self) -> Ints:
        return self._lines.f[self._invoked]

    @cached_property
    def _process(self) -> Ints:
        return self._lines.number("process")[self._invoked]

    @cached_property
    def _count(self) -> Ints:
        return self._per_operation(RECORD, SENT, ACKED)

    @property
    def senders(self) -> set[int]:
        return set(np.unique(self._process[self._per_operation(SENT, ACKED) > 0]).tolist())

    @property
    def functions(self) -> Counter[str]:
        return Counter({FUNCTIONS[f]: count for f, count in enumerate(np.bincount(self._f).tolist()) if count})

    @property
    def together(self) -> bool:
        return bool(((self._f == FUNCTIONS.index("send")) & (self._count > 1)).any())

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """As `rows.Rows.tables`."""
        columns = {
            "at": self._at,
            "number": self._lines.number("index")[self._invoked],
            "process": self._process,
            "f": pa.array(FUNCTIONS).take(pa.array(self._f)),
            "type": pa.array(TYPES).take(pa.array(self._type)),
            "time": self._lines.number("time")[self._invoked],
            "end": self._end,
            "count": self._count,
            "detail": pa.array(self._details(), pa.string()),
            "error": pa.nulls(len(self._at), pa.string()),
        }
        return in_order(pa.table(columns, schema=OPS), self._mops())

    def _mops(self) -> pa.Table:
        codes, at, numbers = self._codes, self._numbers, self._lines.numbers
        last_key = np.maximum.accumulate(np.where(codes == KEY, np.arange(len(codes)), 0))
        which = np.isin(codes, (RECORD, SENT, ACKED))
        record, acked, owner = codes[which] == RECORD, codes[which] == ACKED, self._owner[which]
        at, key_at = at[which], np.where(record, at[last_key[which]], at[which])
        keys = pa.array(numbers[key_at]).dictionary_encode()
        columns = {
            "kind": record.astype(np.int8),
            "key": pa.DictionaryArray.from_arrays(keys.indices, keys.dictionary.cast(pa.string())),
            "number": numbers[at + 1 + acked],
            "text": pa.nulls(len(at), pa.string()),
            "offset": pa.array(numbers[at + acked], mask=~(record | acked)),
            "acked": acked | (~record & (self._type[owner] == OK)),
        }
        return pa.table(columns, schema=MOPS)

    def _details(self) -> list[str | None]:
        """What is worth knowing of polls, as `rows` tells it: keys in several polls, results that are not told."""
        details: list[str | None] = [None] * len(self._invoked)
        unheard = (self._type == INFO) & (self._per_operation(UNTOLD) > 0)
        parted = self._parted()
        for operation in {*parted, *np.flatnonzero(unheard).tolist()}:
            detail: dict[str, Any] = {"parted": parted[operation]} if operation in parted else {}
            detail |= {"unheard": True} if unheard[operation] else {}
            details[operation] = msgspec.json.encode(detail).decode()
        return details

    def _parted(self) -> dict[int, list[str]]:
        """The keys that several polls of an operation returned records of, by operation."""
        several = (self._per_operation(POLL, UNTOLD) > 1)[self._owner]
        full = several & (self._codes == KEY) & (np.append(self._codes[1:], 0) == RECORD)
        keys: dict[int, Counter[str]] = {}
        numbers = self._lines.numbers[self._numbers[full]].tolist()
        for operation, key in zip(self._owner[full].tolist(), numbers, strict=True):
            keys.setdefault(operation, Counter())[str(key)] += 1
        told = {operation: [key for key, count in counts.items() if count > 1] for operation, counts in keys.items()}
        return {operation: names for operation, names in told.items() if names}
