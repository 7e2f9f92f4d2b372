"""The reports of the example runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import render


@pytest.fixture(scope="session")
def report_of(tmp_path_factory) -> Callable[[str], Path]:
    """The report of an example by its name, rendered once."""

    @cache
    def rendered(name: str) -> Path:
        return render(open_run(example.RUNS[name](tmp_path_factory.mktemp(name) / "run")))

    return rendered
