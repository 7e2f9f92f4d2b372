"""Faults that lie about what they do, one of each kind and way of lying, and the honest ones that they look like.

The receipts are those of the honest fault, which a liar gets by doing what it claims and undoing it at once, or by doing it
elsewhere. Nothing in them is odd: only a look at the cluster shows that nothing is hurt.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from fencepost.harness.api import Killable, Pausable, Receipt, clock
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.clusters import Admin
from fencepost.harness.api.effects import effects_of
from fencepost.harness.conformance.effect_checks import ASPECTS, MEASURED
from fencepost.harness.conformance.fixture import Bounds, bounds_for
from fencepost.harness.conformance.stories import Kit
from fencepost.harness.plugins import registry
from fencepost.nemesis.support.healing import healed
from fencepost.nemesis.support.waiting import poll_until
from fencepost.nemesis.testing import FakeCluster

QUICK = Bounds(inject_s=30.0, heal_s=30.0, whole_s=0.0, active_s=0.0)
OURS = [kind for kind in registry.names("nemesis") if registry.load("nemesis", kind).__module__.startswith("fencepost.nemesis.")]
OURS.remove("abort-transaction")  # it strikes where a transaction hangs, once; tests/nemesis/test_abort_transaction.py


def honest(kind: str) -> Any:
    return registry.build(registry.load("nemesis", kind), {}, kind)


def cluster_for(kind: str) -> FakeCluster:
    return FakeCluster(clients=3, groups=("g",), controllers=1 if kind == "membership" else 0)


def lies(fault: Any, inject: Any, heal: Any = None) -> Any:
    """The fault with another inject, and maybe another heal; by default it shows what the honest one found after healing."""

    def invented(self: Any, cluster: Any, receipt: Receipt) -> Receipt:
        return replace(receipt, healing={"after": receipt.evidence.get("before")})

    methods = {"inject": inject, "heal": heal or invented}
    cls = dataclass(frozen=True, kw_only=True)(type(f"Lying{type(fault).__name__}", (type(fault),), methods))
    return cls(**vars(fault))


def undoes_at_once(kind: str) -> Any:
    """It does what it claims, undoes it within inject, and shows the evidence of the moment in between."""
    fault = honest(kind)

    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        receipt = fault.inject(cluster, rng)
        fault.heal(cluster, receipt)
        return receipt

    return lies(fault, inject)


def does_it_elsewhere(kind: str) -> Any:
    """It does nothing here, and shows the evidence of another cluster."""
    fault = honest(kind)
    return lies(fault, lambda self, cluster, rng: fault.inject(cluster_for(kind), rng))


def effect(fault: Any, cluster: FakeCluster, bounds: Bounds = QUICK) -> Any:
    (result,) = list(Kit(cluster, fault, 7, bounds, stories=("effect",)).play())
    return result


UNSEEN = {"power-off": ("lose_unsynced", "n2"), "corrupt": ("corrupt", "n2")}  # what files hold shows nowhere


@pytest.mark.parametrize("kind", OURS)
def test_an_honest_fault_is_seen_to_hurt(kind):
    result = effect(honest(kind), cluster_for(kind))
    if kind in UNSEEN:
        call, node = UNSEEN[kind]
        assert (result.ok, result.observable) == (None, False), result
        assert f"not observable: {call} {node}" in result.seen
        assert f"process of {node}: 400{node[1]} -> nothing" in result.seen
    else:
        assert result.ok is True, result


# A fault that restarts nodes within inject, and says so, is honest; what has fenced a producer cannot be undone.
@pytest.mark.parametrize("kind", [kind for kind in OURS if kind not in ("rolling-restart", "connect-version", "fence-producers")])
def test_a_fault_that_undoes_everything_within_inject_is_rejected(kind):
    result = effect(undoes_at_once(kind), cluster_for(kind))
    assert result.ok is False, result
    assert result.change


@pytest.mark.parametrize("kind", OURS)
def test_a_fault_that_does_nothing_and_has_perfect_evidence_is_rejected(kind):
    result = effect(does_it_elsewhere(kind), cluster_for(kind))
    assert result.ok is False, result


def test_a_pause_that_a_thread_ends_is_rejected(monkeypatch):
    """It hurts when inject returns, and no longer when it is to be healed."""
    fault, seen, over = honest("pause"), threading.Event(), threading.Event()

    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        receipt = fault.inject(cluster, rng)

        def thaw() -> None:
            seen.wait()
            cluster.resume(*receipt.targets)
            over.set()

        threading.Thread(target=thaw, daemon=True).start()
        return receipt

    def sleep(seconds: float) -> None:
        seen.set()
        assert over.wait(60)

    clocks = {"monotonic": time.monotonic, "monotonic_ns": time.monotonic_ns}
    monkeypatch.setattr("fencepost.harness.conformance.stories.time", SimpleNamespace(sleep=sleep, **clocks))
    result = effect(lies(fault, inject), FakeCluster(), replace(QUICK, active_s=0.5))
    assert result.ok is False, result
    assert result.seen.startswith("0.5 s after inject, with the fault said to be active: ")


def test_a_restart_is_honest_when_its_evidence_has_the_new_process():
    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        before = {"n1": cluster.pid("n1")}
        cluster.kill("n1")
        cluster.start("n1")
        during = {"n1": cluster.pid("n1") if self.honest else None}
        return Receipt(role="random", targets=("n1",), evidence={"before": before, "during": during}, effective=True)

    @dataclass(frozen=True, kw_only=True)
    class Restart:
        needs: ClassVar[tuple[type, ...]] = (Killable,)
        target: str = "random"
        honest: bool = True

        def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
            return replace(receipt, healing={"after": "alive"})

    Restart.inject = inject  # type: ignore[attr-defined]
    assert effect(Restart(), FakeCluster()).seen == "n1 runs as another process, 4006"
    result = effect(Restart(honest=False), FakeCluster())
    assert result.ok is False
    assert "evidence says process of n1: nothing; the kit saw: 4006" in result.seen


def test_evidence_of_nodes_that_were_not_hurt_is_rejected():
    """Two are claimed, and one is frozen."""
    fault = honest("pause")

    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        cluster.pause("n1")
        both = {"before": {"n1": "S", "n2": "S"}, "during": {"n1": "T", "n2": "T"}}
        return Receipt(role="random", targets=("n1", "n2"), evidence=both, effective=True)

    result = effect(lies(fault, inject), FakeCluster())
    assert result.ok is False
    assert result.seen == "evidence says state of n2: frozen; the kit saw: not frozen"


MEANT: list[tuple[str, Any, str]] = [
    ("latency", lambda cluster, pairs: cluster.slow(pairs, delay_ms=0.01), "datagrams take 0.0 ms more than before"),
    ("latency", lambda cluster, pairs: cluster.slow(pairs), "neither a delay nor a rate was asked for"),
    ("slow-disk", lambda cluster, pairs: cluster.throttle(["n2"], delay_ms=0.0), "waited up to 0 ms"),
    ("clock-skew", lambda cluster, pairs: cluster.skew("n1", 0.5), "the kit sees nothing of skew n1"),
]


@pytest.mark.parametrize(("kind", "do", "seen"), MEANT, ids=[kind for kind, _, _ in MEANT])
def test_a_change_that_is_in_force_and_too_small_to_matter_is_rejected(kind, do, seen):
    fault = honest(kind)

    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        do(cluster, [("n1", "n2"), ("n2", "n1")])
        return fault.inject(cluster_for(kind), rng)

    result = effect(lies(fault, inject), FakeCluster())
    assert result.ok is False
    assert seen in result.seen


def test_a_broker_that_only_stopped_has_not_left():
    """Its evidence is that of one whose disk was emptied."""
    fault = honest("membership")

    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        receipt = fault.inject(cluster_for("membership"), rng)
        cluster.stop(*receipt.targets)
        return receipt

    result = effect(lies(fault, inject), cluster_for("membership"))
    assert result.ok is False
    assert result.seen == "evidence says data of n2: none; the kit saw: there"


@pytest.mark.parametrize(
    ("evidence", "note", "ok"),
    [
        ({}, "", False),
        ({"hit": ["n1", "n3"]}, "n3 was frozen already", False),
        ({"hit": ["n1"]}, "n3 was frozen already", True),
        ({}, "n3 was frozen already", True),
    ],
)
def test_a_second_node_that_is_named_and_spared_is_rejected(evidence, note, ok):
    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        cluster.pause("n1")
        shown = {"before": "S", "during": "T", **evidence}
        return Receipt(role="random", targets=("n1", "n3"), evidence=shown, effective=True, note=note)

    result = effect(lies(honest("pause"), inject), FakeCluster())
    assert (result.ok, "it names n3, to which nothing happened" in result.seen) == (ok, not ok)


def test_a_pair_that_is_claimed_and_open_is_rejected():
    fault = honest("isolate")

    def inject(self: Any, cluster: Any, rng: Any) -> Receipt:
        receipt = fault.inject(cluster, rng)
        cluster.undrop(receipt.pairs[:1])
        return receipt

    result = effect(lies(fault, inject), FakeCluster())
    assert result.ok is False
    assert result.seen.endswith("is among its pairs, and gets through")


class Curious:
    """A capability that a plug-in brings: what it does nobody else can see."""

    def haunt(self, node: str) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Haunts:
    """It does what only its own capability can do."""

    needs: ClassVar[tuple[type, ...]] = (Curious,)

    def inject(self, cluster: Any, rng: Any) -> Receipt:
        cluster.haunt("n1")
        return Receipt(targets=("n1",), evidence={"before": 0, "during": 1}, effective=True)

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        return replace(receipt, healing={"after": 0})


class HauntedCluster(FakeCluster):
    def haunt(self, node: str) -> None:
        """Nothing that shows."""


@dataclass(frozen=True, kw_only=True)
class OwnWays(Haunts):
    """It does what it does by a command of its own."""

    needs: ClassVar[tuple[type, ...]] = ()

    def inject(self, cluster: Any, rng: Any) -> Receipt:
        return Receipt(targets=("n1",), evidence={"before": 0, "during": 1}, effective=True)


@pytest.mark.parametrize(
    ("fault", "what"), [(OwnWays(), "what it did, for it made no call that the kit knows to hurt"), (Haunts(), "haunt n1")]
)
def test_what_the_kit_cannot_observe_is_neither_passed_nor_failed(fault, what, monkeypatch):
    monkeypatch.setattr("fencepost.harness.conformance.stories.lacks", lambda *_: {})
    result = effect(fault, HauntedCluster())
    assert (result.ok, result.observable, result.seen) == (None, False, f"not observable: {what}")


@dataclass(frozen=True, kw_only=True)
class KillsByItself(OwnWays):
    """It kills by a way of its own, and that shows."""

    needs: ClassVar[tuple[type, ...]] = (Killable,)

    def inject(self, cluster: Any, rng: Any) -> Receipt:
        FakeCluster.kill(cluster._cluster._cluster._cluster, "n1")
        return Receipt(targets=("n1",), evidence={"before": "lives", "during": "dead"}, effective=True)


def test_what_a_fault_does_by_itself_and_shows_is_seen():
    result = effect(KillsByItself(), FakeCluster())
    assert (result.ok, result.seen) == (True, "process of n1: 4001 -> nothing; state of n1: awake -> gone")


def test_every_call_that_hurts_shows_in_an_aspect_or_is_measured_or_is_known_to_be_unobservable():
    hurting = {name for name, effect in effects_of([*CAPABILITIES, Admin]).items() if effect.hurts}
    assert hurting == {*ASPECTS, *MEASURED}
    assert [call for call, aspects in ASPECTS.items() if not aspects] == [
        *("lose_unsynced", "corrupt", "end_transaction", "abort_on_partition"),
    ]


@pytest.mark.parametrize("kind", ["latency", "bandwidth", "packet-loss"])
def test_links_that_stay_bad_are_measured_after_healing(kind):
    """The call that ends the change says that it did; packets say that it did not."""
    cluster, fault = cluster_for(kind), honest(kind)
    call = "unlose" if kind == "packet-loss" else "unslow"
    setattr(cluster, call, lambda number: {})

    def heal(self: Any, view: Any, receipt: Receipt) -> Receipt:
        return healed(receipt, {"after": receipt.evidence["before"]}, ())

    (result,) = list(Kit(cluster, lies(fault, type(fault).inject, heal), 7, QUICK, stories=("heal",)).play())
    assert result.ok is False
    assert " still shows: " in result.seen


def test_a_heal_that_does_nothing_is_found_at_once_in_memory():
    """By default: where nothing changes by itself, nobody waits for it."""
    cluster = FakeCluster()
    assert bounds_for(cluster).whole_s < 1 < Bounds().whole_s
    fault = lies(honest("pause"), type(honest("pause")).inject, lambda self, cluster, receipt: replace(receipt, healing={"a": 1}))
    results = {result.story: result for result in Kit(cluster, fault, 7).play()}
    assert results["heal"].ok is False
    assert isinstance(cluster, Pausable)
    assert cluster.whole()


@dataclass(frozen=True, kw_only=True)
class Patient:
    """It waits for an hour before and after."""

    needs: ClassVar[tuple[type, ...]] = (Pausable,)

    def inject(self, cluster: Any, rng: Any) -> Receipt:
        began = clock.monotonic()
        clock.sleep(3600.0)
        assert clock.monotonic() - began >= 3600
        cluster.pause("n1")
        return Receipt(targets=("n1",), evidence={"before": {"n1": "S"}, "during": {"n1": "T"}}, effective=True)

    def heal(self, cluster: Any, receipt: Receipt) -> Receipt:
        poll_until(lambda: None, bool, 3600.0)
        for node in receipt.targets:
            cluster.resume(node)
        return replace(receipt, healing={"after": "S"})


def test_the_waits_of_a_fault_take_no_time_in_memory():
    results = list(Kit(FakeCluster(), Patient(), 7, stories=("effect", "heal")).play())
    assert [result.ok for result in results] == [True, True]
    assert time.monotonic() - 1 < clock.monotonic() < time.monotonic() + 1  # outside, it is the machine's
