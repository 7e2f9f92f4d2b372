"""The kit for drivers on a real broker: what `fencepost new client` writes passes, and each kind of liar is found out."""

from __future__ import annotations

import sys

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.conformance import client_kit
from fencepost.harness.conformance.client_groups import IN_GROUPS
from fencepost.harness.conformance.client_repetition import MANY
from fencepost.harness.conformance.client_stories import STORIES
from fencepost.harness.conformance.client_wire import ON_WIRE
from fencepost.harness.plugins import scaffold

LONG = (*MANY, *ON_WIRE, *IN_GROUPS, "transaction timeout")
LIES = {  # a liar: the stories that find it out, and what it does
    "acknowledges what it never sent": (
        ("commit",),
        """
    def send(self, request):
        self.delivered(request["record"], request["partition"], 0)
""",
    ),
    "commits what was to be aborted": (
        ("abort",),
        """
    def abort(self, request):
        return self.commit(request)
""",
    ),
    "hides errors": (
        ("silent brokers", "fenced"),
        """
    def commit(self, request):
        try:
            return super().commit(request)
        except Failure:
            return None

    def flush(self, request):
        try:
            return super().flush(request)
        except Failure:
            return None
""",
    ),
    "forgets that an abort ends something": (
        ("recovery",),
        """
    failed = False

    def commit(self, request):
        try:
            return super().commit(request)
        except Failure as error:
            self.failed = True
            raise Failure(**{**error.members, "retriable": False, "abortable": True})

    def abort(self, request):
        return None if self.failed else super().abort(request)
""",
    ),
    "skips a record": (
        ("read",),
        """
    def poll(self, request):
        answer = super().poll(request)
        return {**answer, "records": [row for row in answer["records"] if row[2] != 1]}
""",
    ),
    "says too early that it is at the end": (
        ("read",),
        """
    def assign(self, request):
        super().assign(request)
        self.ends = {partition: 1 for partition in request["positions"]}
""",
    ),
    "reads at its own isolation level": (
        ("read",),
        """
    def open(self, request):
        if request["consumer"]:
            request["consumer"]["isolation.level"] = "read_uncommitted"
        return super().open(request)
""",
    ),
    "lives on without input": (
        ("end of input",),
        """
    pass

import os, time
os._exit = lambda code: time.sleep(60)
""",
    ),
}


def played(tmp_path, lie="", stories=()):
    """The outcomes of a driver's stories, and what was seen."""
    scaffold.new("client", "honest", tmp_path)
    program = tmp_path / "honest.py"
    if lie:
        program = tmp_path / "liar.py"
        head = f"#!{sys.executable}\nfrom honest import Failure, Honest\n\n\nclass Liar(Honest):"
        program.write_text(f"{head}\n{lie}\n\nLiar().serve()\n")
        program.chmod(0o755)
    results, _ = client_kit.check(str(program), stories, "", lambda _: None)
    return {result.story: (result.ok, result.seen) for result in results}


@pytest.mark.cluster
def test_the_driver_that_is_written_anew_passes_every_story(tmp_path):
    """The stories that take long, another minute and a half, are played by the next test."""
    stories = [story for story in STORIES if story not in LONG]
    results = played(tmp_path, stories=stories)
    assert {story: seen for story, (ok, seen) in results.items() if ok is not True} == {}
    assert list(results) == stories


@pytest.mark.cluster
@pytest.mark.nightly
def test_the_driver_that_is_written_anew_passes_the_stories_that_take_long(tmp_path):
    results = played(tmp_path, stories=tuple(LONG))
    unclaimed = results.pop("commit offsets")
    assert unclaimed == (None, "not played: the driver lacks offset-commits")
    assert {story: seen for story, (ok, seen) in results.items() if ok is not True} == {}


SPARSE = {  # liars of one in so many on a real broker: all others are in test_client_repetition
    "loses every 500th record": (
        "many transactions",
        """
    sent = 0

    def send(self, request):
        self.sent += 1
        if self.sent % 500:
            return super().send(request)
        self.delivered(request["record"], request["partition"], self.sent)
""",
    ),
    "commits one abort in 300": (
        "many transactions",
        """
    aborted = 0

    def abort(self, request):
        self.aborted += 1
        return super().abort(request) if self.aborted % 300 else super().commit(request)
""",
    ),
}


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.parametrize("lie", SPARSE)
def test_a_liar_of_one_in_hundreds_is_found_out(tmp_path, lie):
    story, what = SPARSE[lie]
    results = played(tmp_path, what, (story,))
    assert results[story][0] is False, results


def first_lies():
    """One liar in each `make test`, all of them in the nightly."""
    marks = [[], *[[pytest.mark.nightly]] * (len(LIES) - 1)]
    return [pytest.param(*lie, id=name, marks=mark) for (name, lie), mark in zip(LIES.items(), marks, strict=True)]


@pytest.mark.cluster
@pytest.mark.parametrize(("stories", "lie"), first_lies())
def test_a_liar_is_found_out(tmp_path, stories, lie):
    before = ("commit", "abort") if stories == ("read",) else ()  # so that there is something to read
    results = played(tmp_path, lie, (*before, *stories))
    assert [results[story][0] for story in stories] == [False] * len(stories), results


def test_a_story_that_there_is_not_is_named():
    with pytest.raises(CampaignError, match=r'unknown story "comit"; did you mean "commit"\?'):
        client_kit.check("./anything", ["comit"], "", lambda _: None)
