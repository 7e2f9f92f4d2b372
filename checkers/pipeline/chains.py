"""The chains of a pipeline: input record -> transaction -> output records -> the group's committed offset (KIP-98, KIP-447)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.model.values import ABORTED, COMMITTED, INFO, NONE
from fencepost.checkers.pipeline.instances import fenced_commits
from fencepost.checkers.pipeline.logged_decisions import decided_in_logs
from fencepost.checkers.views.gathering import PartitionMessages, together
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.parts import AskAlone
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.versions import aborted

PLACES = "places of records"
LOOKS = ["op", "partition", "offset", "began", "ended"]
NO_PIPELINE = "no operation processed input records"
_SEVERAL = "the groups {} were looked at, and nobody says in which one each member is"
_DISPUTED = "at the end the offsets of {} are told of the groups {}, and nobody says in which one the members are"
NO_OFFSETS = "nobody looked at the group's offsets at the end (no `group-offsets` operation)"


def has_members(run: RunView) -> bool:
    """True if consumers, or a program, may be members of a group; else a long history is not searched for what they did."""
    return run.contract["consumption"] != "assigned" or run.contract["application"] != "none"


def has_chains(run: RunView) -> bool:
    """True if the history is one of a pipeline."""
    return run.history.has("chains") and len(chains_of(run).records) > 0


@together
def places_of_records(log: PartitionLog, brief: bool = False) -> PartitionMessages:
    """The records sent to a partition, with their lowest offsets, which of them a read_committed reader got and no surely aborted
    transaction sent, and which only the complete read_uncommitted final read returned.

    brief: whether anybody needs them.
    """
    if not brief or not len(log.sends):
        return PartitionMessages()
    if log.parts is not None:
        raise AskAlone
    columns = {"v": log.sends.v, "offset": log.place, "visible": log.seen_committed & ~log.shared(aborted)}
    columns["hidden"] = log.covered & log.seen_witness & ~log.seen_committed
    table = pa.table(columns).replace_schema_metadata({"partition": log.partition})
    return PartitionMessages(to_driver=[(PLACES, to_message(table))])


@dataclass(frozen=True)
class Chains:
    """The records that the operations of a pipeline processed, and the offsets that they committed.

    records: `op` (history index), the input's `partition`, `offset` and `v`, and an `output` that was made of it (NONE: none was
        to be made); a row for each output.
    offsets: `op`, `partition`, and the `offset` that it commits for the group.
    committed: the group's offset of each partition at the end, where it is known.
    uncommitted: partitions of which the group had no offset then.
    committed_at: the operation that looked, and when (ns).
    by_group: `committed` of each group by itself, by its name; empty where looks do not say whose they are.
    groups: partitions of which looks at several groups tell, with the groups: no operation says in which one its process is.
    disputed: those of them of which the groups have different offsets; no partition of `committed`.
    """

    records: pd.DataFrame
    offsets: pd.DataFrame
    committed: Mapping[str, int] = field(default_factory=dict)
    uncommitted: Collection[str] = ()
    committed_at: tuple[int, int] = (NONE, NONE)
    by_group: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    disputed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def dispute(self) -> str:
        """The reason why the group's offset of some partition is not known, although somebody looked; empty where none is so."""
        return next((_DISPUTED.format(name, " and ".join(groups)) for name, groups in self.disputed.items()), "")

    def committed_by(self, group: str) -> Mapping[str, int]:
        """The offsets of one group at the end, where it is known whose were looked at."""
        return self.by_group.get(group, {}) if self.by_group else self.committed


def chains_of(run: RunView) -> Chains:
    """The chains of a run, read once."""
    return run.shared(_read)


def _read(run: RunView) -> Chains:
    if not (has_members(run) and run.history.has("chains")):
        return Chains(_no_records(), _no_offsets())
    tables = {"chains": [_no_records()], "offsets": [_no_offsets()]}
    for batch in run.history.batches(("index", *tables))[1]:
        for column, parts in tables.items():
            if len(batch.column(column).flatten()):
                parts.append(_flat(batch, column))
    records, offsets = (pd.concat(parts, ignore_index=True) if parts[1:] else parts[0] for parts in tables.values())
    return _with_looks(Chains(records, offsets), run)


@cache
def _no_looks() -> pd.DataFrame:
    return pd.DataFrame({name: np.empty(0, dtype=object if name == "partition" else np.int64) for name in LOOKS})


@cache
def _no_records() -> pd.DataFrame:
    numbers = {name: np.empty(0, dtype=np.int64) for name in ("op", "offset", "v", "output")}
    return pd.DataFrame({"partition": np.empty(0, dtype=object), **numbers})


@cache
def _no_offsets() -> pd.DataFrame:
    return _no_records()[["partition", "op", "offset"]]


