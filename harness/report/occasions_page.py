"""Occasions in Markdown: what they are, and which properties of each workload need which (docs/occasions.md).

The page is made by `python -m fencepost.harness.report.occasions_page > docs/occasions.md`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.harness.api.contract_layers import overlaid_contract
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.optional import ChoosesLanes, ChoosesNemesis, ConfiguresMembers
from fencepost.harness.api.services import AnomalyRules
from fencepost.harness.planning import derived_contract
from fencepost.harness.plugins import services
from fencepost.harness.plugins.registry import load, names
from fencepost.harness.report.rules_page import own_rules

_SAMPLES = {"command": "my-program", "commands": ("my-program", "my-program"), "listing": "my-listing"}  # options of programs

_HEAD = """# Occasions: what may break a promise

<!-- Made by `python -m fencepost.harness.report.occasions_page > docs/occasions.md`; do not edit. -->

That nothing was found says nothing where nothing happened. A property that was compared and not violated is

* *held*, if one of its occasions occurred, or it needs none;
* *held without occasion*, if none of them did: nothing occurred that could have broken it.

How often each occurred is in `verdict.json` (`occasions`, and `properties[].occasions` beside what was compared), on the
report's page, and can be demanded:

```toml
at_least = { instance-died = 3, group-rebalanced = 5 }
```

(`--at-least instance-died=3`.) A run without findings that has had fewer is *unknown*, not *valid*, and says which were
lacking. A count that nobody knows (`null`, in words `?`) does not make a property *held without occasion*, and meets no
demand: on clusters whose logs cannot be read, and in histories from elsewhere, receipts and logs are missing, or do not say
whether a fault struck.

A *valid* run is still valid where properties held without occasion; the first line of its report, `fencepost list`,
`fencepost show`, the summaries and the page over all runs say how many.

## The occasions

| occasion | what it is | counted from |
|---|---|---|
"""
_BY_WORKLOAD = """

An occasion is an event, not a proof that the promise was at stake: a group that is rebalanced between two transactions
endangers nothing. Dates of brokers' logs and records order the events of different machines; where a fault made clocks wrong
by more than half a second, what needs them is not known. That nothing occurred is not known either by log segments of which
retention, compaction or DeleteRecords took the beginning. Situations of a single check (the errors of `wrong-error`, the rows
of `connect-promise`) are counted in a table of its own, with how often each was *met*.

## By workload

Each property that the contract of a workload's defaults judges, with the occasions of which it needs one. *Whatever is
compared*: no event is needed, as each comparison could fail. `fencepost plugins --rules` says the same of checks of your own,
which declare them (`occasions`, [plugin-checks.md](plugin-checks.md)).

A workload without faults of its own has `kill`, `pause`, `isolate`, `cut-clients` when none is named, on clusters whose provider
has none either: they strike brokers, and links between clients and brokers.
"""


def page(rows: Sequence[AnomalyRules]) -> str:
    """The whole page. rows: of the checks that come with fencepost."""
    table = "\n".join(f"| `{occasion}` | {occasion.sentence} | {occasion.source} |" for occasion in Occasion)
    sections = "\n".join(_workload(name, rows) for name in names("workload"))
    return f"{_HEAD}{table}\n{_BY_WORKLOAD}\n{sections}"


def _workload(name: str, rows: Iterable[AnomalyRules]) -> str:
    cls: Any = load("workload", name)
    workload = cls(**{field.name: _SAMPLES[field.name] for field in dataclasses.fields(cls) if field.name in _SAMPLES})
    judged = services.judge().judged_under(_contract(workload))
    needed: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.anomaly in judged:
            needed.setdefault(row.occasions, []).append(row.anomaly)
    lines = [
        f"| {', '.join(f'`{name}`' for name in anomalies)} | {', '.join(occasions) or 'whatever is compared'} |"
        for occasions, anomalies in sorted(needed.items(), key=lambda entry: (not entry[0], entry[0]))
    ]
    faults = cls.default_nemesis if isinstance(cls, ChoosesNemesis) else ()
    lanes = cls.default_lanes if isinstance(cls, ChoosesLanes) else ()
    options = [*(f"-n {fault}" for fault in faults), *(f"--lane '{lane}'" for lane in lanes)]
    default = f"Faults when none is named: `{' '.join(options)}`.\n\n" if faults else ""
    return "\n".join([f"### `{name}`\n", f"{default}| properties | one of |", "|---|---|", *lines, ""])


def _contract(workload: Any) -> Mapping[str, str]:
    """The contract that follows from a workload's own settings, on topics and brokers as Kafka has them by default."""
    members = workload.member_settings() if isinstance(workload, ConfiguresMembers) else {}
    return overlaid_contract(derived_contract.derive(workload.roles(), workload.producer_settings(), {}, {}, members), {})


if __name__ == "__main__":
    print(page(own_rules()), end="")  # noqa: T201
