"""The reasons of the verdict: what decided, by which promises, who changed these, what was expected; and the command.

Settings of which nobody would ask are left to the panel of all settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.contract import CONTRACT_KEYS
from fencepost.harness.api.values import Property, Verdict
from fencepost.harness.api.verdict_document import without_occasion
from fencepost.harness.api.words import and_more, plural
from fencepost.harness.page_text import number, plain, shortened
from fencepost.harness.report.documents import Doc, ReportData
from fencepost.harness.report.panels.properties import PropertyRow, properties

_ALWAYS = ("acks", "idempotence", "transactional", "isolation")  # keys of a contract that are shown whatever their values
_DECIDING, _SETTINGS, _HELD = 8, 12, 4  # that are shown
_REASON = 160  # letters


@dataclass(frozen=True, kw_only=True)
class Override:
    """A key of the contract whose value does not follow from the settings.

    without: the value that they give; empty where it is not known.
    by: who changed it.
    """

    key: str
    value: str
    without: str
    by: str


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A setting. changed: the test or the judgement overrides it."""

    key: str
    value: str
    changed: bool = False


@dataclass(frozen=True, kw_only=True)
class Why:
    """The panel.

    deciding: the properties that make the verdict what it is, each with the beginning of its reason.
    more_deciding: how many more there are.
    held: the properties that held, in words. without_occasion: how many of them nothing could have broken; empty: none.
    promised: the contract; overrides: what of it does not follow from the settings.
    """

    deciding: tuple[tuple[PropertyRow, str], ...]
    more_deciding: int
    held: str
    without_occasion: str
    promised: tuple[Chip, ...]
    overrides: tuple[Override, ...]
    producer: tuple[Chip, ...]
    expected: str
    tolerated: tuple[str, ...]
    shortfalls: tuple[str, ...]


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    return {"why": why(run), "command": str(run.plan.get("command", ""))}


def why(run: ReportData) -> Why:
    """The reasons of a run's verdict."""
    answers, changes = run.verdict.get("properties", []), overrides(run)
    deciding = [row for row in properties(answers) if row.decides]
    return Why(
        deciding=tuple((row, shortened(row.reason or row.contract, _REASON)) for row in deciding[:_DECIDING]),
        more_deciding=len(deciding[_DECIDING:]),
        held=held(answers),
        without_occasion=without_occasion(run.verdict),
        promised=promised(run.plan.get("contract") or {}, [change.key for change in changes]),
        overrides=changes,
        producer=_chips((run.plan.get("client") or {}).get("producer") or {}),
        expected=", ".join(map(str, run.verdict.get("expect") or [Verdict.VALID.value])),
        tolerated=tuple(map(str, run.plan.get("tolerate") or ())),
        shortfalls=tuple(map(plain, run.verdict.get("shortfalls") or ())),
    )


def held(rows: Sequence[Doc]) -> str:
    """The properties that held, in a sentence with the largest numbers of comparisons; empty where none did."""
    kept = sorted((row for row in rows if row.get("verdict") == Property.HELD.value), key=lambda row: -(row.get("compared") or 0))
    if not kept:
        return ""
    promises = len({row["promise"] for row in kept if row.get("promise")})
    of = f" of {plural(promises, 'promise')}" if promises else ""
    named = ", ".join(f"{row.get('name')} over {number(row.get('compared'))}" for row in kept[:_HELD])
    return f"{plural(len(kept), 'property', 'properties')}{of}: {named}{and_more(len(kept) - _HELD)}"


def promised(contract: Mapping[str, Any], changed: Sequence[str] = ()) -> tuple[Chip, ...]:
    """The keys of a contract that say something: the four that every run has, and those whose value is not Kafka's default."""
    shown = [key for key, value in contract.items() if key in _ALWAYS or key in changed or plain(value) != _default(key)]
    return tuple(Chip(key=key, value=plain(contract[key]), changed=key in changed) for key in shown)


def _default(key: str) -> str:
    return CONTRACT_KEYS[key].default if key in CONTRACT_KEYS else ""


def _chips(settings: Mapping[str, Any]) -> tuple[Chip, ...]:
    return tuple(Chip(key=key, value=plain(value)) for key, value in list(settings.items())[:_SETTINGS])


def overrides(run: ReportData) -> tuple[Override, ...]:
    """Each key of the contract that does not follow from the settings: the test, or another judgement than the run's own, set it.

    Keys that follow from one that was set are among them.
    """
    given, derived = run.plan.get("overridden") or {}, run.plan.get("derived") or {}
    made = {key: _override(key, value, derived.get(key, ""), "the test") for key, value in given.items()}
    implied = {key: was for key, was in derived.items() if key not in made}
    made |= {key: _override(key, run.own_contract.get(key), was, "what the test sets") for key, was in implied.items()}
    return tuple({**made, **_laid_over(run)}.values())


def _laid_over(run: ReportData) -> dict[str, Override]:
    """The keys of the contract in which another judgement than the run's own differs from that."""
    given = (run.verdict.get("judged_by") or {}).get("contract") or {}
    now = (run.plan.get("contract") or {}) if given else {}
    own = {key: run.own_contract.get(key, _default(key)) for key in now}
    return {
        key: _override(key, value, own[key], "this judgement" if key in given else "what this judgement sets")
        for key, value in now.items()
        if value != own[key]
    }


def _override(key: str, value: Any, without: Any, by: str) -> Override:
    return Override(key=key, value=plain(value), without=plain(without), by=by)
