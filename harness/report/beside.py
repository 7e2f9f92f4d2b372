"""The files beside the page that it links to: those of the run's directory that are there when it is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from fencepost.harness.api.beneath import names, regular
from fencepost.harness.api.run import Run, RunFile

MOST_LOGS = 400  # of a cluster of a hundred nodes; the others are counted
_DOCUMENTS = (
    RunFile.PLAN,
    RunFile.VERDICT,
    RunFile.HISTORY,
    RunFile.PRESENT,
    RunFile.OPERATIONS,
    RunFile.ANOMALIES,
    RunFile.RECEIPTS,
    RunFile.STORED,
    RunFile.WIRE,
    RunFile.VALUES,
    RunFile.MANIFEST,
    RunFile.DAMAGE,
)


@dataclass(frozen=True)
class FileBeside:
    """A regular file of the run's directory.

    place: its path from the page.
    node: the node whose log it is; empty for a document of the run, or a log of no node.
    """

    place: str
    size: int
    node: str = ""


@dataclass(frozen=True)
class FilesBeside:
    """The files that the page links to. empty_logs, more_logs: logs that it leaves out, without content or beyond `MOST_LOGS`."""

    documents: tuple[FileBeside, ...] = ()
    logs: tuple[FileBeside, ...] = ()
    empty_logs: int = 0
    more_logs: int = 0


def files_beside(run: Run) -> FilesBeside:
    """The files of a run as they are now. What is no regular file, and what lies behind a link, is left out."""
    page = PurePosixPath(run.place(RunFile.REPORT)).parent
    documents = [file for name in _DOCUMENTS if (file := _file(run, run.place(name), page))]
    logs = [file for place, node in _logs(run) if (file := _file(run, place, page, node))]
    written = [file for file in logs if file.size]
    return FilesBeside(tuple(documents), tuple(written[:MOST_LOGS]), len(logs) - len(written), len(written[MOST_LOGS:]))


def _file(run: Run, place: str, page: PurePosixPath, node: str = "") -> FileBeside | None:
    try:
        size = os.stat(regular(run.directory, place), follow_symlinks=False).st_size
    except OSError:
        return None
    return FileBeside(os.path.relpath(place, page), size, node)


def _logs(run: Run) -> Iterator[tuple[str, str]]:
    """(place, node) of everything in the folder of logs and in the folders of its nodes."""
    for name in _names(run, RunFile.LOGS):
        inner = _names(run, f"{RunFile.LOGS}/{name}")
        yield from ((f"{RunFile.LOGS}/{name}/{file}", name) for file in inner)
        if not inner:
            yield f"{RunFile.LOGS}/{name}", ""


def _names(run: Run, folder: str) -> list[str]:
    try:
        return names(run.directory, folder)
    except OSError:  # a file, or a link
        return []
