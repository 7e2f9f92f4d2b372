"""The stories of many operations, over a journal in a file: faults that strike one operation in hundreds are found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.journal_driver import Cluster, Observer

from fencepost.harness.conformance import client_fixture
from fencepost.harness.conformance.client_ledger import detectable
from fencepost.harness.conformance.client_repetition import MANY, Plan
from fencepost.harness.conformance.client_stories import ClientKit

TESTS = Path(__file__).parents[2]
SMALL = Plan(transactions=240, records=240, reads=300, seeks=30, offsets=40, fencings=10)

# A liar: the stories that find it out, how often it lies, and what it does. `self.nth()` is true once in EVERY calls.
LIES = {
    "loses every k-th record": (
        ("many transactions", "many records"),
        500,
        "def append(self, request):\n    return 7 if self.nth() else super().append(request)",
    ),
    "acknowledges at another offset": (
        ("many transactions", "many records"),
        300,
        "def acknowledge(self, record, partition, offset):\n    self.delivered(record, partition, offset + self.nth())",
    ),
    "acknowledges in another partition": (
        ("many transactions", "many records"),
        300,
        "def acknowledge(self, record, partition, offset):\n"
        "    self.delivered(record, 1 - partition if self.nth() else partition, offset)",
    ),
    "acknowledges nothing": (
        ("many transactions", "many records"),
        300,
        "def acknowledge(self, record, partition, offset):\n    self.nth() or self.delivered(record, partition, offset)",
    ),
    "sends twice": (
        ("many transactions", "many records"),
        300,
        "def append(self, request):\n    self.nth() and super().append(request)\n    return super().append(request)",
    ),
    "sends without its headers": (
        ("many transactions", "many records"),
        300,
        "def append(self, request):\n    return super().append({**request, 'headers': []} if self.nth() else request)",
    ),
    "cuts values behind their first kilobyte": (
        ("many records", "many transactions"),
        50,
        "def append(self, request):\n    if len(request['value']) > 1400 and self.nth():\n"
        "        request = {**request, 'value': request['value'][:1368]}\n    return super().append(request)",
    ),
    "sends an empty key for none": (
        ("many records", "many transactions"),
        50,
        "def append(self, request):\n    empty = request['key'] is None and self.nth()\n"
        "    return super().append({**request, 'key': ''} if empty else request)",
    ),
    "reports a record with the call after": (
        ("many records", "many transactions"),
        40,
        "late = ()\ndef acknowledge(self, record, partition, offset):\n    if self.nth():\n"
        "        self.late = (record, partition, offset)\n    else:\n        self.delivered(record, partition, offset)\n\n"
        "def _answer(self, request):\n    late, self.late = (self.late, ()) if request['call'] != 'flush' else ((), self.late)\n"
        "    late and self.delivered(*late)\n    return super()._answer(request)",
    ),
    "commits what was to be aborted": (
        ("many transactions",),
        300,
        "def abort(self, request):\n    return self.commit(request) if self.nth() else super().abort(request)",
    ),
    "aborts what was to be committed": (
        ("many transactions",),
        300,
        "def commit(self, request):\n    return self.abort(request) if self.nth() else super().commit(request)",
    ),
    "leaves a transaction open": (
        ("many transactions",),
        300,
        "def commit(self, request):\n    return None if self.nth() else super().commit(request)",
    ),
    "hangs in commit": (
        ("many transactions",),
        300,
        "def commit(self, request):\n    self.nth() and sleep_for_ever()\n    return super().commit(request)",
    ),
    "answers twice": (
        ("many transactions", "many records", "many reads"),
        300,
        "def _answer(self, request):\n    answer = super()._answer(request)\n"
        "    self.nth() and self.write({'id': request['id'], **answer})\n    return answer",
    ),
    "drops a record that was read": (
        ("many reads",),
        500,
        "def row(self, one):\n    return super().row(one)\n\ndef poll(self, request):\n    answer = super().poll(request)\n"
        "    return {**answer, 'records': [one for one in answer['records'] if not self.nth()]}",
    ),
    "repeats a poll": (
        ("many reads",),
        100,
        "last = None\ndef poll(self, request):\n    if self.nth() and self.last:\n        return self.last\n"
        "    self.last = super().poll(request)\n    return self.last",
    ),
    "reads another value": (
        ("many reads",),
        500,
        "def row(self, one):\n    row = super().row(one)\n    return [*row[:4], 'AAAA', *row[5:]] if self.nth() else row",
    ),
    "answers with a record more than it was asked for": (
        ("many reads",),
        150,
        "def poll(self, request):\n    return super().poll({**request, 'limit': request['limit'] + self.nth()})",
    ),
    "reads another time": (
        ("many reads",),
        500,
        "def row(self, one):\n    row = super().row(one)\n    return [*row[:6], row[6] // 1000] if self.nth() else row",
    ),
    "drops what it has of other partitions at a seek": (
        ("many seeks",),
        40,
        "def seek(self, request):\n    others = self.at.keys() - request['positions'].keys()\n"
        "    if others and self.nth():\n        self.at |= {name: self.at[name] + 1 for name in others}\n"
        "    return super().seek(request)",
    ),
    "skips the record behind the one after a seek": (
        ("many seeks",),
        40,
        "def seek(self, request):\n    self.behind = 0 if self.nth() else 2\n    return super().seek(request)\n\n"
        "def poll(self, request):\n    self.behind = getattr(self, 'behind', 2) + 1\n"
        "    self.behind == 2 and super().poll(request)\n    return super().poll(request)",
    ),
    "forgets a seek": (
        ("many seeks",),
        40,
        "def seek(self, request):\n    return None if self.nth() else super().seek(request)",
    ),
    "answers with the position before": (
        ("many seeks",),
        40,
        "def position(self, request):\n    return {'positions': {name: at - self.nth() for name, at in self.at.items()}}",
    ),
    "forgets offsets": (
        ("many offsets",),
        40,
        "def send_offsets(self, request):\n    return None if self.nth() else super().send_offsets(request)",
    ),
    "swaps the offsets of two partitions": (
        ("many offsets",),
        20,
        "def send_offsets(self, request):\n    names, values = [*request['offsets']], [*request['offsets'].values()]\n"
        "    swapped = len(names) > 1 and self.nth()\n"
        "    return super().send_offsets({**request, 'offsets': dict(zip(names, values[::-1]))} if swapped else request)",
    ),
    "commits what nobody asked it to": (
        ("many offsets",),
        40,
        "def poll(self, request):\n    row = (self.settings['group'], 'g-1', 20)\n"
        "    self.nth() and self.store.execute('insert or replace into group_offset values (?, ?, ?)', row)\n"
        "    return super().poll(request)",
    ),
    "answers with the offset before": (
        ("many offsets",),
        40,
        "last = None\ndef committed(self, request):\n    if not (self.nth() and self.last):\n"
        "        self.last = super().committed(request)\n    return self.last",
    ),
    "does not notice that it is fenced": (
        ("many fencings",),
        10,
        "def demand_epoch(self):\n    self.nth() or super().demand_epoch()",
    ),
    "hides that it is fenced": (
        ("many fencings",),
        10,
        "def open(self, request):\n    self.quiet = self.nth()\n    return super().open(request)\n\n"
        "def _answer(self, request):\n    answer = super()._answer(request)\n"
        "    return {'ok': {}} if 'error' in answer and self.quiet else answer",
    ),
}
LIAR = """
import sys
sys.path.insert(0, {tests!r})
from support.journal_driver import Journal, sleep_for_ever


