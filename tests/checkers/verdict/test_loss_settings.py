"""Settings that permit losses: which anomalies they allow, which they do not, and what evidence stands against a permission."""

from __future__ import annotations

import pandas as pd
import pytest
from support.histories import COMMITTED, UNCOMMITTED, History, answer, violated
from support.installed import INSTALLED, rule_of, rule_of_evidence

from fencepost.checkers.contract.rules import (
    ALLOWED,
    COMMITTED_READS,
    DELETIONS,
    FORBIDDEN,
    INAPPLICABLE,
    LEADERS_LOGS,
    MEMBERS_ANSWERS,
    SENTENCE,
    UNCOMMITTED_READS,
    full_contract,
)
from fencepost.checkers.model.findings import Finding, FindingRecord

READERS = {"poll-skip", "int-poll-skip", "nonmonotonic-poll", "int-nonmonotonic-poll", "stale-read"}
LOST_LOGS = {"sequence-start", "replica-divergence", "leader-epoch-regression"}
WAITS = {"delayed-read"}  # not judged of members
LOST = {*WAITS, *LOST_LOGS, "lost-write", "swallowed-write", "inconsistent-offset", "duplicate", "order-inversion", *READERS}
ALONE = {*WAITS, "lost-write", "swallowed-write", "inconsistent-offset", "duplicate", "order-inversion"}
MARKERS = {"mixed-markers", "wrong-marker", "record-after-marker", "late-marker", "delayed-marker"}
CUT_TRANSACTIONS = {"torn-transaction", "aborted-read", "lso-overrun", "lso-stall", *MARKERS, "unlawful-state", "unlogged-answer"}
NUMBERED = {
    "sequence-gap",
    "sequence-repetition",
    "sequence-start",
    "producer-id-reuse",
    "sequence-reuse",
}  # of idempotent producers
FENCED = {
    *("zombie-commit", "zombie-write", "false-ack", "epoch-regression", "hanging-transaction", "misreported-transaction"),
    "protocol-violation",
}
EARLY = {"dirty-read", "lso-overrun", "G1c-wr", "G1c-wr-process", "G1c-wr-realtime"}
ABSENCE = {*WAITS, "lost-write", "poll-skip", "int-poll-skip", "stale-read"}
ABORTED = {
    *MARKERS,
    *("lost-write", "torn-transaction", "false-ack", "lso-overrun", "misreported-transaction", "poll-skip", "int-poll-skip"),
}
UNCLEAN = {"unclean_leader_election": "true"}
ONE_REPLICA, ELIGIBLE = {"power_failures": "one replica"}, {"eligible_leaders": "true"}
DAMAGED = {"corruption": "unsynced"}
OPERATOR = {"operator_aborts": "open"}
PLAIN = {"transactional": "false"}
CHAINS = {"reprocessed", "unprocessed", "torn-offset", "offset-regression", "double-ownership"}
TRANSACTIONS = {"transactional": "true", "isolation": "read_committed"}
MEMBERS = {**TRANSACTIONS, "consumption": "recorded"}
PROGRAM = {**TRANSACTIONS, "application": "exactly-once"}

