"""What commands import: a module that is not needed costs every one of them its time."""

from __future__ import annotations

import subprocess
import sys

from fencepost.checkers.model.lawful_history import write_lawful

FIRST = "blas-before-numpy"  # as if it were a module


def imported_by(*words):
    """The modules that a command has imported when it ends, and `FIRST` where numpy was imported without its threads."""
    program = (
        "import sys\nfrom fencepost.harness.cli import main as cli\nfrom fencepost.harness.system import blas\n"
        "whole = blas.import_numpy_without_threads\n"
        f"first = lambda: (sys.modules.setdefault('{FIRST}', None) if 'numpy' not in sys.modules else None, whole())\n"
        "blas.import_numpy_without_threads = first\n"
        "try:\n    cli.main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('modules', *sys.modules)"
    )
    argv = [sys.executable, "-c", program, *words]
    output = subprocess.run(argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
    return set(output.splitlines()[-1].split())


def of_these(modules, *names):
    """The modules that have one of these names, or lie in a package that has."""
    return sorted(module for module in modules if any(f"{module}.".startswith(f"{name}.") for name in names))


def test_a_check_of_a_short_lawful_history_imports_what_it_uses(tmp_path):
    """pandas, which pyarrow likes to import, and what only a run, a campaign or a history from elsewhere needs are left out."""
    write_lawful(tmp_path / "run", transactions=2_000)
    modules = imported_by("check", str(tmp_path / "run"))
    assert {"pyarrow", FIRST} <= modules
    libraries = ("pandas", "pyspark", "py4j", "networkx", "sqlite3", "confluent_kafka", "docker", "paramiko", "pyroute2")
    assert of_these(modules, *libraries) == []
    ours = ("campaign.campaign", "campaign.test", "drivers", "interop", "memory.index", "perform", "planning", "proxy", "rounds")
    rooms = ("fencepost.clusters", "fencepost.nemesis", "fencepost.workloads")
    interfaces = ("capabilities", "clients", "faults", "optional", "plans", "workloads")
    others = (*ours, *(f"api.{name}" for name in interfaces))
    assert of_these(modules, *rooms, *(f"fencepost.harness.{name}" for name in others)) == []
    for command in ("report", "show"):
        modules = imported_by(command, str(tmp_path / "run"))
        assert {"pyarrow", FIRST} <= modules
        assert of_these(modules, *libraries, *rooms, "fencepost.checkers", "fencepost.harness.planning") == []


def test_rounds_import_no_tables():
    """Whatever performs a campaign imports them; a part of several at once, too."""
    program = "import sys, fencepost.harness.rounds.performance\nprint(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert of_these(output.split(), "pandas", "pyarrow", "numpy", "fencepost.harness.report") == []


def test_a_list_of_runs_imports_no_tables(tmp_path):
    modules = imported_by("list", "--results", str(tmp_path))
    assert of_these(modules, "pandas", "pyarrow", "numpy", "pyspark", "fencepost.checkers", "fencepost.harness.planning") == []
