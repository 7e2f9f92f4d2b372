"""The stories of a few operations, over a journal in a file: each lie is found, and the honest driver passes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.journal_driver import Cluster, Observer

from fencepost.harness.api import Isolation
from fencepost.harness.conformance import client_edges, client_fixture, client_stories
from fencepost.harness.conformance.client_stories import ClientKit

TESTS = Path(__file__).parents[2]
STORIES = ("two producers", "open transaction", "positions", "initialise", "fenced")
TO_START = "places = {name: 'start' if at == 'end' else at for name, at in request['positions'].items()}"
LIES = {  # a liar: the story that finds it out, what it does, and words of what is seen
    "keeps its first transactional id": (
        "two producers",
        "def open(self, request):\n    self.kept = getattr(self, 'kept', None) or request['transactional_id']\n"
        "    return super().open({**request, 'transactional_id': self.kept})",
        "a producer is disturbed by one of another transactional id",
    ),
    "shares one producer among all": (
        "two producers",
        "def open(self, request):\n    return super().open({**request, 'transactional_id': 'mine'})",
        "another producer has this id",
    ),
    "reads what is not decided": (
        "open transaction",
        "def open(self, request):\n    super().open(request)\n    self.visible = (*self.visible, 'open')",
        "at read_committed 2 of 2 records of an open transaction are read",
    ),
    "reads only what is decided": (
        "open transaction",
        "def open(self, request):\n    super().open(request)\n    self.visible = ('committed',)",
        "at read_uncommitted 0 of 2 records of an open transaction are read",
    ),
    "names the last record as the end": (
        "open transaction",
        "def poll(self, request):\n    answer = super().poll(request)\n"
        "    return {**answer, 'ends': {name: max(0, at - 1) for name, at in answer['ends'].items()}}",
        "the ends are named as",
    ),
    "begins at the start instead of the end": (
        "positions",
        f"def assign(self, request):\n    {TO_START}\n    return super().assign({{**request, 'positions': places}})",
        "assigned at `end`, comes 0, which was there before",
    ),
    "seeks to the start instead of the end": (
        "positions",
        f"def seek(self, request):\n    {TO_START}\n    assigned = request['call'] == 'assign'\n"
        "    return super().seek(request if assigned else {**request, 'positions': places})",
        "after a seek to `end`, comes 0, which was there before",
    ),
    "keeps the assignment before": (
        "positions",
        "def assign(self, request):\n    self.ends = {}\n    return self.seek(request)",
        "after t-1 was assigned,",
    ),
    "only aborts when it is to initialise": (
        "initialise",
        "def initialise(self, request):\n    try:\n        self.abort(request)\n    except Exception:\n        pass",
        "another producer has this id",
    ),
    "calls what is fatal retriable": (
        "fenced",
        "def _answer(self, request):\n    answer = super()._answer(request)\n    if 'error' in answer:\n"
        "        answer['error'].update(fatal=False, retriable=True)\n    return answer",
        "is called retriable, and 3 repetitions failed like it",
    ),
}
PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from support.journal_driver import Journal


class Liar(Journal):
{lie}


Liar().serve()
"""


def played(tmp_path, stories, lie="pass", cluster=Cluster):
    program = tmp_path / "liar.py"
    program.write_text(PROGRAM.format(tests=str(TESTS), lie="\n".join(f"    {line}" for line in lie.splitlines())))
    kit = ClientKit(cluster(str(tmp_path / "journal")), [sys.executable, str(program)], Observer, tmp_path / "driver.log")
    return {result.story: result for result in kit.play(stories)}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_edges, "QUIET_S", 0.0)  # one poll
    monkeypatch.setattr(client_fixture, "MARKERS_S", 0.05)


def test_an_honest_driver_passes(tmp_path):
    results = played(tmp_path, STORIES)
    assert {story: result.seen for story, result in results.items() if result.ok is not True} == {}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_and_named(tmp_path, lie):
    story, what, words = LIES[lie]
    result = played(tmp_path, (story,), what)[story]
    assert result.ok is False, result
    assert words in result.seen


def with_an_open_transaction(looks):
    """The class of a cluster whose last stable offset is below the end the first so many times that somebody asks."""

    class Behind(Cluster):
        def end_offsets(self, partitions, level):
            nonlocal looks
            ends, looks = super().end_offsets(partitions, level), looks - 1
            return {**ends, "t-0": ends["t-0"] - 1} if level is Isolation.COMMITTED and looks >= 0 else ends

    return Behind


@pytest.mark.parametrize("looks", [4, 10**9])
def test_a_transaction_that_the_broker_leaves_open_is_not_held_against_the_driver(tmp_path, looks, monkeypatch):
    monkeypatch.setattr(client_stories, "OVER_S", 3.0 if looks == 4 else 0.2)
    lie = "def append(self, request):\n    return 7"
    results = played(tmp_path, ("initialise", "positions"), lie, with_an_open_transaction(looks))
    seen = "record 0 was acknowledged at ('t-0', 7), and is not there"
    if looks == 4:  # it is over soon after
        assert (results["initialise"].ok, results["initialise"].seen) == (False, seen)
        assert results["positions"].ok is True
    else:
        assert (results["initialise"].ok, results["initialise"].observable) == (None, False)
        wanted = f"{seen}; but in t-0 a transaction is open 0 s after its client ended, longer than any timeout"
        assert results["initialise"].seen.startswith(wanted)
        assert results["positions"].seen == "not played: a transaction stays open in t-0"
