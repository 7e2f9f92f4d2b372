"""Instances of a transactional id that are fenced, and what they still do (KIP-98: zombie fencing).

Each docstring is the definition of its anomaly. What is forbidden under which settings: `checkers.verdict.rules`. When an
instance is fenced: `checkers.anomalies.instances`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from checkers.anomalies.instances import NO_INSTANCES, instances
from checkers.api import CheckResult, run_check
from checkers.partition.log import ABORTED, NONE
from checkers.run_view import RunView
from checkers.verdict.findings import Finding
from checkers.verdict.wording import FindingText

NO_ZOMBIE = "no instance of a transactional id did anything after it had been fenced"


# --------------------------------------------------------------------------------------------------
# What fenced instances did
# --------------------------------------------------------------------------------------------------
def fenced_operations(run: RunView) -> pd.DataFrame:
    """Transactions of instances that were fenced before they ended: op, fenced (when, ns), fenced_by, decided, status."""
    overview, found = run.overview, run.shared(instances)
    at = np.flatnonzero(overview.txn & np.isin(overview.process, found.process))
    op = overview.index[at].astype(np.int64)
    own = found.at(overview.process[at], op)
    at, op, own = at[own != NONE], op[own != NONE], own[own != NONE]
    late = (overview.end[at] == NONE) | (np.maximum(overview.end[at], overview.decided[at]) > found.fenced[own])
    columns = {"fenced": found.fenced[own], "fenced_by": found.fenced_by[own]}
    columns |= {"decided": overview.decided[at], "status": overview.status[at]}
    return pd.DataFrame({"op": op, **columns})[late & (found.fenced_by[own] != NONE)]


def zombie_records(run: RunView) -> pd.DataFrame:
    """Records of `fenced_operations`: their columns, and partition, v, offset, began, ended; late: sent after the fencing."""
    operations = run.shared(fenced_operations)
    records = run.sends_of(operations["op"]).merge(operations, on="op")
    return records.assign(late=(records["began"] != NONE) & (records["began"] > records["fenced"]))


def visible_zombies(run: RunView) -> pd.DataFrame:
    """Records of fenced instances that a read_committed reader got, of transactions that did not surely fail, and of which commit
    was called, or the record sent, after the fencing. wrote: of a transaction that shows a record sent after it."""
    records = run.shared(zombie_records)
    records = records[(records["status"] != ABORTED) & (records["late"] | (records["decided"] > records["fenced"]))]
    shown = records[run.got_at_read_committed(records)]
    return shown.assign(wrote=shown.groupby("op")["late"].transform("any"))


def _lacking(run: RunView) -> str:
    return NO_ZOMBIE if len(run.shared(instances)) else NO_INSTANCES


def _rows(records: pd.DataFrame, time: str) -> dict[str, Any]:
    columns = {"cause": "op", "op": "op", "v": "v", "offset": "offset", "time": time, "partition": "partition"}
    made = {name: records[column].to_numpy() for name, column in columns.items()}
    return {**made, "role": np.full(len(records), "sent", dtype=object)}


def _with_fencing(finding: Finding, text: FindingText) -> dict[str, Any]:
    """The operations of a finding, and the one that had fenced them."""
    operations = text.run.shared(fenced_operations)
    fenced_by = operations.loc[operations["op"].isin(finding.operations), "fenced_by"]
    return {"operations": sorted({*finding.operations, *map(int, fenced_by)})}


def _fencing_of(finding: Finding, text: FindingText, before: str) -> str:
    """`process 9 had finished initialising the same transactional id (operation 31) 3.2 ms before its commit was called`."""
    operations = text.run.shared(fenced_operations).set_index("op")
    row = operations.loc[finding.rows[0].op]
    ms = (finding.time - int(row["fenced"])) / 1e6
    return (
        f"{text.process(int(row['fenced_by']))} had finished initialising the same transactional id {ms:.1f} ms before {before}"
    )


# --------------------------------------------------------------------------------------------------
# zombie-commit
# --------------------------------------------------------------------------------------------------
def _explain_commit(finding: Finding, text: FindingText) -> str:
    op = finding.rows[0].op
    when = _fencing_of(finding, text, "its commit was called")
    return f"{text.name(op)} {text.outcome(op)}, and its records at {text.places(finding.rows)} are visible, although {when}."


@run_check("zombie-commit", explain=_explain_commit, detail=_with_fencing, across=True, needs=NO_ZOMBIE)
def zombie_commit(run: RunView) -> CheckResult:
    """A transaction whose commit was called after another instance of its transactional id had finished initialising, and that
    readers at read_committed see all the same.

    The other instance began to initialise after this one had initialised, in another process. What counts is that records are
    visible, whether commit returned ok or nobody knows how it ended. If none is visible, and commit returned ok, it is
    `false-ack`; if a visible one was sent after the fencing, it is `zombie-write`; if the transaction surely failed,
    `aborted-read`.

    compared: transactions of fenced instances whose commit was called after the fencing. One cause: the transaction.

    Example::

        ms     process  operation   t-0       outcome
        0-1    1        initialise
        2-7    1        txn         send a@5  committed
        4-5    2        initialise
        8-9    2        txn         send b@7  committed
        10-11  3        final read  read a@5, b@7

    Found: sent a@5. Process 2 had fenced process 1 before its commit.

    Slow twin: `zombie_commits` in tests/support/reference.py.
    """
    operations, zombies = run.shared(fenced_operations), run.shared(visible_zombies)
    compared = int((operations["decided"] > operations["fenced"]).sum())
    return CheckResult(compared, _rows(zombies[~zombies["wrote"]], "decided"), _lacking(run))


# --------------------------------------------------------------------------------------------------
# zombie-write
# --------------------------------------------------------------------------------------------------
def _explain_write(finding: Finding, text: FindingText) -> str:
    op = finding.rows[0].op
    when = _fencing_of(finding, text, "the first of them was sent")
    return f"{text.name(op)} {text.outcome(op)}; of its records {text.places(finding.rows)} are visible, although {when}."


def _included(finding: Finding, text: FindingText) -> dict[str, Any]:
    """With the anomaly of which the same transaction would be a finding if it had sent its records earlier."""
    committed = text.decided(finding.rows[0].op) != NONE
    return {**_with_fencing(finding, text), **({"includes": ["zombie-commit"]} if committed else {})}


@run_check("zombie-write", explain=_explain_write, detail=_included, across=True, needs=NO_ZOMBIE)
def zombie_write(run: RunView) -> CheckResult:
    """A record that an instance sent after another instance of its transactional id had finished initialising, and that readers
    at read_committed see: a record of a fenced epoch, or of a producer id that is not the transactional id's any more.

    The other instance began to initialise after this one had initialised, in another process. Its transaction is not reported
    again as `zombie-commit`. A record of a transaction that surely failed is `aborted-read`'s.

    compared: records sent by fenced instances after the fencing. One cause: the transaction.

    Example::

        ms     process  operation   t-0       outcome
        0-1    1        initialise
        2-3    2        initialise
        4-5    1        txn         send a@5  committed
        6-7    2        txn         send b@7  committed
        10-11  3        final read  read a@5, b@7

    Found: sent a@5. Process 2 had fenced process 1 before it was sent.

    Slow twin: `zombie_writes` in tests/support/reference.py.
    """
    records, zombies = run.shared(zombie_records), run.shared(visible_zombies)
    return CheckResult(int(records["late"].sum()), _rows(zombies[zombies["late"]], "began"), _lacking(run))
