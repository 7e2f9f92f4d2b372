"""Compiled templates in the cache directory: to compile them takes a tenth of the check of a short history.

They are used for what they were made from only: a template's text (its checksum, which Jinja compares), the versions of Python
and Jinja, and the functions whose answers compilation puts in.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

from fencepost.harness.fetching.store import cache_dir

WRITABLE_BY_OTHERS = 0o022


class CompiledTemplates(BytecodeCache):
    """Compiled templates of one environment, a file for each. What cannot be read or written is compiled as if it were not there.

    options: in words, how the environment differs from others that have the same templates.
    sources: files of the functions that templates may call as they are compiled.
    """

    def __init__(self, options: str, sources: Iterable[Path]) -> None:
        made_by = [jinja2.__version__, options, *(f"{path} {path.stat().st_mtime_ns}" for path in sorted(sources))]
        key = hashlib.sha256("\n".join(made_by).encode()).hexdigest()[:12]
        self.folder = _folder() / key

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take a template that was compiled before; not from a folder in which others may write, for it is executed."""
        with contextlib.suppress(OSError):
            if _is_ours(self.folder):
                with self._path(bucket).open("rb") as file:
                    bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, under its name only once it is complete."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(descriptor, "wb") as file:
                bucket.write_bytecode(file)
            os.replace(made, self._path(bucket))

    def _path(self, bucket: Bucket) -> Path:
        return self.folder / f"{bucket.key}.bin"


def _folder() -> Path:
    """The folder of all; a machine may have no home directory for whoever runs this, and then there is none."""
    try:
        return cache_dir() / "templates"
    except RuntimeError:
        return Path(os.devnull)


def _is_ours(folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & WRITABLE_BY_OTHERS
