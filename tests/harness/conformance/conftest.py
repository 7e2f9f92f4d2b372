"""Nodes of a cluster in memory are looked at one after the other: they answer at once, and starting threads would take longer.

And what the kit keeps of a story that failed lies in pytest's folders, which go: a user's stays where the kit has put it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.harness.conformance import kit, snapshot


class OneThread:
    """A pool of no threads."""

    def __init__(self, size: int) -> None:
        assert size > 0

    def __enter__(self) -> OneThread:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, look: Callable[..., Any], *subjects: Any) -> Iterator[Any]:
        return map(look, *subjects)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "ThreadPoolExecutor", OneThread)


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    def made(prefix: str) -> str:
        return tempfile.mkdtemp(prefix=prefix, dir=tmp_path_factory.getbasetemp())

    monkeypatch.setattr(kit, "tempfile", SimpleNamespace(mkdtemp=made))
