"""The tables of docs/wire.md, made of the data: columns of the record, transitions, and their conditions.

python -m fencepost.checkers.wire.page docs/wire.md    writes them into the page, between its marks
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from fencepost.checkers.wire.guards import Guard
from fencepost.checkers.wire.states import IDLE, KNOWN, MAPPED, Phase
from fencepost.checkers.wire.transitions import TRANSITIONS
from fencepost.harness.api.history import table
from fencepost.harness.api.wire import WIRE

MARK, END = "<!-- made by `python -m fencepost.checkers.wire.page docs/wire.md`: {} -->\n", "<!-- end -->\n"
GROUPS = ((MAPPED, "any"), (KNOWN, "any of a known id"), (IDLE, "no transaction is open"))


def columns() -> str:
    """The columns of `wire.parquet`."""
    return table(WIRE)


def transitions() -> str:
    """A row for each transition."""
    rows = (
        (
            transition.name,
            ", ".join(f"`{api.value}`" for api in transition.apis) or "none: the coordinator itself",
            _phases(transition.phases),
            ", ".join(guard.name for guard in transition.guards),
            "" if not transition.apis else " or ".join(f"`{answer}`" for answer in transition.answers),
            f"`{transition.to.value}`" if transition.to else "",
            f"{transition.sentence} ({transition.source})",
        )
        for transition in TRANSITIONS
    )
    return _table(("transition", "request", "in", "conditions", "answer", "then", "sentence"), rows)


def guards() -> str:
    """A row for each condition: the rules that an exchange can break."""
    known: dict[Guard, None] = dict.fromkeys(guard for transition in TRANSITIONS for guard in transition.guards)
    return _table(("condition", "rule", "source"), ((guard.name, guard.sentence, guard.source) for guard in known))


PARTS: dict[str, Callable[[], str]] = {"columns": columns, "transitions": transitions, "conditions": guards}


def with_tables(page: str) -> str:
    """A page with its tables as the data has them."""
    for name, make in PARTS.items():
        before, mark, rest = page.partition(MARK.format(name))
        _, end, after = rest.partition(END)
        if not mark or not end:
            raise ValueError(f"the page lacks the marks of {name}")
        page = f"{before}{mark}\n{make()}\n{end}{after}"
    return page


def _phases(phases: tuple[Phase, ...]) -> str:
    for group, words in GROUPS:
        if set(group) <= set(phases):
            rest = [phase for phase in phases if phase not in group]
            return ", ".join([words, *(f"`{phase.value}`" for phase in rest)])
    return ", ".join(f"`{phase.value}`" for phase in phases)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    page_path = Path(sys.argv[1])
    page_path.write_text(with_tables(page_path.read_text()))
