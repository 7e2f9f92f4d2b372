"""A node's data directory: its ids in meta.properties, and how it is wiped.

Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

import re
import shutil
import uuid
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path

META, _BOOTSTRAP = "meta.properties", "bootstrap.checkpoint"
_RETAINED = (META, _BOOTSTRAP)


def kafka_uuid() -> str:
    """A random identifier as Kafka writes them: 128 bits, URL-safe base64 without padding, no leading dash."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return text


def with_ids(meta: str, node_id: int, directory_id: str) -> str:
    """A meta.properties for another node: same cluster, own node and directory id (the latter since 3.7 only)."""
    new = {"node.id": str(node_id), "directory.id": directory_id}
    lines = []
    for line in meta.splitlines():
        name = line.partition("=")[0]
        lines.append(f"{name}={new[name]}" if name in new else line)
    return "\n".join(lines) + "\n"


def wipe(directory: Path) -> None:
    """Reset a node's directory to its state after formatting: it keeps its ids, with a new directory id, and loses its logs."""
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in _RETAINED:
            path.unlink()
    meta = directory / META
    match = re.search(r"^node\.id=(\d+)$", meta.read_text(), re.MULTILINE)
    assert match, f"{meta} names no node"
    meta.write_text(with_ids(meta.read_text(), int(match[1]), kafka_uuid()))


def stored_bytes(directory: Path) -> int:
    """The sizes of a node's files, without what `wipe` leaves. A broker that lives may remove some meanwhile."""
    total = 0
    for path in directory.rglob("*"):
        if path.name not in _RETAINED:
            with suppress(FileNotFoundError):
                total += path.stat().st_size if path.is_file() else 0
    return total
