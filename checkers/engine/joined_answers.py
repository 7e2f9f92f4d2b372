"""What is asked of a joined log (`checkers.views.joined_logs`), and of its partitions one by one, where it has no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fencepost.checkers.api import Check
from fencepost.checkers.engine.answers import (
    Counts,
    PackedResult,
    PartitionResult,
    Questions,
    check_result,
    counted,
    packed_rows,
)
from fencepost.checkers.model.arrays import Ints, distinct
from fencepost.checkers.model.failures import RAISED
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.views import several_records
from fencepost.checkers.views.gathering import (
    ExecutorMessage,
    Gatherer,
    PartitionGathered,
    gather_messages,
    is_together,
)
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.parts import Parts
from fencepost.checkers.views.unseen import unseen_at

_NOBODY: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class JoinedAnswers:
    """Every check and gatherer, asked of a joined log.

    alone: makes the own log of the partition with a name.
    """

    questions: Questions
    log: PartitionLog
    alone: Callable[[str], PartitionLog]

    @property
    def parts(self) -> Parts:
        assert self.log.parts is not None
        return self.log.parts

    @cached_property
    def _logs(self) -> list[PartitionLog]:
        return [self.alone(name) for name in self.parts.names]

    def answers(self) -> Iterator[PartitionResult | ExecutorMessage]:
        """The results of all partitions as one, those of partitions that were asked alone, and the messages."""
        gathered = [self._gathered(gatherer) for gatherer in self.questions.gatherers]
        results = {check.name: self._result(check) for check in self.questions.checks}
        first, *others = self.parts.names
        yield PartitionResult(
            first,
            {name: result for name, result in results.items() if result is not None},
            replace(counted(self.log), partitions=len(self.parts)),
            distinct(self.parts.identities_of(self.log.reads.unsent_v)),
            unseen_at(self.log, self.questions.moments),
            [message for some in gathered for message in some.to_driver],
            next((some.error for some in gathered if some.error), ""),
            others=tuple(others),
        )
        yield from self._of_each([check for check in self.questions.checks if results[check.name] is None])
        for some in gathered:
            yield from some.on_executors

    def _of_each(self, checks: Sequence[Check[PartitionLog]]) -> Iterator[PartitionResult]:
        """The results of checks that have to be asked of each partition."""
        if not checks:
            return
        unseen = np.zeros(len(self.questions.moments), dtype=np.int64)
        for log in self._logs:
            results = {check.name: check_result(check, log) for check in checks}
            yield PartitionResult(log.partition, results, Counts(), _NOBODY, unseen)

    def _result(self, check: Check[PartitionLog]) -> PackedResult | None:
        """The result of a check for all partitions; None: it has to be asked of each."""
        if not check.together:
            return None
        try:
            result = check(self.log)
            if result.unknown:
                return None
            several = several_records.record_counts(np.sort(self.parts.ops_of(np.asarray(result.several, dtype=np.int64))))
            return PackedResult(result.compared, result.lacking, result.more, "", self._rows(result, check.across), several)
        except RAISED:  # asked of each partition, it says why, or what it does not say of all (`AskAlone`)
            return None

    def _rows(self, result: CheckResult, across: bool) -> Any:
        """Rows with the names of their partitions, in their order."""
        if not result.count:
            return b""
        parts, number = self.parts, self.parts.numbers(np.asarray(result.rows["op"]))
        rows = packed_rows(result, as_message=False)
        assert not isinstance(rows, bytes)
        order = np.argsort(number, kind="stable")
        told = {"op": parts.ops_of, "v": parts.identities_of, "offset": parts.offsets_of, "time": parts.times_of}
        told |= {"cause": parts.causes_of} if across else {}
        made = {name: told[name](values)[order] if name in told else values[order] for name, values in rows.items()}
        return {**made, "partition": np.array(parts.names, dtype=object)[number[order]]}

    def _gathered(self, gatherer: Gatherer) -> PartitionGathered:
        if is_together(gatherer):
            gathered = gather_messages([gatherer], self.log)
            if not gathered.error:
                return gathered
        whole = PartitionGathered()
        for log in self._logs:
            some = gather_messages([gatherer], log)
            whole.on_executors += some.on_executors
            whole.to_driver += some.to_driver
            whole.error = whole.error or some.error
        return whole
