"""Very large partitions: judged one at a time on a machine, and their packed records wait on its disk.

So memory grows neither with the number of cores nor with the partitions that wait for their turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

from fencepost.checkers.history.part_files import StoredPart, append, view
from fencepost.checkers.history.scan import PackedPart
from fencepost.checkers.model.freed_memory import release_freed_memory
from fencepost.harness.system import liveness
from fencepost.harness.system.array_files import ArrayFiles

UNNAMED = ""  # instead of a path
LARGE = 64 << 20  # bytes of packed rows; unpacked and sorted they need about five times as much


def is_large(size: int) -> bool:
    """True if a partition of so many bytes is judged alone on its machine."""
    return size >= LARGE


@contextmanager
def large_partition_lock(size: int) -> Iterator[None]:
    """Wait, with a large partition of so many bytes, until no other is judged on this machine.

    The lock is the kernel's (`flock`), which frees it when a worker dies.
    """
    if not is_large(size):
        yield
        return
    release_freed_memory()
    with ExitStack() as stack:
        with suppress(OSError):  # without a directory of our own: memory is not saved, and nothing else
            stack.enter_context(liveness.alone(liveness.runtime_directory(), "large-partitions.lock"))
        yield
        release_freed_memory()


class PackedParts:
    """The packed parts of one partition, in order.

    Those that come as bytes stay in memory while they are small together, and wait beyond `LARGE` in a file without a name.
    size: bytes of all parts.
    """

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[PackedPart | StoredPart] = []
        self._file: IO[bytes] | None = None

    def append(self, part: PackedPart | StoredPart) -> None:
        """Raises OSError when the file cannot be written."""
        self.size += part.size
        self._parts.append(part)
        if self.size >= LARGE and isinstance(part, PackedPart):
            self._parts = [self._stored(piece) if isinstance(piece, PackedPart) else piece for piece in self._parts]

    def take(self, arrays: ArrayFiles) -> list[PackedPart]:
        """All parts, once; those in files as views of these, which `arrays` maps. Raises OSError."""
        parts, self._parts = self._parts, []
        files = {}
        for path in {part.path for part in parts if isinstance(part, StoredPart)}:
            with self._file if path == UNNAMED and self._file else open(path, "rb") as file:
                file.flush()
                files[path] = memoryview(arrays.mapped(file))
        return [view(files[part.path], part) if isinstance(part, StoredPart) else part for part in parts]

    def _stored(self, part: PackedPart) -> StoredPart:
        self._file = self._file or tempfile.TemporaryFile(prefix="fencepost-partition-")  # noqa: SIM115 - `take` closes it
        return append(self._file, part, UNNAMED)
