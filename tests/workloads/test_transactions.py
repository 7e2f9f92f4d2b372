"""Outcomes of transactions, call by call."""

from __future__ import annotations

import threading
from random import Random

import pytest

from fencepost.harness.api import Operation, Outcome, PlannedOperation, Polled, record_id
from fencepost.workloads.support.record_format import encode
from fencepost.workloads.testing import FakeClient, error
from fencepost.workloads.testing import perform as performed
from fencepost.workloads.transactions import Transactions

WORKLOAD = Transactions(think_ms=0, transaction_timeout_s=0.0)
COMMIT = PlannedOperation(f="txn", mops=(("send", "t-0"), ("send", "t-1")), intent="commit")
ABORT = PlannedOperation(f="txn", mops=(("send", "t-0"),), intent="abort")


def perform(client: FakeClient, planned: PlannedOperation = COMMIT) -> tuple[Outcome, Operation]:
    op = Operation.of(5, 7, planned)
    return WORKLOAD.perform(op, client, "run1"), op


def test_a_commit_that_is_acknowledged_is_ok_and_keeps_the_offsets():
    outcome, op = perform(FakeClient())
    assert outcome is Outcome.OK
    assert [(mop[1], mop[3]) for mop in op.value] == [("t-0", 0), ("t-1", 1)]
    assert op.decided is not None
    assert not op.renew


def test_an_intended_abort_is_a_definite_failure_and_waits_for_the_records_first():
    client = FakeClient()
    outcome, op = perform(client, ABORT)
    assert outcome is Outcome.FAIL
    assert client.calls == ["begin", "send", "flush", "abort"]
    assert op.decided is None


def test_a_commit_that_times_out_for_good_is_unknown_and_ends_the_process():
    """EndTxn may have been written: neither ok nor fail would be honest."""
    outcome, op = perform(FakeClient({"commit": [error("commit")]}))
    assert outcome is Outcome.INFO
    assert op.renew


def test_a_retriable_commit_is_called_again_and_recorded_as_one_operation():
    workload = Transactions(think_ms=0, transaction_timeout_s=10)
    client = FakeClient({"commit": [error("commit", retriable=True), error("commit", retriable=True)]})
    op = Operation.of(5, 7, COMMIT)
    assert workload.perform(op, client, "run1") is Outcome.OK
    assert client.calls.count("commit") == 3
    assert [e["name"] for e in op.errors] == ["_TIMED_OUT", "_TIMED_OUT"]


def test_a_commit_that_demands_an_abort_fails_once_the_abort_is_acknowledged():
    outcome, op = perform(FakeClient({"commit": [error("commit", "_INCONSISTENT", abortable=True)]}))
    assert outcome is Outcome.FAIL
    assert not op.renew


def test_a_commit_that_demands_an_abort_is_unknown_when_the_abort_fails_too():
    script = {"commit": [error("commit", "_INCONSISTENT", abortable=True)], "abort": [error("abort", "_FENCED", fatal=True)]}
    outcome, op = perform(FakeClient(script))
    assert outcome is Outcome.INFO
    assert op.renew


def test_after_an_unconfirmed_commit_the_producer_aborts_and_goes_on_and_the_outcome_stays_unknown():
    """The abort succeeds also where the commit had been heard: franz-go's EndTransaction, for example."""
    client = FakeClient({"commit": [error("commit", "EOF", unconfirmed=True)]})
    outcome, op = perform(client)
    assert (outcome, op.renew) == (Outcome.INFO, False)
    assert client.calls[-2:] == ["commit", "abort"]


def test_an_unconfirmed_commit_whose_abort_fails_ends_the_process():
    script = {"commit": [error("commit", "EOF", unconfirmed=True)], "abort": [error("abort", "INVALID_TXN_STATE", fatal=True)]}
    outcome, op = perform(FakeClient(script))
    assert (outcome, op.renew) == (Outcome.INFO, True)


@pytest.mark.parametrize(
    ("flags", "outcome", "last"),
    [
        ({"unconfirmed": True}, Outcome.INFO, "commit"),
        ({"retriable": True}, Outcome.INFO, "commit"),
        ({"abortable": True}, Outcome.FAIL, "abort"),
    ],
)
def test_with_new_producers_nothing_is_tried_again_and_only_a_refused_commit_is_aborted(flags, outcome, last):
    client, op = FakeClient({"commit": [error("commit", "EOF", **flags)]}), Operation.of(5, 7, COMMIT)
    op.recovery = "new-producer"
    assert Transactions(think_ms=0, transaction_timeout_s=10).perform(op, client, "run1") is outcome
    assert (client.calls[-1], client.calls.count("commit"), op.renew) == (last, 1, outcome is Outcome.INFO)


def test_a_fenced_commit_is_unknown_because_an_earlier_attempt_may_have_been_received():
    outcome, op = perform(FakeClient({"commit": [error("commit", "_FENCED", fatal=True)]}))
    assert outcome is Outcome.INFO
    assert op.renew


def test_a_fatal_abort_is_a_definite_failure_because_commit_was_never_called():
    """librdkafka 4849: the abort overtakes AddPartitionsToTxn and the producer is gone; the transaction cannot commit."""
    outcome, op = perform(FakeClient({"abort": [error("abort", "INVALID_TXN_STATE", fatal=True)]}), ABORT)
    assert outcome is Outcome.FAIL
    assert op.renew
    assert op.errors[0]["fatal"]


def test_a_send_that_is_refused_aborts_and_fails():
    client = FakeClient({"send": [error("send", "_QUEUE_FULL")]})
    outcome, _ = perform(client)
    assert outcome is Outcome.FAIL
    assert "abort" in client.calls
    assert "commit" not in client.calls


