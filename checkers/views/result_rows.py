"""Small helpers with which partition checks turn a mask into rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints, true_positions
from fencepost.checkers.model.results import ROW_NUMBERS, CheckResult, join_rows
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.log import PartitionLog

_NO_ROWS = {name: np.empty(0, dtype=np.int64) for name in ROW_NUMBERS} | {"role": np.empty(0, dtype=object)}


def send_rows(log: PartitionLog, which: Bools, cause: Ints, role: str, time: Ints | None = None) -> dict[str, Any]:
    """Rows for some sends; `cause` has one entry per send of the log, and so has `time`, if it is not when they ended."""
    at, sends = true_positions(which), log.sends
    if not len(at):
        return dict(_NO_ROWS)
    time = sends.ended if time is None else time
    time = np.where(time[at] != NONE, time[at], sends.began[at])
    rows = {"cause": cause[at], "op": sends.op[at], "v": sends.v[at], "offset": log.place[at], "time": time}
    return {**rows, "role": np.full(len(time), role, dtype=object)}


def read_rows(log: PartitionLog, which: Bools, cause: Ints) -> dict[str, Any]:
    """Rows for some reads; `cause` has one entry per read of the log."""
    reads = log.reads
    at = true_positions(which)
    rows = {
        "cause": cause[at],
        "op": reads.op[at],
        "v": reads.identities(at),
        "offset": reads.offset[at],
        "time": reads.ended[at],
    }
    return {**rows, "role": np.full(len(at), "read", dtype=object)}


def reads_with_writers(
    log: PartitionLog, which: Bools, compared: int, lacking: str = "", time: Ints | None = None
) -> CheckResult:
    """Suspicious reads and the sends they returned, one cause per writing operation. time: as of `send_rows`."""
    if not which.any():
        return CheckResult(compared, lacking=lacking)
    writer = log.sends.op[log.reads.send]  # the reads in `which` all have a send
    sent = np.zeros(len(log.sends), dtype=np.bool_)
    sent[log.reads.send[which]] = True
    rows = join_rows(read_rows(log, which, writer), send_rows(log, sent, log.sends.op, "sent", time))
    return CheckResult(compared, rows, lacking)


def pair_rows(log: PartitionLog, which: Ints, cause: Ints) -> dict[str, Any]:
    """Rows of sends by position, each with the send that is its cause; the time is when that one was called."""
    sends = log.sends
    rows = {"cause": cause, "op": sends.op[which], "v": sends.v[which], "offset": log.place[which], "time": sends.began[cause]}
    return {**rows, "role": np.full(len(which), "sent", dtype=object)}


def first_of_each(*keys: Ints | Any) -> Bools:
    """The first row of every distinct combination of keys."""
    first = np.zeros(len(keys[0]), dtype=np.bool_)
    first[np.unique(np.stack(keys), axis=1, return_index=True)[1]] = True
    return first
