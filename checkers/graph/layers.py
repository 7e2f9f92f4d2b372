"""The classes of cycles: which edges each may use, which it must use, and where it is looked for (Adya; Elle's suffixes).

Layers are searched one by one, so that a permitted cycle never hides a forbidden one.
"""

from __future__ import annotations

from dataclasses import dataclass

WW, WR, DIRTY_WR, LSO, RW, PROCESS, REALTIME = range(7)  # DIRTY_WR: a wr edge to a reader not judged as read_committed
READS, WRITES, ANTI, ANTI_TIME = "reads", "writes", "anti", "anti-time"  # families: which backward edges make the spans
DATA = {
    READS: frozenset({WR, LSO}),
    WRITES: frozenset({WW, WR, DIRTY_WR}),
    ANTI: frozenset({WW, WR, DIRTY_WR, RW}),
    ANTI_TIME: frozenset({WW, WR, DIRTY_WR, RW}),
}
FAMILIES = tuple(DATA)
NO_ORDER, BY_PROCESS, BY_TIME = range(3)
ONE, SEVERAL = 1, 2


@dataclass(frozen=True)
class Layer:
    """One class of cycles.

    kinds: the edges between records it may use.
    must_read: at least one wr edge.
    anti: exactly how many rw edges (SEVERAL: two or more).
    order: NO_ORDER; BY_PROCESS: at least one process edge; BY_TIME: at least one realtime edge.
    """

    name: str
    family: str
    kinds: frozenset[int]
    must_read: bool = False
    anti: int = 0
    order: int = NO_ORDER


_SUFFIX = {NO_ORDER: "", BY_PROCESS: "-process", BY_TIME: "-realtime"}
_G1 = frozenset({WW, WR, DIRTY_WR})


def _three_forms(name: str, kinds: frozenset[int], family: str, timed: str, **rules: int) -> list[Layer]:
    return [
        Layer(name + _SUFFIX[order], timed if order else family, kinds, bool(rules.get("must_read")), rules.get("anti", 0), order)
        for order in (NO_ORDER, BY_PROCESS, BY_TIME)
    ]


LAYERS: tuple[Layer, ...] = (
    *_three_forms("G1c-wr", frozenset({WR, LSO}), READS, READS),
    *_three_forms("G0", frozenset({WW}), WRITES, WRITES),
    *_three_forms("G1c", _G1, WRITES, WRITES, must_read=1),
    *_three_forms("G-single", _G1 | {RW}, ANTI, ANTI_TIME, anti=ONE),
    *_three_forms("G2", _G1 | {RW}, ANTI, ANTI_TIME, anti=SEVERAL),
)
READ_CYCLES = tuple(layer.name for layer in LAYERS if layer.family == READS)  # a record that is read too early can close one
