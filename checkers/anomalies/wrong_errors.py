"""Errors of the wrong class (KIP-98, error handling): what a client answers, compared with `checkers.anomalies.error_table`.

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fencepost.checkers.anomalies.error_table import MISUSES, REFUSED_CODES, TABLE, Answer
from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_rules import UNLESS_PRODUCER, UNLESS_REPORTED, UNLESS_TRANSACTIONAL
from fencepost.checkers.contract.needs import OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, SENTENCE, Rule
from fencepost.checkers.history.overview import Overview
from fencepost.checkers.model.arrays import Ints, among, true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.pipeline.instances import Instances, instances
from fencepost.checkers.selfcheck.schedules import scheduled
from fencepost.checkers.views.log import slices
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import FENCED

COLUMNS = ("index", "process", "f", "type", "time", "end", "errors", "detail")
MISUSE = "misuse"
CALM_NS = 15_000_000_000  # after a fault a client may still be at retries of it
DOUBTS = 2  # causes of a row: with doubt, and without
RECORDS = ("deliver", "send", "flush")  # calls whose errors may be those of a record
CLASSED = ("initialise", "begin", "send", "flush", "send_offsets", "commit", "abort")


@dataclass(frozen=True)
class Compared:
    """Answers, each with every row of the table that is about it.

    pairs: the row (its number), the answer, and whether it is as demanded.
    fine: the same of transactions that ended ok without any error, as far as all they say is as demanded: how many meet each row.
    """

    pairs: list[tuple[int, Answer, bool]]
    fine: Counter[int]

    def __len__(self) -> int:
        return len(self.pairs) + self.fine.total()


def compared(run: RunView) -> Compared:
    """The ends of calls of transactional producers: all errors, and the transactions of known instances that ended ok.

    Nearly all transactions ended ok without any error. What is known of these are three flags, so that there are eight kinds of
    them, of which one example each is compared; they are told apart as arrays.
    """
    errors = pc.list_value_length(ds.field("errors")) > 0
    kind, named = ds.field("f").isin(["txn", "initialise", MISUSE]), ds.field("transactional_id").is_valid()
    nameless = (ds.field("f") == "txn") & ~named & ds.field("process").isin(run.shared(instances).process)
    table = run.history.select((*COLUMNS, "transactional_id"), (kind & named & (errors | (ds.field("f") == MISUSE))) | nameless)
    is_named = table["transactional_id"].is_valid()
    rows = table.filter(is_named).sort_by("index").to_pylist()
    given, broken = _answers_of_rows(rows, run)
    fine = Counter[int]()
    for example, ops in _fine(run, table["index"].to_numpy(), broken):
        met = [(number, demand.met(example)) for number, demand in enumerate(TABLE) if demand.applies(example)]
        if all(is_met for _, is_met in met):
            fine.update({number: len(ops) for number, _ in met})
        else:
            given += [_placed_like(example, op, run) for op in ops.tolist()]
    given.sort(key=lambda answer: answer.op)
    pairs = [(row, answer, demand.met(answer)) for answer in given for row, demand in enumerate(TABLE) if demand.applies(answer)]
    return Compared(pairs, fine)


def _answers_of_rows(rows: Sequence[Mapping[str, Any]], run: RunView) -> tuple[list[Answer], dict[int, int]]:
    """The answers of some operations, and the one with the first fatal error of each instance (its position)."""
    all_instances = run.shared(instances)
    at = all_instances.at(*(np.array([row[name] for row in rows], dtype=np.int64) for name in ("process", "index")))
    made, broken = list[Answer](), dict[int, int]()
    for row, own in zip(rows, at.tolist(), strict=True):
        calm = _calm(row, run)
        for answer in _answers_of(row, run.transaction_timeout_s):
            placed = replace(_placed(answer, all_instances, own, own in broken), calm=calm)
            made.append(placed)
            if (placed.fatal if placed.misuse else placed.final) and own != NONE:  # a refused misuse is no end
                broken.setdefault(own, row["index"])
    return made, broken


def _fine(run: RunView, others: Ints, broken: Mapping[int, int]) -> Iterator[tuple[Answer, Ints]]:
    """Transactions of known instances that ended ok, without some others: an example of each kind, and all positions of it."""
    view, all_instances = run.overview, run.shared(instances)
    if not len(all_instances):
        return
    ended_ok = view.txn & view.ok
    ended_ok[view.at(others)] = False
    ended_ok &= among(view.process, np.unique(all_instances.process))
    first_fatal = np.full(len(all_instances), FOREVER)
    first_fatal[list(broken)] = list(broken.values())
    kinds: dict[int, list[Ints]] = {}
    positions = true_positions(ended_ok)
    for some in (positions[part] for part in slices(len(positions))):
        op, time = view.index[some].astype(np.int64), _answered(view, some)
        own = all_instances.at(view.process[some], op)
        flags = (time > all_instances.fenced[own]) | (time < all_instances.disturbed[own]) * 2 | (op > first_fatal[own]) * 4
        flags[own == NONE] = 0
        for kind in true_positions(np.bincount(flags)).tolist():
            kinds.setdefault(kind, []).append(some[flags == kind])
    for kind, parts in kinds.items():
        fenced, undisturbed, after_fatal = bool(kind & 1), bool(kind & 2), bool(kind & 4)
        yield (
            Answer(op=NONE, call="commit", time=NONE, fenced=fenced, undisturbed=undisturbed, after_fatal=after_fatal),
            np.concatenate(parts).astype(np.int64),
        )


def _answered(view: Overview, positions: Any) -> Ints:
    """When each of some operations ended, or, where that is not known, began."""
    end = view.end[positions]
    return np.asarray(np.where((end == NONE) | (end == 0), view.time[positions], end), dtype=np.int64)


def _placed_like(example: Answer, position: int, run: RunView) -> Answer:
    """The answer of an operation (its position) that is like an example."""
    view = run.overview
    time, end = int(view.time[position]), int(view.end[position])
    calm = _calm({"time": time, "end": None if end == NONE else end}, run)
    return replace(example, op=int(view.index[position]), time=int(_answered(view, position)), calm=calm)


def _answers_of(row: Mapping[str, Any], timeout_s: float) -> Iterator[Answer]:
    """The errors of an operation in order, and its success."""
    misuse, denied, refused = _misuse_of(row), False, set[str]()  # refused: the errors of records
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
                denied=denied,
                repeated=error["name"] in refused,
                misuse=misuse if error["call"] == MISUSES.get(misuse) else "",
                kind=row["f"],
                **flags,
            )
        denied = denied or "AUTHORIZATION" in (error["name"] or "").upper() or error["code"] in REFUSED_CODES
        refused |= {error["name"]} if error["call"] in RECORDS else set()
    if row["f"] == "txn" and row["type"] == "ok":
        yield Answer(op=row["index"], call="commit", time=row["end"] or row["time"])
    if misuse and row["type"] == "ok":  # the call out of order returned
        yield Answer(op=row["index"], call=MISUSES[misuse], time=row["end"] or row["time"], misuse=misuse, kind=MISUSE)


def _misuse_of(row: Mapping[str, Any]) -> str:
    """The situation of a `misuse` operation; empty for others, and where it was not reached."""
    if row["f"] != MISUSE:
        return ""
    try:
        detail = json.loads(row["detail"] or "{}")
    except ValueError:
        return ""
    name = str(detail.get("misuse")) if isinstance(detail, dict) and detail.get("reached") else ""
    return name if name in MISUSES else ""


def _calm(row: Mapping[str, Any], run: RunView) -> bool:
    """True if no fault was on from shortly before an operation to its end, and nothing else is known to have failed."""
    end = FOREVER if row["end"] is None else row["end"]
    return run.faults is not None and not any(
        began <= end and (FOREVER if ended is None else ended) >= row["time"] - CALM_NS for began, ended in run.faults
    )


def _placed(answer: Answer, all_instances: Instances, own: int, broken: bool) -> Answer:
    """An answer with what is known of its instance (position; NONE: nothing)."""
    if own == NONE or answer.call == "initialise":
        return answer
    fenced, undisturbed = answer.time > all_instances.fenced[own], answer.time < all_instances.disturbed[own]
    return replace(answer, fenced=bool(fenced), undisturbed=bool(undisturbed), after_fatal=broken)


def _table(pairs: Compared) -> tuple[dict[str, Any], ...]:
    """The rows of the table with how often each was met and violated."""
    counts = Counter((row, bool(met)) for row, _, met in pairs.pairs)
    return tuple(
        {
            "situation": demand.situation,
            "calls": demand.calls,
            "demanded": demand.demanded,
            "source": demand.source,
            "doubt": demand.doubt,
            "met": counts[number, True] + pairs.fine[number],
            "violated": counts[number, False],
        }
        for number, demand in enumerate(TABLE)
    )


def undoubted(finding: Finding, run: RunView) -> bool:
    """True if the answers of a finding violate a row about which KIP-98 leaves no doubt."""
    row, answer = _violation(finding, run)
    return TABLE[row].undoubted(answer)


def _violation(finding: Finding, run: RunView) -> tuple[int, Answer]:
    """The row that a finding violates, and the first of its answers."""
    by_cause = run.shared(_violations)
    own = {(row.op, row.time) for row in finding.rows}
    return next(pairs[0] for pairs in by_cause.values() if {(answer.op, answer.time) for _, answer in pairs} == own)


def _violations(run: RunView) -> dict[int, list[tuple[int, Answer]]]:
    """The answers that violate a row, by their cause: the row, and whether that is undoubted; the first of each operation."""
    by_cause: dict[int, dict[int, tuple[int, Answer]]] = {}
    for row, answer, met in run.shared(compared).pairs:
        if not met:
            cause = DOUBTS * row + TABLE[row].undoubted(answer)
            by_cause.setdefault(cause, {}).setdefault(answer.op, (row, answer))
    return {cause: list(answers.values()) for cause, answers in by_cause.items()}


def _explain(finding: Finding, text: FindingText) -> str:
    row, first = _violation(finding, text.run)
    demand = TABLE[row]
    answer = "returned ok" if first.ok else f"raised {first.name} ({first.flag})"
    more = text.first_of(finding.rows, "answers")
    doubt = f" Not forbidden: {demand.doubt}." if demand.doubt else ""
    number = text.run.overview.op[text.run.overview.at(first.op)]
    who = text.name(first.op, capital=False) if first.kind == "txn" else f"{first.kind} {number} of {text.process(first.op)}"
    called = who.capitalize() if first.call == first.kind else f"{first.call} of {who}"
    return f"{called} {answer}{more}, where {demand.demanded} is demanded: {demand.situation} ({demand.source}).{doubt}"


@run_check(
    "wrong-error",
    promise=FENCED,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_TRANSACTIONAL,
        UNLESS_REPORTED,
        Rule(FORBIDDEN, "the class of each error is KIP-98's; the test's own contract demands it", {"strict_errors": "true"}),
        Rule(
            ALLOWED,
            "the class of an error harms no record, and the sentence leaves doubt: it is reported with its row of KIP-98's table",
            unless=SENTENCE,
        ),
        Rule(FORBIDDEN, "KIP-98's sentence about the class of the error leaves no doubt"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES},
        "a call of a missing line may have raised a wrong error",
        {SENDS},
        "a line that is missing may have fenced the instance, or freed it",
    ),
    damages=(scheduled("wrong-error"),),
    explain=_explain,
    undoubted=undoubted,
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

    compared: answers of calls in a situation of the table. One cause: the row of the table, and whether a doubt is left.

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
    pairs, by_cause = run.shared(compared), run.shared(_violations)
    if not by_cause:
        return CheckResult(len(pairs), table=_table(pairs))
    wrong = [(cause, answer.op, answer.time) for cause, answers in by_cause.items() for _, answer in answers]
    violations = pd.DataFrame(wrong, columns=["cause", "op", "time"], dtype=np.int64)
    sends = run.sends_of(violations["op"].unique()).drop_duplicates("op")[["op", "partition", "v", "offset"]]
    rows = violations.merge(sends, on="op", how="left")
    rows = rows.assign(
        partition=rows["partition"].fillna(""), role="sent", **{name: rows[name].fillna(NONE) for name in ("v", "offset")}
    )
    return CheckResult(len(pairs), {name: rows[name].to_numpy() for name in rows.columns}, table=_table(pairs))
