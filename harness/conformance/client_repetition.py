"""The stories of many operations: faults of a driver that strike one operation in hundreds (docs/client-drivers.md).

Each story performs as many operations as it names, or as many as its time allows; too few are no answer. What they show,
and under which model, is in `client_ledger`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from fencepost.harness.api import CallError, Client, Isolation, Outgoing, Polled
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    GROUP_PARTITIONS,
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
from fencepost.harness.conformance.footprint import footprint, gathered

MANY: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "many transactions": (
        "of 1,200 commits and 1,200 aborts each is what was called, and each record is where it was reported",
        ("transactions",),
    ),
    "many records": ("2,400 records without transactions are there once, in order, where they were reported", ("idempotence",)),
    "many reads": ("of 3,000 records in small polls each is read once, in order, as it was sent", ("assign", "ends")),
    "many seeks": (
        "after each of 160 seeks the record there comes next, and the position says so; another partition goes on where it was",
        ("assign", "seek"),
    ),
    "many offsets": (
        "in 160 transactions the offsets of each committed one are committed, and of no aborted one",
        ("transactions", "groups", "offsets-in-transactions"),
    ),
    "many fencings": ("of 160 producers whose id another took each is refused, and commits nothing", ("transactions",)),
}
LONG = 1500  # bytes
KEYS = (b"k0", None, b"", b"\xfe\x00\xff", b"k1", b"long" * 100, b"k0")
HEADERS = ((("number", b"1"),), (), (("empty", b""), ("twice", b"\x00\xff"), ("twice", b"2")), (("long", b"h" * 300),))
MOST_BEHIND_SEEK = 4  # records that are read after a seek
BESIDE = 20  # records of the partition that is read beside the one with seeks
AFTER_SEEK = (
    "after seek, return nothing of what was fetched before of its partitions, and all behind it; of others, leave out nothing"
)
RELEASED_S = 10.0  # in which what was closed is let go of
SETTLED_OPENS, FEWEST_OPENS = 20, 20  # openings after which a driver has what it keeps; of which a leak can be told
T = TypeVar("T")
GROUP_RECORDS = 60
IDEMPOTENT = {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 15_000}


@dataclass(frozen=True)
class Plan:
    """How much the stories of many operations perform.

    transactions: half of them are aborted, at random.
    records: without transactions.
    reads: records that are read at least.
    seeks, offsets, fencings: how often.
    answers: commits whose requests are late; a fifth as many aborts.
    most_s: what a story may take; one that has performed less by then has no answer.
    """

    transactions: int = 2400
    records: int = 2400
    reads: int = 3000
    seeks: int = 160
    offsets: int = 160
    fencings: int = 160
    answers: int = 120
    most_s: float = 180.0


class RepeatedStories(ClientFixture):
    """Plays the stories of many operations.

    many: how much they perform.
    """

    many = Plan()

    def story_many_transactions(self) -> str:
        committed, aborted, ends = Ledger(), Ledger(), {"commit": 0, "abort": 0}
        planned = shuffled(self.many.transactions // 2, self.many.transactions // 2)
        with self._writer() as client:
            for end in self._while_time(planned):
                self._call(client, "begin")
                ledger = committed if end == "commit" else aborted
                for value in fresh_values(end, 2 if end == "commit" else 1):
                    self._sent(client, ledger, value)
                self._flushed(client, ledger)
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
                    self._flushed(client, ledger)
            self._flushed(client, ledger)
        ledger.compare(self._observed())
        return self._answered(sensitivity(records=len(ledger)), len(ledger), self.many.records)

    def story_many_reads(self) -> str:
        own = self._at_least(self.many.reads)
        with self._reader() as client:
            read, polls = self._read_in_small_polls(client, len(own))
            done = client.ends().keys() >= set(PARTITIONS)
        for partition in sorted({record.partition for record in read} | set(PARTITIONS)):
            given, wanted = ([one for one in records if one.partition == partition] for records in (read, own))
            _demand_same(partition, given, wanted if done else wanted[: len(given)])
        return self._answered(sensitivity(records=len(read), polls=polls), len(read), self.many.reads if done else len(own) + 1)

    def _at_least(self, count: int) -> list[Polled]:
        """All records of the topic, as the harness' own client reads them, after it has written what is lacking."""
        lacking = count - len(self._observed())
        if lacking > 0:
            self._fill(max(lacking, len(PARTITIONS) * BESIDE), partitions=len(PARTITIONS))
        return self._observed()

    def _read_in_small_polls(self, client: Client, count: int) -> tuple[list[Polled], int]:
        """What a client reads from the start to the ends, or until it has read half as much again; the number of polls.

        A client that is only slow is let go when the story's time is over; it is polled once at least.
        """
        rng, records, polls = Random(0), list[Polled](), 0
        self._start_clock()
        self._call(client, "assign", dict.fromkeys(PARTITIONS, "start"))
        got_at = time.monotonic()
        while not polls or not (self._is_over() or client.ends().keys() >= set(PARTITIONS) or len(records) >= 1.5 * count + 10):
            limit = rng.randint(1, 9)
            got = self._call(client, "poll", 0.2, limit)
            text = f"a poll with the limit {limit} returned {len(got)} records"
            demand(len(got) <= limit, text, "keep what is beyond the limit for the next poll")
            records, polls, got_at = records + got, polls + 1, time.monotonic() if got else got_at
            change = "name a partition in `ends` when the position has passed the markers behind its last record"
            text = f"{len(records)} of {count} records, and nothing more for {READ_S:.0f} s"
            demand(time.monotonic() < got_at + READ_S, text, change)
        return records, polls

    def story_many_seeks(self) -> str:
        """Seeks in one partition. Another one is read beside it, and has to go on where it was."""
        rng = Random(0)
        everything, (sought, beside) = self._at_least(100), PARTITIONS
        own = {name: [record for record in everything if record.partition == name] for name in PARTITIONS}
        first = max(0, len(own[beside]) - BESIDE)
        with self._reader() as client:
            self._call(client, "assign", {beside: own[beside][first].offset, sought: "start"})
            at = {beside: first, sought: 0}  # of each partition the number of its next record
            self._read_next(client, own, at, sought, 1, "after assign")  # not all clients seek before they have fetched
            done = 0
            for done in self._while_time(range(1, self.many.seeks + 1)):
                number = rng.randrange(len(own[sought]) - MOST_BEHIND_SEEK)
                if at[beside] == len(own[beside]):  # from now on a seek finds a client that has more of both
                    at |= {beside: first, sought: 0}
                    self._call(client, "seek", {name: own[name][at[name]].offset for name in at})
                    for _ in range(rng.randint(1, MOST_BEHIND_SEEK)):
                        self._poll_next(client, own, at, "after a seek in both partitions")
                self._call(client, "seek", {sought: own[sought][number].offset})
                at[sought], text = number, f"after seek {done}, to {sought}@{own[sought][number].offset},"
                self._read_next(client, own, at, sought, rng.randint(1, MOST_BEHIND_SEEK), text)
                self._demand_position(client, own[sought], at[sought], sought, text)
        return self._answered(sensitivity(seeks=done), done, self.many.seeks)

    def _read_next(
        self, client: Client, own: Mapping[str, Sequence[Polled]], at: dict[str, int], name: str, count: int, when: str
    ) -> None:
        """Read so many records of a partition. Raises Flaw for one, of any, that is not the next one."""
        end, deadline = at[name] + count, time.monotonic() + READ_S
        while at[name] < end:
            self._poll_next(client, own, at, when)
            demand(time.monotonic() < deadline, f"{when} no record within {READ_S:.0f} s", "return what there is")

    def _poll_next(self, client: Client, own: Mapping[str, Sequence[Polled]], at: dict[str, int], when: str) -> None:
        """Poll once for one record. Raises Flaw for one that is not the next one of its partition; `at` is kept up to date."""
        for got in self._call(client, "poll", 0.2, 1):
            number = at[got.partition]
            wanted = own[got.partition][number] if number < len(own[got.partition]) else None
            text = f"{when} comes {got.partition}@{got.offset}, not {wanted.offset if wanted else 'its end'}"
            demand(wanted and got.offset == wanted.offset, text, AFTER_SEEK)
            other = f"{when} {got.partition}@{got.offset} has another value"
            demand(wanted and got.value == wanted.value, other, "values are base64 of the very bytes")
            at[got.partition] += 1

    def _demand_position(self, client: Client, own: Sequence[Polled], next_one: int, name: str, when: str) -> None:
        at, last = self._call(client, "position", [name])[name], own[next_one - 1].offset
        known = at is not None and last < at <= own[next_one].offset
        text = f"{when} {last} was read last, and the position is {at}"
        demand(known, text, "answer the offset of the next record of `poll`")

    def story_many_offsets(self) -> str:
        name = self._name()
        settings = self._settings(TRANSACTIONAL, Isolation.COMMITTED, name=name, transactional_id=name)
        self._fill(GROUP_RECORDS, GROUP_TOPIC)  # a client that commits what it has polled is seen
        with self._group_observer(settings.group) as own:
            with self._client(settings) as client:
                expected, done = self._offsets_in_transactions(client, own)
            _demand_committed("the harness' own client", own, expected, done)  # some clients commit when they are closed
        return self._answered(sensitivity(transactions=done), done, self.many.offsets)

    def _offsets_in_transactions(self, client: Client, own: Client) -> tuple[Mapping[str, int | None], int]:
        """Offsets in transactions, looked at between them: those that are committed in the end, and how many transactions."""
        rng, done, expected = Random(0), 0, dict[str, int | None].fromkeys(GROUP_PARTITIONS)
        self._joined(client)
        for end in self._while_time(shuffled(self.many.offsets // 2, self.many.offsets // 2)):
            some = rng.sample(GROUP_PARTITIONS, rng.randint(1, len(GROUP_PARTITIONS)))
            offsets = {partition: rng.randrange(1, 1_000_000) for partition in some}
            self._call(client, "begin")
            self._sent(client, Ledger(), b"offsets")
            self._call(client, "flush", CALL_S)  # the markers of the transaction before are written by then
            self._demand_both(client, own, expected, done)
            self._call(client, "send_offsets", offsets, self._call(client, "group"), CALL_S)
            self._call(client, end, CALL_S)
            expected, done = {**expected, **offsets} if end == "commit" else expected, done + 1
            self._call(client, "poll", 0.0)
        self._await_offsets(own, expected)
        self._demand_both(client, own, expected, done)
        return expected, done

    def _await_offsets(self, own: Client, expected: Mapping[str, int | None]) -> None:
        """Commit returns before its markers are written (KIP-98)."""
        deadline = time.monotonic() + MARKERS_S
        while own.committed(GROUP_PARTITIONS, CALL_S) != expected and time.monotonic() < deadline:
            time.sleep(0.1)

    def _demand_both(self, client: Client, own: Client, expected: Mapping[str, int | None], number: int) -> None:
        """Raise Flaw unless both clients know these offsets as the group's."""
        _demand_committed("the harness' own client", own, expected, number)
        with self._in_time("committed"):
            _demand_committed("the driver", client, expected, number)

    def story_many_fencings(self) -> str:
        name, survived, fenced, done = self._name(), Ledger(), Ledger(), 0
        with self._writer(name) as holder, self._writer(name) as challenger:
            first, second, before = holder, challenger, dict[str, int]()
            for number in self._while_time(range(self.many.fencings)):
                if number:  # the first challenger has just been opened
                    second.close()
                    second.open(CALL_S)
                if number == SETTLED_OPENS:
                    before = dict(footprint(holder.pid or 0))
                demand(
                    not self._succeeds(first, fenced),
                    f"the fenced producer's transaction {number} succeeded",
                    "pass on what the client says",
                )
                self._whole(second, survived, "fencing")
                first, second, done = second, first, done + 1
            self._demand_footprint(holder.pid or 0, before, (done - SETTLED_OPENS) // 2)
        seen = self._observed()
        survived.compare(seen)
        wrong = fenced.visible(seen)
        demand(not wrong, f"{len(wrong)} records of fenced producers can be read", "commit nothing after an error")
        return self._answered(sensitivity(fenced_producers=done), done, self.many.fencings)

    def _demand_footprint(self, pid: int, before: Mapping[str, int], opens: int) -> None:
        """Raise Flaw for a driver that gathers something with every opening, and does not let go of it for a while."""
        deadline = time.monotonic() + RELEASED_S
        while before and opens >= FEWEST_OPENS and (grown := gathered(before, footprint(pid), opens)):
            text = f"after {opens} times close and open the driver has {' and '.join(grown)} more than before"
            demand(time.monotonic() < deadline, text, "let go of everything in `close`")
            time.sleep(0.2)

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
        record = varied(len(ledger), value, "headers" in self.capabilities)
        self._call(client, "send", record, ledger.add(record))

    def _flushed(self, client: Client, ledger: Ledger) -> None:
        """Flush; by its answer the fate of every record is reported."""
        self._call(client, "flush", CALL_S)
        ledger.demand_reports()

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
            if self._is_over():
                return
            yield item

    def _is_over(self) -> bool:
        return time.monotonic() > self._began + self.many.most_s

    def _answered(self, counts: str, performed: int, planned: int) -> str:
        """What was seen, in words. Raises TooFew when less was performed than planned."""
        took, (longest, call) = time.monotonic() - self._began, self._longest
        text = f"in {took:.0f} s {counts}; seen with {CONFIDENCE:.0%} at these rates; the longest call: {call}, {longest:.1f} s"
        if performed < planned:
            raise TooFew(f"nothing wrong, but only {performed:,} of {planned:,} operations: {text}")
        return text


def shuffled(commits: int, aborts: int) -> list[str]:
    """Commits and aborts, in an order that no period fits."""
    ends = ["commit"] * commits + ["abort"] * aborts
    Random(0).shuffle(ends)
    return ends


def _demand_committed(reader: str, client: Client, expected: Mapping[str, int | None], number: int) -> None:
    """Raise Flaw unless a client knows these offsets as the group's."""
    known = client.committed(GROUP_PARTITIONS, CALL_S)
    for partition, offset in expected.items():
        at = known.get(partition)
        text = f"after {number} transactions {offset} is committed of {partition}, and {reader} is answered {at}"
        demand(at == offset, text, "commit what you are given, and nothing else; ask the group's coordinator each time")


def varied(number: int, value: bytes, headers: bool) -> Outgoing:
    """A record whose value begins with this text. Keys, sizes and headers differ from record to record."""
    tail = Random(number).randbytes(LONG if number % 5 == 0 else number % 3)
    named = HEADERS[number % len(HEADERS)] if headers else ()
    return Outgoing(topic=TOPIC, partition=number % 2, key=KEYS[number % len(KEYS)], value=value + tail, headers=named)


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
    _demand_times(given, wanted)


def _demand_times(given: Sequence[Polled], wanted: Sequence[Polled]) -> None:
    """Raise Flaw unless the timestamps are those of the records, where a client has any."""
    for one, other in zip(given, wanted, strict=False):
        known = None in (one.timestamp_ms, other.timestamp_ms) or one.timestamp_ms == other.timestamp_ms
        text = f"{one.partition}@{one.offset} has the timestamp {one.timestamp_ms}, the record's is {other.timestamp_ms}"
        demand(known, text, "pass on the record's own timestamp in milliseconds, or null")


def _content(record: Polled) -> tuple[bytes, bytes | None, tuple[tuple[str, bytes], ...]]:
    return record.value, record.key, tuple(record.headers)
