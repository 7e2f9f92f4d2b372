"""The result of `heal` beside its measurements: what it could not undo, and what had ended before it came.

`healing.left` and `healing.ended_early` are read by the harness and by the report (nemesis/README.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fencepost.harness.api import Receipt


def healed(
    receipt: Receipt,
    healing: Mapping[str, Any],
    problems: Iterable[str] = (),
    left: Iterable[str] = (),
    early: Mapping[str, str] | None = None,
) -> Receipt:
    """The receipt with what healing found.

    left: what this fault still hurts (nodes, pairs as `n1>n2`, topics): it counts as not healed.
    early: nodes where it had ended before, with the reason; how long it lasted there is not known.
    """
    documented: dict[str, Any] = dict(healing)
    if remains := sorted(left):
        documented["left"] = remains
    if early:
        documented["ended_early"] = sorted(early)
    notes = [receipt.note, *(early or {}).values(), *problems]
    return replace(receipt, healing=documented, note="; ".join(dict.fromkeys(filter(None, notes))))
