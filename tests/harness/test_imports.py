"""Imports between the five packages, and between the folders of each (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from fencepost.harness.api.services import DockerService, Judge, KafkaCache, Prober
from fencepost.harness.plugins import registry

ROOT = Path(__file__).parents[2]
ROOMS = ("clusters", "nemesis", "workloads", "checkers")
PACKAGES = ("harness", *ROOMS)
VOCABULARY = tuple(f"fencepost.harness.{name}" for name in ("api", "fetching", "proxy", "secrets", "system"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The imports and the constants of a file."""
    return [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Constant))
    ]


def imported(path: Path) -> set[str]:
    """Every module that a file imports, as dotted names."""
    modules = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return modules


def package_of(name: str) -> str | None:
    """Our package that a module belongs to, by its full name or by the folder's alone."""
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


@pytest.mark.parametrize(
    ("name", "interface"), [("judge", Judge), ("kafka", KafkaCache), ("docker", DockerService), ("prober", Prober)]
)
def test_each_service_has_one_entry_point_and_implements_its_interface(name, interface):
    assert registry.names("service") == ["docker", "judge", "kafka", "prober"]
    assert interface in registry.load("service", name).__mro__


def test_the_vocabulary_imports_nothing_of_ours():
    watched = ("fencepost", "pyspark", "numpy")
    code = f"import sys, fencepost.harness.api; print(*(name for name in sys.modules if name.split('.')[0] in {watched}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    parts = {f"fencepost.harness.api.{path.stem}" for path in (ROOT / "harness" / "api").glob("[a-z]*.py")}
    above = {"fencepost", "fencepost.harness", "fencepost.harness.api"}
    assert above <= {*loaded} <= {*above, *parts}


def test_pandas_is_imported_where_it_is_used():
    """Its import takes a tenth of a short check: `checkers.model.frames` has it for everybody else."""
    entitled = {Path("checkers/model/frames.py"), Path("harness/data/tables.py"), Path("harness/data/recorded_run.py")}
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert {path.relative_to(ROOT) for path in paths if "pandas" in imported(path)} == entitled


@cache
def imports() -> tuple[tuple[Path, Path], ...]:
    """Pairs of files of the five packages, importer first: also inside functions, and for type checkers only."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    dotted = {path: ".".join(("fencepost", *path.relative_to(ROOT).with_suffix("").parts)) for path in files}
    modules = {name.removesuffix(".__init__"): path for path, name in dotted.items()}
    pairs = [(path, modules[name]) for path in files for name in modules_named(path, modules) if name in modules]
    return tuple((path.relative_to(ROOT), other.relative_to(ROOT)) for path, other in pairs)


def modules_named(path: Path, modules: Collection[str]) -> set[str]:
    """The modules that a file imports: of `from package import name` the module `package.name`, where that is a module."""
    names = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules else node.module for name in full}
    return names


def test_no_files_import_each_other_in_a_circle():
    graph = nx.DiGraph(imports())
    assert [circle for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


# --------------------------------------------------------------------------------------------------
# Floors: the order of the folders, as docs/architecture.md lists it
# --------------------------------------------------------------------------------------------------
def floors(package: str) -> list[list[str]]:
    """The floors of a package, lowest first: each line of its block names folders, and files that lie beside them."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    (block,) = re.findall(rf"^```floors {package}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [[member.strip() for member in line.split(",")] for line in block.splitlines()]


def members(package: str) -> set[str]:
    """The folders of a package with Python files, and the files that lie beside them; without its own `__init__`."""
    paths = [path.relative_to(ROOT / package).parts[0] for path in (ROOT / package).rglob("*.py")]
    return {*paths} - {"__init__.py"}


def heights(package: str, lines: Sequence[Sequence[str]], there: Collection[str]) -> dict[str, int]:
    """Member -> its floor. `*.py` stands for every file that no line names."""
    listed = {member: height for height, line in enumerate(lines) for member in line}
    others = listed.pop("*.py", None)
    rest = {member for member in there if member.endswith(".py")} - listed.keys() if others is not None else set()
    return {**listed, **dict.fromkeys(rest, others)}


def upwards(package: str, lines: Sequence[Sequence[str]], pairs: Iterable[tuple[Path, Path]]) -> list[str]:
    """Imports between members of a package that do not go to a lower floor."""
    listed = {"__init__.py": -1, **heights(package, lines, members(package))}
    within = [pair for pair in pairs if {path.parts[0] for path in pair} == {package}]
    return sorted(
        f"{path} imports {other}"
        for path, other in within
        if path.parts[1] != other.parts[1] and listed[other.parts[1]] >= listed[path.parts[1]]
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_stands_on_a_floor_and_every_floor_exists(package):
    listed = [member for line in floors(package) for member in line if member != "*.py"]
    assert len(listed) == len({*listed})
    assert heights(package, floors(package), members(package)).keys() == members(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_to_lower_floors_only(package):
    assert upwards(package, floors(package), imports()) == []


def test_an_import_upwards_or_along_a_floor_is_seen():
    lines = [["support", "testing"], ["kill.py"], ["*.py"]]
    pairs = [
        ("support/targets.py", "testing/fake.py"),
        ("kill.py", "pause.py"),
        ("pause.py", "halves.py"),
        ("pause.py", "kill.py"),
    ]
    given = [(Path("nemesis", path), Path("nemesis", other)) for path, other in pairs]
    assert upwards("nemesis", lines, given) == [
        "nemesis/kill.py imports nemesis/pause.py",
        "nemesis/pause.py imports nemesis/halves.py",
        "nemesis/support/targets.py imports nemesis/testing/fake.py",
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_can_be_imported_under_a_second_name(package):
    """From a working copy's root `import harness` would find the folder: two registries, and classes that are not equal."""
    code = f"import {package}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert f"ImportError: this package is `fencepost.{package}`, not `{package}`" in done.stderr
