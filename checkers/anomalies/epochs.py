"""Epochs of producers, as the brokers' logs hold them (`stored.parquet`): they only grow (KIP-98, KIP-360).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.common_rules import COORDINATOR_CUT_OFF, cut_off
from fencepost.checkers.contract.needs import LOGS, OUTCOMES, SENDS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.instances import instances
from fencepost.checkers.pipeline.sent_here import partitions_sent_to, sent_here
from fencepost.checkers.pipeline.stored_logs import stored_logs
from fencepost.checkers.selfcheck.fencing_damages import OVERTAKEN
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api import record_ids
from fencepost.harness.api.occasions import Occasion
from fencepost.harness.api.promises import FENCED
from fencepost.harness.api.stored_kinds import DAMAGED_BATCH

COLUMNS = ("partition", "offset", "producer_id", "producer_epoch", "kind", "v")
NO_LOGS = "what the brokers' logs hold was not kept (no stored.parquet), so nobody knows the producers' epochs"


def stored_epochs(run: RunView) -> pd.DataFrame:
    """Records and markers of idempotent producers (`COLUMNS`; v: NONE where unknown), in log order: of a partition whose replicas
    agree once (node: empty), else those of each.

    op: the history index of the operation that sent the record there, of others NONE: programs and connectors copy records to
        other topics, with their identities. Raises OSError and ArrowException for a damaged table.
    """
    assert run.stored is not None
    run.shared(stored_logs)  # raises for a damaged table
    readable = [("producer_id", ">=", 0), ("kind", "!=", DAMAGED_BATCH)]
    table = pq.read_table(run.stored, columns=["node", *COLUMNS], filters=readable, page_checksum_verification=True)
    rows = _once(table.to_pandas()).sort_values(["partition", "offset", "producer_epoch"], kind="stable")
    rows["v"] = rows["v"].fillna(NONE).astype(np.int64)
    rows["producer_epoch"] = rows["producer_epoch"].astype(np.int64)
    op = np.where(rows["partition"].isin(run.shared(partitions_sent_to)), _operations(run, rows["v"].to_numpy()), NONE)
    return rows.assign(op=op).reset_index(drop=True)


def _once(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all replicas, once for those of a partition whose replicas have the same."""
    distinct = rows.drop_duplicates(list(COLUMNS))
    sizes, whole = rows.groupby(["partition", "node"]).size(), distinct.groupby("partition").size()
    lacking = sizes.index.get_level_values("partition")[sizes.to_numpy() < sizes.index.get_level_values("partition").map(whole)]
    return pd.concat([distinct[~distinct["partition"].isin(lacking)].assign(node=""), rows[rows["partition"].isin(lacking)]])


def _operations(run: RunView, v: Any) -> Any:
    """The history indices of the operations that sent some records."""
    overview = run.overview
    keys = record_ids.operation_key(overview.process.astype(np.int64), overview.op.astype(np.int64) & record_ids.MAX_OP)
    writers = overview.txn | overview.send
    index = pd.Series(overview.index[writers].astype(np.int64), index=keys[writers])
    index = index[~index.index.duplicated()]
    return index.reindex(record_ids.operation_key_of(v)).fillna(NONE).astype(np.int64).to_numpy()


