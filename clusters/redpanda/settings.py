"""The settings of a Redpanda broker at its start, from its documentation: `rpk redpanda start`, and properties of a new cluster.

https://docs.redpanda.com/current/reference/rpk/rpk-redpanda/rpk-redpanda-start/
https://docs.redpanda.com/current/reference/properties/cluster-properties/
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.clusters.kafka.broker_config import BROKER, CLIENT, PlannedNode

CONFIG, DATA = "/etc/redpanda", "/var/lib/redpanda/data"

# Laid over what `--mode dev-container` sets, each because a promise or the quick start hangs on it.
PROPERTIES: Mapping[str, Any] = {
    "write_caching_default": "false",  # dev-container acknowledges from memory; acks=all is to mean what it says
    "auto_create_topics_enabled": False,  # a topic that appears with other settings would hide a mistake
    "default_topic_replications": 3,
    "internal_topic_replication_factor": 3,  # committed offsets and transactions' states survive the loss of any broker
    "transaction_coordinator_partitions": 6,  # several coordinators, yet a quick start
    "group_topic_partitions": 4,
    "group_initial_rebalance_delay": 0,
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
    """The command line of a broker, in the documented development mode, on one core, with `memory_mb` for itself."""
    (host, kafka), (_, rpc) = node.listeners[CLIENT], node.listeners[BROKER]
    return [
        "rpk",
        "redpanda",
        "start",
        "--mode=dev-container",
        f"--config={CONFIG}/redpanda.yaml",
        f"--node-id={node.id}",
        f"--kafka-addr={host}:{kafka}",
        f"--advertise-kafka-addr={host}:{kafka}",
        f"--rpc-addr={host}:{rpc}",
        f"--advertise-rpc-addr={host}:{rpc}",
        "--seeds=" + ",".join("{}:{}".format(*seed.listeners[BROKER]) for seed in seeds),
        "--set=redpanda.empty_seed_starts_cluster=false",  # all brokers are seeds, and found the cluster together
        "--smp=1",
        f"--memory={memory_mb}M",
        "--default-log-level=info",
    ]


def topic_settings(wanted: Mapping[str, str]) -> dict[str, str]:
    """The subset of a topic's settings that Redpanda has."""
    return {name: value for name, value in wanted.items() if name not in _NOT_THERE}
