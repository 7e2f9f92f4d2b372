"""Reports to the author of a check: where it raised, and its own words beside the answer."""

from __future__ import annotations

import dataclasses
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from support.installed import rule_of

from fencepost.checkers.api import partition_check, run_check
from fencepost.checkers.engine.answers import check_result
from fencepost.checkers.model.failures import described
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.testing import PartitionBuilder
from fencepost.checkers.verdict.decision import judge_property
from fencepost.checkers.verdict.judge import _detail, _sentence
from fencepost.checkers.verdict.run_checks import _run_check
from fencepost.harness.report.panels.properties import properties


@partition_check("too-short")
def too_short(log):
    """Something odd,
    in two lines.

    compared: nothing.
    """
    return CheckResult(1 if np.zeros(1).reshape(7, 7).any() else 0)


@run_check("too-long")
def too_long(run):
    """Something else."""
    raise ValueError("two\nlines")


def test_what_a_check_raises_has_the_file_and_the_line_of_the_check_itself():
    """Not those of the library that it called."""
    partition = PartitionBuilder()
    partition.send(0)
    error = check_result(too_short, partition.log()).error
    assert error.startswith("ValueError: cannot reshape array")
    assert re.search(r"\(\S+test_failures\.py, line \d+, in too_short: return CheckResult\(1 if np\.zeros", error)


def test_a_check_of_the_whole_run_says_the_same_on_one_line():
    error = _run_check(too_long, SimpleNamespace(shared=lambda make: make(None))).error
    assert re.fullmatch(
        r'ValueError: two lines \(\S+test_failures\.py, line \d+, in too_long: raise ValueError\("two\\nlines"\)\)', error
    )


@pytest.mark.parametrize("code", [0, 1, None])
def test_a_check_that_leaves_the_program_is_unknown_and_gives_the_command_no_exit_code(code):
    def leaves(_):
        sys.exit(code)

    of_run = _run_check(dataclasses.replace(too_long, function=leaves), SimpleNamespace(shared=lambda make: make(None)))
    of_partition = check_result(dataclasses.replace(too_short, function=leaves), PartitionBuilder().log())
    for error in (of_run.error, of_partition.error):
        assert re.match(r"SystemExit: .*test_failures\.py, line \d+, in leaves", error)


def test_an_error_that_was_never_raised_is_described_too():
    assert described(KeyError("x")) == "KeyError: 'x'"


def test_a_sentence_that_cannot_be_made_says_where_it_broke():
    def explain(finding, text):
        raise LookupError("no such place")

    class Finding:
        rows = [type("Row", (), {"place": "t-0@1"})()]

    sentence = _sentence(dataclasses.replace(too_short, explain=explain), Finding(), None)
    assert "LookupError: no such place (" in sentence
    assert "in explain" in sentence


def _raises(finding, text):
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("detail", "words"), [(_raises, "SystemExit: 0"), (lambda *_: {"set": {1}}, "TypeError: "), (lambda *_: 1, "TypeError: ")]
)
def test_details_that_cannot_be_had_are_left_out_of_the_finding(detail, words):
    finding = SimpleNamespace(sentence="Too short.")
    assert _detail(dataclasses.replace(too_short, detail=detail), finding, None) == {}
    assert finding.sentence.startswith(f"Too short. (Its details cannot be had: {words}")


@pytest.mark.parametrize(("check", "words"), [(too_short, "Something odd, in two lines."), (too_long, "Something else.")])
def test_the_first_paragraph_of_the_docstring_stands_in_verdict_and_report(check, words):
    judged = judge_property(check.name, rule_of(check.name, {}), 3, [])
    document = dataclasses.replace(judged, definition=check.summary).document()
    assert document["definition"] == words
    assert properties([document])[0].definition == words
