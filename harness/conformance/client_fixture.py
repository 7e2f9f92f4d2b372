"""The fixture of the client kit's stories: drivers, clients, transactions, and what the harness' own client reads back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost.harness.api import CallError, Client, ClientSettings, Cluster, ClusterError, Delivered, Isolation, Outgoing, Polled
from fencepost.harness.api.beneath import log_file
from fencepost.harness.api.capabilities import FROZEN
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.harness.planning.clients import BENEATH

TOPIC, PARTITIONS = "t", ("t-0", "t-1")
GROUP_TOPIC, GROUP_PARTITIONS = "g", ("g-0", "g-1", "g-2")
CALL_S = 15.0
ANSWER_SLACK_S = 5.0
FREEZE_S = 10.0
READ_S = 30.0
END_S = 10.0
MARKERS_S = 10.0
TRANSACTIONAL = {"acks": "all", "enable.idempotence": True, "transaction.timeout.ms": 20_000, "delivery.timeout.ms": 15_000}
OVER_S = 75.0  # after that no transaction of an ended client is open, not even with the timeout that clients have by themselves


class Flaw(Exception):
    """An observation that is not what must be seen, and what to change."""

    def __init__(self, seen: str, change: str) -> None:
        super().__init__(seen)
        self.seen, self.change = seen, change


class NotRead(Flaw):
    """A record that is missing where the readers could not come to the end: a transaction was open."""


class TooFew(Exception):
    """Fewer operations than a story needs, none of them wrong; its text says how many."""


class NotHere(Exception):
    """A story that cannot be played here; its text says why."""


def demand(true: object, seen: str, change: str) -> None:
    """Raise Flaw unless the condition is true."""
    if not true:
        raise Flaw(seen, change)


@dataclass
class Deliveries:
    """The reports on records.

    reports: number of the record -> its acknowledgements and errors.
    """

    reports: dict[int, list[Delivered | CallError]] = field(default_factory=dict)

    def of(self, number: int) -> Callable[[Delivered | CallError], None]:
        return self.reports.setdefault(number, []).append

    def places(self) -> dict[int, tuple[str, int | None]]:
        """Partition and offset of each acknowledged record. Raises Flaw for a record without exactly one report."""
        for number, reports in self.reports.items():
            demand(
                len(reports) == 1, f"record {number} was reported {len(reports)} times", "one event `delivered` for each record"
            )
        single = {number: reports[0] for number, reports in self.reports.items()}
        return {number: (report.partition, report.offset) for number, report in single.items() if isinstance(report, Delivered)}


class ClientFixture:
    """A cluster and a driver.

    command: the driver's.
    observer: the class of the client that the driver is compared with.
    log: of the driver's standard error.
    capabilities: the driver's; without `headers`, records have none.
    transactions: the newest transaction protocol that it names.
    """

    capabilities: frozenset[str] = frozenset()
    transactions: int | None = None

    def __init__(self, cluster: Cluster, command: Sequence[str], observer: Callable[[ClientSettings], Client], log: Path) -> None:
        self._cluster, self._command, self._observer = cluster, list(command), observer
        self._log = log_file(log.parent, log.name)
        self._names = 0
        self._longest = (0.0, "")  # of the calls in time: seconds, call
        self._undecided: list[str] = []  # partitions that could not be read to the end
        self._due: tuple[str, float] | None = None  # the call that is under way, and when it must have answered

    @contextmanager
    def _process(self) -> Iterator[DriverProcess]:
        process = DriverProcess(self._command, stderr=self._log, on_wait=self._demand_answer)
        try:
            yield process
        finally:
            process.end()

    @contextmanager
    def _in_time(self, call: str) -> Iterator[None]:
        """A call of `CALL_S` on a healthy cluster: raises Flaw when it has not answered `ANSWER_SLACK_S` after that."""
        began = time.monotonic()
        self._due = (call, began + CALL_S + ANSWER_SLACK_S)
        try:
            yield
            self._demand_answer()
        finally:
            self._due = None
            self._longest = max(self._longest, (time.monotonic() - began, call))

    def _demand_answer(self) -> None:
        call, due = self._due or ("", float("inf"))
        change = "give `timeout_ms` to the client, or bound the call yourself"
        demand(time.monotonic() < due, f"{call} of {CALL_S:.0f} s has not answered after {CALL_S + ANSWER_SLACK_S:.0f} s", change)

    def _name(self) -> str:
        self._names += 1
        return f"kit-{os.getpid()}-{self._names}"

    def _settings(self, producer: Mapping[str, Any] | None, isolation: Isolation | None, **more: Any) -> ClientSettings:
        name = more.pop("name", None) or self._name()
        consumer = {**BENEATH["consumer"], "isolation.level": isolation.value} if isolation else None
        producing = {**BENEATH["producer"], **producer} if producer else None
        bootstrap = more.pop("bootstrap", None) or self._cluster.bootstrap()
        return ClientSettings(name=name, bootstrap=bootstrap, producer=producing, consumer=consumer, **more)

    @contextmanager
    def _client(self, settings: ClientSettings) -> Iterator[DriverClient]:
        with self._process() as process:
            client = DriverClient(process, settings)
            client.open(CALL_S)
            yield client
            client.close()

    @contextmanager
    def _writer(self, name: str | None = None, **more: Any) -> Iterator[DriverClient]:
        """A transactional producer of the driver."""
        name = name or self._name()
        with self._client(self._settings(TRANSACTIONAL, None, name=name, transactional_id=name, **more)) as client:
            yield client

    @contextmanager
    def _reader(self, isolation: Isolation = Isolation.COMMITTED) -> Iterator[DriverClient]:
        with self._client(self._settings(None, isolation)) as client:
            yield client

    def _transaction(self, client: Client, values: Sequence[bytes], end: str = "commit") -> Deliveries:
        """One transaction of records, in turn to both partitions."""
        deliveries = Deliveries()
        client.begin()
        for number, value in enumerate(values):
            client.send(Outgoing(topic=TOPIC, partition=number % 2, key=b"k", value=value), deliveries.of(number))
        client.flush(CALL_S)
        getattr(client, end)(CALL_S)
        return deliveries

    def _observed(self, isolation: Isolation = Isolation.COMMITTED) -> list[Polled]:
        """All records of the topic, as the harness' own client reads them once every transaction is decided."""
        self._await_markers()
        settings = ClientSettings(
            name=self._name(), bootstrap=self._cluster.bootstrap(), consumer={"isolation.level": isolation.value}
        )
        client = self._observer(settings)
        try:
            client.open(CALL_S)
            return read_all(client)
        finally:
            client.close()

    def _await_markers(self) -> None:
        """Commit returns before its markers are written (KIP-98): wait for them, not for ever."""
        self._undecided = self._open_after(MARKERS_S)

    def _open_after(self, seconds: float) -> list[str]:
        """The partitions with a transaction that is open all this time: their last stable offset is not their end."""
        deadline = time.monotonic() + seconds
        while True:
            stable, high = (self._cluster.admin().end_offsets(PARTITIONS, level) for level in Isolation)
            below = [partition for partition in PARTITIONS if partition not in high or stable.get(partition) != high[partition]]
            if not below or time.monotonic() > deadline:
                return below
            time.sleep(0.1)

    def _fill(self, count: int, topic: str = TOPIC, partitions: int = 1) -> list[bytes]:
        """Records in turn in so many partitions, or of the group's topic in all, by the harness' own client; their values."""
        client, values = self._observer(self._settings({"acks": "all"}, None)), fresh_values("fill", count)
        client.open(CALL_S)
        for number, value in enumerate(values):
            partition = number % (len(GROUP_PARTITIONS) if topic == GROUP_TOPIC else partitions)
            client.send(Outgoing(topic=topic, partition=partition, value=value), lambda _: None)
        client.flush(CALL_S)
        client.close()
        return values

    @contextmanager
    def _group_observer(self, group: str) -> Iterator[Client]:
        """The harness' own client, which knows a group's offsets and is no member."""
        consumer = {"isolation.level": Isolation.COMMITTED.value}
        own = self._observer(
            ClientSettings(name=self._name(), bootstrap=self._cluster.bootstrap(), consumer=consumer, shared_group=group)
        )
        own.open(CALL_S)
        try:
            yield own
        finally:
            own.close()

    def _joined(self, client: Client) -> set[str]:
        """The partitions that a subscribed client was assigned."""
        given: set[str] = set()

        def rebalanced(event: Any) -> None:
            given.difference_update(event.partitions) if event.kind != "assigned" else given.update(event.partitions)

        client.subscribe([GROUP_TOPIC], rebalanced)
        deadline = time.monotonic() + READ_S
        while len(given) < len(GROUP_PARTITIONS) and time.monotonic() < deadline:
            client.poll(0.2, 1)
        change = "tell each assignment as an event `rebalanced`, before or with the answer to the poll that made it"
        demand(given == set(GROUP_PARTITIONS), f"assigned {sorted(given)} within {READ_S:.0f} s", change)
        return given

    def _missing(self, deliveries: Deliveries, values: Sequence[bytes], seen: Sequence[Polled]) -> None:
        """Raise Flaw unless every record is there once, where it was reported."""
        places = deliveries.places()
        for number, value in enumerate(values):
            at = [(record.partition, record.offset) for record in seen if record.value == value]
            reported = places.get(number)
            demand(reported, f"record {number} of a successful transaction was not acknowledged", "report every record's fate")
            change = "report `delivered` only for what the client acknowledged, with partition and offset of that acknowledgement"
            text = f"record {number} was acknowledged at {reported}, and is not there"
            if not at and self._undecided:
                raise NotRead(text, change)
            demand(at, text, change)
            demand(len(at) == 1, f"record {number} is there {len(at)} times, at {at}", "send each record once; repeat no call")
            exact = reported is not None and reported[1] in (None, at[0][1]) and reported[0] == at[0][0]
            demand(exact, f"record {number} lies at {at[0]}, and was reported at {reported}", change)

    @contextmanager
    def _brokers_frozen(self) -> Iterator[None]:
        """Every broker stands still within it. Raises ClusterError for one that goes on."""
        cluster: Any = self._cluster
        try:
            for node in cluster.brokers:
                cluster.pause(node)
            for node in cluster.brokers:
                await_frozen(lambda node=node: cluster.process_state(node), node)  # type: ignore[misc]
            yield
        finally:
            for node in cluster.brokers:
                cluster.resume(node)


