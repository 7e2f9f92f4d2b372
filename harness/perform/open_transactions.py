"""The workers that are inside a transaction right now, read off the histories that they write ahead.

The line of an operation that begins is written before its first call, and that of its end after the last one: a worker whose
last line begins a transaction is inside one (or just about to be). The workers are not involved, so it costs them nothing.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

_TAIL_BYTES = 65536  # longer than any line but those of enormous transactions, whose worker then counts as outside


def in_transaction(history: Path) -> list[str]:
    """The client nodes (`c0`...) whose present worker is inside a transaction, in order."""
    latest: dict[str, tuple[int, Path]] = {}
    for path in history.glob("c*-*.jsonl"):
        node, _, incarnation = path.stem.partition("-")
        if incarnation.isdigit() and int(incarnation) >= latest.get(node, (0, path))[0]:
            latest[node] = (int(incarnation), path)
    return sorted((node for node, (_, path) in latest.items() if _open(path)), key=_number)


def _open(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        lines = file.read().rstrip(b"\n").rpartition(b"\n")
    try:
        last = json.loads(lines[2])
    except ValueError:  # a line that is being written
        return False
    return bool(last.get("type") == "invoke" and last.get("intent"))


def _number(node: str) -> int:
    digits = re.sub(r"\D", "", node)
    return int(digits) if digits else 0