def backwards_in_a_log(rows: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """The number of rows that follow another of their producer id in a log, and those whose epoch is below an earlier one's, once
    for all replicas.
    """
    keys = [rows["partition"], rows["node"], rows["producer_id"]]
    before = rows["producer_epoch"].groupby(keys, sort=False).cummax().groupby(keys, sort=False).shift()
    lower = rows[before.notna() & (rows["producer_epoch"] < before)]
    return int(before.notna().sum()), lower.drop_duplicates(list(COLUMNS))


def backwards_between_instances(run: RunView, rows: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """The number of instances that wrote with the producer id of one that had initialised before they began to, and the first
    record of each whose epoch is not above that one's.
    """
    all_instances, overview = run.shared(instances), run.overview
    known = rows[rows["op"] != NONE]
    op = known["op"].to_numpy()
    own = all_instances.at(overview.process[overview.at(op)], op)
    known = known.assign(instance=own)[own != NONE]
    lowest = known.loc[known.groupby(["producer_id", "instance"])["producer_epoch"].idxmin()]
    highest = known.groupby(["producer_id", "instance"])["producer_epoch"].max()
    compared, wrong = 0, []
    for label, row in lowest.iterrows():
        others = highest.loc[row["producer_id"]]
        earlier = _earlier(all_instances, int(row["instance"]), others.index.to_numpy())
        compared += bool(earlier.any())
        if earlier.any() and others[earlier].max() >= row["producer_epoch"]:
            wrong.append(label)
    return compared, lowest.loc[wrong]


def _earlier(all_instances: Any, instance: int, others: Any) -> Any:
    """True for each other instance of the same transactional id that had initialised before this one began to."""
    same = (all_instances.ident[others] == all_instances.ident[instance]) & (all_instances.ready[others] != NONE)
    return same & (others != instance) & (all_instances.ready[others] <= all_instances.began[instance])


def _explain(finding: Finding, text: FindingText) -> str:
    """Words for the first place; of a marker, and of a record that this run did not send, nobody is named who wrote it."""
    rows, first = text.run.shared(stored_epochs), finding.rows[0]
    log = rows[(rows["partition"] == first.partition) & (rows["offset"] <= first.offset)]
    lower = pd.concat([backwards_in_a_log(log)[1], log])  # of several replicas one in which it lies behind a higher epoch
    here = lower[(lower["offset"] == first.offset) & (lower["v"] == first.v)].iloc[0]
    own = log[(log["producer_id"] == here["producer_id"]) & (log["node"] == here["node"]) & (log["offset"] < first.offset)]
    highest = own.loc[own["producer_epoch"].idxmax()] if len(own) else here
    epoch = f"epoch {here['producer_epoch']} of producer id {here['producer_id']}{text.first_of(finding.rows, 'places')}"
    if here["op"] == NONE:
        what = "a record" if here["kind"] == "record" else f"the {here['kind']} marker"
        wrote = f"In the log of {first.partition} {what} at offset {first.offset} has {epoch}"
    else:
        wrote = f"{text.name(first.op)} wrote {first.place} with {epoch}"
    if highest["producer_epoch"] > here["producer_epoch"]:
        return f"{wrote}, after epoch {highest['producer_epoch']} at offset {highest['offset']}."
    return f"{wrote}, which is not above that of an instance of its transactional id that had initialised before."


@run_check(
    "epoch-regression",
    occasions=(Occasion.PRODUCER_FENCED, Occasion.COORDINATOR_MOVED),
    promise=FENCED,
    rules=(
        *cut_off("the coordinator may forget epochs that it gave", transactional="true"),
        *COORDINATOR_CUT_OFF,
        Rule(FORBIDDEN, "a producer id's epoch only grows, and a leader refuses what is older (KIP-98, KIP-360)"),
    ),
    evidence=Needs(
        {SENDS, LOGS},
        "who is missing may have been the instance before, or what is missing of the logs may have shown it",
        {SENDS, OUTCOMES},
        "a line that is missing may have initialised the instance anew",
    ),
    damages=(OVERTAKEN,),
    explain=_explain,
    gather=sent_here,
    across=True,
    needs="no producer id has two records in a log, or two instances",
)
def epoch_regression(run: RunView) -> CheckResult:
    """The epoch of a producer id goes back.

    1. In the log of a partition, a record or marker has a lower epoch than an earlier one of the same producer id.
    2. An instance of a transactional id writes with an epoch that is not above those of an instance with the same producer id
       that had initialised before.

    Clients do not say their epochs: the log segments do, which are read at the end of a run (`stored.parquet`). Where the cluster
    shows none, it is not exercised. Another producer id begins anew.

    compared: rows of a log that follow one of the same producer id, and instances that follow another one with the same
    producer id. One cause: the producer id.
    """
    if run.stored is None or not os.path.lexists(run.stored):
        return CheckResult(0, lacking=NO_LOGS)
    try:
        rows = run.shared(stored_epochs)
    except (OSError, pa.ArrowException) as error:
        return CheckResult(0, unknown=f"{run.stored.name} could not be read ({error})")
    in_logs, lower = backwards_in_a_log(rows)
    of_instances, not_above = backwards_between_instances(run, rows)
    wrong = pd.concat([lower, not_above]).drop_duplicates()
    overview = run.overview
    wrong = wrong.assign(op=wrong["op"].where(wrong["op"] != NONE, _nearest(rows, wrong, int(overview.index[-1]))))
    time = overview.time[overview.at(wrong["op"].to_numpy())] if len(wrong) else np.empty(0, dtype=np.int64)
    columns = {name: wrong[name].to_numpy() for name in ("op", "v", "offset", "partition")}
    made = {**columns, "cause": wrong["producer_id"].to_numpy(), "time": time, "role": np.full(len(wrong), "sent", dtype=object)}
    return CheckResult(in_logs + of_instances, made)


def _nearest(rows: pd.DataFrame, wrong: pd.DataFrame, last: int) -> pd.Series:
    """The operation for markers, and records without identity: the last one known to have written with the same producer id
    before, in the same log; else any one of that producer id; else the run's last one, for logs are read after it.
    """
    known = rows["op"].where(rows["op"] != NONE)
    near = known.groupby([rows["partition"], rows["producer_id"]]).ffill()
    near = near.fillna(known.groupby(rows["producer_id"]).transform("first")).fillna(last)
    return near.loc[wrong.index].astype(np.int64)
