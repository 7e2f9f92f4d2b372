"""Columns of whole numbers in few characters: a page of tens of thousands of operations stays small.

Differences of neighbours (where a column grows slowly), zigzag, LEB128, Base64. `assets/timeline/packed.js` reads them.
"""

from __future__ import annotations

import base64

import numpy as np

from fencepost.harness.report.documents import Ints

_BITS, _MORE, _LONGEST = 7, 0x80, 10


def packed(values: Ints) -> str:
    """Numbers, each in as many bytes as it needs."""
    numbers = np.asarray(values, dtype=np.int64)
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    table = np.zeros((len(rest), _LONGEST), dtype=np.uint8)
    lengths = np.ones(len(rest), dtype=np.int64)
    for place in range(_LONGEST):
        table[:, place] = rest & np.uint64(_MORE - 1)
        rest = rest >> np.uint64(_BITS)
        more = rest > 0
        table[more, place] |= _MORE
        lengths += more
    return base64.b64encode(table[np.arange(_LONGEST) < lengths[:, None]].tobytes()).decode()


def differences(values: Ints) -> Ints:
    """Each number less the one before it; the first as it is."""
    numbers = np.asarray(values, dtype=np.int64)
    return numbers - np.r_[np.int64(0), numbers[:-1]] if len(numbers) else numbers


def differences_within(values: Ints, groups: Ints) -> Ints:
    """Each number less the one before it in its group."""
    numbers = np.asarray(values, dtype=np.int64)
    order = np.argsort(groups, kind="stable")
    inside = differences(numbers[order])
    first = np.r_[True, groups[order][1:] != groups[order][:-1]] if len(order) else np.zeros(0, dtype=bool)
    inside[first] = numbers[order][first]
    result = np.empty_like(numbers)
    result[order] = inside
    return result
