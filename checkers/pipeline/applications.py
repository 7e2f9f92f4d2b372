"""Outputs of somebody's own program, as seen from outside: which input each of them names.

The inputs are records of this run. What the program declares, and whether it had caught up, says the harness's `drain` operation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.arrays import Bools, Ints
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.chains import chains_of
from fencepost.checkers.views.gathering import PartitionMessages, together
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.parts import AskAlone
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api import Isolation, record_ids
from fencepost.harness.api.words import and_more, form, plural

INPUTS = "inputs of a program"
SHOWN = 3  # partitions in a sentence


@dataclass(frozen=True)
class Outputs:
    """Outputs of a program of somebody's own.

    records: what read_committed readers got, a row for each time: `op`, `partition`, `offset`, `v` of the input that it names
        (NONE: none), `ended`, and whether the operation is one of a `final` reader.
    declared: the value of the `drain` operation.
    drain: that operation (history index, NONE: there is none), and when it ended (ns).
    stages: of several programs in a row each by itself; then `declared` is that of the first, with the outputs of all.
    """

    records: pd.DataFrame
    declared: Mapping[str, Any]
    drain: tuple[int, int] = (NONE, NONE)
    stages: tuple[Outputs, ...] = ()


def has_application(run: RunView) -> bool:
    """True if the history is one of a program of somebody's own."""
    return run.history.has("outputs") and outputs_of(run).drain[0] != NONE


def outputs_of(run: RunView) -> Outputs:
    """The outputs of a run, read once."""
    return run.shared(_read)


def _read(run: RunView) -> Outputs:
    drains = _declared(run)
    if not drains:
        return Outputs(_no_records(), {})
    columns = ("index", "isolation", "final", "outputs")
    records = pd.concat([_flat(batch, run) for batch in run.history.batches(columns)[1]])
    stages = tuple(Outputs(records, *drain) for drain in drains)
    if len(stages) == 1:
        return stages[0]
    written = [name for stage in stages for name in stage.declared["output_partitions"]]
    return replace(stages[0], declared={**stages[0].declared, "output_partitions": written}, stages=stages)


def _declared(run: RunView) -> list[tuple[dict[str, Any], tuple[int, int]]]:
    """The declaration of each program, in the order of their stages, with the operation that has it."""
    rows = run.history.of_kind(("index", "f", "end", "detail"), "drain").sort_by("index").to_pylist()
    known = [(json.loads(row["detail"]), (row["index"], row["end"])) for row in rows if row["detail"]]
    known = [(declared, drain) for declared, drain in known if "outputs" in declared]
    return known if all("fed" in declared for declared, _ in known) else known[-1:]  # histories of before have one program


@cache
def _no_records() -> pd.DataFrame:
    numbers = {name: np.empty(0, dtype=np.int64) for name in ("offset", "v", "ended", "op")}
    return pd.DataFrame({"partition": np.empty(0, dtype=object), **numbers, "final": np.empty(0, dtype=np.bool_)})


def _flat(batch: pa.RecordBatch, run: RunView) -> pd.DataFrame:
    """The outputs that one batch of operations read at read_committed."""
    lists = batch.column("outputs")
    rows = dict(zip((field.name for field in lists.type.value_type), lists.flatten().flatten(), strict=True))
    parents = pc.list_parent_indices(lists)
    rows["op"] = batch.column("index").take(parents).cast(pa.int64())
    rows["final"] = pc.fill_null(batch.column("final").take(parents), False)
    level = pc.fill_null(batch.column("isolation").take(parents), run.contract["isolation"])
    table = pa.table(rows).filter(pc.equal(level, Isolation.COMMITTED.value))
    return pd.concat([_no_records(), table.to_pandas()])[list(_no_records().columns)]


@together
def input_places(log: PartitionLog, brief: bool = False) -> PartitionMessages:
    """The records of a partition that a read_committed reader got, with their lowest offsets; brief: if anybody needs them."""
    if not brief or not len(log.sends):
        return PartitionMessages()
    if log.parts is not None:
        raise AskAlone
    seen = np.flatnonzero(log.seen_committed)
    table = pa.table({"v": log.sends.v[seen], "offset": log.place[seen]}).replace_schema_metadata({"partition": log.partition})
    return PartitionMessages(to_driver=[(INPUTS, to_message(table))])


