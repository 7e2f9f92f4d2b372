"""The kit for drivers on a real broker: liars of which a journal in a file cannot tell (groups, requests, timeouts)."""

from __future__ import annotations

import sys

import pytest

from fencepost.harness.conformance import client_kit
from fencepost.harness.conformance.client_groups import IN_GROUPS
from fencepost.harness.conformance.client_wire import ON_WIRE
from fencepost.harness.plugins import scaffold

LIES = {  # a liar: the story that finds it out, words of what is seen, and what it does
    "reports one record in 30 when it is sent": (
        "many answers",
        "records were answered before the broker had them",
        """
    early = frozenset()

    def send(self, request):
        if request["record"] % 30 == 0:
            super().delivered(request["record"], None, None)
            self.early |= {request["record"]}
        return super().send(request)

    def delivered(self, record, partition, offset):
        record in self.early or super().delivered(record, partition, offset)
""",
    ),
    "answers one commit in 30 and makes it later": (
        "many answers",
        "commits were answered before the broker had them",
        """
    commits, due = 0, None

    def commit(self, request):
        self.commits += 1
        if self.commits % 30:
            return super().commit(request)
        self.due = request

    def _answer(self, request):
        if self.due:
            due, self.due = self.due, None
            super().commit(due)
        return super()._answer(request)
""",
    ),
    "leaves out the transaction's timeout": (
        "settings on the wire",
        "transaction.timeout.ms = 23000 was given, and 60000 is asked for",
        """
    def open(self, request):
        (request["producer"] or {}).pop("transaction.timeout.ms", None)
        return super().open(request)
""",
    ),
    "waits for one replica": (
        "settings on the wire",
        "acks = all was given, and 1 is asked for",
        """
    def open(self, request):
        if request["producer"] and not request["transactional_id"]:
            request["producer"].update({"acks": "1", "enable.idempotence": False})
        return super().open(request)
""",
    ),
    "keeps the isolation level of its first reader": (
        "settings on the wire",
        "isolation.level = read_committed was given, and 0 is asked for",
        """
    level = None

    def open(self, request):
        if request["consumer"]:
            self.level = self.level or request["consumer"]["isolation.level"]
            request["consumer"]["isolation.level"] = self.level
        return super().open(request)
""",
    ),
    "lets transactions live on": (
        "transaction timeout",
        "a transaction with transaction.timeout.ms = 3000 is still open after 20 s",
        """
    def open(self, request):
        (request["producer"] or {}).pop("transaction.timeout.ms", None)
        return super().open(request)
""",
    ),
    "tells no revocation": (
        "rebalance",
        "after the second one has joined, the members of a group are told ['g-0', 'g-1', 'g-2'] and",
        """
    def rebalanced(self, kind, partitions):
        kind == "assigned" and super().rebalanced(kind, partitions)
""",
    ),
    "keeps what it has fetched when partitions move": (
        "rebalance",
        "return no record of a partition after its revocation was told",
        """
    held = ()

    def poll(self, request):
        answer = super().poll({**request, "limit": 1000})
        rows, limit = [*self.held, *answer["records"]], request["limit"]
        self.held = rows[limit:]
        return {**answer, "records": rows[:limit]}
""",
    ),
    "reads each partition that it is assigned from the start": (
        "group positions",
        ", where the group stands at",
        """
    def subscribe(self, request):
        def assigned(consumer, places):
            self.rebalanced("assigned", [f"{tp.topic}-{tp.partition}" for tp in places])
            consumer.assign([ck.TopicPartition(tp.topic, tp.partition, ck.OFFSET_BEGINNING) for tp in places])

        self.consumer.subscribe(request["topics"], on_assign=assigned)
""",
    ),
    "begins at the end of partitions without an offset": (
        "group positions",
        "records come within 30 s",
        """
    def open(self, request):
        (request["consumer"] or {})["auto.offset.reset"] = "latest"
        return super().open(request)
""",
    ),
    "names the group alone to the broker": (
        "former member",
        "offsets with it are committed after it",
        """
    def group(self, request):
        answer = super().group(request)
        stranger = ck.Consumer({**self.common(), "group.id": self.settings["group"]})
        self.members[-1] = stranger.consumer_group_metadata()
        stranger.close()
        return answer
""",
    ),
    "claims offset commits and makes none": (
        "commit offsets",
        "after 1 commits the harness' own client is answered",
        """
    capabilities = [*Honest.capabilities, "offset-commits"]

    def commit_offsets(self, request):
        return None
""",
    ),
    "claims to leave and stays a member": (
        "leave",
        "after the only other one has left, the members of a group are told []",
        """
    kept = ()

    def leave(self, request):
        if self.producer is not None:
            self.flush(request)
        self.kept, self.producer, self.consumer = (*self.kept, self.consumer), None, None
""",
    ),
    "commits what it has polled": (
        "many offsets",
        "is committed of g-",
        """
    def open(self, request):
        super().open(request)
        if self.consumer is not None:
            self.consumer.close()
            own = {"group.id": request["group"], "auto.commit.interval.ms": 100, "enable.partition.eof": True}
            self.consumer = ck.Consumer({**self.common(), **own, "auto.offset.reset": "earliest"})
""",
    ),
    "starts a process with each opening": (
        "many fencings",
        "child processes more than before",
        """
    def open(self, request):
        self.started = [*getattr(self, "started", ()), subprocess.Popen(["sleep", "1000"])]
        return super().open(request)
""",
    ),
    "acknowledges after a second whatever the broker": (
        "silent brokers",
        "was acknowledged while no broker answered",
        """
    under_way = frozenset()

    def send(self, request):
        self.under_way |= {request["record"]}
        return super().send(request)

    def delivered(self, record, partition, offset):
        if record in self.under_way:
            self.under_way -= {record}
            super().delivered(record, partition, offset)

    def flush(self, request):
        try:
            return super().flush({**request, "timeout_ms": 1000})
        except Failure:
            for record in self.under_way:
                super().delivered(record, None, None)
            self.under_way = frozenset()
            raise
""",
    ),
    "makes a commit that failed again in another transaction": (
        "recovery",
        "4 records of 2 can be read",
        """
    def begin(self, request):
        self.batch, self.failed = [], False
        return super().begin(request)

    def send(self, request):
        self.batch.append(request)
        return super().send(request)

    def commit(self, request):
        if self.failed:
            self.drop_producer()
            self.make_producer(10)
            self.producer.begin_transaction()
            for one in self.batch:
                self.producer.produce(one["topic"], value=bytes_of(one["value"]), partition=one["partition"])
        try:
            return super().commit(request)
        except Failure:
            self.failed = True
            raise
""",
    ),
    "chooses the first partition": (
        "partitioner",
        "records of 20 keys lie in t-0 alone",
        """
    def send(self, request):
        return super().send({**request, "partition": request["partition"] or 0})
""",
    ),
}
HONEST = {  # an unusual driver: the stories that it has to pass, and what it does
    "reports in batches, right before the answer": (
        ("abort", "silent brokers", "leave", *ON_WIRE),
        """
    held = ()

    def delivered(self, record, partition, offset):
        self.held = (*self.held, (record, partition, offset))

    def _answer(self, request):
        answer = super()._answer(request)
        if request["call"] in ("flush", "commit", "abort", "leave"):
            held, self.held = self.held, ()
            for one in held:
                super().delivered(*one)
        return answer
""",
    ),
    "has no headers, groups and levels": (
        ("commit", "abort", "read", "fenced", "open transaction", "positions", "settings on the wire"),
        """
    capabilities = ["transactions", "idempotence", "assign", "ends", "seek"]

    def send(self, request):
        assert not request["headers"]
        return super().send(request)
""",
    ),
    "thinks before each answer": (
        ("commit", "fenced", "open transaction", "positions", *IN_GROUPS),
        """
    def _answer(self, request):
        time.sleep(0.3)
        return super()._answer(request)
""",
    ),
}
HEAD = f"""#!{sys.executable}
import subprocess
import time

import confluent_kafka as ck
from fencepost_driver import bytes_of
from honest import Failure, Honest


class Liar(Honest):"""


def played(tmp_path, what, stories):
    """The results of a driver's stories."""
    scaffold.new("client", "honest", tmp_path)
    program = tmp_path / "liar.py"
    program.write_text(f"{HEAD}\n{what}\n\nLiar().serve()\n")
    program.chmod(0o755)
    results, _ = client_kit.check(str(program), stories, "", lambda _: None)
    return {result.story: result for result in results}


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_found_and_its_lie_named(tmp_path, lie):
    story, words, what = LIES[lie]
    result = played(tmp_path, what, (story,))[story]
    assert result.ok is False, result
    assert words in f"{result.seen}; {result.change}"


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.parametrize("driver", HONEST)
def test_an_honest_driver_that_is_unlike_others_is_accused_of_nothing(tmp_path, driver):
    stories, what = HONEST[driver]
    results = played(tmp_path, what, stories)
    assert {story: result.seen for story, result in results.items() if result.ok is False} == {}
