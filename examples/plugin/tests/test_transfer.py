"""The workload with transactions, with a client that plays a script."""

from __future__ import annotations

import pytest
from fencepost_example.transfer import Transfer

from fencepost.harness.api import Outcome
from fencepost.harness.plugins.validation import breaches, flaws
from fencepost.workloads.testing import FakeClient, error, perform, planned

COMMITS = next(op for op in planned(Transfer(abort_share=0), 1))
ABORTS = next(op for op in planned(Transfer(abort_share=1), 1))


def test_it_has_the_interface_of_a_workload():
    assert breaches("workload", Transfer) == []
    assert flaws("workload", Transfer()) == []


def test_both_records_are_sent_in_one_transaction():
    client = FakeClient()
    outcome, op = perform(Transfer(), COMMITS, client)
    assert (outcome, client.calls) == (Outcome.OK, ["begin", "send", "send", "commit"])
    assert len({partition for partition, _ in client.sent}) == 2
    assert op.decided is not None


def test_an_abort_on_purpose_surely_did_not_happen():
    client = FakeClient()
    assert perform(Transfer(), ABORTS, client)[0] is Outcome.FAIL
    assert client.calls == ["begin", "send", "send", "flush", "abort"]


@pytest.mark.parametrize(
    ("script", "outcome", "renew"),
    [
        ({"commit": [error("commit")]}, Outcome.INFO, True),
        ({"commit": [error("commit", retriable=True)]}, Outcome.OK, False),
        ({"commit": [error("commit", abortable=True)]}, Outcome.FAIL, False),
        ({"commit": [error("commit", abortable=True)], "abort": [error("abort")]}, Outcome.INFO, True),
        ({"commit": [error("commit", fatal=True)]}, Outcome.INFO, True),
        ({"send": [error("send", "_QUEUE_FULL")]}, Outcome.FAIL, False),
        ({"begin": [error("begin", fatal=True)]}, Outcome.FAIL, True),
    ],
)
def test_what_is_known_after_an_error(script, outcome, renew):
    actual, op = perform(Transfer(), COMMITS, FakeClient(script))
    assert (actual, op.renew) == (outcome, renew)
