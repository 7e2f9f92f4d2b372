"""The pipeline: what a member makes of a poll, and what it does when a transaction does not commit."""

from random import Random

import pytest

from fencepost.harness.api import Member, Operation, Outcome, PlannedOperation, Polled, Reader, Writer
from fencepost.harness.perform.plan_roles import consumer_settings_of, coordinated
from fencepost.workloads.pipeline import Pipeline
from fencepost.workloads.support import record_format
from fencepost.workloads.testing.fake_client import FakeClient, error, perform

MEMBER = Member(group="pipeline", topics=("in",))
PARTITIONS = ["in-0", "in-1", "out-0", "out-1"]


def records(*places):
    """Input records at these places, as a consumer returns them, all of process 0."""
    return [
        Polled(partition, offset, record_format.encode("run1", 0, offset, 0, partition, "commit", 50))
        for partition, offset in places
    ]


def member(workload, *places):
    """A member's generator, and the transaction that it plans after a poll of these records."""
    plans = workload.operations(MEMBER, PARTITIONS, Random(1))
    poll = next(plans)
    assert (poll.f, poll.limit) == ("poll", workload.batch)
    outcome, op = perform(workload, poll, FakeClient(polled=[records(*places)]))
    op.outcome = outcome
    return plans, plans.send(op)


def ended(planned, outcome, *, renew=False):
    """A transaction that ended so."""
    op = Operation.of(2, 1, planned)
    op.outcome, op.renew = outcome, renew
    return op


def test_a_transaction_has_each_input_its_outputs_and_the_next_offsets():
    _, planned = member(Pipeline(outputs=(2, 2), abort_share=0.0), ("in-0", 5), ("in-0", 7), ("in-1", 3))
    assert [mop[:3] if mop[0] != "send" else mop[0] for mop in planned.mops] == [
        ("input", "in-0", 5), "send", "send",
        ("input", "in-0", 7), "send", "send",
        ("input", "in-1", 3), "send", "send",
        ("offset", "in-0", 8), ("offset", "in-1", 4),
    ]  # fmt: skip
    assert {mop[1] for mop in planned.mops if mop[0] == "send"} <= {"out-0", "out-1"}
    assert (planned.f, planned.intent) == ("txn", "commit")


def test_an_empty_poll_is_followed_by_another():
    _, planned = member(Pipeline())
    assert planned.f == "poll"


@pytest.mark.parametrize(
    ("outcome", "renew", "following"),
    [(Outcome.OK, False, "poll"), (Outcome.FAIL, False, "seek"), (Outcome.FAIL, True, "poll"), (Outcome.INFO, True, "poll")],
)
def test_a_member_seeks_back_after_an_abort_unless_another_process_follows(outcome, renew, following):
    plans, planned = member(Pipeline(abort_share=0.0), ("in-0", 5), ("in-0", 7), ("in-1", 3))
    after = plans.send(ended(planned, outcome, renew=renew))
    assert after.f == following
    assert after.positions == ({"in-0": 5, "in-1": 3} if following == "seek" else {})


def test_a_member_that_knows_nothing_of_its_commit_goes_on_at_the_groups_offsets():
    """What was committed must not be read again; a partition without a committed offset is read from where the batch began."""
    plans, planned = member(Pipeline(), ("in-0", 5), ("in-1", 3))
    asking = plans.send(ended(planned, Outcome.INFO))
    assert (asking.f, asking.partitions) == ("committed", ("in-1", "in-0"))
    again = plans.send(ended(asking, Outcome.FAIL))
    assert again == asking
    answered = ended(again, Outcome.OK)
    answered.value = {"offsets": {"in-0": 6, "in-1": None}}
    seeking = plans.send(answered)
    assert (seeking.f, seeking.positions) == ("seek", {"in-0": 6, "in-1": 3})
    assert plans.send(ended(seeking, Outcome.OK)).f == "poll"


def test_a_member_that_is_replaced_while_it_asks_seeks_nowhere():
    plans, planned = member(Pipeline(), ("in-0", 5))
    asking = plans.send(ended(planned, Outcome.INFO))
    assert plans.send(ended(asking, Outcome.FAIL, renew=True)).f == "poll"


def test_without_seek_back_a_member_reads_on():
    plans, planned = member(Pipeline(seek_back=False), ("in-0", 5))
    assert plans.send(ended(planned, Outcome.FAIL)).f == "poll"


@pytest.mark.parametrize(
    ("offsets", "calls"),
    [
        ("transaction", ["begin", "send", "send_offsets", "commit"]),
        ("before", ["commit_offsets", "begin", "send", "commit"]),
        ("after", ["begin", "send", "commit", "commit_offsets"]),
    ],
)
def test_offsets_are_committed_where_the_option_says(offsets, calls):
    workload = Pipeline(outputs=(1, 1), abort_share=0.0, offsets=offsets, think_ms=0)
    _, planned = member(workload, ("in-0", 5))
    client = FakeClient()
    outcome, _ = perform(workload, planned, client)
    assert (outcome, client.calls, client.offsets) == (Outcome.OK, calls, [{"in-0": 6}])


