"""Epochs that go back, in the log of one partition or from instance to instance; and those that only seem to."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import History, answer, finding
from support.judging import judge_here

from fencepost.harness.api.history import STORED, schema
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.manifest import ManifestWriter
from fencepost.harness.history.run_directory import open_run

ID = {"transactional_id": "id"}
NAMES = [column.name for column in STORED if not column.optional]


def stored(folder, *rows):
    """Rows (node, partition, offset, producer id, epoch, kind, v)."""
    whole = [(node, partition, offset, 1, pid, epoch, 0, 1000, kind, v) for node, partition, offset, pid, epoch, kind, v in rows]
    documents = [dict(zip(NAMES, row, strict=True)) for row in whole]
    pq.write_table(pa.Table.from_pylist(documents, schema=schema(STORED)), folder / RunFile.STORED)


def two_instances():
    """Process 0 writes t-0@5, process 1 takes over and writes t-1@7."""
    h = History()
    for process, place in ((0, {"t-0": [5]}), (1, {"t-1": [7]})):
        h.add(process, "initialise", **ID)
        h.txn(process, place, **ID)
    h.final({"t-0": [5], "t-1": [7]})
    return h


def judged(folder, h, *rows):
    stored(folder, *rows)
    document = judge_here(folder, h.ops)
    return answer(document, "epoch-regression"), document


def test_epochs_that_grow_hold(tmp_path):
    h = two_instances()
    outcome, _ = judged(
        tmp_path,
        h,
        *((node, "t-0", 5, 3, 1, "record", h.v("t-0", 5)) for node in ("n1", "n2")),
        ("n1", "t-0", 6, 3, 1, "COMMIT", None),
        ("n1", "t-1", 7, 3, 2, "record", h.v("t-1", 7)),
    )
    assert (outcome["verdict"], outcome["compared"]) == ("held", 2)


def test_an_older_epoch_above_a_newer_one_in_a_log_is_found(tmp_path):
    h = two_instances()
    rows = ("n1", "t-0", 3, 3, 2, "ABORT", None), ("n1", "t-0", 5, 3, 1, "record", h.v("t-0", 5))
    outcome, document = judged(tmp_path, h, *rows)
    assert outcome["verdict"] == "violated"
    assert "epoch 1 of producer id 3" in finding(document, "epoch-regression")["sentence"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [(5, 3, 2, "record"), (6, 3, 1, "COMMIT")],
            "the COMMIT marker at offset 6 has epoch 1 of producer id 3, after epoch 2",
        ),
        # a producer that no operation of the run is known to have used
        (
            [(1, 99, 5, "ABORT"), (2, 99, 4, "record")],
            "a record at offset 2 has epoch 4 of producer id 99, after epoch 5",
        ),
    ],
)
def test_no_writer_is_named_for_a_regression_that_it_did_not_write(tmp_path, rows, words):
    h = two_instances()
    known = {5: h.v("t-0", 5)}
    _, document = judged(tmp_path, h, *(("n1", "t-0", at, pid, epoch, kind, known.get(at)) for at, pid, epoch, kind in rows))
    assert finding(document, "epoch-regression")["sentence"].startswith(f"In the log of t-0 {words}")


def test_each_place_has_its_own_epoch(tmp_path):
    h = History()
    for offset in (5, 7, 8):
        h.txn(0, {"t-0": [offset]}, **ID)
    h.final({"t-0": [5, 7, 8]})
    rows = [("n1", "t-0", at, 3, epoch, "record", h.v("t-0", at)) for at, epoch in ((5, 2), (7, 1), (8, 0))]
    assert finding(judged(tmp_path, h, *rows)[1], "epoch-regression")["sentence"] == (
        "Transaction 1 of process 0 wrote t-0@7 with epoch 1 of producer id 3 (the first of 2 such places), after epoch 2 at "
        "offset 5."
    )


def test_an_instance_with_the_epoch_of_the_one_before_is_found(tmp_path):
    """In other partitions, so that no log shows it by itself."""
    h = two_instances()
    rows = ("n1", "t-0", 5, 3, 2, "record", h.v("t-0", 5)), ("n1", "t-1", 7, 3, 2, "record", h.v("t-1", 7))
    outcome, document = judged(tmp_path, h, *rows)
    assert outcome["verdict"] == "violated"
    assert [record["v"] for record in finding(document, "epoch-regression")["records"]] == [h.v("t-1", 7)]


def test_an_instance_whose_initialise_took_no_time_is_not_the_one_before(tmp_path):
    h = two_instances()
    for op in h.ops:
        if op["f"] == "initialise":
            op["end"] = op["time"]
    rows = ("n1", "t-0", 5, 3, 1, "record", h.v("t-0", 5)), ("n1", "t-1", 7, 3, 2, "record", h.v("t-1", 7))
    assert judged(tmp_path, h, *rows)[0]["verdict"] == "held"


@pytest.mark.parametrize("lower", [0, 1])
def test_each_replica_is_a_log_by_itself(tmp_path, lower):
    """n1 has records of epoch 1 where the others have a marker of epoch 2: it was not in sync, and has not cut them off yet. An
    epoch that goes back is found on one replica alone, and compared with what lies before it there."""
    h = two_instances()
    rows = [("n1", "t-0", offset, 3, epoch, "record", None) for offset, epoch in ((2, lower), (3, 1), (4, 0))]
    rows = rows[: 2 + (lower == 0)]
    others = [(node, "t-0", offset, 3, 2, "ABORT", None) for node in ("n2", "n3") for offset in (2, 3)]
    outcome, document = judged(tmp_path, h, *rows, *others)
    assert outcome["verdict"] == ("held" if lower else "violated")
    if not lower:
        sentence = finding(document, "epoch-regression")["sentence"]
        assert sentence == "In the log of t-0 a record at offset 4 has epoch 0 of producer id 3, after epoch 1 at offset 3."


def test_a_copy_has_the_epoch_of_who_copied_it(tmp_path):
    """MirrorMaker's tasks write the records of two instances with one producer id, in one epoch."""
    h = two_instances()
    rows = ("n1", "t-0", 5, 3, 1, "record", h.v("t-0", 5)), ("n1", "t-1", 7, 3, 2, "record", h.v("t-1", 7))
    copies = [("n1", "copy-0", offset, 90, 0, "record", h.v(f"t-{offset}", place)) for offset, place in ((0, 5), (1, 7))]
    assert judged(tmp_path, h, *rows, *copies)[0]["verdict"] == "held"


