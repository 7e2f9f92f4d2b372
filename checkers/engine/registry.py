"""The checks that are installed (entry-point group `fencepost.checker`), and those that come by import path."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fencepost.checkers.api import Check
from fencepost.checkers.engine.validation import breaches
from fencepost.checkers.model.failures import RAISED
from fencepost.harness.api.errors import MachineError
from fencepost.harness.api.former_names import former_name_hint

GROUP = "fencepost.checker"


@dataclass(frozen=True)
class Broken:
    """A plug-in that could not be loaded; its property is unknown, with this reason."""

    name: str
    reason: str


def installed_checks() -> tuple[list[Check[Any]], list[Broken]]:
    """Every check that is installed, by name, and those that could not be loaded. Raises HarnessError when there is none."""
    checks: dict[str, Check[Any]] = {}
    broken: list[Broken] = []
    for entry in _entries(tuple(sys.path)):
        try:
            check = entry.load()
        except RAISED as error:  # a plug-in's module may raise anything; it becomes `unknown`
            broken.append(Broken(entry.name, f"could not be loaded: {type(error).__name__}: {error}{former_name_hint(error)}"))
            continue
        if wrong := _breaches(check):
            broken.append(Broken(entry.name, f"{entry.value} cannot be used: {'; '.join(wrong)}"))
        else:
            checks[check.name] = check
    if not checks and not broken:
        raise MachineError(f"no checks are installed (entry-point group {GROUP}); reinstall fencepost")
    return list(checks.values()), broken


_SOUND: dict[int, Any] = {}  # by identity: a selfcheck judges many times, and a check does not change


def _breaches(check: Any) -> list[str]:
    """The breaches of a check, which is looked at once."""
    if _SOUND.get(id(check)) is check:
        return []
    wrong = breaches(check)
    if not wrong:
        _SOUND[id(check)] = check
    return wrong


@lru_cache(maxsize=8)
def _entries(_path: tuple[str, ...]) -> list[EntryPoint]:
    """The entry points of what is installed along `sys.path`, by name: looked up once, though a selfcheck judges many times."""
    return sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


def with_more(
    checks: Sequence[Check[Any]], broken: Sequence[Broken], more: Mapping[str, Any]
) -> tuple[list[Check[Any]], list[Broken]]:
    """Checks and broken ones, and those that come by import path (path -> check, or why there is none) beside or instead of them.

    Their modules may lie where no executor of Spark finds them, so they are sent along with their code.
    """
    wrong = {path: [candidate] if isinstance(candidate, str) else breaches(candidate) for path, candidate in more.items()}
    sound: dict[str, Check[Any]] = {candidate.name: candidate for path, candidate in more.items() if not wrong[path]}
    if sound:
        _send_code_of(sound.values())
    others = [check for check in checks if check.name not in sound]
    unusable = [Broken(path, f"cannot be used: {'; '.join(texts)}") for path, texts in wrong.items() if texts]
    return [*others, *sound.values()], [*broken, *unusable]


def _send_code_of(checks: Iterable[Check[Any]]) -> None:
    from pyspark.cloudpickle import register_pickle_by_value

    for check in checks:
        register_pickle_by_value(sys.modules[check.function.__module__])
