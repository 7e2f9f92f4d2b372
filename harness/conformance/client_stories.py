"""The stories that a driver is put through on a real cluster, and what must be seen in each (docs/client-drivers.md).

Every claim of a driver is checked with the harness' own client, which reads back the records that the driver acknowledged, and
reads the partitions that it read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from fencepost.harness.api import CAPABILITIES, CallError, Delivered, Isolation, Outgoing, Polled
from fencepost.harness.api.words import enumeration, plural
from fencepost.harness.conformance.client_edges import EDGES, EdgeStories
from fencepost.harness.conformance.client_failures import FAILURES, FailureStories
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    END_S,
    GROUP_TOPIC,
    OVER_S,
    PARTITIONS,
    TOPIC,
    TRANSACTIONAL,
    Deliveries,
    Flaw,
    NotHere,
    NotRead,
    TooFew,
    demand,
    fresh_values,
    read_all,
    read_until,
    refusal,
)
from fencepost.harness.conformance.client_groups import IN_GROUPS, GroupStories
from fencepost.harness.conformance.client_repetition import IDEMPOTENT, MANY
from fencepost.harness.conformance.client_wire import ON_WIRE, WireStories
from fencepost.harness.conformance.results import StoryResult, result_of
from fencepost.harness.drivers.process import Hello
from fencepost.harness.planning.clients import BENEATH

LARGE = 950_000  # a request of 1 MB at most is the default of clients
NONSENSE = {"no.such.setting": "1"}
STORIES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "protocol": ("hello names protocol, client and capabilities; an unknown call and an unknown member do no harm", ()),
    "settings": ("what fencepost itself gives is taken, what the driver does not know is refused", ()),
    "commit": ("committed records are there, once, at the offsets that were reported", ("transactions",)),
    "abort": ("aborted records are not visible at read_committed", ("transactions",)),
    "idempotent": ("without transactions every acknowledged record is there, once, where it was reported", ("idempotence",)),
    "read": ("assigned partitions are read from start to end, each visible record once, in order", ("assign", "ends")),
    "uncommitted": ("at read_uncommitted the aborted records are read as well", ("assign", "ends", "isolation")),
    "content": ("keys and headers arrive, in both directions", ("transactions", "assign", "headers")),
    "partitioner": ("a record without a partition is reported where it lies", ("transactions", "partitioner")),
    "large record": ("a record of nearly 1 MB is sent and read", ("transactions", "assign")),
    "refused record": ("a record for a partition that there is not is never acknowledged", ("transactions",)),
    "seek": ("after a seek the record there comes next, and the position says so", ("assign", "seek")),
    "group": ("a subscribed consumer is told its partitions", ("groups",)),
    "offsets": (
        "offsets of a committed transaction are committed, of an aborted one not",
        ("transactions", "groups", "offsets-in-transactions"),
    ),
    **FAILURES,
    **EDGES,
    **IN_GROUPS,
    **ON_WIRE,
    **MANY,
    "end of input": ("the driver ends when its standard input does", ()),
}  # fmt: skip


def _remedy(error: CallError, needs: Sequence[str]) -> str:
    """What to change after an answer that fails a story."""
    if error.name != "UNSUPPORTED":
        return "answer every request as docs/client-drivers.md says; logs/driver.log has what the driver wrote to standard error"
    claimed = f", or claim no {enumeration(needs, 'and no')}" if needs else ""
    return f"answer `{error.call}` as docs/client-drivers.md says{claimed}"


def _hangs(partitions: Sequence[str]) -> str:
    """Why an observation is not held against the driver: what the broker has not decided nobody can read."""
    return (
        f"but in {enumeration(partitions)} a transaction is open {OVER_S:.0f} s after its client ended, longer than any timeout: "
        "the broker has not written its marker, and nobody at read_committed reads on"
    )


class ClientKit(FailureStories, EdgeStories, GroupStories, WireStories):
    """Plays the stories."""

    _hello: Hello | None = None
    _hanging: Sequence[str] = ()  # partitions in which the broker has left a transaction open for ever

    def play(self, stories: Sequence[str]) -> Iterator[StoryResult]:
        """Each of these stories, in the order of `STORIES`; what the driver cannot do is not played."""
        for name, (_, needs) in STORIES.items():
            if name in stories or name == "protocol":
                yield self._played(name, needs)
                if self._hello is None:
                    yield from (
                        StoryResult(story, None, "not played: the driver says no hello") for story in stories if story != name
                    )
                    return

    def _played(self, name: str, needs: tuple[str, ...]) -> StoryResult:
        lacking = [need for need in needs if self._hello and need not in self._hello.capabilities]
        if lacking:
            return StoryResult(name, None, f"not played: the driver lacks {', '.join(lacking)}")
        if self._hanging:
            return StoryResult(name, None, f"not played: a transaction stays open in {enumeration(self._hanging)}")
        try:
            seen = getattr(self, f"story_{name.replace(' ', '_')}")()
        except Flaw as flaw:
            self._hanging = self._open_after(OVER_S) if isinstance(flaw, NotRead) else ()
            if self._hanging:
                return StoryResult(name, None, f"{flaw.seen}; {_hangs(self._hanging)}", observable=False)
            return result_of(name, [(flaw.seen, flaw.change)], "")
        except NotHere as why:
            return StoryResult(name, None, f"not played: {why}")
        except TooFew as few:
            return StoryResult(name, None, str(few), observable=False)
        except CallError as error:
            return result_of(name, [(f"{error.call}: {error.name}: {error.text}", _remedy(error, needs))], "")
        return StoryResult(name, True, seen)

    def story_protocol(self) -> str:
        with self._process() as process:
            hello = process.start()
            self._hello, self.capabilities, self.transactions = hello, hello.capabilities, hello.transactions
            unknown = sorted(hello.capabilities - CAPABILITIES.keys())
            demand(not unknown, f"unknown capabilities: {', '.join(unknown)}", f"there are: {', '.join(CAPABILITIES)}")
            demand(hello.client and hello.version, "hello names no client or no version", "name the library and its version")
            wrong = refusal(lambda: process.call("no-such-call", member=1))
            change = "answer an unknown call with an error named UNSUPPORTED"
            demand(wrong is not None and wrong.name == "UNSUPPORTED", f"an unknown call: {wrong or 'success'}", change)
            process.call("hello", protocols=[1, 99], unknown={"a": 1})
        versions = f"{hello.client} {hello.version}, {hello.runtime}"
        return f"{versions}; {', '.join(sorted(hello.capabilities)) or 'no capabilities'}"

    def story_settings(self) -> str:
        consumer = {**BENEATH["consumer"], "isolation.level": "read_committed"}
        with self._process() as process:
            process.start()
            taken = process.call("check", producer={**BENEATH["producer"], **TRANSACTIONAL}, consumer=consumer).get("refused")
            demand(not taken, f"refused: {taken}", "take every setting that fencepost itself gives (docs/client-drivers.md)")
            refused = process.call("check", producer=NONSENSE, consumer=NONSENSE).get("refused") or ()
        sides = sorted({side for side, key, _ in refused if key in NONSENSE})
        change = "refuse what the driver does not know: it would have no effect, and nobody would see it"
        demand(
            sides == ["consumer", "producer"], f"no.such.setting is refused for {' and '.join(sides) or 'neither side'}", change
        )
        return "no.such.setting is refused"

    def story_commit(self) -> str:
        values = fresh_values("commit", 10)
        with self._writer() as client:
            deliveries = self._transaction(client, values)
            self._missing(deliveries, values, self._observed())
            again = fresh_values("commit-again", 3)
            self._missing(self._transaction(client, again), again, self._observed())
        return f"{len(values) + len(again)} records in two transactions"

    def story_abort(self) -> str:
        values = fresh_values("abort", 4)
        with self._writer() as client:
            self._transaction(client, values, "abort")
            visible = [record.value for record in self._observed() if record.value in values]
            demand(
                not visible,
                f"{plural(len(visible), 'aborted record is', 'aborted records are')} visible",
                "call the client's own abort",
            )
            after = fresh_values("after-abort", 2)
            self._missing(self._transaction(client, after), after, self._observed())
        return f"{len(values)} records are not visible, and the next transaction is"

    def story_idempotent(self) -> str:
        values, deliveries = fresh_values("idempotent", 20), Deliveries()
        with self._client(self._settings(IDEMPOTENT, None)) as client:
            for number, value in enumerate(values):
                client.send(Outgoing(topic=TOPIC, partition=number % 2, value=value), deliveries.of(number))
            client.flush(CALL_S)
            self._missing(deliveries, values, self._observed())
        return f"{len(values)} records"

    def story_read(self) -> str:
        return self._compared(Isolation.COMMITTED)

    def story_uncommitted(self) -> str:
        return self._compared(Isolation.UNCOMMITTED)

    def _compared(self, isolation: Isolation) -> str:
        with self._reader(isolation) as client:
            try:
                read = read_all(client)
            except TimeoutError as error:
                change = "name a partition in `ends` when the position has passed the markers behind its last record"
                raise Flaw(str(error), change) from None
        own = self._observed(isolation)
        for partition in PARTITIONS:
            given, wanted = _offsets(read, partition), _offsets(own, partition)
            change = "return each visible record once, in the order of its partition, from the position that was assigned"
            seen = f"{partition}: read {_short(given)}, there are {_short(wanted)}"
            demand(given == wanted, seen, change)
        contents = {(record.partition, record.offset): record.value for record in own}
        wrong = [record for record in read if contents[record.partition, record.offset] != record.value]
        demand(
            not wrong,
            f"{plural(len(wrong), 'record has', 'records have')} other bytes than were sent",
            "values are base64 of the very bytes",
        )
        return f"{len(read)} records, as the harness' own client reads them"

    def story_content(self) -> str:
        value, headers = fresh_values("content", 1)[0], (("a", b"1"), ("b", b"\x00\xff"))
        deliveries = Deliveries()
        with self._writer() as client:
            client.begin()
            client.send(Outgoing(topic=TOPIC, partition=0, key=b"\xfekey", value=value, headers=headers), deliveries.of(0))
            client.commit(CALL_S)
        with self._reader() as client:
            given = read_all(client)
        for reader, records in (("the harness' own client", self._observed()), ("the driver", given)):
            got = next(((record.key, tuple(record.headers)) for record in records if record.value == value), None)
            demand(got == (b"\xfekey", headers), f"{reader} reads key and headers {got}", "pass keys and headers on as they are")
        return "key and two headers"

    def story_partitioner(self) -> str:
        values, deliveries = fresh_values("partitioner", 40), Deliveries()
        with self._writer() as client:
            client.begin()
            for number, value in enumerate(values):
                client.send(Outgoing(topic=TOPIC, key=b"%d" % (number // 2), value=value), deliveries.of(number))
            client.commit(CALL_S)
            self._missing(deliveries, values, self._observed())
        chosen = [deliveries.places()[number][0] for number in range(len(values))]
        seen = f"records of {len(values) // 2} keys lie in {' and '.join(sorted(set(chosen)))}"
        demand(len(set(chosen)) > 1, f"{seen} alone", "leave the partition to the client")
        demand(chosen[::2] == chosen[1::2], f"{seen}, and those of one key in both", "give the client the record's key")
        return f"{len(values)} records"

    def story_large_record(self) -> str:
        value = b"large" + os.urandom(LARGE - 5)
        with self._writer() as client:
            self._missing(self._transaction(client, [value]), [value], self._observed())
        with self._reader() as client:
            demand(any(record.value == value for record in read_all(client)), "it is not read", "frames may have up to 64 MiB")
        return f"{LARGE} bytes"

    def story_refused_record(self) -> str:
        deliveries = Deliveries()
        with self._writer() as client:
            client.begin()
            record = Outgoing(topic=TOPIC, partition=99, value=b"nowhere")
            refused = refusal(lambda: client.send(record, deliveries.of(0)), lambda: client.commit(CALL_S))
            taken = any(isinstance(report, Delivered) for reports in deliveries.reports.values() for report in reports)
            demand(not taken, "a record for partition 99 was acknowledged", "report the client's error")
            given_up = any(isinstance(report, CallError) for reports in deliveries.reports.values() for report in reports)
            demand(refused or given_up, "neither a call nor a delivery failed", "report the client's error")
        return "refused" if refused else "given up"

    def story_seek(self) -> str:
        self._fill(3)
        own = [record for record in self._observed() if record.partition == PARTITIONS[0]]
        with self._reader() as client:
            client.assign({PARTITIONS[0]: "start"})
            read_until(client, 1)
            client.seek({PARTITIONS[0]: own[1].offset})
            first = read_until(client, 1)[0]
            change = "after seek, return nothing of what was fetched before"
            demand(first.offset == own[1].offset, f"after a seek to {own[1].offset} comes {first.offset}", change)
            client.seek({PARTITIONS[0]: own[0].offset})
            again = read_until(client, 1)[0]
            demand(again.offset == own[0].offset, f"after a seek to {own[0].offset} comes {again.offset}", change)
            at = client.position([PARTITIONS[0]])[PARTITIONS[0]]
            seen = f"the position behind the record at {again.offset} is {at}, and the next one is at {own[1].offset}"
            demand(at is not None and again.offset < at <= own[1].offset, seen, "answer the offset of the next record of `poll`")
        return "forward and back"

    def story_group(self) -> str:
        with self._reader() as client:
            return f"assigned {', '.join(sorted(self._joined(client)))}"

    def story_offsets(self) -> str:
        name, partition = self._name(), f"{GROUP_TOPIC}-0"
        with self._client(self._settings(TRANSACTIONAL, Isolation.COMMITTED, name=name, transactional_id=name)) as client:
            self._joined(client)
            for end, offset in (("commit", 5), ("abort", 9)):
                client.begin()
                client.send(Outgoing(topic=TOPIC, partition=0, value=b"offsets " + end.encode()), lambda _: None)
                client.send_offsets({partition: offset}, client.group(), CALL_S)
                getattr(client, end)(CALL_S)
            at = client.committed([partition], CALL_S)[partition]
        demand(at == 5, f"5 was committed, 9 aborted, and {at} is committed", "add the offsets to the transaction")
        return "committed with the transaction"

    def story_end_of_input(self) -> str:
        with self._process() as process:
            process.start()
            pid = process.pid or 0
            process.end_input()
            deadline = time.monotonic() + END_S
            while process.pid is not None and time.monotonic() < deadline:
                time.sleep(0.02)
            demand(
                process.pid is None,
                f"it still runs after {END_S:.0f} s (pid {pid})",
                "end when the read of a frame finds the end",
            )
        return "at once"


def _offsets(records: Sequence[Polled], partition: str) -> list[int]:
    return [record.offset for record in records if record.partition == partition]


def _short(offsets: Sequence[int]) -> str:
    return plural(len(offsets), "record") + (f" ({offsets[0]} to {offsets[-1]})" if offsets else "")
