"""One table of a campaign (or the options of `fencepost run`) -> one `Test`, or every mistake in it.

The keys, their types and their bounds are declared in `harness/api/plans.py`; pydantic judges the types.
`KeyReader` reads by the declaration. `_Rules` has what a declaration cannot hold: whether plug-ins can be made of their options,
what librdkafka accepts, which keys go together.

A mistake is found at a path of keys (`("nemesis", 0, "target")`); the caller names that path, in a file or on a command line:
`locate`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING
from typing import Any, get_args, get_origin

from fencepost.harness import secrets
from fencepost.harness.api import (
    CampaignError,
    CountsSecondBrokers,
    DemandsContract,
    FiresFault,
    Interceptable,
    JudgesSettings,
    ReportsSettings,
    RunsImages,
)
from fencepost.harness.api.bounds import plain, unusable_numbers
from fencepost.harness.api.contract_layers import contract_mistakes
from fencepost.harness.api.expectations import ALONE, ANYWHERE, anomaly_and_word
from fencepost.harness.api.plans import Choice, DeclaredKey, FaultChoice, Key, Lane, Span, Tables, Test, declared
from fencepost.harness.api.values import from_digits
from fencepost.harness.api.words import did_you_mean
from fencepost.harness.campaign import targets
from fencepost.harness.campaign.client_settings import OURS, refused_settings
from fencepost.harness.campaign.demands import unsaid_demands
from fencepost.harness.campaign.toml import Keys, as_text
from fencepost.harness.campaign.vain_settings import in_vain
from fencepost.harness.drivers import families
from fencepost.harness.planning import same_target, schedule
from fencepost.harness.planning.clients import member_settings, reader_settings
from fencepost.harness.planning.derived_contract import derive
from fencepost.harness.planning.plan import foreseen_contract
from fencepost.harness.plugins import fault_validation, registry, services, validation
from fencepost.harness.plugins.check_options import load_check

SPANS = (Span, Span | None)
TWO_CLUSTERS = (
    'the workload uses a second Kafka cluster: second_brokers = 1 (or more) in [test.cluster], where kind is "local" or "docker"'
)
MOST_TRANSACTION_MS = 900_000  # Kafka's default of the brokers' transaction.max.timeout.ms
LONGEST = 1200  # characters of a sentence about a mistake

Locate = Callable[[Keys], str]


def read_test(table: Mapping[str, Any], locate: Locate, campaign: str = "") -> Test:
    """The test that `table` describes. Raises CampaignError with every mistake."""
    reader = KeyReader(locate)
    test = Test(**reader.fields(Test, table), campaign=campaign)
    _Rules(reader, test).check()
    if reader.mistakes:
        raise CampaignError(reader.mistakes)
    return test


class KeyReader:
    """Reads tables by the declaration and notes every mistake; what cannot be read gets a stand-in, so that reading goes on."""

    def __init__(self, locate: Locate) -> None:
        self.locate = locate
        self.mistakes: list[str] = []

    def wrong(self, keys: Keys, text: str) -> None:
        sentence = " ".join(text.split())
        if len(sentence) > LONGEST:
            sentence = f"{sentence[: LONGEST // 2]} ... {sentence[-LONGEST // 4 :]}"
        self.mistakes.append(f"{self.locate(keys)}: {sentence}")

    def fields(self, cls: Any, table: Mapping[str, Any], keys: Keys = (), *, closed: bool = True) -> dict[str, Any]:
        """The values of the keys that `cls` declares, by field. closed: there are no other keys."""
        declaration = declared(cls)
        if closed:
            self.known_keys(table, keys, [key.path for key in declaration])
        return {key.field: self.value(key, _at(table, key.path), (*keys, *key.path)) for key in declaration}

    def known_keys(self, table: Mapping[str, Any], keys: Keys, paths: Collection[tuple[str, ...]]) -> None:
        """Every key of the table begins one of these paths; what lies within a path is a table."""
        inner = {name: [path[1:] for path in paths if path[0] == name and path[1:]] for name in {path[0] for path in paths}}
        for name, value in table.items():
            if name not in inner:
                self.wrong((*keys, name), registry.unknown("key", name, inner))
            elif inner[name] and self.is_table((*keys, name), value):
                self.known_keys(value, (*keys, name), inner[name])

    def is_table(self, keys: Keys, given: Any, written: str = "") -> bool:
        if not isinstance(given, dict):
            self.wrong(keys, f"must be a table{written and f', {written}'}, not {registry.shown(given)}")
        return isinstance(given, dict)

    def value(self, key: DeclaredKey, given: Any, keys: Keys) -> Any:
        """The value of a key as `given`: by its type, a plug-in with options, tables, settings, or what pydantic makes of it."""
        if given is MISSING:
            if key.default is MISSING:
                self.wrong(keys, "missing")
                return _stand_in(key)
            return key.default
        if key.type is Choice:
            return self.choice(key, given, keys)
        if key.type == tuple[FaultChoice, ...]:
            return self.faults(given, keys)
        if key.type == Tables:
            return self.tables(given, keys, f"[[{keys[-1]}]]")
        if get_origin(key.type) is Mapping:
            return self.mapping(key, given, keys)
        if dataclasses.is_dataclass(key.type):
            return self.record(key.type, given, keys)
        return self.plain(key, given, keys)

    def record(self, cls: Any, given: Any, keys: Keys) -> Any:
        """A table as the dataclass that declares its keys."""
        return cls(**self.fields(cls, given if self.is_table(keys, given) else {}, keys))

    def choice(self, key: DeclaredKey, given: Any, keys: Keys) -> Choice:
        kind = given if isinstance(given, str) else "..."
        options = dict(given) if self.is_table(keys, given, f'{keys[-1]} = {{kind = "{kind}"}}') else {}
        kind, wrong = registry.convert(options.pop("kind", key.default.kind), str)
        for _, text in wrong:
            self.wrong((*keys, "kind"), text)
        return Choice(kind=key.default.kind if wrong else kind, options=options)

    def faults(self, given: Any, keys: Keys) -> tuple[FaultChoice, ...]:
        return tuple(
            self.fault(entry, (*keys, number)) for number, entry in enumerate(self.tables(given, keys, "[[test.nemesis]]"))
        )

    def tables(self, given: Any, keys: Keys, written: str) -> Tables:
        if isinstance(given, list) and all(isinstance(entry, dict) for entry in given):
            return tuple(given)
        self.wrong(keys, f"must be a list of tables ({written}, in double brackets), not {registry.shown(given)}")
        return ()

    def fault(self, table: Mapping[str, Any], keys: Keys) -> FaultChoice:
        """A fault's schedule; what is left of its table are the fault's options."""
        schedule_keys = {key.path[0] for key in declared(FaultChoice)}
        options = {key: value for key, value in table.items() if key not in schedule_keys}
        return FaultChoice(**self.fields(FaultChoice, table, keys, closed=False), options=options)

    def mapping(self, key: DeclaredKey, given: Any, keys: Keys) -> dict[str, Any]:
        """Any table (`Any`), tables by name, or settings of Kafka: as they are (`Setting`) or as texts (`str`)."""
        table = given if self.is_table(keys, given) else {}
        if key.key.choices:
            self.known_keys(table, keys, [(name,) for name in key.key.choices])
        entry_type = get_args(key.type)[1]
        if dataclasses.is_dataclass(entry_type):
            return {name: self.record(entry_type, entry, (*keys, name)) for name, entry in table.items()}
        if entry_type is Any:
            return table
        if entry_type is int:
            return {
                name: number for name, value in table.items() if (number := self.whole((*keys, name), key, value)) is not None
            }
        settings = {name: value for name, value in table.items() if self.is_setting((*keys, name), value)}
        return {name: as_text(value) for name, value in settings.items()} if entry_type is str else settings

    def whole(self, keys: Keys, key: DeclaredKey, value: Any) -> int | None:
        """A whole number within the bounds of its table's key; None, and a mistake, for anything else."""
        number, wrong = registry.convert(value, int)
        mistakes = [text for _, text in wrong] or _out_of_bounds(key.key, number)
        for text in mistakes:
            self.wrong(keys, text)
        return None if mistakes else int(number)

    def is_setting(self, keys: Keys, value: Any) -> bool:
        if not isinstance(value, str | int | float):
            self.wrong(keys, f"must be a text, a number, true or false, not {registry.shown(value)}")
            return False
        odd = [text for _, text in unusable_numbers(value)]
        for text in odd:
            self.wrong(keys, text)
        return not odd

    def plain(self, key: DeclaredKey, given: Any, keys: Keys) -> Any:
        """A number, a text, a flag, a list of texts (or one of them), a span (or the one length that it always has)."""
        value = given
        if key.type in SPANS and not isinstance(given, list):
            value = [given, given]
        elif key.type == tuple[str, ...] and isinstance(given, str):
            value = [given]
        converted, wrong = registry.convert(value, key.type)
        if wrong and key.type in SPANS and not [*unusable_numbers(value)]:
            wrong = [("", f"must be a number, or two of them in brackets, [lowest, highest]; not {registry.shown(given)}")]
        mistakes = [registry.with_unit(keys[-1], text) for _, text in wrong] or _breaches(key, converted)
        for text in dict.fromkeys(mistakes):
            self.wrong(keys, text)
        return _stand_in(key) if mistakes else converted


