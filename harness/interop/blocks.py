"""A file, perhaps compressed, as blocks of lines: what one worker parses at a time, so that memory stays bounded.

Every operation is one line. In a file that is one vector or one array every element of it is taken for a line, wherever its line
breaks are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fencepost.harness.api.files import fits_in_memory
from fencepost.harness.history.lines import MARK, opened

BLOCK = 8 << 20
LONGEST_LINE = 256 << 20  # bytes; what is longer is no operation
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|\\.|;[^\n]*|[\[({]|[\])}]', re.DOTALL)
_BETWEEN = re.compile(rb"[ ,\n\r\t]+|;[^\n]*")
_TEXT_OR_COMMENT = re.compile(rb'("(?:[^"\\]|\\.)*"|\\.)|;[^\n]*', re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Whole lines.

    first: the place of the first of them in the history, from 0.
    text: the lines.
    numbers: their lines in the file when they are elements of an array; else line `first + 1` of the file is the first.
    last: nothing comes after it.
    """

    first: int
    text: bytes
    numbers: tuple[int, ...] = ()
    last: bool = False

    def line(self, position: int) -> int:
        """The line number in the file, from 1, of the line at `position` in this block."""
        return self.numbers[position] if position < len(self.numbers) else self.first + position + 1


def unmarked(file: BinaryIO) -> BinaryIO:
    """A file just opened, past its byte order mark if it has one."""
    if file.read(len(MARK)) != MARK:
        file.seek(0)
    return file


def blocks(path: Path, array: bool, size: int = BLOCK) -> Iterator[Block]:
    """The blocks of a file of lines, or of one whole array.

    Raises OSError, also for a line or an array that is too large, and EOFError for a gzip file that is cut off.
    """
    with opened(path) as file:
        unmarked(file)
        if array:
            content = file.read(fits_in_memory() + 1)
            if len(content) > fits_in_memory():
                raise OSError(f"one array has more than {fits_in_memory():,} bytes, an eighth of this machine's memory")
            yield from _of_elements(content, size)
        else:
            yield from _of_lines(file, size)


def _of_lines(file: BinaryIO, size: int) -> Iterator[Block]:
    first, rest = 0, b""
    while True:
        got = file.read(size)
        cut = got.rfind(b"\n") + 1
        if not got or cut:
            yield Block(first, rest + got[:cut], last=not got)
            first += (rest + got[:cut]).count(b"\n")
            rest = b""
        if not got:
            return
        rest += got[cut:]
        if len(rest) > LONGEST_LINE:
            raise OSError(f"line {first + 1} has more than {LONGEST_LINE:,} bytes")


def _of_elements(content: bytes, size: int) -> Iterator[Block]:
    first, held = 0, 0
    parts: list[bytes] = []
    numbers: list[int] = []
    for start, stop, line in elements(content):
        parts.append(_on_one_line(content[start:stop]))
        numbers.append(line)
        held += stop - start
        if held >= size:
            yield Block(first, b"\n".join(parts) + b"\n", tuple(numbers))
            first, held, parts, numbers = first + len(parts), 0, [], []
    yield Block(first, b"\n".join(parts), tuple(numbers), last=True)


def elements(content: bytes) -> Iterator[tuple[int, int, int]]:
    """The begin, end and line of each element of the outermost array; the last may be cut off."""
    depth, start, line, counted = 0, 0, 1, 0
    for token in _STRUCTURE.finditer(content):
        sign = token.group()
        if len(sign) == 1 and sign in b"[({":
            depth += 1
            if depth == 1:
                start = token.end()
        elif len(sign) == 1 and sign in b"])}":
            depth -= 1
            if depth == 1:
                start = _trimmed(content, start)
                line, counted = line + content.count(b"\n", counted, start), start
                yield start, token.end(), line
                start = token.end()
            if depth == 0:
                return
    start = _trimmed(content, start)
    if content[start:].strip():
        yield start, len(content), line + content.count(b"\n", counted, start)


def _on_one_line(element: bytes) -> bytes:
    """An element without its comments and line breaks."""
    if b";" in element:
        element = _TEXT_OR_COMMENT.sub(rb"\1", element)
    return element.replace(b"\n", b" ").replace(b"\r", b" ")


def _trimmed(content: bytes, start: int) -> int:
    """The place where the next element begins: behind white space, commas and comments."""
    while separator := _BETWEEN.match(content, start):
        start = separator.end()
    return start
