"""The stories of many operations: faults of a driver that strike one operation in hundreds (docs/client-drivers.md).

Each story performs as many operations as it names, or as many as its time allows; too few are no answer. What they show,
and under which model, is in `client_ledger`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from fencepost.harness.api import CallError, Client, Isolation, Outgoing, Polled
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    GROUP_TOPIC,
    MARKERS_S,
    PARTITIONS,
    READ_S,
    TOPIC,
    TRANSACTIONAL,
    ClientFixture,
    TooFew,
    demand,
    fresh_values,
)
from fencepost.harness.conformance.client_ledger import CONFIDENCE, Ledger, sensitivity

MANY: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "many transactions": (
        "of 1,200 commits and 1,200 aborts each is what was called, and each record is where it was reported",
        ("transactions",),
    ),
    "many records": ("2,400 records without transactions are there once, in order, where they were reported", ("idempotence",)),
    "many reads": ("of 3,000 records in small polls each is read once, in order, as it was sent", ("assign", "ends")),
    "many seeks": ("after each of 160 seeks the record there comes next, and the position says so", ("assign", "seek")),
    "many offsets": (
        "in 160 transactions the offsets of each committed one are committed, and of no aborted one",
        ("transactions", "groups", "offsets-in-transactions"),
    ),
    "many fencings": ("of 160 producers whose id another took each is refused, and commits nothing", ("transactions",)),
}
T = TypeVar("T")
IDEMPOTENT = {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 15_000}


@dataclass(frozen=True)
class Plan:
    """How much the stories of many operations perform.

    transactions: half of them are aborted, at random.
    records: without transactions.
    reads: records that are read at least.
    seeks, offsets, fencings: how often.
    most_s: what a story may take; one that has performed less by then has no answer.
    """

    transactions: int = 2400
    records: int = 2400
    reads: int = 3000
    seeks: int = 160
    offsets: int = 160
    fencings: int = 160
    most_s: float = 180.0


class RepeatedStories(ClientFixture):
    """Plays the stories of many operations.

    many: how much they perform.
    capabilities: the driver's; without `headers`, records have none.
    """

    many = Plan()
    capabilities: frozenset[str] = frozenset()

    def story_many_transactions(self) -> str:
        committed, aborted, ends = Ledger(), Ledger(), {"commit": 0, "abort": 0}
        planned = _shuffled(self.many.transactions)
        with self._writer() as client:
            for end in self._while_time(planned):
                self._call(client, "begin")
                ledger = committed if end == "commit" else aborted
                for value in fresh_values(end, 2 if end == "commit" else 1):
                    self._sent(client, ledger, value)
                self._call(client, "flush", CALL_S)
                self._call(client, end, CALL_S)
                ends[end] += 1
        seen = self._observed()
        committed.compare(seen)
        wrong = aborted.visible(seen)
        text = f"{len(wrong)} of {len(aborted)} aborted records are visible; the first: {wrong and wrong[0].record.value!r}"
        demand(not wrong, text, "call the client's own abort, and answer its errors")
        aborted.compare(self._observed(Isolation.UNCOMMITTED), reported=False)
        counts = sensitivity(records=len(committed), commits=ends["commit"], aborts=ends["abort"])
        return self._answered(counts, sum(ends.values()), len(planned))

    def story_many_records(self) -> str:
        ledger = Ledger()
        with self._client(self._settings(IDEMPOTENT, None)) as client:
            for number in self._while_time(range(1, self.many.records + 1)):
                self._sent(client, ledger, fresh_values("many", 1)[0])
                if number % 50 == 0:
                    self._call(client, "flush", CALL_S)
            self._call(client, "flush", CALL_S)
        ledger.compare(self._observed())
        return self._answered(sensitivity(records=len(ledger)), len(ledger), self.many.records)

    def story_many_reads(self) -> str:
        own = self._at_least(self.many.reads)
        with self._reader() as client:
            read, polls = self._read_in_small_polls(client, len(own))
        for partition in PARTITIONS:
            given, wanted = ([one for one in records if one.partition == partition] for records in (read, own))
            _demand_same(partition, given, wanted)
        return self._answered(sensitivity(records=len(read), polls=polls), len(read), self.many.reads)

    def _at_least(self, count: int) -> list[Polled]:
        """All records of the topic, as the harness' own client reads them, after it has written what is lacking."""
        lacking = count - len(self._observed())
        if lacking > 0:
            self._fill(lacking)
        return self._observed()

    def _read_in_small_polls(self, client: Client, count: int) -> tuple[list[Polled], int]:
        """What a client reads from the start to the ends, or until it has read half as much again; the number of polls."""
        rng, records, polls = Random(0), list[Polled](), 0
        self._start_clock()
        self._call(client, "assign", dict.fromkeys(PARTITIONS, "start"))
        deadline = time.monotonic() + self.many.most_s
        while not client.ends().keys() >= set(PARTITIONS) and len(records) < 1.5 * count + 10:
            records += self._call(client, "poll", 0.2, rng.randint(1, 9))
            polls += 1
            change = "name a partition in `ends` when the position has passed the markers behind its last record"
            demand(time.monotonic() < deadline, f"{len(records)} of {count} records in {self.many.most_s:.0f} s", change)
        return records, polls

    def story_many_seeks(self) -> str:
        rng = Random(0)
        own = [record for record in self._at_least(100) if record.partition == PARTITIONS[0]]
        with self._reader() as client:
            self._call(client, "assign", {PARTITIONS[0]: "start"})
            self._next(client)  # not all clients seek before they have fetched
            done = 0
            for _ in self._while_time(range(self.many.seeks)):
                number = rng.randrange(len(own) - 1)
                wanted = own[number]
                self._call(client, "seek", {PARTITIONS[0]: wanted.offset})
                first = self._next(client)
                text = f"after seek {done + 1}, to {wanted.offset}, comes {first.offset}"
                demand(first.offset == wanted.offset, text, "after seek, return nothing of what was fetched before")
                demand(first.value == wanted.value, f"{text} with another value", "values are base64 of the very bytes")
                at = self._call(client, "position", [PARTITIONS[0]])[PARTITIONS[0]]
                known = at is not None and wanted.offset < at <= own[number + 1].offset
                demand(known, f"{text}, and the position is {at}", "answer the offset of the next record of `poll`")
                done += 1
        return self._answered(sensitivity(seeks=done), done, self.many.seeks)

    def _next(self, client: Client) -> Polled:
        deadline = time.monotonic() + READ_S
        while not (records := self._call(client, "poll", 0.2, 1)):
            demand(time.monotonic() < deadline, f"no record within {READ_S:.0f} s", "return what there is")
        first: Polled = records[0]
        return first

    def story_many_offsets(self) -> str:
        rng, name, partition = Random(0), self._name(), f"{GROUP_TOPIC}-0"
        settings = self._settings(TRANSACTIONAL, Isolation.COMMITTED, name=name, transactional_id=name)
        isolation = {"isolation.level": Isolation.COMMITTED.value}
        unjoined = replace(settings, producer=None, transactional_id=None, consumer=isolation, shared_group=settings.group)
        own = self._observer(unjoined)
        own.open(CALL_S)
        expected, done = None, 0
        with self._client(settings) as client:
            self._joined(client)
            for end in self._while_time(_shuffled(self.many.offsets)):
                offset = rng.randrange(1, 1_000_000)
                self._call(client, "begin")
                self._sent(client, Ledger(), b"offsets")
                self._call(client, "flush", CALL_S)  # the markers of the transaction before are written by then
                self._demand_committed(client, own, partition, expected, done)
                self._call(client, "send_offsets", {partition: offset}, self._call(client, "group"), CALL_S)
                self._call(client, end, CALL_S)
                expected, done = offset if end == "commit" else expected, done + 1
                self._call(client, "poll", 0.0)
            self._await_offset(own, partition, expected)
            self._demand_committed(client, own, partition, expected, done)
        own.close()
        return self._answered(sensitivity(transactions=done), done, self.many.offsets)

    def _await_offset(self, own: Client, partition: str, expected: int | None) -> None:
        """Commit returns before its markers are written (KIP-98)."""
        deadline = time.monotonic() + MARKERS_S
        while own.committed([partition], CALL_S)[partition] != expected and time.monotonic() < deadline:
            time.sleep(0.1)

    def _demand_committed(self, client: Client, own: Client, partition: str, expected: int | None, number: int) -> None:
        """Raise Flaw unless both clients know this offset as the group's."""
        for reader, at in (
            ("the harness' own client", own.committed([partition], CALL_S)[partition]),
            ("the driver", self._call(client, "committed", [partition], CALL_S)[partition]),
        ):
            text = f"after {number} transactions {expected} is the last committed offset, and {reader} is answered {at}"
            demand(at == expected, text, "add the offsets to the transaction, and ask the group's coordinator each time")

    def story_many_fencings(self) -> str:
        name, survived, fenced, done = self._name(), Ledger(), Ledger(), 0
        with self._writer(name) as holder, self._writer(name) as challenger:
            first, second = holder, challenger
            for number in self._while_time(range(self.many.fencings)):
                if number:  # the first challenger has just been opened
                    second.close()
                    second.open(CALL_S)
                demand(
                    not self._succeeds(first, fenced),
                    f"the fenced producer's transaction {number} succeeded",
                    "pass on what the client says",
                )
                self._whole(second, survived, "fencing")
                first, second, done = second, first, done + 1
        seen = self._observed()
        survived.compare(seen)
        wrong = fenced.visible(seen)
        demand(not wrong, f"{len(wrong)} records of fenced producers can be read", "commit nothing after an error")
        return self._answered(sensitivity(fenced_producers=done), done, self.many.fencings)

    def _succeeds(self, client: Client, ledger: Ledger) -> bool:
        """Whether a transaction of a fenced producer is committed."""
        try:
            self._whole(client, ledger, "fenced")
        except CallError:
            return False
        return True

    def _whole(self, client: Client, ledger: Ledger, story: str) -> None:
        """A committed transaction of one record."""
        self._call(client, "begin")
        self._sent(client, ledger, fresh_values(story, 1)[0])
        self._call(client, "flush", CALL_S)
        self._call(client, "commit", CALL_S)

    def _sent(self, client: Client, ledger: Ledger, value: bytes) -> None:
        number = len(ledger)
        headers = (("number", b"%d" % number),) if "headers" in self.capabilities else ()
        record = Outgoing(topic=TOPIC, partition=number % 2, key=b"k%d" % (number % 7), value=value, headers=headers)
        self._call(client, "send", record, ledger.add(record))

    def _call(self, client: Client, name: str, *arguments: Any) -> Any:
        """Make a call; it must answer in its time."""
        with self._in_time(name):
            return getattr(client, name)(*arguments)

    def _start_clock(self) -> None:
        self._longest, self._began = (0.0, ""), time.monotonic()

    def _while_time(self, planned: Sequence[T]) -> Iterator[T]:
        """These, until the story's time is over."""
        self._start_clock()
        for item in planned:
            if time.monotonic() > self._began + self.many.most_s:
                return
            yield item

    def _answered(self, counts: str, performed: int, planned: int) -> str:
        """What was seen, in words. Raises TooFew when less was performed than planned."""
        took, (longest, call) = time.monotonic() - self._began, self._longest
        text = f"in {took:.0f} s {counts}; seen with {CONFIDENCE:.0%} at these rates; the longest call: {call}, {longest:.1f} s"
        if performed < planned:
            raise TooFew(f"nothing wrong, but only {performed:,} of {planned:,} operations: {text}")
        return text


