"""Nodes of a cluster in memory are looked at one after the other: they answer at once, and starting threads would take longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.harness.conformance import snapshot


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
