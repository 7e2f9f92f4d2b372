"""Revoke ACL: the clients lose a right, as after a mistake of an operator's, and get it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, Literal, get_args

from fencepost.harness.api import Authorizing, Cluster, ClusterError, Receipt, Right
from fencepost.harness.api.bounds import demand_bounds
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import attempt_each, undo_on_error
from fencepost.nemesis.support.cluster_types import AuthorizingCluster
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_target_on_error
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

SEEN_WITHIN_S = 15.0
EVERY = "*"
Choice = Literal["write on topic", "write on transactional id", "read on group", "read on topic", "random"]


@dataclass(frozen=True, kw_only=True)
class RevokeAcl:
    """Takes a right from the clients' principal: to write to topics or with transactional ids, or to read as members of groups.

    Needs `acls = true` of the cluster. Of every name (`all`) the ACL that allows it is removed; one name is denied beside it.
    Healing gives it back. A right that is taken away already is left to the fault that took it.

    Brokers, controllers and the harness have another principal, which may do everything. Evidence: the clients' ACLs as each
    broker has them (DescribeAcls), before, during and after.
    """

    needs: ClassVar[tuple[type, ...]] = (Authorizing,)

    right: Choice = "random"  # which; random: one of the first three, drawn each time
    target: str = "random"  # of which topics, ids or groups: random (one of the workload's), all, or name:NAME

    def __post_init__(self) -> None:
        demand_bounds(self)
        targets.check_names(self.target, "name:NAME")

    @catch_no_effect
    def inject(self, cluster: AuthorizingCluster, rng: Random) -> Receipt:
        """Take it, and look until every broker that answers knows."""
        right = rng.choice(get_args(Choice)[:3]) if self.right == "random" else self.right
        operation, _, resource = right.partition(" on ")
        with no_target_on_error(f"{right} {self.target}"):
            name = self._name(_names(cluster, resource), rng)
            before = cluster.rights()
            number = cluster.revoke([name], operation, resource)
        gone = Right("allow", operation, resource, name)
        with undo_on_error(lambda: cluster.regrant(number)):
            during = poll_until(cluster.rights, lambda seen: bool(seen) and not _allowing(seen, gone), SEEN_WITHIN_S)
        late = _allowing(during, gone)
        nodes = sorted(during)
        same = [node for node in nodes if node not in late and during[node] == before.get(node)]
        knowing = [node for node in nodes if node not in (*late, *same)]
        problems = [f"{node} still allows it" for node in late] + [f"{node} did not allow it before" for node in same]
        return Receipt(
            role=f"{self.target}: {gone.what}",
            targets=tuple(nodes),
            evidence={"number": number, "before": _texts(before), "during": _texts(during), **hit_among(nodes, knowing)},
            effective=bool(knowing),
            note="; ".join(problems) if during else "no broker tells of rights",
        )

    def heal(self, cluster: AuthorizingCluster, receipt: Receipt) -> Receipt:
        """Give it back, and look until every broker that answers knows."""
        number = receipt.evidence.get("number")
        if number is None:
            return receipt
        problems = attempt_each(cluster.regrant, [number])
        gained, lost = _changed(receipt.evidence)
        after = poll_until(lambda: _texts(cluster.rights()), lambda seen: not _wrong(seen, gained, lost), SEEN_WITHIN_S)
        left = _wrong(after, gained, lost)
        problems += [f"{node} does not allow it again" for node in left]
        return healed(receipt, {"after": after}, problems, left)

    def _name(self, known: Sequence[str], rng: Random) -> str:
        if self.target == "all":
            return EVERY
        if named := self.target.partition("name:")[2]:
            return named
        if not known:
            raise ClusterError("the workload has none of the kind")
        return rng.choice(sorted(known))


def _names(cluster: Cluster, resource: str) -> Sequence[str]:
    """The workload's topics, transactional ids, or groups."""
    topics = dict.fromkeys(name.rpartition("-")[0] for name in cluster.topics)
    return {"topic": tuple(topics), "transactional id": cluster.transactional_ids, "group": cluster.groups}[resource]


def _allowing(seen: Mapping[str, Sequence[Right]], gone: Right) -> list[str]:
    """The brokers that still allow it."""
    denied, everything = gone.denied, replace(gone, name=EVERY)
    return sorted(node for node, rights in seen.items() if denied not in rights and everything in rights)


def _texts(seen: Mapping[str, Sequence[Right]]) -> dict[str, list[str]]:
    return {node: [str(right) for right in rights] for node, rights in seen.items()}


def _changed(evidence: Mapping[str, Mapping[str, Sequence[str]]]) -> tuple[set[str], set[str]]:
    """The entries that came, and those that went, by the brokers that told of both."""
    before, during = evidence.get("before", {}), evidence.get("during", {})
    both = [(set(before[node]), set(during[node])) for node in before if node in during]
    return {acl for was, now in both for acl in now - was}, {acl for was, now in both for acl in was - now}


def _wrong(seen: Mapping[str, Sequence[str]], gained: set[str], lost: set[str]) -> list[str]:
    """Brokers where an entry that came is still there, or one that went still lacks."""
    return sorted(node for node, rights in seen.items() if gained & set(rights) or lost - set(rights))