def _shuffled(count: int) -> list[str]:
    """Commits and aborts, half of each, in an order that no period fits."""
    ends = ["commit", "abort"] * (count // 2)
    Random(0).shuffle(ends)
    return ends


def _demand_same(partition: str, given: Sequence[Polled], wanted: Sequence[Polled]) -> None:
    """Raise Flaw unless these are the same records in the same order."""
    number = next((at for at, (one, other) in enumerate(zip(given, wanted, strict=False)) if one.offset != other.offset), None)
    change = "return each visible record once, in the order of its partition"
    if number is not None:
        text = f"{partition}: record {number + 1} read is at offset {given[number].offset}, instead of {wanted[number].offset}"
        demand(False, text, change)
    demand(len(given) == len(wanted), f"{partition}: {len(given):,} records were read, there are {len(wanted):,}", change)
    wrong = [one for one, other in zip(given, wanted, strict=True) if _content(one) != _content(other)]
    text = f"{len(wrong)} records have other bytes than were sent, the first at {partition}@{wrong[0].offset if wrong else ''}"
    demand(not wrong, text, "values, keys and headers are base64 of the very bytes")


def _content(record: Polled) -> tuple[bytes, bytes | None, tuple[tuple[str, bytes], ...]]:
    return record.value, record.key, tuple(record.headers)
