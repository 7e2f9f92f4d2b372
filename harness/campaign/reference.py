"""The reference of campaign files, docs/campaign-reference.md, made of the declarations.

python -m fencepost.harness.campaign.reference > docs/campaign-reference.md
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
# Campaign files: reference

<!-- Made by `python -m fencepost.harness.campaign.reference > docs/campaign-reference.md`; do not edit. -->

Every key of a campaign, and every option of the faults, clusters and workloads that come with fencepost. How a campaign is
written: [campaigns.md](campaigns.md). Campaigns that come with fencepost: {bundled}.

## The file

{campaign}

## `[[test]]`

{test}

A table of settings (`client.producer`, `client.consumer`, `topic`, `cluster.settings`) takes any setting of Kafka; its dots
belong to the key, quoted or not. Before anything starts, librdkafka judges its settings, and those of brokers and topics are
compared with the definitions of that version of Kafka (where it has not been fetched yet, `--dry-run` says so). What
names code, programs, files or services (`plugin.library.paths`, `ssl.ca.location`) is not looked at before the run, which
`--dry-run` says too. A secret is written as where it lies: `env:NAME`, `file:/path` ([clusters.md](clusters.md)).

The options of a plug-in stand beside its `kind`: those that come with fencepost are below, of any other `fencepost plugins NAME`
lists them.

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
