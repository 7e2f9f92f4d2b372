"""The stories behind a proxy: what a driver's client asks of the broker, and whether its answers wait for the broker's.

The settings that a driver was given show in the requests of its client. Answers that come before the broker's do harm only when
something dies meanwhile: the proxy delays the requests, so that an answer before the delay is over is seen as such.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fencepost.harness.api import Client, ClusterError, Isolation, Outgoing
from fencepost.harness.api.words import plural
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    TOPIC,
    TRANSACTIONAL,
    NotHere,
    demand,
    fresh_values,
    read_all,
)
from fencepost.harness.conformance.client_ledger import sensitivity
from fencepost.harness.conformance.client_repetition import IDEMPOTENT, RepeatedStories, shuffled
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.proxy.jars import FIRST, with_proxy
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
from fencepost.harness.proxy.record import Line, lines_of
from fencepost.harness.proxy.rules import Rule

ON_WIRE: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "settings on the wire": ("requests have the settings that were given, and the protocols that the driver claims", ()),
    "many answers": (
        "of 144 transactions whose requests arrive late no record, commit or abort is answered before the broker has it",
        ("transactions",),
    ),
}
DELAY_MS, EARLY_MS = 30, 25  # by which requests are late; what is answered before that, whoever's clock is the coarser one
HEAP_MB = 128
TIMEOUT_MS = 23_000  # nobody's default
ISOLATION = {Isolation.UNCOMMITTED: 0, Isolation.COMMITTED: 1}  # as Fetch has them
FIRST_OF_SECOND = 5  # EndTxn of the second transaction protocol (KIP-890)
OFFERS_SECOND, OFFERS_CONSUMER = (4, 0), (4, 0)  # releases of Kafka
ACKS = {"all": -1, "1": 1}  # as Produce has them
FETCHES = Rule(name="fetches", api="Fetch", act="record")
LATE = Rule(name="late", api=["Produce", "EndTxn"], act="delay", delay_ms=DELAY_MS)
ANSWERS = {
    "record": "report `delivered` only for what the broker acknowledged",
    "commit": "answer `commit` when the client's own commit has returned",
    "abort": "answer `abort` when the client's own abort has returned",
}


@dataclass
class Wire:
    """A proxy before the broker.

    bootstrap: the address at which clients reach it.
    record: the directory of its record.
    settle: waits until the record has all that has passed.
    """

    bootstrap: str
    record: Path
    settle: Callable[[], object]
    _name: str = ""
    _before: int = 0

    def begin(self, name: str) -> None:
        """Look at the requests of the client of this name, from now on."""
        self._name, self._before = name, len(self._lines())

    def is_named(self) -> bool:
        """Whether the client says its name. Otherwise requests of a client that was closed before may be among its own."""
        return any(self._is_own(line) for line in self._lines()[self._before :])

    def requests(self, api: str) -> list[dict[str, Any]]:
        """The bodies of its requests."""
        return [_body(line) for line in self._own(api)]

    def versions(self, api: str) -> set[int]:
        """The versions of its requests."""
        return {line.version or 0 for line in self._own(api)}

    def _own(self, api: str) -> list[Line]:
        lines = self._lines()[self._before :]
        own = [line for line in lines if self._is_own(line)] or lines
        return [line for line in own if line.at == "request" and line.api == api]

    def _is_own(self, line: Line) -> bool:
        """Whether the client's id is this name; libraries add words of their own."""
        return re.search(rf"{re.escape(self._name)}(?!\d)", line.client_id or "") is not None

    def _lines(self) -> list[Line]:
        self.settle()
        return [line for file in self.record.glob("*.jsonl") for line in lines_of(file)]


@dataclass
class Early:
    """Answers to requests that were `DELAY_MS` late.

    seen: how many there were.
    found: of those that came before, after how many milliseconds.
    """

    seen: int = 0
    found: list[float] = field(default_factory=list)

    def note(self, began: float) -> None:
        """An answer now to a call that was made at `began`."""
        self.seen += 1
        took_ms = (time.monotonic() - began) * 1000
        if took_ms < EARLY_MS:
            self.found.append(took_ms)


