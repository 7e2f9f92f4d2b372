"""The settings of a Redpanda broker at its start: `rpk redpanda start`, and properties of a new cluster.

From its documentation, and compared with its source (redpanda-data/redpanda 1c6cff3, December 2024:
src/go/rpk/pkg/cli/redpanda/start.go, src/v/config/configuration.cc). Not by `--mode dev-container`: that mode brings
--unsafe-bypass-fsync, with which nothing is synced.
https://docs.redpanda.com/current/reference/rpk/rpk-redpanda/rpk-redpanda-start/
https://docs.redpanda.com/current/reference/properties/cluster-properties/
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.clusters.kafka.broker_config import BROKER, CLIENT, PlannedNode
from fencepost.clusters.redpanda.admin import PORT

CONFIG, DATA = "/etc/redpanda", "/var/lib/redpanda/data"

# Each because a promise, or a small machine, hangs on it.
PROPERTIES: Mapping[str, Any] = {
    "write_caching_default": "false",  # acknowledge from the disk: acks=all is to mean what it says
    "auto_create_topics_enabled": False,  # a topic that appears with other settings would hide a mistake
    "default_topic_replications": 3,
    "internal_topic_replication_factor": 3,  # committed offsets and transactions' states survive the loss of any broker
    "transaction_coordinator_partitions": 6,  # several coordinators, yet a quick start
    "group_topic_partitions": 4,
    "group_initial_rebalance_delay": 0,
    "storage_min_free_bytes": 10 << 20,  # its default of 5 GiB would refuse producers on a small disk
    "log_segment_size_min": 1,  # tests ask for small segments
}
_REPLICATED = ("default_topic_replications", "internal_topic_replication_factor")
_NOT_THERE = ("min.insync.replicas", "unclean.leader.election.enable")  # a majority of replicas, always (Raft)


def properties(brokers: int, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Cluster properties for so many brokers; Raft wants an odd number of replicas."""
    replicas = min(3, brokers if brokers % 2 else brokers - 1)
    return {**PROPERTIES, **dict.fromkeys(_REPLICATED, replicas), **overrides}


def bootstrap_file(values: Mapping[str, Any]) -> str:
    """`.bootstrap.yaml`: read by a cluster's first start only. JSON values are YAML."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in sorted(values.items()))


def command(node: PlannedNode, seeds: Sequence[PlannedNode], memory_mb: int) -> list[str]:
    """The command line of a broker on one core that it shares, with `memory_mb` for itself, and with every sync done.

    `--set` and its value are two words: rpk takes `--set=...` for an option of the broker.
    """
    (host, kafka), (_, rpc) = node.listeners[CLIENT], node.listeners[BROKER]
    return [
        "rpk",
        "redpanda",
        "start",
        "--overprovisioned",
        "--reserve-memory=0M",
        "--check=false",
        "--unsafe-bypass-fsync=false",
        f"--config={CONFIG}/redpanda.yaml",
        f"--node-id={node.id}",
        f"--kafka-addr={host}:{kafka}",
        f"--advertise-kafka-addr={host}:{kafka}",
        f"--rpc-addr={host}:{rpc}",
        f"--advertise-rpc-addr={host}:{rpc}",
        "--seeds=" + ",".join("{}:{}".format(*seed.listeners[BROKER]) for seed in seeds),
        *("--set", "redpanda.developer_mode=true"),  # no demands on the machine: memory, file system
        *("--set", "redpanda.empty_seed_starts_cluster=false"),  # all brokers are seeds, and found the cluster together
        *("--set", f'redpanda.admin=[{{"address":"{host}","port":{PORT}}}]'),
        "--smp=1",
        f"--memory={memory_mb}M",
        "--default-log-level=info",
    ]


def topic_settings(wanted: Mapping[str, str]) -> dict[str, str]:
    """The subset of a topic's settings that Redpanda has."""
    return {name: value for name, value in wanted.items() if name not in _NOT_THERE}
