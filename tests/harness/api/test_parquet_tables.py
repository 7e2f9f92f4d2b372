"""A table of a run's directory: what is damaged is said in a sentence, whatever byte it is."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.judging import no_session

from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.pipeline.stored_logs import stored_logs
from fencepost.checkers.verdict.opening import view_of
from fencepost.harness.api.history import RECEIPTS, STORED, demand_columns, schema, writing
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run

_LENGTH = 8  # of what ends the file behind its footer


@pytest.fixture
def content(tmp_path):
    table = pa.table({field.name: pa.nulls(3, field.type) for field in schema(STORED)})
    pq.write_table(table, tmp_path / "stored.parquet", **writing(table.schema))
    return (tmp_path / "stored.parquet").read_bytes()


def test_a_footer_with_any_damaged_byte_is_refused_or_read(tmp_path, content):
    """Names of columns lie in it, which are no text then."""
    footer = int.from_bytes(content[-_LENGTH:][:4], "little")
    for at in range(len(content) - _LENGTH - footer, len(content), 5):
        path = tmp_path / "damaged.parquet"
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x80]) + content[at + 1 :])
        with suppress(OSError):
            demand_columns(path, STORED)


def test_a_damaged_page_is_told_to_whoever_asks(tmp_path, content):
    footer = int.from_bytes(content[-_LENGTH:][:4], "little")
    damaged = bytearray(content)
    damaged[(len(content) - footer) // 2] ^= 1
    (tmp_path / "damaged.parquet").write_bytes(damaged)
    with pytest.raises(OSError, match=r"CRC checksum verification failed|Couldn't deserialize|page header"):
        pq.read_table(tmp_path / "damaged.parquet", page_checksum_verification=True)


def test_numbers_of_any_size_are_read_as_they_were_written(tmp_path):
    """They are stored as differences, which may be larger than the numbers are."""
    extremes = [-(1 << 63), (1 << 63) - 1, None, -1, 0, (1 << 63) - 1, -(1 << 63)]
    kinds = {"number": pa.int64(), "list": pa.list_(pa.struct([("v", pa.int64()), ("partition", pa.string())]))}
    columns = {"number": extremes * 300, "list": [[{"v": v, "partition": "t-0"}] * 3 for v in extremes * 300]}
    table = pa.table(columns, schema=pa.schema(list(kinds.items())))
    path = tmp_path / "numbers.parquet"
    pq.write_table(table, path, **writing(table.schema))
    assert pq.read_table(path).equals(table)
    chunks = [pq.read_metadata(path).row_group(0).column(at) for at in range(3)]
    stored = {chunk.path_in_schema: "DELTA_BINARY_PACKED" in chunk.encodings for chunk in chunks}
    assert stored == {"number": True, "list.list.element.v": True, "list.list.element.partition": False}


@pytest.mark.parametrize("file", [RunFile.RECEIPTS, RunFile.STORED])
def test_a_damaged_page_of_another_table_is_named_where_no_manifest_has_a_checksum(tmp_path, file):
    write_lawful(tmp_path, transactions=3)
    columns = {RunFile.RECEIPTS: RECEIPTS, RunFile.STORED: STORED}[file]
    values = {"string": "x", "bool": False, "int8": 1, "int16": 1, "int32": 1, "int64": 1}
    rows = [{column.name: values.get(column.type) for column in columns} for _ in range(3)]
    table = pa.Table.from_pylist(rows, schema=schema(columns))
    pq.write_table(table, tmp_path / file, **writing(table.schema))
    group = pq.read_metadata(tmp_path / file).row_group(0)
    leaf = next(leaf for leaf in map(group.column, range(group.num_columns)) if leaf.physical_type == "INT64")
    content = bytearray((tmp_path / file).read_bytes())
    content[leaf.data_page_offset + leaf.total_compressed_size - 1] ^= 1
    (tmp_path / file).write_bytes(content)
    run = open_run(tmp_path)
    if file == RunFile.RECEIPTS:
        assert "CRC checksum" in str(run.receipts)
    else:
        with pytest.raises(OSError, match="CRC checksum"):
            stored_logs(view_of(run, no_session, here=True).view)