# The setting, beneath it plain or transactional producers, and every anomaly that is judged otherwise than without the setting.
TABLE = [
    ({"acks": "0"}, PLAIN, ALONE),
    ({"acks": "1"}, PLAIN, ALONE),
    ({"acks": "1", "max_in_flight": "1"}, PLAIN, ALONE),
    ({"idempotence": "false"}, PLAIN, {"duplicate", "order-inversion"}),
    ({"idempotence": "false", "max_in_flight": "1"}, PLAIN, {"duplicate"}),
    ({"min_insync_replicas": "1"}, PLAIN, set()),
    ({"min_insync_replicas": "1"}, TRANSACTIONS, set()),
    (UNCLEAN, PLAIN, LOST),
    (UNCLEAN, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED),
    ({"unclean_coordinator": "true"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED | EARLY),
    ({"power_failures": "all replicas"}, PLAIN, LOST | {"producer-id-reuse"}),
    ({"power_failures": "all replicas"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED | EARLY | {"producer-id-reuse"}),
    ({"corruption": "synced"}, PLAIN, LOST | {"phantom", "sequence-gap"}),
    ({"corruption": "synced"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED | EARLY | {"phantom", "sequence-gap"}),
    ({"corruption": "synced", **ELIGIBLE}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED | {"phantom", "sequence-gap"}),
    ({**DAMAGED, "min_insync_replicas": "2"}, PLAIN, LOST),
    ({**DAMAGED, "min_insync_replicas": "2"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED | EARLY),
    ({**DAMAGED, **ELIGIBLE, "min_insync_replicas": "1"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED),
    ({**DAMAGED, **ELIGIBLE, "min_insync_replicas": "2"}, TRANSACTIONS, set()),
    ({"producer_expiry": "1000"}, PLAIN, NUMBERED - {"producer-id-reuse", "sequence-reuse"}),
    ({**ONE_REPLICA, "min_insync_replicas": "1"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED | EARLY),
    ({**ONE_REPLICA, "min_insync_replicas": "2"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED | EARLY),
    ({**ONE_REPLICA, "min_insync_replicas": "2"}, PLAIN, LOST),
    ({**ONE_REPLICA, **ELIGIBLE, "min_insync_replicas": "1"}, TRANSACTIONS, LOST | CUT_TRANSACTIONS | FENCED),
    ({**ONE_REPLICA, **ELIGIBLE, "min_insync_replicas": "2"}, TRANSACTIONS, set()),
    (ELIGIBLE, TRANSACTIONS, set()),
    (OPERATOR, PLAIN, set()),
    (OPERATOR, TRANSACTIONS, ABORTED),
    (OPERATOR, MEMBERS, ABORTED | {"unprocessed", "torn-offset", "reprocessed", "offset-regression"}),
    (
        OPERATOR,
        PROGRAM,
        ABORTED | {"unprocessed", "reprocessed", "torn-state", "store-divergence", "wrong-state"},
    ),
    ({"retention": "1000"}, PLAIN, ABSENCE),
    (
        {"retention": "1000"},
        PROGRAM,
        ABSENCE | {"torn-transaction", "false-ack", "unprocessed", "torn-state", "wrong-state", "vanished-output"},
    ),
    ({"retention": "1000"}, TRANSACTIONS, ABSENCE | {"torn-transaction", "false-ack"}),
    (UNCLEAN, MEMBERS, (LOST - WAITS) | CUT_TRANSACTIONS | FENCED | CHAINS),
    (
        {"compaction": "true"},
        MEMBERS,
        (ABSENCE - WAITS) | {"sequence-gap", "sequence-start"} | {"torn-transaction", "false-ack", "unprocessed"},
    ),
    ({"compaction": "true"}, TRANSACTIONS, ABSENCE | {"sequence-gap", "sequence-start"} | {"torn-transaction", "false-ack"}),
]


def in_words(value):
    """The same name in every process: a set has no order."""
    return ",".join(sorted(value)) if isinstance(value, set | frozenset) else str(value)


@pytest.mark.parametrize(("setting", "beneath", "otherwise"), TABLE, ids=in_words)
def test_a_setting_changes_the_judgement_of_these_anomalies_and_of_no_other(setting, beneath, otherwise):
    before, after = full_contract(beneath), full_contract(beneath, setting)
    changed = {
        name: rule_of(name, after).judged for name in INSTALLED if rule_of(name, after).judged != rule_of(name, before).judged
    }
    absent = INAPPLICABLE if setting.keys() & {"retention", "compaction"} else ALLOWED
    unnumbered = dict.fromkeys(NUMBERED, INAPPLICABLE) if after["idempotence"] == "false" else {}
    assert changed == {**dict.fromkeys(otherwise, absent), **unnumbered}


@pytest.mark.parametrize(
    ("setting", "beneath", "bound"),
    [
        ({"acks": "0"}, PLAIN, {"lost-write", "inconsistent-offset"}),
        ({"acks": "1"}, PLAIN, {"lost-write", "inconsistent-offset"}),
        ({"acks": "1", "max_in_flight": "1"}, PLAIN, {"lost-write", "inconsistent-offset", "order-inversion"}),
        ({"acks": "1", **UNCLEAN}, PLAIN, {"inconsistent-offset"}),
        (UNCLEAN, PLAIN, {"inconsistent-offset", "duplicate", "order-inversion"}),
        (UNCLEAN, TRANSACTIONS, {"inconsistent-offset", "duplicate", "order-inversion"}),
        ({**UNCLEAN, "idempotence": "false"}, PLAIN, {"inconsistent-offset"}),
        (OPERATOR, TRANSACTIONS, {"lost-write", "torn-transaction", "false-ack", "poll-skip", "int-poll-skip"}),
        (
            OPERATOR,
            MEMBERS,
            {"lost-write", "torn-transaction", "false-ack", "poll-skip", "int-poll-skip", "unprocessed", "torn-offset"}
            | {"reprocessed", "offset-regression"},
        ),
        (
            OPERATOR,
            PROGRAM,
            {"lost-write", "torn-transaction", "false-ack", "poll-skip", "int-poll-skip", "unprocessed", "torn-state"}
            | {"store-divergence", "wrong-state", "reprocessed"},
        ),
        ({**OPERATOR, **UNCLEAN}, TRANSACTIONS, {"inconsistent-offset", "duplicate", "order-inversion"}),
    ],
    ids=in_words,
)
def test_evidence_that_a_setting_leaves_intact_stands_against_its_permission(setting, beneath, bound):
    full = full_contract(beneath, setting)
    allowed = {name for name in INSTALLED if rule_of(name, full).judged == ALLOWED and rule_of(name, full).unless != SENTENCE}
    assert {name for name in allowed if rule_of_evidence(name, full).judged == FORBIDDEN} == bound


def test_every_condition_on_evidence_is_one_that_can_be_looked_for():
    rules = [(name, rule.unless) for name, check in INSTALLED.items() for rule in check.rules]
    bound = {
        name
        for name, unless in rules
        if unless not in ("", COMMITTED_READS, UNCOMMITTED_READS, LEADERS_LOGS, MEMBERS_ANSWERS, DELETIONS, SENTENCE)
    }
    assert bound == {name for name, check in INSTALLED.items() if check.shown_by}
    assert {name for name, unless in rules if unless == SENTENCE} == {
        name for name, check in INSTALLED.items() if check.undoubted
    }


def finding_of(*records):
    return Finding("any", [FindingRecord("t-0", 0, v, offset, 0, "read") for v, offset in records])


def lost(*records):
    return Finding("any", [FindingRecord("t-0", 0, v, 7, 0, "missing") for v in records])


@pytest.mark.parametrize(
    ("anomaly", "finding", "reads", "is_shown"),
    [
        ("lost-write", lost(1, 2), [(7, 2)], True),
        ("lost-write", lost(1, 2), [(7, 3)], False),
        ("inconsistent-offset", finding_of((1, 7), (2, 7)), [(7, 1), (7, 2)], True),
        ("inconsistent-offset", finding_of((1, 7), (2, 7)), [(7, 2), (9, 1)], False),
        ("inconsistent-offset", finding_of((1, 7), (2, 7)), [], False),
        ("duplicate", finding_of((1, 7), (1, 8)), [(7, 1), (8, 1)], True),
        ("duplicate", finding_of((1, 7), (1, 8)), [(8, 1), (7, 2), (9, 2)], False),
        ("order-inversion", finding_of((1, 9), (2, 8)), [(9, 1), (8, 2)], True),
        ("order-inversion", finding_of((1, 9), (2, 8)), [(7, 1), (8, 2)], False),
        ("order-inversion", finding_of((1, 9), (2, 8)), [(8, 2)], False),
    ],
)
def test_what_reads_show_by_themselves(anomaly, finding, reads, is_shown):
    frame = pd.DataFrame([("t-0", offset, v) for offset, v in reads], columns=["partition", "offset", "v"])
    assert INSTALLED[anomaly].shown_by(finding, frame) is is_shown


def allowed(document):
    return {row["name"] for row in document["allowed"] if row["verdict"] == "violated"}


PLAIN_CONTRACT = {"transactional": "false", "isolation": "read_uncommitted"}
ACKS_1 = {**PLAIN_CONTRACT, "acks": "1", "idempotence": "false", "final_read": "false"}


def test_with_acks_1_an_offset_that_was_acknowledged_alone_may_be_given_away_again(judged):
    """The leader that acknowledged a@7 was cut off; the next one gave offset 7 to b. No final read says that a is lost."""
    h = History()
    h.send(0, {"t-0": [5, 7]})
    h.send(1, {"t-0": [None]})
    h.poll(2, {"t-0": [5, (7, h.ops[1]["mops"][0][2])]}, UNCOMMITTED)
    document = judged(h, ACKS_1)
    assert (violated(document), allowed(document) & {"inconsistent-offset"}) == ([], {"inconsistent-offset"})
    h.poll(3, {"t-0": [5, 7]}, UNCOMMITTED)
    document = judged(h, ACKS_1)
    assert violated(document) == ["inconsistent-offset"], "readers get only what all replicas in sync have"


def test_after_an_unclean_election_what_was_read_may_be_cut_off_and_all_that_follows_from_it(judged):
    h = History()
    h.txn(0, {"t-0": [5, 7]})
    h.txn(1, {"t-1": [3], "t-2": [3]})  # t-2 is cut off: a torn transaction
    h.txn(2, {"t-3": [4]}, type="fail")  # its ABORT marker is cut off, and the next transaction's COMMIT shows it
    h.txn(2, {"t-3": [6]})
    h.txn(3, {"t-4": [None]}, type="info", end=None, decided=None)  # read at 9, cut off, and appended again at 8 by its retry
    retried = h.ops[-1]["mops"][0][2]
    h.poll(8, {"t-0": [5, 7], "t-1": [3], "t-2": [3], "t-4": [(9, retried)]})
    h.txn(4, {"t-0": [None]})
    replacing = h.ops[-1]["mops"][0][2]
    h.settle({"t-5": (6, 9)}, type="info")  # a marker of t-5 is cut off
    h.final({"t-0": [5, (7, replacing)], "t-1": [3], "t-2": [], "t-3": [4, 6], "t-4": [(8, retried)]})
    lawful = {"lost-write", "inconsistent-offset", "torn-transaction", "aborted-read", "duplicate", "lso-stall", "stale-read"}
    assert set(violated(judged(h))) == lawful
    document = judged(h, UNCLEAN)
    assert (violated(document), allowed(document) & lawful) == ([], lawful)


def test_an_unclean_election_excuses_nothing_that_the_final_reads_show_of_one_log(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.txn(1, {"t-0": [None], "t-1": [3]})
    h.txn(2, {"t-2": [9]})
    h.txn(2, {"t-2": [8]})
    other = h.ops[1]["mops"][0][2]
    reads = {"t-0": [5, (5, other)], "t-1": [3, (4, h.v("t-1", 3))], "t-2": [8, 9]}
    h.poll(8, {"t-0": [(5, other)]})
    h.final(reads)
    document = judged(h, UNCLEAN)
    assert violated(document) == ["duplicate", "inconsistent-offset", "order-inversion"]
    assert answer(document, "duplicate")["contract"].startswith("transactional producers append a retry only once")


def aborted_in_part():
    """A transaction of which an operator aborted the record in t-1, and the next one of its producer."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [3]})
    h.txn(0, {"t-0": [7], "t-1": [6]})
    return h


def test_an_operator_aborts_what_stays_in_the_log(judged):
    h = aborted_in_part()
    h.final({"t-0": [5, 7], "t-1": [6]}, {"t-0": [5, 7], "t-1": [3, 6]})
    document = judged(h, OPERATOR)
    assert (violated(document), allowed(document)) == ([], {"lost-write", "torn-transaction"})


def test_an_operators_abort_explains_no_record_that_the_log_does_not_hold(judged):
    h = aborted_in_part()
    h.final({"t-0": [5, 7], "t-1": [6]})
    document = judged(h, OPERATOR)
    assert (violated(document), allowed(document)) == (["lost-write", "torn-transaction"], set())


def test_a_transaction_that_an_operator_aborted_everywhere_is_in_the_log_as_a_whole(judged):
    h = aborted_in_part()
    h.final({"t-0": [7], "t-1": [6]}, {"t-0": [5, 7], "t-1": [3, 6]})
    document = judged(h, OPERATOR)
    assert (violated(document), allowed(document)) == ([], {"false-ack"})
    h = aborted_in_part()
    h.final({"t-0": [7], "t-1": [6]}, {"t-0": [5, 7], "t-1": [6]})
    assert violated(judged(h, OPERATOR)) == ["false-ack"]


@pytest.mark.parametrize(("level", "expected"), [(COMMITTED, ["poll-skip"]), (UNCOMMITTED, [])])
def test_an_operators_abort_explains_no_skip_of_a_record_that_others_got_at_read_committed(judged, level, expected):
    h = History()
    h.txn(0, {"t-0": [5, 7, 9]})
    h.poll(1, {"t-0": [5, 7, 9]}, level)
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, {**OPERATOR, "final_read": "false"})) == expected


def test_where_nobody_read_the_whole_log_an_operators_abort_may_explain_what_is_missing(judged):
    h = aborted_in_part()
    h.poll(90, {"t-0": [5, 7], "t-1": [6]}, final=True, role="final")
    h.add(90, "final-read", isolation=COMMITTED, final=True, role="final", detail='{"t-0": [0, 9, 9], "t-1": [0, 9, 9]}')
    document = judged(h, OPERATOR)
    assert (violated(document), allowed(document)) == ([], {"lost-write", "torn-transaction"})


@pytest.mark.parametrize(("level", "expected"), [(COMMITTED, ["duplicate"]), (None, ["duplicate"]), (UNCOMMITTED, [])])
def test_a_final_reader_of_no_isolation_level_is_evidence_at_the_contracts(judged, level, expected):
    """A record at two offsets of one final read: a transaction's own log shows it, unless it may have been aborted there."""
    h = History()
    h.txn(0, {"t-0": [5, 7]})
    h.poll(90, {"t-0": [5, 7, (8, h.v("t-0", 7))]}, level, final=True, role="final")
    h.add(90, "final-read", isolation=level, final=True, role="final", detail='{"t-0": [0, 9, 9]}')
    assert violated(judged(h, UNCLEAN)) == expected


def test_reads_of_a_long_history_are_looked_up_by_executors(judged_by_spark, monkeypatch):
    monkeypatch.setattr("fencepost.checkers.views.run_view.SHORT_HISTORY", 0)
    h = History()
    h.send(0, {"t-0": [5, 7]})
    h.send(1, {"t-0": [9]})
    h.poll(2, {"t-0": [5, 7]})
    h.final({"t-0": [5, 9]})
    assert violated(judged_by_spark(h, {**ACKS_1, "final_read": "true"})) == ["lost-write", "stale-read"]


def test_p2_is_judged_by_the_contract_that_its_campaign_names(judged):
    """Two readers got two records at one offset: allowed by the settings, forbidden by `unclean_leader_election = "false"`."""
    h = History()
    h.send(0, {"t-0": [5, 7]})
    h.poll(8, {"t-0": [5, 7]})
    h.send(1, {"t-0": [None]})
    h.final({"t-0": [5, (7, h.ops[-1]["mops"][0][2])]})
    named = {"contract": {**PLAIN_CONTRACT, "unclean_leader_election": "false"}, "expect": ["lost-write", "inconsistent-offset"]}
    document = judged(h, named["contract"], expect=named["expect"])
    assert (document["verdict"], document["expectation_met"]) == ("invalid", True)
    document = judged(h, {**PLAIN_CONTRACT, **UNCLEAN}, expect=named["expect"])
    assert (document["verdict"], document["expectation_met"]) == ("valid", False)
    assert document["expectation"].startswith("not found: lost-write (only as the contract allows it)")
