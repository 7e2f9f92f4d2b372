"""The plain lines of a block of EDN or JSON as columns, all at once: what nearly every line of a Jepsen history is.

A plain line has the keys type, f, process, time, index and value, in the order of the block's first such line, and its value
holds sends and polls of whole numbers. Everything else is left to `lines`, one by one.

How: numbers and ends of lines are the *items* of a text. What stands between two of them, a *gap*, is one of a few dozen texts
that come again and again. A small grammar (`plain_grammar`) says of each what it leads to after which other item; a line is plain
when all its items are what their gaps lead to.
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
from numpy.lib.stride_tricks import as_strided

from fencepost.harness.api.record_ids import MAX_SEQ
from fencepost.harness.interop.jepsen.identities import Ints
from fencepost.harness.interop.jepsen.operation_rows import MOPS, OPS, in_order
from fencepost.harness.interop.jepsen.plain_grammar import (
    ACKED,
    FUNCTIONS,
    LINE,
    NOTATIONS,
    OFFSET,
    POLL_KEY,
    READ,
    SEND_KEY,
    SENT,
    TYPES,
    Rule,
    grammar,
    key_order,
    role,
)
from fencepost.harness.interop.jepsen.planned_sends import mixed

INVOKE, OK, FAIL = (TYPES.index(name) for name in ("invoke", "ok", "fail"))
WRONG, EITHER, ROLES = 11, 12, 13  # beside what an item is: nothing that a plain line has; it depends on the item before
_SENDS, _RECORDS = ((SENT, ACKED), (SENT, ACKED, READ))
_LONGEST = 10 * 8  # bytes of a gap; a longer one is none of a plain line
_SAMPLE, _MOST = 20_000, 1000  # gaps that are looked at for different ones; so many different ones are known
_INSIDE = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)  # so many bytes of eight
_ODD = np.array([0x9E3779B97F4A7C15 ^ number << 30 for number in range(16)], dtype=np.uint64)
_NO_ITEM = bytes(set(range(256)) - set(b"0123456789\n"))
_ZERO_FOR_LINE = bytes.maketrans(b"\n", b"0")
_PIECE = 2 << 20  # bytes of text


@dataclass(frozen=True)
class PlainLines:
    """The plain lines of a block.

    rows: for each line of the block the number of the plain line that it is, -1 for others.
    type: of each plain line, as a place in TYPES.
    f: of each plain line, as a place in FUNCTIONS.
    roles: of their items, one line after the other.
    numbers: of the same items.
    polls: how many polls begin in the gap before each item.
    without_result: how many of these polls have no result.
    """

    rows: Ints
    type: Ints
    f: Ints
    roles: Any
    numbers: Ints
    polls: Any
    without_result: Any

    @cached_property
    def stops(self) -> Ints:
        """Behind the last item of each line."""
        return np.flatnonzero(self.roles == LINE) + 1

    def number(self, key: str) -> Ints:
        """Process, time or index of each line."""
        return np.asarray(self.numbers[self.roles == role(key)])


def plain_lines(text: bytes, lines: Sequence[bytes], language: str) -> PlainLines | None:
    """The plain lines of a text of `edn` or `json` (`lines`: the same, split). None: there is none, or a number is too large for
    64 bits."""
    notation = NOTATIONS[language]
    order = key_order(lines, notation)
    if order is None:
        return None
    rules = grammar(order, notation)
    try:
        columns_of_pieces = [_columns(piece, rules, notation.poll) for piece in _pieces(text)]
        fit, *columns = (np.concatenate(parts) for parts in zip(*columns_of_pieces, strict=True))
    except pa.ArrowInvalid:
        return None
    if not fit.any():
        return None
    rows = np.full(len(lines), -1)
    rows[: len(fit)][fit] = np.arange(fit.sum())
    return PlainLines(rows, *columns)


def _pieces(text: bytes) -> Iterator[bytes]:
    """Whole lines that go well with a processor's cache."""
    start = 0
    while start < len(text):
        stop = text.find(b"\n", start + _PIECE) + 1 or len(text)
        yield text[start:stop]
        start = stop


