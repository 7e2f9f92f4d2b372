"""One table of a campaign (or the options of `fencepost run`) -> one `Test`, or every mistake in it.

A mistake is found at a path of keys (`("nemesis", 0, "target")`); what that path is called, in a file or on a command
line, is the caller's business: `locate`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from harness import secrets
from harness.api import CONTRACT_KEYS, WHEN, Budget, CampaignError, Choice, FaultChoice, Lane, Test
from harness.campaign.client_settings import OURS, refused_settings
from harness.campaign.toml import Keys
from harness.planning import schedule
from harness.plugins import registry, validation

Locate = Callable[[Keys], str]

TEST_KEYS = (
    "name", "expect", "tolerate", "checkers", "time_s", "rate", "repeat", "seed",
    "cluster", "workload", "client", "topic", "contract", "nemesis", "lanes", "budget",
)  # fmt: skip
_SCHEDULE_KEYS = ("every_s", "lasts_s", "lane", "together", "when")
_LANE_KEYS, _BUDGET_KEYS = ("order", "busy_s", "quiet_s"), ("nodes", "keep_quorum")


def read_test(table: Mapping[str, Any], locate: Locate, campaign: str = "") -> Test:
    """The test that `table` describes. Raises CampaignError with every mistake."""
    reader = _Reader(table, locate)
    test = reader.test(campaign)
    if reader.mistakes:
        raise CampaignError(reader.mistakes)
    return test


def as_text(value: Any) -> str:
    """A setting's value as Kafka writes it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Reader:
    """Reads one table and remembers every mistake; what cannot be read gets a stand-in, so that reading goes on."""

    def __init__(self, table: Mapping[str, Any], locate: Locate) -> None:
        self.table, self.locate = table, locate
        self.mistakes: list[str] = []
        self.strange: list[str] = []  # anomalies of checks that are not installed
        self.made: dict[str, Any] = {}  # plug-ins made from their options; None when those are wrong

    def test(self, campaign: str) -> Test:
        self.known_keys((), self.table, TEST_KEYS)
        producer, consumer = self.settings(("client", "producer")), self.settings(("client", "consumer"))
        client, workload = self.client(), self.choice("workload", "transactions")
        checkers = self.checkers()
        self.no_secrets(("client", "producer"), producer)
        self.no_secrets(("client", "consumer"), consumer)
        if client == "librdkafka":
            self.client_settings(("client", "producer"), producer)
            self.client_settings(("client", "consumer"), consumer)
        return Test(
            name=self.name(),
            cluster=self.choice("cluster", "auto"),
            workload=workload,
            nemesis=(nemesis := self.nemesis()),
            lanes=self.lanes({choice.lane for choice in nemesis}),
            budget=self.budget(),
            client=client,
            producer=producer,
            consumer=consumer,
            topic={key: as_text(value) for key, value in self.settings(("topic",)).items()},
            contract=self.contract(),
            expect=self.expect(),
            checkers=checkers,
            tolerate=self.anomalies("tolerate", []),
            time_s=self.number(("time_s",), self.table.get("time_s", 60.0), above=0),
            rate=self.number(("rate",), self.table.get("rate", 0.0), least=0),
            seed=self.value(("seed",), self.table.get("seed"), int | None, None),
            repeat=int(self.number(("repeat",), self.table.get("repeat", 1), least=1, whole=True)),
            campaign=campaign,
        )

    def wrong(self, keys: Keys, text: str) -> None:
        self.mistakes.append(f"{self.locate(keys)}: {text}")

    def known_keys(self, keys: Keys, table: Mapping[str, Any], known: Collection[str]) -> None:
        for key in table:
            if key not in known:
                self.wrong((*keys, key), registry.unknown("key", key, known))

    def value(self, keys: Keys, value: Any, hint: Any, instead: Any) -> Any:
        """`value` if it has the type `hint`; else `instead`, and a mistake."""
        found, wrong = registry.convert(value, hint)
        for _, text in wrong:
            self.wrong(keys, text)
        return instead if wrong else found

    def number(
        self, keys: Keys, value: Any, *, above: float = float("-inf"), least: float = float("-inf"), whole: bool = False
    ) -> float:
        found: float = self.value(keys, value, int if whole else float, max(1.0, least))
        if found <= above or found < least:
            self.wrong(keys, f"must be {'above ' + str(above) if found <= above else 'at least ' + str(least)}, not {found:g}")
        return found

    def subtable(self, keys: Sequence[str]) -> dict[str, Any]:
        """The table at `keys`; an empty one when it is missing, or is no table (a mistake)."""
        found: Any = self.table
        for depth, key in enumerate(keys, start=1):
            found = found.get(key, {})
            if not isinstance(found, dict):
                if depth == len(keys):
                    self.wrong(tuple(keys), f"must be a table, not {found!r}")
                return {}
        return dict(found)

    def name(self) -> str:
        if "name" not in self.table:
            self.wrong(("name",), "missing")
        name: str = self.value(("name",), self.table.get("name", "?"), str, "?")
        if not name.strip():
            self.wrong(("name",), "must not be empty")
        return name

    def expect(self) -> tuple[str, ...]:
        names = self.anomalies("expect", ["valid"])
        if not names or ("valid" in names and len(names) > 1):
            self.wrong(("expect",), 'must be "valid", or the anomalies that must be found')
        if names == ("valid",) and self.table.get("tolerate"):
            self.wrong(("tolerate",), "only beside expected anomalies; a test that expects a valid run tolerates none")
        return names

    def anomalies(self, key: str, default: list[str]) -> tuple[str, ...]:
        """One anomaly's name or a list of them; `valid` too where it is the default."""
        given = self.table.get(key, default)
        names: list[str] = self.value((key,), [given] if isinstance(given, str) else given, list[str], default)
        known = [*registry.names("checker"), *self.strange]
        for name in names:
            if name not in (*default, *known):
                self.wrong((key,), registry.unknown("anomaly", name, [*default, *known]))
        return tuple(names)

    def checkers(self) -> tuple[str, ...]:
        """Import paths of checks beside the installed ones."""
        given = self.table.get("checkers", [])
        paths: list[str] = self.value(("checkers",), [given] if isinstance(given, str) else given, list[str], [])
        for path in paths:
            try:
                check = registry.load("checker", path)
            except CampaignError as error:
                for mistake in error.mistakes:
                    self.wrong(("checkers",), mistake)
            else:
                if self.sound("checker", check, ("checkers",)):
                    self.strange.append(check.name)
        return tuple(paths)

    def choice(self, group: str, default: str) -> Choice:
        options = self.subtable([group])
        kind: str = self.value((group, "kind"), options.pop("kind", default), str, default)
        self.made[group] = self.build(group, kind, options, (group,))
        return Choice(kind=kind, options=options)

    def build(self, group: str, kind: str, options: Mapping[str, Any], keys: Keys) -> Any:
        """Load a plug-in and make it once, to find the mistakes; None when there are any."""
        try:
            cls = registry.load(group, kind)
        except CampaignError as error:
            for mistake in error.mistakes:
                self.wrong((*keys, "kind"), mistake)
            return None
        if not self.sound(group, cls, (*keys, "kind")):
            return None
        made, wrong = registry.attempt(cls, options)
        for key, text in wrong:
            self.wrong((*keys, key) if key else keys, text)
        flaws = [] if wrong else validation.flaws(group, made)
        for text in flaws:
            self.wrong(keys, text)
        return None if flaws else made

    def sound(self, group: str, plug_in: Any, keys: Keys) -> bool:
        """Whether what was loaded has its kind's interface; every breach is a mistake."""
        broken = validation.breaches(group, plug_in)
        for text in broken:
            self.wrong(keys, text)
        return not broken

    def client(self) -> str:
        table = self.subtable(["client"])
        self.known_keys(("client",), table, ("kind", "producer", "consumer"))
        kind: str = self.value(("client", "kind"), table.get("kind", "librdkafka"), str, "librdkafka")
        try:
            self.sound("client", registry.load("client", kind), ("client", "kind"))
        except CampaignError as error:
            for mistake in error.mistakes:
                self.wrong(("client", "kind"), mistake)
        return kind

    def settings(self, keys: tuple[str, ...]) -> dict[str, Any]:
        found = self.subtable(keys)
        for key, value in found.items():
            if not isinstance(value, str | int | float):
                self.wrong((*keys, key), f"must be a text, a number, true or false, not {value!r}")
        return {key: value for key, value in found.items() if isinstance(value, str | int | float)}

    def no_secrets(self, keys: tuple[str, ...], settings: Mapping[str, Any]) -> None:
        for key, text in secrets.mistakes(settings):
            self.wrong((*keys, key), text)

    def client_settings(self, keys: tuple[str, ...], settings: Mapping[str, Any]) -> None:
        for key in sorted(OURS & settings.keys()):
            self.wrong((*keys, key), "is set by fencepost itself")
        usable = {key: as_text(value) for key, value in secrets.judged(settings).items() if key not in OURS}
        beneath = self.producer_settings() if keys[-1] == "producer" else {}
        for key, text in refused_settings(keys[-1], usable, beneath):
            self.wrong((*keys, key) if key else keys, text)

    def producer_settings(self) -> dict[str, Any]:
        """What the workload sets beneath the test's own settings; nothing when the workload is wrong itself."""
        workload = self.made.get("workload")
        if workload is None:
            return {}
        transactional = any(role.transactional for role in workload.roles())
        return {**workload.producer_settings(), **({"transactional.id": "fencepost-check"} if transactional else {})}

    def contract(self) -> dict[str, str]:
        found = self.settings(("contract",))
        self.known_keys(("contract",), found, CONTRACT_KEYS)
        return {key: as_text(value) for key, value in found.items()}

    def nemesis(self) -> tuple[FaultChoice, ...]:
        given = self.table.get("nemesis", [])
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            self.wrong(("nemesis",), f"must be a list of tables ([[test.nemesis]]), not {given!r}")
            return ()
        return tuple(self.fault(("nemesis", number), entry) for number, entry in enumerate(given))

    def fault(self, keys: Keys, table: Mapping[str, Any]) -> FaultChoice:
        options = {key: value for key, value in table.items() if key not in ("kind", *_SCHEDULE_KEYS)}
        if "kind" not in table:
            self.wrong((*keys, "kind"), "missing")
        kind: str = self.value((*keys, "kind"), table.get("kind", ""), str, "")
        if kind:
            self.build("nemesis", kind, options, keys)
        every_s, lasts_s = self.spans(keys, table)
        return FaultChoice(
            kind=kind,
            options=options,
            every_s=every_s,
            lasts_s=lasts_s,
            lane=self.value((*keys, "lane"), table.get("lane", "main"), str, "main"),
            together=self.value((*keys, "together"), table.get("together", ""), str, ""),
            when=self.when((*keys, "when"), table.get("when", "")),
        )

    def spans(self, keys: Keys, table: Mapping[str, Any]) -> tuple[tuple[float, float], tuple[float, float]]:
        """The pause before a fault and its length."""
        before = len(self.mistakes)
        every_s = self.span((*keys, "every_s"), table.get("every_s", [3.0, 6.0]), least=0)
        lasts_s = self.span((*keys, "lasts_s"), table.get("lasts_s", [3.0, 6.0]), above=0)
        if len(self.mistakes) == before and (text := schedule.too_dense(every_s, lasts_s)):
            self.wrong(keys, text)
        return every_s, lasts_s

    def when(self, keys: Keys, given: Any) -> str:
        """A condition that a strike waits for, one that the workload can fulfil; empty: none."""
        found: str = self.value(keys, given, str, "")
        workload = self.made.get("workload")
        if found and found not in WHEN:
            self.wrong(keys, registry.unknown("condition", found, WHEN))
        elif found and workload is not None and not any(role.transactional for role in workload.roles()):
            self.wrong(keys, "this workload has no transactions")
        return found

    def lanes(self, used: Collection[str]) -> dict[str, Lane]:
        return {name: self.lane(("lanes", name)) for name in self.subtable(["lanes"]) if self.is_used(name, used)}

    def is_used(self, name: str, used: Collection[str]) -> bool:
        if name not in used:
            self.wrong(("lanes", name), registry.unknown("lane", name, used))
        return name in used

    def lane(self, keys: tuple[str, ...]) -> Lane:
        table = self.subtable(keys)
        self.known_keys(keys, table, _LANE_KEYS)
        order: str = self.value((*keys, "order"), table.get("order", schedule.RANDOM), str, schedule.RANDOM)
        spans = {key: self.span((*keys, key), table[key], above=0) for key in ("busy_s", "quiet_s") if key in table}
        found = Lane(order=order, **spans)
        for text in schedule.lane_mistakes(found, ""):
            name, colon, rest = text.partition(":")
            self.wrong((*keys, *filter(None, name.split("."))), rest.strip() if colon else text)
        return found

    def budget(self) -> Budget:
        table = self.subtable(["budget"])
        self.known_keys(("budget",), table, _BUDGET_KEYS)
        nodes: int | None = self.value(("budget", "nodes"), table.get("nodes"), int | None, None)
        if nodes is not None and nodes < 1:
            self.wrong(("budget", "nodes"), f"must be at least 1, not {nodes}")
        keep: bool | None = self.value(("budget", "keep_quorum"), table.get("keep_quorum"), bool | None, None)
        return Budget(nodes=nodes, keep_quorum=keep)

    def span(self, keys: Keys, given: Any, *, above: float = float("-inf"), least: float = float("-inf")) -> tuple[float, float]:
        """A length in seconds: one number, or [lowest, highest]."""
        pair = given if isinstance(given, list) else [given, given]
        low, high = self.value(keys, pair, tuple[float, float], (1.0, 1.0))
        self.number(keys, low, above=above, least=least)
        if low > high:
            self.wrong(keys, f"must be [lowest, highest], not [{low:g}, {high:g}]")
        return low, high
