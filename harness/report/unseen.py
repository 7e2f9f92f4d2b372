"""The lag of the readers of the main phase: committed records that none of them had got yet, over time."""

from __future__ import annotations

from fencepost.harness.api.words import form, plural
from fencepost.harness.page_text import at, number
from fencepost.harness.report.documents import ReportData
from fencepost.harness.report.panels import faults

_NAMED = 3


def points(run: ReportData) -> list[list[int]]:
    """`[microseconds since the start of the run, count]` in order of time; none when nothing was written or counted."""
    return [[(time - run.origin_ns) // 1000, count] for time, count in run.verdict.get("unseen") or ()]


def words(run: ReportData) -> str:
    """The curve for those who do not see it: its peak, the faults around that, and how it ended. Empty without a curve."""
    counted = run.verdict.get("unseen") or ()
    if not counted:
        return ""
    peak_ns, peak = max(counted, key=lambda point: point[1])
    if not peak:
        return f"At none of the {plural(len(counted), 'moment')} looked at was a committed record unseen by every reader."
    if not run.verdict.get("counts", {}).get("read"):
        return f"Nobody read in the main phase, so what was committed stayed unseen: {plural(peak, 'record')}{_afterwards(run)}."
    most = plural(peak, "committed record was", "committed records were")
    text = f"At most {most} unseen at once, at {at(peak_ns, run.origin_ns)}{_during(run, peak_ns)}. {_end(run, counted[-1][1])}"
    return f"{text} Counted at {plural(len(counted), 'moment')}."


def _during(run: ReportData, moment_ns: int) -> str:
    """The faults that were on at a moment, as the rest of a sentence."""
    on = [fault for fault in run.faults or () if fault.get("injected_ns") and fault.get("effective") is not False]
    on = [fault for fault in on if fault["injected_ns"] <= moment_ns <= (fault.get("healed_ns") or run.end_ns)]
    named = ", ".join(faults.name(fault) for fault in on[:_NAMED])
    return f", during {named}{' and others' if len(on) > _NAMED else ''}" if on else ""


def _end(run: ReportData, left: int) -> str:
    before = "the final read" if _final_read(run) else "the history ended"
    if not left:
        return f"At the end there were 0: readers had seen everything committed before {before}."
    return f"At the end {number(left)} {form(left, 'was', 'were')} left{_afterwards(run)}."


def _afterwards(run: ReportData) -> str:
    return "; only the final read, which came later, could return them" if _final_read(run) else ""


def _final_read(run: ReportData) -> bool:
    return run.ops is not None and bool(run.ops.final.any())
