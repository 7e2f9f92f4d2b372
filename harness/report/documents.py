"""Reading what lies in a run's directory. Nothing here judges or words anything."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import regular
from fencepost.harness.api.contract_layers import overlaid_contract, planned_contract
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.history import OPERATIONS, STORED, VALUES, demand_columns
from fencepost.harness.api.run import Plan, Problem, Run, RunFile
from fencepost.harness.history.run_directory import described
from fencepost.harness.history.transaction_protocol import spoken
from fencepost.harness.memory.remembered import Remembered
from fencepost.harness.report.beside import FilesBeside, files_beside
from fencepost.harness.system.array_files import ArrayFiles, Growing

Doc = Mapping[str, Any]
Ints = npt.NDArray[np.int64]
NEVER = -1
LIGHT = ("index", "process", "slot", "op", "node", "role", "f", "type", "intent", "final", "time", "end")
SHOWN = (*LIGHT, "mops", "errors")
_WORDS = ("f", "type", "intent", "node", "role")
_HEAVY_ROWS = 8_192  # whole operations that are decoded at once: their records may be many
_SLICE, _ALL = 1 << 20, slice(None)
MOST_PERMITTED = 5


@dataclass(frozen=True)
class Words:
    """A column of few different words: a number for each operation, and what the numbers mean."""

    codes: npt.NDArray[np.int16]
    names: npt.NDArray[np.str_]

    def __getitem__(self, positions: Any) -> Any:
        """The words themselves at one position or at several."""
        return self.names[self.codes[positions]]

    def among(self, *words: str, part: slice = _ALL) -> npt.NDArray[np.bool_]:
        """A mask of the operations, or of some of them, that have any of these words."""
        return np.asarray(np.isin(self.names, words)[self.codes[part]])


@dataclass(frozen=True, kw_only=True)
class Ops:
    """The history's light columns, equally long and in order of time (ns); `rows` fetches whole operations."""

    path: Path
    index: Ints
    process: Ints
    slot: Ints
    op: Ints
    time: Ints
    end: Ints  # NEVER when the operation has no completion
    final: npt.NDArray[np.bool_]
    f: Words
    type: Words
    intent: Words
    node: Words
    role: Words

    def __len__(self) -> int:
        return len(self.index)

    def table(self, positions: Ints, columns: Iterable[str]) -> Any:
        """Some columns of the operations at `positions` (ascending), as an Arrow table.

        Reads the row groups that hold them, batch by batch.
        """
        names = list(columns)
        with pq.ParquetFile(self.path) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            bounds = np.cumsum([0, *sizes])
            groups = np.unique(np.searchsorted(bounds, positions, side="right") - 1).tolist()
            parts = [pa.table({name: pa.array([], file.schema_arrow.field(name).type) for name in names})]
            for group in groups:
                base = int(bounds[group])
                for batch in file.iter_batches(_HEAVY_ROWS, row_groups=[group], columns=names):
                    inside = positions[(positions >= base) & (positions < base + len(batch))] - base
                    rows = pa.Table.from_batches([batch])
                    parts.append(rows if len(inside) == len(batch) else rows.take(pa.array(inside)))
                    base += len(batch)
        return pa.concat_tables(parts)

    @cached_property
    def _rises(self) -> bool:
        return bool((self.index[1:] > self.index[:-1]).all())

    def at(self, wanted: Iterable[int]) -> Ints:
        """The positions of operations, by their `index`; one that the history does not have is left out."""
        sought = np.unique(np.fromiter(wanted, dtype=np.int64))
        if not self._rises:
            return np.flatnonzero(np.isin(self.index, sought))
        first, behind = (np.searchsorted(self.index, sought, side=side) for side in ("left", "right"))
        return np.asarray(first[behind > first])

    def rows(self, wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Whole operations by their `index`. An index that the history does not have is left out."""
        positions = self.at(wanted)
        if not len(positions):
            return {}
        columns = pq.read_schema(self.path).names
        return {row["index"]: row for row in self.table(positions, columns).to_pylist()}


def slices(count: int) -> Iterator[slice]:
    """So many positions, about a million at a time: of many million operations no array more than a page needs is in memory."""
    return (slice(start, min(start + _SLICE, count)) for start in range(0, count, _SLICE))


def writes(ops: Ops) -> npt.NDArray[np.bool_]:
    """Transactions and sends of the main phase; every main operation when there are none, but not the lives of instances."""
    sending: npt.NDArray[np.bool_] = ops.f.among("txn", "send") & ~ops.final
    return sending if sending.any() else ~ops.final & ~ops.f.among("instance")


def shown_findings(verdict: Doc) -> tuple[Doc, ...]:
    """The verdict's findings, in its order; of each anomaly that the settings permit the first few only."""
    seen: Counter[str] = Counter()
    shown = []
    for finding in verdict.get("findings", ()):
        seen[finding.get("anomaly", "?")] += 1
        if finding.get("forbidden", True) or seen[finding.get("anomaly", "?")] <= MOST_PERMITTED:
            shown.append(finding)
    return tuple(shown)


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """The material of a report.

    notes: what could not be read, and what the report lacks for it.
    values: the names of the records where the history comes from; None for our own.
    own_contract: the contract of the run's own judgement.
    """

    plan: Plan
    verdict: Doc
    ops: Ops | None
    faults: tuple[Doc, ...] | None
    anomalies: int | None  # how many findings anomalies.parquet holds
    notes: tuple[str, ...] = ()
    values: ds.Dataset | None = None
    transaction_protocol: str = ""  # the one that was spoken, in words; empty when nothing shows it
    receipts_lost: bool = False  # there may have been more faults than `faults` has
    own_contract: Mapping[str, str] = field(default_factory=dict)
    files: FilesBeside = field(default_factory=FilesBeside)
    run: Run | None = None  # where it all comes from, for what is read only around findings
    stored: Path | None = None  # what the brokers' log segments hold, where it was recorded and can be read
    remembered: tuple[Remembered, ...] = ()  # of findings, from other rounds

    @cached_property
    def findings(self) -> tuple[Doc, ...]:
        """The findings that the page shows."""
        return shown_findings(self.verdict)

    def originals(self, identities: Iterable[int]) -> dict[int, str]:
        """The names of these records (by `v`) where the history comes from; empty for our own histories."""
        if self.values is None:
            return {}
        wanted = ds.field("v").isin(pa.array(sorted(set(identities)), pa.int64()))
        names = self.values.to_table(columns=["v", "value"], filter=wanted)
        return {v: value or "" for v, value in zip(names["v"].to_pylist(), names["value"].to_pylist(), strict=True)}

    @cached_property
    def origin_ns(self) -> int:
        """The zero of every time on the page: the first operation's invocation, or else the first thing known."""
        if self.ops is not None and len(self.ops):
            return int(self.ops.time.min())
        known = [f["injected_ns"] for f in self.faults or () if f.get("injected_ns")]
        known += [f["time"] for f in self.findings if (f.get("time") or 0) > 0]
        return min(known, default=0)

    @cached_property
    def end_ns(self) -> int:
        """The last thing that is known to have happened."""
        ends = [self.origin_ns]
        if self.ops is not None and len(self.ops):
            ends += [int(self.ops.end.max()), int(self.ops.time.max())]
        return max(ends + [f.get("healed_ns") or f.get("injected_ns") or 0 for f in self.faults or ()])


def read(run: Run) -> ReportData:
    """The material of a run's report. Raises CampaignError when plan or verdict cannot be read; the rest may be missing."""
    run.demand_plan()
    notes: list[str] = []
    ops = anomalies = values = None
    history = run.path(RunFile.OPERATIONS if run.is_remote else RunFile.HISTORY)
    if run.is_remote:
        notes.append(f"The history itself lies at {run.history}; this page was made from what the check brought of it.")
    try:
        columns = [replace(column, optional=column.name not in SHOWN) for column in OPERATIONS]
        if problem := run.table_problem(history.name, columns):
            raise FileNotFoundError(problem.reason) if problem.missing else OSError(problem.reason)
        ops = _ops(history)
    except (OSError, pa.ArrowException, ValueError) as error:
        notes.append(f"{_problem(history, error)}: no timeline, and findings without their operations.")
    faults = None if isinstance(run.receipts, Problem) else tuple(run.receipts)
    lost = [gap for gap in run.gaps if Evidence.RECEIPTS in gap.evidence]
    if faults is None or (lost and not faults):
        unknown = f"{lost[0] if lost else run.receipts}: what the faults did is not known"
        notes += [f"{unknown}."] * (unknown not in (run.verdict or {}).get("weakened", ()))
        faults = None
    try:
        anomalies = pq.read_metadata(regular(run.directory, run.place(RunFile.ANOMALIES))).num_rows
    except (OSError, pa.ArrowException) as error:
        notes.append(f"{_problem(run.path(RunFile.ANOMALIES), error)}: only the findings in verdict.json are shown.")
    try:
        values = _values(run)
    except (OSError, pa.ArrowException) as error:
        notes.append(f"{_problem(run.path(RunFile.VALUES), error)}: records are told by their identities alone.")
    unread = (run.problems.get(file) for file in (RunFile.DAMAGE, RunFile.LEFT_BEHIND))
    notes += [f"{problem}." for problem in unread if problem and not problem.missing]
    notes += [f"Left behind on the cluster: {sentence}" for sentence in run.left_behind]
    if problem := run.problems.get(RunFile.VERDICT):
        raise CampaignError([f"{run}: {problem}, and the report needs it; judge the run first: fencepost check {run}"])
    stored = None if run.table_problem(RunFile.STORED, STORED) else run.path(RunFile.STORED)
    return ReportData(
        plan=_judged_plan(run),
        verdict=run.verdict,
        ops=ops,
        faults=faults,
        anomalies=anomalies,
        notes=tuple(notes),
        values=values,
        transaction_protocol="" if stored is None else spoken(stored),
        receipts_lost=bool(lost),
        own_contract=run.contract,
        files=files_beside(run),
        run=run,
        stored=stored,
    )


def _judged_plan(run: Run) -> Plan:
    """The plan; with the contract by which another judgement than the run's own judged."""
    laid_over = (run.verdict.get("judged_by") or {}).get("contract") or {}
    if not laid_over:
        return run.plan
    try:
        return {**run.plan, "contract": overlaid_contract(planned_contract(run.contract), laid_over)}
    except CampaignError:  # of a run from elsewhere
        return {**run.plan, "contract": {**run.contract, **laid_over}}


def _problem(path: Path, error: Exception) -> Problem:
    return Problem(path.name, described(error), missing=isinstance(error, FileNotFoundError))


def _ops(path: Path) -> Ops:
    """Row group by row group: a history may have many million operations."""
    with pq.ParquetFile(path, read_dictionary=list(_WORDS)) as file:
        return operations(_row_groups(file), file.metadata.num_rows, path)


def _row_groups(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """Each is read while somebody makes something of the one before."""
    with ThreadPoolExecutor(1) as pool:
        following: Future[pa.Table] | None = None
        for group in range(file.metadata.num_row_groups):
            before, following = following, pool.submit(file.read_row_group, group, columns=list(LIGHT))
            if before:
                yield before.result()
        if following:
            yield following.result()


def operations(tables: Iterable[pa.Table], count: int, path: Path) -> Ops:
    """The light columns of so many operations, table by table; `path` is where whole ones are."""
    numbers = {
        name: np.int32 if name in ("process", "slot", "op") else np.int64 for name in LIGHT if name not in (*_WORDS, "final")
    }
    arrays, kinds = ArrayFiles(), {**numbers, **dict.fromkeys(_WORDS, np.int16), "final": np.bool_}
    growing = {name: Growing(arrays, count, kind) for name, kind in kinds.items()}
    names: dict[str, dict[str, int]] = {name: {} for name in _WORDS}
    for each in tables:
        table = each.unify_dictionaries().combine_chunks()
        for name in numbers:
            growing[name].append(pc.fill_null(table[name], NEVER).to_numpy())
        growing["final"].append(pc.fill_null(table["final"], False).to_numpy())
        for name in _WORDS:
            growing[name].append(_coded(table[name], names[name]))
    columns: dict[str, Any] = {name: each.array() for name, each in growing.items()}
    words: dict[str, Any] = {
        name: Words(columns.pop(name), np.array(list(names[name]) or [""], dtype=np.str_)) for name in _WORDS
    }
    return Ops(path=path, **columns, **words)


def _coded(column: Any, names: dict[str, int]) -> Any:
    """A column of words in numbers of our own; `names` grows by what is new."""
    if not len(column):
        return np.empty(0, dtype=np.int16)
    chunk = column.chunk(0)
    encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    codes = [names.setdefault(word or "", len(names)) for word in [*encoded.dictionary.to_pylist(), ""]]
    return np.array(codes, dtype=np.int16)[encoded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)]


def _values(run: Run) -> ds.Dataset | None:
    """The original values; our own histories have none."""
    path = run.path(RunFile.VALUES)
    if not os.path.lexists(path):
        return None
    regular(run.directory, RunFile.VALUES)
    demand_columns(path, VALUES)
    return ds.dataset(path)
