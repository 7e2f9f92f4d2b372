"""Network partitions: which node drops whose packets (grudges) as pure functions, and cutting and mending links.

The words and the shapes (isolated node, halves, bridge) are Jepsen's `jepsen.nemesis`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar, Literal

from fencepost.harness.api import Cluster, Pair, Partitionable, Receipt, SecondCluster
from fencepost.harness.api.clusters import second_of, services_of
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import PartitionableCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import NoEffect
from fencepost.nemesis.support.strike import hit_among

Sides = tuple[tuple[str, ...], tuple[str, ...]]
PROBES = 3
LinkScope = Literal["servers", "clients", "all"]  # whom a node's links lead to


def servers(cluster: Cluster, nodes: Iterable[str] = ()) -> tuple[str, ...]:
    """Brokers and controllers of the Kafka cluster that these nodes are of, without any of the one that is judged; each once."""
    own = _of(cluster, nodes)
    return tuple(dict.fromkeys((*own.brokers, *own.controllers)))


def brokers(cluster: Cluster, nodes: Iterable[str]) -> tuple[str, ...]:
    """The brokers of the Kafka cluster that these nodes are of."""
    return _of(cluster, nodes).brokers


def _of(cluster: Cluster, nodes: Iterable[str]) -> Cluster | SecondCluster:
    second = second_of(cluster)
    return second if second and set(nodes) & {*second.brokers, *second.controllers} else cluster


def all_servers(cluster: Cluster) -> tuple[str, ...]:
    """The servers of both Kafka clusters."""
    second = second_of(cluster)
    return servers(cluster) + (servers(cluster, second.brokers) if second else ())


def one_way(sources: Iterable[str], destinations: Sequence[str]) -> tuple[Pair, ...]:
    """Every packet from a source to a destination."""
    return tuple((source, destination) for source in sources for destination in destinations if source != destination)


def both_ways(some: Sequence[str], others: Sequence[str]) -> tuple[Pair, ...]:
    """Every packet between `some` and `others`, in either direction; each pair once."""
    return tuple(dict.fromkeys(one_way(some, others) + one_way(others, some)))


def split(nodes: Sequence[str], rng: Random) -> Sides:
    """Two random halves; the first is the smaller one when the number is odd."""
    shuffled = rng.sample(list(nodes), len(nodes))
    middle = len(shuffled) // 2
    return tuple(sorted(shuffled[:middle])), tuple(sorted(shuffled[middle:]))


def links(cluster: Cluster, nodes: Sequence[str], scope: LinkScope) -> tuple[Pair, ...]:
    """The links of `nodes`, both ways, to the servers, to the clients that there are now, or to all; of a service to clients."""
    if set(nodes) <= set(services_of(cluster)):
        return both_ways(nodes, cluster.clients)  # brokers do not talk to it
    reached = all_servers(cluster) if set(nodes) <= set(cluster.clients) else servers(cluster, nodes)
    others = (reached if scope != "clients" else ()) + (tuple(cluster.clients) if scope != "servers" else ())
    clients = set(cluster.clients)
    return tuple(pair for pair in both_ways(nodes, others) if not clients.issuperset(pair))  # clients do not talk to one another


def target_links(cluster: Cluster, target: str, scope: LinkScope, rng: Random) -> tuple[Receipt, tuple[Pair, ...]]:
    """The links of the node that plays the role now, and the receipt so far. Raises NoEffect when there are none."""
    nodes = targets.find(target, cluster, rng)
    receipt, pairs = Receipt(role=target, targets=nodes), links(cluster, nodes, scope)
    if not pairs:
        raise NoEffect(replace(receipt, effective=False, note=f"{', '.join(nodes)} has no such links"))
    return receipt, pairs


def cut(
    cluster: PartitionableCluster,
    role: str,
    nodes: Sequence[str],
    pairs: Sequence[Pair],
    detail: Mapping[str, Any] | None = None,
) -> Receipt:
    """Drop `pairs`, with what could be probed before and during as evidence.

    Effective when a pair that was open before is closed; the note names those that stay open.
    role, nodes: the target as asked and as found; detail: more evidence (the sides of a split).
    Raises what the cluster raises, with nothing left dropped.
    """
    receipt = Receipt(role=role, targets=tuple(nodes), pairs=tuple(pairs))
    if not pairs:
        return replace(receipt, effective=False, note="nothing to cut: there are no two nodes to keep apart")
    before = open_pairs(cluster, pairs)
    with undo_on_error(lambda: cluster.undrop(pairs)):
        cluster.drop(pairs)
        during = cluster.probe(pairs)
    were_open = [pair for pair in pairs if before.get(pair)]
    leaks = [pair for pair in were_open if during.get(pair, True)]
    problems = [] if were_open else ["no pair was open before"]
    if leaks:
        problems.append(f"still open: {', '.join(map(pair_name, leaks))}")
    closed = [pair_name(pair) for pair in were_open if pair not in leaks]
    return replace(
        receipt,
        evidence={**(detail or {}), "before": matrix(before), "during": matrix(during), **hit_by_links(nodes, closed)},
        effective=bool(closed),
        note="; ".join(problems),
    )


def hit_by_links(nodes: Sequence[str], links: Iterable[str]) -> dict[str, list[str]]:
    """The part `hit` of the evidence where a target was hurt if one of its links (`n1>n2`) was."""
    return hit_among(nodes, {node for link in links for node in link.split(">")})


class PartitionFault:
    """A fault that cuts links for as long as it lasts: what it needs, and how it is healed."""

    needs: ClassVar[tuple[type, ...]] = (Partitionable,)

    def heal(self, cluster: PartitionableCluster, receipt: Receipt) -> Receipt:
        """Let the receipt's pairs talk again."""
        return mend(cluster, receipt)


def mend(cluster: PartitionableCluster, receipt: Receipt) -> Receipt:
    """Let the receipt's pairs talk again, with the packets dropped meanwhile and what can be probed now as evidence."""
    if not receipt.pairs:
        return receipt
    dropped = cluster.dropped_packets(receipt.pairs)
    problems = attempt_each(cluster.undrop, [receipt.pairs])
    after = open_pairs(cluster, receipt.pairs)
    before = receipt.evidence.get("before", {})
    closed = [pair_name(pair) for pair in receipt.pairs if before.get(pair_name(pair)) and not after.get(pair)]
    if closed:
        problems.append(f"still closed after healing: {', '.join(closed)}")
    healing = {"after": matrix(after), "dropped": {pair_name(pair): count for pair, count in dropped.items()}}
    return healed(receipt, healing, problems, closed)


def open_pairs(cluster: PartitionableCluster, pairs: Sequence[Pair]) -> dict[Pair, bool]:
    """Return for each pair whether it is open: by any of several probes, since a busy machine may hold a datagram up."""
    probed = dict(cluster.probe(pairs))
    for _ in range(PROBES - 1):
        if left := [pair for pair, arrived in probed.items() if not arrived]:
            probed |= cluster.probe(left)
    return probed


def matrix(probed: Mapping[Pair, bool]) -> dict[str, bool]:
    """A probe's answer as plain JSON: `n1>n2` -> whether the datagram arrived."""
    return {pair_name(pair): arrived for pair, arrived in probed.items()}


def pair_name(pair: Pair) -> str:
    """A pair as it is written everywhere: `source>destination`."""
    return f"{pair[0]}>{pair[1]}"