class WireStories(RepeatedStories):
    """Plays the stories behind a proxy."""

    @contextmanager
    def _wire(self, *rules: Rule) -> Iterator[Wire]:
        """A proxy before the broker. Raises NotHere where there can be none."""
        cluster: Any = self._cluster
        if self._kafka() < FIRST:
            raise NotHere(f"the proxy reads Kafka {'.'.join(map(str, FIRST))} and newer")
        with ExitStack() as stack:
            record = Path(stack.enter_context(TemporaryDirectory(prefix="fencepost-kit-")))
            settings = Settings(brokers=[Broker(upstream=self._cluster.bootstrap())], rewrite=True, record=record, rules=rules)
            try:
                proxy = ProxyProcess(settings, with_proxy(cluster.message_jars(cluster.brokers[0])), heap_mb=HEAP_MB)
                stack.enter_context(proxy)
            except ClusterError as error:
                raise NotHere(f"no proxy before the broker: {error}") from error
            yield Wire(proxy.address, record, proxy.control.status)

    # -- settings ---------------------------------------------------------------------------------
    def story_settings_on_the_wire(self) -> str:
        stories = {
            "transactions": self._transactional_settings,
            "idempotence": self._acks_of_all,
            "": self._acks_of_one,
            "assign": self._isolation_levels,
            "static-members": self._static_member,
            "consumer-protocol": self._consumer_protocol,
        }
        with self._wire(FETCHES) as wire:
            seen = [play(wire) for need, play in stories.items() if not need or need in self.capabilities]
        return "; ".join(filter(None, seen))

    def _transactional_settings(self, wire: Wire) -> str:
        name, producer = self._name(), {**TRANSACTIONAL, "transaction.timeout.ms": TIMEOUT_MS}
        settings = self._settings(producer, None, name=name, transactional_id=f"{name}-id", bootstrap=wire.bootstrap)
        wire.begin(name)
        with self._client(settings) as client:
            self._transaction(client, fresh_values("wire", 2))
        begun = [one for one in wire.requests("InitProducerId") if one.get("transactionalId")]
        change = "give the producer's settings, and its transactional id, to the client as they are"
        ids = sorted({str(one.get("transactionalId")) for one in begun})
        demand(ids == [f"{name}-id"], f"the transactional id {name}-id was given, and {', '.join(ids) or 'none'} is used", change)
        timeouts = {one.get("transactionTimeoutMs") for one in begun}
        text = f"transaction.timeout.ms = {TIMEOUT_MS} was given, and {_shown(timeouts)} is asked for"
        demand(timeouts == {TIMEOUT_MS}, text, change)
        self._demand_acks(wire, "all")
        return f"transaction.timeout.ms {TIMEOUT_MS}, {self._transaction_protocol(wire)}"

    def _transaction_protocol(self, wire: Wire) -> str:
        """The transaction protocol by the versions of EndTxn. Raises Flaw for another one than `hello` named."""
        newest = max(wire.versions("EndTxn"), default=0)
        spoken = 2 if newest >= FIRST_OF_SECOND else 1
        text = (
            f"`hello` names transaction protocol {self.transactions}, and EndTxn has version {newest}, which is protocol {spoken}"
        )
        most = (self.transactions or 1) if self._kafka() >= OFFERS_SECOND else 1
        demand(spoken == most, text, "name the newest transaction protocol of the library as `transactions`")
        return f"transaction protocol {spoken}"

    def _kafka(self) -> tuple[int, ...]:
        """The broker's version."""
        cluster: Any = self._cluster
        return tuple(int(number) for number in re.findall(r"\d+", cluster.version(cluster.brokers[0]))[:2])

    def _acks_of_all(self, wire: Wire) -> str:
        return self._sent_with(wire, IDEMPOTENT)

    def _acks_of_one(self, wire: Wire) -> str:
        """With acks=1, which a driver may refuse."""
        producer = {"acks": "1", "enable.idempotence": False, "delivery.timeout.ms": 15_000}
        with self._process() as process:
            process.start()
            if process.call("check", producer=producer, consumer=None).get("refused"):
                return "acks=1 is refused"
        return self._sent_with(wire, producer)

    def _sent_with(self, wire: Wire, producer: Mapping[str, Any]) -> str:
        settings = self._settings(producer, None, bootstrap=wire.bootstrap)
        wire.begin(settings.name)
        with self._client(settings) as client:
            client.send(Outgoing(topic=TOPIC, partition=0, value=fresh_values("wire", 1)[0]), lambda _: None)
            client.flush(CALL_S)
        self._demand_acks(wire, str(producer["acks"]))
        return f"acks {producer['acks']}"

    def _demand_acks(self, wire: Wire, acks: str) -> None:
        asked = {one.get("acks") for one in wire.requests("Produce")}
        text = f"acks = {acks} was given, and {_shown(asked)} is asked for"
        demand(asked == {ACKS[acks]}, text, "give acks to the client, or refuse it in `check`")

    def _isolation_levels(self, wire: Wire) -> str:
        """Each of several readers of one driver, one after the other, asks for its own level."""
        levels = [*ISOLATION] if "isolation" in self.capabilities else [Isolation.COMMITTED]
        with self._process() as process:
            for level in (*levels, *levels):
                settings = self._settings(None, level, bootstrap=wire.bootstrap)
                client = DriverClient(process, settings)
                wire.begin(settings.name)
                client.open(CALL_S)
                read_all(client)
                asked = {one.get("isolationLevel") for one in wire.requests("Fetch")}
                client.close()
                if not wire.is_named():
                    process.end()
                text = f"isolation.level = {level.value} was given, and {_shown(asked)} is asked for"
                demand(asked == {ISOLATION[level]}, text, "give isolation.level to the client, whatever its default")
        return f"isolation.level {' and '.join(level.value for level in levels)}"

    def _static_member(self, wire: Wire) -> str:
        name = self._name()
        self._join(wire, {"group.instance.id": name})
        given = {one.get("groupInstanceId") for one in wire.requests("JoinGroup")}
        text = f"group.instance.id = {name} was given, and {_shown(given)} joins the group"
        demand(given == {name}, text, "give group.instance.id to the client, or do not claim `static-members`")
        return "group.instance.id"

    def _consumer_protocol(self, wire: Wire) -> str:
        if self._kafka() < OFFERS_CONSUMER:
            return ""
        self._join(wire, {"group.protocol": "consumer"})
        seen = (
            f"group.protocol = consumer was given, and {plural(len(wire.requests('JoinGroup')), 'JoinGroup')} of the other sent"
        )
        known = wire.requests("ConsumerGroupHeartbeat") and not wire.requests("JoinGroup")
        demand(known, seen, "give group.protocol to the client, or do not claim `consumer-protocol`")
        return "group.protocol consumer"

    def _join(self, wire: Wire, consumer: Mapping[str, Any]) -> None:
        """A member with these settings joins a group and gets the partitions."""
        settings = self._settings(None, Isolation.COMMITTED, bootstrap=wire.bootstrap)
        wire.begin(settings.name)
        with self._client(replace(settings, consumer={**(settings.consumer or {}), **consumer})) as client:
            self._joined(client)

    # -- answers ----------------------------------------------------------------------------------
    def story_many_answers(self) -> str:
        planned, early = shuffled(self.many.answers, self.many.answers // 5), {what: Early() for what in ANSWERS}
        with self._wire(LATE) as wire, self._writer(bootstrap=wire.bootstrap) as client:
            for number, end in enumerate(self._while_time(planned)):
                self._late_transaction(client, end, number, early)
        for what, answers in early.items():
            first = f"; the first after {answers.found[0]:.0f} ms" if answers.found else ""
            text = f"{len(answers.found)} of {plural(answers.seen, what)} were answered before the broker had them{first}"
            demand(not answers.found, text, ANSWERS[what])
        counts = {f"{what}s": answers.seen for what, answers in early.items()}
        return self._answered(sensitivity(**counts), counts["commits"] + counts["aborts"], len(planned))

    def _late_transaction(self, client: Client, end: str, number: int, early: Mapping[str, Early]) -> None:
        """A transaction of one record; its requests reach the broker `DELAY_MS` late."""
        self._call(client, "begin")
        began = time.monotonic()
        record = Outgoing(topic=TOPIC, partition=number % 2, value=fresh_values("late", 1)[0])
        self._call(client, "send", record, lambda _: early["record"].note(began))
        self._call(client, "flush", CALL_S)
        began_to_end = time.monotonic()
        self._call(client, end, CALL_S)
        early[end].note(began_to_end)


def _shown(values: set[Any]) -> str:
    return " and ".join(sorted(map(str, values))) or "nothing"


def _body(line: Line) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(bytes(line.body) or b"{}")
    return body
