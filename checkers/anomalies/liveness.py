"""Liveness: what must happen in the end (KIP-98, KIP-890: no transaction may hang and hide what follows)."""

from __future__ import annotations

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import LEFT_OPEN
from fencepost.checkers.contract.common_rules import cut_off
from fencepost.checkers.contract.needs import SETTLING, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.record_damages import STALL
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.promises import LIVE

ABORT_S = 10.0  # beyond a transaction's timeout, where the history does not say for how long offsets were looked at
CLOCKS = (
    "a last stable offset is below its high watermark, and a coordinator whose clock was ahead, or may have been, "
    "keeps transactions open until true time has reached their timeout by that clock"
)

UNSETTLED = (
    "the read_committed final read of {} ended below the read_uncommitted one, so an open transaction hid what lies between; "
    "nobody looked at the last stable offset, so it may have ended later"
)

CONTRADICTORY = "where the last stable offset of {} stood is not known: what settling says of it contradicts itself"


def _too_early(run: RunView) -> bool:
    """True if a coordinator may still wait, for true time to reach what a clock that was ahead has stamped, and the timeout."""
    if run.clocks is None:
        return True
    over = max((clock.over_ns for clock in run.clocks), default=0)
    bound_s = run.overview.settle_bound_s or run.transaction_timeout_s + ABORT_S
    return bool(over and run.overview.settle_time < over + round(bound_s * 1e9))


def _explain_stall(finding: Finding, text: FindingText) -> str:
    row = finding.rows[0]
    lso, high = text.run.overview.settled[row.partition]
    bound = text.run.overview.settle_bound_s
    waited = f", until {bound:g} s had passed" if bound else ""
    return (
        f"After all faults were healed, the last stable offset of {row.partition} stayed at {lso}, below its high watermark "
        f"{high}{waited}: a hanging transaction hides everything from offset {lso} on from read_committed readers."
    )


@run_check(
    "lso-stall",
    occasions=LEFT_OPEN,
    promise=LIVE,
    attribution=Attribution.PARTITION,
    rules=(
        *cut_off("with the marker of a transaction, which nobody writes again", transactional="true"),
        Rule(FORBIDDEN, "every transaction ends, at the latest by its timeout (KIP-98, KIP-890)"),
    ),
    evidence=Needs({SETTLING}, "nobody knows where the last stable offsets stood after healing"),
    damages=(STALL,),
    explain=_explain_stall,
    needs="nobody looked at last stable offsets (no `settle` operation)",
)
def lso_stall(run: RunView) -> CheckResult:
    """After healing, and after every transaction timeout has passed, a last stable offset is still below the high watermark.

    After a fault that set a broker's clock ahead, timeouts count from when true time has reached what the clock had shown: the
    coordinator stamps the starts of transactions by it. Where the offsets were not looked at for so long, nobody knows.

    compared: partitions whose two offsets are known at the end of settling. One cause: the partition.

    Example::

        ms    process  operation  t-0           outcome
        0-1   1        txn        send a@5      committed
        2-    1        txn        send b@7      unknown
        4-5   2        txn        send c@8      committed
        6-7   3        poll       read a@5
        9-39  harness  settle     LSO 7, HW 10  unknown

    Found: missing t-0@7 and all that follows. The transaction of b hangs.

    Slow twin: `lso_stalls` in tests/support/reference.py.
    """
    settled = run.overview.settled
    hidden = sorted(name for name, final in run.overview.final_reads.items() if final.stalled and name not in settled)
    unknown = UNSETTLED.format(", ".join(hidden)) if hidden else ""
    if contradictory := run.overview.contradictory:
        unknown = CONTRADICTORY.format(", ".join(contradictory))
    stuck = sorted(partition for partition, (lso, high) in settled.items() if lso < high)
    if stuck and _too_early(run):
        return CheckResult(len(settled), unknown=CLOCKS)
    count = len(stuck)
    rows = {
        "partition": np.array(stuck, dtype=object),
        "cause": np.arange(count),
        "op": np.full(count, run.overview.settle_op),
        "v": np.full(count, NONE),
        "offset": np.array([settled[partition][0] for partition in stuck], dtype=np.int64),
        "time": np.full(count, run.overview.settle_time),
        "role": np.full(count, "missing", dtype=object),
    }
    return CheckResult(len(settled), rows, unknown=unknown)
