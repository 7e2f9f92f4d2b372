"""The published schema of `verdict.json`: made of the types, and what fencepost writes is as it says."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import msgspec
import pytest
from support import report_example
from support.histories import write_faults
from support.json_schema import mistakes, undocumented
from support.judging import judge_here
from support.overlapping_history import overlapping_history
from support.random_pipelines import pipeline_history

from fencepost.harness.api.values import VERDICT_SCHEMA
from fencepost.harness.api.verdict_document import VerdictDocument
from fencepost.harness.api.verdict_schema import schema_text, verdict_schema

PUBLISHED = Path(__file__).parents[3] / "docs" / "verdict.schema.json"
SCHEMA = verdict_schema()
EXAMPLES = ("valid", "torn", "unknown", "empty", "large", "hostile", "foreign")
WORDLESS = {
    "CycleStep",
    "CountsDocument",
    "Gap",
    "JudgedBy",
    "UnexpectedDocument",
    "StoredRowDocument",
    "FaultProgress",
}  # their names say it
FAULT = {"id": 0, "kind": "kill", "role": "leader", "targets": ["n1"], "pairs": [], "injected_ns": 5, "healed_ns": 20}
FAULT |= {"evidence": "{}", "healing": "{}", "effective": False, "note": ""}


def test_the_published_schema_is_made_of_the_types():
    """`python -m fencepost.harness.api.verdict_schema > docs/verdict.schema.json`"""
    assert PUBLISHED.read_text() == schema_text()


def test_the_schema_has_the_version_of_the_documents():
    assert SCHEMA["$id"] == f"urn:fencepost:verdict:{VERDICT_SCHEMA}"
    assert mistakes({"schema": VERDICT_SCHEMA + 1}, {**SCHEMA, "required": []}) == ["$.schema: 2 is not 1"]


def test_every_key_has_words():
    for name, definition in {"": SCHEMA, **SCHEMA["$defs"]}.items():
        lacking = {key for key, of in definition.get("properties", {}).items() if "description" not in of}
        assert not lacking or name in WORDLESS, (name, lacking)


@pytest.mark.parametrize("seed", range(12))
def test_a_verdict_of_ours_is_as_the_schema_says_and_has_no_key_beside(tmp_path, seed):
    write_faults(tmp_path, FAULT)
    verdict = judge_here(tmp_path, overlapping_history(Random(f"schema {seed}")))
    assert mistakes(verdict, SCHEMA) == []
    assert undocumented(verdict, SCHEMA) == set()


def test_a_verdict_on_a_pipeline_is_as_the_schema_says(tmp_path):
    verdict = judge_here(tmp_path, pipeline_history(Random(1)), {"consumption": "recorded"})
    assert mistakes(verdict, SCHEMA) == []
    assert undocumented(verdict, SCHEMA) == set()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_as_the_schema_says(tmp_path, name):
    verdict = json.loads((getattr(report_example, name)(tmp_path / "run") / "verdict.json").read_text())
    odd = [mistake for mistake in mistakes(verdict, SCHEMA) if "is none of" not in mistake or name != "hostile"]
    assert odd == []
    assert undocumented(verdict, SCHEMA) == set()


def test_a_check_may_add_keys_to_its_findings(tmp_path):
    verdict = json.loads((report_example.torn(tmp_path / "run") / "verdict.json").read_text())
    verdict["findings"][0]["of_mine"] = [1]
    assert mistakes(verdict, SCHEMA) == []
    assert undocumented(verdict, SCHEMA) == {"$.findings[].of_mine"}


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"verdict": "good"}, "$.verdict: 'good' is none of"),
        ({"expectation_met": "yes"}, "$.expectation_met: 'yes' is no"),
        ({"unseen": [[1, -1]]}, "$.unseen[0][1]: below 0"),
        ({"unseen": [[1]]}, "$.unseen[0]: too short"),
        ({"findings": [{"cycle": {"vertices": ["a"]}}]}, "$.findings[0].cycle.vertices[0]: 'a' is no integer"),
        ({"properties": [{"verdict": "broken"}]}, "$.properties[0].verdict: 'broken' is none of"),
    ],
)
def test_what_is_no_verdict_is_against_the_schema(tmp_path, change, mistake):
    """And where it is the types that are broken, the reader of runs refuses it too."""
    verdict = json.loads((report_example.torn(tmp_path / "run") / "verdict.json").read_text()) | change
    assert [each for each in mistakes(verdict, SCHEMA) if each.startswith(mistake)]
    if "none of" not in mistake:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(verdict, VerdictDocument)


def test_a_verdict_without_a_required_key_is_against_the_schema():
    assert "$: lacks findings" in mistakes({}, SCHEMA)
