"""Lines of a TOML file by key. The file has been read as TOML before, so that nothing here is judged."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fencepost.harness.campaign.toml import Keys, written
from fencepost.harness.plugins.toml_value import toml_value

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"""(?!")|\'\'\'.*?\'\'\'(?!\')|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.S)
_BARE = re.compile(r"[^,\]}#\n]*")


def lines_of(text: str) -> dict[Keys, int]:
    """The line, from 1, on which each key, table and element of a list begins, by its path (`("test", 0, "time_s")`)."""
    return _Scan(text).lines


@dataclass(frozen=True)
class CampaignText:
    """A campaign file as text, with the line of each of its keys.

    path: the path of the file.
    text: its content.
    """

    path: Path
    text: str

    @cached_property
    def lines(self) -> dict[Keys, int]:
        return lines_of(self.text)

    def place(self, keys: Keys) -> str:
        """`first.toml:12: test[0].rate`: the line is that of the innermost table where the key itself does not stand."""
        line = self.line(keys)
        return f"{self.path}{f':{line}' if line else ''}: {written(keys).removeprefix('.')}"

    def line(self, keys: Keys) -> int:
        """The line of a key, or of the innermost table around it; 0 where none is known."""
        for length in range(len(keys), 0, -1):
            outer, last = keys[: length - 1], keys[length - 1]
            unquoted = (*outer, *last.split(".")) if isinstance(last, str) else keys[:length]
            if line := self.lines.get(keys[:length]) or self.lines.get(unquoted):
                return line
        return 0


class _Scan:
    """A scan of the text, from its start to its end."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.lines: dict[Keys, int] = {}
        self._newlines = [newline.start() for newline in re.finditer("\n", text)]
        self._counts: dict[Keys, int] = {}  # of the tables of each list of tables
        self._document()

    def _document(self) -> None:
        table: Keys = ()
        while self._skip_space():
            before = self.at
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            if self.at == before:  # nothing that is understood: no endless loop over it
                return

    def _header(self) -> Keys:
        """`[a.b]` or `[[a.b]]`; the path of the table that begins."""
        start, several = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if several else 1
        path = self._last_of_lists(self._dotted(), whole=not several)
        if several:
            number = self._counts[path] = self._counts.get(path, -1) + 1
            self._note(path, start)
            path = (*path, number)
        for length in range(1, len(path) + 1):
            self._note(path[:length], start)
        self.at = self.text.find("]", self.at) + (2 if several else 1)
        return path

    def _last_of_lists(self, names: list[str], whole: bool) -> Keys:
        """`test.nemesis` as `("test", 2, "nemesis")`: within the latest table of a list of tables."""
        path: Keys = ()
        for position, name in enumerate(names):
            path = (*path, name)
            if path in self._counts and (whole or position < len(names) - 1):
                path = (*path, self._counts[path])
        return path

    def _pair(self, table: Keys) -> None:
        """`key = value`, in a table of its own lines or between braces."""
        start, path = self.at, table
        for name in self._dotted():
            path = (*path, name)
            self._note(path, start)
        self.at += self.text.startswith("=", self.at)
        self._value(path)

    def _dotted(self) -> list[str]:
        names = []
        while match := _KEY.match(self.text, self.at):
            names.append(_name(match[1]))
            self.at = match.end()
            if not self.text.startswith(".", self.at):
                break
            self.at += 1
        return names

    def _value(self, path: Keys) -> None:
        self._skip_space()
        if self.text.startswith("[", self.at):
            for number in self._between("]"):
                self._note((*path, number), self.at)
                self._value((*path, number))
        elif self.text.startswith("{", self.at):
            for _ in self._between("}"):
                self._pair(path)
        else:
            match = _TEXT.match(self.text, self.at) or _BARE.match(self.text, self.at)
            self.at = match.end() if match else self.at

    def _between(self, closing: str) -> Iterator[int]:
        """Stops at each element up to the closing bracket, and goes on behind it; yields their numbers."""
        self.at += 1
        number = 0
        while self._skip_space() and not self.text.startswith(closing, self.at):
            before = self.at
            yield number
            number += 1
            self._skip_space()
            self.at += self.text.startswith(",", self.at)
            if self.at == before:
                return
        self.at += 1

    def _skip_space(self) -> bool:
        """Go behind blanks and comments; return whether anything is left."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at < len(self.text)

    def _note(self, path: Keys, position: int) -> None:
        self.lines.setdefault(path, bisect_left(self._newlines, position) + 1)


def _name(written: str) -> str:
    """A key without its quotes; escapes in it as TOML reads them."""
    if written.startswith("'"):
        return written[1:-1]
    if not written.startswith('"'):
        return written
    if "\\" not in written:
        return written[1:-1]
    return str(toml_value(written))
