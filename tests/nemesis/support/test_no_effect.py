"""An error before anything is hurt becomes the receipt that says so."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError, Receipt
from fencepost.nemesis.support import targets
from fencepost.nemesis.support.no_effect import NoEffect, catch_no_effect, no_effect_on_error, no_target_on_error
from fencepost.nemesis.testing import FakeCluster


class Fault:
    @catch_no_effect
    def inject(self, cluster, rng):
        """Hurt."""
        return Receipt(role="broker:n9", targets=targets.find("broker:n9", cluster, rng))


def test_a_target_that_is_not_there_becomes_a_receipt():
    receipt = Fault().inject(FakeCluster(), Random(1))
    assert (receipt.role, receipt.targets, receipt.effective) == ("broker:n9", (), False)
    assert receipt.note.startswith('no target: there is no broker "n9"')


def test_who_finds_targets_without_it_gets_an_error_of_the_cluster_with_the_reason_alone():
    with pytest.raises(ClusterError, match=r'^there is no broker "n9"'):
        targets.find("broker:n9", FakeCluster(), Random(1))


def test_an_error_that_says_something_else_is_let_through():
    class Broken:
        @catch_no_effect
        def inject(self, cluster, rng):
            raise ClusterError("nobody answered")

    with pytest.raises(ClusterError, match="nobody answered"):
        Broken().inject(FakeCluster(), Random(1))


def test_the_role_is_that_of_the_fault_not_of_a_second_target_that_is_missing():
    with pytest.raises(NoEffect) as raised, no_target_on_error("leader"):
        targets.find("client:c99", FakeCluster(), Random(1))
    assert (raised.value.receipt.role, raised.value.receipt.note.count("no target")) == ("leader", 1)


def test_other_errors_are_no_receipts():
    with pytest.raises(ZeroDivisionError), no_effect_on_error("leader"):
        1 / 0  # noqa: B018


def test_the_decorated_method_is_still_what_it_was():
    assert (Fault.inject.__name__, Fault.inject.__doc__) == ("inject", "Hurt.")
