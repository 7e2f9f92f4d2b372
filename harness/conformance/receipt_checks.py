"""Checks of a receipt by itself, and against snapshots of the cluster. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fencepost.harness.api import Fault, Receipt
from fencepost.harness.conformance import snapshot
from fencepost.harness.conformance.snapshot import Snapshot

Flaw = tuple[str, str]  # what is wrong, and what to change


def malformed(receipt: Receipt, fault: Fault, nodes: Collection[str]) -> list[Flaw]:
    """Flaws of a receipt by itself: its form, and the nodes and the role that it names."""
    targeted = hasattr(fault, "target")
    return [*_shape(receipt, nodes, targeted), *_evidence("evidence", receipt.evidence), *_role(receipt, fault)]


def _shape(receipt: Receipt, nodes: Collection[str], targeted: bool) -> Iterator[Flaw]:
    """Flaws of the fields of a receipt.

    targeted: the fault aims at nodes; others (a topic's settings) may hurt none.
    """
    if not isinstance(receipt.effective, bool):
        yield f"effective is {receipt.effective!r}", "set effective to True or False by what the evidence shows"
    strange = [str(node) for node in (*receipt.targets, *(end for pair in receipt.pairs for end in pair)) if node not in nodes]
    if strange:
        yield f"it names {', '.join(strange)}, and there are {', '.join(nodes)}", "targets and pairs hold names of nodes"
    if targeted and receipt.effective and not receipt.targets:
        yield "it names no targets", "put the nodes that were hurt into targets, or nobody knows what to heal"
    if receipt.effective is False and not receipt.note:
        yield "effective is False, and note is empty", "say in note why nothing was hurt"
    if receipt.effective and not {"before", "during"} <= set(receipt.evidence):
        yield f"evidence has {', '.join(map(str, receipt.evidence)) or 'nothing'}", 'evidence must have "before" and "during"'


def _evidence(field: str, value: Any) -> Iterator[Flaw]:
    """Flaws of a field that must be plain JSON, with texts for keys at every depth."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        yield f"{field} is not plain JSON: {error}", f"use texts, numbers, true/false, lists and mappings in {field} only"
        return
    for key in _odd_keys(value):
        yield f"{field} has the key {key!r}, which is no text", f"write keys of {field} as texts (a pair as n1>n2)"


def _odd_keys(value: Any) -> Iterator[Any]:
    """Keys that are no texts, at every depth."""
    if isinstance(value, Mapping):
        yield from (key for key in value if not isinstance(key, str))
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for element in inner:
        yield from _odd_keys(element)


def _role(receipt: Receipt, fault: Fault) -> Iterator[Flaw]:
    target = getattr(fault, "target", None)
    if isinstance(target, str) and receipt.role != target and not receipt.role.startswith(f"{target}:"):
        yield (
            f'role is "{receipt.role}", and the option target was "{target}"',
            "set role to the target as it was asked for, or to which one it was (leader:t-0)",
        )


def untimely(name: str, given: Any, began_ns: int, ended_ns: int) -> list[Flaw]:
    """Flaws of a time of a receipt, which must lie from `began_ns` to `ended_ns`; 0: the fault set none."""
    if given == 0 or (isinstance(given, int) and began_ns <= given <= ended_ns):
        return []
    text = f"{name} is {given!r}, and what it tells of happened between {began_ns} and {ended_ns}"
    return [(text, f"leave {name} to the harness, or take it from time.monotonic_ns() when it happens")]


def unproven_healing(receipt: Receipt, injected: Receipt) -> list[Flaw]:
    """Flaws of the receipt that `heal` returned.

    injected: the receipt that it was given.
    """
    flaws = list(_evidence("healing", receipt.healing))
    if other := [name for name in ("role", "targets", "pairs") if getattr(receipt, name) != getattr(injected, name)]:
        text = f"heal changed {', '.join(other)} of the receipt"
        flaws.append((text, "return replace(receipt, healing=...): what was hurt stays as it was"))
    if receipt.effective and not receipt.healing:
        flaws.append(("healing is empty", 'return replace(receipt, healing={"after": ...}) with what was looked at again'))
    return flaws


def false_claims(receipt: Receipt, before: Snapshot, during: Snapshot) -> list[Flaw]:
    """Claims of the receipt that the snapshots contradict."""
    if receipt.effective is False:
        hurt = snapshot.changes(before, during, but=before.drifting)
        text = f"it says that nothing was hurt, but: {'; '.join(hurt)}"
        return [(text, "set effective to True, and targets to what was hurt")] if hurt else []
    silent = sorted(snapshot.nodes_hurt(before, during) - {*receipt.targets})
    if silent:
        return [(f"{', '.join(silent)} was hurt, and is not among its targets", "name every node that was hurt in targets")]
    return _unnamed_cuts(receipt, before, during)


def _unnamed_cuts(receipt: Receipt, before: Snapshot, during: Snapshot) -> list[Flaw]:
    named = {f"{source}>{destination}" for source, destination in receipt.pairs}
    closed = [pair for pair, arrived in before.of(snapshot.NETWORK).items() if arrived and not during.of(snapshot.NETWORK)[pair]]
    hidden = [pair for pair in closed if pair not in named and not {*pair.split(">")} & {*receipt.targets}]
    return (
        [(f"{', '.join(hidden)} was cut, and is not among its pairs", "name every pair that was cut in pairs")] if hidden else []
    )
