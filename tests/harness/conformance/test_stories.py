"""The kit passes sound faults, and names what is wrong with every fault that was broken on purpose."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import ClassVar

import pytest

from fencepost.harness.api import Partitionable, Pausable, Receipt
from fencepost.harness.conformance import deadline
from fencepost.harness.conformance.fixture import Bounds
from fencepost.harness.conformance.stories import ON_CLUSTER, Kit
from fencepost.harness.plugins import registry
from fencepost.nemesis.isolate import Isolate
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.pause import Pause
from fencepost.nemesis.testing import FakeCluster

QUICK = Bounds(inject_s=60.0, heal_s=60.0, whole_s=0.0, active_s=0.0, repeats=3, breaks=20)
# Options that make faults quick; all others are put through the kit as they are by default.
QUICK_OPTIONS: dict[str, dict[str, object]] = {
    "isolate-then-kill": {"alone_s": 0.0},
    "link-flap": {"down_s": 0.0, "up_s": 0.0},
    "graceful-stop": {"gone_within_s": 0.1, "answer_within_s": 0.1},
    "rolling-restart": {"gone_within_s": 0.1, "within_s": 0.1},
    "reassign": {"moved_within_s": 0.1, "back_within_s": 0.1},
    **{key: {"notice_s": 0.1} for key in ("disk-full", "slow-disk")},
    "delete-topic": {"gone_within_s": 0.1, "back_within_s": 0.1},
    "scale": {"within_s": 0.1},
    "connect-support": {"within_s": 0.1},
    "connect-version": {"within_s": 0.1},
    "membership": {"gone_within_s": 0.1, "back_within_s": 0.1},
}
APART = {"membership": 1}  # faults that need controllers of their own, and how many


def played(fault, cluster=None, bounds=QUICK, **options):
    """Story -> its result, on a cluster whose dead clients are replaced."""
    cluster = cluster or FakeCluster(clients=3, groups=("g",))

    def tend():
        for client in cluster.clients:
            if cluster.pid(client) is None:
                cluster.replace(client)

    return {result.story: result for result in Kit(cluster, fault, 7, bounds, tend, **options).play()}


def failed(stories):
    return [story for story, result in stories.items() if result.ok is False]


OURS = [kind for kind in registry.names("nemesis") if registry.load("nemesis", kind).__module__.startswith("fencepost.nemesis.")]
OURS.remove("abort-transaction")  # it strikes where a transaction hangs, once; tests/nemesis/test_abort_transaction.py


@pytest.mark.parametrize("kind", OURS)
def test_every_fault_that_comes_with_fencepost_passes(kind, monkeypatch):
    monkeypatch.setattr("fencepost.nemesis.isolate_then_kill.GONE_WITHIN_S", 0.1)
    monkeypatch.setattr("fencepost.nemesis.kill.GONE_WITHIN_S", 0.1)
    monkeypatch.setattr("fencepost.nemesis.support.placement.LED_WITHIN_S", 0.1)
    fault = registry.build(registry.load("nemesis", kind), QUICK_OPTIONS.get(kind, {}), kind)
    stories = played(fault, FakeCluster(clients=3, groups=("g",), controllers=APART.get(kind, 0)))
    assert tuple(stories) == ON_CLUSTER
    assert failed(stories) == [], stories


def test_a_sound_fault_passes_every_story():
    stories = played(Pause())
    assert [result.ok for result in stories.values()] == [True] * len(ON_CLUSTER)
    assert stories["effect"].seen == "state of n2: awake -> T"
    assert stories["dead node"].seen == "n2: effective false: n2 was dead already"


@dataclass(frozen=True, kw_only=True)
class Forgets(Pause):
    """Its heal does nothing."""

    def heal(self, cluster, receipt):
        return replace(receipt, healing={"after": {}})


@dataclass(frozen=True, kw_only=True)
class ThawsAll(Pause):
    """Its heal heals what others hurt."""

    def heal(self, cluster, receipt):
        for node in cluster.brokers:
            if cluster.process_state(node) == "T":
                cluster.resume(node)
        return super().heal(cluster, receipt)


@dataclass(frozen=True, kw_only=True)
class MendsAll(Isolate):
    """Its heal opens every pair."""

    def heal(self, cluster, receipt):
        cluster.undrop(cluster.closed())
        return super().heal(cluster, receipt)


@dataclass(frozen=True, kw_only=True)
class Boasts(Pause):
    """Its effect is claimed, and nothing happened."""

    def inject(self, cluster, rng):
        return Receipt(role="random", targets=("n1",), evidence={"before": "S", "during": "S"}, effective=True)


@dataclass(frozen=True, kw_only=True)
class Denies(Pause):
    """It hurts, and says that it did not."""

    def inject(self, cluster, rng):
        return replace(super().inject(cluster, rng), effective=False, note="nothing happened")


@dataclass(frozen=True, kw_only=True)
class NamesAnother(Pause):
    """Its receipt names a node that was not hurt."""

    def inject(self, cluster, rng):
        receipt = super().inject(cluster, rng)
        return replace(receipt, targets=tuple(node for node in cluster.brokers if node not in receipt.targets)[:1])


@dataclass(frozen=True, kw_only=True)
class NamesNobody(Pause):
    """Its receipt has no targets."""

    def inject(self, cluster, rng):
        return replace(super().inject(cluster, rng), targets=())


@dataclass(frozen=True, kw_only=True)
class HidesCuts(Isolate):
    """Its receipt has neither the pairs nor the node that it cut."""

    def inject(self, cluster, rng):
        receipt = super().inject(cluster, rng)
        return replace(receipt, pairs=receipt.pairs[:1], targets=("c0",))


@dataclass(frozen=True, kw_only=True)
class NotJson(Pause):
    """Its evidence holds what JSON cannot."""

    def inject(self, cluster, rng):
        receipt = super().inject(cluster, rng)
        return replace(receipt, evidence={**receipt.evidence, "nodes": set(receipt.targets)})


@dataclass(frozen=True, kw_only=True)
class OddKeys(Pause):
    """Its evidence has keys that JSON would turn into others."""

    def inject(self, cluster, rng):
        receipt = super().inject(cluster, rng)
        return replace(receipt, evidence={**receipt.evidence, "pids": [{0: "n1"}]})


@dataclass(frozen=True, kw_only=True)
class Undecided(Pause):
    """Its receipt does not say whether it took hold."""

    def inject(self, cluster, rng):
        return replace(super().inject(cluster, rng), effective=None)


@dataclass(frozen=True, kw_only=True)
class NoEvidence(Pause):
    """Its receipt shows nothing of the time before."""

    def inject(self, cluster, rng):
        return replace(super().inject(cluster, rng), evidence={"during": "T"})


@dataclass(frozen=True, kw_only=True)
class OtherRole(Pause):
    """Its receipt has another role than was asked for."""

    def inject(self, cluster, rng):
        return replace(super().inject(cluster, rng), role="controller")


@dataclass(frozen=True, kw_only=True)
class HealsInSilence(Pause):
    """Its heal shows nothing."""

    def heal(self, cluster, receipt):
        super().heal(cluster, receipt)
        return replace(receipt, healing={})


@dataclass(frozen=True, kw_only=True)
class HealsOnce(Pause):
    """Its heal raises the second time."""

    def heal(self, cluster, receipt):
        if receipt.healing:
            raise RuntimeError("healed already")
        return super().heal(cluster, receipt)


@dataclass(frozen=True, kw_only=True)
class RestartsAgain(Kill):
    """Its heal restarts what lives."""

    def heal(self, cluster, receipt):
        for node in receipt.targets:
            if cluster.pid(node) is not None:
                cluster.kill(node)
            cluster.start(node)
        return replace(receipt, healing={"after": "restarted"})


@dataclass(frozen=True, kw_only=True)
class OwnDice(Pause):
    """It draws from its own generator, so that no seed repeats it."""

    def inject(self, cluster, rng):
        DICE.append(None)
        return Pause(target=f"broker:n{len(DICE) % 3 + 1}").inject(cluster, rng)


DICE: list[None] = []


@dataclass(frozen=True, kw_only=True)
class Careless(Pause):
    """It trips over a dead node with an error of Python's own."""

    def inject(self, cluster, rng):
        if any(cluster.pid(node) is None for node in cluster.brokers):
            raise KeyError("n2")
        return super().inject(cluster, rng)


