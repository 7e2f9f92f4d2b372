"""Words of findings that must be true of small numbers."""

from __future__ import annotations

import pytest
from support.jepsen_example import adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.checkers.views.wording import apart
from fencepost.harness.history.run_directory import open_run


@pytest.mark.parametrize(
    ("ns", "words"), [(3_200_000, "3.2 ms before"), (60_000, "0.1 ms before"), (20, "before"), (0, "before")]
)
def test_no_time_between_is_named_that_would_be_nought(ns, words):
    assert apart(ns) == words


def test_a_history_without_times_names_none(tmp_path):
    """Places of lines stand for times in history.txt: what came first is known, and not how long before."""
    lines = [
        "0\t:invoke\t:txn\t[[:poll]]",
        "0\t:ok\t:txn\t[[:poll {6 [[0 9]]}]]",
        "1\t:invoke\t:txn\t[[:send 6 9]]",
        "1\t:ok\t:txn\t[[:send 6 [0 9]]]",
    ]
    history = adopted("".join(f"{line}\n" for line in lines), tmp_path, "history.txt")
    found = [row["sentence"] for row in judge(open_run(history.dir), here=True)["findings"]]
    assert any("had ended before" in sentence for sentence in found)
    assert not [sentence for sentence in found if " ms " in sentence]
