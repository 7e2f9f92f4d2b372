"""Targets: a role as text (`leader:orders-0`) becomes nodes at the moment of the fault."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from random import Random

from harness.api import Cluster, ClusterError, Scalable

SPELLINGS = {
    "random": "random",
    "all": "all",
    "leader": "leader[:TOPIC-PARTITION]",
    "controller": "controller",
    "coordinator": "coordinator[:TRANSACTIONAL-ID]",
    "group-coordinator": "group-coordinator[:GROUP]",
    "broker": "broker:NODE",
    "client": "client[:NODE]",
}
ONE_BROKER = ("random", "leader", "controller", "coordinator", "group-coordinator", "broker")
BROKERS = (*ONE_BROKER, "all")
ANY = (*BROKERS, "client")


def check(role: str, allowed: Sequence[str] = ANY, count: int = 1) -> None:
    """Raise ValueError when `role` cannot be meant, saying what is allowed. Needs no cluster.

    allowed: the roles that make sense (`ONE_BROKER`, `BROKERS`, `ANY`); count: how many nodes are wanted.
    """
    head, colon, name = role.partition(":")
    choices = ", ".join(SPELLINGS[choice] for choice in allowed)
    if head not in allowed:
        near = difflib.get_close_matches(head, allowed, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else "."
        raise ValueError(f'unknown target "{role}"{hint} Allowed: {choices}')
    if (colon and not name) or (colon and ":" not in SPELLINGS[head]) or (head == "broker" and not name):
        raise ValueError(f'target "{role}" is spelled {SPELLINGS[head]}. Allowed: {choices}')
    if head == "leader" and name and not re.fullmatch(r".+-\d+", name):
        raise ValueError(f'target "{role}" names no partition; write it like leader:orders-0')
    if count < 1:
        raise ValueError(f"count = {count}: at least one node must be hurt")
    if count > 1 and role not in ("random", "client"):
        raise ValueError(f'count = {count} goes with the targets "random" and "client" only, not with "{role}"')


def find(role: str, cluster: Cluster, rng: Random, count: int = 1) -> tuple[str, ...]:
    """The nodes that have `role` right now.

    Raises ClusterError when no node has it, no broker answers, or there are fewer than `count` nodes.
    """
    head, _, name = role.partition(":")
    if head == "all":
        return tuple(cluster.brokers)
    if role == "random":
        return _sample(cluster.brokers, count, "broker", rng)
    if role == "client":
        return _sample(_running(cluster), count, "client", rng)
    return (_FINDERS[head](name, cluster, rng),)


def choose_name(role: str, names: Sequence[str], what: str, rng: Random) -> str:
    """The id or group that `coordinator:ID` names, else one of `names`. Raises ClusterError when there is none."""
    return role.partition(":")[2] or _choose(names, what, rng)


def _running(cluster: Cluster) -> list[str]:
    """The clients, without instances of a program that are not to run now."""
    states = cluster.instances() if isinstance(cluster, Scalable) else {}
    return [node for node in cluster.clients if states.get(node, True)]


def _sample(nodes: Sequence[str], count: int, what: str, rng: Random) -> tuple[str, ...]:
    if len(nodes) < count:
        raise ClusterError(f"{count} {what}(s) wanted, but there are {len(nodes)}")
    return tuple(rng.sample(list(nodes), count))


def _require_known(name: str, nodes: Sequence[str], what: str) -> str:
    if name not in nodes:
        raise ClusterError(f'there is no {what} "{name}"; there are: {", ".join(nodes) or "none"}')
    return name


def _leader(name: str, cluster: Cluster, rng: Random) -> str:
    topic, _, partition = (name or _choose(cluster.topics, "partition of the workload", rng)).rpartition("-")
    return cluster.roles().leader(topic, int(partition))


def _coordinator(name: str, cluster: Cluster, rng: Random) -> str:
    return cluster.roles().transaction_coordinator(name or _choose(cluster.transactional_ids, "transactional id", rng))


def _group_coordinator(name: str, cluster: Cluster, rng: Random) -> str:
    return cluster.roles().group_coordinator(name or _choose(cluster.groups, "consumer group", rng))


def _choose(names: Sequence[str], what: str, rng: Random) -> str:
    if not names:
        raise ClusterError(f"no {what} is known")
    return rng.choice(list(names))


_FINDERS: dict[str, Callable[[str, Cluster, Random], str]] = {
    "leader": _leader,
    "controller": lambda _name, cluster, _rng: cluster.roles().controller(),
    "coordinator": _coordinator,
    "group-coordinator": _group_coordinator,
    "broker": lambda name, cluster, _rng: _require_known(name, cluster.brokers, "broker"),
    "client": lambda name, cluster, _rng: _require_known(name, cluster.clients, "client"),
}
