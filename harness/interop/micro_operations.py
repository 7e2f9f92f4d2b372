"""The records of operations as tuples: far quicker to make than a dictionary per record."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.harness.history.merge import MOP


def micro_operations(lists: pa.ListArray) -> list[list[tuple[Any, ...]]]:
    """Of each operation its records: (kind, partition, v, offset, began, ended)."""
    flat = [lists.flatten().field(name).to_pylist() for name in MOP.names]
    mops = list(zip(*flat, strict=True))
    bounds = [0, *pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0)).to_pylist()]
    return [mops[start:stop] for start, stop in itertools.pairwise(bounds)]
