"""Columns in few characters."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from fencepost.harness.report.packed import differences, differences_within, packed


def unpacked(text: str) -> list[int]:
    """The slow, obvious reading."""
    values, value, shift = [], 0, 0
    for byte in base64.b64decode(text):
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            values.append(-(value + 1) // 2 if value % 2 else value // 2)
            value = shift = 0
    return values


@pytest.mark.parametrize(
    "values", [[], [0], [-1], [63, 64, -64, -65], [2**53, -(2**53)], [2**62, -(2**62)], list(range(-300, 300))]
)
def test_what_is_packed_can_be_read(values):
    assert unpacked(packed(np.array(values, dtype=np.int64))) == values


def test_small_numbers_take_a_byte():
    assert len(base64.b64decode(packed(np.full(300, -1)))) == 300


def test_differences_within_groups_lead_back():
    values, groups = np.array([5, 100, 6, 90, 8]), np.array([0, 1, 0, 1, 0])
    assert differences_within(values, groups).tolist() == [5, 100, 1, -10, 2]
    assert differences(values).tolist() == [5, 95, -94, 84, -82]
    assert differences_within(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).tolist() == []
