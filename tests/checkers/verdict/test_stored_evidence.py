"""Contents of the brokers' logs, which are shown beside a finding and decide nothing."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import History, finding, violated
from support.judging import judge_here

from fencepost.harness.api import record_id
from fencepost.harness.api.history import STORED, schema
from fencepost.harness.api.run import RunFile

OLDER, SWALLOWED, OTHER = record_id(0, 0, 0), record_id(0, 1, 0), record_id(1, 0, 0)


def swallowed():
    """Process 0's record is acknowledged at t-0@5, where its aborted predecessor lies."""
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail")
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [9]})
    h.final({"t-0": [9]}, {"t-0": [(5, OLDER), 9]})
    return h


def stored(folder, *rows, transactional=None):
    """Rows (node, offset, kind, v) of t-0, with the producer id and the partition where they are others.

    transactional: of all records; None: the table does not say.
    """
    names = [column.name for column in STORED if not column.optional]
    documents = []
    for node, offset, kind, v, *others in rows:
        producer, partition = [*others, *(7, "t-0")[len(others) :]]
        row = dict(zip(names, (node, partition, offset, 1, producer, 0, offset, 1000, kind, v), strict=True))
        documents.append(row | ({} if transactional is None else {"transactional": transactional}))
    whole = schema(STORED)
    columns = [field for field in whole if field.name in names or (transactional is not None and field.name == "transactional")]
    pq.write_table(pa.Table.from_pylist(documents, schema=pa.schema(columns)), folder / RunFile.STORED)


def test_a_finding_shows_what_every_log_holds_at_its_place_and_that_none_holds_the_record(tmp_path):
    stored(
        tmp_path,
        *((node, *row) for node in ("n1", "n2") for row in ((5, "record", OLDER), (6, "ABORT", None), (9, "record", OTHER))),
    )
    evidence = finding(judge_here(tmp_path, swallowed().ops), "swallowed-write")["stored"]
    assert (evidence["nodes"], evidence["absent"]) == (["n1", "n2"], [SWALLOWED])
    assert [(row["offset"], row["kind"], row["v"], row["nodes"]) for row in evidence["rows"]] == [
        (5, "record", OLDER, ["n1", "n2"]),
        (6, "ABORT", None, ["n1", "n2"]),
        (9, "record", OTHER, ["n1", "n2"]),
    ]


def test_logs_that_differ_are_shown_one_by_one_and_a_record_wherever_it_lies(tmp_path):
    far = [("n1", offset, "record", None) for offset in range(10, 40)]
    stored(tmp_path, ("n1", 5, "record", OLDER), ("n2", 5, "record", OTHER), *far, ("n2", 77, "record", SWALLOWED))
    evidence = finding(judge_here(tmp_path, swallowed().ops), "swallowed-write")["stored"]
    assert evidence["absent"] == []
    shown = [(row["offset"], row["v"], row["nodes"]) for row in evidence["rows"]]
    assert shown == [(5, OLDER, ["n1"]), (5, OTHER, ["n2"]), (10, None, ["n1"]), (11, None, ["n1"]), (77, SWALLOWED, ["n2"])]


@pytest.mark.parametrize("damage", [b"", b"PAR1 nothing", None])
def test_missing_or_damaged_logs_are_no_verdict(tmp_path, damage):
    if damage is not None:
        (tmp_path / RunFile.STORED).write_bytes(damage)
    document = judge_here(tmp_path, swallowed().ops)
    assert violated(document) == ["swallowed-write"]
    assert "stored" not in finding(document, "swallowed-write")
    assert any("stored.parquet could not be read" in text for text in document["weakened"]) == (damage is not None)


def fates(document, anomaly):
    return [
        (fate["v"], fate["fate"], fate["offset"], fate["marker"], fate["nodes"])
        for fate in finding(document, anomaly)["stored"]["fates"]
    ]


def test_a_finding_says_what_the_logs_make_of_each_of_its_records(tmp_path):
    """Another producer's marker decides nothing, nor does one before the record; the marker's row is shown, wherever it is."""
    far = [("n1", offset, "record", None, 8) for offset in range(10, 90)]
    rows = [
        (4, "COMMIT", None, 7),
        (5, "record", OLDER, 7),
        (6, "COMMIT", None, 8),
        (9, "record", SWALLOWED, 7),
        (95, "ABORT", None, 7),
    ]
    stored(tmp_path, *((node, *row) for node in ("n1", "n2") for row in rows), *far, transactional=True)
    document = judge_here(tmp_path, swallowed().ops)
    assert fates(document, "swallowed-write") == [
        (OLDER, "aborted", 5, 95, ["n1", "n2"]),
        (SWALLOWED, "aborted", 9, 95, ["n1", "n2"]),
    ]
    assert 95 in [row["offset"] for row in finding(document, "swallowed-write")["stored"]["rows"]]


def test_each_log_has_its_own_answer_and_one_without_the_partition_has_none(tmp_path):
    rows = [
        ("n1", 5, "record", OLDER, 7),
        ("n1", 6, "COMMIT", None, 7),
        ("n2", 5, "record", OLDER, 7),
        ("n3", 5, "record", OTHER, 7),
    ]
    stored(tmp_path, *rows, ("n4", 5, "record", OTHER, 7, "t-1"), transactional=True)
    assert fates(judge_here(tmp_path, swallowed().ops), "swallowed-write") == [
        (OLDER, "committed", 5, 6, ["n1"]),
        (OLDER, "open", 5, None, ["n2"]),
        (OLDER, "absent", None, None, ["n3"]),
        (SWALLOWED, "absent", None, None, ["n1", "n2", "n3"]),
    ]


@pytest.mark.parametrize(("transactional", "expected"), [(False, "plain"), (None, "unknown")])
def test_what_is_in_no_transaction_waits_for_no_marker(tmp_path, transactional, expected):
    stored(tmp_path, ("n1", 5, "record", OLDER, 7), transactional=transactional)
    (old, _) = fates(judge_here(tmp_path, swallowed().ops), "swallowed-write")
    assert old == (OLDER, expected, 5, None, ["n1"])
