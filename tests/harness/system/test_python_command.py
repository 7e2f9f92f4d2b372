"""Programs of ours import nothing from the working directory, whatever lies there and whichever Python runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fencepost.checkers.engine import session
from fencepost.harness.system.python_command import interpreter_script, module_command

WORDS = ("json", "runpy", "site", "types", "os", "harness", "clusters", "pyspark", "encodings")
HOSTILE = "open(r'{0}', 'w').write(__name__)\n"
SHOWN = (
    "import sys, json, fencepost.harness.api as api\nprint(json.dumps([__name__, sys.argv[1:], '' in sys.path, api.__file__]))\n"
)


@pytest.fixture
def hostile(tmp_path):
    """A working directory full of modules that leave a mark when they are imported; the mark."""
    mark, place = tmp_path / "mark", tmp_path / "work"
    place.mkdir()
    for word in WORDS:
        (place / f"{word}.py").write_text(HOSTILE.format(mark))
    for word in ("harness", "pyspark"):
        (place / word).mkdir()
        (place / word / "__init__.py").write_text(HOSTILE.format(mark))
    return place, mark


def started(argv, place, tmp_path, **more):
    """Output of a module that is started with this command line; nothing helps but the command line itself."""
    (tmp_path / "own").mkdir(exist_ok=True)
    (tmp_path / "own" / "shown.py").write_text(SHOWN)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    env |= {"PYTHONPATH": str(tmp_path / "own"), "PYTHONDONTWRITEBYTECODE": "1", **more}
    done = subprocess.run(argv, cwd=place, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("safe", [{}, {"PYTHONSAFEPATH": "1"}], ids=["plain", "safe path"])
def test_a_module_is_started_without_the_working_directory(hostile, tmp_path, safe):
    place, mark = hostile
    shown = started(module_command("shown", "-x", "y"), place, tmp_path, **safe)
    name, arguments, searched, api = json.loads(shown)
    assert (name, arguments, searched) == ("__main__", ["-x", "y"], False)
    assert not api.startswith(str(place))
    assert not mark.exists(), mark.read_text()


def test_python_itself_would_import_it(hostile, tmp_path):
    """Else the test above would prove nothing."""
    place, mark = hostile
    with pytest.raises(AssertionError):
        started([sys.executable, "-m", "shown"], place, tmp_path)
    assert mark.exists()


def test_sparks_workers_on_a_python_without_safe_path_are_started_by_a_script(hostile, tmp_path, monkeypatch):
    """As Spark does it: `python -m pyspark.daemon ...`."""
    place, mark = hostile
    assert session._own_interpreter(tmp_path) == sys.executable
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    script = session._own_interpreter(tmp_path)
    assert '"__main__", ["z"], false' in started([script, "-m", "shown", "z"], place, tmp_path)
    assert not mark.exists(), mark.read_text()
    assert interpreter_script().startswith("#!/bin/sh\n")
