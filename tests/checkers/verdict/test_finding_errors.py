"""Definite errors beside a finding."""

from __future__ import annotations

import pytest
from support.histories import History

from fencepost.checkers.model.findings import Finding
from fencepost.checkers.verdict.finding_errors import definite_errors, listed_findings


def error(name: str, **flags: bool) -> dict[str, object]:
    return {
        "call": "commit",
        "name": name,
        "code": 1,
        "text": "",
        "time": 0,
        "fatal": False,
        "retriable": False,
        "abortable": False,
        **flags,
    }


@pytest.mark.parametrize(
    ("errors", "names"),
    [
        ([], []),
        ([error("INVALID_TXN_STATE", fatal=True), error("INVALID_TXN_STATE", abortable=True)], ["INVALID_TXN_STATE"]),
        ([error("_TIMED_OUT"), error("NOT_COORDINATOR", retriable=True)], []),
        ([error("UNKNOWN_PRODUCER_ID"), error("INVALID_PRODUCER_EPOCH")], ["INVALID_PRODUCER_EPOCH", "UNKNOWN_PRODUCER_ID"]),
        ([{"name": None}, {}], []),
        ([error("X" * 1000)], ["X" * 100]),
    ],
)
def test_errors_of_the_client_itself_and_those_that_may_be_retried_do_not_count(errors, names):
    assert definite_errors(errors) == names


def test_a_finding_about_one_operation_has_its_definite_errors(judged):
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail", errors=[error("INVALID_TXN_STATE", fatal=True)])
    h.poll(1, {"t-0": [(5, h.v("t-0", 5))]})
    [finding] = [finding for finding in judged(h)["findings"] if finding["anomaly"] == "aborted-read"]
    assert finding["errors"] == ["INVALID_TXN_STATE"]
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail", errors=[error("_TIMED_OUT")])
    h.poll(1, {"t-0": [(5, h.v("t-0", 5))]})
    [finding] = [finding for finding in judged(h)["findings"] if finding["anomaly"] == "aborted-read"]
    assert "errors" not in finding


def test_a_finding_about_several_operations_has_none(judged):
    h = History()
    for process in (0, 1):
        h.txn(process, {"t-0": [5 + process]}, errors=[error("INVALID_TXN_STATE", fatal=True)])
    h.poll(2, {"t-0": [5, 6, (7, h.v("t-0", 5))]})
    [finding] = [finding for finding in judged(h)["findings"] if finding["anomaly"] == "duplicate"]
    assert finding["errors"] == ["INVALID_TXN_STATE"], "one record, of one operation"


def test_the_findings_of_a_verdict_have_one_of_each_class_of_errors():
    findings = [Finding("duplicate", [], id=n, detail={"errors": [f"E{n}"]} if n in (7, 9) else {}) for n in range(10)]
    assert [finding.id for finding in listed_findings(findings, 4)] == [0, 1, 7, 9]
    assert [finding.id for finding in listed_findings(findings, 2)] == [0, 7], "more classes than places"
    assert listed_findings(findings, 10) == findings


def test_a_rare_error_behind_a_hundred_findings_is_in_the_verdict(judged):
    h = History()
    for n in range(120):
        h.txn(0, {"t-0": [n]}, type="fail", errors=[error("INVALID_TXN_STATE", fatal=True)] if n == 110 else [])
    h.poll(1, {"t-0": [(n, h.v("t-0", n)) for n in range(120)]})
    found = [finding for finding in judged(h)["findings"] if finding["anomaly"] == "aborted-read"]
    assert (len(found), [finding.get("errors") for finding in found].count(["INVALID_TXN_STATE"])) == (100, 1)
