"""The cells of the matrix, call by call, with rivals that only keep a record."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from fencepost.harness.api import Operation, Outcome, PlannedOperation, Writer
from fencepost.workloads.fencing import (
    AGAIN,
    CELLS,
    EXPIRY,
    FAULT_CALLS,
    FAULT_MOMENTS,
    MOMENTS,
    OTHER_ID,
    RIVAL,
    Fencing,
    take_over,
)
from fencepost.workloads.testing import FakeClient, error

WORKLOAD = Fencing(think_ms=0, transaction_timeout_s=0.0)
PARTITIONS = ("t-0", "t-1")
WRITER = Writer(transactional=True, rivals=True)


class Watched(FakeClient):
    """A client whose rivals note in its own list of calls when they did what."""

    def __init__(self, script=None, outcome=Outcome.OK):
        super().__init__(script)
        self.outcome = outcome

    def rivals(self, suffix, settings=None):
        self.suffix = suffix
        return self

    def perform(self, planned):
        self.calls.append(f"{planned.f} {planned.cell}".strip())
        return self.outcome


def performed(cell, client, intent="commit"):
    planned = PlannedOperation(f="txn", mops=(("send", "t-0"), ("send", "t-1")), intent=intent, cell=cell)
    op = Operation.of(5, 7, planned)
    op.rivals = client.rivals
    return WORKLOAD.perform(op, client, "run1"), op


def planned(workload=WORKLOAD, seed=7):
    return list(islice(workload.operations(WRITER, PARTITIONS, Random(seed)), 3 * len(workload.cells)))


def test_an_instance_initialises_meets_its_cell_and_goes_on():
    operations = planned()
    assert [operation.f for operation in operations[:3]] == ["initialise", "txn", "txn"]
    assert all(first.cell == second.cell for first, second in zip(operations[::3], operations[1::3], strict=True))
    assert {operation.cell for operation in operations[2::3]} == {AGAIN}


def test_every_cell_comes_once_before_any_comes_again():
    assert sorted(operation.cell for operation in planned()[::3]) == sorted(CELLS)
    assert EXPIRY in {operation.cell for operation in planned(Fencing(expiry_s=5))}


def test_a_transaction_aborts_only_where_the_cell_is_about_an_abort():
    assert {operation.cell for operation in planned() if operation.intent == "abort"} == {f"{moment} abort" for moment in MOMENTS}


@pytest.mark.parametrize("call", ["begin", "send", "flush", "send_offsets", "commit", "abort"])
def test_a_rival_takes_over_once_before_or_after_the_call(call):
    for moment in ("before", "after"):
        client = Watched()
        performed(f"{moment} {call}", client, "abort" if call == "abort" else "commit")
        taken = ["initialise " + f"{moment} {call}", f"txn {RIVAL}"]
        at = client.calls.index(call)
        start = at - 2 if moment == "before" else at + 1
        assert client.calls[start : start + 2] == taken
        assert sum(name.startswith("initialise") for name in client.calls) == 1


def test_during_a_call_a_rival_takes_over_in_a_thread_that_the_call_outlives_or_not():
    client = Watched()
    performed("during commit", client)
    assert {"commit", "initialise during commit", f"txn {RIVAL}"} <= set(client.calls)


def test_a_rival_takes_over_although_the_call_fails():
    client = Watched({"commit": [error("commit", fatal=True)]})
    outcome, _ = performed("after commit", client)
    assert outcome is Outcome.INFO
    assert client.calls[-2:] == ["initialise after commit", f"txn {RIVAL}"]


def test_a_fenced_instance_goes_on_in_the_same_process():
    """Its next transaction has to be refused too: the process ends only where no new instance can be made."""
    client = Watched({"commit": [error("commit", "_FENCED", fatal=True)]})
    outcome, op = performed("before commit", client)
    assert (outcome, op.renew) == (Outcome.INFO, False)


def test_a_neighbour_has_another_id_and_a_burst_is_five_instances():
    client = Watched()
    performed("neighbour", client)
    assert client.suffix == OTHER_ID
    performed("burst", client := Watched())
    assert client.calls.count("initialise burst") == 5


def test_a_rival_that_cannot_initialise_writes_nothing():
    client = Watched(outcome=Outcome.INFO)
    op = Operation.of(5, 7, PlannedOperation(f="txn", mops=(("send", "t-0"),), intent="commit", cell="before send"))
    op.rivals = client.rivals
    take_over(op)
    assert client.calls == ["initialise before send"]


def test_idling_waits_for_the_records_then_beyond_the_timeout(monkeypatch):
    slept = []
    monkeypatch.setattr("fencepost.workloads.fencing.time.sleep", slept.append)
    client = Watched()
    performed("idle", client)
    assert (client.calls[-2:], slept) == (["flush", "commit"], [2.0])


def test_an_initialise_names_its_cell_and_ends_the_process_when_it_fails():
    op = Operation.of(5, 7, PlannedOperation(f="initialise", mops=(), cell="alone"))
    assert WORKLOAD.perform(op, FakeClient(), "run1") is Outcome.OK
    assert (op.value, op.renew) == ({"cell": "alone"}, False)
    op = Operation.of(5, 8, PlannedOperation(f="initialise", mops=(), cell="alone"))
    assert WORKLOAD.perform(op, FakeClient({"initialise": [error("initialise")]}), "run1") is Outcome.INFO
    assert op.renew


class Operator:
    """Notes in a client's list of calls what it is asked for."""

    def __init__(self, client, finished=Outcome.OK, topic="doomed-1"):
        self.client, self.finished, self.topic = client, finished, topic

    def reserve(self):
        self.client.calls.append("reserve")
        return True

    def strike(self, kind, lasts_s=0.0, **options):
        self.client.calls.append(f"{kind} {options['target']}")
        return True

    def make_topic(self):
        return self.topic

    def delete_topic(self, name):
        self.client.calls.append(f"delete {name}")
        return True

    def finish(self, commit):
        self.client.calls.append(f"finish {commit}")
        return self.finished