def test_another_producer_id_begins_anew(tmp_path):
    h = two_instances()
    rows = ("n1", "t-0", 5, 3, 9, "record", h.v("t-0", 5)), ("n1", "t-1", 7, 4, 0, "record", h.v("t-1", 7))
    assert judged(tmp_path, h, *rows)[0]["verdict"] == "not exercised"


def test_without_logs_it_is_not_exercised_and_with_a_damaged_table_unknown(tmp_path):
    h = two_instances()
    assert "no stored.parquet" in answer(judge_here(tmp_path, h.ops), "epoch-regression")["reason"]
    (tmp_path / RunFile.STORED).write_text("no table")
    assert answer(judge_here(tmp_path, h.ops), "epoch-regression")["verdict"] == "unknown"


def test_logs_of_another_run_are_no_evidence(tmp_path):
    """The table is whole, and not the one that the run's manifest counts."""
    h = two_instances()
    rows = ("n1", "t-0", 3, 3, 2, "ABORT", None), ("n1", "t-0", 5, 3, 1, "record", h.v("t-0", 5))
    assert judged(tmp_path, h, *rows)[0]["verdict"] == "violated"
    ManifestWriter(tmp_path, open_run(tmp_path).plan, 1).complete()
    assert judged(tmp_path, h, *rows)[0]["verdict"] == "violated"
    outcome, _ = judged(tmp_path, h, *rows, ("n1", "t-1", 7, 3, 1, "record", h.v("t-1", 7)))
    assert outcome["verdict"] == "unknown"
    assert "its checksum is another" in outcome["reason"]
