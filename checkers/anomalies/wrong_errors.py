"""Errors of the wrong class (KIP-98, error handling): what a client answers, compared with `checkers.anomalies.error_table`.

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fencepost.checkers.anomalies.error_table import TABLE, Answer
from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_rules import UNLESS_PRODUCER, UNLESS_TRANSACTIONAL
from fencepost.checkers.contract.needs import OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.instances import Instances, instances
from fencepost.checkers.selfcheck.schedules import scheduled
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import FENCED

COLUMNS = ("index", "process", "f", "type", "time", "end", "errors")
CLASSED = ("initialise", "begin", "send", "flush", "send_offsets", "commit", "abort")


def answers(run: RunView) -> list[Answer]:
    """The ends of calls of transactional producers: all errors, and the transactions of known instances that ended ok."""
    all_instances = run.shared(instances)
    errors, known = pc.list_value_length(ds.field("errors")) > 0, ds.field("process").isin(all_instances.process)
    kind = ds.field("f").isin(["txn", "initialise"]) & ds.field("transactional_id").is_valid()
    table = run.history.select((*COLUMNS, "transactional_id"), kind & (errors | known))
    rows = table.sort_by("index").to_pylist()
    at = all_instances.at(*(np.array([row[name] for row in rows], dtype=np.int64) for name in ("process", "index")))
    made, broken = [], set[tuple[int, int]]()  # broken: instances (process, position) with a fatal error
    for row, own in zip(rows, at.tolist(), strict=True):
        instance = (row["process"], own)
        for answer in _answers_of(row, run.transaction_timeout_s):
            placed = _placed(answer, all_instances, own, instance in broken)
            made.append(placed)
            if placed.final and own != NONE:
                broken.add(instance)
    return made


def _answers_of(row: Mapping[str, Any], timeout_s: float) -> Iterator[Answer]:
    """The errors of an operation in order, and its success."""
    for error in row["errors"] or ():
        if error["call"] in CLASSED and error["name"]:
            flags = {name: bool(error[name]) for name in ("fatal", "retriable", "abortable")}
            time = error["time"] or row["time"]
            late = time - row["time"] > timeout_s * 1e9
            yield Answer(
                op=row["index"],
                call=error["call"],
                time=time,
                name=error["name"],
                code=error["code"] or 0,
                timed_out=late,
                **flags,
            )
    if row["f"] == "txn" and row["type"] == "ok":
        yield Answer(op=row["index"], call="commit", time=row["end"] or row["time"])


def _placed(answer: Answer, all_instances: Instances, own: int, broken: bool) -> Answer:
    """An answer with what is known of its instance (position; NONE: nothing)."""
    if own == NONE or answer.call == "initialise":
        return answer
    fenced, undisturbed = answer.time > all_instances.fenced[own], answer.time < all_instances.disturbed[own]
    return replace(answer, fenced=bool(fenced), undisturbed=bool(undisturbed), after_fatal=broken)


def compared(run: RunView) -> list[tuple[int, Answer, bool]]:
    """Every answer with each row of the table (its number) that is about it, and whether it is as demanded."""
    given = run.shared(answers)
    return [(row, answer, demand.met(answer)) for answer in given for row, demand in enumerate(TABLE) if demand.applies(answer)]


def _table(pairs: Sequence[tuple[int, Answer, bool]]) -> tuple[dict[str, Any], ...]:
    """The rows of the table with how often each was met and violated."""
    counts = Counter((row, bool(met)) for row, _, met in pairs)
    return tuple(
        {
            "situation": demand.situation,
            "calls": demand.calls,
            "demanded": demand.demanded,
            "source": demand.source,
            "met": counts[number, True],
            "violated": counts[number, False],
        }
        for number, demand in enumerate(TABLE)
    )


def _explain(finding: Finding, text: FindingText) -> str:
    of_row = [(row, case) for row, case, met in text.run.shared(compared) if not met and case.op in finding.operations]
    row, first = next((row, case) for row, case in of_row if _cause_holds(row, of_row, finding))
    demand = TABLE[row]
    answer = "returned ok" if first.ok else f"raised {first.name} ({first.flag})"
    more = text.first_of(finding.rows, "answers")
    return (
        f"{first.call} of {text.name(first.op, capital=False)} {answer}{more}, where {demand.demanded} is demanded: "
        f"{demand.situation} ({demand.source})."
    )


def _cause_holds(row: int, of_row: Sequence[tuple[int, Answer]], finding: Finding) -> bool:
    """True if all operations of a finding violate one row."""
    return set(finding.operations) <= {answer.op for number, answer in of_row if number == row}


@run_check(
    "wrong-error",
    promise=FENCED,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_TRANSACTIONAL,
        Rule(FORBIDDEN, "the class of each error is KIP-98's; the test's own contract demands it", {"strict_errors": "true"}),
        Rule(ALLOWED, "the class of an error harms no record: it is reported with its row of KIP-98's table"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES},
        "a call of a missing line may have raised a wrong error",
        {SENDS},
        "a line that is missing may have fenced the instance, or freed it",
    ),
    damages=(scheduled("wrong-error"),),
    explain=_explain,
    across=True,
    needs="no call of a transactional producer was in a situation of the table",
)
def wrong_error(run: RunView) -> CheckResult:
    """An error of another class than KIP-98 demands in its situation: retriable where it has to be fatal, or the reverse.

    The situations are rows of a table (`checkers.anomalies.error_table`), which the report shows with how often each was met and
    violated. Known of an answer is

    1. its class, by the client: fatal, retriable, or abortable;
    2. that its transaction had timed out, by the transaction's age;
    3. that its instance was fenced, or cannot have been, by the `initialise` operations of its transactional id.

    compared: answers of calls in a situation of the table. One cause: the row of the table.

    Example::

        ms     process  operation   t-0       outcome
        0-1    1        initialise
        2-7    1        txn         send a@5  unknown: commit _FENCED retriable
        4-5    2        initialise
        8-9    2        txn         send b@7  committed
        10-13  2        txn         send c@9  unknown: commit _FENCED fatal
        11-12  1        initialise

    Found: sent a@5. Process 1 is fenced, and has to be told so by a fatal error, as process 2 is later.

    Slow twin: `wrong_errors` in tests/support/fencing_reference.py.
    """
    pairs = run.shared(compared)
    wrong = [(row, answer.op, answer.time) for row, answer, met in pairs if not met]
    if not wrong:
        return CheckResult(len(pairs), table=_table(pairs))
    violations = pd.DataFrame(wrong, columns=["cause", "op", "time"], dtype=np.int64).drop_duplicates(["cause", "op"])
    sends = run.sends_of(violations["op"].unique()).drop_duplicates("op")[["op", "partition", "v", "offset"]]
    rows = violations.merge(sends, on="op", how="left")
    rows = rows.assign(
        partition=rows["partition"].fillna(""), role="sent", **{name: rows[name].fillna(NONE) for name in ("v", "offset")}
    )
    return CheckResult(len(pairs), {name: rows[name].to_numpy() for name in rows.columns}, table=_table(pairs))
