"""Several records at one offset of a partition: logs that diverged (KIP-101).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import LEADERS
from fencepost.checkers.contract.common_rules import ACKED_ALONE, UNLESS_PRODUCER, cut_off
from fencepost.checkers.contract.needs import ALL_READS, ANYBODY, FINAL_COMMITTED, LOST_PLACE, OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import FINAL_READS, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints, distinct, true_positions
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult, join_rows
from fencepost.checkers.model.values import COMMITTED, INFO, NONE
from fencepost.checkers.selfcheck.record_damages import MOVE
from fencepost.checkers.views.final_witness import final_witness
from fencepost.checkers.views.log import PartitionLog, slices
from fencepost.checkers.views.result_rows import first_of_each, read_rows, send_rows
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.versions import stretch_numbers
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.evidence import Gap
from fencepost.harness.api.promises import ONE_LOG
from fencepost.harness.api.words import enumeration


def two_at_one_offset(finding: Finding, reads: pd.DataFrame) -> bool:
    """True if two records of the finding were read at one of its offsets."""
    at = reads[reads["offset"].isin({row.offset for row in finding.rows}) & reads["v"].isin({row.v for row in finding.rows})]
    return bool((at.groupby(["partition", "offset"])["v"].nunique() > 1).any())


def _acknowledged_only(gap: Gap, finding: Finding, contract: Mapping[str, str]) -> bool:
    """True unless two readers got different records at one offset: no lost acknowledgement explains that."""
    read = {(row.offset, row.v) for row in finding.records("read")}
    return len(read) == len({offset for offset, _ in read})


def _explain_inconsistent(finding: Finding, text: FindingText) -> str:
    first = min(row.offset for row in finding.rows)
    last = max(row.offset for row in finding.rows)
    where = f"{finding.rows[0].partition}@{first}"
    writers = sorted({text.writer(record) for record in finding.rows if record.offset == first})
    if last > first:
        count = len({row.offset for row in finding.rows})
        several = enumeration(writers)
        return f"{count} neighbouring offsets from {where} to {last} hold different records each; at {first}: {several}."
    number = "Two" if len(writers) == 2 else str(len(writers))
    return f"{number} different records are at {where}: one is {'; another is '.join(writers)}."


def _resolve_inconsistent(rows: pd.DataFrame, run: RunView) -> pd.DataFrame:
    """Keep, of offsets that nobody read, those of two records that surely are in the log."""
    place = [rows["partition"], rows["offset"]]
    read = rows["role"].eq("read").groupby(place).transform("any")
    sent = rows["op"].to_numpy()
    sure = read | (run.status(sent) == COMMITTED) | ~run.transactional(sent)
    if not sure.all():
        sure |= rows["op"].isin(_proven(rows.loc[~sure & (run.status(sent) == INFO), "op"].unique(), run))
    rows = rows[sure]
    return rows[rows["v"].groupby([rows["partition"], rows["offset"]]).transform("nunique") > 1]


def _proven(ops: Any, run: RunView) -> set[int]:
    """Transactions of which a read_committed reader got some record."""
    if not len(ops):
        return set()
    sent = run.sends_of(ops)
    return set(sent["op"][run.got_at_read_committed(sent)])


@partition_check(
    "inconsistent-offset",
    together=True,
    occasions=LEADERS,
    promise=ONE_LOG,
    attribution=Attribution.EACH_OFFSET,
    rules=(
        UNLESS_PRODUCER,
        *cut_off("its offset is given away again, and who read it before got another record there", FINAL_READS),
        ACKED_ALONE,
        Rule(FORBIDDEN, "an offset names one record for ever (the replication protocol; KIP-101)"),
    ),
    evidence=Needs({SENDS, OUTCOMES, *ALL_READS}, ANYBODY, {FINAL_COMMITTED}, LOST_PLACE, _acknowledged_only),
    shown_by=two_at_one_offset,
    damages=(MOVE,),
    resolve=_resolve_inconsistent,
    explain=_explain_inconsistent,
    needs="no record was read",
)
def inconsistent_offset(log: PartitionLog) -> CheckResult:
    """Two different records at one offset of one partition.

    A record is at an offset by

    1. a read;
    2. an acknowledgement, except that of a lost write, whose offset was given away again, and that of a swallowed one
       (`swallowed-write`). Where there are only acknowledgements, those of transactions that are not known to have committed
       prove nothing.

    compared: offsets with at least one read. One cause: neighbouring offsets, as after a truncation.

    Example::

        ms   process  operation  t-0            outcome
        0-1  1        txn        send a@5       committed
        2-3  1        txn        send b@7       committed
        4-5  2        txn        send c@7       committed
        6-7  3        poll       read a@5, b@7
        8-9  4        poll       read a@5, c@7

    Found: sent b@7, sent c@7, read b@7 and read c@7.

    Slow twin: `inconsistent_offsets` in tests/support/reference.py.
    """
    sends, reads = log.sends, log.reads
    judged, returned, _ = final_witness(log)
    believed = (sends.offset != NONE) & ~(log.promised & judged & ~returned) & ~log.swallowed
    distinct = reads.offset != NONE  # a mask over the reads, which are sorted: the first one of each offset that is known
    distinct[1:] &= reads.offset[1:] != reads.offset[:-1]
    compared = int(distinct.sum())
    disputed = _disputed(log, log.in_place_order(believed))
    if not len(disputed):
        return CheckResult(compared)
    undisputed = np.setdiff1d(np.concatenate([reads.offset[distinct], sends.offset[believed]]), disputed)
    read = np.isin(reads.offset, disputed)
    read[read] &= first_of_each(reads.offset[read], reads.identities(read))
    sent = believed & np.isin(sends.offset, disputed)
    read_cause, sent_cause = (stretch_numbers(disputed, undisputed, records.offset) for records in (reads, sends))
    acknowledged = send_rows(log, sent, sent_cause, "sent")
    acknowledged["offset"] = sends.offset[sent]
    return CheckResult(compared, join_rows(read_rows(log, read, read_cause), acknowledged))


def _disputed(log: PartitionLog, believed: Ints) -> Ints:
    """Offsets at which reads or believed acknowledgements (positions of sends) name different records.

    Both are sorted by offset, so two that share an offset are neighbours, or joined by neighbours that share it. It is enough to
    compare each read with the next one, each acknowledgement with one read at its offset, unless that was read there itself, and
    each acknowledgement with the next.
    """
    reads, sends = log.reads, log.sends
    offset = sends.offset[believed]
    if (offset[1:] < offset[:-1]).any():
        believed = believed[np.argsort(offset, kind="stable")]
        offset = sends.offset[believed]
    disputed = []
    for part in slices(len(reads) - 1):
        before, after = slice(part.start, part.stop), slice(part.start + 1, part.stop + 1)
        same = true_positions((reads.offset[before] == reads.offset[after]) & (reads.offset[before] != NONE))
        same = same[(reads.send[before][same] != reads.send[after][same]) | (reads.send[before][same] < 0)]
        differ = reads.identities(part.start + same) != reads.identities(part.start + same + 1)
        disputed.append(reads.offset[before][same[differ]])
    low, high = log.places_read
    apart = believed[(low[believed] != offset) & (high[believed] != offset)]
    for part in slices(len(apart) if len(reads) else 0):
        at = sends.offset[apart[part]]
        first_read = np.minimum(np.searchsorted(reads.offset, at), len(reads) - 1)  # at this offset, or above it
        differ = (reads.offset[first_read] == at) & (reads.identities(first_read) != sends.v[apart[part]])
        disputed.append(at[differ])
    same = true_positions(offset[1:] == offset[:-1])
    disputed.append(offset[same][sends.v[believed[same]] != sends.v[believed[same + 1]]])
    return np.asarray(distinct(np.concatenate(disputed)))
