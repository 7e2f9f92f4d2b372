"""The reference of campaign files, docs/campaigns.md, made of the declarations.

python -m fencepost.harness.campaign.reference > docs/campaigns.md
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from importlib.metadata import entry_points
from typing import Any, get_args, get_origin

from fencepost.harness.api.bounds import plain
from fencepost.harness.api.contract import CONTRACT_KEYS, ContractKey
from fencepost.harness.api.plans import Budget, Choice, DeclaredKey, FaultChoice, Lane, Span, Test, declared
from fencepost.harness.campaign.campaign import MATRIX, CampaignFile
from fencepost.harness.campaign.client_settings import OURS
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.type_words import in_words
from fencepost.harness.system.package_files import campaigns

PAGE = """\
# Campaign files

<!-- Made by `python -m fencepost.harness.campaign.reference > docs/campaigns.md`; do not edit. -->

A campaign is a TOML file. `fencepost campaign FILE` performs its tests one after another; `--dry-run` lists them only. A campaign
with a mistake starts nothing: all its mistakes are listed at once, each with its key. `fencepost run` performs one test from
options of the command line, by the same keys.

Some campaigns come with fencepost: {bundled}.
`fencepost campaign first` finds one from any directory, and so do `first.toml` and `campaigns/first.toml`; a file of that name in
the working directory comes first. `fencepost campaign first --show > mine.toml` copies one. Plug-ins named by an import path
(`module:Class`) are looked for in the working directory, beside the campaign, and beside the campaigns that come with fencepost.

```toml
name = "nightly"
seed = 7

[defaults]
time_s = 60
cluster = {{kind = "local", brokers = 3}}

[[test]]
name = "steady"
workload = {{kind = "transactions", writers = 8}}
topic.min.insync.replicas = 2
[[test.nemesis]]
kind = "kill"
target = "leader"
every_s = [3, 6]
lasts_s = 4
[test.matrix]
"cluster.kafka" = ["3.9.1", "4.4.0"]

[[test]]
name = "torn"
expect = "torn-transaction"
client.producer = {{"socket.timeout.ms" = 1000}}
nemesis = [{{kind = "cut-clients"}}]
```

## The file

{campaign}

## `[[test]]`

{test}

A table of settings (`client.producer`, `client.consumer`, `topic`, `cluster.settings`) takes any setting of Kafka; its dots
belong to the key, quoted or not. Before anything starts, librdkafka judges its settings, and those of brokers and topics are
compared with the definitions of that version of Kafka (where it has not been fetched yet, `--dry-run` says so). A secret is
written as where it lies: `env:NAME`, `file:/path` ([clusters.md](clusters.md)).

The options of a plug-in stand beside its `kind`: those that come with fencepost are below, of any other `fencepost plugins NAME`
lists them.

## Expectations

A test that expects `valid` is met by a valid run, and by no other. A test that expects anomalies is met when each of them is
found against the contract, and nothing else is. What the contract allows meets no expectation: a test is refused that expects an
anomaly which its settings permit, or under which it is not judged. Where nothing unexpected was found but something could not be
judged (a final read is missing, a check broke), nobody knows whether the expectation is met: the exit code is 2, also when all
that was expected was found.

| written | what may be found |
| --- | --- |
| `expect = "torn-transaction"` | the anomaly, anywhere in the run, and its consequences |
| `expect = "torn-transaction alone"` | the anomaly, without any consequence |
| `expect = ["lost-write", "inconsistent-offset"]` | both, each at least once |
| `tolerate = ["duplicate"]` | besides, duplicates of the records that an expected finding is about |
| `tolerate = ["duplicate anywhere"]` | besides, any duplicate in the run |

