"""The promises that the run leaves without an answer, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.values import Property
from fencepost.harness.api.words import plural
from fencepost.harness.page_text import number, plain
from fencepost.harness.report.documents import ReportData
from fencepost.harness.report.panels import faults


@dataclass(frozen=True, kw_only=True)
class Untested:
    """Something this run says nothing about, and why. link: the id of the part of the page that says more."""

    what: str
    why: str
    link: str = ""


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    return {"untested": untested(run)}


def untested(run: ReportData) -> tuple[Untested, ...]:
    """Everything this run says nothing about."""
    made = _unanswered(run) + _without_occasion(run)
    made += [Untested(what=f"Faults that need {name}", why=plain(why)) for name, why in run.plan.get("unavailable", {}).items()]
    made += _unhurt(run)
    permitted = [p.get("name", "?") for p in run.verdict.get("allowed", ())]
    if permitted:
        names = ", ".join(permitted)
        made.append(
            Untested(what="Anomalies that the settings permit", why=f"seen or not, they cannot make a run invalid: {names}")
        )
    return tuple(made)


def _unanswered(run: ReportData) -> list[Untested]:
    """The anomalies without an answer: the unknown ones, those with the same reason in a row, and the number of the others.

    Each of the others has its line among the properties.
    """
    names: dict[str, list[str]] = {}
    for answer in run.verdict.get("properties", ()):
        if answer.get("verdict") == Property.UNKNOWN.value:
            why = answer.get("reason") or f"{number(answer.get('compared'))} compared"
            names.setdefault(why, []).append(str(answer.get("name")))
    made = [Untested(what=f"{', '.join(some)}: {Property.UNKNOWN.value}", why=why) for why, some in names.items()]
    idle = sum(answer.get("verdict") == Property.NOT_EXERCISED.value for answer in run.verdict.get("properties", ()))
    anomalies = plural(idle, "anomaly", "anomalies")
    reasons = "nothing was compared; the properties give the reason of each"
    return made + [Untested(what=f"{anomalies}: {Property.NOT_EXERCISED.value}", why=reasons, link="not-exercised")] * bool(idle)


def _without_occasion(run: ReportData) -> list[Untested]:
    """The properties that nothing could have broken, those with the same reason together."""
    names: dict[str, list[str]] = {}
    for answer in run.verdict.get("properties", ()):
        if answer.get("verdict") == Property.WITHOUT_OCCASION.value:
            why = "none of what can break it occurred: " + ", ".join(answer.get("occasions") or {})
            names.setdefault(why, []).append(str(answer.get("name")))
    return [Untested(what=f"{', '.join(some)}: {Property.WITHOUT_OCCASION.value}", why=why) for why, some in names.items()]


def _unhurt(run: ReportData) -> list[Untested]:
    """Faults that were planned or done, and yet tested nothing."""
    if run.faults is None:
        return [Untested(what="Behaviour under faults", why="no receipts of faults could be read")]
    missed = faults.never_struck(run)
    made = [Untested(what=f"Fault {i.get('id')}, {i.get('kind')}", why="planned, but it never struck") for i in missed]
    doubts = {
        False: ("no effect", "the evidence shows that nothing was hurt"),
        None: ("not proven", "no evidence for or against"),
    }
    for fault in run.faults:
        if not fault.get("effective"):
            word, why = doubts[fault.get("effective")]
            made.append(Untested(what=f"Fault {fault['id']}, {fault.get('kind')}: {word}", why=fault.get("note") or why))
    if run.receipts_lost:
        made.append(
            Untested(what="Faults whose receipts are missing", why="what they did, and whether they struck, is not known")
        )
    elif not run.faults and not missed:
        made.append(Untested(what="Behaviour under faults", why="this run broke nothing on purpose"))
    return made
