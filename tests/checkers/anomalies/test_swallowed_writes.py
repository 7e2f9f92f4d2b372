"""`swallowed-write`: what its finding shows beside the records. The histories are in `checkers/data/judged_swallowed.txt`."""

import pytest
from support.histories import History, finding, violated
from support.judging import judge_here


def swallowed(h, sends, type="ok", **fields):
    """A transaction of process 0 whose record in t-0 is acknowledged at 5, where its aborted predecessor's lies."""
    h.txn(0, {"t-0": [5]}, type="fail")
    older = h.v("t-0", 5)
    h.txn(0, sends, type=type, **fields)
    return older


@pytest.mark.parametrize(
    ("sends", "type", "seen", "includes"),
    [
        ({"t-0": [5]}, "ok", {}, ["lost-write"]),
        ({"t-0": [5], "t-1": [3]}, "ok", {"t-1": [3]}, ["lost-write", "torn-transaction"]),
        ({"t-0": [5], "t-1": [3]}, "info", {"t-1": [3]}, ["lost-write", "torn-transaction"]),
        ({"t-0": [5]}, "info", {}, ["inconsistent-offset"]),
        ({"t-0": [5]}, "fail", {}, ["inconsistent-offset"]),
    ],
)
def test_a_finding_names_the_anomalies_that_it_stands_for(tmp_path, sends, type, seen, includes):
    h = History()
    older = swallowed(h, sends, type)
    h.final({"t-0": [], **seen}, {"t-0": [(5, older)], **seen})
    document = judge_here(tmp_path, h.ops)
    assert violated(document) == ["swallowed-write"]
    assert finding(document, "swallowed-write")["includes"] == includes


def test_one_transaction_swallowed_in_two_partitions_is_one_finding(tmp_path):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [3]}, type="fail")
    older = {"t-0": [(5, h.v("t-0", 5))], "t-1": [(3, h.v("t-1", 3))]}
    h.txn(0, {"t-0": [5], "t-1": [3]})
    h.final({"t-0": [], "t-1": []}, older)
    document = judge_here(tmp_path, h.ops)
    assert violated(document) == ["swallowed-write"]
    assert [row["size"] for row in document["findings"] if row["forbidden"]] == [6]


def test_two_records_swallowed_by_one_older_record_are_two_findings(tmp_path):
    """Each transaction lost its own record."""
    h = History()
    older = swallowed(h, {"t-0": [5]})
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": []}, {"t-0": [(5, older)]})
    document = judge_here(tmp_path, h.ops)
    assert violated(document) == ["swallowed-write"]
    assert len([row for row in document["findings"] if row["anomaly"] == "swallowed-write"]) == 2
