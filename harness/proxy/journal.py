"""What a proxy that was killed had recorded as messages, and had not made lines of yet.

Two files beside its lines hold such events (`java/Segments.java`): entries of a length, a checksum, the lap in which the file was
filled, the number of the event, its kind and its content. Marks say up to which event there are lines. What follows the last
entry of a lap is older, or zeros.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.api import ClusterError
from fencepost.harness.api.files import regular
from fencepost.harness.fetching.java import java
from fencepost.harness.proxy.jars import classpath

MAIN = "fencepost.proxy.Tail"
SEGMENTS = 2
HEAD = struct.Struct(">IIiQB")  # length of what follows the checksum, checksum, lap, number, kind
MARK = 0  # a kind; its content: how many lines there are, and how many bytes of them
_MARKED = struct.Struct(">QQ")
_BEFORE = 8  # bytes of length and checksum
_MOST_BYTES, _HEAP_MB, _MOST_S = 64 << 20, 256, 120


@dataclass(frozen=True)
class Unfinished:
    """Events that are no lines yet.

    lines: how many lines there are before theirs.
    size: how many bytes these have. What the file has behind them is made again.
    entries: the events.
    """

    lines: int
    size: int
    entries: bytes


def unfinished(file: Path) -> Unfinished | None:
    """The events that a file of lines lacks; None: it lacks none.

    Raises ValueError for a segment that is longer than any.
    """
    lines, size, last = 0, 0, 0
    events: dict[int, bytes] = {}
    for segment in range(SEGMENTS):
        for number, kind, entry in _entries(file.with_name(f"{file.stem}.journal-{segment}")):
            if kind != MARK:
                events[number] = entry
            elif number >= last:
                last = number
                lines, size = _MARKED.unpack_from(entry, HEAD.size)
    entries: list[bytes] = []
    while (behind := events.get(last + 1 + len(entries))) is not None:
        entries.append(behind)
    return Unfinished(lines, size, b"".join(entries)) if entries else None


def _entries(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The entries of a segment, of its last lap: number, kind, bytes. A damaged one is the last: what follows it is not known."""
    if not path.exists():
        return
    with regular(path).open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{path.name}: it has more than {_MOST_BYTES:,} bytes")
    at, first = 0, None
    while len(content) - at >= HEAD.size:
        length, checksum, lap, number, kind = HEAD.unpack_from(content, at)
        end = at + _BEFORE + length
        least = HEAD.size - _BEFORE + (_MARKED.size if kind == MARK else 0)
        if length < least or end > len(content) or zlib.crc32(content[at + _BEFORE : end]) != checksum or lap != (first or lap):
            return
        first = lap
        yield number, kind, content[at:end]
        at = end


def lines_of(rest: Unfinished, name: str) -> Iterator[bytes]:
    """The lines of events. name: of the file that lacks them.

    Raises ValueError when they cannot be made.
    """
    lost = f"{name}: its proxy was killed, and what it recorded last cannot be made lines of"
    try:
        command = [java()[0], f"-Xmx{_HEAP_MB}m", "-XX:+UseSerialGC", "-cp", classpath(), MAIN, str(rest.lines)]
    except ClusterError as error:
        raise ValueError(f"{lost}: {error}") from error
    with tempfile.TemporaryFile() as made:
        try:
            subprocess.run(command, input=rest.entries, stdout=made, stderr=subprocess.PIPE, check=True, timeout=_MOST_S)
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().partition("\n")[0]
            raise ValueError(f"{lost}: {said or error}") from error
        made.seek(0)
        yield from made
