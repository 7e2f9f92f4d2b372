"""A capability that nobody but its plug-in knows: what its calls declare is all that the kit, the budget and the fake need.

This file is what a new verb costs, apart from a provider: the capability with its declarations, a fault, and its test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar, Protocol, runtime_checkable

import pytest

from fencepost.harness.api import Cluster, HarnessError, OverBudget, Receipt
from fencepost.harness.api.effects import changes, changes_until, ends_change, hurts_node, looks, restores_node
from fencepost.harness.api.observation import Argument, Subjects, counted_by, shown_by, shows, undone_by
from fencepost.harness.api.plans import Budget
from fencepost.harness.conformance import snapshot
from fencepost.harness.conformance.fixture import Bounds
from fencepost.harness.conformance.stories import ON_CLUSTER, Kit
from fencepost.harness.perform.budget import Ledger
from fencepost.harness.plugins.fault_validation import breaches
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.attempts import undo_on_error
from fencepost.nemesis.support.no_effect import catch_no_effect
from fencepost.nemesis.testing import FakeCluster

QUICK = Bounds(inject_s=30.0, heal_s=30.0, whole_s=0.0, active_s=0.0, breaks=20)


@runtime_checkable
class Cleanable(Protocol):
    """Brokers whose log cleaner can be stopped, and the bandwidth of whose replication can be limited."""

    @undone_by("start_cleaner")
    @shown_by("log cleaner", becomes="stopped")
    @hurts_node
    def stop_cleaner(self, node: str) -> None: ...

    @restores_node
    def start_cleaner(self, node: str) -> None: ...

    @shows("log cleaner", Subjects.BROKERS, whole="running", hurts_node=True)
    @looks
    def cleaner(self, node: str) -> str: ...

    @shown_by("replication rate", becomes=Argument("kbit_s"))
    @changes_until("unlimit_replication")
    def limit_replication(self, nodes: Iterable[str], kbit_s: int = 8) -> int: ...

    @ends_change
    def unlimit_replication(self, number: int) -> None: ...

    @shows("replication rate", Subjects.BROKERS, whole=0)
    @looks
    def replication_rates(self, nodes: Iterable[str]) -> dict[str, int]: ...


@runtime_checkable
class Proxied(Protocol):
    """Brokers behind a proxy that can delay requests, and counts those that it has delayed."""

    @counted_by("delayed_requests", becomes=3)
    @changes_until("undelay_requests")
    def delay_requests(self, nodes: Iterable[str], delay_ms: float) -> int: ...

    @ends_change
    def undelay_requests(self, number: int) -> int | None: ...

    @looks
    def delayed_requests(self, number: int) -> int | None: ...


class CleanableCluster(Cluster, Cleanable, Protocol):
    """A cluster whose log cleaners can be stopped."""


class ProxiedCluster(Cluster, Proxied, Protocol):
    """A cluster whose requests can be delayed."""


@dataclass(frozen=True, kw_only=True)
class StopCleaner:
    """Stops the log cleaner of a broker."""

    needs: ClassVar[tuple[type, ...]] = (Cleanable,)

    target: str = "random"

    def __post_init__(self) -> None:
        targets.check(self.target, targets.BROKERS)

    @catch_no_effect
    def inject(self, cluster: CleanableCluster, rng: Random) -> Receipt:
        (node,) = targets.find(self.target, cluster, rng)
        before = cluster.cleaner(node)
        cluster.stop_cleaner(node)
        with undo_on_error(lambda: cluster.start_cleaner(node)):
            during = cluster.cleaner(node)
        evidence = {"before": {node: before}, "during": {node: during}}
        return Receipt(role=self.target, targets=(node,), evidence=evidence, effective=before != during)

    def heal(self, cluster: CleanableCluster, receipt: Receipt) -> Receipt:
        for node in receipt.targets:
            cluster.start_cleaner(node)
        return replace(receipt, healing={"after": {node: cluster.cleaner(node) for node in receipt.targets}})


@dataclass(frozen=True, kw_only=True)
class LimitReplication:
    """Limits the replication of a broker."""

    needs: ClassVar[tuple[type, ...]] = (Cleanable,)

    def inject(self, cluster: CleanableCluster, rng: Random) -> Receipt:
        node = rng.choice(sorted(cluster.brokers))
        before = cluster.replication_rates([node])
        number = cluster.limit_replication([node], kbit_s=64)
        with undo_on_error(lambda: cluster.unlimit_replication(number)):
            during = cluster.replication_rates([node])
        evidence = {"before": before, "during": during, "number": number}
        return Receipt(targets=(node,), evidence=evidence, effective=before != during)

    def heal(self, cluster: CleanableCluster, receipt: Receipt) -> Receipt:
        if "number" in receipt.evidence:
            cluster.unlimit_replication(receipt.evidence["number"])
        return replace(receipt, healing={"after": cluster.replication_rates(receipt.targets)})


@dataclass(frozen=True, kw_only=True)
class DelayRequests:
    """Delays the requests to a broker."""

    needs: ClassVar[tuple[type, ...]] = (Proxied,)

    def inject(self, cluster: ProxiedCluster, rng: Random) -> Receipt:
        node = rng.choice(sorted(cluster.brokers))
        number = cluster.delay_requests([node], 100.0)
        with undo_on_error(lambda: cluster.undelay_requests(number)):
            during = cluster.delayed_requests(number)
        evidence = {"before": 0, "during": during, "number": number}
        return Receipt(targets=(node,), evidence=evidence, effective=bool(during))

    def heal(self, cluster: ProxiedCluster, receipt: Receipt) -> Receipt:
        if "number" in receipt.evidence:
            cluster.undelay_requests(receipt.evidence["number"])
        return replace(receipt, healing={"after": 0})


def fake() -> FakeCluster:
    return FakeCluster(clients=3, capabilities=(Cleanable, Proxied))


def played(fault, cluster=None):
    return {result.story: result for result in Kit(cluster or fake(), fault, 7, QUICK).play()}


def liar(fault, inject=None, heal=None):
    """The fault with another `inject` or `heal`."""
    cls = type(fault)
    own = {"inject": inject or cls.inject, "heal": heal or cls.heal}
    return dataclass(frozen=True, kw_only=True)(type(f"Lying{cls.__name__}", (cls,), own))()


def test_the_cluster_in_memory_does_what_the_calls_declare():
    cluster = fake()
    assert isinstance(cluster, Cleanable)
    cluster.stop_cleaner("n1")
    number = cluster.limit_replication(["n2", "n3"])
    assert [cluster.cleaner("n1"), cluster.cleaner("n2"), cluster.replication_rates(["n1", "n2"])] == [
        *("stopped", "running"),
        {"n1": 0, "n2": 8},
    ]
    assert cluster.calls == [("stop_cleaner", "n1"), ("limit_replication", ("n2", "n3"))]
    assert not cluster.whole()
    cluster.start_cleaner("n1")
    cluster.unlimit_replication(number)
    assert cluster.whole()
    with pytest.raises(HarnessError, match="no node n9"):
        cluster.stop_cleaner("n9")


def test_a_stubborn_node_stays_as_it_is():
    cluster = fake()
    cluster.stubborn.add("n1")
    cluster.stop_cleaner("n1")
    assert cluster.cleaner("n1") == "running"
    assert StopCleaner(target="broker:n1").inject(cluster, Random(1)).effective is False


def test_the_cluster_in_memory_heals_what_is_declared():
    cluster = fake()
    cluster.stop_cleaner("n1")
    cluster.heal()
    assert cluster.whole()


def test_a_snapshot_shows_what_calls_declare():
    cluster = fake()
    before = snapshot.take(cluster, needs=(Cleanable,))
    cluster.stop_cleaner("n1")
    cluster.limit_replication(["n2"])
    now = snapshot.take(cluster, needs=(Cleanable,))
    assert snapshot.changes(before, now) == ["log cleaner of n1: running -> stopped", "replication rate of n2: 0 -> 8"]
    assert snapshot.hurt(now, before) == snapshot.changes(before, now)
    assert snapshot.nodes_hurt(before, now) == {"n1"}


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (StopCleaner(), "log cleaner of n2: running -> stopped"),
        (LimitReplication(), "replication rate of n2: 0 -> 64"),
        (DelayRequests(), "delay_requests n2: 3"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "inject") else "",
)
def test_a_sound_fault_passes_every_story(fault, seen):
    stories = played(fault)
    assert tuple(stories) == ON_CLUSTER
    assert [result for result in stories.values() if result.ok is not True] == []
    assert stories["effect"].seen == seen


def boasts(self, cluster, rng):
    """It calls, on a node that does not care, and believes itself."""
    cluster.stop_cleaner("n1")
    evidence = {"before": {"n1": "running"}, "during": {"n1": "stopped"}}
    return Receipt(role="random", targets=("n1",), evidence=evidence, effective=True)


def denies(self, cluster, rng):
    cluster.stop_cleaner("n1")
    return Receipt(role="random", effective=False, note="nothing happened")


def names_another(self, cluster, rng):
    cluster.stop_cleaner("n1")
    evidence = {"before": {"n2": "running"}, "during": {"n2": "stopped"}}
    return Receipt(role="random", targets=("n2",), evidence=evidence, effective=True)


def undoes_it(self, cluster, rng):
    receipt = StopCleaner.inject(self, cluster, rng)
    cluster.start_cleaner(receipt.targets[0])
    return receipt


def misreads(self, cluster, rng):
    receipt = StopCleaner.inject(self, cluster, rng)
    during = dict.fromkeys(receipt.targets, "crawling")
    return replace(receipt, evidence={**receipt.evidence, "during": during})


@pytest.mark.parametrize(
    ("inject", "seen"),
    [
        (boasts, "effective is True, but the kit sees nothing of stop_cleaner n1"),
        (denies, "it says that nothing was hurt, but: log cleaner of n1: running -> stopped"),
        (names_another, "n1 was hurt, and is not among its targets"),
        (undoes_it, "effective is True, but inject undid by itself what it had done: stop_cleaner n2"),
        (misreads, "evidence says log cleaner of n2: crawling; the kit saw: stopped"),
    ],
)
def test_a_lie_about_the_effect_is_found(inject, seen):
    cluster = fake()
    cluster.stubborn |= {"n1"} if inject is boasts else set()
    stories = played(liar(StopCleaner(), inject), cluster)
    assert stories["effect"].ok is False
    assert seen in stories["effect"].seen


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (StopCleaner(), "after healing log cleaner of n2: running -> stopped"),
        (LimitReplication(), "after healing replication rate of n2: 0 -> 64"),
        (DelayRequests(), "after healing what it began by delay_requests goes on"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "inject") else "",
)
def test_a_heal_that_does_nothing_is_found_and_the_kit_heals_instead(fault, left):
    cluster = fake()
    stories = played(liar(fault, heal=lambda self, cluster, receipt: replace(receipt, healing={"after": {}})), cluster)
    assert stories["heal"].ok is False
    assert left in stories["heal"].seen
    assert cluster.whole()


def test_a_change_that_counts_nothing_is_no_effect():
    cluster = fake()
    cluster.stubborn |= {*cluster.brokers}
    boast = liar(DelayRequests(), lambda self, cluster, rng: replace(DelayRequests.inject(self, cluster, rng), effective=True))
    result = played(boast, cluster)["effect"]
    assert (result.ok, result.seen) == (False, "effective is True, but the kit sees nothing of delay_requests n2 (None)")


def leaves_it(self, cluster, rng):
    """It breaks off after its call, and its heal knows of no node then."""
    before = cluster.cleaner("n1")
    cluster.stop_cleaner("n1")
    evidence = {"before": {"n1": before}, "during": {"n1": cluster.cleaner("n1")}}
    return Receipt(role="random", targets=("n1",), evidence=evidence, effective=True)


def test_damage_of_an_inject_that_broke_off_is_found():
    stories = played(liar(StopCleaner(), leaves_it))
    assert [story for story, result in stories.items() if result.ok is False] == ["broke off"]
    assert stories["broke off"].seen == "cleaner was refused; after healing log cleaner of n1: running -> stopped"


def test_the_budget_counts_its_nodes():
    cluster = fake()
    ledger = Ledger(cluster, Budget(nodes=1))
    view = ledger.view(1, "stop-cleaner", needs=(Cleanable,))
    view.stop_cleaner("n1")
    with pytest.raises(OverBudget):
        ledger.view(2, "stop-cleaner", needs=(Cleanable,)).stop_cleaner("n2")
    view.start_cleaner("n1")
    assert ledger.view(3, "kill").kill("n2") is None


@runtime_checkable
class Misspelt(Protocol):
    """Its declarations name what is not there."""

    @undone_by("start_claener")
    @shown_by("log claener")
    @hurts_node
    def stop_cleaner(self, node: str) -> None: ...

    @shown_by("log cleaner", becomes=Argument("kbits"))
    @changes_until("unlimit")
    def limit(self, nodes: Iterable[str], kbit_s: int) -> int: ...

    @shows("log cleaner", Subjects.BROKERS)
    @looks
    def cleaner(self, node: str) -> str: ...


def test_declarations_that_name_nothing_are_named_when_the_fault_is_loaded():
    cls = dataclass(frozen=True, kw_only=True)(type("Odd", (StopCleaner,), {"needs": (Misspelt,)}))
    assert breaches(cls) == [
        'Odd.needs: Misspelt.stop_cleaner is shown by "log claener", which no look shows',
        "Odd.needs: Misspelt.stop_cleaner is undone by start_claener, which is no call",
        "Odd.needs: Misspelt.limit has no argument kbits, which its aspect becomes",
        "Odd.needs: Misspelt.limit is undone by unlimit, which is no call",
    ]
    assert breaches(StopCleaner) == []


def test_a_call_without_a_derivable_answer_says_what_it_lacks():
    cluster = FakeCluster(capabilities=(Misspelt,))
    with pytest.raises(NotImplementedError, match="no stop_cleaner: declare what its look answers then"):
        cluster.stop_cleaner("n1")
    with pytest.raises(NotImplementedError, match="no cleaner: declare the aspect that it shows, and what is `whole` there"):
        cluster.cleaner("n1")


class Wiped(Protocol):
    """A base of a capability that no cluster can be asked about."""

    @shown_by("tombstones", becomes=0)
    @changes
    def purge(self, node: str) -> None: ...

    @shows("tombstones", Subjects.BROKERS, whole=9, restored=False)
    @looks
    def tombstones(self, nodes: Iterable[str]) -> dict[str, int]: ...


@runtime_checkable
class Purgeable(Wiped, Protocol):
    """The capability; its calls are inherited."""


def test_declarations_are_inherited():
    cluster = FakeCluster(capabilities=(Purgeable,))
    before = snapshot.take(cluster, needs=(Purgeable,))
    cluster.purge("n3")
    now = snapshot.take(cluster, needs=(Purgeable,))
    assert snapshot.changes(before, now) == ["tombstones of n3: 9 -> 0"]
    assert snapshot.hurt(now, before) == []
