"""Records that the broker acknowledged as if they were older ones (KIP-98: the broker answers a retry with the first offset).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.common_occasions import SENDING
from fencepost.checkers.contract.common_rules import UNLESS_PRODUCER, cut_off
from fencepost.checkers.contract.needs import ALL_READS, ANYBODY, OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.record_damages import SWALLOW
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import ACKNOWLEDGED
from fencepost.harness.api.words import and_more


def _explain_swallowed(finding: Finding, text: FindingText) -> str:
    op, siblings = finding.records("missing")[0].op, _siblings(finding)
    elsewhere = f", and its {text.records_at(siblings, 'was', 'were')} read" if siblings else ""
    return f"{text.name(op)} {text.outcome(op)}{elsewhere}, but {_nowhere(finding, text)}."


def _nowhere(finding: Finding, text: FindingText) -> str:
    missing, holding = finding.records("missing"), finding.records("sent")
    older, places = text.writer(holding[0]), text.places(missing)
    if len(missing) > 1:
        held = f"which hold older records of the same producer ({older}{and_more(len(holding) - 1)})"
        return f"{len(missing)} of its records are nowhere: they were acknowledged at {places}, {held}"
    fate = " and surely aborted" if text.aborted(holding[0].op) else ""
    record = f"the record it wrote to {missing[0].partition} is nowhere"
    return f"{record}: it was acknowledged at {places}, which holds {older}, sent before it{fate}"


def _siblings(finding: Finding) -> list[FindingRecord]:
    """Other records of the same transaction that were read at read_committed."""
    writers = {row.op for row in finding.records("missing")}
    return [row for row in finding.records("read") if row.op in writers]


def _included(finding: Finding, text: FindingText) -> dict[str, Any]:
    """The anomalies of which the same record would be a finding if its cause were not known."""
    op = finding.records("missing")[0].op
    if _siblings(finding):
        return {"includes": ["lost-write", "torn-transaction"]}
    return {"includes": ["lost-write" if text.promised(op) else "inconsistent-offset"]}


def _resolve_swallowed(rows: pd.DataFrame, run: RunView) -> pd.DataFrame:
    """Add the other records of the same transactions that a read_committed reader got: of these, the transaction is torn."""
    swallowed = rows[rows["role"] == "missing"]
    sends = run.sends_of(swallowed["op"].unique())
    sends = sends[run.transactional(sends["op"].to_numpy()) & ~sends["v"].isin(swallowed["v"])]
    shown = sends[run.got_at_read_committed(sends)]
    return pd.concat([rows, shown.assign(cause=shown["op"], time=shown["ended"], role="read")[rows.columns]], ignore_index=True)


@partition_check(
    "swallowed-write",
    together=True,
    occasions=SENDING,
    promise=ACKNOWLEDGED,
    rules=(
        UNLESS_PRODUCER,
        *cut_off("a record may be gone, and its offset hold an older one that another leader had kept"),
        Rule(
            ALLOWED,
            "with acks=0 or 1 a leader acknowledges alone, and the next one may give the offset to a retry of an older record",
            {"acks": "!all"},
        ),
        Rule(
            FORBIDDEN,
            "what is acknowledged lies where its acknowledgement says; a broker gives one answer twice only to a retry (KIP-98)",
        ),
    ),
    evidence=Needs({SENDS, OUTCOMES, *ALL_READS}, ANYBODY),
    damages=(SWALLOW,),
    across=True,
    resolve=_resolve_swallowed,
    explain=_explain_swallowed,
    detail=_included,
    needs="no offset at which a record was acknowledged was read",
)
def swallowed_write(log: PartitionLog) -> CheckResult:
    """A record that nobody got, acknowledged at an offset that holds another record, which the same producer had sent before.

    A broker answers a retry with the offset of the record that it has already. It took this record for a retry of the older one,
    which had the same sequence numbers, and appended nothing (KIP-98). The acknowledgement is wrong whatever the outcome of the
    operation.

    Not swallowed:

    1. a record whose offset holds one that was sent *later*: it was lost, and its offset given away again (`lost-write`);
    2. two records at one offset that have different producers, or that both were read (`inconsistent-offset`).

    A swallowed record has no place in the version order. It is not reported again as `lost-write`, as the missing part of a
    `torn-transaction`, or as one of two records of an `inconsistent-offset`; `includes` names which of these it would be.

    compared: acknowledged records that somebody got, and swallowed ones. One cause: the operation that sent the record.

    Example::

        ms   process  operation               t-0            t-1       outcome
        0-1  1        txn                     send a         -         aborted
        2-3  1        txn                     send b@5       send c@3  committed
        4-5  2        txn                     send d@9       -         committed
        6-7  3        final read              read d@9       read c@3
        6-7  4        final read uncommitted  read a@5, d@9  read c@3

    Found: missing b@5, sent a@5 and read a@5; and of the same transaction read c@3.

    Slow twin: `swallowed_writes` in tests/support/reference.py.
    """
    sends, reads, (swallowed, read) = log.sends, log.reads, log.swallows
    compared = int(((sends.offset != NONE) & log.seen).sum()) + len(swallowed)
    if not len(swallowed):
        return CheckResult(compared)
    older, op = reads.send[read], sends.op[swallowed]
    missing = {"cause": op, "op": op, "v": sends.v[swallowed], "offset": sends.offset[swallowed], "time": sends.ended[swallowed]}
    other = {"cause": op, "op": sends.op[older], "v": sends.v[older], "offset": reads.offset[read], "time": sends.began[older]}
    witness = {**other, "op": reads.op[read], "time": reads.ended[read]}
    roles = (("missing", missing), ("sent", other), ("read", witness))
    return CheckResult(compared, join_rows(*(rows | {"role": np.full(len(op), role, dtype=object)} for role, rows in roles)))