def _gathered(run: RunView) -> pd.DataFrame:
    """Rows that `input_places` gave of each partition: `v`, `partition`, `offset`."""
    if run.gathered.error:
        raise RuntimeError(run.gathered.error)  # nobody knows which inputs are visible
    tables = [_no_records()[["v", "partition", "offset"]]]
    for name, message in run.gathered.to_driver:
        if name == INPUTS:
            table = from_message(message)
            tables.append(table.to_pandas().assign(partition=table.schema.metadata[b"partition"].decode()))
    return pd.concat(tables)


class Application:
    """Inputs and outputs of a program. Made once for all checks of a run (`RunView.shared`).

    outputs: of one program among several in a row; None: of all of them.
    stage: its number among them, from 0.
    """

    def __init__(self, run: RunView, outputs: Outputs | None = None, stage: int = 0) -> None:
        self.run, self.stage = run, stage
        self.outputs = outputs or outputs_of(run)
        self.fewest, self.most = self.outputs.declared["outputs"]
        self.ordered = bool(self.outputs.declared["ordered"])
        self.counts = bool(self.outputs.declared.get("counts"))  # not declared in histories of before
        self.written = frozenset(self.outputs.declared["output_partitions"])
        self.store = bool(self.outputs.declared.get("store"))  # likewise

    @property
    def there(self) -> str:
        """Words for what shows the outputs at the end."""
        if self.store:
            return "the listing of the sink's store"
        return f"the {'complete ' if self.output_read_back else ''}read_committed final read"

    @cached_property
    def inputs(self) -> pd.DataFrame:
        """Visible input records by partition and offset: `v`, `partition`, `offset`.

        What another program of the run has written has the `v` of the input that it names.
        """
        if not self.outputs.declared.get("fed", True):
            read = self._read_finally(self.outputs.declared["inputs"])
            return read.loc[read["v"] != NONE, ["v", "partition", "offset"]].reset_index(drop=True)
        places, partitions = _gathered(self.run), self.outputs.declared.get("inputs")  # not declared in histories of before
        own = ~places["partition"].isin(self.written) if partitions is None else places["partition"].isin(partitions)
        return places[own].sort_values(["partition", "offset"], ignore_index=True)

    def read_back(self, partitions: Iterable[str]) -> set[str]:
        """Partitions with a complete read_committed final read, so that what is not visible is not there."""
        finals = self.run.overview.final_reads
        return {name for name in set(partitions) if name in finals and finals[name].committed and not finals[name].stalled}

    @cached_property
    def final(self) -> pd.DataFrame:
        """The outputs in the complete read_committed final reads, each once, by partition and offset."""
        return self._read_finally(self.written)

    @cached_property
    def shown(self) -> pd.DataFrame:
        """The same of all read_committed final reads, as far as these came: what they got is there, whatever they did not get."""
        return self._read_finally(self.written, whole=False)

    def _read_finally(self, partitions: Iterable[str], whole: bool = True) -> pd.DataFrame:
        records = self.outputs.records
        rows = records[records["final"] & records["partition"].isin(self.read_back(partitions) if whole else set(partitions))]
        rows = rows[self._of_one_listing(rows)] if self.store else rows
        return rows.drop_duplicates(["partition", "offset"]).sort_values(["partition", "offset"], ignore_index=True)

    def _of_one_listing(self, rows: pd.DataFrame) -> Bools:
        """True for the items of one listing of each store, the last that is whole, else the last: in another one each item may
        have another number.
        """
        overview = self.run.overview
        lister = pd.Series(overview.process[overview.at(rows["op"].to_numpy())], index=rows.index)
        whole = {name: max(final.committed) for name, final in overview.final_reads.items() if final.committed}
        last = lister.groupby(rows["partition"]).transform("max")
        return np.asarray(lister == rows["partition"].map(whole).fillna(last))

    @cached_property
    def counted(self) -> pd.DataFrame:
        """The program's state as committed outputs say it: `partition`, `offset`, `count`, each once."""
        rows = self.run.history.select(("index", "counts"), pc.list_value_length(ds.field("counts")) > 0)
        structs = [row for batch in rows.to_batches() for row in batch.column("counts").flatten().to_pylist()]
        table = pd.DataFrame(structs, columns=["partition", "offset", "count"])
        return table.drop_duplicates(["partition", "offset"])

    @cached_property
    def count_at(self) -> dict[tuple[str, int], int]:
        """Counts of `counted` by (partition, offset)."""
        return {(row.partition, row.offset): int(row.count) for row in self.counted.itertuples(index=False, name="Count")}

    @cached_property
    def output_read_back(self) -> bool:
        """True if every partition of the output was read back."""
        return self.read_back(self.written) == self.written

    @cached_property
    def claimed(self) -> pd.DataFrame:
        """Inputs that the program must have processed: those below its group's offsets, as far as its group is known; else all
        of them, once it has caught up.
        """
        if not self.outputs.declared["group"]:
            return self.inputs if self.outputs.declared["drained"] else self.inputs.iloc[:0]
        committed = self.inputs["partition"].map(self.committed).fillna(NONE)
        return self.inputs[self.inputs["offset"] < committed]

    @property
    def committed(self) -> Mapping[str, int]:
        """The offsets of its group at the end, as far as they are known."""
        return chains_of(self.run).committed_by(self.outputs.declared["group"])

    @cached_property
    def demanded(self) -> pd.Series:
        """How many outputs the program must have made of each input that is `claimed`, by its `v`.

        The program before makes so many records of an input at least, and the program all of these again. What is there besides
        may be a repetition, which it may drop.
        """
        before = outputs_of(self.run).stages[: self.stage]
        least = math.prod(stage.declared["outputs"][0] for stage in before)
        claimed = self.claimed["v"].value_counts()
        others = self.inputs["v"].value_counts().reindex(claimed.index) - claimed
        return self.fewest * np.minimum(claimed, least - others).clip(lower=1)

    @cached_property
    def beyond(self) -> pd.DataFrame:
        """Inputs of which nothing is demanded: those that the program had not reached in the end."""
        if not self.fewest and self.outputs.declared["drained"]:  # it may drop inputs, and had caught up
            return self.inputs.iloc[:0]
        return self.inputs[~self.inputs.index.isin(self.claimed.index)]

    def keys(self, inputs: pd.DataFrame) -> pd.Series:
        """A number for the key of each input, where inputs share keys: those of one writer in one partition have so many."""
        v = inputs["v"].to_numpy()
        number = record_ids.key_number_of(v, int(self.outputs.declared.get("keys", 1)))  # not declared in histories of before
        parts = pd.DataFrame({"partition": inputs["partition"], "process": record_ids.process_of(v), "number": number})
        return parts.groupby(["partition", "process", "number"]).ngroup()

    def senders(self, v: Ints) -> pd.DataFrame:
        """Identities among some that an operation of this run sent: `v`, `partition`, `op`."""
        rows = self.run.senders(v[v >= 0])
        return pd.DataFrame(list(rows), columns=["v", "partition", "op"]).astype({"v": np.int64, "op": np.int64})


