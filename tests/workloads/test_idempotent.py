"""Records without transactions: each stands for itself."""

from __future__ import annotations

from fencepost.harness.api import Operation, Outcome, PlannedOperation
from fencepost.workloads.idempotent import Idempotent
from fencepost.workloads.testing import FakeClient, error

BURST = PlannedOperation(f="send", mops=(("send", "t-0"),) * 3)


def test_a_burst_is_ok_when_every_record_is_acknowledged():
    op = Operation.of(1, 0, BURST)
    assert Idempotent().perform(op, FakeClient(), "r") is Outcome.OK
    assert [mop[3] for mop in op.value] == [0, 1, 2]


def test_one_record_that_timed_out_makes_the_burst_unknown_but_leaves_the_others_acknowledged():
    op = Operation.of(1, 0, BURST)
    assert Idempotent().perform(op, FakeClient({"deliver": [error("deliver", "_MSG_TIMED_OUT")]}), "r") is Outcome.INFO
    assert [mop[5] is None for mop in op.value] == [True, False, False]


def test_a_burst_that_never_left_the_client_is_a_failure():
    refused = [error("send", "_QUEUE_FULL") for _ in range(3)]
    op = Operation.of(1, 0, BURST)
    assert Idempotent().perform(op, FakeClient({"send": refused}), "r") is Outcome.FAIL


def test_a_flush_that_times_out_leaves_the_burst_unknown_and_ends_the_process():
    op = Operation.of(1, 0, BURST)
    assert Idempotent().perform(op, FakeClient({"flush": [error("flush")]}), "r") is Outcome.INFO
    assert op.renew