def test_a_begin_that_fails_sends_nothing():
    client = FakeClient({"begin": [error("begin", "_STATE")]})
    outcome, op = perform(client)
    assert outcome is Outcome.FAIL
    assert client.sent == []
    assert op.renew


def test_an_undelivered_record_keeps_no_offset_and_its_error():
    _, op = perform(FakeClient({"deliver": [error("deliver", "_MSG_TIMED_OUT")]}))
    assert op.value[0][3] is None
    assert op.value[0][5] is None
    assert op.errors[0]["call"] == "deliver"


def test_a_poll_returns_identities_of_our_records_and_keeps_strangers_as_evidence():
    ours = Polled("t-0", 3, encode("run1", 2, 9, 1, "t-0", "commit", 100))
    foreign = Polled("t-0", 4, encode("other", 2, 9, 1, "t-0", "commit", 100))
    broken = Polled("t-1", 5, b"<script>alert(1)</script>\xff")
    tombstone = Polled("t-1", 6, b"")
    op = Operation.of(0, 0, PlannedOperation(f="poll", mops=(("poll",),)))
    assert WORKLOAD.perform(op, FakeClient(polled=[[ours, foreign, broken, tombstone]]), "run1") is Outcome.OK
    (mop,) = op.value
    assert mop[1] == {"t-0": [[3, record_id(2, 9, 1)], [4, -1]], "t-1": [[5, -1], [6, -1]]}
    assert [odd["why"] for odd in mop[3]] == [
        "record of another run (other)",
        "content does not match its checksum",
        "it has no value, or an empty one",
    ]
    assert mop[3][1]["raw"].endswith("\\xff")


def test_the_same_seed_gives_the_same_operations():
    def first(seed: int) -> list[PlannedOperation]:
        workload = Transactions()
        operations = workload.operations(workload.roles()[0], ["t-0", "t-1", "t-2"], Random(seed))
        return [next(operations) for _ in range(50)]

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_records_of_one_transaction_spread_over_partitions_while_there_are_enough():
    workload = Transactions(sends=(3, 3), poll_share=0)
    planned = next(workload.operations(workload.roles()[0], ["t-0", "t-1", "t-2"], Random(1)))
    assert sorted(mop[1] for mop in planned.mops) == ["t-0", "t-1", "t-2"]


@pytest.mark.parametrize("options", [{"sends": (0, 3)}, {"sends": (4, 3)}, {"writers": 0}, {"abort_share": 1.5}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Transactions(**options)


RERUN = Transactions(think_ms=0, transaction_timeout_s=0.0, rerun_unknown=True)


def test_an_application_that_runs_unknown_commits_again_sends_the_same_records_as_a_new_instance():
    client, op = FakeClient({"commit": [error("commit", retriable=True)]}), Operation.of(5, 7, COMMIT)
    assert RERUN.perform(op, client, "run1") is Outcome.OK
    assert client.calls == ["begin", "send", "send", "commit", "initialise", "begin", "send", "send", "commit"]
    assert client.sent[0] == client.sent[2]
    assert [mop[3] for mop in op.value] == [2, 3], "acknowledged where the second attempt lies"
    assert op.decided < op.value[0][5], "commit was first called before the second attempt"


def test_of_such_a_commit_nothing_is_known_when_the_second_attempt_fails():
    """The first one may have been committed."""
    for script in ({"initialise": [error("initialise")]}, {"commit": [error("commit")] * 2}):
        client, op = FakeClient({"commit": [error("commit")], **script}), Operation.of(5, 7, COMMIT)
        assert RERUN.perform(op, client, "run1") is Outcome.INFO


def test_writers_keep_their_transactional_ids_unless_configured_otherwise():
    assert {role.new_ids for role in Transactions().roles()} == {False}
    assert {role.new_ids for role in Transactions(new_ids=True).roles() if role.transactional} == {True}


def test_several_threads_hand_over_each_the_records_of_other_partitions():
    """KIP-98: one transaction, records from several threads, one commit. Records of one partition stay in order."""

    class Noting(FakeClient):
        def send(self, record, done):
            self.threads.setdefault(f"{record.topic}-{record.partition}", set()).add(threading.get_ident())
            super().send(record, done)

    client = Noting()
    client.threads = {}
    mops = tuple(("send", f"t-{number % 3}") for number in range(9))
    planned = PlannedOperation(f="txn", mops=mops, intent="commit")
    outcome, op = performed(Transactions(threads=3, think_ms=0), planned, client)
    assert (outcome, client.calls[0], client.calls[-1]) == (Outcome.OK, "begin", "commit")
    assert all(mop[5] is not None for mop in op.value)
    assert {len(threads) for threads in client.threads.values()} == {1}
    assert threading.get_ident() not in set().union(*client.threads.values())
    assert [place for place, _ in client.sent if place == "t-0"] == ["t-0"] * 3


def test_a_send_that_fails_in_a_thread_aborts_the_transaction():
    client = FakeClient({"send": [error("send", "_STATE", abortable=True)]})
    planned = PlannedOperation(f="txn", mops=(("send", "t-0"), ("send", "t-1")), intent="commit")
    outcome, op = performed(Transactions(threads=2, think_ms=0), planned, client)
    assert (outcome, client.calls[-1], [row["name"] for row in op.errors]) == (Outcome.FAIL, "abort", ["_STATE"])


def test_only_a_client_that_permits_it_can_send_from_threads():
    assert [role.needs for role in Transactions(threads=2, writers=1).roles() if role.name == "writer"] == [("threads",)]
    assert [role.needs for role in Transactions(writers=1).roles() if role.name == "writer"] == [()]