def stages_of(run: RunView) -> list[Application]:
    """Each of the programs in a row; of one program that one."""
    return run.shared(_stages)


def _stages(run: RunView) -> list[Application]:
    stages = outputs_of(run).stages
    return [Application(run, outputs, number) for number, outputs in enumerate(stages)] or [run.shared(Application)]


def unreached_inputs(run: RunView) -> list[tuple[str, float]]:
    """Of each program that had not reached all inputs in the end: what is not judged, in words, and the share that it had."""
    stages = [] if run.gathered.error or not has_application(run) else stages_of(run)
    return [(_not_reached(stage), 1 - len(stage.beyond) / len(stage.inputs)) for stage in stages if len(stage.beyond)]


def _not_reached(program: Application) -> str:
    """How many inputs, and the partitions of which a program has reached none."""
    count, inputs = len(program.beyond), program.inputs
    if not program.outputs.declared["group"]:
        late = "the program had not caught up"
        return f"{late}: whether it has processed its {plural(count, 'input')} is not judged" if program.fewest else late
    untouched = sorted(set(inputs["partition"]) - set(program.claimed["partition"]))
    whole = f" (all of {', '.join(untouched[:SHOWN])}{and_more(len(untouched) - SHOWN)})" if untouched else ""
    of_all = f"{count:,} of {plural(len(inputs), 'input')}{whole} {form(count, 'does', 'do')} not lie below the program's offsets"
    return f"{of_all}: whether {form(count, 'it was', 'they were')} processed is not judged" if program.fewest else of_all


def stage_that_reads(run: RunView, partition: str) -> Application:
    """The program whose input a partition is."""
    stages = stages_of(run)
    return next((stage for stage in stages if partition in stage.outputs.declared.get("inputs", ())), stages[0])


def stretches(chosen: Bools, partitions: Any) -> Ints:
    """A number for each chosen row, the same for those between which no other row of the same partition lies.

    Rows lie in the order of partition and offset.
    """
    codes = pd.factorize(np.asarray(partitions))[0]
    numbers = (~chosen).cumsum() * (1 + codes.max(initial=0)) + codes
    return np.asarray(numbers[chosen], dtype=np.int64)
