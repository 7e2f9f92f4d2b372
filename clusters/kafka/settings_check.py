"""Settings of brokers and topics against Kafka's own definitions: name, type and bounds, before anything starts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.clusters.kafka import distribution
from fencepost.clusters.kafka.setting_definitions import Definition, Definitions, definitions
from fencepost.harness.api import HarnessError
from fencepost.harness.api.words import did_you_mean

OWN_NAMES = re.compile(  # of plug-ins of a broker, whatever they are: no definition holds them
    r"listener\.name\..+|config\.providers.*|rsm\.config\..+|rlmm\.config\..+|client\.quota\.callback\..+"
    r"|super\.users|allow\.everyone\.if\.no\.acl\.found|.*\.(?:plugin|provider)\..+"
)
_BITS = {"short": 16, "int": 32, "long": 64}
_RANGE = re.compile(r"\[(-?[\d.]+(?:E-?\d+)?)?,?\.\.\.,?(-?[\d.]+(?:E-?\d+)?)?\]( or (-?\d+))?")
_CHOICES = re.compile(r"(\(case insensitive\) )?\[([^\[\].]+(?:, [^\[\]]+)*)\]")


def known_definitions(versions: Sequence[str]) -> tuple[list[Definitions], str]:
    """The definitions of these versions, and why some settings cannot be judged now; empty when all can."""
    cached = [distribution.cached(version) for version in versions]
    lost = [version for version, release in zip(versions, cached, strict=True) if release is None]
    if lost:
        return [], f"Kafka {', '.join(lost)} has not been fetched yet (fencepost cluster fetch {lost[0]})"
    try:
        return [definitions(release) for release in cached if release is not None], ""
    except HarnessError as error:
        return [], str(error)


def refused(settings: Mapping[str, Any], kind: str, known: Sequence[Definitions]) -> list[tuple[str, str]]:
    """The mistakes in the settings of `kind` (broker, topic): pairs of a name and a sentence.

    known: the versions that are used. A setting must be known to one of them, and its value lawful in each that knows it.
    """
    wrong = []
    for name, value in settings.items():
        defined = [(release.version, table[name]) for release in known for table in [getattr(release, kind)] if name in table]
        if not defined:
            text = _unknown(name, kind, known)
        else:
            refusals = ((version, refusal(definition, _text(value))) for version, definition in defined)
            text = next((f"{why} (Kafka {version})" for version, why in refusals if why), "")
        if text:
            wrong.append((name, text))
    return wrong


def refusal(definition: Definition, text: str) -> str:
    """The reason why a value is refused, with the bound; empty when it is not refused here."""
    text = text.strip()
    if definition.kind == "boolean":
        return "" if text.lower() in ("true", "false") else f'must be true or false, not "{text}"'
    if definition.kind in (*_BITS, "double"):
        return _number(definition, text)
    return _choice(definition, text)


def _number(definition: Definition, text: str) -> str:
    what = "a number" if definition.kind == "double" else "a whole number"
    try:
        number = float(text) if definition.kind == "double" else int(text)
    except ValueError:
        return f'must be {what}, not "{text}"'
    if isinstance(number, float) and not math.isfinite(number):
        return f"must be a finite number, not {text}"
    bits = _BITS.get(definition.kind, 0)
    if bits and not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        return f"must be a whole number of {bits} bits, not {text}"
    bounds = _RANGE.fullmatch(definition.values)
    if not bounds or (bounds[4] and float(bounds[4]) == number):
        return ""
    low, high = float(bounds[1] or -math.inf), float(bounds[2] or math.inf)
    return "" if low <= number <= high else f"must be {_between(bounds[1], bounds[2])}{bounds[3] or ''}, not {text}"


def _between(low: str | None, high: str | None) -> str:
    if low and high:
        return f"between {low} and {high}"
    return f"at least {low}" if low else f"at most {high}"


def _choice(definition: Definition, text: str) -> str:
    match = _CHOICES.fullmatch(definition.values)
    if not match:
        return "must not be empty" if definition.values.startswith("non-empty") and not text else ""
    choices = match[2].split(", ")
    given = [choice.strip() for choice in text.split(",")] if definition.kind == "list" else [text]
    lawful = {choice.lower() for choice in choices} if match[1] else set(choices)
    odd = [choice for choice in given if choice and (choice.lower() if match[1] else choice) not in lawful]
    return f'must be {" or ".join(choices)}, not "{odd[0]}"' if odd else ""


def _unknown(name: str, kind: str, known: Sequence[Definitions]) -> str:
    """The reason why no version knows a setting; empty when a version may know it all the same."""
    if kind == "broker" and (OWN_NAMES.fullmatch(name) or any(name in release.others for release in known)):
        return ""
    if kind == "topic" and name.startswith("internal."):
        return ""
    other = "topic" if kind == "broker" else "broker"
    of_other = next((getattr(release, other)[name] for release in known if name in getattr(release, other)), None)
    if of_other is not None:
        instead = f"; for all topics it is {of_other.broker}" if of_other.broker else ""
        return f"is a setting of {other}s, not of {kind}s{instead}"
    names = {setting for release in known for setting in getattr(release, kind)}
    return f"Kafka {', '.join(release.version for release in known)} has no such setting of {kind}s{did_you_mean(name, names)}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
