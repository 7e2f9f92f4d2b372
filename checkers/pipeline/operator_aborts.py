"""Findings of pipelines and programs that no abort of an operator on a partition explains (KIP-664).

Such an abort hides what a transaction wrote to one partition, although its coordinator commits it. The records stay in the log,
where read_uncommitted gets them: what the complete read_uncommitted final read lacks, no operator has hidden. It commits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import ABORTED, FOREVER, NONE
from fencepost.checkers.pipeline.applications import Application, has_application, stage_that_reads, stages_of
from fencepost.checkers.pipeline.chains import Pipeline
from fencepost.checkers.pipeline.stores import StateStores, has_stores
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import Isolation, record_ids
from fencepost.harness.api.evidence import Evidence

OFFSETS = "__consumer_offsets-"  # how the names of its partitions begin


def _aborted_offsets(run: RunView) -> list[int] | None:
    """When faults aborted transactions on partitions of Kafka's offsets topic (ns); None: nobody knows."""
    if run.operator_aborts is None:
        return None
    return [when for partition, when in run.operator_aborts if partition.startswith(OFFSETS)]


def aborted_inside(run: RunView) -> bool:
    """True if a fault aborted a transaction on a partition of a program's own that nobody else reads (a repartition topic): of
    what it loses there it makes nothing.
    """
    known = set(run.shared(StateStores).logs) if has_stores(run) else set()
    for program in stages_of(run):
        known |= {*program.written, *program.inputs["partition"], *program.outputs.declared.get("inputs", ())}
    return any(name not in known and not name.startswith(OFFSETS) for name, _ in run.operator_aborts or ())


def _witnessed(run: RunView) -> set[str]:
    """Partitions with a complete read_uncommitted final read of which nothing is missing: what it lacks is not in the log."""
    if run.missing & {Evidence.FINAL_UNCOMMITTED, Evidence.LEVELS}:
        return set()
    return {name for name, final in run.overview.final_reads.items() if final.uncommitted}


# --------------------------------------------------------------------------------------------------
# Pipelines of ours
# --------------------------------------------------------------------------------------------------
def _hidden_outputs(run: RunView, ops: Sequence[int]) -> pd.DataFrame:
    """What some operations were to make and nobody got at read_committed: `op`, `v` of the input (NONE: of none), and whether it
    is surely `gone` from the log. Of operations that surely aborted nothing: all of it is hidden by right.
    """
    records = run.shared(Pipeline).records
    own = records[records["op"].isin(ops) & (records["status"] != ABORTED) & (records["output"] != NONE) & ~records["visible"]]
    sends = run.sends_of(own["op"].unique())[["v", "partition"]].rename(columns={"v": "output", "partition": "written"})
    outputs = own.merge(sends, on="output", how="left")
    where = outputs[["written", "output"]].rename(columns={"written": "partition", "output": "v"})
    there = run.got_at(where, Isolation.UNCOMMITTED) | run.got_at(where, Isolation.COMMITTED)
    return outputs.assign(gone=outputs["written"].isin(_witnessed(run)).to_numpy() & ~there)


