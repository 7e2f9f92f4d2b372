"""Answers whose evidence is missing in part: rows of the table, without Spark."""

from __future__ import annotations

import pytest
from support.installed import INSTALLED, rule_of

from fencepost.checkers.anomalies.stale_reads import UNCOMMITTED_READ
from fencepost.checkers.contract.needs import UNDECLARED, Needs
from fencepost.checkers.contract.rules import full_contract
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.verdict.decision import JudgedProperty, judge_property
from fencepost.checkers.verdict.weakening import gap_sentences, weaken
from fencepost.harness.api import record_id
from fencepost.harness.api.evidence import Evidence, Gap, GapKind, evidence_of
from fencepost.harness.api.values import Property

CONTRACT = full_contract({"transactional": "true", "isolation": "read_committed"})
WRITER = Gap(
    file="c3-0.jsonl", why="is missing", kind=GapKind.MISSING, role="writer", slot=3, slots=11, evidence=evidence_of("writer")
)
READER = Gap(
    file="c9-0.jsonl", why="is missing", kind=GapKind.MISSING, role="reader", slot=8, slots=11, evidence=evidence_of("reader")
)
FINAL = Gap(file="c9-0.jsonl", why="is missing", role="final", slot=9, slots=11, evidence=evidence_of("final", "read_committed"))
SECOND = Gap(
    file="c10-0.jsonl", why="is missing", role="final", slot=10, slots=11, evidence=evidence_of("final", "read_uncommitted")
)
HARNESS = Gap(file="harness.jsonl", why="is missing", role="harness", evidence=evidence_of("harness"))
FAULTS = Gap(file="faults.jsonl", why="is missing", role="faults", evidence=evidence_of("faults"))
UNATTESTED = Gap(file="manifest.json", why="is missing", kind=GapKind.UNATTESTED, evidence=(Evidence.SENDS, Evidence.POLLS))


def record(v: int, offset: int = 5, role: str = "read") -> FindingRecord:
    return FindingRecord("t-0", 1, v, offset, 10, role)


def judged(name: str, *findings: list[FindingRecord], compared: int = 7) -> JudgedProperty:
    needs = INSTALLED[name].evidence if name in INSTALLED else UNDECLARED
    return judge_property(name, rule_of(name, CONTRACT), compared, [Finding(name, rows) for rows in findings], needs=needs)


def test_every_installed_check_declares_its_rules_its_promise_and_the_evidence_that_it_needs():
    for check in INSTALLED.values():
        assert check.promise, check.name
        assert check.rules[-1].when == {}, f"{check.name}: the last rule decides in every other case"
        assert check.evidence is not UNDECLARED, check.name
        assert check.evidence.absence, check.name


@pytest.mark.parametrize(
    ("gap", "unknown", "held"),
    [
        (WRITER, "lost-write torn-transaction duplicate aborted-read dirty-read wrong-partition G1c-wr phantom", "lso-stall"),
        (
            READER,
            "phantom poll-skip nonmonotonic-poll aborted-read dirty-read stale-read",
            "lost-write torn-transaction lso-stall",
        ),
        (FINAL, "lost-write torn-transaction stale-read phantom duplicate aborted-read", "lso-stall G1c-wr"),
        (SECOND, "lost-write phantom inconsistent-offset duplicate stale-read", "torn-transaction aborted-read lso-stall"),
        (HARNESS, "lso-stall", "lost-write phantom poll-skip torn-transaction"),
        (FAULTS, "", "lost-write phantom poll-skip torn-transaction lso-stall"),
        (UNATTESTED, "", "lost-write phantom poll-skip torn-transaction lso-stall"),
    ],
    ids=lambda value: value.file if isinstance(value, Gap) else None,
)
def test_what_is_missing_weakens_the_answers_that_needed_it_and_no_other(gap, unknown, held):
    answers = {name: weaken(judged(name), [gap], CONTRACT) for name in INSTALLED}
    assert {name: answers[name].verdict for name in unknown.split()} == dict.fromkeys(unknown.split(), Property.UNKNOWN)
    assert {name: answers[name].verdict for name in held.split()} == dict.fromkeys(held.split(), Property.HELD)
    assert all(str(gap) in answers[name].reason for name in unknown.split())


def test_what_was_not_exercised_for_want_of_the_missing_file_is_unknown():
    assert weaken(judged("lso-stall", compared=0), [HARNESS], CONTRACT).verdict is Property.UNKNOWN
    elsewhere = full_contract(CONTRACT, {"final_read": "false"})
    assert weaken(judged("stale-read", compared=0), [READER], elsewhere).verdict is Property.NOT_EXERCISED