class Liar(Journal):
    calls = 0

    def nth(self):
        self.calls += 1
        return self.calls % {every} == 0

{lie}


Liar().serve()
"""


def played(tmp_path, plan, stories, lie="pass", every=1):
    """The results of these stories by name."""
    program = tmp_path / "liar.py"
    program.write_text(LIAR.format(tests=str(TESTS), every=every, lie="\n".join(f"    {line}" for line in lie.splitlines())))
    kit = ClientKit(Cluster(str(tmp_path / "journal")), [sys.executable, str(program)], Observer, tmp_path / "driver.log")
    kit.many = plan
    return {result.story: result for result in kit.play(stories)}


def test_an_honest_driver_passes_and_the_rate_is_named(tmp_path):
    results = played(tmp_path, SMALL, tuple(MANY))
    assert {story: result.seen for story, result in results.items() if result.ok is not True} == {}
    assert "120 commits (1 in 31), 120 aborts (1 in 31); seen with 98%" in results["many transactions"].seen


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_in_as_many_operations_as_it_needs(tmp_path, lie, monkeypatch):
    """A tenth of the operations, and lies ten times as frequent."""
    monkeypatch.setattr(client_fixture, "CALL_S", 1.0)
    monkeypatch.setattr(client_fixture, "ANSWER_SLACK_S", 0.5)
    stories, every, what = LIES[lie]
    results = played(tmp_path, SMALL, stories[:1], what, max(2, every // 10))
    assert results[stories[0]].ok is False, results


@pytest.mark.nightly
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found_at_its_own_rate(tmp_path, lie):
    stories, every, what = LIES[lie]
    for story in stories:
        result = played(tmp_path, Plan(), (story,), what, every)[story]
        assert result.ok is False, result
        os.remove(tmp_path / "journal")


def test_fewer_operations_than_planned_are_no_answer(tmp_path):
    result = played(tmp_path, Plan(transactions=100_000, most_s=0.2), ("many transactions",))["many transactions"]
    assert (result.ok, result.observable) == (None, False)
    assert "of 100,000 operations" in result.seen


SLOW = "def poll(self, request):\n    import time; time.sleep(0.02)\n    return super().poll(request)"


def test_a_driver_that_is_only_slow_is_accused_of_nothing(tmp_path):
    """Its reads come to no end in the story's time: what it has read by then is compared, and that is no answer."""
    result = played(tmp_path, Plan(reads=3000, most_s=0.5), ("many reads",), SLOW)["many reads"]
    assert (result.ok, result.observable) == (None, False)
    assert "only" in result.seen
    wrong = "\ndef row(self, one):\n    return [*super().row(one)[:4], 'AAAA', [], None]"
    os.remove(tmp_path / "journal")
    assert played(tmp_path, Plan(reads=3000, most_s=0.0), ("many reads",), SLOW + wrong)["many reads"].ok is False


def test_the_detectable_rate_is_that_of_independent_operations():
    for count in (1, 40, 155, 1200, 2400):
        rate = 1 / detectable(count)
        assert 1 - (1 - rate) ** count >= 0.98
        assert 1 - (1 - 1 / (detectable(count) + 1)) ** count < 0.98
    assert detectable(155) == 40
