"""Briefs, which tell a gathering function about the whole run, where they cannot be had."""

from support.histories import History
from support.judging import judge_here

from fencepost.checkers.api import run_check
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.views.gathering import PartitionMessages


def unknowable(run):
    raise ValueError("a detail that cannot be read")


def gathered(log, brief):
    return PartitionMessages()


@run_check("briefed", gather=gathered, brief=unknowable)
def briefed(run):
    """Needs its brief."""
    if run.gathered.error:
        raise RuntimeError(run.gathered.error)
    return CheckResult(1)


def test_a_brief_that_fails_makes_its_check_unknown_and_takes_no_other_with_it(tmp_path):
    h = History()
    h.txn(0, {"t-0": [0]})
    h.final({"t-0": [0]})
    checks = [briefed, *(check for check in installed_checks()[0] if check.name == "duplicate")]
    document = judge_here(tmp_path, h.ops, checks=checks)
    answers = {row["name"]: row for row in (*document["properties"], *document["allowed"])}
    assert answers["briefed"]["verdict"] == "unknown"
    assert "a detail that cannot be read" in answers["briefed"]["reason"]
    assert answers["duplicate"]["verdict"] == "held"
