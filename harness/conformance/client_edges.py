"""The stories of a few operations at which drivers go wrong: two producers, an open transaction, positions, a timeout."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from fencepost.harness.api import CallError, Client, Isolation, Outgoing, Polled
from fencepost.harness.api.words import plural
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    PARTITIONS,
    READ_S,
    TOPIC,
    TRANSACTIONAL,
    ClientFixture,
    Deliveries,
    Flaw,
    demand,
    fresh_values,
    read_all,
)
from fencepost.harness.drivers.client import DriverClient

EDGES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "two producers": ("producers of two transactional ids do not disturb one another, in one driver neither", ("transactions",)),
    "open transaction": (
        "at read_committed a reader comes to the end before an open transaction, and reads none of it",
        ("transactions", "assign", "ends"),
    ),
    "positions": ("`start`, `end` and an offset are where they are; an assignment takes the place of the last one", ("assign",)),
    "transaction timeout": (
        "a transaction is ended by the broker after transaction.timeout.ms, and not before",
        ("transactions",),
    ),
}  # fmt: skip
QUIET_S = 1.0  # in which nothing is read where there is nothing
SHORT_MS = 3000
SHORT = {"acks": "all", "enable.idempotence": True, "transaction.timeout.ms": SHORT_MS, "delivery.timeout.ms": 2500,
         "request.timeout.ms": 2000}  # fmt: skip
ENDED_S = 20.0  # after which the broker has ended a transaction of SHORT


class EdgeStories(ClientFixture):
    """Plays the stories of a few operations."""

    def story_two_producers(self) -> str:
        first_id, second_id = self._name(), self._name()
        values = fresh_values("two", 4)
        with self._writer(first_id) as one, self._writer(second_id) as other:
            deliveries = {client: Deliveries() for client in (one, other)}
            for client, some in ((one, values[:2]), (other, values[2:])):
                client.begin()
                for number, value in enumerate(some):
                    client.send(Outgoing(topic=TOPIC, partition=number, value=value), deliveries[client].of(number))
            for client in (one, other):
                client.flush(CALL_S)
                client.commit(CALL_S)
            self._missing(deliveries[one], values[:2], self._observed())
            self._missing(deliveries[other], values[2:], self._observed())
        self._demand_own_ids()
        return "both commit, and a driver that is opened again has the other id"

    def _demand_own_ids(self) -> None:
        """Raise Flaw when a driver that is opened again with another id still has the id before."""
        first_id, second_id, values = self._name(), self._name(), fresh_values("own", 2)
        with self._process() as process:
            settings = self._settings(TRANSACTIONAL, None, name=first_id, transactional_id=first_id)
            client = DriverClient(process, settings)
            client.open(CALL_S)
            self._transaction(client, fresh_values("first", 1))
            client.close()
            client = DriverClient(process, self._settings(TRANSACTIONAL, None, name=second_id, transactional_id=second_id))
            client.open(CALL_S)
            with self._writer(first_id) as taker:
                self._transaction(taker, fresh_values("taker", 1))
                try:
                    deliveries = self._transaction(client, values)
                except CallError as error:
                    change = "make a producer of the transactional id that `open` was given"
                    raise Flaw(f"a producer is disturbed by one of another transactional id: {error}", change) from error
            self._missing(deliveries, values, self._observed())
            client.close()

    def story_open_transaction(self) -> str:
        values = fresh_values("open", 2)
        with self._writer() as writer:
            self._transaction(writer, fresh_values("before", 2))
            writer.begin()
            for number, value in enumerate(values):
                writer.send(Outgoing(topic=TOPIC, partition=number, value=value), lambda _: None)
            writer.flush(CALL_S)
            levels = [Isolation.COMMITTED, *([Isolation.UNCOMMITTED] if self._can("isolation") else [])]
            for level in levels:
                self._demand_open(level, values)
            writer.abort(CALL_S)
        return f"{plural(len(values), 'record')}, read at {' and '.join(level.value for level in levels)}"

    def _demand_open(self, level: Isolation, values: Sequence[bytes]) -> None:
        """Raise Flaw unless a reader comes to the end, and reads the records of an open transaction only if it may."""
        with self._reader(level) as client:
            try:
                read = read_all(client)
            except TimeoutError as error:
                change = "at read_committed a partition's end is its last stable offset"
                raise Flaw(f"at {level.value}, while a transaction is open, {error}", change) from None
            ends = dict(client.ends())
        seen = sum(record.value in values for record in read)
        wanted = 0 if level is Isolation.COMMITTED else len(values)
        text = f"at {level.value} {seen} of {plural(len(values), 'record')} of an open transaction are read"
        demand(seen == wanted, text, "give isolation.level to the client")
        known = self._cluster.admin().end_offsets(PARTITIONS, level)
        text = f"at {level.value} the ends are named as {ends}, and are {dict(known)}"
        demand(ends == known, text, "the offset in `ends` is the position, behind transaction markers")

    def _can(self, capability: str) -> bool:
        return capability in self.capabilities

    # -- positions --------------------------------------------------------------------------------
    def story_positions(self) -> str:
        first, second = PARTITIONS
        self._fill(5)
        own = [record for record in self._observed() if record.partition == first]
        with self._reader() as client:
            client.assign({first: own[2].offset})
            self._demand_next(client, own[2], f"assigned at {own[2].offset}")
            client.assign({second: "start"})
            others = [record for record in self._polled(client, QUIET_S) if record.partition != second]
            text = f"after {second} was assigned, {plural(len(others), 'record')} of {others and others[0].partition} came"
            demand(not others, text, "an assignment takes the place of the one before")
            client.assign({first: "end"})
            self._demand_quiet(client, "assigned at `end`")
            self._demand_new(client, "assigned at `end`")
            if self._can("seek"):
                client.seek({first: "start"})
                self._demand_next(client, own[0], "after a seek to `start`")
                client.seek({first: "end"})
                self._demand_quiet(client, "after a seek to `end`")
                self._demand_new(client, "after a seek to `end`")
        return "an offset, `start` and `end`"

    def _demand_next(self, client: Client, wanted: Polled, when: str) -> None:
        got = self._polled(client, READ_S, 1)
        seen = f"comes {got[0].partition}@{got[0].offset}" if got else f"nothing comes in {READ_S:.0f} s"
        demand(got and got[0].offset == wanted.offset, f"{when}, {seen}, not {wanted.partition}@{wanted.offset}", POSITION)

    def _demand_quiet(self, client: Client, when: str) -> None:
        early = self._polled(client, QUIET_S, 1)
        demand(not early, f"{when}, comes {early and early[0].offset}, which was there before", POSITION)

    def _demand_new(self, client: Client, when: str) -> None:
        value = self._fill(1)[0]
        got = self._polled(client, READ_S, 1)
        demand(got and got[0].value == value, f"{when}, the next record that is written does not come", POSITION)

    def _polled(self, client: Client, seconds: float, count: int = 1_000_000) -> list[Polled]:
        """What a client reads in a time, at most until there are so many; in one poll at least, however slow this machine is."""
        deadline = time.monotonic() + seconds
        records = list(client.poll(0.2, min(count, 1000)))
        while len(records) < count and time.monotonic() < deadline:
            records += client.poll(0.2, min(count, 1000))
        return records

    # -- a timeout --------------------------------------------------------------------------------
    def story_transaction_timeout(self) -> str:
        short_values, long_values, deliveries = fresh_values("short", 1), fresh_values("long", 1), Deliveries()
        short_id = self._name()
        short_settings = self._settings(SHORT, None, name=short_id, transactional_id=short_id)
        with self._client(short_settings) as short, self._writer() as long:
            for number, (client, value) in enumerate(((short, short_values[0]), (long, long_values[0]))):
                client.begin()
                client.send(Outgoing(topic=TOPIC, partition=number, value=value), deliveries.of(number))
                client.flush(CALL_S)
            took = self._await_stable(PARTITIONS[0])
            text = f"a transaction with transaction.timeout.ms = {SHORT_MS} is still open after {ENDED_S:.0f} s"
            demand(took is not None, text, "give transaction.timeout.ms to the client")
            try:
                long.commit(CALL_S)
            except CallError as error:
                text = (
                    f"a transaction with transaction.timeout.ms = {TRANSACTIONAL['transaction.timeout.ms']} cannot be committed"
                )
                raise Flaw(f"{text} after {took:.0f} s: {error}", "give transaction.timeout.ms to the client") from error
            refused = _refused(short)
        seen = [record.value for record in self._observed()]
        demand(refused and short_values[0] not in seen, "a transaction that the broker has ended is committed", "hide no error")
        demand(long_values[0] in seen, "a committed record is not there", "call the client's own commit")
        return f"ended after {took:.0f} s; one with {TRANSACTIONAL['transaction.timeout.ms']} ms is committed then"

    def _await_stable(self, partition: str) -> float | None:
        """Seconds until a partition has no open transaction; None: longer than `ENDED_S`."""
        began = time.monotonic()
        while time.monotonic() < began + ENDED_S:
            stable, high = (self._cluster.admin().end_offsets([partition], level)[partition] for level in Isolation)
            if stable == high:
                return time.monotonic() - began
            time.sleep(0.1)
        return None


POSITION = "the next record is the one at the position that was given"


def _refused(client: Client) -> bool:
    try:
        client.commit(CALL_S)
    except CallError:
        return True
    return False
