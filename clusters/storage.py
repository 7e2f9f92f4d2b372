"""Nodes' data directories: formatted, copied, collected.

The directories lie under `data/` of the run while it lasts, on disk, so that they survive the death of a broker's process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clusters.jvm import Node, telling_lines
from clusters.kafka import Distribution
from harness.api import ClusterError

_FORMAT_S = 60.0
_META, _BOOTSTRAP = "meta.properties", "bootstrap.checkpoint"

Format = Callable[[Sequence[str], float], "subprocess.CompletedProcess[str]"]  # Kafka's StorageTool: (arguments, timeout)


def kafka_uuid() -> str:
    """A random identifier as Kafka writes them: 128 bits, URL-safe base64 without padding, no leading dash."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return text


def local_tool(distribution: Distribution) -> Format:
    """Kafka's StorageTool as a process of this machine."""

    def run(arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        argv = distribution.command("kafka.tools.StorageTool", arguments, heap_mb=128)
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)

    return run


def format_all(version: str, tool: Format, nodes: Sequence[Node], configs: Mapping[str, Path], data: Path) -> None:
    """Format the first node's directory with Kafka's own tool (about a second), and derive the others' from it.

    Only `node.id` and `directory.id` differ between nodes; everything else the tool writes holds for the cluster.
    Raises ClusterError with what the tool said.
    """
    first = nodes[0]
    try:
        done = tool(["format", "-t", kafka_uuid(), "-c", str(configs[first.name])], _FORMAT_S)
    except subprocess.TimeoutExpired as e:
        raise ClusterError(f"Kafka {version} was still formatting its storage after {_FORMAT_S:.0f} s") from e
    if done.returncode != 0:
        said = telling_lines(done.stdout + done.stderr)
        raise ClusterError(f"Kafka {version} could not format its storage with {configs[first.name]}: {said}")
    for node in nodes[1:]:
        shutil.copytree(data / first.name, data / node.name, dirs_exist_ok=True)
        meta = data / node.name / _META
        meta.write_text(readdressed(meta.read_text(), node.id, kafka_uuid()))


def readdressed(meta: str, node_id: int, directory_id: str) -> str:
    """A meta.properties for another node: same cluster, own node and directory id (the latter since 3.7 only)."""
    new = {"node.id": str(node_id), "directory.id": directory_id}
    lines = []
    for line in meta.splitlines():
        name = line.partition("=")[0]
        lines.append(f"{name}={new[name]}" if name in new else line)
    return "\n".join(lines) + "\n"


def wipe(directory: Path) -> None:
    """Make a node's directory what it was after formatting: its identity stays (with a new directory id), its logs go."""
    kept = {_META, _BOOTSTRAP}
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()
    meta = directory / _META
    found = re.search(r"^node\.id=(\d+)$", meta.read_text(), re.MULTILINE)
    assert found, f"{meta} names no node"
    meta.write_text(readdressed(meta.read_text(), int(found[1]), kafka_uuid()))


def collect(data: Path, destination: Path) -> None:
    """Copy every node's log segments and checkpoints (indexes are left out: they can be rebuilt)."""
    shutil.copytree(data, destination, ignore=shutil.ignore_patterns("*index", ".lock"), dirs_exist_ok=True)
