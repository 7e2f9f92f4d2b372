"""Nodes' data directories: formatted, copied, collected.

The directories lie under `data/` of the run while it lasts, on disk, so that they survive the death of a broker's process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from fencepost.clusters.kafka import node_plan
from fencepost.clusters.kafka.broker_config import PlannedNode, error_lines, properties, write_properties
from fencepost.clusters.kafka.broker_settings import broker_settings
from fencepost.clusters.kafka.distribution import Distribution, cached
from fencepost.clusters.kafka.node_directory import META, kafka_uuid, with_ids
from fencepost.harness.api import ClusterError
from fencepost.harness.system import liveness, programs

_FORMAT_S = 60.0
_NOISE = re.compile(r".*(?: = |\bINFO\b).*\n?")  # the tool lists all settings before what it has to say
_THROWN = re.compile(r'Exception in thread "main" [\w.$]+: ')

Format = Callable[[Sequence[str], float], "subprocess.CompletedProcess[str]"]  # Kafka's StorageTool: (arguments, timeout)


def local_tool(distribution: Distribution) -> Format:
    """Kafka's StorageTool as a process of this machine."""

    def run(arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return programs.run(distribution.command("kafka.tools.StorageTool", arguments, heap_mb=128), timeout_s)

    return run


def format_all(
    version: str,
    tool: Format,
    nodes: Sequence[PlannedNode],
    configs: Mapping[str, Path],
    data: Path,
    features: Mapping[str, int] | None = None,
) -> None:
    """Format the first controller's directory with Kafka's own tool (about a second), and derive the others' from it.

    features: levels of Kafka's features that are not the version's own (`transaction.version`).
    The tool gets the configuration as its last argument.
    Only `node.id` and `directory.id` differ between nodes; everything else the tool writes holds for the cluster. From 4.4 on the
    levels of features lie in a directory that the tool makes for controllers alone: so a node that is only a broker gets none.
    Raises ClusterError with the tool's output.
    """
    first = next(node for node in nodes if "controller" in node.roles)
    try:
        done = tool(_format(features or {}, configs[first.name]), _FORMAT_S)
    except subprocess.TimeoutExpired as e:
        raise ClusterError(f"Kafka {version} was still formatting its storage after {_FORMAT_S:.0f} s") from e
    if done.returncode != 0:
        output = error_lines(done.stdout + done.stderr)
        raise ClusterError(f"Kafka {version} could not format its storage with {configs[first.name]}: {output}")
    for node in (other for other in nodes if other is not first):
        ignore = None if "controller" in node.roles else _directories
        shutil.copytree(data / first.name, data / node.name, ignore=ignore, dirs_exist_ok=True)
        meta = data / node.name / META
        meta.write_text(with_ids(meta.read_text(), node.id, kafka_uuid()))


def _directories(parent: str, names: Sequence[str]) -> set[str]:
    return {name for name in names if Path(parent, name).is_dir()}


def _format(features: Mapping[str, int], config: Path) -> list[str]:
    levels = [word for name, level in features.items() for word in ("--feature", f"{name}={level}")]
    return ["format", "-t", kafka_uuid(), *levels, "-c", str(config)]


@lru_cache(maxsize=32)
def refused_features(version: str, features: tuple[tuple[str, int], ...]) -> str:
    """The refusal of Kafka's own tool to format storage with these levels of features; empty: none (about a second).

    Empty too where the version is not in the cache, or nothing can be asked.
    """
    distribution = cached(version)
    if distribution is None:
        return ""
    (node,) = node_plan.nodes(1, 0, node_plan.loopback)
    with liveness.temporary_directory("format") as directory:
        config = directory / "server.properties"
        write_properties(directory, config.name, properties(node, [node], broker_settings(1, {}), directory / node.name))
        try:
            done = local_tool(distribution)(_format(dict(features), config), _FORMAT_S)
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return _THROWN.sub("", error_lines(_NOISE.sub("", done.stdout + done.stderr))) if done.returncode else ""


def collect(data: Path, destination: Path) -> None:
    """Copy every node's log segments and checkpoints (indexes are left out: they can be rebuilt)."""
    left_out = shutil.ignore_patterns("*index", ".lock")
    shutil.copytree(data, destination, ignore=left_out, copy_function=_copied_anew, dirs_exist_ok=True)


def _copied_anew(source: str, destination: str) -> str:
    """Copy a file in the place of another one, which nobody may be allowed to write: from 4.4 on checkpoints are read-only."""
    Path(destination).unlink(missing_ok=True)
    return shutil.copy2(source, destination)
