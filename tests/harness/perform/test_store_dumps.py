"""Dumps of state stores: how instances are asked, what of an answer is recorded, and what is only named."""

import itertools
import json
import os

import pytest

from fencepost.harness.api import Isolation, LogEntry
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.store_dumps import BadDump, Copy, StoreDumps, copies_in

LINES = [
    {"store": "counts", "partition": 0, "role": "active", "position": 7},
    {"store": "counts", "partition": 0, "key": "a", "value": "3 xx"},
    {"store": "counts", "partition": 1, "role": "standby", "position": 4},
    {"store": "counts", "partition": 1, "key_hex": "00ff", "value_hex": "32"},
]


def text(lines=LINES):
    return "".join(json.dumps(line) + "\n" for line in lines)


def entry(record):
    return LogEntry("stored", record.key.hex(), len(record.value))


class Cluster:
    """Two changelogs that end at 9 and 5; growing: each look finds one record more."""

    def __init__(self, growing=0, stable=0):
        self.growing, self.open, self.looks = growing, stable, 0

    def admin(self):
        return self

    def partitions_of(self, topic):
        return [f"{topic}-0", f"{topic}-1"]

    def log(self, partition):
        raise AssertionError("no log is read here")

    def end_offsets(self, partitions, isolation):
        self.looks += 1
        more = min(self.looks // 2, self.growing)
        below = self.open if isolation is Isolation.COMMITTED else 0
        return {name: {"0": 9, "1": 5}[name[-1]] + more - below for name in partitions}


class Program:
    """An instance that answers requests with a text; None: it does not."""

    def __init__(self, directory, answer):
        self.directory, self.answer = directory, answer
        directory.mkdir()

    def look(self):
        request = self.directory / "dump"
        if request.exists() and self.answer is not None:
            (self.directory / request.read_text()).write_text(self.answer)
            request.unlink()


def recorded(tmp_path, answers, cluster=None):
    """The problems that `record` yields, and the completed lines."""
    programs = {node: Program(tmp_path / node, answer) for node, answer in answers.items()}
    now = itertools.count(step=0.25)
    dumps = StoreDumps(
        Cluster() if cluster is None else cluster,
        {"counts": "g-counts-changelog"},
        {node: program.directory for node, program in programs.items()},
        lambda: [program.look() for program in programs.values()],
        clock=lambda: next(now),
        sleep=lambda seconds: None,
    )
    writer = HistoryWriter(tmp_path / "harness.jsonl", run="r", slot=-1, node="harness", role="harness", pid=1)
    numbers = itertools.count()
    problems = list(dumps.record(entry, writer, lambda: next(numbers)))
    lines = [json.loads(line) for line in (tmp_path / "harness.jsonl").read_text().splitlines()[1:]]
    return problems, [(line["type"], line["value"]) for line in lines if line["type"] != "invoke"]


def test_each_copy_is_recorded_with_its_keys(tmp_path):
    problems, lines = recorded(tmp_path, {"c2": text()})
    no_producer = [None] * 4
    active = [[0, *no_producer, "active", "counts", 7], [1, *no_producer, "stored", "61", 4]]
    standby = [[0, *no_producer, "standby", "counts", 4], [1, *no_producer, "stored", "00ff", 1]]
    assert lines == [
        ("ok", [["entries", "c2:g-counts-changelog-0", active]]),
        ("ok", [["entries", "c2:g-counts-changelog-1", standby]]),
    ]
    assert problems == []


def test_who_does_not_answer_or_answers_something_else_is_named_and_the_others_are_recorded(tmp_path):
    problems, lines = recorded(tmp_path, {"c2": None, "c3": "{", "c4": text(LINES[:2])})
    assert [kind for kind, _ in lines] == ["info", "info", "ok"]
    assert problems[0] == "the state stores of instance c2 are not compared: no dump came within 30 s"
    assert "line 1 of the dump cannot be read" in problems[1]
    assert lines[0][1] == {"node": "c2", "problem": "no dump came within 30 s"}


def test_changelogs_that_grow_for_a_while_are_waited_for(tmp_path):
    silent = text([{"store": "counts", "partition": 0, "role": "active"}])
    problems, lines = recorded(tmp_path, {"c2": silent}, Cluster(growing=20))
    assert problems == []
    assert lines[0][1][0][2][0][-1] == 29


@pytest.mark.parametrize("cluster", [Cluster(growing=10**6), Cluster(stable=1)])
def test_changelogs_that_do_not_rest_are_not_compared(tmp_path, cluster):
    problems, lines = recorded(tmp_path, {"c2": text()}, cluster)
    assert [kind for kind, _ in lines] == ["info"]
    assert problems == ["the state stores of instance c2 are not compared: the changelogs did not come to rest"]


def test_where_no_changelog_can_be_read_no_dump_is_requested(tmp_path):
    problems, _ = recorded(tmp_path, {"c2": text()}, object())
    assert "the changelogs of this cluster cannot be read" in problems[0]


def test_a_copy_without_position_says_so():
    assert copies_in(text([{"store": "s", "partition": 3, "role": "standby"}])) == [Copy("s", 3, "standby", None, [])]


@pytest.mark.parametrize(
    ("role", "fields", "position"),
    [("active", {}, 9), ("standby", {}, -1), ("active", {"position": -1}, -1), ("active", {"position": 8}, 8)],
)
def test_an_active_copy_that_says_nothing_reaches_to_the_end_of_its_changelog(tmp_path, role, fields, position):
    _, lines = recorded(tmp_path, {"c2": text([{"store": "counts", "partition": 0, "role": role, **fields}])})
    assert lines[0][1][0][2][0][-1] == position


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([*LINES[:1], {"store": "counts", "partition": 0, "key": "a"}], "line 2"),
        ([{"store": "counts", "partition": 0, "role": "idle"}], "active or standby"),
        (LINES[1:2], "no line with the role"),
        ([["counts"]], "line 1"),
        ([LINES[0], {**LINES[1], "value": None}], "line 2"),
        ([{**LINES[0], "partition": 1.5}], "line 1"),
        ([{**LINES[0], "partition": "first"}], "line 1"),
        ([{**LINES[0], "partition": -1}], "line 1"),
        ([{**LINES[0], "partition": 2**63}], "line 1"),
        ([{**LINES[0], "position": 2**70}], "line 1"),
        ([{**LINES[0], "position": "end"}], "line 1"),
        ([{**LINES[0], "store": 7}], "line 1"),
        ([{**LINES[0], "role": 7}], "line 1"),
        ([LINES[0], {"store": "counts", "partition": 0, "key_hex": "zz", "value": ""}], "line 2"),
        ([7], "line 1"),
        ([None], "line 1"),
    ],
)
def test_a_dump_of_another_form_is_refused(lines, why):
    with pytest.raises(BadDump, match=why):
        copies_in(text(lines))


@pytest.mark.parametrize("content", [b"\xff\n", b"[" * 100_000, b'{"store": "s", "partition": Infinity, "role": "active"}'])
def test_bytes_that_are_no_dump_are_refused(tmp_path, content):
    (tmp_path / "state-1.jsonl").write_bytes(content)
    assert isinstance(StoreDumps(Cluster(), {}, {}, lambda: None)._answer(tmp_path, "state-1.jsonl"), str)


@pytest.mark.parametrize("kind", ["fifo", "directory", "endless"])
def test_what_is_no_file_is_not_read(tmp_path, kind):
    place = tmp_path / "state-1.jsonl"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero")
    assert "the dump cannot be read" in StoreDumps(Cluster(), {}, {}, lambda: None)._answer(tmp_path, "state-1.jsonl")
