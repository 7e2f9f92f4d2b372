"""Instances of a transactional id that are fenced, and what they still do (KIP-98: zombie fencing).

Each docstring is the definition of its anomaly. When an
instance is fenced: `checkers.pipeline.instances`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check, run_check
from fencepost.checkers.contract.common_rules import (
    COMPACTED,
    COORDINATOR_CUT_OFF,
    HIDDEN_IN_PART,
    RETAINED,
    UNLESS_PRODUCER,
    UNLESS_TRANSACTIONAL,
    cut_off,
)
from fencepost.checkers.contract.needs import ALL_READS, DECISIONS, FINAL, LEVELS, OUTCOMES, SENDS, Needs, of_process
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, Rows, Sifted, has_role, join_rows, rows_where
from fencepost.checkers.model.values import ABORTED, NONE
from fencepost.checkers.pipeline.instances import NO_INSTANCES, any_fenced, fenced_commits, fenced_operations, instances
from fencepost.checkers.pipeline.logged_decisions import falsely_acknowledged
from fencepost.checkers.selfcheck.schedules import scheduled
from fencepost.checkers.selfcheck.transaction_damages import DENY
from fencepost.checkers.views.false_acks import false_ack_rows
from fencepost.checkers.views.final_witness import final_witness
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.result_rows import send_rows
from fencepost.checkers.views.run_view import RunView, no_sends
from fencepost.checkers.views.wording import FindingText, apart
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import ACKNOWLEDGED, FENCED

_OF_FENCED = (
    UNLESS_PRODUCER,
    UNLESS_TRANSACTIONAL,
    *cut_off("the coordinator may forget who had fenced whom", transactional="true"),
    *COORDINATOR_CUT_OFF,
    Rule(
        FORBIDDEN,
        "a producer is fenced once another one with its transactional id has initialised (KIP-98)",
    ),
)
_FENCINGS = Needs(
    {SENDS, OUTCOMES, *ALL_READS, DECISIONS},
    "who is missing may have fenced others, or have been fenced",
    {SENDS, OUTCOMES},
    "a line that is missing may have initialised the instance anew",
    of_process("sent"),
)
NO_ZOMBIE = "no instance of a transactional id did anything after it had been fenced"


# --------------------------------------------------------------------------------------------------
# What fenced instances did
# --------------------------------------------------------------------------------------------------
@cache
def no_zombies() -> pd.DataFrame:
    """The empty answer of `zombie_records` and `visible_zombies`, where no fenced instance did anything."""
    sends = no_sends()
    numbers = {name: np.empty(0, dtype=np.int64) for name in ("fenced", "fenced_by", "decided", "status")}
    flags = {name: np.empty(0, dtype=np.bool_) for name in ("late", "wrote")}
    return sends.assign(**numbers, **flags)


def zombie_records(run: RunView) -> pd.DataFrame:
    """Records of `fenced_operations`: their columns, and partition, v, offset, began, ended; late: sent after the fencing."""
    operations = run.shared(fenced_operations)
    if operations.empty:
        return no_zombies()
    records = run.sends_of(operations["op"]).merge(operations, on="op")
    return records.assign(late=(records["began"] != NONE) & (records["began"] > records["fenced"]))


def visible_zombies(run: RunView) -> pd.DataFrame:
    """Records of fenced instances that a read_committed reader got, of transactions that did not surely fail, and of which commit
    was called, or the record sent, after the fencing. wrote: of a transaction that shows a record sent after it."""
    records = run.shared(zombie_records)
    if records.empty:
        return no_zombies()
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
    return {"operations": sorted({*finding.operations, *map(int, fenced_by)} - {NONE})}


def _fencing_of(finding: Finding, text: FindingText, before: str) -> str:
    """`process 9 had finished initialising the same transactional id 3.2 ms before its commit was called`."""
    operations = text.run.shared(fenced_operations).set_index("op")
    row = operations.loc[finding.rows[0].op]
    early = apart(finding.time - int(row["fenced"]))
    who, did = _fencer(int(row["fenced_by"]), text), "finished initialising the same"
    return f"{who} had {'fenced the' if row['fenced_by'] == NONE else did} transactional id {early} {before}"


def _fencer(fenced_by: int, text: FindingText) -> str:
    """Words for who fenced an instance: the process of an operation, or an operator."""
    return "an operator" if fenced_by == NONE else text.process(fenced_by)


# --------------------------------------------------------------------------------------------------
# zombie-commit
# --------------------------------------------------------------------------------------------------
def _explain_commit(finding: Finding, text: FindingText) -> str:
    op = finding.rows[0].op
    when = _fencing_of(finding, text, "its commit was called")
    return f"{text.name(op)} {text.outcome(op)}, and its {text.records_at(finding.rows, 'is', 'are')} visible, although {when}."


@run_check(
    "zombie-commit",
    occasions=(Occasion.PRODUCER_FENCED,),
    promise=FENCED,
    rules=_OF_FENCED,
    evidence=_FENCINGS,
    damages=(scheduled("zombie-commit"),),
    explain=_explain_commit,
    detail=_with_fencing,
    across=True,
    needs=NO_ZOMBIE,
)
def zombie_commit(run: RunView) -> CheckResult:
    """A transaction visible at read_committed whose commit was called after another instance of its id had finished initialising.

    The other instance, in another process, began to initialise after this one had initialised. Visible records count, whether
    commit returned ok or nobody knows how it ended. Not a zombie commit:

    1. no record is visible, and commit returned ok: `false-ack`;
    2. a visible record was sent after the fencing: `zombie-write`;
    3. the transaction surely failed: `aborted-read`.

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
    if not any_fenced(run) or (operations := run.shared(fenced_operations)).empty:
        return CheckResult(0, lacking=_lacking(run))
    zombies = run.shared(visible_zombies)
    compared = int((operations["decided"] > operations["fenced"]).sum())
    return CheckResult(compared, _rows(zombies[~zombies["wrote"]], "decided"), _lacking(run))


