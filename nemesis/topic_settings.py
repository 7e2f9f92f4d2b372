"""Topic settings: settings of topics are changed under load, and changed back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, ClassVar

from fencepost.harness.api import Cluster, ClusterError, ClusterView, Receipt
from fencepost.nemesis.support import placement, targets
from fencepost.nemesis.support.attempts import answer_or, attempt_each, undo_on_error
from fencepost.nemesis.support.changes import OverlappingChanges
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.no_effect import catch_no_effect, no_effect_on_error
from fencepost.nemesis.support.strike import hit_among
from fencepost.nemesis.support.waiting import poll_until

SEEN_WITHIN_S = 15.0
LEAST_IN_SYNC = "min.insync.replicas"
PROMISED = {  # the contract of a run is derived from the settings at its start
    "unclean.leader.election.enable": "acknowledged records may then be lost by design",
    "cleanup.policy": "records may then be deleted, and would look lost",
    "retention.ms": "records may then be deleted, and would look lost",
    "retention.bytes": "records may then be deleted, and would look lost",
}


class SettingChanges(OverlappingChanges[tuple[str, str], str | None]):
    """The changes that faults have made to settings: (topic, setting) -> value; None where the topic has none of its own."""


@dataclass(frozen=True, kw_only=True)
class TopicSettings:
    """Changes settings of the workload's topics. Healing gives each its former value, or none if it had none of its own.

    A setting that another fault has changed too keeps that fault's value until that fault is healed.

    A change that weakens the run's contract is refused: set it in `[test.topic]`, from which the contract is derived.
    `min.insync.replicas` may be raised, not lowered. Evidence: the topics' own settings before, during and after.
    """

    needs: ClassVar[tuple[type, ...]] = ()

    target: str = "random"  # the topics: random (one), all, or topic:orders
    settings: Mapping[str, str | int | float | bool] = field(
        default_factory=lambda: {"segment.bytes": 1048576, "segment.ms": 1000, "max.message.bytes": 2097152}
    )  # name -> value while the fault lasts; default: segments end after a second, and larger batches are accepted

    def __post_init__(self) -> None:
        targets.check_names(self.target, "topic:NAME")
        if not self.settings:
            raise ValueError("settings: none is named")
        if not str(self.settings.get(LEAST_IN_SYNC, 1)).isdigit():
            raise ValueError(f"{LEAST_IN_SYNC} = {self.settings[LEAST_IN_SYNC]}: must be a number")
        wrong = [f"{name} cannot be changed: {reason}" for name, reason in PROMISED.items() if name in self.settings]
        if wrong:
            raise ValueError("; ".join(wrong) + ". Set it in [test.topic]: what the run promises is derived from it")

    def changed_topic_settings(self) -> dict[str, str]:
        """See `harness.api.ChangesTopicSettings`."""
        return {name: _text(value) for name, value in self.settings.items()}

    @catch_no_effect
    def inject(self, cluster: ClusterView, rng: Random) -> Receipt:
        """Change the settings, and look until they are seen."""
        changes, wanted = cluster.shared(SettingChanges), self.changed_topic_settings()
        with no_effect_on_error(self.target), changes.lock:
            topics = self._topics(cluster, rng)
            before = {topic: _own_settings(cluster, topic, self.settings) for topic in topics}
            self._require_no_weaker(before, wanted)
            number = _add_changes(cluster, before, wanted)
            with undo_on_error(lambda: changes.forget(number)):
                problems = _set(cluster, {topic: dict(wanted) for topic in topics})
        within_s = 0.0 if problems else SEEN_WITHIN_S
        with undo_on_error(lambda: changes.forget(number)):
            during = poll_until(lambda: _current(cluster, before), lambda seen: all(seen[t] == wanted for t in topics), within_s)
        done = [topic for topic in topics if during[topic] == wanted != before[topic]]
        unseen = [topic for topic in topics if during[topic] != wanted]
        problems += [f"{topic} does not show these settings" for topic in unseen if len(topics) > 1 or not problems]
        problems += [f"{topic} has these settings already" for topic in topics if before[topic] == wanted]
        holders = _holders(cluster, topics)
        return Receipt(
            role=self.target,
            targets=holders,
            evidence={"number": number, "before": before, "during": during, **hit_among(holders, _holders(cluster, done))},
            effective=bool(done),
            note="; ".join(problems),
        )

    def heal(self, cluster: ClusterView, receipt: Receipt) -> Receipt:
        """Give every setting its old value back, or the one that another fault wants."""
        before: dict[str, dict[str, str | None]] = dict(receipt.evidence.get("before", {}))
        changes = cluster.shared(SettingChanges)
        with changes.undoing(receipt.evidence.get("number")):
            with changes.lock:
                problems = _set(cluster, _expected(cluster, before))
            within_s = 0.0 if problems else SEEN_WITHIN_S
            after = poll_until(lambda: _current(cluster, before), lambda seen: seen == _expected(cluster, before), within_s)
            wanted = _expected(cluster, before)
        left = [topic for topic in before if after[topic] != wanted[topic]]
        problems += [f"{topic} has {after[topic]} after healing" for topic in left]
        both = [f"{topic}'s {name}" for topic, own in before.items() for name in own if changes.is_changed((topic, name))]
        problems += [f"{setting} stays as another fault set it" for setting in both]
        return healed(receipt, {"after": after}, problems, left)

    def _topics(self, cluster: Cluster, rng: Random) -> list[str]:
        known = list(dict.fromkeys(name.rpartition("-")[0] for name in cluster.topics))
        named = self.target.partition(":")[2]
        if not known or (named and named not in known):
            raise ClusterError(f"there is no topic {named or 'of the workload'}; there are: {', '.join(known) or 'none'}")
        return known if self.target == "all" else [named or rng.choice(known)]

    def _require_no_weaker(self, before: Mapping[str, Mapping[str, str | None]], wanted: Mapping[str, str]) -> None:
        for topic, settings in before.items():
            least = settings.get(LEAST_IN_SYNC)
            if LEAST_IN_SYNC in wanted and (least is None or int(wanted[LEAST_IN_SYNC]) < int(least)):
                raise ClusterError(
                    f"{LEAST_IN_SYNC} = {wanted[LEAST_IN_SYNC]} would promise less than {topic}'s {least or 'inherited one'}; "
                    "it may only be raised: set a lower one in [test.topic]"
                )


def _add_changes(cluster: ClusterView, before: Mapping[str, Mapping[str, str | None]], wanted: Mapping[str, str]) -> int:
    """Note what a fault changes; not what has the value already, which is another's."""
    current = {(topic, name): value for topic, own in before.items() for name, value in own.items() if value != wanted[name]}
    changes: dict[tuple[str, str], Callable[[str | None], str | None]]
    changes = {(topic, name): partial(_constant, wanted[name]) for topic, name in current}
    return cluster.shared(SettingChanges).add(current, changes)


