"""Example directories that many tests start from: made once in a process, written from memory after that."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Files = dict[Path, bytes | None]  # relative path -> content, None for a directory; directories before what they hold


def written_once(write: Callable[..., Path]) -> Callable[..., Path]:
    """`write(folder, ...)`, whose files depend on nothing but its other arguments, which are hashable."""

    @cache
    def example(*arguments: Any, **named: Any) -> Files:
        with TemporaryDirectory() as folder:
            return _files(write(Path(folder), *arguments, **named))

    @wraps(write)
    def copy(folder: Path, *arguments: Any, **named: Any) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in example(*arguments, **named).items():
            _put(folder / path, content)
        return folder

    return copy


def _files(folder: Path) -> Files:
    paths = sorted(folder.rglob("*"))
    return {path.relative_to(folder): path.read_bytes() if path.is_file() else None for path in paths}


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.mkdir(exist_ok=True)
    else:
        path.write_bytes(content)