def operated(cell, finished=Outcome.OK, intent="commit"):
    client = Watched()
    op = Operation.of(5, 7, PlannedOperation(f="txn", mops=(("send", "t-0"),), intent=intent, cell=cell))
    op.rivals, op.operator = client.rivals, Operator(client, finished)
    return WORKLOAD.perform(op, client, "run1"), op, client.calls


@pytest.mark.parametrize(
    ("cell", "struck"),
    [
        ("fence before commit", "fence-producers id:{id}"),
        ("move before send", "move-coordinator coordinator:{id}"),
        ("kill before abort", "kill coordinator:{id}"),
    ],
)
def test_the_cluster_is_struck_right_before_a_call_and_the_strike_is_reserved_before_the_transaction(cell, struck):
    call = cell.rpartition(" ")[2]
    _, op, calls = operated(cell, intent="abort" if call == "abort" else "commit")
    assert calls[:2] == ["reserve", "begin"]
    assert calls[calls.index(call) - 1] == struck
    assert sum(name == struck for name in calls) == 1
    assert not any(name.startswith("initialise") for name in calls)
    assert op.renew is False


def test_another_process_finishes_what_was_flushed_and_the_producer_is_of_no_use_any_more():
    outcome, op, calls = operated("finish")
    assert (outcome, op.renew, calls) == (Outcome.OK, True, ["begin", "send", "flush", "finish True"])
    assert op.decided is not None


def test_another_process_commits_nothing_of_which_a_record_was_given_up():
    """The commit of a client's own would fail then; one by EndTxn would not, and the record look lost."""
    client = Watched({"deliver": [error("deliver", "TimeoutException", abortable=True)]})
    op = Operation.of(5, 7, PlannedOperation(f="txn", mops=(("send", "t-0"),), intent="commit", cell="finish"))
    op.rivals, op.operator = client.rivals, Operator(client)
    assert WORKLOAD.perform(op, client, "run1") is Outcome.FAIL
    assert client.calls == ["begin", "send", "flush", "abort"]
    assert op.renew


def test_a_commit_by_another_process_that_is_not_known_to_have_succeeded_is_unknown():
    outcome, op, _ = operated("finish", Outcome.INFO)
    assert (outcome, op.renew) == (Outcome.INFO, True)
    assert [(raised["call"], raised["name"]) for raised in op.errors] == [("commit", "UNKNOWN")]


def test_a_topic_is_deleted_when_its_record_is_there_and_before_the_commit():
    outcome, op, calls = operated("delete")
    assert (outcome, op.renew, len(op.value)) == (Outcome.OK, False, 1)
    assert calls == ["begin", "send", "send", "flush", "delete doomed-1", "commit"]


def test_without_a_topic_to_delete_the_transaction_is_an_ordinary_one():
    client = Watched()
    op = Operation.of(5, 7, PlannedOperation(f="txn", mops=(("send", "t-0"),), intent="commit", cell="delete"))
    op.rivals, op.operator = client.rivals, Operator(client, topic="")
    assert WORKLOAD.perform(op, client, "run1") is Outcome.OK
    assert client.calls == ["begin", "send", "commit"]


def test_what_happens_at_calls_adds_cells_and_needs_an_operator():
    workload = Fencing(at_calls="kill, finish")
    added = set(workload.cells) - set(CELLS)
    assert added == {*(f"kill {moment} {call}" for moment in FAULT_MOMENTS for call in FAULT_CALLS), "finish"}
    assert [role.operator for role in workload.roles()] == [role.transactional for role in workload.roles()]
    assert not any(role.operator for role in WORKLOAD.roles())
    with pytest.raises(ValueError, match="there are fence, move, kill, finish, delete"):
        Fencing(at_calls="kil")


def test_only_some_cells_can_be_selected_and_unknown_ones_are_refused():
    assert Fencing(only="idle, before commit").cells == ("idle", "before commit")
    with pytest.raises(ValueError, match="no cell of that name"):
        Fencing(only="before comit")
    with pytest.raises(ValueError, match="no cell of that name"):
        Fencing(only="expiry")


def test_without_some_calls_their_cells_are_left_out_and_no_offsets_are_committed():
    all_cells, fewer = Fencing(at_calls="kill"), Fencing(at_calls="kill", without="send_offsets, begin")
    assert [cell for cell in all_cells.cells if not cell.endswith((" send_offsets", " begin"))] == list(fewer.cells)
    for workload, needs in ((all_cells, ("offsets-in-transactions",)), (fewer, ())):
        assert {role.needs for role in workload.roles() if role.transactional} == {needs}
    with pytest.raises(ValueError, match="no call of that name"):
        Fencing(without="sned")
    with pytest.raises(ValueError, match="no cell is left"):
        Fencing(only="before send_offsets", without="send_offsets")
