"""Definite errors of the operation that a finding is about: part of its fingerprint, and never a reason for a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fencepost.checkers.history.source import Source, read_errors
from fencepost.checkers.model.findings import Finding

MOST, LONGEST = 20, 100  # errors of a finding; characters of a name
MOST_READ = 20_000  # findings of an anomaly whose errors are looked up


def add_errors(history: Source, findings: Iterable[Finding]) -> None:
    """Give each forbidden finding about a single operation the definite errors of its calls (`errors`), where there are any."""
    culprits = [(finding, _culprit(finding)) for finding in findings if finding.forbidden]
    wanted = sorted({operation for _, operation in culprits if operation is not None})
    try:
        batches = list(history.operations(np.array(wanted, dtype=np.int64), ("index", "errors"))) if wanted else []
    except read_errors(ValueError, KeyError):
        return
    names = {row["index"]: definite_errors(row["errors"] or ()) for batch in batches for row in batch.to_pylist()}
    for finding, operation in culprits:
        if errors := names.get(operation):
            finding.detail["errors"] = errors


def listed_findings(findings: Sequence[Finding], most: int) -> list[Finding]:
    """At most so many findings of an anomaly, in their order: the first of each class of errors, and the first of all.

    So each fingerprint of a run is in its verdict, however many findings it has: an acknowledged bug hides no other one.
    """
    if len(findings) <= most:
        return list(findings)
    first: dict[tuple[str, ...], int] = {}
    for place, finding in enumerate(findings):
        first.setdefault(tuple(finding.detail.get("errors", ())), place)
    chosen = dict.fromkeys([*first.values(), *range(len(findings))])
    return [findings[place] for place in sorted(list(chosen)[:most])]


def _culprit(finding: Finding) -> int | None:
    """The only operation whose records are wrong, other than those that read them; None: there are several, or none."""
    operations = {row.op for row in finding.rows if row.role != "read"}
    return operations.pop() if len(operations) == 1 else None


def definite_errors(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of errors by which a broker said no for good, in order. Those of the client itself (`_TIMED_OUT`) and those that
    it may retry vary from run to run of the same bug: they tell of the fault, not of the bug."""
    names = {str(error.get("name") or "")[:LONGEST] for error in errors if not error.get("retriable")}
    return sorted(name for name in names if name and not name.startswith("_"))[:MOST]
