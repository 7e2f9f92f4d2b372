"""What the checks of source connectors have in common: whether anything can be compared, and how records are records_text."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.checkers.model.findings import FindingRecord
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.pipeline.source_log import Known, SourceLog, has_connector
from fencepost.checkers.views.run_view import RunView

NO_CONNECTOR = "no records of a connector were read back"
NOT_READ_BACK = "not every partition of the topic was read back by a complete read_committed final read"
MAY_HAVE_ALTERED = "a request that is missing may have altered the stored offset"
ALTERED = "the connector's offsets were altered or reset on request, and it is not known which records came before"


def judged(run: RunView) -> tuple[SourceLog | None, CheckResult]:
    """The log of what a connector wrote; None where nothing can be compared, and the answer then."""
    if not has_connector(run):
        return None, CheckResult(0)
    log = run.shared(SourceLog)
    lacking = ALTERED if log.unordered else log.strange if log.visible.empty else ""
    return (None if lacking else log), CheckResult(0, lacking=lacking)


def if_read_back(run: RunView, result: CheckResult) -> CheckResult:
    """A result where the topic was read back; else its findings alone: what was read is there, and absence says nothing."""
    if not has_connector(run) or run.shared(SourceLog).read_back or len(result.rows) or run.shared(SourceLog).unordered:
        return result
    return CheckResult(0, lacking=NOT_READ_BACK, unknown=result.unknown)


def span(log: SourceLog, rows: Iterable[FindingRecord]) -> tuple[str, int, int]:
    """The source of some records, and their first and last position."""
    known = [log.at(row) for row in rows]
    numbers = [entry.sequence for entry in known]
    return known[0].name, min(numbers), max(numbers)


def records_text(log: SourceLog, name: str, first: int, last: int) -> str:
    """`Record 3`, or `Records 3 to 5`."""
    begin, end = (str(at) if log.entries.parted.sequenced else log.words(name, at) for at in (first, last))
    return f"Record {begin}" if first == last else f"Records {begin} to {end}"


def identity(log: SourceLog, entry: Known) -> str:
    """What tells a record from all others of its source, in words: its number in a sequence, or its position."""
    return str(entry.sequence) if log.entries.parted.sequenced and entry.kind == "record" else entry.words
