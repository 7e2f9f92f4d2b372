"""Words that a shell completes: plug-ins, their options, settings, versions, tests and runs.

Each function takes the context with what was given before, the word that is incomplete, and answers with whole words. Completion
must never fail nor start anything: what cannot be read has no completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from fencepost.harness.api import CampaignError

Complete = Callable[[typer.Context, str], list[str]]
_ERRORS = (CampaignError, OSError, ValueError)


def plugin_names(group: str) -> Complete:
    """Completes the names of plug-ins of a kind."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from fencepost.harness.plugins.registry import names

        return _beginning(names(group), incomplete)

    return complete


def words(*known: str) -> Complete:
    """Completes one of a few words."""
    return lambda ctx, incomplete: _beginning(known, incomplete)


def fault(ctx: typer.Context, incomplete: str) -> list[str]:
    """`kil` -> `kill`; `kill,tar` -> `kill,target=`; `kill,target=le` -> `kill,target=leader`."""
    kind, comma, rest = incomplete.partition(",")
    if not comma:
        return plugin_names("nemesis")(ctx, incomplete)
    done, _, last = rest.rpartition(",")
    before = f"{kind},{done}," if done else f"{kind},"
    return [before + word for word in _pairs(_fault_options(kind), last)]


def options_of(group: str, parameter: str, default: str) -> Complete:
    """Completes `KEY=` of options of the plug-in that another parameter names."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return _pairs(_options(group, ctx.params.get(parameter) or default), incomplete)

    return complete


def keys(values: dict[str, Sequence[str]]) -> Complete:
    """Completes `KEY=VALUE` of a table with these keys and their possible values."""
    return lambda ctx, incomplete: _pairs(values, incomplete)


def lane(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes `NAME,order=` and the other keys of a lane; names are the user's own."""
    from fencepost.harness.api.plans import Lane, declared

    name, comma, rest = incomplete.partition(",")
    return [f"{name},{word}" for word in _pairs({key.path[0]: key.key.choices for key in declared(Lane)}, rest)] if comma else []


def contract(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes keys of a contract and their values."""
    from fencepost.harness.api.contract import CONTRACT_KEYS

    return _pairs({name: key.values for name, key in CONTRACT_KEYS.items()}, incomplete)


def client_settings(kind: str) -> Complete:
    """Completes settings of producers or consumers, as librdkafka names them."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from fencepost.harness.campaign.setting_names import SETTINGS

        return _pairs(dict.fromkeys(SETTINGS[kind], ()), incomplete)

    return complete


def kafka_settings(kind: str) -> Complete:
    """Completes settings of `topic` or `broker`, as far as a version of Kafka in the cache has told them."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from fencepost.harness.plugins import services

        try:
            return _pairs(dict.fromkeys(services.kafka().setting_names(kind), ()), incomplete)
        except _ERRORS:
            return []

    return complete


def kafka_versions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the versions of Kafka in the cache."""
    from fencepost.harness.plugins import services

    try:
        return _beginning([jars.version for jars in services.kafka().installed()], incomplete)
    except _ERRORS:
        return []


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the ids of runs, the newest first, and `latest`."""
    from fencepost.harness.memory.index import rows
    from fencepost.harness.runs.store import results_root

    try:
        there = [row.run for row in rows(results_root(ctx.params.get("results"))) if not row.damaged]
    except _ERRORS:
        return []
    return _beginning(["latest", *reversed(there)], incomplete) if there else []


def of_runs(column: str) -> Complete:
    """Completes what the runs have in a column of their rows: `test`, `campaign`, `anomalies`."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from fencepost.harness.memory.index import rows
        from fencepost.harness.runs.store import results_root

        try:
            values = [getattr(row, column) for row in rows(results_root(ctx.params.get("results")))]
        except _ERRORS:
            return []
        words = {word for value in values for word in ([value] if isinstance(value, str) else value) if word}
        return _beginning(sorted(words), incomplete)

    return complete


def findings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the numbers of the findings of the run that was named before."""
    from fencepost.harness.runs import store

    try:
        run = store.find(store.results_root(ctx.params.get("results")), str(ctx.params.get("run") or "latest"))
        return _beginning([str(finding.get("id", "")) for finding in run.verdict.get("findings") or ()], incomplete)
    except (*_ERRORS, AttributeError):
        return []


def tests_of_campaign(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the names of the tests of the campaign that was named before."""
    from fencepost.harness.campaign.bundled import campaign_file
    from fencepost.harness.campaign.toml import read_toml

    try:
        file = ctx.params.get("file") or next(iter(ctx.args), "")  # an option that lacks its value leaves arguments unread
        table, _ = read_toml(campaign_file(Path(file)))
        names = [test["name"] for test in table.get("test", ()) if isinstance(test, dict)]
        return _beginning([name for name in names if isinstance(name, str)], incomplete)
    except (*_ERRORS, KeyError, TypeError):
        return []


def rounds_of_campaign(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the rounds of the campaign that was named before, the newest first, and `latest`."""
    from fencepost.harness.campaign.campaign import name_of
    from fencepost.harness.rounds.folders import rounds
    from fencepost.harness.runs.store import campaign_folder, results_root

    try:
        file = ctx.params.get("file") or next(iter(ctx.args), "")
        names = rounds(campaign_folder(results_root(ctx.params.get("results")), name_of(Path(file))))
        return _beginning(["latest", *reversed(names)], incomplete) if names else []
    except (*_ERRORS, TypeError):
        return []


def _beginning(words: Iterable[str], begun: str) -> list[str]:
    return [word for word in words if word.startswith(begun)]


def _pairs(values: Any, begun: str) -> list[str]:
    """`key=` for keys that begin so, or `key=value` once the key is there."""
    key, equals, value = begun.partition("=")
    if not equals:
        return [f"{name}=" for name in values if name.startswith(key)]
    return [f"{key}={choice}" for choice in values.get(key, ()) if choice.startswith(value)]


def _options(group: str, kind: str) -> dict[str, Sequence[str]]:
    from fencepost.harness.plugins.registry import load, options

    try:
        return {option.name: ("true", "false") if option.type == "true or false" else () for option in options(load(group, kind))}
    except _ERRORS:
        return {}


def _fault_options(kind: str) -> dict[str, Sequence[str]]:
    from fencepost.harness.api.plans import FaultChoice, declared

    schedule = {key.path[0]: key.key.choices for key in declared(FaultChoice) if key.path[0] != "kind"}
    own = _options("nemesis", kind)
    if "target" in own:
        targets = _targets(kind)
        own["target"] = [*targets, *(["same"] if "broker:" in targets or "client" in targets else [])]
    return {**own, **schedule}


def _targets(kind: str) -> list[str]:
    """The targets that a fault names when it refuses one."""
    from fencepost.harness.plugins.registry import attempt, load

    _, wrong = attempt(load("nemesis", kind), {"target": "?"})
    allowed = next((text.partition("Allowed: ")[2] for _, text in wrong if "Allowed: " in text), "")
    return [name.partition("[")[0] if "[" in name else _named(name) for name in filter(None, allowed.split(", "))]


def _named(name: str) -> str:
    """`broker:` of `broker:NODE`: it needs a name."""
    head, colon, _ = name.partition(":")
    return head + colon