def _columns(text: bytes, rules: Sequence[Rule], poll: str) -> tuple[Any, ...]:
    """The mask of plain lines, and the columns of `PlainLines` beside rows. Raises ArrowInvalid."""
    items = _items(text)
    numbers = _numbers(items)
    which, gaps = _gaps(items, rules, poll)
    roles, right = _roles(which, gaps, items.newline)
    right &= ~items.zero_padded
    line = np.cumsum(items.newline) - items.newline
    fit = np.ones(items.newline.sum(), dtype=np.bool_)
    fit[line[~right]] = False
    fit[np.flatnonzero(np.bincount(line[_are(roles, _SENDS)]) > MAX_SEQ)] = False
    if not fit.all():
        which, roles, numbers = (column[fit[line]] for column in (which, roles, numbers))
    types, functions = (column[column >= 0].astype(np.int64) for column in (gaps.type[which], gaps.f[which]))
    return fit, types, functions, roles, numbers, gaps.polls[which], gaps.without_result[which]


def _are(roles: Any, some: Sequence[int]) -> Any:
    """The mask of items with one of some roles."""
    table = np.zeros(ROLES, dtype=np.bool_)
    table[list(some)] = True
    return table[roles]


# --------------------------------------------------------------------------------------------------
# Items
# --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Items:
    """The items of a text in which nothing touches a line break.

    text: the text, with spaces around line breaks.
    begins: where each item begins.
    ends: where each item ends.
    newline: the mask of items that are the end of a line.
    zero_padded: the mask of items written with more digits than the number needs, so that their text is not that of the number.
    """

    text: bytes
    begins: Ints
    ends: Ints
    newline: Any
    zero_padded: Any

    @property
    def gaps(self) -> tuple[Ints, Ints]:
        """The beginning of the gap before each item, and its length."""
        begins = np.concatenate([[0], self.ends[:-1]])
        return begins, self.begins - begins


def _items(text: bytes) -> _Items:
    spaced = b"".join((b" ", text.replace(b"\n", b" \n "), b"" if text.endswith(b"\n") else b" \n ", bytes(_LONGEST)))
    letters = np.frombuffer(spaced, dtype=np.uint8)
    inside = np.zeros(len(letters) + 1, dtype=np.bool_)
    np.less(letters - ord("0"), 10, out=inside[1:])
    inside[1:] |= letters == ord("\n")
    borders = np.flatnonzero(inside[1:] != inside[:-1])
    begins, ends = borders[::2], borders[1::2]
    first = letters[begins]
    return _Items(spaced, begins, ends, first == ord("\n"), (first == ord("0")) & (ends - begins > 1))


def _numbers(items: _Items) -> Ints:
    """The numbers among the items (0 for the others). Raises ArrowInvalid: one is too large."""
    lengths = np.where(items.newline, 1, items.ends - items.begins)  # "0" for the end of a line
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    digits = pa.py_buffer(items.text.translate(_ZERO_FOR_LINE, _NO_ITEM))
    written = pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(bounds), digits])
    return written.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]


# --------------------------------------------------------------------------------------------------
# Gaps
# --------------------------------------------------------------------------------------------------
class _Gaps:
    """Different gaps; 0 stands for all that are not known.

    after: for each of them and for each role of the item before it the role of the item behind it.
    single: that role if there is only one.
    polls: as in `PlainLines`.
    without_result: as in `PlainLines`.
    type: the type that it gives the line, -1 for none.
    f: the f that it gives the line, -1 for none.
    """

    def __init__(self, texts: Sequence[bytes], rules: Sequence[Rule], poll: str) -> None:
        self.after = np.full((len(texts) + 1, ROLES), WRONG, dtype=np.uint8)
        self.type, self.f = np.full((2, len(texts) + 1), -1, dtype=np.int8)
        begun, empty = f"[{poll}".encode(), f"[{poll}]".encode()
        self.polls, self.without_result = np.array([(t.count(begun), t.count(empty)) for t in (b"", *texts)], dtype=np.int16).T
        for number, text in enumerate(texts, 1):
            for rule in rules:
                self._learn(number, rule, rule.pattern.fullmatch(text))
        self.single = np.array([_only({*row.tolist()} - {WRONG}) for row in self.after], dtype=np.uint8)

    def _learn(self, number: int, rule: Rule, match: re.Match[bytes] | None) -> None:
        if match is not None:
            groups = {name: text.decode() for name, text in match.groupdict().items() if text is not None}
            key = SEND_KEY if "send" in groups else POLL_KEY
            self.after[number, rule.before] = key if rule.after is None else rule.after
            for column, name, known in ((self.type, "type", TYPES), (self.f, "f", FUNCTIONS)):
                column[number] = known.index(groups[name]) if name in groups else column[number]