# --------------------------------------------------------------------------------------------------
# zombie-write
# --------------------------------------------------------------------------------------------------
def _explain_write(finding: Finding, text: FindingText) -> str:
    op = finding.rows[0].op
    when = _fencing_of(finding, text, "the first of them was sent")
    return f"{text.name(op)} {text.outcome(op)}; its {text.records_at(finding.rows, 'is', 'are')} visible, although {when}."


def _included(finding: Finding, text: FindingText) -> dict[str, Any]:
    """Add the anomaly of which the same transaction would be a finding if it had sent its records earlier."""
    committed = text.decided(finding.rows[0].op) != NONE
    return {**_with_fencing(finding, text), **({"includes": ["zombie-commit"]} if committed else {})}


@run_check(
    "zombie-write",
    occasions=(Occasion.PRODUCER_FENCED,),
    promise=FENCED,
    rules=_OF_FENCED,
    evidence=_FENCINGS,
    damages=(scheduled("zombie-write"),),
    explain=_explain_write,
    detail=_included,
    across=True,
    needs=NO_ZOMBIE,
)
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
    if not any_fenced(run) or (records := run.shared(zombie_records)).empty:
        return CheckResult(0, lacking=_lacking(run))
    zombies = run.shared(visible_zombies)
    return CheckResult(int(records["late"].sum()), _rows(zombies[zombies["late"]], "began"), _lacking(run))


# --------------------------------------------------------------------------------------------------
# false-ack
# --------------------------------------------------------------------------------------------------
def _explain_false(finding: Finding, text: FindingText) -> str:
    op, places = finding.rows[0].op, text.places(finding.rows)
    fenced = text.run.shared(fenced_operations).set_index("op")
    how = f"Commit returned ok for {text.name(op, capital=False)}, but nothing of it ({places}) is visible"
    if op in text.run.shared(fenced_commits):
        row = fenced.loc[op]
        early = apart(int(row["decided"]) - int(row["fenced"]))
        return f"{how}: {_fencer(int(row['fenced_by']), text)} had fenced it {early} its commit was called."
    return f"{how}: the log holds it as aborted."


def _sift_false(rows: Rows, run: RunView) -> Sifted:
    """The missing records of the transactions that were never committed."""
    false = np.isin(rows["op"], falsely_acknowledged(rows, run))
    return Sifted(rows_where(rows, false & has_role(rows, "missing")))


@partition_check(
    "false-ack",
    together=True,
    occasions=(Occasion.LEADER_MOVED, Occasion.COORDINATOR_MOVED, Occasion.PRODUCER_FENCED, Occasion.SERVER_STRUCK),
    promise=ACKNOWLEDGED,
    rules=(
        UNLESS_PRODUCER,
        UNLESS_TRANSACTIONAL,
        COMPACTED,
        RETAINED,
        *cut_off("the marker of a committed transaction may be gone"),
        HIDDEN_IN_PART,
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "a commit that returned ok has committed (KIP-98)"),
    ),
    evidence=Needs(
        {SENDS, OUTCOMES, *FINAL, LEVELS},
        "promises that are missing were compared with nothing, and without whole final reads nobody knows what was committed",
        {*FINAL, LEVELS},
        "the final read may have returned in a missing line what seems to be aborted",
    ),
    damages=(DENY,),
    across=True,
    sift=_sift_false,
    explain=_explain_false,
    detail=_with_fencing,
    needs="no commit returned ok of a transaction whose records final readers had to get",
)
def false_ack(log: PartitionLog) -> CheckResult:
    """A transaction whose commit returned ok, and which was never committed: no read_committed reader got any of its records.

    Its records were not lost after a commit, by either of

    1. a complete read_uncommitted final read returned one of them, and a complete read_committed one did not: the log holds it as
       aborted;
    2. another instance of the transactional id had finished initialising before commit was called.

    Without either it is `lost-write`, and so is what the brokers' logs have committed all the same (the markers say so); it is
    never both. A transaction of which some records are visible is `torn-transaction`'s or, after a fencing, `zombie-commit`'s.

    compared: records of transactions whose commit returned ok that were returned, or had to be. One cause: the transaction.

    Example::

        ms   process  operation               t-0                  outcome
        0-1  1        txn                     send a@5             committed
        2-3  1        txn                     send b@7             committed
        4-5  2        txn                     send c@9             committed
        6-7  3        final read              read c@9
        6-7  4        final read uncommitted  read b@7, c@9

    Found: missing b@7. The log holds it, and no read_committed reader gets it; a is lost.

    Slow twin: `false_acks` in tests/support/reference.py.
    """
    judged, returned, lacking = final_witness(log)
    sure = log.commit_returned & judged
    missing = sure & ~returned & ~log.swallowed
    rows = join_rows(send_rows(log, missing, log.sends.op, "missing"), *false_ack_rows(log, missing))
    return CheckResult(int(sure.sum()), rows, lacking)
