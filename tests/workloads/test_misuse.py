"""Calls out of order: which are made, what is recorded of them, and how the producer goes on."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from fencepost.harness.api import Operation, Outcome, PlannedOperation, Writer
from fencepost.workloads.misuse import CALLS, CELLS, OF_TIMEOUT, TIMEOUT, TOO_LONG, Misuse, misused
from fencepost.workloads.testing import FakeClient, error

OUTSIDE = tuple(cell for cell in CALLS if cell != "begin twice")


class Topics:
    """An operator that makes a topic, or cannot."""

    def __init__(self, name="outside"):
        self.name = name

    def make_topic(self):
        return self.name


class Rivals:
    def __init__(self, outcome):
        self.outcome, self.asked = outcome, []

    def __call__(self, suffix, settings):
        self.asked.append((suffix, dict(settings)))
        return self

    def perform(self, planned):
        self.asked.append(planned.f)
        return self.outcome


def tried(cell, script=None, operator=None, rivals=None):
    op = Operation.of(3, 4, PlannedOperation(f="misuse", mops=(), cell=cell, partitions=("t-0",)))
    op.operator, op.rivals = operator or Topics(), rivals
    client = FakeClient(script)
    return misused(op, client), op, client


def test_each_call_is_followed_by_a_transaction_of_the_same_producer():
    operations = list(islice(Misuse().operations(Writer(transactional=True), ("t-0", "t-1"), Random(7)), 2 * len(CELLS)))
    assert sorted(operation.cell for operation in operations[::2]) == sorted(CELLS)
    assert {operation.f for operation in operations[1::2]} == {"txn"}


@pytest.mark.parametrize("cell", OUTSIDE)
def test_a_call_outside_a_transaction_that_is_refused_leaves_the_producer_as_it_was(cell):
    call = CALLS[cell]
    outcome, op, client = tried(cell, {call: [error(call, "_STATE")]})
    assert (outcome, op.value, op.renew) == (Outcome.FAIL, {"misuse": cell, "reached": True}, False)
    assert [row["call"] for row in op.errors] == [call]
    assert "begin" not in client.calls


@pytest.mark.parametrize("cell", list(CALLS))
def test_a_call_that_returns_is_ok_so_that_the_table_sees_it(cell):
    outcome, op, _ = tried(cell)
    assert (outcome, op.value["reached"], op.errors) == (Outcome.OK, True, [])


def test_a_record_that_is_refused_by_its_delivery_is_an_error_of_send():
    outcome, op, _ = tried("send outside", {"deliver": [error("deliver", "_STATE")]})
    assert (outcome, [row["call"] for row in op.errors]) == (Outcome.FAIL, ["send"])


def test_without_a_topic_that_nobody_reads_no_record_is_sent():
    outcome, op, client = tried("send outside", operator=Topics(""))
    assert (outcome, op.value["reached"], client.calls) == (Outcome.FAIL, False, [])


def test_the_transaction_that_was_begun_twice_is_aborted():
    outcome, _, client = tried("begin twice")
    assert (outcome, client.calls) == (Outcome.OK, ["begin", "begin", "abort"])


def test_a_begin_that_fails_at_once_reaches_nothing():
    outcome, op, _ = tried("begin twice", {"begin": [error("begin", "_FENCED", fatal=True)]})
    assert (outcome, op.value["reached"], op.renew) == (Outcome.FAIL, False, True)


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.INFO])
def test_the_longest_timeout_is_asked_for_by_another_producer(outcome):
    rivals = Rivals(outcome)
    assert tried(TIMEOUT, rivals=rivals)[0] is outcome
    assert rivals.asked == [(OF_TIMEOUT, dict(TOO_LONG)), "initialise"]


def test_an_unknown_call_is_refused():
    with pytest.raises(ValueError, match="no call of that name"):
        Misuse(only="commit twice")


@pytest.mark.parametrize(("only", "needs"), [("", ("offsets-in-transactions",)), (TIMEOUT, ())])
def test_a_client_without_offsets_in_transactions_can_make_the_other_calls(only, needs):
    assert {role.needs for role in Misuse(only=only).roles() if role.transactional} == {needs}
