"""Rules for the text between the numbers of a plain line (`plain_lines`), in EDN as Clojure prints it and in JSON.

An *item* is a number or the end of a line, a *gap* the text between two of them. A rule says to which item a gap leads after
which other item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from fencepost.harness.interop.jepsen import edn

TYPES, FUNCTIONS = ("invoke", "ok", "fail", "info"), ("txn", "send", "poll")
NUMBERS = ("process", "time", "index")
# What an item is: the end of a line; a send's key and its value, or its offset and its value; a poll's key, and a record's offset
# and value; from NUMBER on one of NUMBERS.
LINE, SEND_KEY, SENT, ACK_OFFSET, ACKED, POLL_KEY, OFFSET, READ, NUMBER = range(9)
_LOOKED_AT = 100  # lines, for one that shows the order of the keys


class Rule(NamedTuple):
    """After an item `before`, a gap that fits `pattern` leads to an item `after` (None: to the key of a `send` or of a `poll`,
    whichever of these groups of the pattern matched). The groups `type` and `f` are those of the line."""

    before: int
    pattern: re.Pattern[bytes]
    after: int | None


@dataclass(frozen=True, kw_only=True)
class Notation:
    """The notation of a line, in EDN or JSON. All but `read` and `poll` are regular expressions.

    read: the reader of a whole line.
    begin: up to the first key.
    key: a key of an operation (with its name for {}), up to its value.
    comma: between two keys.
    word: a type or an f (with its group's name and the words for {}).
    space: between two elements of a vector.
    send: the word of a send.
    poll: the word of a poll.
    open: up to the first key of a poll's result.
    value: from such a key to its value.
    next: from there to the next key.
    """

    read: Callable[[bytes], Any]
    begin: str
    key: str
    comma: str
    word: str
    space: str
    send: str
    poll: str
    open: str
    value: str
    next: str

    @property
    def empty_poll(self) -> str:
        """A poll that returned nothing, or of which nothing is known."""
        return rf"\[{self.poll}(?:{self.space}\{{\}})?\]"

    @property
    def next_mop(self) -> str:
        """Up to the first key of the next micro-operation that has one."""
        begun = rf"(?P<send>{self.send}{self.space})|(?P<poll>{self.poll}{self.space}{self.open})"
        return rf"(?:{self.empty_poll}{self.space})*\[(?:{begun})"


NOTATIONS = {
    "edn": Notation(
        read=lambda line: edn.read(line.decode()),
        begin=r" (?:#jepsen\.history\.Op)?\{",
        key=":{} ",
        comma=", ",
        word=":(?P<{}>{})",
        space=" ",
        send=":send",
        poll=":poll",
        open=r"\{",
        value=" ",
        next=",? ",
    ),
    "json": Notation(
        read=msgspec.json.Decoder().decode,
        begin=r" \{",
        key='"{}": ?',
        comma=", ?",
        word='":?(?P<{}>{})"',
        space=", ?",
        send='"send"',
        poll='"poll"',
        open=r'\{"',
        value='": ?',
        next=', ?"',
    ),
}


def key_order(lines: Sequence[bytes], notation: Notation) -> list[str] | None:
    """The keys of the first line that has those of a plain one, its type and f before its value."""
    for line in lines[:_LOOKED_AT]:
        if b"[[" not in line:
            continue
        try:
            operation = notation.read(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(operation, dict) and set(operation) == {"type", "f", "value", *NUMBERS}:
            order = list(operation)
            return order if max(map(order.index, ("type", "f"))) < order.index("value") else None
    return None


def grammar(order: Sequence[str], notation: Notation) -> list[Rule]:
    """The rules for lines whose keys come in this order."""
    rules = (*_within(notation), *_between(order, notation))
    return [Rule(before, re.compile(pattern.encode()), after) for before, pattern, after in rules]


def role(key: str) -> int:
    """The role of the number of an operation's key."""
    return NUMBER + NUMBERS.index(key)


def _within(n: Notation) -> tuple[tuple[int, str, int], ...]:
    """Inside of one micro-operation."""
    return (
        (SEND_KEY, n.space, SENT),
        (SEND_KEY, rf"{n.space}\[", ACK_OFFSET),
        (ACK_OFFSET, n.space, ACKED),
        (POLL_KEY, rf"{n.value}\[\[", OFFSET),
        (POLL_KEY, rf"{n.value}\[\]{n.next}", POLL_KEY),
        (OFFSET, n.space, READ),
        (READ, rf"\]{n.space}\[", OFFSET),
        (READ, rf"\]\]{n.next}", POLL_KEY),
    )


def _between(order: Sequence[str], n: Notation) -> Iterator[tuple[int, str, int | None]]:
    """From one micro-operation to the next, and around all of them."""
    value = order.index("value")
    tail = [*((n.comma + n.key.format(key), role(key)) for key in order[value + 1 :]), (r"\}\r? ", LINE)]
    for (_, before), (pattern, after) in pairwise(tail):
        yield before, pattern, after
    for before, end in ((SENT, r"\]"), (ACKED, r"\]\]"), (READ, r"\]\]\}\]"), (POLL_KEY, rf"{n.value}\[\]\}}\]")):
        yield before, f"{end}{n.space}{n.next_mop}", None
        yield before, rf"{end}(?:{n.space}{n.empty_poll})*\]{tail[0][0]}", tail[0][1]
    before, pattern = LINE, n.begin
    for number, key in enumerate(order[: value + 1]):
        pattern += (n.comma if number else "") + n.key.format(key)
        if key in NUMBERS:
            yield before, pattern, role(key)
            before, pattern = role(key), ""
        elif key != "value":
            pattern += n.word.format(key, "|".join(TYPES if key == "type" else FUNCTIONS))
    yield before, rf"{pattern}\[{n.next_mop}", None
    yield before, rf"{pattern}\[(?:{n.empty_poll}(?:{n.space}{n.empty_poll})*)?\]{tail[0][0]}", tail[0][1]
