"""Plant every damage, one at a time, and compare what the checker says with what it has to say."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.api import Check
from fencepost.checkers.contract.rules import INAPPLICABLE, full_contract, rule_for
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.history_rows import HistoryRows, read_rows, write_rows
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.lawful_logs import lawful_logs
from fencepost.checkers.selfcheck.prefix_history import prepend, small_lawful
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.history import OPERATIONS, STORED
from fencepost.harness.api.promises import PROCESSED_ONCE, PROGRAM
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.services import SelfcheckRow
from fencepost.harness.system import liveness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GENERATED = 400  # transactions of the history that is made when none is given
UNJUDGED = ("not exercised", "unknown")


@dataclass(frozen=True)
class Judgement:
    """The checker's answer about a history: the verdict's document, and every finding."""

    document: Mapping[str, Any]
    findings: Sequence[Mapping[str, Any]]

    @cached_property
    def properties(self) -> dict[str, Mapping[str, Any]]:
        """Every anomaly's answer by name, forbidden or allowed; the forbidden one where it has both."""
        return {answer["name"]: answer for answer in (*self.document["allowed"], *self.document["properties"])}

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of findings of each anomaly that was found."""
        return {name: int(answer["count"]) for name, answer in self.properties.items() if answer["verdict"] == "violated"}

    def touching(self, damaged: DamagedHistory) -> set[str]:
        """Anomalies with a finding about what was damaged, and not about something else."""
        return {
            finding["anomaly"]
            for finding in self.findings
            if any(record["v"] in damaged.records or record["partition"] in damaged.partitions for record in finding["records"])
        }


@dataclass(frozen=True)
class Checker:
    """The checker as it is asked here: of a run in a directory of our own, under one contract."""

    run: Run
    spark: SparkSession | Callable[[], SparkSession]
    contract: Mapping[str, str]
    checks: Sequence[Check[Any]] | None

    @cached_property
    def full(self) -> dict[str, str]:
        """The contract in effect."""
        return full_contract(self.run.contract, self.contract)

    @cached_property
    def names(self) -> list[str]:
        """Anomalies that are looked for."""
        return [check.name for check in self.looked_for]

    @cached_property
    def looked_for(self) -> Sequence[Check[Any]]:
        return installed_checks()[0] if self.checks is None else self.checks

    @cached_property
    def chains(self) -> set[str]:
        """Anomalies of an input's chain: what becomes of an output becomes of its input's chain."""
        return {check.name for check in self.looked_for if check.promise in (PROCESSED_ONCE, PROGRAM)}

    def judge_rows(
        self, rows: HistoryRows | None = None, cycle: str = "", logs: pa.Table | None = None, wire: pa.Table | None = None
    ) -> Judgement:
        """Judge the history that is there, or another one; `cycle` is a class to be forbidden besides.

        logs: the brokers'. wire: the requests on the wire.
        """
        if rows is not None:
            write_rows(rows, Path(self.run.history))
        for file, table in ((RunFile.STORED, logs), (RunFile.WIRE, wire)):
            if table is None:
                (self.run.directory / file).unlink(missing_ok=True)
            else:
                pq.write_table(table, self.run.directory / file)
        forbidden = ",".join(filter(None, (self.full["cycles"], cycle)))
        contract = {**self.contract, "cycles": forbidden}
        document = judge(self.run, spark=self.spark, here=callable(self.spark), contract=contract, checks=self.checks)
        return Judgement(document, pq.read_table(self.run.path(RunFile.ANOMALIES)).to_pylist())

    def unjudged(self, name: str) -> str:
        """The reason why the contract has nothing judged of an anomaly; empty when it has."""
        decided = rule_for(next(check.rules for check in self.looked_for if check.name == name), self.full)
        return decided.reason if decided.judged == INAPPLICABLE else ""


def selfcheck(
    run: Run | None,
    spark: SparkSession | Callable[[], SparkSession],
    seed: int = 0,
    checks: Sequence[Check[Any]] | None = None,
    contract: Mapping[str, str] | None = None,
    damages: Sequence[PlantedDamage] | None = None,
) -> list[SelfcheckRow]:
    """Judge a clean history, then the same history with each damage in turn; nothing is written into its directory.

    run: a run whose history is merged, or None for a generated lawful one.
    spark: a session, or what makes one: called when a history is long, or a check asks for Spark's tables; this process judges
        short histories by itself.
    checks: instead of the installed ones.
    damages: instead of those that the checks declare.

    The same seed plants the same damages. Raises HistoryError when the run has no readable history.
    """
    with liveness.temporary_directory("selfcheck") as temporary:
        copy = _copy(run, temporary / "clean", seed)
        checker = Checker(copy, spark, contract or {}, checks)
        planted = damages_of(checker.looked_for) if damages is None else damages
        return list(_rows(checker, seed, planted, _logs(run), run is None))


def damages_of(checks: Iterable[Check[Any]]) -> list[PlantedDamage]:
    """The damages that checks declare, each once."""
    return list({damage.name: damage for check in checks for damage in check.damages}.values())


def _copy(run: Run | None, folder: Path, seed: int) -> Run:
    """The clean run in a directory of its own: faults and logs play no part."""
    if run is None:
        return write_lawful(folder, transactions=GENERATED, seed=seed)
    run.demand_table(RunFile.HISTORY, OPERATIONS)
    copy = Run(directory=folder, plan=run.plan, problems=run.problems)
    folder.mkdir()
    shutil.copyfile(run.history, copy.history)
    return copy


def _logs(run: Run | None) -> pa.Table | None:
    """What the brokers' logs hold of a run, as far as it was kept whole."""
    if run is None or run.logs is None or not run.logs.is_file() or run.table_problem(RunFile.STORED, STORED):
        return None
    return pq.read_table(run.logs)