@dataclass(frozen=True, kw_only=True)
class LeavesHalf(Pause):
    """It breaks off between two nodes, and leaves the first one hurt."""

    def inject(self, cluster, rng):
        cluster.pause("n1")
        before = cluster.process_state("n2")
        cluster.pause("n2")
        after = cluster.process_state("n2")
        return Receipt(role="random", targets=("n1", "n2"), evidence={"before": before, "during": after}, effective=True)

    def heal(self, cluster, receipt):
        for node in receipt.targets:
            if cluster.pid(node) is not None:
                cluster.resume(node)
        return replace(receipt, healing={"after": "thawed"})


@dataclass(frozen=True, kw_only=True)
class MendsLater(Isolate):
    """It breaks off before it has looked, and leaves the cut."""

    def inject(self, cluster, rng):
        (node,) = cluster.brokers[:1]
        pairs = ((node, "n2"), ("n2", node))
        before = cluster.probe(pairs)
        cluster.drop(pairs)
        during = cluster.probe(pairs)
        evidence = {"before": list(before.values()), "during": list(during.values())}
        return Receipt(role="random", targets=(node,), pairs=pairs, evidence=evidence, effective=True)


@dataclass(frozen=True, kw_only=True)
class NoReceipt(Pause):
    """It returns what it pleases."""

    def inject(self, cluster, rng):
        return True


