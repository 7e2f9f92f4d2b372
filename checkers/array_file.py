"""Arrays in a file that the kernel maps into memory, for what would take more memory than a machine can spare.

What is in such a file is no memory of the process's own: the kernel holds its pages in its cache, writes them to the disk when
it needs the memory, and reads them again when they are looked at.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

SMALL = 1 << 20  # bytes of an array that stays in memory


class ArrayFile:
    """A file without a name, with arrays that nobody changes any more. It ends with the last of them.

    folder: where the file lies (None: the temporary directory). Where it cannot be written, arrays stay in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._maps: list[mmap.mmap] = []
        self._end, self._lock = 0, Lock()
        self._file = None
        with suppress(OSError):
            self._file = tempfile.TemporaryFile(prefix="fencepost-arrays-", dir=folder)  # noqa: SIM115 - closed with `self`

    def kept(self, values: Any) -> Any:
        """A read-only array with the same values in the file; what is small or lies there already as it is.

        Of a tuple each member.
        """
        if isinstance(values, tuple) and type(values) is tuple:
            return tuple(map(self.kept, values))
        if self._file is None or not isinstance(values, np.ndarray) or values.nbytes < SMALL or self._has(values):
            return values
        with self._lock:
            start, self._end = (
                self._end,
                -(-(self._end + values.nbytes) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY,
            )
        try:
            _write(self._file.fileno(), np.ascontiguousarray(values).data.cast("B"), start)
            mapped = mmap.mmap(self._file.fileno(), values.nbytes, access=mmap.ACCESS_READ, offset=start)
        except OSError:  # the disk is full: memory is not saved, and nothing else
            return values
        self._maps.append(mapped)
        return np.frombuffer(mapped, values.dtype).reshape(values.shape)

    def leave(self) -> None:
        """Take the pages out of this process's memory; they stay in the kernel's cache while there is room."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)

    def _has(self, values: Any) -> bool:
        while isinstance(values, np.ndarray):
            values = values.base
        return isinstance(values, mmap.mmap)


def _write(file: int, content: memoryview, start: int) -> None:
    while content:
        written = os.pwrite(file, content, start)
        content, start = content[written:], start + written
