"""The rows of the prober: each is met by a coordinator that follows KIP-98 to the letter, and violated by one that breaks it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.literal_coordinator import stage

import fencepost
from fencepost.clusters.probe import producer
from fencepost.clusters.probe.profiles import FIRST, PROFILES, TV1, TV2, fitted
from fencepost.clusters.probe.rows import FURTHER_ROWS, NUMBERED, ROWS
from fencepost.clusters.probe.service import compared, played
from fencepost.harness.api.services import ProbeResult

STEPS = {  # KIP-98, "Transaction Coordinator Request Handling": the steps that answer a request
    "InitProducerId": "1 2 3 4",
    "AddPartitionsToTxn": "1 2 3a 3b",
    "AddOffsetsToTxn": "1 2 3 4",
    "EndTxn": "1 2 3a 3b 3c 3d",
}
BY_NUMBER = {row.number: row for row in ROWS if FIRST in row.profiles}


@pytest.fixture(autouse=True)
def _answers_at_once(monkeypatch):
    """The coordinator of these tests changes nothing by itself."""
    monkeypatch.setattr(producer, "WITHIN_S", 0.3)


def answers(lie=""):
    own = stage(lie)
    return {number: played(row, own) for number, row in BY_NUMBER.items()}


def test_every_step_of_the_kip_has_a_row():
    assert list(NUMBERED) == [f"{request} {step}" for request, steps in STEPS.items() for step in steps.split()]


def test_no_two_rows_of_a_profile_have_one_number():
    for profile in PROFILES:
        numbers = [row.number for row in ROWS if profile in row.profiles]
        assert sorted(numbers) == sorted(set(numbers))


def test_a_coordinator_by_the_letter_meets_every_row():
    results = {number: (answer.result.value, answer.answer, answer.reason) for number, answer in answers().items()}
    assert {number: result for number, result in results.items() if result[0] != "met"} == {}


@pytest.mark.parametrize(
    ("lie", "violated"),
    [
        ("coordinator", {"InitProducerId 1"}),
        ("leaves open", {"InitProducerId 2"}),
        ("epoch", {"InitProducerId 3"}),
        ("one id", {"InitProducerId 3 (2)"}),
        ("timeout", {"timeout"}),
        ("end mapping", {"EndTxn 1 (2)"}),
        ("end epoch", {"EndTxn 2", "EndTxn 2 (2)", "expiry"}),
        ("add epoch", {"AddPartitionsToTxn 2", "AddPartitionsToTxn 2 (2)", "AddOffsetsToTxn 2 (2)"}),
        ("direction", {"EndTxn 3d", "EndTxn 3d (2)", "EndTxn 3d (3)", "EndTxn 3d (4)"}),
        ("zombie record", {"zombie record"}),
        ("gap", {"high sequence"}),
    ],
)
def test_a_coordinator_that_breaks_a_sentence_violates_its_row(lie, violated):
    wrong = {number for number, answer in answers(lie).items() if answer.result is ProbeResult.VIOLATED}
    assert violated <= wrong


def test_an_answer_that_a_later_kip_gives_differs_only_in_the_versions_of_that_kip():
    row = BY_NUMBER["EndTxn 2"]
    assert compared(row, TV1, "PRODUCER_FENCED")[0] is ProbeResult.DIFFERS
    assert "KIP-588" in compared(row, TV2, "PRODUCER_FENCED")[1]
    assert compared(row, FIRST, "PRODUCER_FENCED")[0] is ProbeResult.VIOLATED
    assert compared(row, TV1, "NONE")[0] is ProbeResult.VIOLATED


def test_a_situation_that_is_not_reached_is_no_answer():
    own = stage()
    own.wire.others.clear()
    answer = played(BY_NUMBER["InitProducerId 1"], own)
    assert (answer.result, answer.answer) == (ProbeResult.UNREACHED, "")
    assert "one broker" in answer.reason


def test_versions_are_no_newer_than_a_cluster_takes():
    ranges = {name: (0, version) for name, version in PROFILES[TV2].items()}
    assert fitted(TV2, ranges) == (PROFILES[TV2], "")
    assert fitted(TV1, {**ranges, "EndTxn": (0, 3)})[0]["EndTxn"] == 3
    assert "transaction.version 2 needs 5" in fitted(TV2, {**ranges, "EndTxn": (0, 4)})[1]
    assert "from version 4 on" in fitted(FIRST, {**ranges, "Produce": (4, 12)})[1]


def test_the_page_has_every_row():
    """Regenerate its table as the page itself says."""
    page = (Path(fencepost.__file__).parents[1] / "docs" / "probe.md").read_text()
    shown = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|(]+) \(", page, re.M)
    assert sorted(shown) == sorted((row.number, row.situation, " or ".join(row.demanded)) for row in ROWS)


def test_further_rows_name_their_source():
    assert all(re.match(r"KIP-\d+", row.source) for row in (*FURTHER_ROWS, *ROWS))
