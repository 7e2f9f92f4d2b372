"""Columns of whole numbers in few characters: a page of tens of thousands of operations stays small.

Differences of neighbours (where a column grows slowly), zigzag, LEB128, Base64. `assets/timeline/packed.js` reads them.
"""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt

from fencepost.harness.report.documents import Ints

_BITS, _MORE = 7, 0x80


def packed(values: Ints) -> str:
    """Numbers, each in as many bytes as it needs."""
    numbers = np.asarray(values, dtype=np.int64)
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    places: list[npt.NDArray[np.uint8]] = []
    used = [np.ones(len(rest), dtype=np.bool_)]  # by place: the numbers that are so long
    while used[-1].any():
        places.append((rest & np.uint64(_MORE - 1)).astype(np.uint8))
        rest = rest >> np.uint64(_BITS)
        used.append(rest > 0)
        places[-1][used[-1]] |= _MORE
    if not places:
        return ""
    return base64.b64encode(np.stack(places, axis=1)[np.stack(used[:-1], axis=1)].tobytes()).decode()


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
