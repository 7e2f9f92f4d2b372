"""Lines that are written, and read, as a whole: a disk may be full in the middle of one, and a writer be killed there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO


def write_line(descriptor: int, line: bytes) -> None:
    """Write a line and its end. The kernel may take a part of it, and say so only when it is given the rest. Raises OSError."""
    left = line + b"\n"
    while left:
        left = left[os.write(descriptor, left) :]


def whole_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a process's output; without the last one where that has no end, since the process was killed as it wrote."""
    return (line for line in stream if line.endswith(b"\n"))
