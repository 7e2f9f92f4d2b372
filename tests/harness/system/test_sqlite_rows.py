"""Rows of an SQLite database as lines."""

import sqlite3

import pytest

from fencepost.harness.system import sqlite_rows


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_STORE", str(tmp_path))
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    connection.execute("CREATE TABLE t (a, b)")
    connection.execute("INSERT INTO t VALUES ('x\ny', 1), (NULL, x'61')")
    yield connection
    connection.close()


def test_a_row_is_a_line_with_tabs(database, capsys):
    assert sqlite_rows.main("s.db", "SELECT a, b FROM t ORDER BY rowid") == 0
    assert capsys.readouterr().out == "x\\ny\t1\n\ta\n"


def test_a_writer_that_is_not_done_is_not_seen(database, capsys):
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO t VALUES ('late', 2)")
    assert sqlite_rows.main("s.db", "SELECT count(*) FROM t") == 0
    assert capsys.readouterr().out == "2\n"


@pytest.mark.parametrize(
    ("name", "query", "text"),
    [
        ("none.db", "SELECT 1", "there is no database"),
        ("s.db", "SELECT * FROM none", "no such table"),
        ("s.db", "DELETE FROM t", "readonly"),
    ],
)
def test_what_cannot_be_asked_is_said(database, capsys, name, query, text):
    assert sqlite_rows.main(name, query) == 1
    assert text in capsys.readouterr().err
