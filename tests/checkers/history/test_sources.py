"""A small file is read into memory, a large one each time: both return the same."""

from __future__ import annotations

import numpy as np
import pyarrow.dataset as ds
import pytest
from support.histories import History, write_history

from fencepost.checkers.history import source
from fencepost.checkers.history.overview import COLUMNS, TEXTS
from fencepost.checkers.history.source import LocalSource, read_errors


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """The same file, as a small one and as a large one."""
    history = History()
    for offset in range(5):
        history.txn(offset % 2, sends={"t-0": offset})
    history.final({"t-0": list(range(5))})
    write_history(tmp_path, history.ops)
    small = LocalSource(tmp_path / "history.parquet")
    assert small.has("index")
    monkeypatch.setattr(source, "SMALL_FILE", 0)
    large = LocalSource(tmp_path / "history.parquet")
    assert not large.has("no such column")
    assert not small.has("no such column")
    return small, large


def rows_of(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def test_both_return_the_same_batches(sources):
    (count, small), (same_count, large) = (reader.batches(COLUMNS, TEXTS) for reader in sources)
    small, large = list(small), list(large)
    assert [batch.schema for batch in small] == [batch.schema for batch in large]
    assert rows_of(small) == rows_of(large)
    assert count == same_count == len(rows_of(small)) > 5


def test_both_return_the_same_operations(sources):
    for ops in ([1, 3, 3], [0], [], [10**9]):
        small, large = (rows_of(reader.operations(np.array(ops, dtype=np.int64), ("index", "mops"))) for reader in sources)
        assert small == large
        assert [row["index"] for row in small] == [op for op in sorted(set(ops)) if op < 10**6]


def test_both_select_the_same_rows(sources):
    small, large = (reader.select(("index", "f", "detail"), ds.field("f") == "final-read").to_pylist() for reader in sources)
    assert small == large
    assert {row["f"] for row in small} == {"final-read"}


def test_a_column_that_is_not_there_is_an_error_in_both(sources):
    for reader in sources:
        with pytest.raises(read_errors()):
            reader.select(("index", "g"), ds.field("index") == 0)


def test_a_file_that_is_gone_is_an_error(tmp_path):
    with pytest.raises(read_errors()):
        LocalSource(tmp_path / "gone").batches(COLUMNS)
