"""Foreign text (of records, brokers, plans, campaigns, hosts) as a person may see it: on a page, or on a terminal."""

from __future__ import annotations

import unicodedata
from functools import cache

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def visible(text: str, unescaped: str = "\n\t") -> str:
    """Text with every control, format (bidirectional override, zero width) and separator character written as an escape.

    It must not control a terminal (ESC and its 8-bit forms), break a page, or pretend to be something else. Half of a
    surrogate pair, which no encoding can write, is escaped too.

    unescaped: the characters that stay as they are: newline and tab, unless a line is to stay one line.
    """
    return text if text.isprintable() else text.translate(_table(unescaped))


class _Table(dict[int, int | str]):
    """What becomes of each character, by its number: filled as characters are met. `str.translate` reads it."""

    def __init__(self, unescaped: str) -> None:
        super().__init__((ord(char), char) for char in unescaped)

    def __missing__(self, number: int) -> int | str:
        is_hidden = unicodedata.category(chr(number)) in _HIDDEN
        self[number] = shown = _escape(chr(number)) if is_hidden else number
        return shown


_table = cache(_Table)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