def _flat(batch: pa.RecordBatch, column: str) -> pd.DataFrame:
    """The structs of a list column as rows, each with its operation."""
    lists = batch.column(column)
    rows = dict(zip((member.name for member in lists.type.value_type), lists.flatten().flatten(), strict=True))
    rows["op"] = batch.column("index").take(pc.list_parent_indices(lists))
    filled = {name: values if pa.types.is_string(values.type) else pc.fill_null(values, NONE) for name, values in rows.items()}
    return pa.table(filled).to_pandas()


def told_offsets(detail: str) -> dict[str, int | None]:
    """The offsets of a group that an answer tells, by partition; None: it had none. Negative ones are no offsets: not known."""
    return {partition: offset for partition, offset in json.loads(detail)["offsets"].items() if offset is None or offset >= 0}


def _with_looks(chains: Chains, run: RunView) -> Chains:
    """Chains, with the group's offsets at the end."""
    offsets: dict[str, int | None] = {}
    of_groups: dict[str | None, dict[str, int | None]] = {}
    at = (NONE, NONE)
    looks = run.history.of_kind(("index", "f", "type", "end", "detail"), "group-offsets")
    for row in looks.sort_by("index").to_pylist():
        if row["type"] == "ok" and row["detail"]:
            told = told_offsets(row["detail"])
            offsets |= told
            of_groups.setdefault(json.loads(row["detail"]).get("group"), {}).update(told)
            at = (row["index"], row["end"])
    by_group = {} if None in of_groups else {str(group): _known(of_group) for group, of_group in of_groups.items()}
    several = {} if run.contract["application"] != "none" else _told_of_several(of_groups)
    groups = {partition: sorted(some) for partition, some in several.items()}
    disputed = {partition: groups[partition] for partition, some in several.items() if len({*some.values()}) > 1}
    offsets = {partition: offset for partition, offset in offsets.items() if partition not in disputed}
    uncommitted = [partition for partition, offset in offsets.items() if offset is None]
    return replace(
        chains,
        committed=_known(offsets),
        uncommitted=uncommitted,
        committed_at=at,
        by_group=by_group,
        groups=groups,
        disputed=disputed,
    )


def _told_of_several(of_groups: Mapping[str | None, Mapping[str, int | None]]) -> dict[str, dict[str, int | None]]:
    """Partitions of which several groups were looked at: the offset of each group, by its name."""
    told: dict[str, dict[str, int | None]] = {}
    for group, offsets in of_groups.items():
        for partition, offset in offsets.items():
            told.setdefault(partition, {})[str(group or "without a name")] = offset
    return {partition: some for partition, some in told.items() if len(some) > 1}


def _known(offsets: Mapping[str, int | None]) -> dict[str, int]:
    return {partition: int(offset) for partition, offset in offsets.items() if offset is not None}


def unless_of_several_groups(result: CheckResult, chains: Chains) -> CheckResult:
    """A result without what two processes did where they need not be of one group: each group processes everything once. Unknown
    where that is all."""
    if not result.count or not chains.groups:
        return result
    shared = np.isin(result.rows["partition"], list(chains.groups))
    rest = ~np.isin(result.rows["cause"], result.rows["cause"][shared])
    if rest.any():
        return replace(result, rows={name: values[rest] for name, values in result.rows.items()})
    groups = chains.groups.get(str(result.rows["partition"][shared][0]), ())
    return CheckResult(result.compared, unknown=_SEVERAL.format(" and ".join(groups)))


