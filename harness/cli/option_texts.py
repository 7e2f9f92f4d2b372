"""Options that are given as texts, as `fencepost run` and other commands have them: pairs `key=value`, faults, checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencepost.harness.api import CampaignError
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.contract_layers import contract_mistakes
from fencepost.harness.plugins.check_options import load_check
from fencepost.harness.plugins.registry import unknown
from fencepost.harness.plugins.toml_value import option_parts, toml_value

if TYPE_CHECKING:
    from fencepost.harness.api.plans import Choice


def cluster_of(kind: str | None, options: Sequence[str]) -> dict[str, Any]:
    """The options of `--cluster` and `--cluster-set`, laid over a campaign's. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    overlay = {**({"kind": kind} if kind else {}), **pairs(options, "--cluster-set", mistakes)}
    if mistakes:
        raise CampaignError(mistakes)
    return overlay


def faults_of(texts: Sequence[str]) -> list[Choice]:
    """Faults as texts `kind[,key=value...]`. Raises CampaignError with every mistake."""
    from fencepost.harness.api.plans import Choice

    mistakes: list[str] = []
    tables = [fault(text, mistakes) for text in texts]
    if mistakes:
        raise CampaignError(mistakes)
    return [Choice(kind=table.pop("kind"), options=table) for table in tables]


def contract_of(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` texts of `fencepost check --contract` as a contract. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    contract = pairs(texts, "--contract", mistakes, plain=True)
    mistakes += [f"--contract {key}: {unknown('key', key, CONTRACT_KEYS)}" for key in contract if key not in CONTRACT_KEYS]
    mistakes += [f"--contract {key}: {text}" for key, text in contract_mistakes(contract)]
    if mistakes:
        raise CampaignError(mistakes)
    return contract


def checkers_of(paths: Sequence[str]) -> list[str]:
    """Import paths of `--checker`, each of a check that can be used. Raises CampaignError with every mistake."""
    if not paths:
        return []
    from fencepost.harness.plugins.validation import breaches

    mistakes: list[str] = []
    for path in paths:
        try:
            mistakes += [f"--checker {path}: {text}" for text in breaches("checker", load_check(path))]
        except CampaignError as error:
            mistakes += [f"--checker {path}: {text}" for text in error.mistakes]
    if mistakes:
        raise CampaignError(mistakes)
    return list(paths)


def spark_conf_of(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` texts of `--spark-conf` as Spark's settings. Raises CampaignError with every mistake."""
    mistakes: list[str] = []
    conf: dict[str, str] = pairs(texts, "--spark-conf", mistakes, plain=True)
    mistakes += [f"--spark-conf {key}: Spark's settings begin with spark." for key in conf if not key.startswith("spark.")]
    if "spark.master" in conf:
        mistakes.append("--spark-conf spark.master: the master is named by --spark-master")
    if mistakes:
        raise CampaignError(mistakes)
    return conf


def pairs(texts: Sequence[str], option: str, mistakes: list[str], plain: bool = False) -> dict[str, Any]:
    """`key=value` texts as a mapping; values are read as TOML's, unless they are to stay texts (`plain`)."""
    pairs: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            mistakes.append(f"{option} {text}: must be key=value")
            continue
        pairs[key.strip()] = value.strip() if plain else toml_value(value.strip())
    return pairs


def fault(text: str, mistakes: list[str]) -> dict[str, Any]:
    """A fault as text `kind[,key=value...]` as a campaign's table."""
    kind, options = headed(text, "--nemesis", mistakes)
    return {"kind": kind, **options}


def headed(text: str, option: str, mistakes: list[str]) -> tuple[str, dict[str, Any]]:
    """`name[,key=value...]` as the name and the mapping."""
    name, *rest = option_parts(text)
    keys = [part.partition("=")[0].strip() for part in rest]
    twice = [key for key in dict.fromkeys(keys) if key and keys.count(key) > 1]
    mistakes += [f"{option} {name}, {key}: is given {keys.count(key)} times" for key in twice]
    return name, pairs(rest, f"{option} {name},", mistakes)
