"""The file that an export writes: beneath the run's directory, or where its user says."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.run import Run


@contextmanager
def opened(run: Run, name: str, out: Path | None) -> Iterator[BinaryIO]:
    """The file to be written: the one that its user names, whatever leads to it; or a new one beneath the run's directory.

    name: in that directory. A file whose name ends in `.gz` is packed. Raises OSError for a file of the user's.
    """
    with _plain(run, name, out) as file:
        if not (out.name if out else name).endswith(".gz"):
            yield file
            return
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            yield cast(BinaryIO, packed)


@contextmanager
def _plain(run: Run, name: str, out: Path | None) -> Iterator[BinaryIO]:
    if out is not None:
        with open(out, "wb") as file:
            yield file
        return
    with replacing(run.directory, name) as part:
        yield part
