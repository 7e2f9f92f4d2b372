"""The protocol that was spoken, by the epochs of the markers in the brokers' logs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.api.history import STORED, schema
from fencepost.harness.history.transaction_protocol import spoken


def stored(path, *markers):
    """Rows of two brokers each: (offset, producer id, epoch)."""
    rows = [
        {"node": node, "partition": "t-0", "offset": at, "producer_id": producer, "producer_epoch": epoch, "kind": "COMMIT"}
        for node in ("n1", "n2")
        for at, producer, epoch in markers
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema(STORED)), path)
    return path


@pytest.mark.parametrize(
    ("markers", "words"),
    [
        ([(1, 7, 0), (3, 7, 0)], "TV1 (KIP-98): 1 producer"),
        ([(1, 7, 0), (3, 7, 1), (5, 8, 0), (7, 8, 2)], "TV2 (KIP-890): 2 producers"),
        ([(1, 7, 0), (3, 7, 1), (5, 8, 0), (7, 8, 0)], "TV1 (KIP-98): 1 producer, TV2 (KIP-890): 1 producer"),
        ([(1, 7, 0), (3, 8, 0)], ""),  # one marker each shows nothing
    ],
)
def test_two_markers_of_one_epoch_are_the_first_protocol(tmp_path, markers, words):
    assert spoken(stored(tmp_path / "stored.parquet", *markers)) == words


def test_without_logs_nothing_is_reported(tmp_path):
    assert spoken(tmp_path / "stored.parquet") == ""
