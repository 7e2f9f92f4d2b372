"""Links to the files beside the page: documents, tables, logs of each node."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from urllib.parse import quote

from fencepost.harness.api.run import RunFile
from fencepost.harness.page_text import size
from fencepost.harness.report.beside import FileBeside
from fencepost.harness.report.documents import ReportData

_CONTENTS = {
    RunFile.PLAN: "everything that was decided before the run",
    RunFile.VERDICT: "the verdict as a document",
    RunFile.HISTORY: "every operation",
    RunFile.PRESENT: "the operations without those on topics that were deleted",
    RunFile.OPERATIONS: "the operations that this page shows",
    RunFile.ANOMALIES: "every finding",
    RunFile.RECEIPTS: "the faults with their evidence",
    RunFile.STORED: "what the brokers' log segments held at the end",
    RunFile.WIRE: "requests and answers between clients and brokers",
    RunFile.VALUES: "the original values of the records",
    RunFile.MANIFEST: "the files that belong to the history",
    RunFile.DAMAGE: "what the history lacks",
}


@dataclass(frozen=True, kw_only=True)
class Link:
    """A file beside the page. href: its address from the page."""

    name: str
    href: str
    size: str
    content: str


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    by_node = groupby(run.files.logs, key=lambda file: file.node)
    return {
        "documents": tuple(map(_link, run.files.documents)),
        "logs": tuple((node, tuple(map(_link, files))) for node, files in by_node),
        "empty_logs": run.files.empty_logs,
        "more_logs": run.files.more_logs,
    }


def _link(file: FileBeside) -> Link:
    name = file.place.rpartition("/")[2]
    return Link(name=name, href=href(file.place), size=size(file.size), content=_CONTENTS.get(name, ""))


def href(place: str) -> str:
    """The address of a file beside the page: never one that a browser takes for a scheme, a host or a fragment."""
    escaped = quote(os.fsencode(place))
    return escaped if escaped.startswith("../") else f"./{escaped}"