@pytest.mark.parametrize(("group_metadata", "named"), [(True, True), (False, False)])
def test_offsets_are_added_under_the_members_name_unless_the_option_says_otherwise(group_metadata, named):
    workload = Pipeline(outputs=(1, 1), abort_share=0.0, think_ms=0, group_metadata=group_metadata)
    _, planned = member(workload, ("in-0", 5))
    client = FakeClient()
    perform(workload, planned, client)
    assert ["member_id" in group for group in client.groups] == [named]


def test_offsets_without_a_member_need_a_client_that_can_do_that():
    assert {role.needs for role in Pipeline(group_metadata=False).roles() if role.group} == {("memberless-offsets",)}


def test_processes_of_a_member_may_have_transactional_ids_of_their_own():
    assert {role.new_ids for role in Pipeline().roles()} == {False}
    assert {role.name for role in Pipeline(new_ids=True).roles() if role.new_ids} == {"member"}


def test_offsets_that_are_refused_abort_the_transaction():
    workload = Pipeline(outputs=(1, 1), abort_share=0.0, think_ms=0)
    _, planned = member(workload, ("in-0", 5))
    client = FakeClient({"send_offsets": [error("send_offsets", "ILLEGAL_GENERATION", abortable=True)]})
    outcome, op = perform(workload, planned, client)
    assert (outcome, op.renew, client.calls[-1]) == (Outcome.FAIL, False, "abort")


def test_a_member_that_cannot_seek_is_replaced():
    client = FakeClient({"seek": [error("seek", "_STATE")]})
    outcome, op = perform(Pipeline(), PlannedOperation(f="seek", mops=(), positions={"in-0": 5}), client)
    assert (outcome, op.renew, op.value) == (Outcome.FAIL, True, {"positions": {"in-0": 5}})


def test_writers_write_input_and_readers_read():
    workload = Pipeline()
    first = next(workload.operations(Writer(transactional=True), PARTITIONS, Random(1)))
    assert {mop[1].rpartition("-")[0] for mop in first.mops} == {"in"}
    assert next(workload.operations(Reader(), PARTITIONS, Random(1))).f == "poll"


def test_offsets_outside_the_transaction_need_a_client_that_can_do_that():
    assert {role.needs for role in Pipeline(offsets="after").roles() if role.group} == {("offset-commits",)}
    assert {role.needs for role in Pipeline().roles()} == {()}


def test_observers_ask_for_the_groups_offsets_of_the_input_and_never_join():
    workload = Pipeline(observers=2)
    observers = [role for role in workload.roles() if not role.joins]
    assert [(role.name, role.group, role.transactional) for role in observers] == [("reader", "pipeline", False)] * 2
    plans = workload.operations(observers[0], PARTITIONS, Random(1))
    fetches = [next(plans) for _ in range(2)]
    assert {(plan.f, *plan.partitions) for plan in fetches} == {("committed", "in-0", "in-1")}
    outcome, op = perform(workload, fetches[0], FakeClient())
    assert (outcome, op.value) == (Outcome.OK, {"offsets": {"in-0": None, "in-1": None}})


def test_producers_of_a_member_take_turns_after_commits_alone():
    plans, planned = member(Pipeline(producers_per_member=2, abort_share=0.0, look_share=0.0), ("in-0", 5))
    turns = []
    for outcome in (Outcome.OK, Outcome.FAIL, Outcome.OK, Outcome.OK):
        turns.append(planned.producer)
        following = plans.send(ended(planned, outcome))
        while following.f != "poll":
            following = plans.send(ended(following, Outcome.OK))
        _, op = perform(Pipeline(), following, FakeClient(polled=[records(("in-0", 5))]))
        op.outcome = Outcome.OK
        planned = plans.send(op)
    assert turns == [0, 1, 1, 0]


def test_the_one_whose_turn_it_is_makes_the_transaction_for_the_members_consumer():
    consumer, other = FakeClient(), FakeClient()
    consumer.group = lambda: "the member's"
    planned = PlannedOperation(f="txn", mops=(("send", "out-0"), ("offset", "in-0", 6)), intent="commit", producer=1)
    op = Operation.of(2, 1, planned)
    op.producers = (consumer, other)
    assert Pipeline().perform(op, consumer, "run1") is Outcome.OK
    assert (consumer.calls, other.calls) == ([], ["begin", "send", "send_offsets", "commit"])
    assert other.groups == ["the member's"]


def test_each_producer_of_a_member_has_a_transactional_id_that_faults_know():
    (first, *_) = [role for role in Pipeline(producers_per_member=3).roles() if role.name == "member"]
    noted = coordinated({"prefix": "fp-"}, (first,))
    assert noted["transactional_ids"] == ["fp-0", "fp-0-p1", "fp-0-p2"]


def test_observers_have_the_settings_of_the_client_that_reads_and_members_their_own():
    plan = {"client": {"members": {"session_timeout_ms": 1}, "consumer": {"fetch.wait.max.ms": 2}}}
    roles = {(role.name, role.joins): role for role in Pipeline(observers=1).roles()}
    assert consumer_settings_of(plan, roles["member", True]) == {"session_timeout_ms": 1}
    assert consumer_settings_of(plan, roles["reader", False]) == {"fetch.wait.max.ms": 2}
    assert consumer_settings_of(plan, roles["reader", True]) == {"fetch.wait.max.ms": 2}
