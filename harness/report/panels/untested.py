"""The promises that the run leaves without an answer, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencepost.harness.api.values import Property
from fencepost.harness.report.documents import ReportData
from fencepost.harness.report.panels import faults
from fencepost.harness.report.text import number, plain


@dataclass(frozen=True, kw_only=True)
class Untested:
    """Something this run says nothing about, and why."""

    what: str
    why: str


def fields(run: ReportData) -> dict[str, Any]:
    """The template's variables."""
    return {"untested": untested(run)}


def untested(run: ReportData) -> tuple[Untested, ...]:
    """Everything this run says nothing about."""
    made = _unanswered(run)
    made += [Untested(what=f"Faults that need {name}", why=plain(why)) for name, why in run.plan.get("unavailable", {}).items()]
    made += _unhurt(run)
    permitted = [p.get("name", "?") for p in run.verdict.get("allowed", ())]
    if permitted:
        names = ", ".join(permitted)
        made.append(
            Untested(what="Anomalies that the settings permit", why=f"seen or not, they cannot make a run invalid: {names}")
        )
    overridden = run.plan.get("overridden", {}).items()
    return tuple(
        made
        + [
            Untested(what=f"Contract: {key} = {plain(value)}", why="set by the test itself, whatever the settings say")
            for key, value in overridden
        ]
    )


def _unanswered(run: ReportData) -> list[Untested]:
    """The anomalies without an answer; those with the same reason share a row."""
    blank = (Property.NOT_EXERCISED.value, Property.UNKNOWN.value)
    names: dict[tuple[str, str], list[str]] = {}
    for answer in run.verdict.get("properties", ()):
        if answer.get("verdict") in blank:
            why = answer.get("reason") or f"{number(answer.get('compared'))} compared"
            names.setdefault((answer["verdict"], why), []).append(str(answer.get("name")))
    return [Untested(what=f"{', '.join(some)}: {verdict}", why=why) for (verdict, why), some in names.items()]


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