def unprocessed_beyond(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding of `unprocessed` with an input of which no attempt that may have committed has all outputs that are
    not visible in the log; of a program, with one that has fewer outputs in the log than are demanded, whatever became of them.
    """
    if has_application(run):
        return [_outputs_gone(finding, run) for finding in findings]
    outputs = _hidden_outputs(run, [row.op for finding in findings for row in finding.records("read")])
    hidden = ~outputs.groupby(["op", "v"])["gone"].any()
    explained = set(hidden.index.get_level_values("v")[hidden.to_numpy()])
    return [any(row.v not in explained for row in finding.records("missing")) for finding in findings]


def torn_offset_beyond(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding of `torn-offset` about an offset of a transaction that its client surely aborted, or of which an
    output is gone from the log. That committed offsets are gone is what an abort on the group's own partition explains.
    """
    ops = [[row.op for row in finding.records("sent")] for finding in findings]
    outputs = _hidden_outputs(run, [op for some in ops for op in some])
    gone = set(outputs.loc[outputs["gone"], "op"])
    beyond = [{op for op in some if op in gone or run.status(np.array([op]))[0] == ABORTED} for some in ops]
    return [bool(some) and not finding.records("missing") for some, finding in zip(beyond, findings, strict=True)]


def reprocessed_beyond(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding of `reprocessed`, unless the offset of each transaction before the last may have been taken back on
    the group's own partition; of a program, unless a fault aborted any there, or nobody knows.
    """
    if has_application(run):
        return [_aborted_offsets(run) == []] * len(findings)
    shown = run.shared(Pipeline).records
    makers = shown[shown["visible"]].drop_duplicates(["op", "v"]).sort_values("op").groupby("v")["op"].agg(list)
    inputs = [finding.records("read") for finding in findings]
    return [
        not all(_taken_back(run, row.partition, row.offset + 1, *pair) for row in rows for pair in pairwise(makers[row.v]))
        for rows in inputs
    ]


def regression_beyond(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding of `offset-regression`, unless the earlier transaction's offset may have been taken back there."""
    pairs = [(finding.records("read")[0], finding.records("sent")[0]) for finding in findings]
    return [not _taken_back(run, earlier.partition, earlier.offset, earlier.op, later.op) for earlier, later in pairs]


def _taken_back(run: RunView, partition: str, offset: int, earlier: int, later: int) -> bool:
    """True if an operator may have aborted the offset that an earlier operation committed, before a later one went on.

    A fault did while that was under way, or nobody knows what faults did; or the later one's process was told a lower offset, or
    none, after the earlier one had ended.
    """
    overview = run.overview
    at = overview.at(np.array([earlier, later]))
    began, (ended, until) = overview.time[at[0]], np.where(overview.end[at] == NONE, FOREVER, overview.end[at])
    aborts = _aborted_offsets(run)
    if aborts is None or any(began <= when <= ended for when in aborts):
        return True
    looks = run.shared(Pipeline).looks
    told = (looks["partition"] == partition) & (looks["offset"] < offset) & (looks["began"] >= ended) & (looks["ended"] <= until)
    return bool((told & (overview.process[overview.at(looks["op"].to_numpy())] == overview.process[at[1]])).any())


# --------------------------------------------------------------------------------------------------
# Programs
# --------------------------------------------------------------------------------------------------
def _all_outputs(run: RunView) -> pd.DataFrame:
    """What any reader got of outputs of programs, at any level, each place once: `partition`, `offset`, `v` (NONE: no input)."""
    parts = [pd.DataFrame({"partition": [], "offset": [], "v": []})]
    for batch in run.history.batches(("index", "outputs"))[1]:
        lists = batch.column("outputs")
        rows = dict(zip((field.name for field in lists.type.value_type), lists.flatten().flatten(), strict=True))
        parts.append(pa.table({name: rows[name] for name in ("partition", "offset", "v")}).to_pandas())
    table = pd.concat(parts[1:] or parts)
    return table.assign(v=table["v"].fillna(NONE).astype(np.int64)).drop_duplicates(["partition", "offset"])


def _outputs_gone(finding: Finding, run: RunView) -> bool:
    """True if the log has fewer outputs than are demanded of an input. A store is no log, in which an operator hides anything."""
    inputs = finding.records("missing")
    program = stage_that_reads(run, inputs[0].partition)
    if run.shared(aborted_inside):
        return False
    if program.store:
        return True
    if not program.written <= _witnessed(run):
        return False
    outputs = run.shared(_all_outputs)
    count = outputs.loc[outputs["partition"].isin(program.written), "v"].value_counts()
    return any(count.get(row.v, 0) < program.demanded.get(row.v, program.fewest) for row in inputs)


def torn_state_beyond(findings: Sequence[Finding], run: RunView) -> list[bool]:
    """True for each finding of `torn-state` in which the state has more inputs than the outputs say, and no output in the log
    says a count in between. That it has lost some is what an abort on its changelog explains.
    """
    program = run.shared(Application)
    outputs = outputs_in_log(run, program)
    if outputs is None or run.shared(aborted_inside):
        return [False] * len(findings)
    counts = pd.MultiIndex.from_frame(outputs[["partition", "offset"]]).map(program.count_at.get)
    by_key = outputs.assign(count=counts).groupby("key")["count"].agg(set)
    return [_counts_gone(finding, program, by_key) for finding in findings]


def outputs_in_log(run: RunView, program: Application) -> pd.DataFrame | None:
    """The outputs of a program in its log, hidden ones too, each once: `partition`, `offset`, `v`, and `key`, the writer of its
    input and the number of its key. None where the log was not read at read_uncommitted as a whole.
    """
    if not program.written <= _witnessed(run):
        return None
    outputs = run.shared(_all_outputs)
    outputs = outputs[outputs["partition"].isin(program.written) & (outputs["v"] != NONE)]
    return outputs.assign(key=_keys(program, outputs["v"].to_numpy()))


def _keys(program: Application, v: np.ndarray) -> list[tuple[int, int]]:
    """The writer of each input, and the number of its key; those of two partitions are one here, so that more is explained."""
    number = record_ids.key_number_of(v, int(program.outputs.declared.get("keys", 1)))
    return list(zip(record_ids.process_of(v).tolist(), number.tolist(), strict=True))


def _counts_gone(finding: Finding, program: Application, by_key: pd.Series) -> bool:
    rows = finding.records("read")
    counts = sorted(program.count_at[row.partition, row.offset] for row in rows)
    between = range(1 if len(counts) == 1 else counts[0] + 1, counts[-1])
    key = _keys(program, np.array([rows[0].v]))[0]
    return bool(between) and not by_key.get(key, set()) & set(between)
