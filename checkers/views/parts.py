"""What tells the partitions of a joined log apart (`checkers.views.joined_logs`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import FOREVER, NONE
from fencepost.harness.api.record_ids import MAX_OP, MAX_PROCESS, MAX_SEQ, record_id

IDENTITY_BITS = record_id(MAX_PROCESS, MAX_OP, MAX_SEQ).bit_length()
SECOND_NS = 1_000_000_000
OFFSET_BITS = 40  # of an offset, beside its partition's number in one key
PARTITIONS = 1 << 62 - OFFSET_BITS  # that such a key has room for


class AskAlone(Exception):
    """Raised where a joined log does not have what a check has to say of one of its partitions."""


@dataclass(frozen=True)
class Parts:
    """The partitions of a joined log, numbered from 0: each number of one of them lies above those of all before it.

    names: of the partitions.
    places: the number of each among all partitions of the run.
    ops, processes, offsets, span: how many history indices, processes, offsets and nanoseconds each of them has.
    began: the time from which these count (ns); like `span` in whole seconds.
    """

    names: tuple[str, ...]
    places: Ints
    ops: int
    processes: int
    offsets: int
    span: int
    began: int

    def __len__(self) -> int:
        return len(self.names)

    def numbers(self, ops: Any) -> Ints:
        """The partition's number for each operation of the joined log."""
        return np.asarray(ops // self.ops, dtype=np.int64)

    # What the joined log says, as the partition's own log says it
    def ops_of(self, ops: Any) -> Ints:
        return _lowered(ops, self.ops)

    def processes_of(self, processes: Any) -> Ints:
        return _lowered(processes, self.processes)

    def offsets_of(self, offsets: Any) -> Ints:
        return _lowered(offsets, self.offsets)

    def times_of(self, times: Any) -> Ints:
        return np.where(times == FOREVER, FOREVER, _lowered(times, self.span, self.began))

    def identities_of(self, v: Any) -> Ints:
        return _lowered(v, 1 << IDENTITY_BITS)

    def causes_of(self, causes: Any) -> Ints:
        """Of findings over several partitions: operations, or -2 and less for those of unknown outcome."""
        return np.where(causes < NONE, -2 - _lowered(-2 - causes, self.ops), self.ops_of(causes))

    # What a partition's own log says, as the joined log says it; `number`: of each value's partition
    def lifted_ops(self, ops: Any, number: Ints) -> Ints:
        return _lifted(ops, number, self.ops)

    def lifted_processes(self, processes: Any, number: Ints) -> Ints:
        return _lifted(processes, number, self.processes)

    def lifted_offsets(self, offsets: Any, number: Ints) -> Ints:
        return _lifted(offsets, number, self.offsets)

    def lifted_times(self, times: Any, number: Ints) -> Ints:
        return _lifted(times, number, self.span, self.began)

    def lifted_identities(self, v: Any, number: Ints) -> Ints:
        return _lifted(v, number, 1 << IDENTITY_BITS)


def _lifted(values: Any, number: Ints, each: int, least: int = 0) -> Ints:
    """Numbers of partitions that have so many `each`, from the least one on."""
    return np.where(values == NONE, NONE, values + (number * each - least))


def _lowered(values: Any, each: int, least: int = 0) -> Ints:
    return np.where(values == NONE, NONE, values % each + least)
