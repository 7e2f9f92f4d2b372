"""What a check is: one anomaly, one function, found through the entry-point group `fencepost.checker`.

A stranger adds an anomaly by writing one function, decorating it, and naming it in an entry point::

    @partition_check("empty-offset")
    def empty_offset(log: PartitionLog) -> CheckResult:
        '''A record at offset 0. (The docstring of a check is the definition of its anomaly.)'''
        odd = log.reads.offset == 0
        return read_suspects(log, odd, compared=len(odd))

Two kinds exist. A `partition` check sees one Kafka partition at a time as numpy arrays (`PartitionLog`) and runs inside the one
Spark job that every partition check shares. A `run` check sees the whole run (`RunView`: Spark tables, final reads, settling).
Whether an anomaly is forbidden is not a check's business: see `checkers.verdict.rules`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.api import HarnessError

if TYPE_CHECKING:
    from checkers.partition.log import PartitionLog
    from checkers.run_view import RunView
    from checkers.verdict.findings import Finding, FindingText

GROUP = "fencepost.checker"
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NUMBERS = ("cause", "op", "v", "offset", "time")
COLUMNS = ("partition", *NUMBERS, "role")


@dataclass(frozen=True)
class CheckResult:
    """What a check found in one place, and how much it compared there.

    compared: how many things were really compared; 0 means the anomaly had no chance to show.
    rows: one row per record involved, columns as arrays of one length:
        cause   rows with one cause make one finding
        op      history index of the operation whose record this is (the writer of `sent`/`missing`, the reader of `read`)
        v, offset   the record and its place (offset -1: unknown)
        time    CLOCK_MONOTONIC ns at which it went wrong
        role    `sent`, `read` or `missing`
        partition   only for run checks; a partition check need not say where it is
    lacking: when nothing was compared, what was missing, in words.
    more: how many findings were left out because `rows` keeps examples only (anomalies that are lawful and frequent).
    unknown: why no answer can be given although there were no rows, in words.
    """

    compared: int
    rows: dict[str, Any] = field(default_factory=dict)
    lacking: str = ""
    more: int = 0
    unknown: str = ""

    @property
    def count(self) -> int:
        return len(self.rows["op"]) if self.rows else 0


Where = TypeVar("Where")
Explain = Callable[["Finding", "FindingText"], str]
Resolve = Callable[[pd.DataFrame, "RunView"], pd.DataFrame]
Gather = Callable[..., "Gathered"]
Brief = Callable[["RunView"], Any]
Detail = Callable[["Finding", "FindingText"], dict[str, Any]]


@dataclass(frozen=True)
class Gathered:
    """Named messages of one partition: what stays on the executors (`Kept`), and the little that leaves (`Kept.leaves`)."""

    stays: list[tuple[str, bytes]] = field(default_factory=list)
    leaves: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class Check(Generic[Where]):
    """A named anomaly and the function that looks for it.

    scope: `partition` (function over a `PartitionLog`) or `run` (function over a `RunView`).
    across: findings are grouped by cause over all partitions (a transaction), not inside each (a run of offsets).
    resolve: second step over the few suspicious rows of all partitions, for anomalies that no partition can decide alone;
        returns the rows that stay. It may set `rows.attrs["compared"]` to add to what was compared.
    explain: one plain sentence per finding.
    gather: what a run check needs of every partition: a function over its `PartitionLog`, run in the one job (`RunView.kept`).
        Checks that share the function share the messages.
    brief: what `gather` has to know of the whole run, as its argument `brief`: a function over the `RunView`.
    detail: more keys for a finding's document.
    needs: what has to be there before anything can be compared, in words.
    """

    name: str
    scope: str
    function: Callable[[Where], CheckResult]
    across: bool = False
    resolve: Resolve | None = None
    explain: Explain | None = None
    gather: Gather | None = None
    brief: Brief | None = None
    detail: Detail | None = None
    needs: str = "nothing of the kind was in the history"

    def __call__(self, where: Where) -> CheckResult:
        return self.function(where)

    @property
    def definition(self) -> str:
        return (self.function.__doc__ or "").strip()


def partition_check(name: str, **options: Any) -> Callable[[Callable[[PartitionLog], CheckResult]], Check[PartitionLog]]:
    """Make a function over one partition's log a check. Options are `Check`'s fields."""
    return lambda function: Check(name=name, scope="partition", function=function, **options)


def run_check(name: str, **options: Any) -> Callable[[Callable[[RunView], CheckResult]], Check[RunView]]:
    """Make a function over the whole run a check. Options are `Check`'s fields."""
    return lambda function: Check(name=name, scope="run", function=function, **options)


@dataclass(frozen=True)
class Broken:
    """A plug-in that could not be loaded; its property is unknown, with this reason."""

    name: str
    reason: str


def installed_checks() -> tuple[list[Check[Any]], list[Broken]]:
    """Every check that is installed, by name, and those that could not be loaded. Raises HarnessError when there is none."""
    from checkers.validation import breaches

    checks: dict[str, Check[Any]] = {}
    broken: list[Broken] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            check = entry.load()
        except Exception as error:  # noqa: BLE001 - a stranger's module may raise anything; it becomes `unknown`
            broken.append(Broken(entry.name, f"could not be loaded: {type(error).__name__}: {error}"))
            continue
        if wrong := breaches(check):
            broken.append(Broken(entry.name, f"{entry.value} cannot be used: {'; '.join(wrong)}"))
        else:
            checks[check.name] = check
    if not checks and not broken:
        raise HarnessError(f"no checks are installed (entry-point group {GROUP}); reinstall fencepost")
    return list(checks.values()), broken


def with_more(
    checks: Sequence[Check[Any]], broken: Sequence[Broken], more: Mapping[str, Any]
) -> tuple[list[Check[Any]], list[Broken]]:
    """Checks and broken ones, and those that come by import path (path -> check, or why there is none) beside or instead of them.

    Their modules may lie where no executor of Spark finds them, so they are sent along with their code.
    """
    from pyspark.cloudpickle import register_pickle_by_value

    from checkers.validation import breaches

    wrong = {path: [one] if isinstance(one, str) else breaches(one) for path, one in more.items()}
    sound: dict[str, Check[Any]] = {one.name: one for path, one in more.items() if not wrong[path]}
    for check in sound.values():
        register_pickle_by_value(sys.modules[check.function.__module__])
    kept = [check for check in checks if check.name not in sound]
    lost = [Broken(path, f"cannot be used: {'; '.join(texts)}") for path, texts in wrong.items() if texts]
    return [*kept, *sound.values()], [*broken, *lost]


def join_rows(*parts: dict[str, Any]) -> dict[str, Any]:
    """Rows under rows."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
