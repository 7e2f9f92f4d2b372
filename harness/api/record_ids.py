"""The identity of a record: (process, op, seq) in 53 bits, so that it survives JSON readers that use doubles.

`record_id` checks its arguments. `of`, `process_of`, `seq_of`, `operation_key` and `operation_key_of` check nothing; they take
whole numbers, or arrays of 64-bit integers (numpy) element by element.
"""

from __future__ import annotations

from typing import Any

_OP_BITS, _SEQ_BITS = 27, 12
MAX_PROCESS, MAX_OP, MAX_SEQ = (1 << 14) - 1, (1 << _OP_BITS) - 1, (1 << _SEQ_BITS) - 1


def record_id(process: int, op: int, seq: int) -> int:
    """The identity ``v`` of the ``seq``-th record sent by operation ``op`` of ``process``; unique in a run."""
    if not (0 <= process <= MAX_PROCESS and 0 <= op <= MAX_OP and 0 <= seq <= MAX_SEQ):
        raise ValueError(f"record identity out of range: process {process}, op {op}, seq {seq}")
    return int(of(process, op, seq))


def split_record_id(v: int) -> tuple[int, int, int]:
    """The (process, op, seq) that ``record_id`` packed into ``v``."""
    return process_of(v), operation_key_of(v) & MAX_OP, seq_of(v)


def identity_in(head: str, run: str) -> int | None:
    """The identity of a record whose bytes begin so (docs/history.md, "A record's bytes"); None unless it is of this run."""
    of_run, *rest = head.split("|")
    numbers = rest[:3] if len(rest) > 3 and of_run == run else []
    try:
        return record_id(*map(int, numbers)) if numbers else None
    except ValueError:
        return None


def of(process: Any, op: Any, seq: Any) -> Any:
    """The identities of the records."""
    return operation_key(process, op) << _SEQ_BITS | seq


def process_of(v: Any) -> Any:
    """The process that sent the record."""
    return v >> (_OP_BITS + _SEQ_BITS)


def operation_key_of(v: Any) -> Any:
    """The operation that sent the record, as one number: see `operation_key`."""
    return v >> _SEQ_BITS


def operation_key(process: Any, op: Any) -> Any:
    """One number for operation ``op`` of ``process``, unique in a run."""
    return process << _OP_BITS | op


def seq_of(v: Any) -> Any:
    """The record's place among the records of its operation, from 0."""
    return v & MAX_SEQ


def key_number_of(v: Any, keys: int) -> Any:
    """The number of a record's key, from 0, where the records of a process in a partition share so many keys."""
    return (operation_key_of(v) * 31 + seq_of(v)) % keys
