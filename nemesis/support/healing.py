"""What `heal` says beside its measurements: what it could not undo, and what had ended before it came.

`healing.left` and `healing.ended_early` are read by the harness and by the report (nemesis/README.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fencepost.harness.api import Cluster, Killable, Receipt


def healed(
    receipt: Receipt,
    healing: Mapping[str, Any],
    problems: Iterable[str],
    left: Iterable[str] = (),
    early: Mapping[str, str] | None = None,
) -> Receipt:
    """The receipt with what healing found.

    left: what this fault still hurts (nodes, pairs as `n1>n2`, topics): it counts as not healed. early: nodes where it had ended
    before, with the reason; how long it lasted there is not known.
    """
    found: dict[str, Any] = dict(healing)
    if remains := sorted(left):
        found["left"] = remains
    if early:
        found["ended_early"] = sorted(early)
    notes = [receipt.note, *(early or {}).values(), *problems]
    return replace(receipt, healing=found, note="; ".join(dict.fromkeys(filter(None, notes))))


def pids(cluster: Cluster, nodes: Iterable[str]) -> dict[str, int | None]:
    """The process id of each node; nothing where the cluster cannot show them."""
    if not isinstance(cluster, Killable) or cluster.unavailable(Killable):
        return {}
    return {node: cluster.pid(node) for node in nodes}


def lives_already(receipt: Receipt, now: Mapping[str, int | None]) -> dict[str, str]:
    """Of nodes that this fault took away, those that live when it is to be healed for the first time: another started them."""
    alive = {} if receipt.healing else {node: pid for node, pid in now.items() if pid is not None}
    return {node: f"{node} did not stay away: it lives already, as process {pid}" for node, pid in alive.items()}
