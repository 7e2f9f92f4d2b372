"""docs/architecture.md names functions that exist, and has a row for every folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
STEPS = re.findall(r"^(\d+)\. (.+?)(?=^\d+\. |^$)", PAGE, re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(r"`([\w/]+\.py):([\w.]+)`")
TABLED = {"harness": "## `harness/`", "checkers": "## `checkers/`"}


def section(heading):
    return PAGE.partition(f"\n{heading}")[2].partition("\n## ")[0]


def defined(path, name):
    """True if a file defines a function, or a class with a method, by its dotted name."""
    inside = ast.parse((ROOT / path).read_text()).body
    for part in name.split("."):
        named = [node for node in inside if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == part]
        inside = named[0].body if named else None
        if inside is None:
            return False
    return True


def test_a_run_has_ten_steps_and_each_names_its_functions():
    assert [int(number) for number, _ in STEPS] == list(range(1, 11))
    assert [number for number, text in STEPS if not FUNCTION.search(text)] == []


@pytest.mark.parametrize(("path", "name"), sorted(set(FUNCTION.findall(PAGE))))
def test_a_function_named_on_the_page_exists(path, name):
    assert defined(path, name)


@pytest.mark.parametrize(("path", "name"), [("harness/runs/runner.py", "Runner.fly"), ("harness/runs/runner.py", "judge")])
def test_a_function_that_does_not_exist_is_seen(path, name):
    assert not defined(path, name)


@pytest.mark.parametrize("package", TABLED)
def test_every_folder_has_a_row_in_the_table_of_its_package(package):
    rows = re.findall(r"^\| `([\w.]+)/?` \|", section(TABLED[package]), re.MULTILINE)
    folders = {path.relative_to(ROOT / package).parts[0] for path in (ROOT / package).rglob("*.py")} - {"__init__.py"}
    assert sorted(rows) == sorted(folders)
