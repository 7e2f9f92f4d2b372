"""The rooms of the house: who may import whom (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from fencepost.harness.api.services import DockerService, Judge, KafkaCache
from fencepost.harness.plugins import registry

ROOT = Path(__file__).parents[2]
ROOMS = ("clusters", "nemesis", "workloads", "checkers")
PACKAGES = ("harness", *ROOMS)
VOCABULARY = ("fencepost.harness.api", "fencepost.harness.secrets", "fencepost.harness.fetching", "fencepost.harness.system")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The imports and the constants of a file."""
    return [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Constant))
    ]


def imported(path: Path) -> set[str]:
    """Every module that a file imports, as dotted names."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def package_of(name: str) -> str | None:
    """Which of our five packages a module belongs to, by its full name or by the folder's alone."""
    parts = name.removeprefix("fencepost.").split(".")
    return parts[0] if parts[0] in PACKAGES else None


def test_rooms_know_the_vocabulary_and_never_one_another():
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for name in imported(path):
                allowed = package_of(name) in (room, None) or name.startswith(VOCABULARY)
                assert allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_the_harness_reaches_the_rooms_by_name_only():
    for path in (ROOT / "harness").rglob("*.py"):
        reached = {name for name in imported(path) if package_of(name) in ROOMS}
        assert not reached, f"{path.relative_to(ROOT)} imports {reached}"


def named_by_string(path: Path) -> set[str]:
    """Every text `module:name` in a file that names something of another package."""
    texts = [node.value for node in nodes(path) if isinstance(node, ast.Constant)]
    return {
        text for text in texts if isinstance(text, str) and re.fullmatch(rf"(fencepost\.)?({'|'.join(ROOMS)})(\.\w+)*:\w+", text)
    }


def test_the_harness_names_the_rooms_in_entry_points_only():
    """A name in a string would be an import that nothing checks."""
    for path in (ROOT / "harness").rglob("*.py"):
        assert not named_by_string(path), path.relative_to(ROOT)


@pytest.mark.parametrize(("name", "interface"), [("judge", Judge), ("kafka", KafkaCache), ("docker", DockerService)])
def test_each_service_has_one_entry_point_and_implements_its_interface(name, interface):
    assert registry.names("service") == ["docker", "judge", "kafka"]
    assert interface in registry.load("service", name).__mro__


def test_the_vocabulary_imports_nothing_of_ours():
    watched = ("fencepost", "pyspark", "numpy")
    code = f"import sys, fencepost.harness.api; print(*(name for name in sys.modules if name.split('.')[0] in {watched}))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    parts = {f"fencepost.harness.api.{path.stem}" for path in (ROOT / "harness" / "api").glob("[a-z]*.py")}
    above = {"fencepost", "fencepost.harness", "fencepost.harness.api"}
    assert above <= {*said} <= {*above, *parts}


def circles() -> list[set[str]]:
    """Files of the five packages that import each other in a circle: also inside functions, and for type checkers only."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    dotted = {path: ".".join(("fencepost", *path.relative_to(ROOT).with_suffix("").parts)) for path in files}
    modules = {name.removesuffix(".__init__"): path for path, name in dotted.items()}
    graph = nx.DiGraph()
    for module, path in modules.items():
        for node in nodes(path):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                names = {name if name in modules else node.module for name in full}
            else:
                continue
            graph.add_edges_from((module, name) for name in names if name in modules)
    return [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1]


def test_no_files_import_each_other_in_a_circle():
    assert circles() == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_can_be_imported_under_a_second_name(package):
    """From a working copy's root `import harness` would find the folder: two registries, and classes that are not equal."""
    code = f"import {package}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert f"ImportError: this package is `fencepost.{package}`, not `{package}`" in done.stderr