@pytest.mark.parametrize(
    ("name", "gap", "records", "stays"),
    [
        ("lost-write", FINAL, [record(7, role="missing")], False),
        ("lost-write", SECOND, [record(7, role="missing")], False),
        ("lost-write", READER, [record(7, role="missing")], True),
        ("torn-transaction", FINAL, [record(7), record(8, role="missing")], False),
        ("stale-read", FINAL, [record(7), record(8, role="missing")], False),
        ("stale-read", SECOND, [record(7), record(8, role="missing")], True),
        ("stale-read", SECOND, [record(7, role=UNCOMMITTED_READ), record(8, role="missing")], False),
        ("stale-read", FINAL, [record(7, role=UNCOMMITTED_READ), record(8, role="missing")], True),
        ("phantom", WRITER, [record(record_id(3, 0, 0))], False),
        ("phantom", WRITER, [record(record_id(14, 9, 0))], False),  # a successor in the same place: 3 + 11
        ("phantom", WRITER, [record(record_id(4, 0, 0))], True),
        ("phantom", WRITER, [record(-1)], True),  # its bytes are of no run of ours
        ("phantom", UNATTESTED, [record(record_id(4, 0, 0))], False),
        ("phantom", UNATTESTED, [record(-1)], True),
        ("phantom", READER, [record(record_id(3, 0, 0))], True),
        ("duplicate", WRITER, [record(7, 5), record(7, 8)], True),  # two reads of one record at different offsets
        ("inconsistent-offset", FINAL, [record(7, 5), record(8, 5)], True),  # two readers got different records
        ("inconsistent-offset", FINAL, [record(7, 5, "sent"), record(8, 5)], False),
        ("aborted-read", WRITER, [record(7, role="sent"), record(7)], True),
        ("poll-skip", WRITER, [record(7), record(8, 6)], True),
        ("G-single", WRITER, [record(7), record(8, 6)], False),
    ],
)
def test_a_finding_stays_unless_what_is_missing_may_explain_it(name, gap, records, stays):
    answer = weaken(judged(name, records), [gap], CONTRACT)
    assert (len(answer.findings), answer.verdict) == ((1, Property.VIOLATED) if stays else (0, Property.UNKNOWN))
    assert stays or "proves nothing" in answer.reason


def test_of_several_findings_the_proven_ones_stay_and_the_others_are_counted():
    answer = weaken(judged("phantom", [record(record_id(3, 0, 0))], [record(record_id(4, 0, 0))]), [WRITER], CONTRACT)
    assert (answer.verdict, len(answer.findings)) == (Property.VIOLATED, 1)
    assert answer.reason.startswith("1 finding proves nothing")


def test_unsent_records_in_an_adopted_history_may_have_been_sent_by_any_line():
    elsewhere = full_contract(CONTRACT, {"values": "per key"})
    broken = Gap(file="history.edn", line=3, why="not understood", evidence=(Evidence.SENDS,))
    assert weaken(judged("phantom", [record(-7)]), [broken], elsewhere).verdict is Property.UNKNOWN


def test_a_check_of_a_plug_in_needs_everything_but_receipts():
    assert weaken(judged("their-own", [record(7)]), [HARNESS], CONTRACT).verdict is Property.UNKNOWN
    assert weaken(judged("their-own"), [READER], CONTRACT).verdict is Property.UNKNOWN
    assert weaken(judged("their-own"), [FAULTS], CONTRACT).verdict is Property.HELD


def test_what_the_contract_does_not_judge_stays_so():
    plain = full_contract({"transactional": "false"})
    torn = judge_property("torn-transaction", rule_of("torn-transaction", plain), 0, [])
    assert weaken(torn, [WRITER], plain) == torn


def test_a_sentence_for_each_file_says_what_is_unknown_for_it():
    answers = [weaken(judged(name), [HARNESS, FAULTS], CONTRACT) for name in ("lso-stall", "lost-write")]
    assert gap_sentences([HARNESS, FAULTS], answers) == [
        "faults.jsonl (faults): is missing; what the faults did is not wholly known",
        "harness.jsonl (harness): is missing; so it is unknown whether there was lso-stall",
    ]


def test_a_check_of_a_plug_in_that_needs_no_reads_holds_without_them():
    sends_only = Needs({Evidence.SENDS, Evidence.OUTCOMES}, presence={Evidence.SENDS})
    held, violated = (
        judge_property("their-own", rule_of("their-own", CONTRACT), 7, findings, needs=sends_only)
        for findings in ([], [Finding("their-own", [record(7)])])
    )
    assert weaken(held, [READER], CONTRACT).verdict is Property.HELD
    assert weaken(violated, [READER], CONTRACT).verdict is Property.VIOLATED
    answer = weaken(held, [WRITER], CONTRACT)
    assert (answer.verdict, answer.reason) == (
        Property.UNKNOWN,
        "what is missing may have shown it (c3-0.jsonl (writer 3): is missing)",
    )
    assert weaken(violated, [WRITER], CONTRACT).verdict is Property.UNKNOWN
