"""A table of a run's directory: what is damaged is said in a sentence, whatever byte it is."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.api.history import STORED, WRITTEN, demand_columns, schema

_LENGTH = 8  # of what ends the file behind its footer


@pytest.fixture
def content(tmp_path):
    pq.write_table(
        pa.table({field.name: pa.nulls(3, field.type) for field in schema(STORED)}), tmp_path / "stored.parquet", **WRITTEN
    )
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
