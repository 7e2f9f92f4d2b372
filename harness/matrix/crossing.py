"""A cell of the matrix crossed with factors: its name, and the options of its fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from fencepost.harness.matrix.cells import FREEZE, KILL, MOVE, ONE_WAY, OWN_COORDINATOR, Cell, all_cells, of_text
from fencepost.harness.matrix.factors import (
    BYSTANDER,
    CLIENT,
    COORDINATOR,
    FACTORS,
    FENCED,
    GAP,
    GROUP,
    ID,
    LEADER,
    OF_START,
    ROLE,
    VALUES,
    VERSION,
    excluded,
    own_role,
)

CELL_PARTS = 3
ENDED = "next-begin"


@dataclass(frozen=True, kw_only=True, order=True)
class Strike:
    """A cell, and the role of the broker that is hit."""

    cell: Cell
    role: str

    @property
    def values(self) -> dict[str, str]:
        """By factor."""
        return {GAP: self.cell.gap, "point": self.cell.point, "act": self.cell.act, ROLE: self.role}

    def options(self) -> dict[str, Any]:
        """The options of the fault `protocol`, without its cell's name."""
        options = self.cell.options()
        if self.cell.act == MOVE and self.role != own_role(self.cell.gap):
            moved = {LEADER: ("move-leaders", "all"), COORDINATOR: ("move-coordinator", self._coordinator)}[self.role]
            options |= dict(zip(("fire", "fire_target"), moved, strict=True))
        elif self.cell.act in (KILL, FREEZE, ONE_WAY) and self.role != own_role(self.cell.gap):
            options["fire_target"] = {COORDINATOR: self._coordinator, LEADER: "leader", BYSTANDER: "controller"}[self.role]
        return options

    @property
    def _coordinator(self) -> str:
        """The coordinator as a target: of the message's id, where it names one."""
        return OWN_COORDINATOR if self.cell.named else COORDINATOR


@dataclass(frozen=True, kw_only=True, order=True)
class Start:
    """What one start of a cluster has: of transactions' protocol, client, group and the state of ids."""

    version: str
    client: str
    group: str
    id: str

    @property
    def values(self) -> dict[str, str]:
        """By factor."""
        return {VERSION: self.version, CLIENT: self.client, GROUP: self.group, ID: self.id}


@dataclass(frozen=True, kw_only=True, order=True)
class Crossing:
    """A strike at a start."""

    strike: Strike
    start: Start

    def __str__(self) -> str:
        return "/".join((str(self.strike.cell), self.strike.role, *self.start.values.values()))

    @property
    def values(self) -> dict[str, str]:
        """By factor, in the order of their names."""
        return {**self.strike.values, **self.start.values}

    @property
    def impossible(self) -> str:
        """The reason why it cannot be; empty when it can."""
        return self.strike.cell.impossible or excluded(self.values)

    def options(self) -> dict[str, Any]:
        """The options of the fault `protocol`.

        No state is asked for where the message itself ends the transaction that is meant (`next-begin`), and of fenced ids, which
        hardly send anything more: of 19 such faults 12 waited in vain.
        """
        state = {} if self.strike.cell.gap == ENDED or self.start.id == FENCED else {"state": self.start.id}
        return {**self.strike.options(), **state, "cell": str(self)}


def crossing_of(text: str) -> Crossing | None:
    """The crossing of this name; None: there is none."""
    parts = text.split("/")
    cell = of_text("/".join(parts[:CELL_PARTS]))
    names = (ROLE, *OF_START)
    values = dict(zip(names, parts[CELL_PARTS:], strict=False))
    if cell is None or len(parts) != CELL_PARTS + len(names) or any(values[name] not in VALUES[name] for name in names):
        return None
    return Crossing(strike=Strike(cell=cell, role=values.pop(ROLE)), start=Start(**values))


@cache
def strikes() -> tuple[Strike, ...]:
    """All that can be, in the order of the cells."""
    made = (Strike(cell=cell, role=role) for cell in all_cells() if not cell.impossible for role in VALUES[ROLE])
    return tuple(strike for strike in made if not excluded(strike.values))


@cache
def starts() -> tuple[Start, ...]:
    """All that can be."""
    made = (
        Start(version=version, client=client, group=group, id=id_)
        for version, client, group, id_ in product(*(VALUES[name] for name in OF_START))
    )
    return tuple(start for start in made if not excluded(start.values))


def strikes_at(start: Start) -> Iterator[Strike]:
    """Those that can be at a start."""
    return (strike for strike in strikes() if not excluded({**strike.values, **start.values}))


Pair = tuple[str, str, str, str]  # a factor, its value, a later factor, its value


def pairs(values: Mapping[str, str]) -> list[Pair]:
    """All pairs of the values of two factors."""
    known = [(name, values[name]) for name in FACTORS if values.get(name)]
    return [(*one, *other) for number, one in enumerate(known) for other in known[number + 1 :]]


@cache
def possible_pairs() -> frozenset[Pair]:
    """All pairs that can be."""
    return frozenset(
        pair for start in starts() for strike in strikes_at(start) for pair in pairs({**strike.values, **start.values})
    )
