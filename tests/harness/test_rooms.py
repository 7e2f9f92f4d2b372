"""The rooms of the house: who may import whom (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from checkers import api as checkers_api
from harness import api

ROOT = Path(__file__).parents[2]
ROOMS = ("clusters", "nemesis", "workloads", "checkers")
VOCABULARY = ("harness.api", "harness.secrets")


def imported(path: Path) -> set[str]:
    """Every module that a file imports, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_rooms_know_the_vocabulary_and_never_one_another():
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for name in imported(path):
                first = name.split(".")[0]
                allowed = first == room or name in VOCABULARY or first not in (*ROOMS, "harness")
                assert allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_the_harness_reaches_the_rooms_by_name_only():
    for path in {*(ROOT / "harness").rglob("*.py")} - {
        ROOT / "harness" / "api" / "__init__.py"
    }:  # which has a test of its own below
        reached = {name for name in imported(path) if name.split(".")[0] in ROOMS}
        assert not reached, f"{path.relative_to(ROOT)} imports {reached}"


def test_the_vocabulary_imports_nothing_of_ours():
    """When it runs: type checkers are told where the words of a check come from, and they come when they are asked for."""
    watched = ("harness", "pyspark", "numpy", *ROOMS)
    code = f"import sys, harness.api; print(*(name for name in sys.modules if name.split('.')[0] in {watched}))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    parts = {f"harness.api.{path.stem}" for path in (ROOT / "harness" / "api").glob("[a-z]*.py")}
    assert {*said} == {"harness", "harness.api", *parts}


def test_the_words_of_a_check_come_from_the_vocabulary_too():
    assert api.partition_check is checkers_api.partition_check
    assert api.CheckResult is checkers_api.CheckResult
    assert {name for name in api._OF_CHECKS if getattr(api, name) is None} == set()
    with pytest.raises(AttributeError, match="no attribute 'Suspect'"):
        _ = api.Suspect


def test_secrets_know_no_more_than_the_vocabulary():
    assert {name for name in imported(ROOT / "harness" / "secrets.py") if name.split(".")[0] in (*ROOMS, "harness")} == {
        "harness.api"
    }
