"""A browser, and the reports of the example runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from support import report_example as example
from support.browser import Browser, Dom, started

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import render


@pytest.fixture(scope="session")
def chromium() -> str:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None and os.environ.get("CI") == "true":
        pytest.fail("no chromium on PATH: these tests need a real browser (Debian, Ubuntu: apt-get install chromium)")
    if program is None:
        pytest.skip("no chromium on PATH; install it (apt-get install chromium) to run the browser tests")
    return program


@pytest.fixture(scope="session")
def browser(chromium) -> Iterator[Browser]:
    """A running browser: to start it takes seconds."""
    with started(chromium) as running:
        yield running


@pytest.fixture
def browse(browser) -> Callable[..., Dom]:
    """Open a file in the browser and give back the page as it is after its scripts ran."""
    return browser.page


@pytest.fixture(scope="session")
def report_of(tmp_path_factory) -> Callable[[str], Path]:
    """The report of an example by its name, rendered once."""

    @cache
    def rendered(name: str) -> Path:
        return render(open_run(example.RUNS[name](tmp_path_factory.mktemp(name) / "run")))

    return rendered
