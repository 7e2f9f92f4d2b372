"""A check of a plug-in is looked at when it is loaded; each breach says what to change."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace

import pytest
from support.histories import History, answer, violated, write_history
from support.judging import judge_here

from fencepost.checkers.api import ALLOWED, FORBIDDEN, Evidence, Needs, PlantedDamage, Rule, partition_check, read_rows
from fencepost.checkers.engine.registry import Broken, installed_checks
from fencepost.checkers.engine.validation import breaches
from fencepost.checkers.model.lawful_history import CONTRACT
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.testing import PartitionBuilder, found
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run

KINDS = ", ".join(f"Evidence.{kind.name}" for kind in Evidence)


def elsewhere(*expects):
    """A damage that expects these anomalies."""
    return PlantedDamage("elsewhere", lambda rows, rng: None, expects)


@partition_check("empty-offset", needs="nothing was read")
def empty_offset(log):
    """A record at offset 0."""
    return CheckResult(0)


def undocumented(log):
    return CheckResult(0)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (len, '@partition_check("my-anomaly") over the function'),
        (replace(empty_offset, name=" "), "the check has no name"),
        (replace(empty_offset, scope="partitions"), 'scope = "partitions"; it must be one of partition, run'),
        (replace(empty_offset, function=undocumented), "its function needs a docstring"),
        (replace(empty_offset, function=lambda: CheckResult(0)), "the function must take (log), not ()"),
        (replace(empty_offset, needs=""), "needs must say what has to be there"),
        (replace(empty_offset, explain=lambda finding: ""), "explain must take (finding, text), not (finding)"),
        (replace(empty_offset, sift="rows"), "sift must be a function (rows, run), not 'rows'"),
        (replace(empty_offset, resolve="rows"), "resolve must be a function (rows, run), not 'rows'"),
        (replace(empty_offset, gather=len), "gather belongs to run checks"),
    ],
)
def test_each_breach_of_the_interface_says_what_to_change(check, expected):
    assert any(expected in text for text in breaches(check)), breaches(check)


def test_a_sound_check_has_no_breaches():
    assert breaches(empty_offset) == []


def test_an_installed_check_that_breaks_the_interface_is_unknown_with_the_reason(tmp_path, monkeypatch):
    """It is not run, and it affects no other check."""
    information = tmp_path / "odd_checks-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-checks\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[fencepost.checker]\nodd = fencepost.checkers.model.lawful_history:CONTRACT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    checks, broken = installed_checks()
    reason = "fencepost.checkers.model.lawful_history:CONTRACT cannot be used: "
    assert [check.name for check in broken] == ["odd"]
    assert isinstance(broken[0], Broken)
    assert broken[0].reason.startswith(reason)
    assert len(checks) > 20


STRANGE = """
from fencepost.checkers.api import CheckResult, partition_check
from fencepost.checkers.views.result_rows import read_rows


def odd(log):
    return log.reads.offset == 0


@partition_check("first-place")
def first_place(log):
    'A record that was read at offset 0.'
    return CheckResult(len(log.reads), read_rows(log, odd(log), log.reads.op))
