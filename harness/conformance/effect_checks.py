"""Checks that the kit itself sees the effect that a receipt claims, while the fault is said to be active.

Each call of a fault shows in an aspect of a snapshot, or can be measured, or cannot be observed at all. An effect that can be
observed must be observed, and evidence that the kit can look up itself must agree with what it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.harness.api import Fault, Receipt
from fencepost.harness.api.admin_aspects import levels
from fencepost.harness.api.capabilities import CAPABILITIES, NO_BYTES
from fencepost.harness.api.declarations import Change, declarations
from fencepost.harness.api.observation import ABSENT, CHANGED, UNKNOWN, Aspect
from fencepost.harness.conformance import snapshot
from fencepost.harness.conformance.call_record import CallRecord
from fencepost.harness.conformance.link_quality import PROBED, Measured, is_measured
from fencepost.harness.conformance.receipt_checks import Flaw
from fencepost.harness.conformance.snapshot import Snapshot

Comparison = Iterator[tuple[str, Any, Any]]  # what, as the evidence says, as the kit saw
MEASURED = (*PROBED, *declarations().counted_by)  # calls of fencepost's whose effect is measured
ASPECTS = declarations().shown_by  # call of fencepost's -> where it shows; nothing: it cannot be observed
UNDO_LATER = "leave it in force until heal: a fault is active from the end of inject to the beginning of heal"
NAME_HURT = "name in targets what was hurt; where only some were, name these in hit, and say in note why not the others"
LOOK = "look whether it took hold, put what was seen into evidence, and set effective by that"


@dataclass(frozen=True)
class Observations:
    """The kit's observations of one strike.

    record: the fault's calls.
    before: the cluster before the strike.
    during: the cluster after it.
    measured: (change, what was measured) of what no snapshot shows.
    """

    record: CallRecord
    before: Snapshot
    during: Snapshot
    measured: tuple[tuple[Change, Measured], ...] = ()

    def aspects(self, change: Change) -> list[tuple[str, Any]]:
        """The aspects in which a change shows, and its state there (CHANGED: any but the one before)."""
        declared = self.record.declared
        shown = [entry for entry in declared.shown_by.get(change.call, ()) if entry.aspect in declared.aspects]
        return [(entry.aspect, declared.state_after(entry, change.arguments)) for entry in shown]


@dataclass(frozen=True)
class Effect:
    """The judgement of a claimed effect.

    flaws: what is wrong with the claim.
    seen: changes that the kit saw.
    unobservable: changes that the kit cannot observe here.
    """

    flaws: tuple[Flaw, ...] = ()
    seen: tuple[str, ...] = ()
    unobservable: tuple[str, ...] = ()


def claimed(fault: Fault, receipt: Receipt, seen: Observations) -> Effect:
    """Judge a receipt that says `effective`."""
    effect = Effect(
        (*_unseen(seen), *_open_pairs(receipt, seen), *_contradictions(receipt, seen)) or tuple(_spared(receipt, seen)),
        tuple(text for change in seen.record.in_force for text in _shown(change, seen)),
        tuple(str(change) for change in seen.record.in_force if _observable(change, seen) is False),
    )
    if seen.record.in_force:
        return effect
    other = _without_calls(fault, receipt, seen)
    return replace(other, flaws=(*other.flaws, *effect.flaws))


def _without_calls(fault: Fault, receipt: Receipt, seen: Observations) -> Effect:
    """Judge a claim without a call in force: the fault restarted nodes, acts past the cluster's calls, or makes a false claim."""
    restarted = _restarted(seen)
    shown = {node for node, pid in restarted.items() if pid in _leaves(receipt.evidence.get("during"))}
    if restarted and shown == restarted.keys():
        return Effect(seen=tuple(f"{node} runs as another process, {pid}" for node, pid in restarted.items()))
    if seen.record.undone:
        undone = ", ".join(dict.fromkeys(str(change) for change in seen.record.undone[:4]))
        again = "".join(f"; {node} lives, as process {pid}, which evidence does not have" for node, pid in restarted.items())
        return Effect((("effective is True, but inject undid by itself what it had done: " + undone + again, UNDO_LATER),))
    if changes := snapshot.changes(seen.before, seen.during, but=seen.before.drifting):
        return Effect(seen=tuple(changes))
    if fault.needs and all(need in CAPABILITIES for need in fault.needs):
        needs = ", ".join(need.__name__ for need in fault.needs)
        return Effect(((f"effective is True, but nobody saw anything change, and no call of {needs} that hurts was made", LOOK),))
    if receipt.evidence.get("before") == receipt.evidence.get("during"):
        text = "effective is True, but nobody saw anything change, and evidence is the same before and during"
        return Effect(((text, LOOK),))
    return Effect(unobservable=("what it did, for it made no call that the kit knows to hurt",))


def _observable(change: Change, seen: Observations) -> bool | None:
    """False when the kit cannot observe this kind of change here; None when it is measured."""
    if is_measured(change.call, seen.record.declared):
        return None if any(other == change and measured.shows is not None for other, measured in seen.measured) else False
    return any(aspect in seen.before.seen for aspect, _ in seen.aspects(change))


