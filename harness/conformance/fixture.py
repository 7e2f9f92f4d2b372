"""The fixture of a story: a cluster and a fault, with deadlines. The kit observes and heals the cluster by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from fencepost.harness.api import Cluster, Fault, HarnessError, Losable, Receipt, SharedState, Slowable, clock
from fencepost.harness.api.declarations import Change, declarations
from fencepost.harness.conformance import snapshot
from fencepost.harness.conformance.call_record import CallRecord, RecordingCluster
from fencepost.harness.conformance.deadline import CallResult, call_within
from fencepost.harness.conformance.doubles import HostedCluster
from fencepost.harness.conformance.effect_checks import Observations
from fencepost.harness.conformance.link_quality import PROBED, Measured, Quality, is_measured, measure, quality, settles_at_once
from fencepost.harness.conformance.receipt_checks import Flaw
from fencepost.harness.conformance.results import StoryResult
from fencepost.harness.conformance.snapshot import Snapshot, take

LOOK_EVERY_S = 0.1
RETURN_RECEIPT = "return a Receipt"
IN_TIME = "bound every wait in it with a deadline, and return what was seen last"


@dataclass(frozen=True)
class Bounds:
    """Bounds of calls (seconds), and of how often some stories repeat.

    inject_s: of `inject`.
    heal_s: of `heal`.
    whole_s: of the time after healing until the cluster is whole, and the workload goes on.
    active_s: how long after `inject` the effect is looked for once more.
    repeats: strikes from the same seed beside those of other stories.
    breaks: how many calls after the first that hurts are refused, one strike for each.
    """

    inject_s: float = 60.0
    heal_s: float = 90.0
    whole_s: float = 90.0
    active_s: float = 2.0
    repeats: int = 1
    breaks: int = 1


IN_MEMORY = Bounds(whole_s=0.3, active_s=0.05)


def bounds_for(cluster: Any) -> Bounds:
    """The bounds that fit a cluster: where everything happens at once (in memory), waiting shows nothing new."""
    return IN_MEMORY if settles_at_once(cluster) else Bounds()


class ClusterUnusable(Exception):
    """The cluster cannot be used for further stories. The text says why; `result` is that of the story that ended so."""

    def __init__(self, text: str, result: StoryResult | None = None) -> None:
        super().__init__(text)
        self.result = result


def no_care() -> None:
    """The `tend` of clusters whose clients need none."""


class Fixture:
    """A cluster, whole at first, and a fault that strikes it from one seed; `tend` and `alive` are those of `Kit`."""

    def __init__(
        self,
        cluster: Cluster,
        fault: Fault,
        seed: int,
        bounds: Bounds,
        tend: Callable[[], None] = no_care,
        alive: Callable[[], int] | None = None,
    ) -> None:
        self.cluster, self.fault, self.bounds = cluster, fault, bounds
        self._seed, self._tend, self._alive = seed, tend, alive
        self._declared = declarations(fault.needs)
        self._normal = self.take()
        self._shared = SharedState()
        self._normal_quality = quality(cluster) if {Slowable, Losable} & {*fault.needs} else Quality()
        self._record = CallRecord(self._declared)
        self._records: list[CallRecord] = []  # of strikes whose changes may still be on

    def take(self, *wanted: str) -> Snapshot:
        """Look at everything that the cluster can show, or only at what is wanted."""
        return take(self.cluster, *wanted, needs=self.fault.needs)

    def strike(self, cluster: Any) -> CallResult:
        """Inject, from the seed; `cluster` is the real one or a double."""
        self._record = CallRecord(self._declared)
        self._records.append(self._record)
        view = HostedCluster(RecordingCluster(cluster, self.fault.needs, self._record), self._shared)
        return self._called(lambda: self.fault.inject(view, Random(self._seed)), self.bounds.inject_s)

    def observed(self, before: Snapshot) -> Observations:
        """The kit's observations of the last strike, taken now."""
        during = self.take()
        changes = [change for change in self._record.in_force if is_measured(change.call, self._declared)]
        return Observations(self._record, before, during, tuple((change, self._measured(change)) for change in changes))

    def _measured(self, change: Change) -> Measured:
        try:
            return measure(self.cluster, change, self._normal_quality, self._declared)
        except (HarnessError, OSError) as error:
            return Measured(None, f"nobody could look: {error}")

    def still_measured(self, seen: Observations) -> list[Flaw]:
        """Flaws for changes that were measured while the fault was active, and still show."""
        shown = [change for change, measured in seen.measured if measured.shows and change.call in PROBED]
        after = [(change, self._measured(change)) for change in shown]
        remedy = "undo all of it in heal, and do not return before it is undone"
        return [(f"after healing {change} still shows: {now.text}", remedy) for change, now in after if now.shows]

    def heal(self, receipt: Receipt) -> CallResult:
        """Let the fault heal what the receipt names."""
        view = HostedCluster(self.cluster, self._shared)
        return self._called(lambda: self.fault.heal(view, receipt), self.bounds.heal_s)

    def _called(self, call: Callable[[], Any], within_s: float) -> CallResult:
        """Call the fault; where everything happens at once, its waiting takes no time."""

        def call_by_clock() -> Any:
            with clock.waiting_by(clock.AtOnce() if settles_at_once(self.cluster) else clock.MachineClock()):
                return call()

        return call_within(call_by_clock, within_s, None if settles_at_once(self.cluster) else self._tend)

    def heal_flaws(self, answer: CallResult) -> list[Flaw]:
        """Flaws in the result of `heal` itself, whatever became of the cluster."""
        if problem := answer.problem():
            change = IN_TIME if answer.hung else "heal must not raise: try what can be tried, and say in note what could not"
            return [(f"heal {problem}", change)]
        if not isinstance(answer.value, Receipt):
            return [(f"heal returned {type(answer.value).__name__}", RETURN_RECEIPT)]
        return []

    def remaining_damage(self) -> list[Flaw]:
        """Flaws for what is still hurt after `whole_s` seconds, and for what was begun and not ended."""
        going_on = self._end_changes()
        left = self.hurt()
        deadline = time.monotonic() + self.bounds.whole_s
        while left and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
            left = self.hurt()
        change = "undo all of it in heal, and do not return before it is undone"
        return [(f"after healing {text}", change) for text in [*going_on, *left]]

    def hurt(self) -> list[str]:
        """The damage right now, in words."""
        self._tend()
        seen = self.take(*self._normal.decisive)
        if damage := [*snapshot.hurt(seen, self._normal), *self._lagging()]:
            return damage
        self._normal = snapshot.extended(self._normal, seen)
        return []

    def _end_changes(self) -> list[str]:
        """End all changes that strikes began; returns those that had not ended yet, in words, as the cluster reports them."""
        cluster: Any = self.cluster
        going_on = []
        for call, number in (begun for record in self._records for begun in record.begun):
            try:
                if getattr(cluster, self._declared.ends[call])(number):
                    going_on.append(f"what it began by {call} goes on")
            except HarnessError as error:
                going_on.append(f"nobody says whether what it began by {call} has ended: {error}")
        self._records.clear()
        return going_on

    def _lagging(self) -> list[str]:
        topics = {partition.rpartition("-")[0] for partition in self.cluster.topics}
        try:
            return [f"{partition} is out of sync: {why}" for partition, why in self.cluster.admin().lagging(topics).items()]
        except HarnessError as error:
            return [f"nobody says whether replicas are in sync: {error}"]

    def workload_stopped(self) -> list[Flaw]:
        """A flaw when the workload does not succeed again."""
        if self._alive is None:
            return []
        done, alive = self._alive(), self._alive
        if self.wait(lambda: alive() > done, self.bounds.whole_s):
            return []
        return [(f"the workload did nothing more within {self.bounds.whole_s:g} s", "see what its clients still suffer from")]

    def wait(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait for the condition; True if it held before the time was over. Where nothing changes by itself, there is no wait."""
        deadline = time.monotonic() + (0.0 if settles_at_once(self.cluster) else within_s)
        while not (holds := condition()) and time.monotonic() < deadline:
            self._tend()
            time.sleep(LOOK_EVERY_S)
        return holds

    def restore(self, after: str, answer: CallResult | None = None) -> None:
        """Heal the cluster without the fault, if it is not whole."""
        if answer is not None:
            require_returned(answer, after)
        self._end_changes()
        if not self.hurt():
            return
        try:
            self.cluster.heal()
            self._restore_topics()
            self._restore_placements_and_settings()
            self._restore_features()
            self.require_whole(f"after the story `{after}`")
        except HarnessError as error:
            raise ClusterUnusable(f"the cluster could not be healed after the story `{after}`: {error}") from error

    def _restore_topics(self) -> None:
        """Create topics again that are gone."""
        admin, settings, orders = self.cluster.admin(), self._normal.of(snapshot.SETTINGS), self._normal.of(snapshot.ORDER)
        for topic in self.take(snapshot.TOPIC).of(snapshot.TOPIC):
            if not any(admin.topic_ids(topic).values()):
                mine = [f"{topic}-{number}" for number in range(sum(name.rpartition("-")[0] == topic for name in orders))]
                admin.create_placed_topic(topic, [orders[name] for name in mine], settings.get(topic, {}))

    def _restore_placements_and_settings(self) -> None:
        """Restore replicas and topic settings, which `cluster.heal` leaves alone."""
        admin, now = self.cluster.admin(), self.take(snapshot.ORDER, snapshot.SETTINGS)
        orders, settings = self._normal.of(snapshot.ORDER), self._normal.of(snapshot.SETTINGS)
        for topic, own in now.of(snapshot.SETTINGS).items():
            wanted = {**dict.fromkeys(own), **settings.get(topic, own)}
            if change := {name: value for name, value in wanted.items() if value != own.get(name)}:
                admin.set_topic_settings(topic, change)
        if moved := {name: orders[name] for name, order in now.of(snapshot.ORDER).items() if orders.get(name, order) != order}:
            admin.reassign(moved)

    def _restore_features(self) -> None:
        admin, now = self.cluster.admin(), self.take(snapshot.FEATURES).of(snapshot.FEATURES)
        for name, level in self._normal.of(snapshot.FEATURES).items():
            if now.get(name, level) != level:
                admin.set_feature(name, int(level))

    def require_whole(self, when: str) -> None:
        """Raise HarnessError when the cluster does not become whole in time."""
        if left := self.remaining_damage():
            raise HarnessError(f"the cluster is not whole {when}: {'; '.join(text for text, _ in left)}")

    def state(self, node: str) -> str:
        return str(self.take(snapshot.STATE).of(snapshot.STATE).get(node))

    def connected(self, pair: tuple[str, str]) -> bool:
        return bool(self.take(snapshot.NETWORK).of(snapshot.NETWORK).get(">".join(pair)))


def require_returned(answer: CallResult, story: str) -> None:
    """Raise ClusterUnusable when a call still hangs: nobody knows what it will do to the cluster."""
    if answer.hung:
        result = StoryResult(story, False, f"the fault {answer.problem()}", IN_TIME)
        raise ClusterUnusable("the fault still hangs, and nobody knows what it will do to the cluster", result)
