"""The columns of a history, each declared once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.harness.api.faults import Receipt
from fencepost.harness.api.history import ANOMALIES, OPERATIONS, RECEIPTS, STRUCTS, table

PAGE = (Path(__file__).parents[3] / "docs" / "history.md").read_text()


TABLES = {"operations": OPERATIONS, **STRUCTS, "receipts": RECEIPTS, "anomalies": ANOMALIES}


@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
def test_the_page_shows_every_column_as_it_is_declared(columns):
    """`python -m fencepost.harness.api.history` prints the tables for docs/history.md."""
    assert table(columns) in PAGE


def test_a_receipt_has_a_column_for_each_of_its_fields():
    assert [column.name for column in RECEIPTS] == list(Receipt.__dataclass_fields__)
