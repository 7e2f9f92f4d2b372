"""Damages to pipelines: what members processed and committed. As in `records`: clean in, damaged out, or None."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers.graph.group_offsets import Commit, GroupPartition
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.model.values import COMMITTED, NONE
from fencepost.checkers.selfcheck.accompanying import FUTURE, STEPS
from fencepost.checkers.selfcheck.cycle_damages import with_polls
from fencepost.checkers.selfcheck.record_damages import pick


def leave_out(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """No transaction processed an input record, which lies below the group's offset."""
    chains = _known(rows, "chains")
    below = chains["offset"] < chains["partition"].map(group_offsets_at_end(rows)[1]).fillna(NONE)
    fit = chains[below & chains["v"].isin(_visible(rows)) & chains["output"].isin(_visible(rows))]
    if fit.empty:
        return None
    gone = pick(fit, rng)
    what = f"no transaction processed {gone['partition']}@{gone['offset']}"
    structs = structs_of(rows, "chains")
    return DamagedHistory(with_structs(rows, "chains", structs[structs["v"] != gone["v"]]), what, frozenset([int(gone["v"])]))


def process_twice(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A transaction made one of its outputs of an input record that another one had processed."""
    chains = _known(rows, "chains")
    fit = chains[chains["output"].isin(_visible(rows))].drop_duplicates("op")
    if len(fit) < 2:
        return None
    first, other = fit.sample(2, random_state=rng.randrange(1 << 32)).to_dict("records")
    again = {**first, "op": other["op"], "output": other["output"]}
    what = f"transaction {other['op']} processed {first['partition']}@{first['offset']} too"
    chains = pd.concat([structs_of(rows, "chains"), pd.DataFrame([again])[["op", "partition", "offset", "v", "output"]]])
    return DamagedHistory(with_structs(rows, "chains", chains), what, frozenset([int(first["v"])]))


def lose_offset(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The group's offset at the end is one less than what a transaction committed."""
    position, at_end = group_offsets_at_end(rows)
    offsets = _known(rows, "offsets")
    fit = offsets[offsets["offset"] == offsets["partition"].map(at_end)]
    if fit.empty:
        return None
    lost = pick(fit, rng)
    detail = json.loads(rows.ops.loc[position, "detail"])
    detail["offsets"][lost["partition"]] -= 1
    what = f"the group's offset of {lost['partition']} is one less than transaction {lost['op']} committed, {lost['offset']}"
    changed = rows.with_operation(position, {"detail": json.dumps(detail)})
    return DamagedHistory(changed, what, partitions=frozenset([lost["partition"]]))


def move_back(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A transaction commits a lower offset than one that had ended before it began."""
    offsets = _known(rows, "offsets").sort_values(["partition", "time"])
    before = offsets.groupby("partition")[["end", "offset"]].shift()
    fit = offsets[(before["end"] < offsets["time"]) & (before["offset"] > 0)]
    if fit.empty:
        return None
    back = pick(fit.assign(lower=before.loc[fit.index, "offset"].astype("int64") - 1), rng)
    flat = structs_of(rows, "offsets")
    flat.loc[(flat["op"] == back["op"]) & (flat["partition"] == back["partition"]), "offset"] = back["lower"]
    what = f"transaction {back['op']} commits {back['partition']}@{back['lower']}, lower than the one before it"
    return DamagedHistory(with_structs(rows, "offsets", flat), what, partitions=frozenset([back["partition"]]))


def tell_old(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A member is told that the group has no offset in a partition in which a transaction had committed one."""
    offsets, ops = _known(rows, "offsets"), rows.ops
    looks = ops.index[(ops["f"] == "committed") & (ops["type"] == "ok")]
    fit = [(look, offset) for look in looks for offset in offsets.itertuples() if offset.end < ops.loc[look, "time"]]
    if not fit:
        return None
    position, committed = fit[rng.randrange(len(fit))]
    detail = json.loads(ops.loc[position, "detail"])
    detail["offsets"][committed.partition] = None
    changed = rows.with_operation(int(position), {"detail": json.dumps(detail)})
    what = (
        f"a member is told no offset of {committed.partition}, after transaction {committed.op} had committed {committed.offset}"
    )
    return DamagedHistory(changed, what, partitions=frozenset([committed.partition]))


def tell_early(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A member is told the offset of a transaction before its commit is called."""
    offsets, ops = _known(rows, "offsets"), rows.ops
    offsets = offsets[~offsets.duplicated(["partition", "offset"], keep=False)]
    decided = ops["decided"].to_numpy()[offsets["op"].to_numpy(dtype="int64")] if len(offsets) else []
    looks = ops.index[(ops["f"] == "committed") & (ops["type"] == "ok")]
    fit = [
        (look, offset)
        for look in looks
        for offset, at in zip(offsets.itertuples(), decided, strict=True)
        if offset.time <= ops.loc[look, "end"] < at
    ]
    if not fit:
        return None
    position, committed = fit[rng.randrange(len(fit))]
    detail = json.loads(ops.loc[position, "detail"])
    detail["offsets"][committed.partition] = int(committed.offset)
    changed = rows.with_operation(int(position), {"detail": json.dumps(detail)})
    what = f"a member is told {committed.partition}@{committed.offset} before transaction {committed.op} asks to commit it"
    return DamagedHistory(changed, what, partitions=frozenset([committed.partition]))


def tell_nobodys(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A member is told an offset of the group, or the group has one at the end, that nobody was to commit."""
    offsets, ops = structs_of(rows, "offsets"), rows.ops
    answers = ops.index[ops["f"].isin(("committed", "group-offsets")) & (ops["type"] == "ok")]
    fit = [(position, partition) for position in answers for partition in json.loads(ops.loc[position, "detail"])["offsets"]]
    if not fit or offsets.empty:
        return None
    position, partition = fit[rng.randrange(len(fit))]
    detail = json.loads(ops.loc[position, "detail"])
    detail["offsets"][partition] = int(offsets["offset"].max()) + 100_000
    changed = rows.with_operation(int(position), {"detail": json.dumps(detail)})
    what = f"the group's offset of {partition} is said to be {detail['offsets'][partition]}, which nobody was to commit"
    return DamagedHistory(changed, what, partitions=frozenset([partition]))


def share(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Between two commits of a member in a partition, without a rebalance in between, another member commits there."""
    offsets = _known(rows, "offsets").sort_values(["partition", "time"])
    after = offsets.groupby(["partition", "process"])[["op", "time"]].shift(-1)
    pairs = offsets.assign(next_op=after["op"], next_time=after["time"]).dropna(subset=["next_op"])
    spots = [
        (pair, other)
        for pair in pairs.sample(frac=1, random_state=rng.randrange(1 << 32)).head(200).itertuples()
        for other in offsets.itertuples()
        if other.process != pair.process and other.time > pair.end and other.end < pair.next_time
        if not _rebalanced(rows, int(pair.op), int(pair.next_op))
    ]
    if not spots:
        return None
    pair, other = spots[0]
    added = pd.DataFrame([{"op": other.op, "partition": pair.partition, "offset": pair.offset}])
    flat = structs_of(rows, "offsets")
    others = flat[(flat["op"] != other.op) | (flat["partition"] != pair.partition)]
    what = f"transaction {other.op} commits {pair.partition}@{pair.offset} between two commits of another member"
    changed = with_structs(rows, "offsets", pd.concat([others, added]))
    return DamagedHistory(changed, what, partitions=frozenset([pair.partition]))


def _rebalanced(rows: HistoryRows, first: int, last: int) -> bool:
    """True if anybody's partitions moved after one operation and up to another."""
    return bool(rows.ops["detail"].iloc[first + 1 : last + 1].str.contains("assigned", na=False).any())


def poll_successor(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A member's transaction polls an output of the one that goes on at the group's offset that it commits."""
    outputs = rows.witnessed.set_index("v")
    chains = _known(rows, "chains")
    made = chains[chains["output"].isin(outputs.index)].drop_duplicates("op").set_index("op")["output"]
    fit = [(before, after) for before, after in _successors(rows) if after in made.index]
    if not fit:
        return None
    before, after = fit[rng.randrange(len(fit))]
    v = int(made[after])
    reader = {"op": before, "decided": rows.ops.loc[before, "decided"]}
    what = f"transaction {before} polls an output of {after}, whose inputs begin at the offset that it commits"
    return DamagedHistory(with_polls(rows, (reader, {**outputs.loc[v], "v": v})), what, frozenset([v]))


def _successors(rows: HistoryRows) -> list[tuple[int, int]]:
    """Two committed transactions each: the inputs of the second begin at an offset that only the first may have committed."""
    every, known = structs_of(rows, "offsets"), _known(rows, "offsets")
    unique = ~every.duplicated(["partition", "offset"], keep=False)
    alone = set(zip(every["partition"][unique], every["offset"][unique], strict=True))
    firsts = _known(rows, "chains").groupby(["op", "partition"])["offset"].min().to_dict()
    pairs = []
    for partition, some in known.groupby("partition"):
        commits = [
            Commit(row.op, row.offset, firsts.get((row.op, partition), NONE), COMMITTED, row.time, row.end)
            for row in some.itertuples()
        ]
        before = GroupPartition(commits).before
        pairs += [(first.op, op) for op, first in before.items() if (partition, first.offset) in alone]
    return pairs


# --------------------------------------------------------------------------------------------------
# Looking and changing
# --------------------------------------------------------------------------------------------------
def structs_of(rows: HistoryRows, column: str) -> pd.DataFrame:
    """The structs of a list column, each with `op`, the position of its operation; empty where the history has no such column."""
    if column not in rows.table.column_names:
        return pd.DataFrame({name: pd.Series(dtype="int64") for name in ("op", "partition", "offset", "v", "output")})
    lists = rows.table[column].combine_chunks()
    lists = lists if isinstance(lists, pa.ListArray) else pa.concat_arrays(lists.chunks)
    flat = pa.Table.from_struct_array(lists.flatten()).to_pandas(integer_object_nulls=False)
    for name in ("v", "output"):
        if name in flat:
            flat[name] = pc.fill_null(pa.Table.from_struct_array(lists.flatten())[name], NONE).to_numpy()
    return flat.assign(op=pc.list_parent_indices(lists).to_numpy())


def _known(rows: HistoryRows, column: str) -> pd.DataFrame:
    """The same of transactions whose commit returned ok, with `process`, `time` and `end` of each."""
    flat, ops = structs_of(rows, column), rows.ops
    ok = (ops["type"] == "ok") & (ops["intent"] == "commit")
    flat = flat[flat["op"].isin(ops.index[ok])]
    return flat.assign(**{name: ops[name].to_numpy()[flat["op"].to_numpy(dtype="int64")] for name in ("process", "time", "end")})


def _visible(rows: HistoryRows) -> Any:
    """Records of committed operations that a complete final read returned once."""
    return rows.witnessed["v"]


def group_offsets_at_end(rows: HistoryRows) -> tuple[int, dict[str, int]]:
    """The operation that looked at the group's offsets (position; NONE: nobody did), and what they were."""
    looks = rows.ops.index[(rows.ops["f"] == "group-offsets") & (rows.ops["type"] == "ok")]
    if not len(looks):
        return NONE, {}
    offsets = json.loads(rows.ops.loc[looks[-1], "detail"])["offsets"].items()
    return int(looks[-1]), {partition: offset for partition, offset in offsets if offset is not None}


def with_structs(rows: HistoryRows, column: str, flat: pd.DataFrame) -> HistoryRows:
    """The history with another content of a list column; flat: as `structs_of` gives it."""
    kind = rows.table.schema.field(column).type.value_type
    flat = flat.sort_values("op", kind="stable")
    absent = {field.name: (flat[field.name] == NONE).to_numpy() if field.name == "output" else None for field in kind}
    arrays = [pa.array(flat[field.name], field.type, mask=absent[field.name]) for field in kind]
    counts = flat["op"].value_counts().reindex(range(len(rows.ops)), fill_value=0).sort_index()
    bounds = pa.array([0, *counts.cumsum().tolist()], pa.int32())
    lists = pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays(arrays, fields=list(kind)))
    place = rows.table.column_names.index(column)
    return replace(rows, table=rows.table.set_column(place, rows.table.schema.field(column), lists))


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
LEAVE_OUT = PlantedDamage(
    "leave out",
    leave_out,
    ("unprocessed",),
    (),
    "needs an input record below the group's offset at the end, with an output that was read back",
)
PROCESS_TWICE = PlantedDamage(
    "process twice",
    process_twice,
    ("reprocessed",),
    (),
    "needs two committed transactions with outputs that were read back",
)
LOSE_OFFSET = PlantedDamage(
    "lose offset",
    lose_offset,
    ("torn-offset",),
    ("phantom-offset",),
    "needs a partition of which the group's offset at the end is one that a transaction committed",
)
MOVE_BACK = PlantedDamage(
    "move back",
    move_back,
    ("offset-regression",),
    ("torn-offset", "phantom-offset"),  # nobody is to commit the higher offset any more
    "needs two committed transactions with offsets of one partition, one after the other",
)
TELL_OLD = PlantedDamage(
    "tell old",
    tell_old,
    ("stale-offset",),
    ("torn-offset",),
    "needs a member that asked for the group's offset after a transaction had committed one",
)
TELL_EARLY = PlantedDamage(
    "tell early",
    tell_early,
    ("dirty-offset",),
    (),
    "needs a member that asked for the group's offset while a transaction with one of the partition was not decided",
)
TELL_NOBODYS = PlantedDamage(
    "tell nobody's",
    tell_nobodys,
    ("phantom-offset",),
    ("unprocessed",),
    "needs an answer with the group's offsets, and a transaction with one",
)
SHARE = PlantedDamage(
    "share",
    share,
    ("double-ownership",),
    ("offset-regression", "torn-offset"),
    "needs two commits of one member in one partition, no rebalance between them, and another member's commit in between",
)
POLL_SUCCESSOR = PlantedDamage(
    "poll successor",
    poll_successor,
    ("G1c-wr",),
    (*FUTURE, *STEPS),
    "needs two committed transactions of a pipeline, the second of which goes on at the group's offset of the first",
)
