"""Validation of a plug-in's check (`checkers.api.Check`) when it is loaded; nothing of it is run."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Iterator
from typing import Any

from fencepost.checkers.api import Check
from fencepost.checkers.contract.needs import Needs
from fencepost.checkers.contract.rules import (
    ALLOWED,
    COMMITTED_READS,
    DELETIONS,
    FINAL_READS,
    FORBIDDEN,
    INAPPLICABLE,
    LEADERS_LOGS,
    MEMBERS_ANSWERS,
    READS,
    SENTENCE,
    UNCOMMITTED_READS,
    Rule,
)
from fencepost.checkers.model.planted import PlantedDamage
from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.contract_layers import allowed_values, canonical
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.occasions import OCCASIONS, Occasion

JUDGED = (FORBIDDEN, ALLOWED, INAPPLICABLE)
UNLESS = (READS, FINAL_READS, COMMITTED_READS, UNCOMMITTED_READS, LEADERS_LOGS, MEMBERS_ANSWERS, DELETIONS, SENTENCE)
SCOPES = {"partition": "log", "run": "run"}
STEPS = {
    "sift": "(rows, run)",
    "resolve": "(rows, run)",
    "shown_by": "(finding, reads)",
    "beyond_aborts": "(findings, run)",
    "undoubted": "(finding, run)",
    "explain": "(finding, text)",
    "detail": "(finding, text)",
    "brief": "(run)",
}


def breaches(check: Any) -> list[str]:
    """Every way in which `check` breaks the interface of a check, each with what to change; none when it is sound."""
    if not isinstance(check, Check):
        name = getattr(check, "__name__", None) or repr(check)
        return [f'{name} is a {type(check).__name__}, not a check; put @partition_check("my-anomaly") over the function']
    problems = [] if check.name.strip() else ['the check has no name: @partition_check("my-anomaly")']
    if check.scope not in SCOPES:
        return [*problems, f'{check.name}: scope = "{check.scope}"; it must be one of {", ".join(SCOPES)}']
    argument = SCOPES[check.scope] + (", options" if check.options else "")
    if check.options is not None and not _has_defaults(check.options):
        problems.append(f"{check.name}: options must be a frozen dataclass with a default for each field")
    problems += _callable(check.name, "the function", check.function, f"({argument})")
    if not check.definition:
        problems.append(f"{check.name}: its function needs a docstring, which is the definition of the anomaly in every report")
    if not check.needs.strip():
        problems.append(
            f'{check.name}: needs must say what has to be there before anything can be compared: needs="no ... was read"'
        )
    for step, shape in STEPS.items():
        if getattr(check, step) is not None:
            problems += _callable(check.name, step, getattr(check, step), shape)
    if not all(isinstance(damage, PlantedDamage) for damage in check.damages):
        problems.append(f"{check.name}: damages must be PlantedDamage (fencepost.checkers.api)")
    else:
        problems += [
            f'{check.name}: damage "{damage.name}" must expect {check.name}, not {", ".join(damage.expects) or "nothing"}'
            for damage in check.damages
            if check.name not in damage.expects
        ]
    problems += _declared(check)
    if check.gather is not None and check.scope != "run":
        problems.append(f"{check.name}: gather belongs to run checks; a partition check sees its partition already")
    return problems


def _declared(check: Check[Any]) -> Iterator[str]:
    """Faults of the rules, the evidence and the promise that a check declares."""
    if not isinstance(check.promise, str):
        yield f"{check.name}: promise must be a text: the promise that the anomaly breaks, in words"
    if not isinstance(check.evidence, Needs):
        yield f"{check.name}: evidence must be Needs({{Evidence.SENDS, ...}}, ...), not {check.evidence!r}"
    elif odd := [kind for kind in _kinds(check.evidence) if not isinstance(kind, Evidence)]:
        kinds = ", ".join(str(kind) for kind in Evidence)
        yield f"{check.name}: evidence {odd[0]!r} is no kind of evidence; there are {kinds}"
    if not isinstance(check.occasions, tuple) or not all(isinstance(kind, Occasion) for kind in check.occasions):
        yield f"{check.name}: occasions must be a tuple of Occasion, not {check.occasions!r}; there are {', '.join(OCCASIONS)}"
    if not isinstance(check.rules, tuple) or not all(isinstance(rule, Rule) for rule in check.rules):
        yield f"{check.name}: rules must be a tuple of Rule(FORBIDDEN, why, conditions)"
        return
    for number, rule in enumerate(check.rules, 1):
        for wrong in _of_rule(rule, check):
            yield f"{check.name}: rule {number}: {wrong}"


def _kinds(needs: Needs) -> list[Any]:
    """All kinds that are given; a text that stands for a collection as a whole."""
    return [kind for given in (needs.absence, needs.presence) for kind in ([given + ""] if isinstance(given, str) else given)]


def _of_rule(rule: Rule, check: Check[Any]) -> Iterator[str]:
    if rule.judged not in JUDGED:
        yield f'"{rule.judged}" is none of {", ".join(JUDGED)}'
    if not rule.reason.strip():
        yield "it has no reason"
    if rule.unless and rule.unless not in UNLESS:
        yield f'unless="{rule.unless}" is none of {", ".join(UNLESS)}'
    if rule.unless in (READS, FINAL_READS) and check.shown_by is None:
        yield f'unless="{rule.unless}" asks shown_by, which the check lacks'
    if rule.unless in (LEADERS_LOGS, MEMBERS_ANSWERS) and check.beyond_aborts is None:
        yield f'unless="{rule.unless}" asks beyond_aborts, which the check lacks'
    if rule.unless == SENTENCE and check.undoubted is None:
        yield f'unless="{rule.unless}" asks undoubted, which the check lacks'
    for key, value in rule.when.items():
        bare = value.removeprefix("!").removeprefix("has:")
        if key not in CONTRACT_KEYS:
            near = difflib.get_close_matches(key, CONTRACT_KEYS, 1)
            yield f'a contract has no key "{key}"' + (f'; did you mean "{near[0]}"?' if near else "")
        elif canonical(key, bare) is None:
            yield f'{key} must be {allowed_values(CONTRACT_KEYS[key])}, not "{bare}"'


def _has_defaults(cls: Any) -> bool:
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return False
    missing = dataclasses.MISSING
    return all(field.default is not missing or field.default_factory is not missing for field in dataclasses.fields(cls))


def _callable(name: str, what: str, function: Any, shape: str) -> list[str]:
    """The fault of a function that does not take as many arguments as `shape` has; empty when it does."""
    if not callable(function):
        return [f"{name}: {what} must be a function {shape}, not {function!r}"]
    try:
        inspect.signature(function).bind(*shape.split(","))
    except TypeError:
        return [f"{name}: {what} must take {shape}, not {inspect.signature(function)}"]
    except ValueError:  # no signature to be had
        return []
    return []
