"""The kit that proves that checks can fail: it catches what is planted, says what it cannot plant, and notices a blind check."""

import dataclasses
from random import Random

import pyarrow.parquet as pq
import pytest
from support.histories import History, write_history
from support.installed import DAMAGES, INSTALLED
from support.judging import no_session
from support.log_model import LogModel

from fencepost.checkers.anomalies.cycles import CHECKS
from fencepost.checkers.api import Check, partition_check, run_check
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.engine.validation import breaches
from fencepost.checkers.graph.edges import gather
from fencepost.checkers.model.history_rows import read_rows, write_rows
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.selfcheck.selfcheck import selfcheck
from fencepost.harness.history.run_directory import open_run


@pytest.fixture(scope="module")
def lawful(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lawful")
    write_lawful(folder, transactions=150, seed=5)  # enough for every damage to have its place
    return folder


def some(*names):
    return [damage for damage in DAMAGES if damage.name in names]


def test_every_installed_check_has_a_damage_or_a_reason():
    """An author who adds a check adds a damage, or says why there can be none."""
    default = next(field.default for field in dataclasses.fields(Check) if field.name == "undamaged")
    assert {name for name, check in INSTALLED.items() if bool(check.damages) == (check.undamaged != default)} == set()


def test_a_damage_is_declared_by_each_check_that_must_find_it():
    for damage in DAMAGES:
        assert {name for name, check in INSTALLED.items() if damage in check.damages} == set(damage.expects)


def test_a_check_without_damage_has_a_row_of_its_own(lawful):
    """Nothing can be planted for a check from elsewhere, and the table says so."""

    def quiet(log):
        """Nothing anybody planted."""
        return CheckResult(1)

    _, row = selfcheck(open_run(lawful), no_session, checks=[partition_check("quiet")(quiet)], damages=())
    assert (row.expected, row.ok) == (("quiet",), None)
    assert row.note.startswith("not planted: its check brings none")


def test_a_check_may_bring_the_damage_that_it_must_find(lawful):
    """Its family is the only file of an anomaly beside the entry point."""

    def beyond(log):
        """A record above offset 5000."""
        which = log.reads.offset > 5000
        rows = {name: getattr(log.reads, name)[which] for name in ("op", "v", "offset")}
        rows |= {"cause": rows["offset"], "time": log.reads.ended[which], "role": ["read"] * int(which.sum())}
        return CheckResult(len(which), rows)

    def raise_offset(rows, rng):
        read = rows.reads.iloc[rng.randrange(len(rows.reads))]
        return DamagedHistory(rows.with_values([read.name], "offset", 9999), "one read is at 9999", frozenset([read["v"]]))

    damage = PlantedDamage("raise", raise_offset, ("beyond",), needs="needs a read")
    check = partition_check("beyond", damages=(damage,))(beyond)
    assert breaches(check) == []
    _, row = selfcheck(open_run(lawful), no_session, checks=[check])
    assert (row.damage, row.ok, row.anomalies) == ("raise", True, ("beyond",))
    (breach,) = breaches(partition_check("beyond", damages=("raise",))(beyond))
    assert breach == "beyond: damages must be PlantedDamage (fencepost.checkers.api)"


def test_a_check_that_finds_nothing_is_reported_as_having_missed_the_damage(lawful):
    """It carries the name of a real one, and never finds anything."""

    def blind(log):
        """Sees nothing."""
        return CheckResult(len(log.reads))

    checks = [partition_check("duplicate")(blind)]
    _, row = selfcheck(open_run(lawful), no_session, checks=checks, damages=some("repeat"))
    assert row.ok is False
    assert "missed duplicate" in row.note


def test_a_check_that_always_finds_something_is_reported_as_a_false_alarm(lawful):
    """It calls every history with an offset beyond the known ones wrong, whatever was planted."""

    def nervous(log):
        """Anything unusual at all."""
        which = log.unsent_reads
        rows = {name: getattr(log.reads, name)[which] for name in ("op", "v", "offset")}
        rows |= {"cause": rows["offset"], "time": log.reads.ended[which], "role": ["read"] * int(which.sum())}
        return CheckResult(1, rows)

    installed = [check for check in installed_checks()[0] if check.name == "phantom"]
    checks = [*installed, partition_check("nervous")(nervous)]
    _, row, without = selfcheck(open_run(lawful), no_session, checks=checks, damages=some("invade"))
    assert without.expected == ("nervous",)
    assert (row.ok, row.anomalies) == (False, ("nervous", "phantom"))
    assert "false alarm: nervous" in row.note


def test_a_damage_without_a_place_in_the_history_is_planted_in_a_small_history_before_it(tmp_path):
    """One single send: nothing to swap. What the contract does not judge is not planted at all."""
    h = History()
    h.send(0, {"t-0": [5]})
    h.final({"t-0": [5]})
    write_history(tmp_path, h.ops)
    damages = some("swap", "read early", "G1c-wr", "stall")
    rows = {row.damage: row for row in selfcheck(open_run(tmp_path), no_session, damages=damages)}
    assert [rows[name].ok for name in ("none", "swap", "read early", "G1c-wr", "stall")] == [True, True, True, None, True]
    assert "in a small history put before this one: the records at planted-" in rows["swap"].note
    assert rows["G1c-wr"].note.startswith("not judged under this contract (G1c-wr: the workload uses no transactions")


def test_read_early_outside_transactions_is_a_read_before_the_send(tmp_path):
    h = History()
    h.send(0, {"t-0": [5, 7]})
    h.final({"t-0": [5, 7]})
    write_history(tmp_path, h.ops)
    _, row, *_ = selfcheck(open_run(tmp_path), no_session, damages=some("read early"))
    assert (row.ok, row.anomalies) == (True, ("dirty-read",))
    assert "t-0@5 is read 1 ns before it is sent" in row.note


def test_a_history_with_cycles_of_its_own_shows_the_planted_one(lawful):
    """Interleaved transactions are normal; the planted cycle is as small as theirs, and the first."""
    _, row = selfcheck(open_run(lawful), no_session, checks=list(CHECKS.values()), damages=some("G0"))
    assert (row.ok, row.anomalies) == (True, ("G0",))
    assert row.note.endswith("forbidden for this by cycles = 'G0'; the history has one too; this one is shown")


def own_first(name, alone):
    """A check for cycles that shows some record of the history itself, and another one only when that carries none."""

    def some_cycle(run):
        """A cycle, or what is said to be one."""
        own = run.sends_of(run.overview.index).query("not partition.str.startswith('planted')")
        if not len(own):
            return alone(run)
        shown = own.iloc[:1]
        rows = {column: shown[column].to_numpy() for column in ("partition", "op", "v", "offset")}
        return CheckResult(1, {**rows, "cause": [0], "time": shown["began"].to_numpy(), "role": ["sent"]})

    return run_check(name, across=True, gather=gather)(some_cycle)


def test_a_cycle_hidden_by_another_is_searched_again_without_the_records_of_the_history(lawful):
    """Of two equally small ones a check may show either; that it sees the planted one is proven apart."""
    _, row = selfcheck(open_run(lawful), no_session, checks=[own_first("G0", CHECKS["G0"])], damages=some("G0"))
    assert (row.ok, row.anomalies) == (True, ("G0",))
    assert "what is shown is the history's own (1 operations), so asked again without its records" in row.note


def test_a_check_that_reports_only_the_cycle_of_the_history_itself_is_reported_as_having_missed_the_damage(lawful):
    """It reports a G0 of the history itself, whatever was planted."""
    _, row = selfcheck(open_run(lawful), no_session, checks=[own_first("G0", lambda run: CheckResult(1))], damages=some("G0"))
    assert row.ok is False
    assert "missed G0" in row.note


def test_the_same_seed_plants_the_same_damage(lawful):
    history = read_rows(lawful / "history.parquet")
    for damage in DAMAGES:
        first, second, other = (damage.plant(history, Random(seed)) for seed in (1, 1, 2))
        assert (first is None) == (second is None) == (other is None)
        if first is not None and second is not None:
            assert (first.what, first.records) == (second.what, second.records)


def test_a_history_read_as_rows_and_written_again_is_unchanged(lawful, tmp_path):
    write_rows(read_rows(lawful / "history.parquet"), tmp_path / "again.parquet")
    before, after = (pq.read_table(path) for path in (lawful / "history.parquet", tmp_path / "again.parquet"))
    assert before.to_pylist() == after.select(before.column_names).to_pylist()


def test_selfcheck_changes_nothing_in_the_run_directory(lawful):
    before = {path.name: path.read_bytes() for path in lawful.iterdir()}
    checks = [check for check in installed_checks()[0] if check.name == "lost-write"]
    _, row = selfcheck(open_run(lawful), no_session, checks=checks, damages=some("lose"))
    assert row.ok
    assert {path.name: path.read_bytes() for path in lawful.iterdir()} == before


@pytest.mark.parametrize("damage", some("marker-turn", "marker-loss"), ids=lambda damage: damage.name)
def test_markers_that_the_selfcheck_changes_decide_otherwise_about_transactions_of_unknown_outcome(tmp_path, damage):
    m = LogModel()
    m.initialise(0, "id-0")
    m.transaction(0, {"t-0": 1}, answer="info")
    m.transaction(0, {"t-0": 1}, commit=False, answer="info")
    m.h.ops[-1] |= {"intent": "commit"}
    m.transaction(0, {"t-0": 1}, answer="info")
    m.h.final({"t-0": [0, 4]}, uncommitted={"t-0": [0, 2, 4]})
    m.judged(tmp_path)
    others = [check for check in installed_checks()[0] if not check.name.startswith("G")]
    for seed in range(4):
        _, row, *_ = selfcheck(open_run(tmp_path), no_session, seed, others, damages=[damage])
        assert row.ok, row.note