@dataclass(frozen=True, kw_only=True)
class KillsAnotherProcess(Kill):
    """Its evidence has the id of a process that nobody has."""

    def inject(self, cluster, rng):
        receipt = super().inject(cluster, rng)
        return replace(receipt, evidence={"before": {"n2": 31337}, "during": {"n2": None}})


@dataclass(frozen=True, kw_only=True)
class RunsAsBefore(Kill):
    """It starts the broker, and says that the process is the old one."""

    def heal(self, cluster, receipt):
        return replace(super().heal(cluster, receipt), healing={"after": receipt.evidence["before"]})


@dataclass(frozen=True, kw_only=True)
class HealsOthers(Pause):
    """Its heal says that somebody else was hurt."""

    def heal(self, cluster, receipt):
        return replace(super().heal(cluster, receipt), targets=("n3",))


@dataclass(frozen=True, kw_only=True)
class StruckBefore(Pause):
    """It says that it struck before it was asked to."""

    def inject(self, cluster, rng):
        return replace(super().inject(cluster, rng), injected_ns=5)


@dataclass(frozen=True, kw_only=True)
class HealedLater(Pause):
    """It says that it healed at a time that has not come."""

    def heal(self, cluster, receipt):
        return replace(super().heal(cluster, receipt), healed_ns=1 << 62)