def _named(key: str, text: str, options: Collection[str]) -> tuple[str, str]:
    """A mistake with the option that it is about, where its sentence begins with the name of one that was given."""
    name, colon, rest = text.partition(": ")
    return (name, rest) if not key and colon and name in options else (key, text)


def _stand_in(key: DeclaredKey) -> Any:
    """A value of the right type for a key that has none: nothing follows from it."""
    if key.type in SPANS:
        return (1.0, 1.0)
    return "" if key.default is MISSING else key.default


def _at(table: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of a table; MISSING when there is none."""
    for name in path:
        table = table.get(name, MISSING) if isinstance(table, dict) else MISSING
    return table


def _breaches(key: DeclaredKey, value: Any) -> list[str]:
    """Mistakes in a value of the right type."""
    limits: Key = key.key
    if isinstance(value, str):
        if limits.choices and value not in (*limits.choices, key.default):
            return [registry.unknown("value", value, limits.choices)]
        if limits.most is not None and len(value) > limits.most:
            return [f"must have at most {limits.most:g} characters, not {len(value)}"]
        return ["must not be empty"] if key.default is MISSING and not value.strip() else []
    if key.type in SPANS and value is not None:
        low, high = value
        wrong = [f"must be [lowest, highest], not [{plain(low)}, {plain(high)}]"] if low > high else []
        return [*_out_of_bounds(limits, low), *_out_of_bounds(limits, high), *wrong]
    return _out_of_bounds(limits, value) if isinstance(value, int | float) else []


def _out_of_bounds(limits: Key, number: float) -> list[str]:
    if limits.above is not None and number <= limits.above:
        return [f"must be above {plain(limits.above)}, not {plain(number)}"]
    if limits.least is not None and number < limits.least:
        return [f"must be at least {plain(limits.least)}, not {plain(number)}"]
    if limits.most is not None and number > limits.most:
        return [f"must be at most {plain(limits.most)}, not {plain(number)}"]
    return []


class _Rules:
    """Mistakes of a test whose values are all of their types."""

    def __init__(self, reader: KeyReader, test: Test) -> None:
        self.test, self.wrong = test, reader.wrong
        self.workload: Any = None  # the workload made of its options; None when they are wrong
        self.provider: Any = None  # the same of the cluster's provider
        self.faults: dict[Keys, Any] = {}  # the faults made of their options; None where they are wrong

    def check(self) -> None:
        test = self.test
        self.workload = self.made("workload", test.workload, ("workload",))
        self.provider = self.made("cluster", test.cluster, ("cluster",))
        self.images()
        self.wire()
        self.second_cluster()
        self.kafka_settings()
        self.settings_in_vain()
        for key, kind in (("kind", test.client), ("readers", test.readers)):
            self.client(kind, ("client", key))
        self.client_settings()
        self.transaction_timeout()
        for number, fault in enumerate(test.nemesis):
            self.fault(fault, ("nemesis", number))
        for name, lane in test.lanes.items():
            self.lane(name, lane)
        self.contract()
        self.expectation(self.own_anomalies())

    def plug_in(self, group: str, kind: str, keys: Keys) -> Any:
        """A plug-in by its name; None when there is none that can be used."""
        try:
            plug_in = load_check(kind) if group == "checker" else registry.load(group, kind)
        except CampaignError as error:
            for mistake in error.mistakes:
                self.wrong(keys, mistake)
            return None
        broken = validation.breaches(group, plug_in)
        for text in broken:
            self.wrong(keys, text)
        return None if broken else plug_in

    def client(self, kind: str, keys: Keys) -> None:
        """A client by its name: one in the worker's process, or a driver."""
        if families.is_driver(kind):
            for text in families.mistakes(kind):
                self.wrong(keys, text)
        elif ":" in kind or kind in registry.names("client"):
            self.plug_in("client", kind, keys)
        elif kind:
            self.wrong(keys, f"{families.unknown(kind)}, or an import path `module:Class`")

    def made(self, group: str, choice: Choice | FaultChoice, keys: Keys) -> Any:
        """A plug-in made of its options, to find the mistakes in them; None when there are any."""
        cls = self.plug_in(group, choice.kind, (*keys, "kind"))
        if cls is None:
            return None
        beside = [key.path[0] for key in declared(FaultChoice)] if isinstance(choice, FaultChoice) else ["kind"]
        made, wrong = registry.attempt(cls, choice.options, beside)
        for key, text in (_named(key, text, choice.options) for key, text in wrong):
            self.wrong((*keys, key) if key else keys, text)
        flaws = [] if wrong else validation.flaws(group, made)
        for text in flaws:
            self.wrong(keys if choice.options else (*keys, "kind"), text)
        return None if flaws else made

    def images(self) -> None:
        """A program in an image needs a cluster that can run images."""
        programs = [role.program for role in self.workload.roles() if role.program] if self.workload is not None else []
        if (
            any(program.image for program in programs)
            and self.provider is not None
            and not (isinstance(self.provider, RunsImages) and self.provider.runs_images)
        ):
            self.wrong(("workload", "image"), 'only a cluster in Docker runs images: [test.cluster] kind = "docker"')

    def wire(self) -> None:
        """A program whose requests are to be judged needs proxies that record them."""
        programs = [role.program for role in self.workload.roles() if role.program] if self.workload is not None else []
        if any(program.wire for program in programs) and self.provider is not None and self.provider.missing().get(Interceptable):
            text = "needs a proxy before the brokers: cluster.proxy = true (on the command line --cluster-set proxy=true)"
            self.wrong(("workload", "wire"), text)

    def second_cluster(self) -> None:
        """A workload that uses a second Kafka cluster needs one."""
        parts = (*self.workload.roles(), *self.workload.topics().values()) if self.workload is not None else ()
        if (
            any(part.cluster for part in parts)
            and self.provider is not None
            and not (isinstance(self.provider, CountsSecondBrokers) and self.provider.second_brokers)
        ):
            self.wrong(("cluster",), TWO_CLUSTERS)

    def kafka_settings(self) -> None:
        """Settings of brokers and topics, where their definitions are at hand (else before the first run: `harness.planning`)."""
        if isinstance(self.provider, JudgesSettings):
            for table, name, text in self.provider.judged_settings(self.test.topic)[0]:
                self.wrong((*(("cluster",) if table != "topic" else ()), table, name), text)

    def settings_in_vain(self) -> None:
        """Settings with which nothing could be written, committed or joined."""
        for keys, text in in_vain(self.test, self.provider, self.workload):
            self.wrong(keys, text)

    def client_settings(self) -> None:
        for kind, settings in (("producer", self.test.producer), ("consumer", self.test.consumer)):
            keys = ("client", kind)
            for key, text in secrets.mistakes(settings):
                self.wrong((*keys, key), text)
            if self.test.client == "librdkafka":
                self.librdkafka_settings(keys, settings)

    def librdkafka_settings(self, keys: tuple[str, str], settings: Mapping[str, Any]) -> None:
        for key in sorted(OURS & settings.keys()):
            self.wrong((*keys, key), "is set by fencepost itself")
        usable = {key: as_text(value) for key, value in secrets.judged(settings).items() if key not in OURS}
        for key, text in refused_settings(keys[-1], usable, self.beneath(keys[-1])):
            self.wrong((*keys, key) if key else keys, text)

    def transaction_timeout(self) -> None:
        """Brokers refuse producers whose transactions may last longer than `transaction.max.timeout.ms`."""
        name = "transaction.timeout.ms"
        if not isinstance(self.provider, ReportsSettings) or self.workload is None or not self.transactional():
            return
        wanted = as_text({**self.workload.producer_settings(), **self.test.producer}.get(name, ""))
        most = as_text(self.provider.effective_settings().get("transaction.max.timeout.ms", MOST_TRANSACTION_MS))
        if wanted.isdecimal() and most.isdecimal() and from_digits(wanted) > from_digits(most):
            keys = ("client", "producer", name) if name in self.test.producer else ("workload",)
            self.wrong(keys, f"{name} = {wanted}: brokers refuse more than their transaction.max.timeout.ms = {most}")

    def beneath(self, kind: str) -> list[dict[str, Any]]:
        """What lies beneath the test's own settings of its producers or consumers, for each kind of these."""
        if kind == "producer":
            return [self.producer_settings()]
        members = member_settings(self.workload, self.test) if self.workload is not None else {}
        read = [] if self.test.readers else [reader_settings(self.test)]  # another client judges its own settings
        kinds = [*read, *([members] if members else [])]
        return [{key: value for key, value in settings.items() if key not in self.test.consumer} for settings in kinds]

    def producer_settings(self) -> dict[str, Any]:
        """The workload's settings, beneath the test's own; none when the workload is wrong itself."""
        if self.workload is None:
            return {}
        return {**self.workload.producer_settings(), **({"transactional.id": "fencepost-check"} if self.transactional() else {})}

    def transactional(self) -> bool:
        return any(role.transactional for role in self.workload.roles())

    def fault(self, fault: FaultChoice, keys: Keys) -> None:
        if same_target.is_same(fault):
            fault = self.aimed(fault, keys)
        made = self.made("nemesis", fault, keys) if fault.kind else None
        self.faults[keys] = made
        for key in () if fault.kind else fault.options:  # which options there are is not known: what may be a key misspelt
            if did_you_mean(key, schedule_keys := [own.path[0] for own in declared(FaultChoice)]):
                self.wrong((*keys, key), registry.unknown("key", key, schedule_keys))
        for key, text in targets.impossible(made, targets.cast(self.provider, self.workload)) if made else ():
            self.wrong((*keys, key) if key else keys, text)
        if isinstance(made, FiresFault) and (other := made.fired()):
            self.fault(FaultChoice(kind=other[0], options=dict(other[1])), (*keys, "fire"))
        for setting, text in fault_validation.refused_topic_settings(made, self.provider) if made else ():
            self.wrong((*keys, "settings", setting), text)
        if isinstance(made, DemandsContract):
            for text in unsaid_demands(made.demanded_contract(), self.test, self.provider, self.workload):
                self.wrong(keys, text)
            if made.demanded_contract().get("topic_deletions") == "records" and self.grouped():
                self.wrong((*keys, "target"), "what a group read from a topic that was deleted, or made of it, is not judged")
        if fault.when and self.workload is not None and not self.transactional():
            self.wrong((*keys, "when"), "this workload has no transactions")
        dense = schedule.too_dense(fault.every_s, fault.lasts_s)
        if text := dense or schedule.too_many(fault.every_s, fault.lasts_s, self.test.time_s):
            self.wrong(keys, text)

    def aimed(self, fault: FaultChoice, keys: Keys) -> FaultChoice:
        """A fault for the same node as the first one of its group, with a node by which its options can be judged."""
        first = same_target.first_of(fault, self.test.nemesis)
        made = self.faults.get(("nemesis", self.test.nemesis.index(first))) if first else None
        wrong = same_target.unclear(first is not None, made)
        known = fault.kind in registry.names("nemesis") or ":" in fault.kind
        wrong = wrong or (same_target.refused(registry.load("nemesis", fault.kind), fault.options, made) if known else "")
        if wrong:
            self.wrong((*keys, "target"), wrong)
        beside = {name: value for name, value in fault.options.items() if name != "target"}
        return dataclasses.replace(fault, options=beside if wrong else same_target.standing_in(fault.options, made))

    def grouped(self) -> bool:
        """True if members of a group, or a program, read topics of the workload."""
        return self.workload is not None and any(role.group or role.program for role in self.workload.roles())

    def lane(self, name: str, lane: Lane) -> None:
        used = schedule.lanes(self.test.nemesis)
        if name not in used:
            self.wrong(("lanes", name), registry.unknown("lane", name, used))
            return
        if text := schedule.unpaired(lane):
            self.wrong(("lanes", name), text)

    def contract(self) -> None:
        """The test's contract has values of the table, and its workload and its clients can keep it."""
        beneath = {}
        if self.workload is not None:
            producer = {**self.workload.producer_settings(), **self.test.producer}
            beneath = derive(self.workload.roles(), producer, self.test.topic, {})
        for key, text in contract_mistakes(self.test.contract, beneath):
            self.wrong(("contract", key), text)

    def own_anomalies(self) -> list[str]:
        """The anomalies of the test's own checks."""
        checks = [self.plug_in("checker", path, ("checkers",)) for path in self.test.checkers]
        return [check.name for check in checks if check is not None]

    def expectation(self, own: list[str]) -> None:
        known = [*registry.names("checker"), *own]
        for key, texts, choices, word in (
            ("expect", self.test.expect, ["valid", *known], ALONE),
            ("tolerate", self.test.tolerate, known, ANYWHERE),
        ):
            for name, behind in map(anomaly_and_word, texts):
                if name not in choices:
                    self.wrong((key,), registry.unknown("anomaly", name, choices))
                if behind and (behind != word or name == "valid"):
                    self.wrong((key,), f'"{name}" stands alone, or before the word "{word}"; not before "{behind}"')
        self.expected_in_vain(known)
        if not self.test.expect or ("valid" in self.test.expect and len(self.test.expect) > 1):
            self.wrong(("expect",), 'must be "valid", or the anomalies that must be found')
        if self.test.expect == ("valid",) and self.test.tolerate:
            self.wrong(("tolerate",), "only beside expected anomalies; a test that expects a valid run tolerates none")

    def expected_in_vain(self, known: Collection[str]) -> None:
        """An anomaly that the test's settings permit, or that cannot be judged under them, meets no expectation."""
        names = [name for name, _ in map(anomaly_and_word, self.test.expect) if name in known]
        if not names or self.workload is None or self.provider is None:
            return
        try:
            contract = foreseen_contract(self.test, self.provider, self.workload)
        except CampaignError:  # a contract that cannot be meant, which is named already
            return
        for name in names if contract is not None else ():
            if why := services.judge().never_forbidden(name, contract or {}):
                self.wrong(("expect",), f'"{name}" cannot be found against this test\'s contract: {why}')
