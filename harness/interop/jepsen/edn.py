"""A complete, unhurried reader of EDN (github.com/edn-format/edn): for the lines that the quick path of `lines` cannot read.

Maps become dicts, vectors, lists and sets become lists, keywords and symbols become texts without their colon, characters become
texts, `#tag value` becomes the value (so `#jepsen.history.Op{...}` is the map in it), and what Python has no exact number for
(ratios, decimals with `M`) stays text.
"""

from __future__ import annotations

import re
from typing import Any

_SKIP = re.compile(r"(?:[\s,]|;[^\n]*)*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ATOM = re.compile(r"[^\s,;\"\[\](){}]+")
_CHARACTER = re.compile(r"\\(newline|return|space|tab|formfeed|backspace|u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d+N?")
_FLOAT = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f"}
_NAMED = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_WORDS: dict[str, Any] = {"nil": None, "true": True, "false": False}


def read(text: str) -> Any:
    """The one value that `text` holds. Raises ValueError with the position of what is wrong."""
    reader = _Reader(text)
    value = reader.value()
    reader.skip()
    if reader.at < len(text):
        raise ValueError(f"more than one value: {text[reader.at : reader.at + 20]!r} at {reader.at}")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def skip(self) -> str:
        """Pass over white space, comments and `#_ discarded` values; the next character, empty at the end."""
        while True:
            found = _SKIP.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if not self.text.startswith("#_", self.at):
                return self.text[self.at : self.at + 1]
            self.at += 2
            self.value()

    def value(self) -> Any:
        first = self.skip()
        if not first:
            raise ValueError("ends too early")
        if first in _CLOSING:
            return self.mapping() if first == "{" else self.sequence(_CLOSING[first])
        if first == '"':
            return self.string()
        if first == "\\":
            return self.character()
        if first == "#":
            return self.dispatched()
        return self.atom()

    def sequence(self, closing: str) -> list[Any]:
        self.at += 1
        found = []
        while (following := self.skip()) != closing:
            if following in ("]", ")", "}"):
                raise ValueError(f"{following!r} at {self.at} where {closing!r} was due")
            found.append(self.value())
        self.at += 1
        return found

    def mapping(self) -> dict[Any, Any]:
        flat = self.sequence("}")
        if len(flat) % 2:
            raise ValueError(f"a map with a key but no value before {self.at}")
        keys = [key if isinstance(key, (str, int)) else str(key) for key in flat[::2]]
        return dict(zip(keys, flat[1::2], strict=True))

    def dispatched(self) -> Any:
        """`#{set}`, `##Inf`, or `#tag value`."""
        if self.text.startswith("#{", self.at):
            self.at += 1
            return self.sequence("}")
        self.at += 1
        tag = self.token(_ATOM)
        return tag.lstrip("#") if tag.startswith("#") else self.value()

    def string(self) -> str:
        return _ESCAPE.sub(_unescaped, self.token(_STRING)[1:-1])

    def character(self) -> str:
        name = self.token(_CHARACTER)[1:]
        return chr(int(name[1:], 16)) if len(name) == 5 and name[0] == "u" else _NAMED.get(name, name)

    def atom(self) -> Any:
        word = self.token(_ATOM)
        if word in _WORDS:
            return _WORDS[word]
        if _INTEGER.fullmatch(word):
            return int(word.rstrip("N"))
        if _FLOAT.fullmatch(word):
            return float(word)
        return word.lstrip(":")

    def token(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            raise ValueError(f"not understood at {self.at}: {self.text[self.at : self.at + 20]!r}")
        self.at = found.end()
        return found.group()


def _unescaped(escape: re.Match[str]) -> str:
    name = escape.group(1)
    return chr(int(name[1:], 16)) if len(name) == 5 else _ESCAPED.get(name, name)
