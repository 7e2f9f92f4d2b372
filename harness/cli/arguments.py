"""The options of `fencepost run` -> one test, by the same checks as a campaign's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.api import CONTRACT_KEYS, CampaignError, Choice, Test
from harness.campaign.test import read_test
from harness.campaign.toml import Keys, toml_value
from harness.plugins.registry import load, make_importable, unknown
from harness.plugins.validation import breaches

DEFAULT_NEMESIS = ("kill", "pause", "isolate", "cut-clients")
_OPTIONS: dict[tuple[str, ...], str] = {
    ("workload", "kind"): "--workload",
    ("workload",): "--set",
    ("cluster", "kind"): "--cluster",
    ("cluster", "kafka"): "--kafka",
    ("cluster", "brokers"): "--brokers",
    ("cluster", "settings"): "--broker-setting",
    ("cluster",): "--cluster-set",
    ("client", "kind"): "--client",
    ("client", "producer"): "--producer",
    ("client", "consumer"): "--consumer",
    ("topic",): "--topic",
    ("contract",): "--contract",
    ("checkers",): "--checker",
    ("lanes",): "--lane",
    ("budget",): "--budget",
    ("time_s",): "--time",
}


def from_options(
    *,
    name: str | None = None,
    workload: str = "transactions",
    workload_options: Sequence[str] = (),
    nemesis: Sequence[str] | None = None,
    lanes: Sequence[str] = (),
    budget: Sequence[str] = (),
    cluster: str = "auto",
    cluster_options: Sequence[str] = (),
    kafka: str | None = None,
    brokers: int | None = None,
    broker_settings: Sequence[str] = (),
    client: str = "librdkafka",
    producer: Sequence[str] = (),
    consumer: Sequence[str] = (),
    topic: Sequence[str] = (),
    contract: Sequence[str] = (),
    expect: Sequence[str] = (),
    checkers: Sequence[str] = (),
    time_s: float = 60.0,
    rate: float = 0.0,
) -> Test:
    """The one test of `fencepost run`. Options are texts `key=value`; faults are `kind[,key=value...]`, or `none`;
    lanes are `name,key=value...`.

    Raises CampaignError with every mistake, each named after the option it was given by.
    """
    mistakes: list[str] = []
    faults = [_fault(text, mistakes) for text in nemesis or _default_nemesis(cluster) if text != "none"]
    named_lanes: dict[str, dict[str, Any]] = {}
    for lane, settings in (_headed(text, "--lane", mistakes) for text in lanes):
        named_lanes.setdefault(lane, {}).update(settings)
    versions: dict[str, Any] = {
        "kafka": kafka,
        "brokers": brokers,
        "settings": _pairs(broker_settings, "--broker-setting", mistakes, plain=True),
    }
    table = {
        "name": name or workload.rpartition(":")[2],
        "workload": {"kind": workload, **_pairs(workload_options, "--set", mistakes)},
        "cluster": {
            "kind": cluster,
            **_pairs(cluster_options, "--cluster-set", mistakes),
            **{k: v for k, v in versions.items() if v},
        },
        "client": {
            "kind": client,
            "producer": _pairs(producer, "--producer", mistakes, plain=True),
            "consumer": _pairs(consumer, "--consumer", mistakes, plain=True),
        },
        "topic": _pairs(topic, "--topic", mistakes, plain=True),
        "contract": _pairs(contract, "--contract", mistakes, plain=True),
        "expect": list(expect) or ["valid"],
        "checkers": list(checkers),
        "nemesis": faults,
        "lanes": named_lanes,
        "budget": _pairs(budget, "--budget", mistakes),
        "time_s": time_s,
        "rate": rate,
    }
    make_importable([Path.cwd()])
    try:
        test = read_test(table, _option_of)
    except CampaignError as error:
        raise CampaignError([*mistakes, *error.mistakes]) from error
    if mistakes:
        raise CampaignError(mistakes)
    return test


def cluster_of(kind: str | None, options: Sequence[str]) -> dict[str, Any]:
    """What `--cluster` and `--cluster-set` lay over the clusters of a campaign. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    found = {**({"kind": kind} if kind else {}), **_pairs(options, "--cluster-set", mistakes)}
    if mistakes:
        raise CampaignError(mistakes)
    return found


def faults_of(texts: Sequence[str]) -> list[Choice]:
    """Faults as texts `kind[,key=value...]`. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    tables = [_fault(text, mistakes) for text in texts]
    if mistakes:
        raise CampaignError(mistakes)
    return [Choice(kind=table.pop("kind"), options=table) for table in tables]


def contract_of(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` texts of `fencepost check --contract` as a contract. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    found = _pairs(texts, "--contract", mistakes, plain=True)
    mistakes += [f"--contract {key}: {unknown('key', key, CONTRACT_KEYS)}" for key in found if key not in CONTRACT_KEYS]
    if mistakes:
        raise CampaignError(mistakes)
    return found


def checkers_of(paths: Sequence[str]) -> list[str]:
    """Import paths of `--checker`, each of a check that can be used. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    for path in paths:
        try:
            mistakes += [f"--checker {path}: {text}" for text in breaches("checker", load("checker", path))]
        except CampaignError as error:
            mistakes += [f"--checker {path}: {text}" for text in error.mistakes]
    if mistakes:
        raise CampaignError(mistakes)
    return list(paths)


def spark_conf_of(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` texts of `--spark-conf` as Spark's settings. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    found: dict[str, str] = _pairs(texts, "--spark-conf", mistakes, plain=True)
    mistakes += [f"--spark-conf {key}: Spark's settings begin with spark." for key in found if not key.startswith("spark.")]
    if "spark.master" in found:
        mistakes.append("--spark-conf spark.master: the master is named by --spark-master")
    if mistakes:
        raise CampaignError(mistakes)
    return found


def _default_nemesis(cluster: str) -> tuple[str, ...]:
    """The faults of `fencepost run` when none is named: those that every cluster of ours can suffer, or the provider's own."""
    try:
        found: tuple[str, ...] = getattr(load("cluster", cluster), "default_nemesis", DEFAULT_NEMESIS)
    except CampaignError:  # told with the other mistakes
        return DEFAULT_NEMESIS
    return found


def _option_of(keys: Keys) -> str:
    """What the value at `keys` is called on the command line."""
    if keys[0] == "nemesis":
        return "--nemesis" + "".join(f" #{key + 1}" if isinstance(key, int) else f" {key}" for key in keys[1:])
    for table, option in _OPTIONS.items():
        if keys[: len(table)] == table:
            return " ".join([option, *(str(key) for key in keys[len(table) :])])
    return "--" + ".".join(str(key) for key in keys)


def _pairs(texts: Sequence[str], option: str, mistakes: list[str], plain: bool = False) -> dict[str, Any]:
    """`key=value` texts as a mapping; values are read as TOML's, unless they are to stay texts (`plain`)."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            mistakes.append(f"{option} {text}: must be key=value")
            continue
        found[key.strip()] = value.strip() if plain else toml_value(value.strip())
    return found


def _fault(text: str, mistakes: list[str]) -> dict[str, Any]:
    kind, options = _headed(text, "--nemesis", mistakes)
    return {"kind": kind, **options}


def _headed(text: str, option: str, mistakes: list[str]) -> tuple[str, dict[str, Any]]:
    """`name[,key=value...]` as the name and the mapping."""
    name, *rest = re.split(r",(?![^\[]*\])", text)  # a comma inside [3,6] parts nothing
    return name, _pairs(rest, f"{option} {name},", mistakes)
