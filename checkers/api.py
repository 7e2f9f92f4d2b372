"""A check: one anomaly, one function, looked up through the entry-point group `fencepost.checker`.

To add an anomaly: write one function, decorate it, and name it in an entry point::

    @partition_check("empty-offset")
    def empty_offset(log: PartitionLog) -> CheckResult:
        '''A record at offset 0. (The docstring of a check is the definition of its anomaly.)'''
        first = log.reads.offset == 0
        return CheckResult(len(first), read_rows(log, first, log.reads.op))

Two kinds exist. A `partition` check sees one Kafka partition at a time as numpy arrays (`PartitionLog`) and runs inside the one
Spark job that every partition check shares. A `run` check sees the whole run (`RunView`: Spark tables, final reads, settling).

A check owns what its anomaly is: when it is forbidden (`rules`), the evidence it needs (`evidence`), the promise that it breaks
(`promise`) and the damages that it must find (`damages`) are its fields. Its function never looks at settings. What a check of
yours may import is `__all__` of this module and `checkers.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_rules import (
    ABORTED_IN_PART,
    COMPACTED,
    RETAINED,
    UNLESS_PRODUCER,
    UNLESS_TRANSACTIONAL,
    cut_off,
)
from fencepost.checkers.contract.needs import UNDECLARED, Needs
from fencepost.checkers.contract.rules import ALLOWED, FORBIDDEN, INAPPLICABLE, Rule
from fencepost.checkers.model.findings import Finding
from fencepost.checkers.model.frames import pd
from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.model.results import CheckResult, Rows, Sifted, has_role, join_rows, rows_where
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.gathering import PartitionMessages
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.result_rows import read_rows, reads_with_writers, send_rows
from fencepost.checkers.views.run_view import RunView
from fencepost.checkers.views.wording import FindingText
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.occasions import Occasion

__all__ = [
    "ABORTED_IN_PART",
    "ALLOWED",
    "COMPACTED",
    "FORBIDDEN",
    "INAPPLICABLE",
    "NONE",
    "RETAINED",
    "UNLESS_PRODUCER",
    "UNLESS_TRANSACTIONAL",
    "Attribution",
    "Check",
    "CheckResult",
    "DamagedHistory",
    "Evidence",
    "Finding",
    "FindingText",
    "HistoryRows",
    "Needs",
    "Occasion",
    "PartitionLog",
    "PartitionMessages",
    "PlantedDamage",
    "Rule",
    "RunView",
    "Sifted",
    "cut_off",
    "has_role",
    "join_rows",
    "partition_check",
    "read_rows",
    "reads_with_writers",
    "rows_where",
    "run_check",
    "send_rows",
]


Where = TypeVar("Where")
Explain = Callable[[Finding, FindingText], str]
Sift = Callable[[Rows, RunView], Sifted]
Resolve = Callable[["pd.DataFrame", RunView], "pd.DataFrame"]
Gather = Callable[..., PartitionMessages]
Brief = Callable[[RunView], Any]
Detail = Callable[[Finding, FindingText], dict[str, Any]]
Shows = Callable[[Finding, "pd.DataFrame"], bool]
BeyondAborts = Callable[[Sequence[Finding], RunView], list[bool]]
Undoubted = Callable[[Finding, RunView], bool]


@dataclass(frozen=True)
class Check(Generic[Where]):
    """A named anomaly and the function that looks for it.

    scope: `partition` (function over a `PartitionLog`) or `run` (function over a `RunView`).
    across: findings are grouped by cause over all partitions (a transaction), not inside each (a run of offsets).
    sift: first look at the few suspicious rows of all partitions, as arrays by column: those of them that stay (and go to
        `resolve`, where there is one), and what was compared besides. Where none stays, no data frame is made.
    resolve: second step over the few suspicious rows of all partitions, for anomalies that no partition can decide alone;
        returns the rows that stay. It may set `rows.attrs["compared"]` to add to what was compared, and `rows.attrs["unread"]`
        to how many promises it knows of that nobody got or had to get.
    explain: one plain sentence per finding.
    gather: what a run check needs of every partition: a function over its `PartitionLog`, run in the one job; its messages are in
        `RunView.gathered`. Checks that share the function share the messages.
    brief: what `gather` has to know of the whole run, as its argument `brief`: a function over the `RunView`.
    detail: more keys for a finding's document.
    needs: what has to be there before anything can be compared, in words.
    rules: when the anomaly is forbidden, allowed, or cannot be judged: the first one whose conditions hold. Forbidden where
        none does.
    occasions: kinds of events of which one has to occur, or the anomaly cannot, or hardly: a property that held and had none is
        *held without occasion*. None where whatever is compared is an occasion in itself.
    evidence: kinds of evidence without which `held` is unknown, and those without which a finding proves nothing. All kinds
        where a check does not say.
    shown_by: whether the places where readers got a finding's records (partition, offset, v) show it by themselves, for rules
        that permit it unless they do (`Rule.unless`).
    beyond_aborts: of each finding whether no operator's abort on a partition explains it, for rules that permit it for such an
        abort (`Rule.unless`), where its missing records do not tell.
    undoubted: whether the source of what a finding violates leaves no doubt, for rules that permit it unless it does.
    promise: the promise that it breaks (`harness.api.promises`, or words of your own).
    consequences: anomalies that follow from this one, about the same records: a test that expects this one expects them too.
    attribution: by which of its records a finding is bound to its cause.
    options: a frozen dataclass with a default for each field. The function gets an instance of it as its second argument:
        `given`, which comes of `module:NAME,KEY=VALUE...`, else the defaults.
    damages: ways to spoil a history so that this check must find it; `fencepost selfcheck` plants them.
    undamaged: why there are none, in words.
    together: of partition checks: the function may be given many small partitions as one log (`checkers.views.joined_logs`),
        where it compares as much and finds the same as in each of them.
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
    options: type | None = None
    given: Any = None
    damages: tuple[PlantedDamage, ...] = ()
    undamaged: str = "its check brings none (`damages`)"
    together: bool = False
    rules: tuple[Rule, ...] = ()
    occasions: tuple[Occasion, ...] = ()
    evidence: Needs = UNDECLARED
    shown_by: Shows | None = None
    beyond_aborts: BeyondAborts | None = None
    undoubted: Undoubted | None = None
    promise: str = ""
    consequences: tuple[str, ...] = ()
    attribution: Attribution = Attribution.RECORDS
    sift: Sift | None = None

    def __call__(self, where: Where, options: Any = None) -> CheckResult:
        """Ask the check. options: instead of `given`, for tests; of a check that has options."""
        if self.options is None:
            return self.function(where)
        chosen = self.given if options is None else options
        with_options: Callable[..., CheckResult] = self.function
        return with_options(where, self.options() if chosen is None else chosen)

    @cached_property
    def definition(self) -> str:
        return (self.function.__doc__ or "").strip()

    @cached_property
    def summary(self) -> str:
        """The first paragraph of the definition, in one line: what verdict and report say that it looks for."""
        return " ".join(self.definition.partition("\n\n")[0].split())


def partition_check(name: str, **options: Any) -> Callable[[Callable[[PartitionLog], CheckResult]], Check[PartitionLog]]:
    """Make a function over one partition's log a check. Options are `Check`'s fields."""
    return lambda function: Check(name=name, scope="partition", function=function, **options)


def run_check(name: str, **options: Any) -> Callable[[Callable[[RunView], CheckResult]], Check[RunView]]:
    """Make a function over the whole run a check. Options are `Check`'s fields."""
    return lambda function: Check(name=name, scope="run", function=function, **options)
