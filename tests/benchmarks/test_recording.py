"""Measured costs of recording: runs of the workloads' own code, with a client that does nothing."""

from __future__ import annotations

import json

import pytest

from benchmarks import recording
from benchmarks.workers import TESTS
from fencepost.harness.planning.plan import make_plan


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_recording_is_measured_with_the_workloads_own_operations(tmp_path, monkeypatch, test):
    monkeypatch.setattr(recording, "OPERATIONS", 20)
    recorded, everything = recording.recording_us(make_plan(test, run=test.name, seed=1, command=""), tmp_path)
    assert 0 < recorded < everything
    lines = [json.loads(line) for line in (tmp_path / "recording.jsonl").read_text().splitlines()]
    completions = [line for line in lines if line.get("type") not in (None, "invoke")]
    assert [line["type"] for line in completions] == ["ok"] * 20