A consequence is about the same records: those that the same transaction sent to the same partition. The lost half of a torn
transaction is a `lost-write`, for instance, and the loss of any other record is unexpected. A record that nobody sent, or a stuck
last stable offset, is bound by its partition alone. What names no record of the run (offsets of groups and of source connectors,
tasks, entries of Connect's topics) is bound by nothing, and is tolerated `anywhere` or not at all. Whatever is unexpected fails
the test, and is named at the top of the report. A repeated test that expects anomalies must show them in one run at least, and
must show nothing unexpected in any.

## `[[test.nemesis]]`

Every other key is an option of the fault.

{nemesis}

{faults}

## `[test.cluster]`

{clusters}

## `[test.workload]`

{workloads}

## `[test.client]`

`client.kind` and `client.readers` name a client library, {clients}, or a version of one
(`java@3.9.1`), or a driver of your own by its path (`./my-driver`): [clients.md](clients.md).

`client.producer` takes librdkafka's settings of producers, `client.consumer` those of consumers, by librdkafka's names
(its CONFIGURATION.md lists them); what other libraries take is in [client-drivers.md](client-drivers.md#settings) and
[clients.md](clients.md). fencepost itself sets {ours}.

## `[test.lanes.NAME]`

{lanes}

## `[test.budget]`

A bound that is given holds for single faults too. Where none is given, several faults together must keep the quorum, while a
single one, when no other is active, may hurt what it asks for.

{budget}

## `[test.matrix]`

{matrix}

## `[test.contract]`

What the settings promise decides which anomalies are forbidden ([anomalies.md](anomalies.md)). A contract is derived from the
settings that are really in effect; `[test.contract]`, and `--contract` of `fencepost run` and `fencepost check`, are laid over
it. What a key implies follows it: `acks = "1"` alone makes `idempotence` false. A contract that no client keeps is refused, as
`acks = "1"` is for a workload with transactions. "Elsewhere" is what is assumed of a history that fencepost did not record, where
that is not the default.

{contract}
"""


def page() -> str:
    """The whole page."""
    return PAGE.format(
        bundled=", ".join(f"`{name}`" for name in campaigns()),
        campaign=key_table(CampaignFile),
        test=key_table(Test, options=True),
        nemesis=key_table(FaultChoice),
        faults=_plug_ins("nemesis", "###"),
        clusters=_plug_ins("cluster", "###"),
        workloads=_plug_ins("workload", "###"),
        clients=", ".join(f"`{name}`" for name, _ in _built_in("driver")),
        ours=", ".join(f"`{name}`" for name in sorted(OURS)),
        lanes=key_table(Lane),
        budget=key_table(Budget),
        matrix=MATRIX,
        contract=_contract(),
    )


def key_table(cls: Any, *, options: bool = False) -> str:
    """The keys that a dataclass declares, as a table; those that must be given come first."""
    rows = []
    for key in sorted(declared(cls), key=lambda key: key.default is not MISSING):
        names = [option.name for option in (key.key.option, key.key.settings) if option is not None]
        cell = [", ".join(f"`{name}`" for name in names)] if options else []
        rows.append([f"`{'.'.join(key.path)}`", _values(key), _default(key), *cell, key.key.text])
    return _table(["key", "value", "default", *(["`fencepost run`"] if options else []), "meaning"], rows)


def _built_in(group: str) -> list[tuple[str, Any]]:
    """The plug-ins of a kind that come with fencepost; what else is installed here stands on no page."""
    own = (entry for entry in entry_points(group=f"fencepost.{group}") if entry.dist and entry.dist.name == "fencepost")
    return [(entry.name, entry.load()) for entry in sorted(own, key=lambda entry: entry.name)]


def _plug_ins(group: str, heading: str) -> str:
    """Each plug-in of a kind with its options."""
    parts: list[str] = []
    seen: dict[Any, str] = {}
    for name, cls in _built_in(group):
        if same := seen.get(cls):
            parts.append(f"{heading} `{name}`\n\nThe same as `{same}`.")
            continue
        seen[cls] = name
        rows = [[f"`{option.name}`", option.type, _quoted(option.default), option.doc] for option in registry.options(cls)]
        shown = _table(["option", "value", "default", "meaning"], rows) if rows else "It has no options."
        parts.append(f"{heading} `{name}`\n\n{registry.doc_without_options(cls).partition(chr(10))[0]}\n\n{shown}")
    return "\n\n".join(parts)


def _quoted(default: str) -> str:
    return default if default == "required" else "" if default in ('""', "{}", "[]", "null") else f"`{default}`"


def _values(key: DeclaredKey) -> str:
    """The values of a key, in words."""
    limits = key.key
    if limits.choices and key.type is str:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in limits.choices)
    above = f"above {plain(limits.above)}" if limits.above is not None else ""
    least = f"at least {plain(limits.least)}" if limits.least is not None else ""
    characters = " characters" if key.type is str else ""
    most = f"at most {plain(limits.most)}{characters}" if limits.most is not None else ""
    return ", ".join(filter(None, (_type(key.type), above, least, most)))


def _type(hint: Any) -> str:
    if hint in (Span, Span | None):
        return "a number or two"
    if get_origin(hint) is tuple:
        return "a text, or a list of texts" if get_args(hint)[0] is str else "a list of tables"
    if get_origin(hint) is Mapping:
        return "tables by name" if dataclasses.is_dataclass(get_args(hint)[1]) else "a table"
    return "a table" if dataclasses.is_dataclass(hint) else in_words(hint)


def _default(key: DeclaredKey) -> str:
    if key.default is MISSING:
        return "required"
    if isinstance(key.default, Choice):
        return f"`kind = {json.dumps(key.default.kind)}`"
    if key.default is None or key.default in ("", ()) or isinstance(key.default, dict) or dataclasses.is_dataclass(key.default):
        return ""
    value = key.default[0] if isinstance(key.default, tuple) and len(key.default) == 1 else key.default
    return f"`{json.dumps(value)}`"


def _contract() -> str:
    rows = []
    for key in CONTRACT_KEYS.values():
        elsewhere = key.elsewhere if key.elsewhere != key.default else None
        texts = [f"`{text}`" if text else "" for text in (key.name, key.default, elsewhere)]
        values = ", ".join(f"`{value}`" for value in key.values) + (" (several with commas)" if key.listed else "")
        rows.append([texts[0], values, *texts[1:], _implications(key), key.meaning])
    return _table(["key", "values", "default", "elsewhere", "implies", "meaning"], rows)


def _implications(key: ContractKey) -> str:
    """The values of other keys that a value of this one implies."""
    pairs = [(value, other, wanted) for value, others in key.implies.items() for other, wanted in others.items()]
    return ", ".join(f"`{value}`: `{other}` = `{wanted}`" for value, other, wanted in pairs)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
