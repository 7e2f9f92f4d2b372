"""Our Parquet as others write it: types of numbers and texts, several files, tables beside them, columns that some files lack."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import History, answer, violated
from support.jepsen_example import Adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.history.merge import FAULTS_SCHEMA, OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run

NAMES = ("kind", "partition", "v", "offset", "began", "ended")


def table(lost: bool = False) -> pa.Table:
    """Three transactions and what the final readers got: all, or the first record not."""
    h = History()
    for writer, offset in ((0, 5), (1, 7), (0, 9)):
        h.txn(writer, {"t-0": offset})
    h.final({"t-0": [7, 9] if lost else [5, 7, 9]})
    rows = [{**op, "mops": [dict(zip(NAMES, mop, strict=True)) for mop in op["mops"]]} for op in h.ops]
    return pa.Table.from_pylist(rows, schema=OPS_SCHEMA)


def adopted(folder, **files: pa.Table | bytes) -> Adopted:
    (folder / "history").mkdir()
    for name, content in files.items():
        path = folder / "history" / f"{name}.parquet"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pq.write_table(content, path)
    return Adopted(folder / "history", folder / "run")


def judged(folder, **files):
    return judge(open_run(adopted(folder, **files).dir), here=True)


def expect(document, lost):
    assert (document["verdict"], violated(document)) == (("invalid", ["lost-write"]) if lost else ("valid", []))


def cast(whole: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    return whole.set_column(whole.column_names.index(name), name, whole[name].cast(kind))


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("op",), pa.uint64()),
        (("op", "process", "time", "end"), pa.string()),
        (("time", "end", "decided"), pa.timestamp("ns")),
        (("f", "type"), pa.string_view()),
        (("f", "type", "intent", "isolation"), pa.dictionary(pa.int32(), pa.string())),
    ],
    ids=str,
)
def test_columns_of_other_types_that_hold_the_same(tmp_path, names, kind, lost):
    whole = table(lost)
    for name in names:
        whole = cast(whole, name, kind)
    expect(judged(tmp_path, a=whole), lost)


def test_moments_are_nanoseconds_whatever_their_unit(tmp_path):
    """Spark and pandas write microseconds."""
    whole = table()
    thousand = pa.scalar(1_000_000)
    for name in ("time", "end", "decided"):
        late = pa.compute.multiply(whole[name], thousand)
        whole = whole.set_column(whole.column_names.index(name), name, late)
    in_us = whole
    for name in ("time", "end", "decided"):
        in_us = cast(in_us, name, pa.timestamp("ns"))
        in_us = cast(in_us, name, pa.timestamp("us"))
    rows = adopted(tmp_path, a=in_us).rows
    assert [(row["time"], row["end"], row["decided"]) for row in rows] == [
        tuple(row[name] for name in ("time", "end", "decided")) for row in whole.to_pylist()
    ]


@pytest.mark.parametrize("column", ["process", "op", "time"])
def test_a_column_that_is_no_number_is_named(tmp_path, column):
    whole = cast(table(), column, pa.string())
    texts = pa.array(["soon", *whole[column].to_pylist()[1:]])
    with pytest.raises(HistoryError, match=f"column {column} is not int"):
        adopted(tmp_path, a=whole.set_column(whole.column_names.index(column), column, texts))


@pytest.mark.parametrize("lost", [False, True])
def test_parts_of_a_history_lie_beside_the_tables_of_a_run(tmp_path, lost):
    whole = table(lost)
    values = pa.table({"v": pa.array([0], pa.int64()), "partition": ["t-0"], "value": ["a"]})
    beside = {"faults": FAULTS_SCHEMA.empty_table(), "values": values, "anomalies": values}
    expect(judged(tmp_path, part0=whole.slice(0, 2), part1=whole.slice(2), **beside), lost)
    assert (tmp_path / "run" / "values.parquet").exists()


@pytest.mark.parametrize("content", [b"", b"no table", None], ids=["empty", "text", "cut"])
def test_a_part_that_cannot_be_read_is_named(tmp_path, content):
    """Without it the record that it says was read would be lost."""
    whole = table()
    pq.write_table(whole.slice(2), tmp_path / "cut")
    cut = (tmp_path / "cut").read_bytes()[:-9]
    with pytest.raises(HistoryError, match=r"part1.parquet: looks like Parquet, but .*; the others can be judged"):
        adopted(tmp_path, part0=whole.slice(0, 2), part1=cut if content is None else content)


def test_a_part_that_is_of_something_else_is_named(tmp_path):
    with pytest.raises(HistoryError, match=r"users.parquet: Parquet without the columns process, op"):
        adopted(tmp_path, part0=table(), users=pa.table({"name": ["a"]}))


def test_a_column_that_the_first_part_lacks_is_read_in_the_others(tmp_path):
    """The levels of the readers were lost with it; a part of those who only write needs none."""
    whole = table(lost=True)
    first = whole.slice(0, 3).drop_columns(["isolation", "strange", "role"])
    expect(judged(tmp_path, a=first, b=whole.slice(3)), lost=True)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("name", ["decided", "final"])
def test_what_is_no_number_is_a_value_that_is_absent(tmp_path, name, lost):
    """As pandas writes it: of a flag it meant true, so everybody was a final reader; of a number the table was refused."""
    whole = table(lost)
    numbers = [float("nan") if value in (None, False) else float(value) for value in whole[name].to_pylist()]
    at = whole.schema.get_field_index(name)
    expect(judged(tmp_path, a=whole.set_column(at, name, pa.array(numbers, pa.float64()))), lost)


@pytest.mark.parametrize("lost", [False, True])
def test_how_a_transaction_without_intent_was_decided_is_unknown(tmp_path, lost):
    """It may have been aborted, so that nobody had to get its record; or committed."""
    document = judged(tmp_path, a=table(lost).drop_columns(["intent"]))
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert answer(document, "lost-write")["verdict"] == "unknown"
    assert "3 transactions that ended ok without `intent`" in " ".join(document["weakened"])
