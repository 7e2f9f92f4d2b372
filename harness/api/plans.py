"""A test, one frozen point of a campaign's matrix, and the faults planned for it; and the declaration of every key of a campaign.

A field that is a key declares it in its type: `Annotated[float, Key("How long ...", above=0, option=RunOption("--time"))]`. All
else is made of the declaration: the reading of a campaign file with all its mistakes (`harness/campaign`), the options of
`fencepost run` (`harness/cli`), the reference page (docs/campaign-reference.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field
from functools import lru_cache
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

from fencepost.harness.api.bounds import MOST_EXACT, WEEK_S
from fencepost.harness.api.clients import RECOVERIES
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.occasions import OCCASIONS

Span = tuple[float, float]  # lowest and highest, in the unit of the field's name
Setting = str | int | float | bool  # of Kafka, as TOML writes it
Tables = tuple[Mapping[str, Any], ...]
PLAIN_TYPES: tuple[Any, ...] = (str, int, float, bool, tuple[str, ...])
WHEN = ("transaction-open",)  # some client is inside a transaction
MOST_REPEATS = 1000
LEAST = ("faults", "transactions", "operations", "records", *OCCASIONS)
SAME = "same"  # a fault's target: the node that the first fault of its `together` group has struck
RANDOM, IN_TURN = ORDERS = ("random", "in turn")


@dataclass(frozen=True)
class RunOption:
    """An option of `fencepost run`.

    name: its name: `--time`.
    short: its short name; empty: it has none.
    text: its help; empty: the key's sentence.
    metavar: the form of its value in the help; empty: the usual one.
    """

    name: str
    short: str = ""
    _: KW_ONLY
    text: str = ""
    metavar: str = ""


@dataclass(frozen=True)
class Key:
    """The meaning of a key of a campaign, and the limits of its value besides its type.

    text: a sentence of the reference page.
    at: its path in its table; empty: the field's name.
    above: a number, or both of a span, must be greater; None: no bound.
    least: the least number, or the least of a span; None: no bound.
    most: the greatest number, or the greatest of a span; of a text, its greatest length; None: no bound.
    choices: the possible values, or the possible keys of a table; empty: any.
    option: the option of `fencepost run` that sets the key; None: there is none.
    settings: the option that sets options of the plug-in that the key chooses; None: there is none.
    planned: the plan has its value, under the same name, where that is plain.
    """

    text: str
    _: KW_ONLY
    at: tuple[str, ...] = ()
    above: float | None = None
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    option: RunOption | None = None
    settings: RunOption | None = None
    planned: bool = True


@dataclass(frozen=True)
class DeclaredKey:
    """A key as its field declares it.

    field: the name of the field.
    path: the key's path in its table.
    type: the type of the field.
    default: its default; MISSING: the key must be given.
    key: the declaration.
    """

    field: str
    path: tuple[str, ...]
    type: Any
    default: Any
    key: Key

    @property
    def plain(self) -> bool:
        """True if its value is a number, a text, a flag or a list of texts, at the top of its table."""
        return self.path == (self.field,) and any(self.type in (kind, kind | None) for kind in PLAIN_TYPES)


def declared(cls: Any) -> tuple[DeclaredKey, ...]:
    """The keys that the dataclass `cls` declares, in its order."""
    return _declared(cls)


@lru_cache(maxsize=100)
def _declared(cls: Any) -> tuple[DeclaredKey, ...]:
    hints = get_type_hints(cls, include_extras=True)
    keys = []
    for attribute in dataclasses.fields(cls):
        hint = hints[attribute.name]
        hint, *notes = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        for key in notes:
            default = attribute.default if attribute.default_factory is MISSING else attribute.default_factory()
            keys.append(DeclaredKey(attribute.name, key.at or (attribute.name,), hint, default, key))
    return tuple(keys)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A plug-in and the options given for it (`kind = "pause"`, `count = 2`).

    kind: its name or import path.
    options: its options, as TOML gives them.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FaultChoice:
    """An entry of `[[test.nemesis]]`: a fault, its pauses and its durations. Its other keys are the fault's options."""

    kind: Annotated[str, Key("The fault: a name that `fencepost plugins` lists, or an import path `module:Class`.")]
    options: Mapping[str, Any] = field(default_factory=dict)
    every_s: Annotated[
        Span,
        Key(
            "The pause before the fault, from the end of the lane's fault before: seconds, or [lowest, highest].",
            least=0,
            most=WEEK_S,
        ),
    ] = (3.0, 6.0)
    lasts_s: Annotated[Span, Key("How long the fault lasts: seconds, or [lowest, highest].", above=0, most=WEEK_S)] = (3.0, 6.0)
    lane: Annotated[
        str, Key("The timeline of the fault: faults of one lane never overlap, lanes do not depend on each other.")
    ] = "main"
    together: Annotated[
        str,
        Key(
            "Faults of a lane with the same word here strike at the same moment, with the pause of the first. "
            '`target = "same"` of a later one is the node that the first has struck.'
        ),
    ] = ""
    when: Annotated[
        str, Key("A condition that the strike waits for: `transaction-open`, some client is inside a transaction.", choices=WHEN)
    ] = ""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """The order of the faults of a lane, and its quiet periods (`[test.lanes.NAME]`)."""

    order: Annotated[
        str, Key("`random`: each time any fault of the lane; `in turn`: as they are written, again and again.", choices=ORDERS)
    ] = RANDOM
    busy_s: Annotated[
        Span | None,
        Key(
            "With `quiet_s`: for so long faults strike, then there is a quiet period. Seconds, or [lowest, highest].",
            above=0,
            most=WEEK_S,
        ),
    ] = None
    quiet_s: Annotated[
        Span | None, Key("How long a quiet period lasts: seconds, or [lowest, highest].", above=0, most=WEEK_S)
    ] = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The number of servers that all faults together may hurt at a time (`[test.budget]`).

    A bound that is given holds for single faults too. Where none is given, several faults together must keep the quorum, while a
    single fault, when no other is active, may hurt all nodes that it aims at.
    """

    nodes: Annotated[int | None, Key("At most so many brokers and controllers at a time.", least=1, most=100)] = None
    keep_quorum: Annotated[
        bool | None, Key("`true`: fewer than half of the brokers, and of the controllers. `false`: no limit but `nodes`.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Test:
    """Everything that decides one run, except the seed's draws (`[[test]]`). Made by `harness.campaign.campaign`."""

    __test__: ClassVar[bool] = False  # not a pytest class

    workload: Annotated[
        Choice,
        Key(
            "What clients do: `kind` is a workload, every other key one of its options.",
            option=RunOption("--workload", "-w", text="What clients do (see: fencepost plugins)."),
            settings=RunOption("--set", text="An option of the workload."),
        ),
    ] = field(default_factory=lambda: Choice(kind="transactions"))
    nemesis: Annotated[
        tuple[FaultChoice, ...],
        Key(
            "The faults, each a table of its own.",
            option=RunOption(
                "--nemesis",
                "-n",
                metavar="KIND[,KEY=VALUE...]",
                text="A fault; `none` for none. Default: kill, pause, isolate, cut-clients, mixed; on an external cluster none.",
            ),
        ),
    ] = ()
    lanes: Annotated[
        Mapping[str, Lane],
        Key(
            "How the faults of a lane follow each other, a table for each lane.",
            option=RunOption(
                "--lane",
                metavar="NAME,KEY=VALUE...",
                text="How a lane's faults follow each other (order, busy_s, quiet_s).",
            ),
        ),
    ] = field(default_factory=dict)
    budget: Annotated[
        Budget,
        Key(
            "How many servers all faults together may hurt at a time.",
            option=RunOption("--budget", text="How much all faults may hurt at a time (nodes, keep_quorum)."),
        ),
    ] = Budget()
    at_least: Annotated[
        Mapping[str, int],
        Key(
            "The least that has to be performed, else it is not known whether the run is as expected: `faults` that struck, "
            "committed `transactions`, `operations` that succeeded, `records` sent; or how often an occasion has to occur "
            "(`instance-died`, ...: docs/occasions.md). Default: the workload's; one fault if any is planned.",
            choices=LEAST,
            least=0,
            most=MOST_EXACT,
            option=RunOption("--at-least", text="The least to be performed (faults, transactions, ..., occasions)."),
        ),
    ] = field(default_factory=dict)
    time_s: Annotated[
        float,
        Key(
            "How long the workload runs, in seconds.",
            above=0,
            most=WEEK_S,
            option=RunOption("--time", "-t", metavar="TIME", text="How long the workload runs: seconds, or 90s, 5m, 2h."),
        ),
    ] = 60.0
    rate: Annotated[
        float,
        Key("Operations a second over all writers; 0: as fast as it goes.", least=0, most=1e6, option=RunOption("--rate")),
    ] = 0.0
    seed: Annotated[
        int | None,
        Key(
            "Decides every draw of the run. Default: the campaign's.",
            least=0,
            most=MOST_EXACT,
            option=RunOption("--seed", text="Repeats the draws of an earlier run. Default: drawn."),
            planned=False,
        ),
    ] = None
    cluster: Annotated[
        Choice,
        Key(
            "Where brokers live: `kind` is a cluster, every other key one of its options.",
            option=RunOption("--cluster", text="Where brokers live."),
            settings=RunOption("--cluster-set", text="An option of the cluster."),
        ),
    ] = field(default_factory=lambda: Choice(kind="auto"))
    client: Annotated[
        str, Key("The client library.", at=("client", "kind"), option=RunOption("--client", text="Which client library is used."))
    ] = "librdkafka"
    readers: Annotated[
        str,
        Key(
            "The client library of the processes that only read, the final readers included; the same one by default.",
            at=("client", "readers"),
            option=RunOption("--readers", text="The client library of those who only read."),
        ),
    ] = ""
    recovery: Annotated[
        str,
        Key(
            "What follows a commit or an abort that failed: `documented`, what the documentation of the client library tells an "
            "application to do ([which](clients.md#after-a-failed-call)); `new-producer`, a new producer.",
            at=("client", "recovery"),
            choices=tuple(RECOVERIES),
            option=RunOption("--recovery", text="What follows a failed commit or abort (documented, new-producer)."),
        ),
    ] = "documented"
    producer: Annotated[
        Mapping[str, Setting],
        Key(
            "Settings of the producers, laid over the workload's.",
            at=("client", "producer"),
            option=RunOption("--producer", text="A setting of the producers."),
        ),
    ] = field(default_factory=dict)
    consumer: Annotated[
        Mapping[str, Setting],
        Key(
            "Settings of the consumers.",
            at=("client", "consumer"),
            option=RunOption("--consumer", text="A setting of the consumers."),
        ),
    ] = field(default_factory=dict)
    topic: Annotated[
        Mapping[str, str],
        Key("Settings of the topics, laid over the workload's.", option=RunOption("--topic", text="A setting of the topics.")),
    ] = field(default_factory=dict)
    contract: Annotated[
        Mapping[str, str],
        Key(
            "What the run is judged by, laid over what the settings promise.",
            choices=tuple(CONTRACT_KEYS),
            option=RunOption("--contract", text="Judge by this instead of what the settings promise."),
        ),
    ] = field(default_factory=dict)
    expect: Annotated[
        tuple[str, ...],
        Key(
            "`valid`, or the anomalies that must be found. See [Expectations](campaigns.md#expectations).",
            option=RunOption("--expect", metavar="NAME", text="An anomaly that must be found. Default: valid."),
        ),
    ] = ("valid",)
    tolerate: Annotated[
        tuple[str, ...],
        Key(
            "Forbidden anomalies that may come along with the expected ones. See [Expectations](campaigns.md#expectations).",
            option=RunOption("--tolerate", metavar="NAME", text="An anomaly that may come along with the expected ones."),
        ),
    ] = ()
    checkers: Annotated[
        tuple[str, ...],
        Key(
            "Import paths of checks that are run beside the installed ones, each with its options: `mine:gap,least=3`.",
            option=RunOption(
                "--checker", metavar="MODULE:NAME[,KEY=VALUE...]", text="A check of yours, run beside the installed ones."
            ),
        ),
    ] = ()
    repeat: Annotated[
        int, Key("How often the test is run, with the seeds s, s+1, s+2, ...", least=1, most=MOST_REPEATS, planned=False)
    ] = 1
    name: Annotated[
        str,
        Key(
            "The test's name.",
            most=1000,
            option=RunOption("--name", text="The test's name. Default: the workload's."),
            planned=False,
        ),
    ]
    campaign: str = ""


@dataclass(frozen=True, kw_only=True)
class Injection:
    """A planned fault.

    id: its number in the schedule.
    at_s: seconds after the start of the workload at which it strikes.
    lasts_s: seconds for which it lasts.
    kind: the fault: its name or import path.
    options: its options.
    lane: its lane.
    seed: the seed of its draws.
    when: the condition that the strike waits for; empty: none.
    """

    id: int
    at_s: float
    lasts_s: float
    kind: str
    options: Mapping[str, Any]
    lane: str
    seed: int
    when: str = ""
