"""Every breach of a fault's interface is named at once, before anything starts."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import pytest

from fencepost.harness.api import Killable, Partitionable, Pausable, Receipt
from fencepost.harness.plugins.fault_validation import breaches, foreseen, lacks, unavailable
from fencepost.harness.plugins.registry import load
from fencepost.nemesis.isolate import Isolate
from fencepost.nemesis.kill import Kill
from fencepost.nemesis.pause import Pause
from fencepost.nemesis.testing import FakeCluster


@pytest.mark.parametrize("kind", ["kill", "pause", "isolate", "halves", "bridge", "one-way", "cut-clients", "cut-client"])
def test_every_built_in_fault_has_the_interface_of_a_fault(kind):
    """They come in by the same door as strangers."""
    assert breaches(load("nemesis", kind)) == []


def test_an_empty_class_breaks_everything():
    class Nothing:
        pass

    texts = breaches(Nothing)
    assert [text.split()[0] for text in texts] == ["Nothing", "Nothing.needs", "Nothing.inject(self,", "Nothing.heal(self,"]


def test_a_function_is_no_fault():
    assert breaches(len) == ["<built-in function len> is not a class; a fault is a frozen dataclass"]


def test_wrong_parameters_and_a_wrong_return_type_are_named():
    @dataclass(frozen=True)
    class Careless:
        needs: ClassVar[tuple[type, ...]] = ()

        def inject(self, cluster: Any) -> Receipt: ...
        def heal(self, cluster: Any, receipt: Receipt) -> None: ...

    inject, heal = breaches(Careless)
    assert inject.startswith("Careless.inject must take (self, cluster, rng), not (self, cluster: Any)")
    assert heal.startswith("Careless.heal must return a Receipt, not")


def test_a_mutable_dataclass_is_refused():
    @dataclass
    class Changing:
        needs: ClassVar[tuple[type, ...]] = (Killable,)

        def inject(self, cluster, rng):
            return Receipt()

        def heal(self, cluster, receipt):
            return receipt

    assert breaches(Changing) == ["Changing must be a frozen dataclass: its fields are the options"]


def test_needs_must_be_runtime_checkable_types():
    class NotAskable(Protocol): ...

    @dataclass(frozen=True)
    class Wishful:
        needs: ClassVar[Any] = (NotAskable,)

        def inject(self, cluster, rng):
            return Receipt()

        def heal(self, cluster, receipt):
            return receipt

    assert breaches(Wishful) == ["Wishful.needs: NotAskable must be @runtime_checkable"]
    Wishful.needs = "Killable"
    assert breaches(Wishful)[0].startswith("Wishful.needs must be a tuple of capabilities")


def test_what_is_unavailable_is_listed_by_capability_with_its_reason():
    cluster = FakeCluster()
    cluster.missing = {Partitionable: "no network namespaces here", Pausable: "nobody asks"}
    assert unavailable([Kill(), Isolate()], cluster.unavailable) == {"Partitionable": "no network namespaces here"}
    assert unavailable([Kill(), Pause()], {}.get) == {}


def test_a_capability_that_the_clusters_class_has_not_is_missing():
    """It says nothing about it, but it has not got the methods either."""

    @runtime_checkable
    class Meltable(Protocol):
        def melt(self, node: str, by_s: float) -> None: ...

    @dataclass(frozen=True)
    class Melt:
        needs: ClassVar[tuple[type, ...]] = (Meltable,)

        def inject(self, cluster, rng):
            return Receipt()

        def heal(self, cluster, receipt):
            return receipt

    assert breaches(Melt) == []
    assert lacks(Melt(), FakeCluster()) == {"Meltable": "FakeCluster is not Meltable"}
    assert lacks(Kill(), FakeCluster()) == {}


class OnlyClients(FakeCluster):
    only_clients = "the brokers are theirs"


def test_where_only_clients_can_be_hurt_other_targets_are_refused_with_the_reason():
    """A fault that needs nothing is somebody's own and may aim where it likes."""

    @dataclass(frozen=True)
    class Own:
        needs: ClassVar[tuple[type, ...]] = ()

    assert lacks(Kill(target="client"), OnlyClients()) == lacks(Pause(target="client:c1"), OnlyClients()) == {}
    assert lacks(Kill(target="leader"), OnlyClients()) == {"Killable": "the brokers are theirs"}
    assert lacks(Kill(), OnlyClients()) == {"Killable": "the brokers are theirs"}
    assert lacks(Own(), OnlyClients()) == {}


def test_before_the_start_the_provider_decides_what_is_missing():
    class Provider:
        only_clients = "the brokers are theirs"

        def missing(self):
            return {Killable: self.only_clients, Partitionable: "nobody cuts"}

    assert foreseen(Kill(target="client"), Provider()) == {}
    assert foreseen(Kill(), Provider()) == {"Killable": "the brokers are theirs"}
    assert foreseen(Isolate(), Provider()) == {"Partitionable": "nobody cuts"}
