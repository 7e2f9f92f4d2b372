"""Packing: operations without records leave nothing, also where nulls cover values that count for nothing (Arrow allows that)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from support.histories import History, write_history

from fencepost.checkers.history.scan import COLUMNS, READS, SENDS, TEXTS, Unpacked, pack, scan_columns, scan_locally
from fencepost.checkers.history.source import LocalSource
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.model.values import LoggedDecisions


def columns_of(batches):
    """Columns restored from the packed parts, by side."""
    parts = [part for _, part in pack(batches)]
    return {side: {name: values.tolist() for name, values in Unpacked(parts, side).items()} for side in (SENDS, READS)}


def hidden(lists: pa.ListArray, gone: set[int]) -> pa.ListArray:
    """The same lists, some of them null, with their values still beneath."""
    mask = pa.array([number in gone for number in range(len(lists))])
    return pa.ListArray.from_arrays(lists.offsets, lists.values, type=lists.type, mask=mask)


def test_a_null_over_records_is_an_operation_without_records(tmp_path):
    history = History()
    for offset in range(4):
        history.txn(0, sends={"t-0": offset})
        history.add(1, "crash")
    history.poll(2, {"t-0": [(offset, history.ops[2 * offset]["mops"][0][2]) for offset in range(4)]})
    write_history(tmp_path, history.ops)
    _, batches = LocalSource(tmp_path / "history.parquet").batches(COLUMNS, TEXTS)
    (batch,) = list(batches)
    at = batch.schema.get_field_index("mops")
    covered = batch.set_column(at, batch.schema.field(at), hidden(batch.column(at), {0, 4}))
    left = batch.filter(pa.array(np.isin(np.arange(len(batch)), [0, 4], invert=True)))
    assert columns_of([covered]) == columns_of([left])
    assert columns_of([left])[SENDS]["offset"] == [1, 3]
    assert columns_of([batch])[READS]["offset"] == [0, 1, 2, 3]
    assert not list(pack([batch.filter(pc.equal(batch.column("f"), "crash"))]))


def test_columns_are_what_parts_unpack_to(tmp_path):
    run = write_lawful(tmp_path, transactions=300, partitions=7, row_group=50)
    source = LocalSource(Path(run.history))
    ops = np.arange(0, 200, 7)
    decisions = LoggedDecisions(aborted=ops[::2], committed=ops[1::2])
    columns = scan_columns(source, decisions)
    parts = scan_locally(source)
    assert list(columns) == list(parts)
    undecided = scan_columns(source)
    assert any((columns[name][SENDS]["flags"] != undecided[name][SENDS]["flags"]).any() for name in columns)
    assert not any((columns[name][READS]["flags"] != undecided[name][READS]["flags"]).any() for name in columns)
    for name, sides in columns.items():
        for side, some in zip((SENDS, READS), sides, strict=True):
            expected = Unpacked(parts[name], side, decisions)
            assert {column: (values.tolist(), values.dtype) for column, values in some.items()} == {
                column: (values.tolist(), values.dtype) for column, values in expected.items()
            }


def test_columns_are_in_the_order_of_the_history_whatever_order_the_parts_came_in(tmp_path):
    source = LocalSource(Path(write_lawful(tmp_path, transactions=300, partitions=1).history))
    (batch,) = source.batches(COLUMNS, TEXTS)[1]
    parts = [part for _, part in pack(batch.slice(start, 50) for start in range(0, len(batch), 50))]
    mixed = np.random.default_rng(0).permutation(len(parts)).tolist()
    for side in (SENDS, READS):
        expected = Unpacked(parts, side)
        assert (np.diff(expected["op"]) >= 0).all()
        for name, values in Unpacked([parts[number] for number in mixed], side).items():
            assert np.array_equal(values, expected[name]), (side, name)
