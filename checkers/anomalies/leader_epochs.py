"""Leader epochs along the log of each replica: they only grow (KIP-101, KIP-279).

The docstring is the definition of the anomaly. A leader writes its epoch into each batch that it appends, and a replica takes the
batches of its leader as they are; before it goes on behind another leader it cuts off what that one does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import LEADERS
from fencepost.checkers.contract.common_rules import cut_off
from fencepost.checkers.contract.needs import LOGS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.stored_findings import Found, explained_by, finding_rows, judged_by_logs
from fencepost.checkers.pipeline.stored_logs import StoredLogs, StoredRows, stored_logs
from fencepost.checkers.selfcheck.log_damages import EPOCH_BACK
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.promises import ONE_LOG

NO_EPOCHS = "no log has two batches whose leader epochs are known"


@dataclass(frozen=True)
class Batches:
    """Batches in the order of (partition, node, offset).

    first: the row of the first record of each.
    before: for each the position of a batch with the highest leader epoch of those before it in its log (NONE: there is none).
    """

    first: StoredRows
    before: Ints


def batches(run: RunView) -> Batches:
    """The readable batches of all distinct logs of a run that has logs, those of the coordinators' topic included."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    rows = logs.rows.take(~logs.damaged)
    begins = np.ones(len(rows), dtype=np.bool_)
    begins[1:] = (np.diff(rows.first_offset) != 0) | (np.diff(rows.partition) != 0) | (np.diff(rows.node) != 0)
    first = rows.take(begins)
    own = np.arange(len(first))
    chain = np.ones(len(first), dtype=np.bool_)
    chain[1:] = (np.diff(first.partition) != 0) | (np.diff(first.node) != 0)
    chain |= first.leader_epoch < 0  # of an older message format, with which replicas are cut off by high watermarks
    epochs = np.maximum(first.leader_epoch, NONE) + 1
    rising = np.cumsum(chain) * (int(epochs.max(initial=0)) + 1) + epochs
    new = np.ones(len(first), dtype=np.bool_)
    new[1:] = rising[1:] > np.maximum.accumulate(rising)[:-1]
    highest = np.maximum.accumulate(np.where(new, own, 0))
    before = np.full(len(first), NONE, dtype=np.int64)
    before[1:] = np.where(chain[1:], NONE, highest[:-1])
    before[(before != NONE) & (first.leader_epoch[before] < 0)] = NONE
    return Batches(first, before)


def going_back(run: RunView) -> Found:
    """The first rows of batches with a lower leader epoch than one before them in their log, once for all replicas."""
    logs, some = run.shared(stored_logs), run.shared(batches)
    assert isinstance(logs, StoredLogs)
    compared = some.before != NONE
    wrong = np.flatnonzero(compared & (some.first.leader_epoch < some.first.leader_epoch[some.before]))
    rows, higher = some.first.take(wrong), some.first.take(some.before[wrong])
    keys = np.stack([rows.partition, rows.offset, rows.leader_epoch, higher.offset, higher.leader_epoch])
    _, at, alike = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    sentences = []
    for number, one in enumerate(at.tolist()):
        nodes = ", ".join(_nodes(logs, rows.take(alike.reshape(-1) == number)))
        place = f"{logs.partitions[rows.partition[one]]} on {nodes} the batch at offset {rows.offset[one]}"
        sentences.append(
            f"In the log of {place} is of leader epoch {rows.leader_epoch[one]}, "
            f"behind one of leader epoch {higher.leader_epoch[one]} at offset {higher.offset[one]}"
        )
    return Found(int(compared.sum()), rows.take(at), sentences, lacking=NO_EPOCHS)


def _nodes(logs: StoredLogs, rows: StoredRows) -> list[str]:
    """The nodes whose logs are those of some rows, one row of each."""
    places = set(zip(rows.partition.tolist(), rows.node.tolist(), strict=True))
    own = [log.rows for log in logs.logs if log.distinct and (log.partition, log.node) in places]
    return [logs.nodes[log.node] for log in logs.logs if log.rows in own and log.rows.start < log.rows.stop]


@run_check(
    "leader-epoch-regression",
    promise=ONE_LOG,
    rules=(
        *cut_off("a replica may then go on behind a leader without cutting off what that one lacks"),
        Rule(
            FORBIDDEN,
            "each leader of a partition has a higher epoch than the one before, and a replica cuts off what its leader does not "
            "have before it goes on (KIP-101, KIP-279)",
        ),
    ),
    evidence=Needs({LOGS}, "what is missing of the logs may have shown it"),
    occasions=LEADERS,
    damages=(EPOCH_BACK,),
    explain=explained_by(going_back, cause="partition"),
    attribution=Attribution.PARTITION,
    needs=NO_EPOCHS,
)
def leader_epoch_regression(run: RunView) -> CheckResult:
    """In the log of a replica a batch has a lower leader epoch than one before it.

    Such a replica has taken batches of a leader behind others that this leader did not have: by itself, where no other replica
    is left to compare it with. The logs of `__transaction_state` are judged too, and what lies above the high watermark. Batches
    of older message formats have no epoch (-1): replicas that have such are cut off by high watermarks, and what follows begins
    anew. A damaged batch is left out.

    compared: batches that follow another one with an epoch in their log. One cause: the partition.
    """

    def judge(run: RunView, logs: StoredLogs) -> CheckResult:
        found = run.shared(going_back)
        return CheckResult(found.compared, finding_rows(run, logs, found.rows, found.rows.partition), found.lacking)

    return judged_by_logs(run, judge)
