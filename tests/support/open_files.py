"""The files that this process has open in folders of a test: garbage of others, closed meanwhile, does not count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def open_files(*folders: Path) -> list[str]:
    """Files below some folders, one for each descriptor, those that have no name any more included."""
    return [name for name in _opened() if name.startswith(tuple(f"{folder}/" for folder in folders))]


def _opened() -> Iterator[str]:
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of this listing
            yield os.readlink(f"/proc/self/fd/{descriptor}")
