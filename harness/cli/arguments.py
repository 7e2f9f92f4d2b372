"""The options of `fencepost run` -> one test, by the same checks as a campaign's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.harness.api import (
    CampaignError,
    ChoosesLanes,
    ChoosesNemesis,
)
from fencepost.harness.api.plans import Test
from fencepost.harness.campaign.test import read_test
from fencepost.harness.campaign.toml import Keys
from fencepost.harness.cli.option_texts import fault, headed, pairs
from fencepost.harness.cli.run_options import KEY_OPTIONS, KeyOption
from fencepost.harness.plugins.registry import load, make_importable

DEFAULT_NEMESIS = ("kill", "pause", "isolate", "cut-clients")


def from_options(**given: Any) -> Test:
    """The one test of `fencepost run`, from its options by the names of their parameters (`run_options.KEY_OPTIONS`).

    Settings are texts `key=value`; faults are `kind[,key=value...]`, or `none`; lanes are `name,key=value...`.
    Raises CampaignError with every mistake, each named after the option it was given by.
    """
    mistakes: list[str] = []
    table: dict[str, Any] = {}
    chosen = {key_option.parameter: given.get(key_option.parameter, key_option.default) for key_option in KEY_OPTIONS}
    if not chosen["nemesis"]:
        chosen["nemesis"], lanes = _default_faults(chosen["cluster"], chosen["workload"])
        chosen["lane"] = (*lanes, *(chosen["lane"] or ()))
    for key_option in KEY_OPTIONS:
        value = chosen[key_option.parameter]
        if value not in (None, (), []):
            _put(table, key_option.path, _read(key_option, value, mistakes))
    table.setdefault("name", table["workload"]["kind"].rpartition(":")[2])
    make_importable([Path.cwd()])
    try:
        test = read_test(table, _option_of)
    except CampaignError as error:
        raise CampaignError([*mistakes, *error.mistakes]) from error
    if mistakes:
        raise CampaignError(mistakes)
    return test


def _default_faults(cluster: str, workload: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The faults of `fencepost run` when none is named, and their lanes: the provider's own, else the workload's, else those for
    any cluster."""
    for group, name in (("cluster", cluster), ("workload", workload)):
        try:
            plugin = load(group, name)
        except CampaignError:  # reported with the other mistakes
            continue
        if isinstance(plugin, ChoosesNemesis):
            return tuple(plugin.default_nemesis), tuple(plugin.default_lanes) if isinstance(plugin, ChoosesLanes) else ()
    return DEFAULT_NEMESIS, ()


def _read(key_option: KeyOption, value: Any, mistakes: list[str]) -> Any:
    """The value given for an option, as it would stand in a campaign's table."""
    name = key_option.option.name
    if key_option.form == "faults":
        return [fault(text, mistakes) for text in value if text != "none"]
    if key_option.form == "lanes":
        tables: dict[str, dict[str, Any]] = {}
        for lane, settings in (headed(text, name, mistakes) for text in value):
            tables.setdefault(lane, {}).update(settings)
        return tables
    if key_option.form in ("pairs", "settings"):
        return pairs(value, name, mistakes, plain=key_option.form == "settings")
    return list(value) if key_option.form == "texts" else value


def _put(table: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Lay a value over what the table has at a path."""
    for key in path[:-1]:
        table = table.setdefault(key, {})
    there = table.get(path[-1])
    table[path[-1]] = {**there, **value} if isinstance(there, dict) and isinstance(value, dict) else value


def _option_of(keys: Keys) -> str:
    """The name on the command line of the value at `keys`."""
    if keys[0] == "nemesis":
        return "--nemesis" + "".join(f" #{key + 1}" if isinstance(key, int) else f" {key}" for key in keys[1:])
    for key_option in sorted(KEY_OPTIONS, key=lambda key_option: -len(key_option.path)):
        if keys[: len(key_option.path)] == key_option.path:
            return " ".join([key_option.option.name, *(str(key) for key in keys[len(key_option.path) :])])
    return "--" + ".".join(str(key) for key in keys)
