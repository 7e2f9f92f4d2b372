"""Expectations of a test, bound to their causes: literal findings, and whether they meet them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from support.histories import History
from support.installed import INSTALLED

from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, Rule
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.verdict.decision import JudgedProperty, decide
from fencepost.checkers.verdict.expectation import compare, of_short_run
from fencepost.harness.api import record_id
from fencepost.harness.api.values import Property

T, U, X, Y, Z = (record_id(process, 0, 0) for process in range(1, 6))  # the first records of five transactions
T2 = record_id(1, 0, 1)


def missing(v, partition="t-0", offset=7, op=0):
    return FindingRecord(partition, op, v, offset, 0, "missing")


def read(v, partition="t-0", offset=7, op=9):
    return FindingRecord(partition, op, v, offset, 0, "read")


def sent(v, partition="t-0", offset=7, op=0):
    return FindingRecord(partition, op, v, offset, 0, "sent")


TORN = ("torn-transaction", [read(T, "t-0"), missing(T2, "t-1")])
LOST_HALF = ("lost-write", [missing(T2, "t-1")])


def properties(anomalies, allowed=()):
    """Properties of findings (anomaly, records); one more that held."""
    made = [JudgedProperty("wrong-partition", Rule(FORBIDDEN, "why"), Property.HELD, 3)]
    made.append(JudgedProperty("order-inversion", Rule(FORBIDDEN, "why", essential=True), Property.NOT_EXERCISED, 0, "too short"))
    for name in dict.fromkeys(name for name, _ in anomalies):
        findings = [
            Finding(name, list(records), id=number) for number, (anomaly, records) in enumerate(anomalies, 1) if anomaly == name
        ]
        rule = Rule(ALLOWED if name in allowed else FORBIDDEN, "why")
        check = INSTALLED.get(name)
        bound = {"consequences": check.consequences, "attribution": check.attribution} if check else {}
        made.append(JudgedProperty(name, rule, Property.VIOLATED, 5, "", findings, **bound))
    return made


def compared(expect, anomalies, tolerate=(), allowed=(), **unread):
    return compare(expect, tolerate, properties(anomalies, allowed), partial(decide, **unread))


@pytest.mark.parametrize(
    "anomalies",
    [
        [TORN],
        [TORN, LOST_HALF],
        [TORN, ("aborted-read", [sent(T), read(T)])],
        [TORN, LOST_HALF, ("inconsistent-offset", [read(T2, "t-1"), read(U, "t-1")])],  # of the lost half: a consequence of it
        [TORN, ("stale-read", [FindingRecord("t-1", 8, -1, -1, 0, "read"), read(T2, "t-1"), missing(T2, "t-1")])],
        [TORN, ("G1c-wr", [sent(T), read(T), sent(U, "t-2"), read(U, "t-2")])],
        [TORN, ("torn-transaction", [read(U), missing(U, "t-1")])],
    ],
)
def test_consequences_at_the_same_transaction_and_partition_are_expected(anomalies):
    assert compared(["torn-transaction"], anomalies).met


@pytest.mark.parametrize(
    ("expect", "anomalies", "unexpected"),
    [
        # the second loss shares the operation T, or a finding, with the torn transaction
        ("torn-transaction", [TORN, ("lost-write", [missing(T2, "t-1"), missing(U, "t-1", 8)])], ["lost-write"]),
        ("torn-transaction", [TORN, LOST_HALF, ("lost-write", [missing(T, "t-3")])], ["lost-write"]),
        ("torn-transaction", [TORN, ("lost-write", [missing(U)])], ["lost-write"]),
        # the reader that read early skips another record, in another partition
        (
            "dirty-read",
            [("dirty-read", [sent(T), read(T)]), ("poll-skip", [read(U, "t-1", 5), read(U, "t-1", 9), missing(X, "t-1")])],
            ["poll-skip"],
        ),
        (
            "lost-write",
            [("lost-write", [missing(T)]), ("inconsistent-offset", [read(T), read(U), read(X, offset=9), read(Y, offset=9)])],
            ["inconsistent-offset"],
        ),
        ("torn-transaction", [TORN, ("duplicate", [sent(T), read(T), read(T, offset=8)])], ["duplicate"]),
        ("lost-write", [("lost-write", [missing(T)]), TORN], ["torn-transaction"]),
        ("torn-transaction alone", [TORN, LOST_HALF], ["lost-write"]),
        ("torn-transaction", [TORN, ("lso-stall", [FindingRecord("t-0", 0, -1, 6, 0, "missing")])], ["lso-stall"]),
        ("torn-transaction", [TORN, ("somebody's own", [read(U)])], ["somebody's own"]),
    ],
)
def test_whatever_is_about_other_records_is_unexpected(expect, anomalies, unexpected):
    comparison = compared([expect], anomalies)
    assert (comparison.met, list(comparison.unexpected)) == (False, unexpected)
    assert comparison.sentence.startswith(f"not expected: {unexpected[0]} (#")


THREE = [("lost-write", [missing(v, offset=offset)]) for offset, v in enumerate((X, Y, Z))]


@pytest.mark.parametrize(
    ("tolerate", "anomalies", "met"),
    [
        (["lost-write"], [TORN, LOST_HALF], True),
        (["lost-write"], [TORN, *THREE], False),
        (["lost-write anywhere"], [TORN, *THREE], True),
        (["duplicate"], [TORN, ("duplicate", [sent(T), read(T), read(T, offset=8)])], True),
        (["duplicate"], [TORN, ("duplicate", [sent(U), read(U), read(U, offset=8)])], False),
        (["inconsistent-offset"], [TORN, LOST_HALF, ("inconsistent-offset", [read(T2, "t-1"), sent(U, "t-1")])], True),
        (["duplicate anywhere"], [TORN, *THREE], False),
        (["phantom"], [TORN, ("phantom", [read(123456789)])], True),  # it was never sent: bound by its partition
        (["phantom"], [TORN, ("phantom", [read(123456789, "t-5")])], False),
        (["torn-offset"], [TORN, ("torn-offset", [sent(-1)])], False),  # an offset is no record, and bound by nothing
        (["torn-offset anywhere"], [TORN, ("torn-offset", [sent(-1)])], True),
    ],
)
def test_what_is_tolerated_is_bound_to_the_cause_unless_it_may_be_anywhere(tolerate, anomalies, met):
    comparison = compared(["torn-transaction"], anomalies, tolerate)
    assert comparison.met is met
    assert bool(comparison.unexpected) is not met


def test_unexpected_findings_are_named():
    comparison = compared(["torn-transaction"], [TORN, *THREE], ["lost-write"])
    assert comparison.sentence == "not expected: lost-write (#2, #3, #4)"
    assert comparison.document() == [{"name": "lost-write", "count": 3, "findings": [2, 3, 4]}]


def test_what_came_along_is_named_where_the_expectation_is_met():
    assert compared(["torn-transaction"], [TORN, LOST_HALF]).sentence == "with 1 lost-write"


def test_an_anomaly_that_the_contract_allows_meets_no_expectation():
    comparison = compared(["duplicate"], [("duplicate", [sent(T), read(T), read(T, offset=8)])], allowed=["duplicate"])
    assert not comparison.met
    assert comparison.sentence == "not found: duplicate (only as the contract allows it)"


def test_an_expectation_is_not_met_where_other_anomalies_are_unknown():
    comparison = compared(["torn-transaction"], [TORN], unread=["t-3"])
    assert comparison.met is None
    assert "nobody knows what else there is: nothing is known of losses in t-3" in comparison.sentence
    broken = [*properties([TORN]), JudgedProperty("duplicate", Rule(FORBIDDEN, "why"), Property.UNKNOWN, 0, "it broke")]
    assert compare(["torn-transaction"], [], broken, decide).met is None
    assert compared(["torn-transaction"], [TORN, *THREE], unread=["t-3"]).met is False, "what is unexpected stays so"
    assert compared(["torn-transaction", "duplicate"], [TORN], unread=["t-3"]).met is None, "a duplicate may be in t-3"


def test_every_expected_anomaly_must_be_found():
    comparison = compared(["torn-transaction", "duplicate"], [TORN])
    assert (comparison.met, comparison.sentence) == (False, "not found: duplicate")


@pytest.mark.parametrize("expect", [["valid"], []])
def test_a_test_that_expects_valid_takes_nothing_else(expect):
    assert compare(expect, [], properties([])[:1], decide).met
    assert compared(expect, []).met is None, "order-inversion was not exercised"
    assert compared(expect, [TORN]).met is False
    assert compared(expect, [], unread=["t-0"]).met is None


@pytest.mark.parametrize(
    ("expect", "anomalies", "unread", "met", "otherwise"),
    [
        (["valid"], [], [], None, None),  # order-inversion was not exercised
        (["valid"], [TORN], [], False, None),
        (["torn-transaction"], [TORN], [], True, True),
        (["torn-transaction"], [TORN, ("duplicate", [read(X)])], [], False, True),
        (["torn-transaction"], [TORN, ("duplicate", [read(X)])], ["t-0"], False, None),
        (["torn-transaction"], [("duplicate", [read(X)])], [], False, False),
        (["torn-transaction"], [], [], False, False),
    ],
)
def test_without_what_is_unexpected_the_rest_is_compared_as_ever(expect, anomalies, unread, met, otherwise):
    comparison = compared(expect, anomalies, unread=unread)
    assert (comparison.met, comparison.otherwise) == (met, otherwise)


def test_where_everything_was_exercised_a_run_without_its_findings_is_valid():
    judged = [prop for prop in properties([TORN]) if prop.verdict is not Property.NOT_EXERCISED]
    comparison = compare(["valid"], (), judged, decide)
    assert (comparison.met, comparison.otherwise) == (False, True)
    broken = [replace(prop, reason="the check broke on t-1") if prop.findings else prop for prop in judged]
    assert compare(["valid"], (), broken, decide).otherwise is None


@pytest.mark.parametrize(("expect", "anomalies", "otherwise"), [(["valid"], [TORN], None), (["torn-transaction"], [], None)])
def test_a_short_run_shows_nothing_without_its_findings(expect, anomalies, otherwise):
    judged = [prop for prop in properties(anomalies) if prop.verdict is not Property.NOT_EXERCISED]
    comparison = of_short_run(compare(expect, (), judged, decide), expect, "stopped by Ctrl-C")
    assert comparison.otherwise is otherwise


def test_what_a_short_run_was_to_show_stands_without_what_is_unexpected():
    judged = properties([TORN, ("duplicate", [read(X)])])
    comparison = of_short_run(compare(["torn-transaction"], (), judged, decide), ["torn-transaction"], "stopped by Ctrl-C")
    assert (comparison.met, comparison.otherwise) == (False, True)


def test_consequences_are_anomalies_that_there_are():
    assert {name for check in INSTALLED.values() for name in check.consequences} <= set(INSTALLED)


def test_a_run_without_its_final_read_does_not_show_what_its_test_expects(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.poll(1, {"t-0": [5, (6, h.v("t-0", 5))]})
    document = judged(h, topics={"t": {"partitions": 1}}, expect=["duplicate"])
    assert (document["verdict"], document["expectation_met"]) == ("invalid", None)
    assert "nobody knows what else there is" in document["expectation"]