def _shown(change: Change, seen: Observations) -> Iterator[str]:
    """The kit's observations of a change, in words; nothing when it does not show."""
    yield from (f"{change}: {measured.text}" for other, measured in seen.measured if other == change and measured.shows)
    for aspect, state in seen.aspects(change):
        before, during = seen.before.of(aspect), seen.during.of(aspect)
        for subject in _subjects(change, before):
            now = during.get(subject, before[subject])
            if now != before[subject] and (state is CHANGED or now == state):
                yield snapshot.difference(aspect, subject, before[subject], now)


def _subjects(change: Change, before: Mapping[str, Any]) -> list[str]:
    """The subjects of an aspect that a change names."""
    return [subject for subject in change.subject.split(", ") if subject in before]


def _unseen(seen: Observations) -> Iterator[Flaw]:
    """Kinds of change that are in force and show nowhere. A kind that shows on one of several nodes counts as shown."""
    for call in dict.fromkeys(change.call for change in seen.record.in_force):
        same = [change for change in seen.record.in_force if change.call == call]
        if any(_observable(change, seen) is False or any(_shown(change, seen)) for change in same):
            continue
        texts = [measured.text for change, measured in seen.measured if change in same]
        shown = f" ({'; '.join(texts)})" if texts else ""
        names = ", ".join(dict.fromkeys(change.subject for change in same[:3]))
        yield f"effective is True, but the kit sees nothing of {call} {names}{shown}", LOOK


def _open_pairs(receipt: Receipt, seen: Observations) -> Iterator[Flaw]:
    """Pairs that were to be cut and are open, unless the receipt says so itself: a fault that cuts some of them is effective."""
    before, during = seen.before.of(snapshot.NETWORK), seen.during.of(snapshot.NETWORK)
    said = receipt.evidence.get("during")
    admitted = (
        {name for name, arrived in said.items() if arrived is True} if receipt.note and isinstance(said, Mapping) else set()
    )
    names = [f"{source}>{destination}" for source, destination in receipt.pairs]
    if through := [name for name in names if before.get(name) and during.get(name) and name not in admitted]:
        yield f"{', '.join(through[:4])} is among its pairs, and gets through", "name in pairs what is cut, and cut it until heal"


def _spared(receipt: Receipt, seen: Observations) -> Iterator[Flaw]:
    """Named nodes to which nothing happened, where all that is in force hurts nodes and can be observed.

    Those in `hit` were hurt; without it all targets were, unless a note says why not.
    """
    changes = seen.record.in_force
    if not changes or not all(seen.record.declared.hurts_nodes(change.call) and _observable(change, seen) for change in changes):
        return
    hit = receipt.evidence.get("hit")
    named = hit if isinstance(hit, list | tuple) else () if receipt.note else receipt.targets
    hurt = snapshot.nodes_hurt(seen.before, seen.during)
    if spared := [str(node) for node in named if node not in hurt]:
        yield f"it names {', '.join(spared)}, to which nothing happened", NAME_HURT


def _contradictions(receipt: Receipt, seen: Observations) -> Iterator[Flaw]:
    """Evidence that the kit can look up itself, and that differs from what it saw."""
    before, during = receipt.evidence.get("before"), receipt.evidence.get("during")
    if not isinstance(before, Mapping) or not isinstance(during, Mapping):
        return
    compared = [
        (f"{what} of {subject}", claim, saw)
        for subject in (name for name in before if name in during)
        for comparable in _COMPARED
        for what, claim, saw in comparable(str(subject), before[subject], during[subject], seen)
    ]
    for what, claim, saw in [*compared, *_of_the_targets(receipt, during, seen)]:
        if claim != saw:
            text = f"evidence says {what}: {snapshot.as_text(claim)}; the kit saw: {snapshot.as_text(saw)}"
            yield text, "put into evidence what was seen, not what was meant"


def _of_the_targets(receipt: Receipt, during: Mapping[str, Any], seen: Observations) -> Comparison:
    """The claims of the evidence under these names: `in_service` (brokers), and `bytes` (what the one target holds)."""
    service, data = seen.during.of(snapshot.SERVICE), seen.during.of(snapshot.DATA)
    if isinstance(there := during.get("in_service"), list | tuple) and service:
        yield "in_service", tuple(sorted(there)), tuple(sorted(node for node, state in service.items() if state == "in"))
    if type(held := during.get("bytes")) is int and len(receipt.targets) == 1 and receipt.targets[0] in data:
        yield f"data of {receipt.targets[0]}", "none" if held <= NO_BYTES else "there", data[receipt.targets[0]]


