"""Operations with two or more records over all partitions, counted without a list of all operations.

A partition hands out two rows of bits, one bit for every operation from its lowest to its highest: which have a record here, and
which have several. The driver lays them over each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.history.source import from_message, message


def packed(ops: Any) -> bytes:
    """The operations (history indices) of some records of a partition as a message. Those of one operation follow each other."""
    if not len(ops):
        return b""
    low = int(ops.min())
    some, several = (np.zeros(int(ops.max()) - low + 1, dtype=np.bool_) for _ in range(2))
    some[ops - low] = True
    several[ops[1:][ops[1:] == ops[:-1]] - low] = True
    bits = {"some": [np.packbits(some).tobytes()], "several": [np.packbits(several).tobytes()]}
    return message(pa.RecordBatch.from_pydict({"low": [low], **bits}))


def count(messages: Iterable[bytes]) -> int:
    """The number of operations that have two or more records over all partitions."""
    parts = [from_message(stream).to_pylist()[0] for stream in messages if stream]
    if not parts:
        return 0
    size = max(part["low"] + 8 * len(part["some"]) for part in parts)
    some, several = (np.zeros(size, dtype=np.bool_) for _ in range(2))
    for part in parts:
        here, more = (np.unpackbits(np.frombuffer(part[name], dtype=np.uint8)).view(np.bool_) for name in ("some", "several"))
        at = slice(part["low"], part["low"] + len(here))
        several[at] |= more | (some[at] & here)
        some[at] |= here
    return int(several.sum())
