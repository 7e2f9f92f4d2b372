"""The workload, with a client that plays a script."""

from __future__ import annotations

import pytest
from fencepost_example.workload import Trickle

from fencepost.harness.api import Outcome
from fencepost.harness.plugins.validation import breaches, flaws
from fencepost.workloads.testing import FakeClient, error, perform, planned


def test_it_has_the_interface_of_a_workload():
    assert breaches("workload", Trickle) == []
    assert flaws("workload", Trickle()) == []


def test_an_acknowledged_record_is_ok_and_keeps_its_offset():
    (first,) = planned(Trickle(), 1)
    outcome, op = perform(Trickle(), first, FakeClient())
    assert (outcome, op.value[0][3]) == (Outcome.OK, 0)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ({"deliver": [error("deliver")]}, Outcome.INFO),
        ({"flush": [error("flush")]}, Outcome.INFO),
        ({"send": [error("send", "_QUEUE_FULL")]}, Outcome.FAIL),
    ],
)
def test_what_is_known_after_an_error(script, outcome):
    (first,) = planned(Trickle(), 1)
    assert perform(Trickle(), first, FakeClient(script))[0] is outcome


def test_options_that_cannot_be_meant_are_refused():
    with pytest.raises(ValueError, match="writers and partitions must be at least 1"):
        Trickle(writers=0)
