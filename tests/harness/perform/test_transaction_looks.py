"""The questions about open transactions: what is recorded of each, and when they end."""

from __future__ import annotations

import itertools
import json

import pytest

from fencepost.harness.api import ClusterError, CoordinatedTransaction, ListingTransactions, OpenTransaction, TransactionListing
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform import transaction_looks
from fencepost.harness.perform.transaction_looks import TransactionLooks, slices

ONGOING = CoordinatedTransaction(
    transactional_id="id", producer_id=7, epoch=0, state="Ongoing", timeout_ms=6000, partitions=("t-0",)
)
OVER = CoordinatedTransaction(transactional_id="other", producer_id=8, epoch=-1, state="CompleteCommit")
OPEN = OpenTransaction(partition="t-0", producer_id=8, epoch=0, offset=5)
NONE = TransactionListing(coordinated=(OVER,), opened=())


class Cluster:
    """Gives one answer after the other; the last one for ever."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []

    def transaction_listing(self, partitions):
        self.requests.append(list(partitions))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def looks(tmp_path, monkeypatch):
    """Makes the questions of a run to a cluster, and what they left in the history."""
    monkeypatch.setattr(transaction_looks, "EVERY_S", 0.001)
    path = tmp_path / "harness.jsonl"

    def made(*answers, partitions=("t-0",)):
        writer = HistoryWriter(path, run="r", slot=-1, node="harness", role="harness", pid=1)
        numbers = itertools.count()
        return TransactionLooks(Cluster(*answers), partitions, writer, lambda: next(numbers))

    made.recorded = lambda: [json.loads(line) for line in path.read_text().splitlines() if '"value":{"' in line]
    return made


def test_of_transactions_that_are_over_only_those_with_something_open_are_recorded(looks):
    looks(TransactionListing(coordinated=(ONGOING, OVER), opened=(OPEN,))).ask(["t-0"], lambda: 0)
    (line,) = looks.recorded()
    assert (line["type"], line["f"], line["process"]) == ("ok", "list-transactions", -1)
    assert [transaction["transactional_id"] for transaction in line["value"]["transactions"]] == ["id", "other"]
    assert line["value"]["open"] == [{"partition": "t-0", "producer_id": 8, "epoch": 0, "offset": 5}]
    looks(TransactionListing(coordinated=(OVER,), opened=())).ask(["t-0"], lambda: 0)
    assert looks.recorded()[-1]["value"]["transactions"] == []


@pytest.mark.parametrize("answer", [TransactionListing(coordinated=(), opened=(), silent=("n2",)), ClusterError("nobody")])
def test_an_answer_that_is_not_whole_is_of_unknown_outcome(looks, answer):
    looks(answer).ask(["t-0"], lambda: 0)
    assert looks.recorded()[-1]["type"] == "info"
    assert looks.recorded()[-1]["value"]["silent"]


def test_a_fault_that_began_meanwhile_leaves_no_quiet_time(looks):
    since = iter([0, None, None, 0, 0])
    made = looks(NONE)
    for _ in range(3):
        made.ask(["t-0"], lambda: next(since))
    quiet = [line["value"]["quiet_s"] for line in looks.recorded()]
    assert quiet[:2] == [0.0, 0.0]
    assert quiet[2] > 0


def test_it_asks_until_nothing_is_open(looks):
    busy = TransactionListing(coordinated=(ONGOING,), opened=())
    made = looks(busy, TransactionListing(coordinated=(), opened=(), silent=("t-0",)), NONE)
    assert made.ask_until_none(0, 1 << 62)
    assert len(made.cluster.requests) == 3
    assert not looks(busy).ask_until_none(0, 0)


def test_a_thread_asks_until_it_is_stopped(looks):
    made = looks(NONE, partitions=tuple(f"t-{n}" for n in range(250)))
    thread = made.ask_through(lambda: 0)
    made.stop(thread)
    assert not thread.is_alive()
    assert made.cluster.requests[0] == [f"t-{n}" for n in range(200)]


def test_an_error_that_no_answer_explains_ends_the_questions_and_is_recorded(looks):
    made = looks(NONE, TypeError("a bug of ours"))
    thread = made.ask_through(lambda: 0)
    thread.join(60)
    assert not thread.is_alive()
    assert made.problem == "TypeError: a bug of ours"
    assert [line["value"].get("ended") for line in looks.recorded()] == [None, made.problem]
    assert looks.recorded()[-1]["type"] == "info"
    assert not looks(TypeError("a bug of ours")).ask_until_none(0, 1 << 62)


def test_a_history_that_cannot_be_written_ends_the_questions_too(looks):
    made = looks(NONE)
    made.writer.close()
    made.ask_through(lambda: 0).join(60)
    assert "Bad file descriptor" in made.problem


def test_many_partitions_take_turns():
    assert [len(some) for some in itertools.islice(slices([f"t-{n}" for n in range(250)]), 3)] == [200, 50, 200]
    assert next(slices([])) == []


def test_a_cluster_shows_by_its_class_that_it_can_list_transactions():
    from fencepost.clusters.kafka.cluster import KafkaCluster
    from fencepost.clusters.redpanda.cluster import RedpandaCluster

    assert issubclass(KafkaCluster, ListingTransactions)
    assert not isinstance(object.__new__(RedpandaCluster), ListingTransactions)