@pytest.mark.parametrize(
    ("fault", "story", "seen", "change"),
    [
        (KillsAnotherProcess(), "effect", "process before of n2: 31337; the kit saw: 4002", "what was seen, not what was meant"),
        (RunsAsBefore(), "heal", "healing says process of n2: 4002; the kit saw: 4007", "put into healing what was seen"),
        (HealsOthers(), "heal", "heal changed targets of the receipt", "what was hurt stays as it was"),
        (
            StruckBefore(),
            "receipt",
            "injected_ns is 5, and what it tells of happened between",
            "leave injected_ns to the harness",
        ),
        (HealedLater(), "heal", "healed_ns is 4611686018427387904", "leave healed_ns to the harness"),
        (Forgets(), "heal", "after healing n2 is frozen", "undo all of it in heal"),
        (ThawsAll(), "heals its own", "n3, which another fault had frozen, woke up", "only nodes in the receipt's targets"),
        (MendsAll(), "heals its own", "which another fault had cut, is open", "undrop only the receipt's pairs"),
        (Boasts(), "effect", "effective is True, but nobody saw anything change", "set effective by that"),
        (Denies(), "effect", "it says that nothing was hurt, but: state of n2: awake -> T", "set effective to True"),
        (NamesAnother(), "effect", "n2 was hurt, and is not among its targets", "name every node that was hurt"),
        (NamesNobody(), "receipt", "it names no targets", "put the nodes that were hurt into targets"),
        (HidesCuts(), "effect", "was cut, and is not among its pairs", "name every pair that was cut in pairs"),
        (NotJson(), "receipt", "evidence is not plain JSON: Object of type set", "use texts, numbers"),
        (OddKeys(), "receipt", "evidence has the key 0, which is no text", "write keys of evidence as texts"),
        (Undecided(), "receipt", "effective is None", "set effective to True or False"),
        (NoEvidence(), "receipt", "evidence has during", 'evidence must have "before" and "during"'),
        (OtherRole(), "receipt", 'role is "controller", and the option target was "random"', "set role to the target"),
        (HealsInSilence(), "heal", "healing is empty", "return replace(receipt, healing="),
        (HealsOnce(), "heal twice", "heal raised RuntimeError: healed already", "heal must not raise"),
        (RestartsAgain(), "heal twice", "healing again changed: process of n2", "undo only what is still hurt"),
        (OwnDice(), "same seed", "and then", "draw every choice from `rng`"),
        (Careless(), "dead node", "inject raised KeyError", "raise fencepost.harness.api.ClusterError"),
        (LeavesHalf(), "broke off", "process_state was refused; after healing n1 is frozen", "undo in inject before you raise"),
        (MendsLater(), "broke off", "probe was refused; after healing n1>n2 does not get through", "undo in inject"),
        (NoReceipt(), "inject", "inject returned bool", "return a Receipt"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "inject") else "",
)
def test_a_fault_with_a_mistake_fails_its_story_and_the_result_says_what_to_change(fault, story, seen, change):
    stories = played(fault)
    assert tuple(stories) == ON_CLUSTER
    assert stories[story].ok is False, stories[story]
    assert seen in stories[story].seen
    assert change in stories[story].change


def test_a_heal_without_evidence_fails_no_later_story():
    """The kit heals the cluster itself, so that only what is really wrong fails."""
    assert failed(played(HealsInSilence())) == ["heal"]


@dataclass(frozen=True, kw_only=True)
class Hangs(Pause):
    """It waits for ever, in a story of one's choice."""

    where: str = "inject"
    ever: ClassVar[threading.Event] = threading.Event()
    waits: ClassVar[threading.Event] = threading.Event()

    def inject(self, cluster, rng):
        if self.where == "inject" or any(cluster.pid(node) is None for node in cluster.brokers):
            self.hang()
        return super().inject(cluster, rng)

    def heal(self, cluster, receipt):
        if self.where == "heal":
            self.hang()
        return super().heal(cluster, receipt)

    def hang(self):
        self.waits.set()
        self.ever.wait()


class Caller(threading.Thread):
    """A thread of a call; who waits for its end has waited for long enough as soon as the fault hangs."""

    def join(self, timeout=None):
        while self.is_alive() and not Hangs.waits.is_set():
            super().join(0.01)


@pytest.mark.parametrize(("where", "story"), [("inject", "inject"), ("heal", "heal"), ("dead node", "dead node")])
def test_a_fault_that_hangs_is_abandoned_at_the_deadline_and_no_later_story_is_played(where, story, monkeypatch):
    monkeypatch.setattr(deadline, "threading", SimpleNamespace(Thread=Caller))
    stories = played(Hangs(where=where), bounds=replace(QUICK, inject_s=0.1, heal_s=0.1))
    assert tuple(stories) == ON_CLUSTER
    assert failed(stories) == [story]
    assert "did not come back within 0.1 s" in stories[story].seen
    assert "bound every wait" in stories[story].change
    last = stories["broke off"]
    assert last.ok is None
    assert last.seen.startswith("not played: the fault still hangs")
    Hangs.ever.set()
    Hangs.ever.clear()
    Hangs.waits.clear()


def test_a_fault_whose_capability_is_missing_is_unavailable_with_the_reason():
    cluster = FakeCluster()
    cluster.missing = {Partitionable: "no network namespaces here"}
    stories = played(Isolate(), cluster)
    assert {result.ok for result in stories.values()} == {None}
    assert stories["effect"].seen == "unavailable here, because no network namespaces here"


def test_a_story_whose_capability_is_missing_is_unavailable_with_the_reason():
    """The fault itself can be played; that a node is frozen already cannot."""
    cluster = FakeCluster()
    cluster.missing = {Pausable: "signals are not allowed"}
    stories = played(Kill(), cluster)
    assert failed(stories) == []
    assert stories["frozen node"].ok is None
    assert stories["frozen node"].seen == "unavailable here, because signals are not allowed"


def test_the_effect_story_is_undecided_when_the_receipt_says_that_nothing_was_hurt():
    cluster = FakeCluster(clients=0)
    stories = played(registry.load("nemesis", "cut-clients")(), cluster)
    assert failed(stories) == []
    assert stories["effect"].ok is None
    assert "no client runs" in stories["effect"].seen


def test_the_heal_story_fails_when_the_workload_does_not_go_on():
    assert played(Pause(), alive=lambda: 5)["heal"].seen == "the workload did nothing more within 0 s"
    counting = iter(range(1000))
    assert played(Pause(), alive=lambda: next(counting))["heal"].ok is True


def test_a_held_fault_really_hurts():
    cluster = FakeCluster()
    kit = Kit(cluster, Pause(), 7, QUICK)
    assert kit.hold().targets == ("n2",)
    assert cluster.process_state("n2") == "T"
    assert Random(7).sample(["n1", "n2", "n3"], 1) == ["n2"]
