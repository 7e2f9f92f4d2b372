"""The ground that stories are played on: a cluster and a fault, with deadlines, and with the kit's own eyes and hands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from harness.api import Cluster, Fault, HarnessError, Receipt
from harness.conformance import picture
from harness.conformance.bounded import Answer, ask
from harness.conformance.picture import take
from harness.conformance.receipts import Wrong
from harness.conformance.told import Told

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

    def __init__(self, text: str, told: Told | None = None) -> None:
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

    def strike(self, cluster: Any) -> Answer:
        """Inject, from the seed; `cluster` is the real one or a double of it."""
        return ask(lambda: self.fault.inject(cluster, Random(self._seed)), self.bounds.inject_s)

    def heal(self, receipt: Receipt) -> Answer:
        """Let the fault heal what the receipt says."""
        return ask(lambda: self.fault.heal(self.cluster, receipt), self.bounds.heal_s)

    def wrong_heal(self, answer: Answer) -> list[Wrong]:
        """What is wrong with what `heal` answered, whatever became of the cluster."""
        if problem := answer.problem():
            change = IN_TIME if answer.hung else "heal must not raise: try what can be tried, and say in note what could not"
            return [(f"heal {problem}", change)]
        if not isinstance(answer.value, Receipt):
            return [(f"heal returned {type(answer.value).__name__}", RETURN_RECEIPT)]
        return []

    def left(self, within_s: float) -> list[Wrong]:
        """What is still hurt when the time for getting well is over."""
        left = self.hurt()
        deadline = time.monotonic() + within_s
        while left and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
            left = self.hurt()
        return [(f"after healing {text}", "undo all of it in heal, and do not return before it is undone") for text in left]

    def hurt(self) -> list[str]:
        """What is hurt right now, in words."""
        self._tend()
        return [*picture.hurt(take(self.cluster), self._normal), *self._lagging()]

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
        if not self.hurt():
            return
        try:
            self.cluster.heal()
            self.until_whole(f"after the story `{after}`")
        except HarnessError as error:
            raise Stuck(f"the cluster could not be healed after the story `{after}`: {error}") from error

    def until_whole(self, when: str) -> None:
        """Raises HarnessError when it does not become so in time."""
        if left := self.left(self.bounds.whole_s):
            raise HarnessError(f"the cluster is not whole {when}: {'; '.join(text for text, _ in left)}")

    def state(self, node: str) -> str:
        return str(take(self.cluster, picture.STATE).of(picture.STATE).get(node))

    def talks(self, pair: tuple[str, str]) -> bool:
        return bool(take(self.cluster, picture.NETWORK).of(picture.NETWORK).get(">".join(pair)))


def usable(answer: Answer, story: str) -> None:
    """Raises Stuck when a call still hangs: nobody knows what it will do to the cluster."""
    if answer.hung:
        told = Told(story, False, f"the fault {answer.problem()}", IN_TIME)
        raise Stuck("the fault still hangs, and nobody knows what it will do to the cluster", told)