class Pipeline:
    """Chains, and which of their records are visible. Made once for all checks of a run (`RunView.shared`)."""

    def __init__(self, run: RunView) -> None:
        if run.gathered.error:
            raise RuntimeError(run.gathered.error)  # nobody knows which records are visible
        self.run = run

    @property
    def is_empty(self) -> bool:
        """True if it has neither chains nor looks, since nobody may be a member of a group."""
        return not has_members(self.run)

    @property
    def chains(self) -> Chains:
        return chains_of(self.run)

    @cached_property
    def _places(self) -> pd.DataFrame:
        """The place of each gathered record, by its identity, and whether it is `visible`, or `hidden`."""
        tables = [from_message(message) for name, message in self.run.gathered.to_driver if name == PLACES]
        partitions = [table.schema.metadata[b"partition"].decode() for table in tables]
        places = [table.to_pandas().assign(partition=name) for name, table in zip(partitions, tables, strict=True)]
        nothing = _no_records()[["v", "partition", "offset"]]
        nothing = nothing.assign(**{name: np.empty(0, dtype=np.bool_) for name in ("visible", "hidden")})
        return pd.concat([nothing, *places] if places else [nothing]).set_index("v")

    @cached_property
    def visible(self) -> pd.DataFrame:
        """The rows of `_places` that a read_committed reader got."""
        return self._places[self._places["visible"].astype(np.bool_)]

    def placed(self, outputs: pd.DataFrame) -> pd.DataFrame:
        """Rows with an `output`: `v`, `partition` and `offset` are those of the output now."""
        places = self._places.reindex(outputs["output"])
        partition, offset = places["partition"].fillna("").to_numpy(), places["offset"].fillna(NONE).astype("int64").to_numpy()
        return outputs.assign(v=outputs["output"], partition=partition, offset=offset)

    def is_visible(self, v: Any) -> Bools:
        """True for each of these records that a read_committed reader got."""
        return np.asarray(pd.Index(v).isin(self.visible.index))

    def read_back(self, partitions: Iterable[str]) -> set[str]:
        """Partitions with a complete read_committed final read, so that what is not visible is not there."""
        finals = self.run.overview.final_reads
        return {name for name in set(partitions) if name in finals and finals[name].committed and not finals[name].stalled}

    @cached_property
    def all_read_back(self) -> bool:
        """True if every partition of inputs and outputs was read back, and deletes none: what is not visible is not there."""
        if self.run.deletes:
            return False
        records = self.chains.records
        outputs = self._places["partition"].reindex(records.loc[records["output"] != NONE, "output"])
        names = {*records["partition"], *outputs.dropna()}
        return self.read_back(names) == names

    @cached_property
    def records(self) -> pd.DataFrame:
        """`Chains.records`, with `status` of the operation and whether the output is `visible`."""
        records = self.chains.records
        shown = records["output"].isin(self.visible.index)
        return records.assign(status=self.run.status(records["op"].to_numpy()), visible=shown)

    @cached_property
    def proven(self) -> Ints:
        """Operations (history indices) of which some output is visible: they are committed, whatever their client knows."""
        return self.records.loc[self.records["visible"], "op"].unique()  # type: ignore[no-any-return]

    @cached_property
    def fates(self) -> pd.DataFrame:
        """`op`, `fate` of the operations with offsets: COMMITTED (surely), ABORTED (surely), INFO.

        Of unknown outcome, with outputs none of which is visible although all was read back: it is aborted in effect. Of one
        whose commit returned ok, and of which the log holds outputs that nobody may see, or that had been fenced, the brokers'
        logs say what became of it; where they do not, nobody knows (`false-ack`).
        """
        ops = self.chains.offsets["op"].unique()
        status = np.where(np.isin(ops, self.proven), COMMITTED, self.run.status(ops))
        made = self.records.loc[self.records["output"] != NONE, "op"].unique()
        nothing = np.isin(ops, made) & ~np.isin(ops, self.proven) & self.all_read_back
        hidden = self.records["output"].isin(self._places.index[self._places["hidden"].astype(np.bool_)])
        false = np.isin(ops, self.records.loc[hidden, "op"]) | np.isin(ops, self.run.shared(fenced_commits))
        false &= nothing & (status == COMMITTED) & ~np.isin(ops, self.run.decisions.committed)
        logged = decided_in_logs(self.run, ops[false])
        by_logs = np.select([np.isin(ops, logged.aborted), np.isin(ops, logged.committed)], [ABORTED, COMMITTED], INFO)
        fate = np.where(nothing & (status == INFO), ABORTED, status)
        return pd.DataFrame({"op": ops, "fate": np.where(false, by_logs, fate)})

    @cached_property
    def looks(self) -> pd.DataFrame:
        """Offsets that members were told by the group (`committed` operations that ended ok).

        `op`, `partition`, `offset` (NONE: there was none), and when the operation began and had ended (ns).
        """
        if not has_members(self.run):
            return _no_looks()
        columns = ("index", "f", "type", "time", "end", "detail")
        rows = self.run.history.of_kind(columns, "committed").sort_by("index").to_pylist()
        known = [(row, told_offsets(row["detail"])) for row in rows if row["type"] == "ok" and row["detail"]]
        answers = [
            (row["index"], partition, NONE if offset is None else offset, row["time"], row["end"])
            for row, offsets in known
            for partition, offset in offsets.items()
        ]
        return (
            pd.DataFrame(answers, columns=LOOKS).astype({name: "int64" for name in LOOKS if name != "partition"})
            if answers
            else _no_looks()
        )

    @cached_property
    def offsets(self) -> pd.DataFrame:
        """`Chains.offsets`, with the `fate` of each operation, and when it began and had ended (ns)."""
        offsets, overview = self.chains.offsets.merge(self.fates, on="op"), self.run.overview
        at = overview.at(offsets["op"].to_numpy())
        times = {"began": overview.time[at], "ended": overview.end[at], "process": overview.process[at]}
        return offsets.assign(**times)


def rows_of(table: pd.DataFrame, role: str, time: Any = None) -> dict[str, Any]:
    """Rows of a check's result, from `partition`, `cause`, `op`, `v`, `offset`; time: of all of them, else their own."""
    columns = {name: table[name].to_numpy() for name in ("partition", "cause", "op", "v", "offset")}
    times = table["time"].to_numpy() if time is None else np.full(len(table), time)
    return {**columns, "time": times, "role": np.full(len(table), role, dtype=object)}
