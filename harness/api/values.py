"""Small values that travel between all rooms: outcomes, answers, the identity of a record, versions of what is written."""

from __future__ import annotations

from enum import Enum

HISTORY_VERSION = 1
VERDICT_SCHEMA = 1
PLAN_SCHEMA = 1


class Outcome(str, Enum):
    """What is known of an operation. ok: it happened; fail: it surely did not; info: unknown."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Isolation(str, Enum):
    """A reader's isolation level, in Kafka's words."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


# A record's identity packs (process, op, seq) into 53 bits, so that it survives JSON readers that use doubles.
_OP_BITS, _SEQ_BITS = 27, 12
MAX_PROCESS, MAX_OP, MAX_SEQ = (1 << 14) - 1, (1 << _OP_BITS) - 1, (1 << _SEQ_BITS) - 1


def record_id(process: int, op: int, seq: int) -> int:
    """The identity ``v`` of the ``seq``-th record sent by operation ``op`` of ``process``; unique in a run."""
    if not (0 <= process <= MAX_PROCESS and 0 <= op <= MAX_OP and 0 <= seq <= MAX_SEQ):
        raise ValueError(f"record identity out of range: process {process}, op {op}, seq {seq}")
    return (process << (_OP_BITS + _SEQ_BITS)) | (op << _SEQ_BITS) | seq


def split_record_id(v: int) -> tuple[int, int, int]:
    """The (process, op, seq) that ``record_id`` packed into ``v``."""
    return v >> (_OP_BITS + _SEQ_BITS), (v >> _SEQ_BITS) & MAX_OP, v & MAX_SEQ


class Property(str, Enum):
    """The answer for one anomaly."""

    VIOLATED = "violated"
    HELD = "held"
    NOT_EXERCISED = "not exercised"
    UNKNOWN = "unknown"


class Verdict(str, Enum):
    """The answer for one run."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"
