"""Nodes' data directories: formatted, copied, collected.

The directories lie under `data/` of the run while it lasts, on disk, so that they survive the death of a broker's process.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clusters.kafka.broker_config import PlannedNode, error_lines
from clusters.kafka.distribution import Distribution
from clusters.kafka.node_directory import META, kafka_uuid, with_ids
from harness.api import ClusterError

_FORMAT_S = 60.0

Format = Callable[[Sequence[str], float], "subprocess.CompletedProcess[str]"]  # Kafka's StorageTool: (arguments, timeout)


def local_tool(distribution: Distribution) -> Format:
    """Kafka's StorageTool as a process of this machine."""

    def run(arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        argv = distribution.command("kafka.tools.StorageTool", arguments, heap_mb=128)
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s)

    return run


def format_all(
    version: str,
    tool: Format,
    nodes: Sequence[PlannedNode],
    configs: Mapping[str, Path],
    data: Path,
    features: Mapping[str, int] | None = None,
) -> None:
    """Format the first node's directory with Kafka's own tool (about a second), and derive the others' from it.

    features: levels of Kafka's features that are not the version's own (`transaction.version`).
    The tool gets the configuration as its last argument.
    Only `node.id` and `directory.id` differ between nodes; everything else the tool writes holds for the cluster.
    Raises ClusterError with the tool's output.
    """
    first = nodes[0]
    try:
        levels = [word for name, level in (features or {}).items() for word in ("--feature", f"{name}={level}")]
        done = tool(["format", "-t", kafka_uuid(), *levels, "-c", str(configs[first.name])], _FORMAT_S)
    except subprocess.TimeoutExpired as e:
        raise ClusterError(f"Kafka {version} was still formatting its storage after {_FORMAT_S:.0f} s") from e
    if done.returncode != 0:
        output = error_lines(done.stdout + done.stderr)
        raise ClusterError(f"Kafka {version} could not format its storage with {configs[first.name]}: {output}")
    for node in nodes[1:]:
        shutil.copytree(data / first.name, data / node.name, dirs_exist_ok=True)
        meta = data / node.name / META
        meta.write_text(with_ids(meta.read_text(), node.id, kafka_uuid()))


def collect(data: Path, destination: Path) -> None:
    """Copy every node's log segments and checkpoints (indexes are left out: they can be rebuilt)."""
    shutil.copytree(data, destination, ignore=shutil.ignore_patterns("*index", ".lock"), dirs_exist_ok=True)
