"""Findings in imported histories give the original values of their records."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import History, finding

from fencepost.checkers.model.findings import LONGEST_VALUE, FindingRecord
from fencepost.checkers.model.values import NONE


@pytest.fixture
def named(judged, tmp_path):
    """Judge a history whose records have values of their own: identity -> value."""

    def run(history, values):
        table = {"v": list(values), "partition": ["t-0"] * len(values), "value": list(values.values())}
        pq.write_table(pa.table(table), tmp_path / "values.parquet")
        return judged(history)

    return run


def doubled() -> History:
    """Offsets 5 and 9 hold the same record; that at 7 is lost."""
    h = History()
    h.txn(0, {"t-0": [5, 7]})
    h.final({"t-0": [5, (9, h.v("t-0", 5))]})
    return h


def test_sentences_and_records_of_a_finding_have_the_original_value(named, tmp_path):
    h = doubled()
    document = named(h, {h.v("t-0", 5): "apple", h.v("t-0", 7): "pear"})
    assert (
        "sent one record (value apple) to t-0, and readers got it at offsets 5 and 9"
        in finding(document, "duplicate")["sentence"]
    )
    lost = finding(document, "lost-write")
    assert "t-0@7 (value pear)" in lost["sentence"]
    assert [record["value"] for record in lost["records"]] == ["pear"]
    assert "(value pear)" in "".join(pq.read_table(tmp_path / "anomalies.parquet")["sentence"].to_pylist())


def test_the_sentence_of_a_cycle_has_the_original_values(named):
    """Two transactions, each below the other in one of two partitions."""
    h = History()
    h.txn(0, {"t-0": 5, "t-1": 7})
    h.txn(1, {"t-0": 7, "t-1": 5})
    h.final({"t-0": [5, 7], "t-1": [5, 7]})
    document = named(h, {h.v("t-0", 5): "a", h.v("t-0", 7): "b", h.v("t-1", 5): "c", h.v("t-1", 7): "d"})
    cycle = finding(document, "G0")
    assert "wrote t-0@5 (value a) right before" in cycle["sentence"]
    whys = " / ".join(step["why"] for step in cycle["cycle"]["edges"])
    assert all(place in whys for place in ("t-0@5 (value a)", "t-0@7 (value b)", "t-1@5 (value c)", "t-1@7 (value d)"))


def test_findings_in_our_own_histories_have_no_original_value(judged):
    document = judged(doubled())
    assert "value" not in "".join(row["sentence"] for row in document["findings"])
    assert all("value" not in record for row in document["findings"] for record in row["records"])


@pytest.mark.parametrize("content", [b"PAR1 no such thing", b""])
def test_a_damaged_values_file_costs_the_original_values_only(judged, tmp_path, content):
    (tmp_path / "values.parquet").write_bytes(content)
    document = judged(doubled())
    assert "at offsets 5 and 9" in finding(document, "duplicate")["sentence"]


@pytest.mark.parametrize(
    ("offset", "value", "place"),
    [
        (17, "", "5@17"),
        (17, "42", "5@17 (value 42)"),
        (NONE, "42", "5 (offset unknown, value 42)"),
        (NONE, "", "5 (offset unknown)"),
        (17, "a\nb\x1b[2J", "5@17 (value a\\nb\\x1b[2J)"),
        (17, "x" * 100, f"5@17 (value {'x' * (LONGEST_VALUE - 1)}…)"),
    ],
)
def test_a_records_place_is_one_short_line_whatever_its_value_holds(offset, value, place):
    assert FindingRecord("5", 0, 1, offset, 0, "read", value).place == place