"""


def test_a_check_given_by_import_path_runs_though_no_executor_can_import_its_module(spark, tmp_path, monkeypatch):
    """Its module lies where only the driver finds it. One that is broken is unknown, with the reason."""
    place, run = tmp_path / "place", tmp_path / "run"
    place.mkdir()
    run.mkdir()
    (place / "strange_check.py").write_text(STRANGE)
    monkeypatch.syspath_prepend(str(place))
    check = importlib.import_module("strange_check").first_place
    h = History()
    h.txn(0, sends={"t-0": 0})
    h.final({"t-0": [0]})
    write_history(run, h.ops)
    document = judge(
        open_run(run), spark=spark, contract=CONTRACT, more={"strange_check:first_place": check, "lost:one": "no such module"}
    )
    assert violated(document) == ["first-place"]
    assert answer(document, "first-place")["compared"] == 2
    assert answer(document, "lost:one")["verdict"] == "unknown"
    assert "no such module" in answer(document, "lost:one")["reason"]
    assert answer(document, "phantom")["verdict"] == "held"


ALLOWED_UNDER_ACKS_0 = (Rule(ALLOWED, "nothing was promised", {"acks": "0"}), Rule(FORBIDDEN, "something was"))


def declared(**fields):
    def odd(log):
        """An odd thing."""
        return CheckResult(1)

    return breaches(partition_check("odd", **fields)(odd))


def test_rules_evidence_and_promise_of_a_plug_in_are_sound():
    needs = Needs({Evidence.SENDS}, "no reads are needed")
    assert declared(rules=ALLOWED_UNDER_ACKS_0, evidence=needs, promise="nothing odd") == []


@pytest.mark.parametrize(
    ("fields", "breach"),
    [
        ({"rules": (Rule(ALLOWED, "why", {"ack": "0"}),)}, 'rule 1: a contract has no key "ack"; did you mean "acks"?'),
        ({"rules": (Rule(ALLOWED, "why", {"acks": "!2"}),)}, 'rule 1: acks must be 0, 1 or all, not "2"'),
        ({"rules": (Rule("fine", "why"),)}, 'rule 1: "fine" is none of forbidden, allowed, inapplicable'),
        ({"rules": (Rule(ALLOWED, ""),)}, "rule 1: it has no reason"),
        (
            {"rules": (Rule(ALLOWED, "why", unless="luck"),)},
            'rule 1: unless="luck" is none of reads, final reads, read_committed reads, read_uncommitted final reads, '
            "leaders' logs, answers to members, deletions, sentences of its source",
        ),
        (
            {"rules": (Rule(ALLOWED, "why", unless="leaders' logs"),)},
            'rule 1: unless="leaders\' logs" asks beyond_aborts, which the check lacks',
        ),
        ({"rules": (Rule(ALLOWED, "why", unless="reads"),)}, 'rule 1: unless="reads" asks shown_by, which the check lacks'),
        ({"rules": [Rule(ALLOWED, "why")]}, "rules must be a tuple of Rule(FORBIDDEN, why, conditions)"),
        ({"evidence": {Evidence.SENDS}}, f"evidence must be Needs({{Evidence.SENDS, ...}}, ...), not { ({Evidence.SENDS})!r}"),
        ({"evidence": Needs({"poll"})}, f"evidence 'poll' is no kind of evidence; there are {KINDS}"),
        ({"evidence": Needs(Evidence.POLLS)}, f"evidence 'polls' is no kind of evidence; there are {KINDS}"),
        ({"damages": (elsewhere("lost-write"),)}, 'damage "elsewhere" must expect odd, not lost-write'),
        ({"promise": None}, "promise must be a text: the promise that the anomaly breaks, in words"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_named(fields, breach):
    assert declared(**fields) == [f"odd: {breach}"]


def test_a_check_of_a_plug_in_is_allowed_where_its_own_rules_allow_it(tmp_path):
    def first(log):
        """A record that was read at offset 0."""
        return CheckResult(len(log.reads), read_rows(log, log.reads.offset == 0, log.reads.op))

    h = History()
    h.send(0, {"t-0": 0})
    h.final({"t-0": [0]})
    check = partition_check("first", rules=ALLOWED_UNDER_ACKS_0)(first)
    for acks, listed in (("0", "allowed"), ("all", "properties")):
        plain = {"acks": acks, "idempotence": "false", "transactional": "false"}
        document = judge_here(tmp_path, h.ops, plain, [check])
        assert [(row["name"], row["verdict"]) for row in document[listed]] == [("first", "violated")]


@dataclass(frozen=True)
class Limits:
    """least: offset from which a record is found."""

    least: int = 5


def test_a_check_with_options_is_called_in_a_test_with_those_that_the_test_names():
    @partition_check("high", options=Limits)
    def high(log, limits):
        """A record at a high offset."""
        return CheckResult(len(log.reads), read_rows(log, log.reads.offset >= limits.least, log.reads.op))

    builder = PartitionBuilder()
    builder.read(builder.send(3), 3)
    assert found(high(builder.log())) == []
    assert [offset for _, _, offset in found(high(builder.log(), Limits(least=2)))] == [3]