def _only(roles: set[int]) -> int:
    return roles.pop() if len(roles) == 1 else EITHER if roles else WRONG


def _gaps(items: _Items, rules: Sequence[Rule], poll: str) -> tuple[Any, _Gaps]:
    """The number of the gap before each item (0: unknown), and the gaps."""
    begins, lengths = items.gaps
    words = _words(items.text, begins, lengths)
    hashes = lengths.astype(np.uint64)
    for number, (there, word) in enumerate(words):
        hashes[there] ^= word * _ODD[number]
    which, known = np.zeros(len(hashes), dtype=np.uint16), np.empty(0, dtype=np.int64)
    for looked_at in (_SAMPLE, len(hashes)):
        fresh = np.flatnonzero(which[:looked_at] == 0)
        known = np.concatenate([known, fresh[np.unique(hashes[fresh], return_index=True)[1]]])[:_MOST]
        which = _like(known, hashes)
        which[(lengths != np.append(-1, lengths[known])[which]) | (lengths > _LONGEST)] = 0
        for (there, word), (among, text) in zip(words, _words(items.text, begins[known], lengths[known]), strict=True):
            texts = np.zeros(len(known) + 1, dtype=np.uint64)
            texts[1:][among] = text
            which[there] *= texts[which[there]] == word
        if which.all():
            break
    pairs = zip(begins[known].tolist(), lengths[known].tolist(), strict=True)
    return which, _Gaps([items.text[begin : begin + length] for begin, length in pairs], rules, poll)


