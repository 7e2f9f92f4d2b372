"""Foreign text (of records, brokers, plans, campaigns, hosts) as a person may see it: on a page, or on a terminal."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def visible(text: str, unescaped: str = "\n\t") -> str:
    """Text with every control, format (bidirectional override, zero width) and separator character written as an escape.

    It must not control a terminal (ESC and its 8-bit forms), break a page, or pretend to be something else. Half of a
    surrogate pair, which no encoding can write, is escaped too.

    unescaped: the characters that stay as they are: newline and tab, unless a line is to stay one line.
    """
    if text.isprintable():
        return text
    return "".join(c if c in unescaped or unicodedata.category(c) not in _HIDDEN else _escape(c) for c in text)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
