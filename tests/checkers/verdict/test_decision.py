"""From one check's answer to a property, from properties to a verdict, and what weakens it: the branches, one by one."""

from __future__ import annotations

import pytest

from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, INAPPLICABLE, Rule
from fencepost.checkers.model.findings import Finding, FindingRecord
from fencepost.checkers.verdict.decision import JudgedProperty, decide, judge_property, sensitivity, weaknesses
from fencepost.harness.api.evidence import Gap
from fencepost.harness.api.promises import ATOMIC, LIVE, PROCESSED_ONCE, PROGRAM, RECOVERING
from fencepost.harness.api.values import Property, Verdict

WHY = Rule(FORBIDDEN, "why")
FOUND = [Finding("lost-write", [FindingRecord("t-0", 0, 1, 7, 0, "missing")], id=1)]
TABLE = [{"met": 2, "violated": 0}, {"met": 0, "violated": 1}, {"met": 0, "violated": 0}]


# --------------------------------------------------------------------------------------------------
# A property
# --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rule", "compared", "findings", "given", "verdict", "reason"),
    [
        (Rule(INAPPLICABLE, "no promise"), 3, FOUND, {"error": "broke"}, Property.NOT_EXERCISED, "no promise"),
        (WHY, 3, FOUND, {"error": "broke elsewhere"}, Property.VIOLATED, "broke elsewhere"),
        (WHY, 3, [], {"error": "broke"}, Property.UNKNOWN, "broke"),
        (WHY, 3, [], {"lacking": "nothing sent"}, Property.HELD, ""),
        (WHY, 0, [], {"lacking": "nothing sent"}, Property.NOT_EXERCISED, "nothing sent"),
        (WHY, 3, [], {"bound": "up to 9"}, Property.HELD, "up to 9"),
        (WHY, 0, [], {"bound": "up to 9", "lacking": "nothing sent"}, Property.NOT_EXERCISED, "up to 9"),
        (WHY, 3, [], {"table": TABLE}, Property.HELD, "2 of 3 rows of its table were compared"),
        (WHY, 3, [], {"table": TABLE, "bound": "up to 9"}, Property.HELD, "up to 9"),
    ],
)
def test_an_answer_becomes_a_property(rule, compared, findings, given, verdict, reason):
    made = judge_property("lost-write", rule, compared, findings, **given)
    assert (made.verdict, made.reason) == (verdict, reason)
    assert list(made.findings) == (list(findings) if verdict is Property.VIOLATED else [])
    assert made.compared == (0 if rule.judged == INAPPLICABLE else compared)


def test_only_a_property_with_a_table_has_one_in_the_document():
    assert "table" not in judge_property("lost-write", WHY, 3, []).document()
    assert judge_property("lost-write", WHY, 3, [], table=TABLE).document()["table"] == TABLE


@pytest.mark.parametrize(("promise", "told"), [(PROCESSED_ONCE, True), (PROGRAM, True), (ATOMIC, False)])
def test_the_chance_of_a_rare_error_is_told_up_to_a_bound(promise, told):
    """(1 - 1/1000)^2995 is the first power below 5 %."""
    assert bool(sensitivity(promise, 2994)) == told
    assert sensitivity(promise, 2995) == ""


# --------------------------------------------------------------------------------------------------
# The verdict
# --------------------------------------------------------------------------------------------------
def prop(verdict, name="lost-write", compared=3, **fields):
    rule = fields.pop("rule", WHY)
    findings = FOUND if verdict is Property.VIOLATED else ()
    return JudgedProperty(name, rule, verdict, compared, fields.pop("reason", ""), findings, **fields)


HELD, BAD = prop(Property.HELD), prop(Property.VIOLATED, "torn-transaction")
IDLE = prop(Property.WITHOUT_OCCASION, "zombie-write")
UNSURE = prop(Property.UNKNOWN, "duplicate", reason="it broke")
ESSENTIAL = prop(Property.NOT_EXERCISED, "order-inversion", 0, rule=Rule(FORBIDDEN, "why", essential=True), reason="too short")
HELD_ONCE = "1 property held, none was violated"
UNREAD = "no complete read_committed final read"
UNSEEN = "were returned to nobody, and without a final read nobody knows what is lost and what is late"


@pytest.mark.parametrize(
    ("judged", "given", "verdict", "reason"),
    [
        ([HELD], {}, Verdict.VALID, HELD_ONCE),
        ([HELD, IDLE], {}, Verdict.VALID, f"{HELD_ONCE}, 1 held without occasion: nothing occurred that could have broken it"),
        ([HELD, UNSURE, BAD], {}, Verdict.INVALID, "torn-transaction (1 finding)"),
        ([HELD, prop(Property.VIOLATED, rule=Rule(ALLOWED, "acks=1"))], {}, Verdict.VALID, HELD_ONCE),
        ([HELD, UNSURE, ESSENTIAL], {}, Verdict.UNKNOWN, "duplicate could not be judged: it broke"),
        ([HELD, ESSENTIAL], {}, Verdict.UNKNOWN, "order-inversion was not exercised: too short"),
        ([HELD], {"unread": ["t-0"]}, Verdict.UNKNOWN, f"nothing is known of losses in t-0: {UNREAD}"),
        ([HELD], {"unseen": 2}, Verdict.UNKNOWN, f"2 promised records {UNSEEN}"),
    ],
)
def test_invalid_beats_unknown_beats_valid(judged, given, verdict, reason):
    assert decide(judged, **given) == (verdict, reason)


@pytest.mark.parametrize("promise", [LIVE, RECOVERING])
def test_that_something_went_on_is_no_comparison_of_what_is_right_or_wrong(promise):
    verdict, reason = decide([prop(Property.HELD, promise=promise), prop(Property.NOT_EXERCISED, "duplicate", 0)])
    assert (verdict, reason.partition(":")[0]) == (Verdict.UNKNOWN, "nothing was compared")
    assert decide([prop(Property.HELD, promise=promise), HELD])[0] is Verdict.VALID


def test_what_is_missing_together_is_said_once_and_the_essential_ones_come_first():
    gaps = (Gap(file="c0.jsonl", why="is gone"), Gap(file="c1.jsonl", why="is gone"))
    names = ["a", "b", "c", "d"]
    unknown = [prop(Property.UNKNOWN, name, reason="never said", gaps=gaps) for name in names]
    unknown.append(prop(Property.UNKNOWN, "z", rule=Rule(FORBIDDEN, "why", essential=True), gaps=gaps))
    verdict, reason = decide([*unknown, UNSURE])
    assert verdict is Verdict.UNKNOWN
    assert reason == (
        "duplicate could not be judged: it broke; z, a, b, c and 1 more could not be judged for what the history lacks: "
        f"{gaps[0]}; and 1 more"
    )


# --------------------------------------------------------------------------------------------------
# What weakens it
# --------------------------------------------------------------------------------------------------
def test_each_weakness_is_counted():
    receipts = [{"effective": effective} for effective in (True, True, True, False, False, None)]
    assert weaknesses(receipts, 1, ["t-0", "t-1"], 3) == [
        "2 of 6 faults had no effect",
        "of 1 of 6 faults nobody knows whether they had an effect",
        "1 operation has no completion in the history",
        f"{UNREAD} of t-0, t-1",
        f"3 promised records {UNSEEN}",
    ]
    assert weaknesses([{"effective": True}], 0, []) == []
