"""The kit that proves that checks can fail: it catches what is planted, says what it cannot plant, and notices a blind check."""

from random import Random

import pyarrow.parquet as pq
import pytest
from histories import History, write_history

from checkers.anomaly import Suspects, installed_checks, partition_check
from checkers.lawful import write_lawful
from checkers.selfcheck import selfcheck
from checkers.selfcheck.rows import read_rows, write_rows
from checkers.selfcheck.table import DAMAGES


@pytest.fixture(scope="module")
def lawful(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lawful")
    write_lawful(folder, transactions=300, seed=5)
    return folder


def some(*names):
    return [damage for damage in DAMAGES if damage.name in names]


def test_every_damage_to_a_generated_history_is_caught(spark):
    rows = selfcheck(None, spark, seed=3)
    assert [(row.damage, row.note) for row in rows if row.ok is False] == []
    assert rows[0].damage == "none"
    assert rows[0].note.startswith("valid")
    assert sum(bool(row.ok) for row in rows) >= 15


def test_a_blind_check_is_found_out(spark, lawful):
    """It carries the name of a real one, and never finds anything."""

    def blind(log):
        """Sees nothing."""
        return Suspects(len(log.reads))

    checks = [partition_check("duplicate")(blind)]
    _, row = selfcheck(lawful, spark, checks=checks, damages=some("repeat"))
    assert row.ok is False
    assert "missed duplicate" in row.note


def test_a_check_that_cries_wolf_is_found_out(spark, lawful):
    """It calls every history with an offset beyond the known ones wrong, whatever was planted."""

    def nervous(log):
        """Anything unusual at all."""
        which = log.strangers
        rows = {name: getattr(log.reads, name)[which] for name in ("op", "v", "offset")}
        rows |= {"cause": rows["offset"], "time": log.reads.ended[which], "role": ["read"] * int(which.sum())}
        return Suspects(1, rows)

    installed = [check for check in installed_checks()[0] if check.name == "phantom"]
    _, row = selfcheck(lawful, spark, checks=[*installed, partition_check("nervous")(nervous)], damages=some("invade"))
    assert (row.ok, row.found) == (False, ("nervous", "phantom"))
    assert "false alarm: nervous" in row.note


def test_what_a_history_does_not_allow_is_said(spark, tmp_path):
    """One single send: nothing to tear, to swap, or to abort."""
    h = History()
    h.send(0, {"t-0": [5]})
    h.final({"t-0": [5]})
    write_history(tmp_path, h.ops)
    rows = selfcheck(tmp_path, spark, damages=some("tear", "swap", "show aborted"))
    assert [row.ok for row in rows[1:]] == [None] * 3
    assert all(row.note.startswith("not planted: needs") for row in rows[1:])


def test_the_same_seed_plants_the_same_damage(lawful):
    history = read_rows(lawful / "history.parquet")
    for damage in DAMAGES:
        one, two, other = (damage.plant(history, Random(seed)) for seed in (1, 1, 2))
        assert (one is None) == (two is None) == (other is None)
        if one is not None and two is not None:
            assert (one.what, one.records) == (two.what, two.records)


def test_taking_apart_and_putting_together_changes_nothing(lawful, tmp_path):
    write_rows(read_rows(lawful / "history.parquet"), tmp_path / "again.parquet")
    before, after = (pq.read_table(path) for path in (lawful / "history.parquet", tmp_path / "again.parquet"))
    assert before.to_pylist() == after.select(before.column_names).to_pylist()


def test_a_run_is_left_as_it_was(spark, lawful):
    before = {path.name: path.read_bytes() for path in lawful.iterdir()}
    selfcheck(lawful, spark, damages=some("lose"))
    assert {path.name: path.read_bytes() for path in lawful.iterdir()} == before