def await_frozen(state: Callable[[], str], name: str) -> None:
    """Wait until a process that got SIGSTOP stands still: on a busy machine it answers requests for some 30 ms more.

    state: gives the kernel's letter for it. Raises ClusterError at the deadline.
    """
    deadline = time.monotonic() + FREEZE_S
    while (letter := state()) != FROZEN:
        if time.monotonic() > deadline:
            raise ClusterError(f'{name} is not frozen {FREEZE_S:.0f} s after SIGSTOP (state "{letter}")')
        time.sleep(0.005)


def refusal(*calls: Callable[[], Any]) -> CallError | None:
    """The error of the first of these calls that fails."""
    for call in calls:
        try:
            call()
        except CallError as error:
            return error
    return None


def read_all(client: Client) -> list[Polled]:
    """All that a client reads of the topic from the start. Raises TimeoutError when it does not name the ends."""
    client.assign(dict.fromkeys(PARTITIONS, "start"))
    records: list[Polled] = []
    deadline = time.monotonic() + READ_S
    while not client.ends().keys() >= set(PARTITIONS):
        records += client.poll(0.2)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the ends of {sorted(client.ends()) or 'no partition'} were named within {READ_S:.0f} s")
    return records


def read_until(client: Client, count: int) -> list[Polled]:
    """Poll until there are at least `count` records; returns them all. Raises Flaw at the deadline."""
    records: list[Polled] = []
    deadline = time.monotonic() + READ_S
    while len(records) < count:
        records += client.poll(0.2, 1)
        demand(time.monotonic() < deadline, f"{len(records)} of {count} records within {READ_S:.0f} s", "return what there is")
    return records


def fresh_values(story: str, count: int) -> list[bytes]:
    """Values that no other record has."""
    return [f"{story} {number} {os.urandom(4).hex()}".encode() for number in range(count)]
