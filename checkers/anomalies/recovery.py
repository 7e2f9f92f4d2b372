"""Clients that do not come back: none of their operations succeeds any more, although every fault was healed.

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.needs import OUTCOMES, POLLS, SENDS, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import RECOVERING
from fencepost.harness.api.recovery import WITHOUT_ANSWER
from fencepost.harness.api.words import plural

ROLES = ("writer", "member", "reader")
COLUMNS = ("index", "process", "slot", "role", "f", "type", "time", "end")
AT_ONCE = 50  # polls of a reader that are looked through together


@dataclass(frozen=True)
class Window:
    """The time in which a client has to succeed, in CLOCK_MONOTONIC ns.

    healed: when the last fault was healed.
    grace: from then on, no operation that begins waits for a broker's start, a connection or a group any more.
    until: the bound.
    over: when the last operation of the main phase ended.
    """

    healed: int
    grace: int
    until: int
    over: int


@dataclass(frozen=True)
class Judged:
    """The clients that were judged.

    compared: how many there were.
    lost: slot -> the last operation (history index) that began in the window, of those that did not succeed in it.
    """

    compared: int = 0
    lost: dict[int, int] = field(default_factory=dict)


def window(run: RunView) -> Window | str:
    """The window of a run; a text: the reason why there is none."""
    if run.recovery is None:
        return "its plan has no bound within which clients succeed again"
    if not run.faults:
        return "nobody knows when faults were healed" if run.faults is None else "no fault was healed"
    healed = [until for _, until in run.faults]
    if not all(healed):
        return "a fault was not healed"
    if run.overview.contradictory:
        return "what is said of last stable offsets contradicts itself, and a client may wait for a transaction to end"
    if any(lso < high for lso, high in run.overview.settled.values()):
        return "a last stable offset stayed behind (lso-stall), and a client may wait for that transaction to end"
    main = run.overview.main
    over = int(max(run.overview.end[main].max(initial=NONE), run.overview.time[main].max(initial=NONE)))
    last = max(int(each) for each in healed if each)
    grace, bound = (round(run.recovery[name] * 1e9) for name in ("grace_s", "bound_s"))
    return Window(last, last + grace, last + bound, over)


def judged(run: RunView) -> Judged | str:
    """The clients that had to succeed again; a text: the reason why none could be judged."""
    times = window(run)
    if isinstance(times, str):
        return times
    after = (ds.field("end").is_null() | (ds.field("end") > times.healed)) & (ds.field("time") <= times.until)
    table = run.history.select(COLUMNS, after & ds.field("role").isin(ROLES))
    ended = pc.fill_null(table["end"], FOREVER)
    ops = table.set_column(table.column_names.index("end"), "end", ended).to_pandas().sort_values("index")
    later = run.history.select(("slot", "role", "time"), (ds.field("time") > times.until) & ds.field("role").isin(ROLES))
    at_work = set(later["slot"].unique().to_pylist()) | set(ops["slot"][ops["end"] >= times.until])
    compared, lost = 0, dict[int, int]()
    for slot, own in ops.groupby("slot"):
        last = _lost(run, own, times, slot in at_work and times.over >= times.until)
        if last not in (None, NONE) and _never_worked(run, int(slot)):
            last = None
        compared += last is not None
        if last is not None and last != NONE:
            lost[int(slot)] = last
    return Judged(compared, lost) if compared else "no client was at work for long enough after healing"


def tried(run: RunView, slot: int) -> str:
    """The number of operations that a client began after the last healing, in words."""
    times = window(run)
    healed = times.healed if isinstance(times, Window) else NONE
    began = (ds.field("time") > healed) & (ds.field("slot") == slot)
    return plural(run.history.select(("time", "slot"), began).num_rows, "operation")


def _lost(run: RunView, own: pd.DataFrame, times: Window, at_work: bool) -> int | None:
    """The last operation of a client that did not succeed in time; NONE: it did; None: nobody can say.

    at_work: whether it still was when the bound had passed.
    """
    ended_ok = own[(own["type"] == "ok") & (own["end"] <= times.until)]
    reads = ended_ok["f"].isin(WITHOUT_ANSWER)
    if not reads.all() or any(_partitions(run, ended_ok["index"][reads].to_numpy())):
        return NONE
    if not at_work:
        return None
    failing = (own["type"] != "ok") & ((own["time"] >= times.grace) | (own["end"] >= times.until))
    if failing.any() or (own["role"].iloc[0] == "reader" and _missed(run, own, times)):
        return int(own["index"].iloc[-1])
    return None


def _never_worked(run: RunView, slot: int) -> bool:
    """True if a client had failed before there was any fault, and never succeeded: then faults have not broken it."""
    first = min((since for since, _ in run.faults or ()), default=NONE)
    table = run.history.select(("slot", "type", "end", "role"), (ds.field("slot") == slot) & ds.field("role").isin(ROLES))
    failed = pc.and_(pc.not_equal(table["type"], "ok"), pc.less(pc.fill_null(table["end"], FOREVER), first))
    return bool(pc.any(failed).as_py()) and not pc.any(pc.equal(table["type"], "ok")).as_py()


def _partitions(run: RunView, ops: Ints, latest: bool = False) -> Iterator[str]:
    """Partitions of which operations got records, a few operations at a time."""
    ops = ops[::-1] if latest else ops
    lists = ("mops", "outputs") if run.history.has("outputs") else ("mops",)
    for start in range(0, len(ops), AT_ONCE):
        for batch in run.history.operations(ops[start : start + AT_ONCE], ("index", *lists)):
            for name in lists:
                rows = batch.column(name).flatten()
                polled = rows.filter(pc.equal(rows.field("kind"), 1)) if name == "mops" else rows
                yield from pc.unique(pc.cast(polled.field("partition"), pa.string())).to_pylist()


def _missed(run: RunView, own: pd.DataFrame, times: Window) -> bool:
    """True if records that others got were committed after healing in a partition that a reader had read before, so early that no
    transaction can have hidden them until the bound.
    """
    overview = run.overview
    earlier = np.isin(overview.process, own["process"].unique()) & (overview.time < times.healed)
    read = next(_partitions(run, overview.index[earlier], latest=True), None)
    if read is None:
        return False
    written = overview.ok & overview.writer & (overview.time > times.healed) & (overview.end <= times.grace)
    sends = run.sends_of(overview.index[written])
    return bool(run.got_at_read_committed(sends[sends["partition"] == read]).any())


def _explain(finding: Finding, text: FindingText) -> str:
    run, op = text.run, finding.rows[0].op
    columns = ("index", "slot", "role", "errors")
    row = next(row for batch in run.history.operations(np.array([op]), columns) for row in batch.to_pylist())
    bound_s = run.recovery["bound_s"] if run.recovery else 0.0
    errors = [error for error in row["errors"] or () if error["name"]]
    last = f" Its last operation raised {errors[-1]['name']} in {errors[-1]['call']}." if errors else ""
    got = "got a record" if row["role"] == "reader" else "succeeded"
    return (
        f"No operation of the {row['role']} c{row['slot']} ({text.process(op)}) {got} within {bound_s:g} s after the last fault "
        f"was healed, although {tried(run, row['slot'])} began after it; by its own timeouts, none of its requests waits so long."
        f"{last}"
    )


@run_check(
    "no-recovery",
    occasions=(Occasion.SERVER_STRUCK, Occasion.CLIENT_STRUCK),
    promise=RECOVERING,
    attribution=Attribution.PARTITION,
    rules=(
        Rule(
            ALLOWED,
            "a client may have to be made anew when a topic is deleted and created again",
            {"topic_deletions": "has:records"},
        ),
        Rule(
            FORBIDDEN,
            "retries and reconnections are bounded by a client's timeouts, and end when the cluster is whole (KIP-91, KIP-360)",
        ),
    ),
    evidence=Needs(
        {OUTCOMES, POLLS},
        "a client that is missing may not have come back",
        {SENDS, OUTCOMES, POLLS},
        "a line that is missing may be of its success",
    ),
    undamaged="receipts and plan decide, and damages are done to operations",
    explain=_explain,
    needs="no client was at work for long enough after the last fault was healed",
)
def no_recovery(run: RunView) -> CheckResult:
    """A client of which no operation succeeds any more after the last fault was healed, within a bound by its own timeouts.

    The bound is in the plan (`recovery`): time for a broker to start, the client's request timeout and back-off of reconnecting,
    a member's session timeout, and the time that one operation may take. A client has succeeded

    1. with an operation that ended ok and that a broker must have answered: a transaction, a send, an `initialise`;
    2. if it only reads: with a record that it got.

    A client that failed is accused if it was still at work when the bound had passed, with an operation that began so late that
    it had nothing of the fault to wait for any more. One that got no record is accused if it had read that partition before, and
    others got records that were committed there after healing. Where a last stable offset stayed behind, nobody is accused; nor
    is a client that had failed before the first fault, and never succeeded.

    compared: clients that succeeded again, or had the time to. One cause: the client.

    Example, with a bound of 140 s, of which 100 s are for the cluster and its connections::

        ms             process  operation  t-0       outcome
        0-1            0        send       send a@5  committed
        90-91          harness  settle
        141000-141001  0        send       send b    unknown
        141002-141003  0        send       send c    unknown

    Found, where the last fault was healed at 2 ms: missing, process 0.

    Slow twin: `lost_clients` in tests/checkers/anomalies/test_recovery.py.
    """
    answer = judged(run)
    if isinstance(answer, str):
        return CheckResult(0, lacking=answer)
    return CheckResult(answer.compared, _rows(run, answer.lost))


def _rows(run: RunView, lost: dict[int, int]) -> dict[str, Any]:
    if not lost:
        return {}
    slots: Sequence[int] = sorted(lost)
    count, nothing = len(slots), np.full(len(slots), NONE)
    ops = np.array([lost[slot] for slot in slots], dtype=np.int64)
    return {
        "partition": np.full(count, "", dtype=object),
        "cause": np.array(slots, dtype=np.int64),
        "op": ops,
        "v": nothing,
        "offset": nothing,
        "time": run.overview.time[run.overview.at(ops)],
        "role": np.full(count, "missing", dtype=object),
    }
