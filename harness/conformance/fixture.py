"""The ground that stories are played on: a cluster and a fault, with deadlines, and with the kit's own eyes and hands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.api import Cluster, Fault, HarnessError, Receipt, SharedState
from harness.conformance import snapshot
from harness.conformance.deadline import Answer, ask
from harness.conformance.doubles import ENDS, ChangeRecorder, HostedCluster
from harness.conformance.receipt_checks import Wrong
from harness.conformance.results import StoryResult
from harness.conformance.snapshot import take

LOOK_EVERY_S = 0.1
RETURN_RECEIPT = "return a Receipt"
IN_TIME = "bound every wait in it with a deadline, and return what was seen last"


@dataclass(frozen=True)
class Bounds:
    """How long things may take (seconds), and how often some are played.

    repeats: strikes from the same seed beside the stories' own; breaks: at how many calls after the first that hurts an
    injection is broken off, one strike each.
    """

    inject_s: float = 60.0
    heal_s: float = 90.0
    whole_s: float = 90.0
    repeats: int = 1
    breaks: int = 1


class Stuck(Exception):
    """The cluster cannot be used for further stories; the text says why, and `told` which story ended like that."""

    def __init__(self, text: str, told: StoryResult | None = None) -> None:
        super().__init__(text)
        self.told = told


def nothing() -> None:
    """For clusters whose clients need no care."""


class Ground:
    """A cluster, whole to begin with, and a fault that strikes it from one seed. tend, alive: as in `Kit`."""

    def __init__(
        self,
        cluster: Cluster,
        fault: Fault,
        seed: int,
        bounds: Bounds,
        tend: Callable[[], None] = nothing,
        alive: Callable[[], int] | None = None,
    ) -> None:
        self.cluster, self.fault, self.bounds = cluster, fault, bounds
        self._seed, self._tend, self._alive = seed, tend, alive
        self._normal = take(cluster)
        self._shared = SharedState()
        self._begun: list[tuple[str, int]] = []  # what strikes began under a number: the call, and the number

    def strike(self, cluster: Any) -> Answer:
        """Inject, from the seed; `cluster` is the real one or a double of it."""
        view = HostedCluster(ChangeRecorder(cluster, self._begun), self._shared)
        return ask(lambda: self.fault.inject(view, Random(self._seed)), self.bounds.inject_s)

    def heal(self, receipt: Receipt) -> Answer:
        """Let the fault heal what the receipt says."""
        return ask(lambda: self.fault.heal(HostedCluster(self.cluster, self._shared), receipt), self.bounds.heal_s)

    def wrong_heal(self, answer: Answer) -> list[Wrong]:
        """What is wrong with what `heal` answered, whatever became of the cluster."""
        if problem := answer.problem():
            change = IN_TIME if answer.hung else "heal must not raise: try what can be tried, and say in note what could not"
            return [(f"heal {problem}", change)]
        if not isinstance(answer.value, Receipt):
            return [(f"heal returned {type(answer.value).__name__}", RETURN_RECEIPT)]
        return []

    def left(self, within_s: float) -> list[Wrong]:
        """What is still hurt when the time for getting well is over, and what was begun and not ended."""
        going_on = self._ended()
        left = self.hurt()
        deadline = time.monotonic() + within_s
        while left and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
            left = self.hurt()
        change = "undo all of it in heal, and do not return before it is undone"
        return [(f"after healing {text}", change) for text in [*going_on, *left]]

    def hurt(self) -> list[str]:
        """What is hurt right now, in words."""
        self._tend()
        seen = take(self.cluster)
        if found := [*snapshot.hurt(seen, self._normal), *self._lagging()]:
            return found
        self._normal = snapshot.grown(self._normal, seen)
        return []

    def _ended(self) -> list[str]:
        """End all that strikes began under a number; in words what had not ended yet, by the cluster's own word."""
        cluster: Any = self.cluster
        found = []
        for call, number in self._begun:
            try:
                if getattr(cluster, ENDS[call])(number):
                    found.append(f"what it began by {call} goes on")
            except HarnessError as error:
                found.append(f"nobody says whether what it began by {call} has ended: {error}")
        self._begun.clear()
        return found

    def _lagging(self) -> list[str]:
        topics = {partition.rpartition("-")[0] for partition in self.cluster.topics}
        try:
            return [f"{one} is out of sync: {why}" for one, why in self.cluster.admin().lagging(topics).items()]
        except HarnessError as error:
            return [f"nobody says whether replicas are in sync: {error}"]

    def idle(self) -> list[Wrong]:
        """Whether the workload succeeds again."""
        if self._alive is None:
            return []
        done, alive = self._alive(), self._alive
        if self.wait(lambda: alive() > done, self.bounds.whole_s):
            return []
        return [(f"the workload did nothing more within {self.bounds.whole_s:g} s", "see what its clients still suffer from")]

    def wait(self, enough: Callable[[], bool], within_s: float) -> bool:
        """Whether it was enough before the time was over."""
        deadline = time.monotonic() + within_s
        while not (seen := enough()) and time.monotonic() < deadline:
            self._tend()
            time.sleep(LOOK_EVERY_S)
        return seen

    def restore(self, after: str, answer: Answer | None = None) -> None:
        """Make the cluster whole ourselves, if it is not."""
        if answer is not None:
            usable(answer, after)
        self._ended()
        if not self.hurt():
            return
        try:
            self.cluster.heal()
            self._arrange()
            self.until_whole(f"after the story `{after}`")
        except HarnessError as error:
            raise Stuck(f"the cluster could not be healed after the story `{after}`: {error}") from error

    def _arrange(self) -> None:
        """Give partitions and topics what they had: that is beyond what a cluster heals by itself."""
        admin, now = self.cluster.admin(), take(self.cluster, snapshot.ORDER, snapshot.SETTINGS)
        orders, settings = self._normal.of(snapshot.ORDER), self._normal.of(snapshot.SETTINGS)
        for topic, own in now.of(snapshot.SETTINGS).items():
            wanted = {**dict.fromkeys(own), **settings.get(topic, own)}
            if change := {name: value for name, value in wanted.items() if value != own.get(name)}:
                admin.set_topic_settings(topic, change)
        if moved := {name: orders[name] for name, order in now.of(snapshot.ORDER).items() if orders.get(name, order) != order}:
            admin.reassign(moved)

    def until_whole(self, when: str) -> None:
        """Raises HarnessError when it does not become so in time."""
        if left := self.left(self.bounds.whole_s):
            raise HarnessError(f"the cluster is not whole {when}: {'; '.join(text for text, _ in left)}")

    def state(self, node: str) -> str:
        return str(take(self.cluster, snapshot.STATE).of(snapshot.STATE).get(node))

    def talks(self, pair: tuple[str, str]) -> bool:
        return bool(take(self.cluster, snapshot.NETWORK).of(snapshot.NETWORK).get(">".join(pair)))


def usable(answer: Answer, story: str) -> None:
    """Raises Stuck when a call still hangs: nobody knows what it will do to the cluster."""
    if answer.hung:
        told = StoryResult(story, False, f"the fault {answer.problem()}", IN_TIME)
        raise Stuck("the fault still hangs, and nobody knows what it will do to the cluster", told)