def _process(node: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """Process ids, where the one before agrees with the kit's, or a process was ended and evidence has an id, then none."""
    pid = seen.before.of(snapshot.PROCESS).get(node)
    if pid is None or not (now is None or type(now) is int):
        return
    ending = seen.record.declared.calls_shown_in(snapshot.PROCESS)
    if was == pid:
        yield snapshot.PROCESS, now, seen.during.of(snapshot.PROCESS).get(node)
    elif (
        now is None
        and type(was) is int
        and any(change.call in ending and node in change.subject.split(", ") for change in seen.record.in_force)
    ):
        yield f"{snapshot.PROCESS} before", was, pid


def _state(node: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """The state letter of a process in /proc: frozen (`T`), or not."""
    if isinstance(was, str) and isinstance(now, str) and max(len(was), len(now)) < 2 and node in seen.during.of(snapshot.STATE):
        saw = seen.during.of(snapshot.STATE)[node]
        yield snapshot.STATE, "frozen" if now == "T" else "not frozen", "frozen" if saw == snapshot.FROZEN else "not frozen"


def _leader(partition: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """Leader and replicas of a partition, as `Placement` has them."""
    if isinstance(now, Mapping) and "leader" in now and partition in seen.during.of(snapshot.LEADER):
        yield snapshot.LEADER, now["leader"], seen.during.of(snapshot.LEADER)[partition]
    if isinstance(now, Mapping) and "replicas" in now and partition in seen.during.of(snapshot.ORDER):
        yield snapshot.REPLICAS, tuple(now["replicas"]), seen.during.of(snapshot.ORDER)[partition]


def _settings(topic: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """A topic's own settings: name -> value, None where it has none of its own."""
    own = seen.during.of(snapshot.SETTINGS).get(topic)
    if own is not None and isinstance(now, Mapping):
        yield snapshot.SETTINGS, dict(now), {name: own.get(name) for name in now}


def _feature(name: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """A feature's level: broker -> level."""
    saw = seen.during.of(snapshot.FEATURES).get(name)
    if saw is not None and isinstance(now, Mapping):
        yield snapshot.FEATURES, levels({name: level} for level in now.values()).get(name), saw


def _epoch(name: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """Producer id and epoch of a transactional id; producers may have raised them since."""
    saw = seen.during.of(snapshot.EPOCH).get(name)
    if saw is not None and isinstance(now, Mapping) and now.get("producer_id", -1) >= 0:
        claim = (str(now["producer_id"]), str(now.get("epoch")))
        yield snapshot.EPOCH, claim, claim if tuple(map(int, claim)) <= tuple(map(int, saw)) else saw


def _topic_id(topic: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """Ids of a topic, under `ids`: broker -> id, empty where it has none."""
    saw = seen.during.of(snapshot.TOPIC).get(topic)
    if saw is not None and isinstance(now, Mapping) and isinstance(ids := now.get("ids"), Mapping) and ids:
        yield snapshot.TOPIC, " ".join(sorted(set(ids.values()))) if all(ids.values()) else "gone", saw


def _answer(subject: str, was: Any, now: Any, seen: Observations) -> Comparison:
    """Answers of the observations that show the calls in force, where the one before agrees with what the kit saw before."""
    aspects = dict.fromkeys(aspect for change in seen.record.in_force for aspect, _ in seen.aspects(change))
    for aspect in (seen.before.aspects[name] for name in aspects if name in seen.before.seen):
        before, during = seen.before.of(aspect.name), seen.during.of(aspect.name)
        if aspect.whole is not ABSENT and subject in before and subject in during and _state_of(aspect, was) == before[subject]:
            yield aspect.name, _state_of(aspect, now), during[subject]


def _state_of(aspect: Aspect, answer: Any) -> Any:
    """The state that an answer stands for; UNKNOWN: it is no answer of this look."""
    if type(answer) is not type(aspect.whole):
        return UNKNOWN
    return aspect.state(answer)


_COMPARED: tuple[Callable[[str, Any, Any, Observations], Comparison], ...] = (
    *(_process, _state, _leader, _settings, _feature, _epoch, _topic_id, _answer),
)


def other_processes(receipt: Receipt, healed: Receipt, before: Snapshot, now: Snapshot) -> list[Flaw]:
    """Process ids after healing that differ from the kit's, of nodes whose ids before agree (others may be no process ids)."""
    then, after = receipt.evidence.get("before"), healed.healing.get("after")
    if not isinstance(then, Mapping) or not isinstance(after, Mapping):
        return []
    was, pids = before.of(snapshot.PROCESS), now.of(snapshot.PROCESS)
    nodes = [node for node, pid in was.items() if pid is not None and then.get(node) == pid and type(after.get(node)) is int]
    wrong = [node for node in nodes if after[node] != pids.get(node)]
    return [
        (
            f"healing says {snapshot.PROCESS} of {node}: {after[node]}; the kit saw: {snapshot.as_text(pids.get(node))}",
            "put into healing what was seen after it",
        )
        for node in wrong
    ]


def _restarted(seen: Observations) -> dict[str, int]:
    """Nodes that lived before and live now as another process, with its id."""
    before, during = seen.before.of(snapshot.PROCESS), seen.during.of(snapshot.PROCESS)
    return {node: pid for node, pid in during.items() if pid is not None and before.get(node) not in (None, pid)}


def _leaves(value: Any) -> list[Any]:
    """All values in nested JSON."""
    if isinstance(value, Mapping):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    return [leaf for inner in value for leaf in _leaves(inner)] if isinstance(value, list | tuple) else [value]
