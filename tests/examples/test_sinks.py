"""The sinks that come along: what each leaves in its store when it dies between two steps. On a real cluster: tests/e2e."""

from __future__ import annotations

import importlib
import struct
import sys
from pathlib import Path

import pytest

SINKS = Path(__file__).parents[2] / "examples" / "sinks"
NAMES = [path.stem for path in SINKS.glob("*.py")]


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Import one of them afresh, with the environment of an instance."""
    for name in ("BOOTSTRAP", "GROUP", "INPUT", "OUTPUT", "TRANSACTIONAL_ID"):
        monkeypatch.setenv(f"FENCEPOST_{name}", name.lower())
    for name in ("STORE", "DIRECTORY"):
        monkeypatch.setenv(f"FENCEPOST_{name}", str(tmp_path))
    monkeypatch.syspath_prepend(str(SINKS))
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


class Message:
    def __init__(self, offset, part=0):
        self._offset, self._part = offset, part

    def value(self):
        return f"v{self._offset}".encode()

    def partition(self):
        return self._part

    def offset(self):
        return self._offset


def batch(*offsets):
    return [Message(offset) for offset in offsets]


def count(database):
    return database.execute("SELECT count(*) FROM items").fetchone()[0]


def test_what_was_stored_with_its_offset_is_not_stored_again(load):
    sink = load("sqlite_sink")
    database = sink.opened()
    assert sink.stored(database, batch(0, 2))
    assert not sink.stored(database, batch(2, 3))
    assert sink.stored(database, batch(3))
    assert (count(database), sink.position(database, 0), sink.position(database, 1)) == (3, 4, sink.OFFSET_BEGINNING)


def test_an_instance_that_dies_in_a_transaction_leaves_neither_items_nor_offset(load):
    sink = load("sqlite_sink")
    dying, other = sink.opened(), sink.opened()
    dying.execute("BEGIN IMMEDIATE")
    dying.execute("INSERT INTO items VALUES ('v0', 0, 0)")
    dying.close()
    assert (count(other), sink.position(other, 0)) == (0, sink.OFFSET_BEGINNING)


def test_an_instance_that_dies_between_two_transactions_leaves_items_without_their_offset(load):
    wrong = load("sqlite_offsets_outside_wrong")
    database = wrong.right.opened()
    wrong.stored(database, batch(0, 1))
    assert (count(database), wrong.right.position(database, 0)) == (2, wrong.right.OFFSET_BEGINNING)
    wrong.store_positions(database)
    assert wrong.right.position(database, 0) == 2


@pytest.mark.parametrize(("repeated", "rows"), [("upsert", 2), ("append", 4)])
def test_what_is_stored_twice_is_there_once_or_twice(load, repeated, rows):
    sink = load("sqlite_upsert")
    sink.sink.TABLES = (sink.TABLE,)
    if repeated == "append":
        sink.sink.TABLES = (sink.TABLE.replace(", PRIMARY KEY (part, place)", ""),)
        sink.INSERT = "INSERT INTO items VALUES (?, ?, ?)"
    database = sink.sink.opened()
    for _ in range(2):
        sink.store(database, batch(0, 1))
    assert count(database) == rows


def test_the_early_one_stores_nothing_until_it_stores_all(load):
    wrong = load("sqlite_early_wrong")
    wrong.right.sink.TABLES = (wrong.right.TABLE,)
    database = wrong.right.sink.opened()
    wrong.collect(database, batch(0, 1))
    assert count(database) == 0
    wrong.store_all()
    assert count(database) == 2


def test_a_prepared_transaction_is_committed_by_its_producer_id_and_epoch(load, monkeypatch):
    sink = load("two_phase")
    asked, errors = [], [51, 0]

    def ask(host, port, key, version, body):
        asked.append((host, port, key, version, body))
        name = b"\0\1h"
        coordinator = struct.pack(">ihhi", 0, 0, -1, 7) + name + struct.pack(">i", 9)
        return coordinator if key == sink.FIND_COORDINATOR else struct.pack(">ih", 0, errors.pop(0))

    monkeypatch.setattr(sink, "ask", ask)
    monkeypatch.setattr(sink, "RETRY_S", 0.0)
    monkeypatch.setitem(sink.CONNECTION, "bootstrap.servers", "a:1,b:2")
    sink.finish({"prepared": {"producer_id": 5, "epoch": 3}})
    assert [call[:4] for call in asked] == [("a", 1, 10, 1), ("h", 9, 26, 1)] * 2
    assert asked[-1][4] == b"\0\x10transactional_id" + struct.pack(">qhb", 5, 3, 1)
    sink.finish({"offsets": {}})
    assert len(asked) == 4


def test_a_checkpoint_is_there_as_a_whole(load):
    sink = load("two_phase")
    assert sink.read_checkpoint() == {}
    sink.write_checkpoint({"offsets": {0: 7}, "prepared": {"producer_id": 5, "epoch": 3}})
    assert sink.read_checkpoint() == {"offsets": {"0": 7}, "prepared": {"producer_id": 5, "epoch": 3}}


class Decided(Message):
    """A committed record, or with an error the end of a partition."""

    def error(self):
        return None


def test_what_was_not_committed_is_retracted_and_not_guessed_again(load):
    sink = load("sqlite_speculative")
    sink.sink.TABLES = sink.TABLES
    database = sink.sink.opened()
    sink.guess(database, batch(0, 1, 2, 3))
    sink.decide(database, Decided(2))
    assert [row[0] for row in database.execute("SELECT place FROM items ORDER BY place")] == [2, 3]
    assert sink.sink.position(database, 0) == 3
    sink.guess(database, batch(1))
    assert count(database) == 2
    sink.decide(database, Decided(1))
    assert (count(database), sink.sink.position(database, 0)) == (2, 3)
