"""Plant every damage, one at a time, and compare what the checker says with what it has to say."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from checkers.anomaly import Check, installed_checks
from checkers.judge import judge
from checkers.lawful import write_lawful
from checkers.selfcheck.records import Planted
from checkers.selfcheck.rows import read_rows, write_rows
from checkers.selfcheck.table import DAMAGES, Damage

GENERATED = 400  # transactions of the history that is made when none is given


@dataclass(frozen=True)
class Row:
    """One line of the answer.

    found: anomalies that are new beside the undamaged history. ok: caught, and nothing forbidden beside it that does not come
    along by nature; False: missed, or a false alarm; None: this history does not allow the damage (`note` says what it needs).
    """

    damage: str
    expected: tuple[str, ...]
    found: tuple[str, ...]
    ok: bool | None
    note: str


def selfcheck(
    run_dir: Path | None,
    spark: SparkSession,
    seed: int = 0,
    checks: Sequence[Check[Any]] | None = None,
    contract: Mapping[str, str] | None = None,
    damages: Sequence[Damage] = DAMAGES,
) -> list[Row]:
    """Judge a clean history, then the same history with each damage in turn; nothing is written into `run_dir`.

    run_dir: a run whose history is merged, or None for a generated lawful one. checks: instead of the installed ones.
    The same seed plants the same damages. Raises HistoryError when the run has no readable history.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-selfcheck-") as temporary:
        return list(_rows(Path(temporary), run_dir, spark, seed, checks, contract, damages))


def _rows(
    folder: Path,
    run_dir: Path | None,
    spark: SparkSession,
    seed: int,
    checks: Sequence[Check[Any]] | None,
    contract: Mapping[str, str] | None,
    damages: Sequence[Damage],
) -> Iterator[Row]:
    clean = _copy(run_dir, folder / "clean", seed)
    before = judge(clean, spark=spark, contract=contract, checks=checks)
    yield _undamaged(before)
    names = {check.name for check in (installed_checks()[0] if checks is None else checks)}
    rows = read_rows(clean / "history.parquet")
    for damage in damages:
        expected = tuple(name for name in damage.expects if name in names)
        if not expected:
            continue
        planted = damage.plant(rows, Random(f"{seed}/{damage.name}"))
        if planted is None:
            yield Row(damage.name, expected, (), None, f"not planted: {damage.needs}")
            continue
        write_rows(planted.rows, clean / "history.parquet")
        after = judge(clean, spark=spark, contract=contract, checks=checks)
        yield _compared(damage, expected, planted, before, after)


def _copy(run_dir: Path | None, folder: Path, seed: int) -> Path:
    """The clean history in a place of its own: faults and logs play no part."""
    if run_dir is None:
        write_lawful(folder, transactions=GENERATED, seed=seed)
        return folder
    folder.mkdir()
    for name in ("plan.json", "history.parquet"):
        if (run_dir / name).exists():
            shutil.copyfile(run_dir / name, folder / name)
    return folder


def _undamaged(document: Mapping[str, Any]) -> Row:
    wrong = tuple(one["name"] for one in document["properties"] if one["verdict"] == "violated")
    note = document["reason"] if wrong else f"{document['verdict']}: {document['reason']}"
    return Row("none", (), wrong, not wrong, note)


def _compared(
    damage: Damage, expected: tuple[str, ...], planted: Planted, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Row:
    old, new = _counts(before), _counts(after)
    found = tuple(sorted(name for name, count in new.items() if count > old.get(name, 0)))
    forbidden = {one["name"] for one in after["properties"]}
    missed = [name for name in expected if not _touches(after, name, planted)]
    unjudged = [name for name in missed if _answers(after)[name]["verdict"] in ("not exercised", "unknown")]
    alarms = [name for name in found if name in forbidden and name not in (*damage.expects, *damage.along)]
    if missed == unjudged and unjudged and not alarms:
        reasons = "; ".join(f"{name}: {_answers(after)[name]['reason']}" for name in unjudged)
        return Row(damage.name, expected, found, None, f"{planted.what}; not judged here ({reasons})")
    if damage.single and missed and not alarms and all(name in old for name in missed):
        return Row(damage.name, expected, found, None, f"{planted.what}; the undamaged history shows one already")
    trouble = [f"missed {name}" for name in missed] + [f"false alarm: {name}" for name in alarms]
    return Row(damage.name, expected, found, not trouble, "; ".join([planted.what, *trouble]))


def _answers(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {one["name"]: one for one in (*document["properties"], *document["allowed"])}


def _counts(document: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(one["count"]) for name, one in _answers(document).items() if one["verdict"] == "violated"}


def _touches(document: Mapping[str, Any], name: str, planted: Planted) -> bool:
    """Whether some finding of an anomaly is about what was damaged, and not about something else."""
    return any(
        record["v"] in planted.records or record["partition"] in planted.partitions
        for finding in document["findings"]
        if finding["anomaly"] == name
        for record in finding["records"]
    )
