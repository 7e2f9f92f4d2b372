"""Damages to the output of a program of somebody's own, as readers got it. As in `records`: clean in, damaged out, or None."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.model.values import NONE
from fencepost.checkers.selfcheck.pipeline_damages import group_offsets_at_end, structs_of, with_structs
from fencepost.checkers.selfcheck.record_damages import pick
from fencepost.checkers.selfcheck.source_damages import ENTRIES, stored_entries
from fencepost.harness.api import record_ids

OUTPUTS, COUNTS = "outputs", "counts"


def drop_output(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Nobody gets the outputs of an input below the group's offset."""
    if not _declared(rows).get("outputs", [0])[0]:
        return None
    outputs, inputs = structs_of(rows, OUTPUTS), _inputs(rows)
    ends = group_offsets_at_end(rows)[1]
    below = inputs[inputs["place"] < inputs["partition"].map(ends).fillna(NONE)]
    fit = outputs[outputs["v"].isin(below["v"])]
    if fit.empty:
        return None
    gone = pick(fit, rng)
    what = f"the output at {gone['partition']}@{gone['offset']} is returned to nobody"
    return _damaged(rows, outputs[outputs["v"] != gone["v"]], what, gone["v"])


def repeat_output(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The final reader gets as many more outputs of an input as make too many."""
    most = _declared(rows).get("outputs", [0, 0])[1]
    final = _final(rows)
    fit = final[final["v"].isin(_inputs(rows)["v"])]
    if fit.empty or not most:
        return None
    again = pick(fit, rng)
    end = int(final.loc[final["partition"] == again["partition"], "offset"].max())
    more = [{**again, "offset": end + 1 + number} for number in range(most)]
    what = f"the output at {again['partition']}@{again['offset']} is there {most + 1} times"
    return _damaged(rows, _and(structs_of(rows, OUTPUTS), more), what, again["v"])


def invent_output(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The final reader gets one more output, which names no input."""
    final = _final(rows)
    if final.empty:
        return None
    last = pick(final, rng)
    end = int(final.loc[final["partition"] == last["partition"], "offset"].max())
    invented = {**last, "offset": end + 1, "v": NONE}
    what = f"the output at {last['partition']}@{end + 1} names no input"
    return _damaged(rows, _and(structs_of(rows, OUTPUTS), [invented]), what, NONE, last["partition"])


def swap_outputs(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """Two outputs of one key in one partition change places, for everybody."""
    final = _final(rows).merge(_inputs(rows).rename(columns={"partition": "of"}), on="v").sort_values(["partition", "offset"])
    final = final.drop_duplicates("v", keep=False).assign(key=lambda table: _keys(rows, table))
    after = final.groupby(["partition", "of", "key"])[["offset", "v", "place"]].shift(-1)
    fit = final.assign(next_offset=after["offset"], next_v=after["v"], later=after["place"])
    fit = fit[fit["later"] > fit["place"]]
    if fit.empty or not _declared(rows).get("ordered"):
        return None
    output = pick(fit.astype({"next_v": "int64", "next_offset": "int64"}), rng)
    outputs = structs_of(rows, OUTPUTS)
    outputs["v"] = outputs["v"].replace({output["v"]: output["next_v"], output["next_v"]: output["v"]})
    what = f"the outputs at {output['partition']}@{output['offset']} and @{output['next_offset']} change places"
    return _damaged(rows, outputs, what, output["v"])


def count_more(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """An output, and all later ones of its key, say one more than they did."""
    counts, inputs = structs_of(rows, COUNTS), _inputs(rows)
    final = _final(rows).merge(inputs.rename(columns={"partition": "of"}), on="v").drop_duplicates("v", keep=False)
    final = final.merge(counts.drop(columns="op").drop_duplicates(["partition", "offset"]), on=["partition", "offset"])
    if final.empty or not _declared(rows).get("counts"):
        return None
    final = final.assign(key=_keys(rows, final))
    output = pick(final, rng)
    mine = final[(final["of"] == output["of"]) & (final["key"] == output["key"]) & (final["count"] >= output["count"])]
    more = pd.MultiIndex.from_frame(counts[["partition", "offset"]]).isin(pd.MultiIndex.from_frame(mine[["partition", "offset"]]))
    what = f"the output at {output['partition']}@{output['offset']} and the later ones of its key count one input more"
    return DamagedHistory(
        with_structs(rows, COUNTS, counts.assign(count=counts["count"] + more)), what, frozenset([int(output["v"])])
    )


def alter_store(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A row of a copy of a state store has another value."""
    entries = stored_entries(rows)
    copies = entries[entries["op"].isin(rows.ops.index[rows.ops["f"] == "read-store"])]
    if copies.empty:
        return None
    known = copies[(copies["offset"] == 0) & (copies["number"] > 0)]
    fit = copies[copies["op"].isin(known["op"]) & copies["kind"].isin(("counted", "last", "stored"))]
    logged = entries.loc[entries["op"].isin(rows.ops.index[rows.ops["f"] == "read-log"]), "partition"]
    fit = fit[fit["partition"].str.partition(":")[2].isin(logged)]
    if fit.empty:
        return None
    row = pick(fit.reset_index(), rng)
    entries.loc[row["index"], "number"] = int(row["number"]) + 1
    what = f"the row of the key {row['name']} in the copy {row['partition']} has another value"
    return _damaged_entries(rows, entries, what, row["partition"])


def count_in_changelog(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """All copies and records of a changelog count one input more of one key, all the time."""
    entries = stored_entries(rows)
    fit = entries[entries["kind"] == "counted"]
    if fit.empty or not len(_final(rows)):
        return None
    fit = fit[fit["name"].str.rpartition("/")[0].str.rpartition("/")[0].isin(set(_inputs(rows)["partition"]))]
    if fit.empty:
        return None
    entry = pick(fit, rng)
    mine = (entries["kind"] == "counted") & (entries["name"] == entry["name"])
    entries["number"] = entries["number"] + mine
    what = f"stores and changelogs count one input more of the key {entry['name']}"
    return _damaged_entries(rows, entries, what, *set(entries.loc[mine, "partition"]))


def _damaged_entries(rows: HistoryRows, entries: pd.DataFrame, what: str, *partitions: str) -> DamagedHistory:
    return DamagedHistory(with_structs(rows, ENTRIES, entries), what, partitions=frozenset(partitions))


def show_output(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """A read_committed reader of the main phase gets an output at an offset where the final read has none."""
    outputs, ops = structs_of(rows, OUTPUTS), rows.ops
    early = ops.index[~ops["final"].astype(bool) & (ops["isolation"] == "read_committed")]
    fit = outputs[outputs["op"].isin(early) & outputs["v"].isin(_inputs(rows)["v"])]
    if fit.empty:
        return None
    shown = pick(fit, rng)
    end = int(outputs.loc[outputs["partition"] == shown["partition"], "offset"].max())
    what = f"a reader gets an output at {shown['partition']}@{end + 1}, which is not there"
    return _damaged(rows, _and(outputs, [{**shown, "offset": end + 1}]), what, shown["v"])


def _declared(rows: HistoryRows) -> Mapping[str, Any]:
    """The program's declaration; empty where there is none."""
    drains = rows.ops[(rows.ops["f"] == "drain") & rows.ops["detail"].notna()]
    return json.loads(drains["detail"].iloc[-1]) if len(drains) else {}


def _keys(rows: HistoryRows, outputs: pd.DataFrame) -> Any:
    """The key of each output's input, within its partition."""
    v, keys = outputs["v"].to_numpy(), int(_declared(rows).get("keys", 1))
    return record_ids.process_of(v) * keys + record_ids.key_number_of(v, keys)


def _inputs(rows: HistoryRows) -> pd.DataFrame:
    """Committed records that a complete final read returned once: `v`, `partition`, `place`."""
    return rows.witnessed[["v", "partition", "place"]]


def _final(rows: HistoryRows) -> pd.DataFrame:
    """Outputs that final readers got at read_committed."""
    outputs, ops = structs_of(rows, OUTPUTS), rows.ops
    finals = ops.index[ops["final"].astype(bool) & (ops["isolation"] == "read_committed")]
    return outputs[outputs["op"].isin(finals)]


def _and(outputs: pd.DataFrame, more: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.concat([outputs, pd.DataFrame(more)[list(outputs.columns)]], ignore_index=True)


def _damaged(rows: HistoryRows, outputs: pd.DataFrame, what: str, v: int, *partitions: str) -> DamagedHistory:
    return DamagedHistory(with_structs(rows, OUTPUTS, outputs), what, frozenset([int(v)]), frozenset(partitions))


# --------------------------------------------------------------------------------------------------
# What is planted, what must be found, and what accompanies it
# --------------------------------------------------------------------------------------------------
NO_PROGRAM = "needs the output of a program of somebody's own"
NO_STORE = "needs the state store of a program, and its changelog"
DROP_OUTPUT = PlantedDamage(
    "drop output",
    drop_output,
    ("unprocessed",),
    ("output-order", "torn-state"),
    f"{NO_PROGRAM} below its group's offset",
)
REPEAT_OUTPUT = PlantedDamage("repeat output", repeat_output, ("reprocessed",), (), NO_PROGRAM)
INVENT_OUTPUT = PlantedDamage("invent output", invent_output, ("phantom-output",), (), NO_PROGRAM)
SWAP_OUTPUTS = PlantedDamage("swap outputs", swap_outputs, ("output-order",), (), f"{NO_PROGRAM} that promises their order")
COUNT_MORE = PlantedDamage("count more", count_more, ("torn-state",), (), f"{NO_PROGRAM} that says what it has counted")
ALTER_STORE = PlantedDamage("alter store", alter_store, ("store-divergence",), (), NO_STORE)
COUNT_IN_CHANGELOG = PlantedDamage(
    "count in changelog", count_in_changelog, ("wrong-state",), (), f"{NO_STORE} that counts inputs"
)
SHOW_OUTPUT = PlantedDamage("show output", show_output, ("vanished-output",), (), f"{NO_PROGRAM}, and a reader before the end")
