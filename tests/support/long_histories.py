"""A short history is judged as a long one is: scanned and shuffled by the executors."""

from __future__ import annotations

import pytest

# Fewer tasks than for a long history: each costs a twentieth of a second, and finds little to do.
SETTINGS = {
    "fencepost.checkers.views.run_view.SHORT_HISTORY": 0,
    "fencepost.checkers.history.packed_parts.BUCKETS_PER_CORE": 2,
}


def judge_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends, every history is a long one."""
    for name, value in SETTINGS.items():
        monkeypatch.setattr(name, value)