def _constant(value: str, _: str | None) -> str:
    return value


def _expected(cluster: ClusterView, before: Mapping[str, Mapping[str, str | None]]) -> dict[str, dict[str, str | None]]:
    """The settings that healing must restore: those before the fault, with the changes of other faults in force."""
    changes = cluster.shared(SettingChanges)
    return {topic: {name: changes.expected((topic, name), value) for name, value in own.items()} for topic, own in before.items()}


def _holders(cluster: Cluster, topics: Sequence[str]) -> tuple[str, ...]:
    """The brokers that hold a replica of these topics."""
    partitions = [name for name in cluster.topics if name.rpartition("-")[0] in topics]
    return tuple(
        sorted({node for place in placement.known_placements(cluster, partitions).values() for node in place.replicas if node})
    )


def _set(cluster: Cluster, settings: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    """Change each topic's settings whatever becomes of the others; the texts of what failed."""
    return attempt_each(lambda topic: cluster.admin().set_topic_settings(topic, settings[topic]), settings)


def _current(cluster: Cluster, names: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str | None]]:
    """The topics' own values of these settings; empty for a topic of which no broker answers."""
    return {topic: answer_or({}, _own_settings, cluster, topic, wanted) for topic, wanted in names.items()}


def _own_settings(cluster: Cluster, topic: str, names: Iterable[str]) -> dict[str, str | None]:
    """The topic's own value of each of these settings; None where it has none."""
    own = cluster.admin().topic_settings(topic)
    return {name: own.get(name) for name in names}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