@dataclass(frozen=True)
class CleanHistory:
    """The place of damages: a clean history, another one that comes after it if any, and the judgement of both."""

    rows: HistoryRows
    then: HistoryRows | None
    clean: Judgement

    def plant(self, damage: PlantedDamage, draw: str) -> DamagedHistory | None:
        """The damaged history; None where this one does not allow the damage."""
        damaged = damage.plant(self.rows, Random(draw))
        if damaged is None or self.then is None:
            return damaged
        return replace(
            damaged, rows=prepend(damaged.rows, self.then), what=f"in a small history put before this one: {damaged.what}"
        )


def _rows(
    checker: Checker, seed: int, damages: Sequence[PlantedDamage], logs: pa.Table | None, generated: bool
) -> Iterator[SelfcheckRow]:
    """A row for each damage. logs: the brokers', of a run that has them; generated: the history is one of ours."""
    clean = checker.judge_rows()
    yield _undamaged(clean.document)
    rows = replace(read_rows(Path(checker.run.history)), logs=logs)
    if logs is None and generated:
        rows = replace(rows, logs=lawful_logs(rows))

    @cache
    def small() -> CleanHistory:
        lawful = small_lawful(rows)
        return CleanHistory(lawful, rows, checker.judge_rows(prepend(lawful, rows)))

    for damage in damages:
        if set(damage.expects) & set(checker.names):
            yield _row(checker, damage, CleanHistory(rows, None, clean), small, f"{seed}/{damage.name}")
    planted = {name for damage in damages for name in damage.expects}
    for check in checker.looked_for:
        if not check.damages and check.name not in planted:
            yield SelfcheckRow("-", (check.name,), (), None, f"not planted: {check.undamaged}")


def _undamaged(document: Mapping[str, Any]) -> SelfcheckRow:
    wrong = tuple(answer["name"] for answer in document["properties"] if answer["verdict"] == "violated")
    note = document["reason"] if wrong else f"{document['verdict']}: {document['reason']}"
    return SelfcheckRow("none", (), wrong, not wrong, note)


def _row(
    checker: Checker, damage: PlantedDamage, own: CleanHistory, small: Callable[[], CleanHistory], draw: str
) -> SelfcheckRow:
    """Plant a damage in the history, or, where that has no place for it or shows nothing there, in a small one before it."""
    named = tuple(name for name in damage.expects if name in checker.names)
    expected = tuple(name for name in named if not checker.unjudged(name))
    if not expected:
        reasons = "; ".join(f"{name}: {checker.unjudged(name)}" for name in named)
        return SelfcheckRow(damage.name, named, (), None, f"not judged under this contract ({reasons})")
    damaged = own.plant(damage, draw)
    row = _compared(checker, damage, expected, damaged, own.clean) if damaged else None
    if row is not None and row.ok is not None:
        return row
    why = damage.needs if row is None else row.note
    damaged = small().plant(damage, draw)
    if damaged is None:
        return SelfcheckRow(damage.name, expected, (), None, f"not planted: {why}")
    row = _compared(checker, damage, expected, damaged, small().clean)
    return replace(row, ok=bool(row.ok), note=f"not in this history ({why}); {row.note}")


def _compared(
    checker: Checker, damage: PlantedDamage, expected: tuple[str, ...], damaged: DamagedHistory, clean: Judgement
) -> SelfcheckRow:
    """The demanded findings beside those that came. ok is None when what was missed was not compared at all."""
    after = checker.judge_rows(damaged.rows, damage.cycle, damaged.logs, damaged.wire)
    touched = after.touching(damaged)
    notes = [damaged.what]
    missed = [name for name in expected if name not in touched]
    if damage.cycle:
        notes.append(f"forbidden for this by cycles = {damage.cycle!r}")
    if damage.cycle and missed and damage.cycle in after.counts:
        size = _size(after, damage.cycle)
        notes.append(f"what is shown is the history's own ({size} operations), so asked again without its records")
        touched |= checker.judge_rows(damaged.rows.only(damaged.partitions), damage.cycle).touching(damaged)
        missed = [name for name in expected if name not in touched]
    elif damage.cycle in clean.counts and not missed:
        notes.append("the history has one too; this one is shown")
    shown = {name for name, count in after.counts.items() if count > clean.counts.get(name, 0)} | (touched & set(expected))
    forbidden = {answer["name"] for answer in after.document["properties"]} & shown
    lawful = {*damage.expects, *damage.accompanying}
    lawful |= set() if lawful & checker.chains else checker.chains
    alarms = sorted((forbidden | touched if damaged.own_partitions else forbidden) - lawful)
    notes += [f"missed {name} ({after.properties[name]['reason'] or 'held'})" for name in missed]
    notes += [f"false alarm: {name}" for name in alarms]
    silent = bool(missed) and not alarms and all(after.properties[name]["verdict"] in UNJUDGED for name in missed)
    return SelfcheckRow(
        damage.name,
        expected,
        tuple(sorted(shown)),
        None if silent and not damaged.own_partitions else not (missed or alarms),
        "; ".join(notes),
    )


def _size(answer: Judgement, name: str) -> int:
    """The number of operations on the cycle of a class."""
    return next(len(finding["operations"]) for finding in answer.findings if finding["anomaly"] == name)
