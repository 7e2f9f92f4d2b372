"""Instances inside a transaction, as coordinators and leaders say (ListTransactions and DescribeProducers, KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from fencepost.harness.api import CoordinatedTransaction, Killable, ListingTransactions
from fencepost.nemesis.support.waiting import poll_until

INSIDE = "instance:in-transaction"  # the role
ONGOING = "Ongoing"
WITHIN_S = 3.0
LOOK_EVERY_S = 0.002  # a transaction of a few records is open for some 10 ms
ASK_S = 0.2  # a broker that is frozen delays the others' answers for no longer


def await_transactions(cluster: Any, nodes: Sequence[str], count: int) -> list[str]:
    """Those of some instances with a record in a transaction that has just begun, when there are so many; after `WITHIN_S` those
    with one in any.

    A transaction that was open before may be that of a process that died, in whose place another one has started. Empty at once
    on a cluster that cannot be asked. Of a program with transactional ids of its own choice, nobody knows which instance has
    which: all are meant when any such transaction has begun. Of one that has no transactional id, none is inside.
    """
    if not isinstance(cluster, ListingTransactions) or not ids_of_instances(cluster):
        return []
    before = _open(cluster)
    begun = poll_until(lambda: _inside(cluster, nodes, before), lambda inside: len(inside) >= count, WITHIN_S, LOOK_EVERY_S)
    return begun if len(begun) >= count else _inside(cluster, nodes, ())


def struck_in_transaction(role: str, cluster: Any, nodes: Sequence[str]) -> dict[str, Any]:
    """Evidence of a strike at `instance:in-transaction`: whether each node that was hit, and whose transactional id is known, has
    left a record in an open transaction behind. Empty for other roles, and where nobody can be asked or no id is known.
    """
    given = {node: name for node in nodes if (name := _given(cluster).get(node))} if role == INSIDE else {}
    if not given or not isinstance(cluster, ListingTransactions):
        return {}
    ids = {each.transactional_id for each in _open(cluster)}
    return {"in_transaction": {node: name in ids for node, name in given.items()}}


def ids_of_instances(cluster: Any) -> list[str]:
    """The transactional ids of a program's instances or a group's members that coordinators know: those that they were given, and
    those that a program chose itself. Where nobody can be asked, all that were given."""
    given = {name for node in cluster.instances() if (name := cluster.transactional_id(node))}
    of_clients = set(cluster.transactional_ids)
    if not isinstance(cluster, ListingTransactions):
        return sorted(given)
    known = {each.transactional_id for each in cluster.transaction_listing((), WITHIN_S).coordinated}
    return sorted(known & given | known - of_clients)


def _open(cluster: Any) -> set[CoordinatedTransaction]:
    """The open transactions with records, as the coordinators and leaders have them that answer."""
    listing = cluster.transaction_listing(cluster.topics, ASK_S)
    written = {each.producer_id for each in listing.opened}
    return {replace(each, partitions=()) for each in listing.coordinated if each.state == ONGOING and each.producer_id in written}


def _inside(cluster: Any, nodes: Sequence[str], before: Collection[CoordinatedTransaction]) -> list[str]:
    ids = {each.transactional_id for each in _open(cluster).difference(before)}
    given = _given(cluster)
    inside = [node for node in nodes if given[node] in ids and _lives(cluster, node)]
    strange = ids.difference(cluster.transactional_ids, given.values())
    return inside or list(nodes if strange else ())


def _given(cluster: Any) -> dict[str, str]:
    """The transactional ids that instances were given."""
    return {node: cluster.transactional_id(node) for node in cluster.instances()}


def _lives(cluster: Any, node: str) -> bool:
    """Its transaction stays open when it is dead."""
    return not isinstance(cluster, Killable) or cluster.pid(node) is not None