def _words(text: bytes, begins: Ints, lengths: Ints) -> list[tuple[Any, Any]]:
    """Gaps as 64-bit numbers of 8 bytes: which of them have so many bytes, and the number; first of the first 8, and so on."""
    anywhere = as_strided(np.frombuffer(text, dtype="<u8", count=len(text) // 8), (len(text) - 8,), (1,))
    words: list[tuple[Any, Any]] = [(slice(None), anywhere[begins] & _INSIDE[np.minimum(lengths, 8)])]
    there = np.flatnonzero(lengths > 8)
    for first in range(8, _LONGEST, 8):
        rest = lengths[there] - first
        words.append((there, anywhere[begins[there] + first] & _INSIDE[np.minimum(rest, 8)]))
        there = there[rest > 8]
    return words


def _like(known: Ints, hashes: Any) -> Any:
    """The known gap, from 1, with the hash of each, or perhaps with it: their texts must be compared. 0 for none."""
    for odd in _ODD:
        slots = (hashes[known] * odd) >> np.uint64(48)
        if len(np.unique(slots)) == len(known):
            break
    table = np.zeros(1 << 16, dtype=np.uint16)
    table[slots] = np.arange(1, len(known) + 1)
    return table[(hashes * odd) >> np.uint64(48)]


def _roles(which: Any, gaps: _Gaps, newline: Any) -> tuple[Any, Any]:
    """The role of each item, and the mask of items with a role to which their gap leads."""
    roles = gaps.single[which]
    roles[newline] = LINE
    either = np.flatnonzero(roles == EITHER)
    roles[either] = gaps.after[which[either], np.where(either > 0, roles[either - 1], LINE)]
    before = np.concatenate([[LINE], roles[:-1]])
    return roles, (roles != WRONG) & ((roles == LINE) == newline) & (gaps.after[which, before] == roles)


# --------------------------------------------------------------------------------------------------
# Items to operations
# --------------------------------------------------------------------------------------------------
class Operations:
    """Operations whose invocation and completion are plain lines, as `rows.OperationRows` would have them.

    invoked: the numbers of the lines of their invocations.
    completed: the numbers of the lines of their completions.
    at: the places of the invocations in the history.
    """

    def __init__(self, lines: PlainLines, invoked: Ints, completed: Ints, at: Ints) -> None:
        self._lines, self._invoked, self._completed, self._at = lines, invoked, completed, at
        self._type, self._end = lines.type[completed], lines.number("time")[completed]
        lengths = np.diff(lines.stops, prepend=0)[completed]
        items = np.repeat(lines.stops[completed] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
        self._roles, self._numbers, self._polls, self._without_result = (
            column[items] for column in (lines.roles, lines.numbers, lines.polls, lines.without_result)
        )
        self._owner = np.repeat(np.arange(len(invoked)), lengths)

    def _per_operation(self, *roles: int) -> Ints:
        """The number of items of these roles in each operation."""
        return np.bincount(self._owner[_are(self._roles, roles)], minlength=len(self._invoked))

    @cached_property
    def _f(self) -> Ints:
        return self._lines.f[self._invoked]

    @cached_property
    def _process(self) -> Ints:
        return self._lines.number("process")[self._invoked]

    @cached_property
    def _count(self) -> Ints:
        return self._per_operation(*_RECORDS)

    @property
    def senders(self) -> set[int]:
        return set(np.unique(self._process[self._per_operation(*_SENDS) > 0]).tolist())

    @property
    def unlike(self) -> tuple[Any, Any, Any]:
        """Masks of operations whose completion has another function than the invocation, fewer sends, or as many, but others."""
        lines, at = self._lines, np.flatnonzero(_are(self._lines.roles, _SENDS))
        line = np.repeat(np.arange(len(lines.type)), np.diff(lines.stops, prepend=0))[at]
        keys = lines.numbers[at - 1 - (lines.roles[at] == ACKED)]
        content = mixed(keys, lines.numbers[at], line, len(lines.type))
        before, after = (np.bincount(line, minlength=len(lines.type))[which] for which in (self._invoked, self._completed))
        other = (after == before) & (content[self._completed] != content[self._invoked])
        writing = self._f != FUNCTIONS.index("poll")
        return lines.f[self._completed] != self._f, writing & (after < before), writing & other

    @property
    def functions(self) -> Counter[str]:
        return Counter({FUNCTIONS[f]: count for f, count in enumerate(np.bincount(self._f).tolist()) if count})

    @property
    def together(self) -> bool:
        return bool(((self._f == FUNCTIONS.index("send")) & (self._count > 1)).any())

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """As `rows.OperationRows.tables`."""
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
        roles, numbers = self._roles, self._numbers
        at = np.flatnonzero(_are(roles, _RECORDS))
        read, acked = roles[at] == READ, roles[at] == ACKED
        last_key = np.maximum.accumulate(np.where(roles == POLL_KEY, np.arange(len(roles)), 0))
        keys = pa.array(numbers[np.where(read, last_key[at], at - 1 - acked)]).dictionary_encode()
        columns = {
            "kind": read.astype(np.int8),
            "key": pa.DictionaryArray.from_arrays(keys.indices, keys.dictionary.cast(pa.string())),
            "number": numbers[at],
            "text": pa.nulls(len(at), pa.string()),
            "offset": pa.array(numbers[at - 1], mask=~(read | acked)),
            "acked": acked | (~read & (self._type[self._owner[at]] == OK)),
        }
        return pa.table(columns, schema=MOPS)

    def _details(self) -> list[str | None]:
        """The details of polls, as in `operation_rows`: keys in several polls, polls without result."""
        details: list[str | None] = [None] * len(self._invoked)
        unheard = (self._type != FAIL) & (np.bincount(self._owner, self._without_result, len(self._invoked)) > 0)
        parted = self._parted()
        for operation in {*parted, *np.flatnonzero(unheard).tolist()}:
            detail: dict[str, Any] = {"parted": parted[operation]} if operation in parted else {}
            detail |= {"unheard": True} if unheard[operation] else {}
            details[operation] = msgspec.json.encode(detail).decode()
        return details

    def _parted(self) -> dict[int, list[str]]:
        """The keys that several polls of an operation returned records of, by operation."""
        several = (np.bincount(self._owner, self._polls, len(self._invoked)) > 1)[self._owner]
        full = several & (self._roles == POLL_KEY) & (np.append(self._roles[1:], LINE) == OFFSET)
        keys: dict[int, Counter[str]] = {}
        for operation, key in zip(self._owner[full].tolist(), self._numbers[full].tolist(), strict=True):
            keys.setdefault(operation, Counter())[str(key)] += 1
        repeated = {operation: [key for key, count in counts.items() if count > 1] for operation, counts in keys.items()}
        return {operation: names for operation, names in repeated.items() if names}
