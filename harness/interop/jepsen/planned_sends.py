"""The sends of an invocation beside those of its completion: what a completion leaves unsaid, or says differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from fencepost.harness.api.evidence import Evidence, Gap, GapKind
from fencepost.harness.interop.jepsen.identities import Ints
from fencepost.harness.interop.jepsen.operation_rows import written

SENT, POLLED = (Evidence.SENDS, Evidence.OUTCOMES), (Evidence.POLLS, Evidence.POSITIONS)
WORKERS_LINE = (*SENT, *POLLED)
_ONE, _SPREAD = np.uint64(1), np.uint64(0x9E3779B97F4A7C15)  # a product with an odd number loses nothing, and spreads all bits
WRITING = frozenset(("txn", "send"))


def compared(fs: tuple[str, str], planned: Any, done: Any, file: str, line: int) -> Iterator[Gap]:
    """The gaps of a completion (the value `done`, in a line) that does not have the sends of its invocation (`planned`), or is of
    another function (`fs`: that of the invocation, and its own)."""
    if fs[0] != fs[1]:
        yield another(file, line)
    if fs[0] not in WRITING:
        return
    before, after = _sends(planned), _sends(done)
    if after.total() < before.total():
        yield unnamed(file, line)
    elif after.total() == before.total() and after != before:
        yield others(file, line)


def unnamed(file: str, line: int) -> Gap:
    """A completion that names fewer sends than its invocation."""
    why = "the completion names fewer sends than its invocation: the fate of the others is not known"
    return Gap(file=file, line=line, why=why, kind=GapKind.MISSING, evidence=SENT)


def others(file: str, line: int) -> Gap:
    """A completion that names other keys or values than its invocation: one of the two lines is damaged."""
    why = "the completion names other sends than its invocation: nobody knows which of the two is true"
    return Gap(file=file, line=line, why=why, kind=GapKind.UNRELIABLE, evidence=WORKERS_LINE)


def another(file: str, line: int) -> Gap:
    """A completion of another function than its invocation: one of the two lines is damaged."""
    why = "the completion is of another function (`:f`) than its invocation: nobody knows which of the two is true"
    return Gap(file=file, line=line, why=why, kind=GapKind.UNRELIABLE, evidence=WORKERS_LINE)


def without_invocation(file: str, line: int, evidence: tuple[Evidence, ...]) -> Gap:
    """A completion whose invocation is missing. evidence: what the missing may have held."""
    return Gap(
        file=file, line=line, why="its invocation is missing; it is judged as if it began when it ended", evidence=evidence
    )


def mixed(keys: Ints, values: Ints, owners: Ints, count: int) -> Any:
    """A number for each of so many lines, that its sends make, whatever their order: of the same sends the same.

    keys, values, owners: of each send its key, its value, and the number of its line.
    """
    key, value = (column.astype(np.uint64) for column in (keys, values))
    own = (key * _SPREAD + value + _ONE) * ((value ^ key >> np.uint64(7)) * _SPREAD | _ONE)
    made = np.zeros(count, dtype=np.uint64)
    np.add.at(made, owners, own)
    return made


def _sends(value: Any) -> Counter[tuple[str, str]]:
    """Keys and values of sends, as they were written."""
    mops = value if value.__class__ is list else ()
    sends = (mop for mop in mops if mop.__class__ is list and len(mop) > 2 and mop[0] in ("send", ":send"))
    return Counter((written(mop[1]), _written_value(mop[2])) for mop in sends)


def _written_value(result: Any) -> str:
    """The value of `v` or `[offset v]`; 5 and "5" are two values."""
    v = result[1] if result.__class__ is list and len(result) == 2 else result
    return repr(v) if isinstance(v, str) else written(v)
