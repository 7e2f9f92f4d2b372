"""Lines of a `workload.log`: thread, microseconds since the line before, command and arguments, with tabs between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.history.lines import opened
from fencepost.harness.interop.blocks import unmarked

FORM = "a line is thread, microseconds since the line before, command and arguments, separated by tabs"
FIRST = re.compile(
    rb"-?\d+\t\d+\t(?:started|constructing|constructed|event|msg|send|tx|log)\b"
)  # commands that a log may begin with
_LINE = re.compile(r"(-?\d{1,6})\t(\d{1,18})\t([a-z]+)(?:\t(.*))?", re.DOTALL)
LAST_US = 1 << 52  # 142 years after the machine's start
_NUMBER = re.compile(r"[0-9]{1,18}")
WORKERS_LINE = (Evidence.SENDS, Evidence.OUTCOMES, Evidence.POLLS, Evidence.POSITIONS)


@dataclass(frozen=True)
class LogLine:
    """A line.

    number: its number in the file, from 1.
    thread: the thread that it is about; -1: the harness of the test.
    time: nanoseconds, as the Java machine of the workload counts them.
    command: `started`, `send`, `ok`, ...; of a `log` line its first argument follows: `log read`.
    words: the arguments.
    """

    number: int
    thread: int
    time: int
    command: str
    words: tuple[str, ...]


def log_lines(path: Path, damage: list[Gap]) -> Iterator[LogLine]:
    """The lines of a log in order; those that cannot be read go to `damage`. Raises OSError, EOFError."""
    time_us = 0
    with opened(path) as file:
        for number, raw in enumerate(unmarked(file), 1):
            text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
            match, whole = _LINE.fullmatch(text), raw.endswith(b"\n")
            if match is None or not whole:
                damage += [damaged(path.name, number, FORM if whole else "cut off in the middle")] if text.strip() else []
                continue
            thread, passed, command, rest = match.groups()
            if time_us + int(passed) > LAST_US:
                damage.append(damaged(path.name, number, f"{passed} microseconds have passed since the line before"))
                continue
            time_us += int(passed)
            words = tuple(rest.split("\t")) if rest else ()
            if command == "log" and words:
                command, words = f"log {words[0]}", words[1:]
            yield LogLine(number, int(thread), time_us * 1000, command, words)


def whole_number(word: str) -> int:
    """An offset or a partition. Raises ValueError."""
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"{word[:40]!r} is no number")
    return int(word)


def name_of(word: str) -> str:
    """The name of a record or a transaction, a number, as it is written. Raises ValueError."""
    whole_number(word)
    return word


def damaged(file: str, line: int, why: str) -> Gap:
    """A line that cannot be read: it may have held anything, and there is no final read to say what the log holds."""
    evidence = (*WORKERS_LINE, Evidence.FINAL_COMMITTED, Evidence.FINAL_UNCOMMITTED)
    return Gap(file=file, line=line, why=f"not understood: {why}", kind=GapKind.UNREADABLE, evidence=evidence)
