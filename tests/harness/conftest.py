"""A stranger's package: plug-ins that come in by entry points, as anybody's do. And a browser."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest
from support.browser import Browser, Dom, started

THINGS = '''
from dataclasses import dataclass, field
from typing import Any, ClassVar, Mapping

from fencepost.harness.api import Writer
from fencepost.harness.api import Killable, Outcome, PlannedOperation, Receipt, Role, TopicSpec


@dataclass(frozen=True, kw_only=True)
class Attic:
    """Brokers in the attic."""

    brokers: int = 3
    kafka: str = "4.3.0"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def missing(self):
        return {}

    def sandbox(self, argv):
        return argv

    describe = missing

    def up(self, run_dir, topics):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Letters:
    """Writes letters.

    writers: how many write
        at the same time
    """

    writers: int = 8
    sends: tuple[int, int] = (1, 4)
    """letters per envelope,
    fewest and most"""
    slow: bool = False  # writes with a quill

    def __post_init__(self):
        if self.writers < 1:
            raise ValueError("writers must be at least 1")

    def producer_settings(self):
        return {"transaction.timeout.ms": 10000, "delivery.timeout.ms": 5000}

    def roles(self):
        return (Writer(transactional=True),)

    def topics(self):
        return {"letters": TopicSpec(partitions=1)}

    def operations(self, role, partitions, rng):
        while True:
            yield PlannedOperation(f="txn", mops=(("send", rng.choice(partitions)),), intent="commit")

    def perform(self, op, client, run):
        return Outcome.OK


@dataclass(frozen=True, kw_only=True)
class Hammer:
    """Hits a broker."""

    needs: ClassVar[tuple[type, ...]] = (Killable,)
    target: str = "random"
    count: int = 1

    def inject(self, cluster, rng):
        return Receipt()

    def heal(self, cluster, receipt):
        return receipt


class Feather:
    """No fault at all: it is not even a dataclass."""


class Pigeon:
    """Carries letters."""

    version: ClassVar[str] = "1"
    capabilities: ClassVar[frozenset[str]] = frozenset({"transactions", "idempotence", "assign", "ends", "isolation"})

    def open(self, timeout_s):
        raise NotImplementedError

    def begin(self):
        raise NotImplementedError

    def send(self, record, done):
        raise NotImplementedError

    def poll(self, timeout_s, limit=1000):
        raise NotImplementedError

    flush = commit = abort = assign = open
    ends = close = begin


def torn(log):
    """An anomaly."""
'''

ENTRY_POINTS = """
[fencepost.cluster]
attic = strange_things:Attic
[fencepost.workload]
letters = strange_things:Letters
[fencepost.nemesis]
hammer = strange_things:Hammer
feather = strange_things:Feather
broken = strange_things_lost:Gone
[fencepost.client]
pigeon = strange_things:Pigeon
[fencepost.checker]
torn-letter = strange_things:torn
lost-letter = strange_things:torn
"""


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
def strange_site(tmp_path_factory):
    """A directory of `sys.path` with the stranger's package: one for all tests of a process, since none changes it."""
    site = tmp_path_factory.mktemp("site")
    information = site / "strange_things-1.0.dist-info"
    information.mkdir()
    (site / "strange_things.py").write_text(textwrap.dedent(THINGS))
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-things\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    return site


@pytest.fixture
def stranger(tmp_path, monkeypatch, strange_site):
    """Installs the stranger's package, and works in an empty directory; returns that directory."""
    monkeypatch.syspath_prepend(str(strange_site))
    monkeypatch.setenv("PYTHONPATH", str(strange_site))
    monkeypatch.setenv("FENCEPOST_PLUGIN_PATH", "")
    monkeypatch.delenv("FENCEPOST_RESULTS", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("my_faults", None)  # another test may have imported the example of that name
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    before = set(sys.modules)
    yield work
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith((str(tmp_path), str(strange_site))):
            del sys.modules[name]
