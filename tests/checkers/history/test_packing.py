"""Columns of whole numbers as bytes: they come back as they were, in as few bytes as their differences need."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.checkers.history.packing import lower_bound, packed, unpacked

LIMITS = np.iinfo(np.int64)
HEADER, COLUMN = 16, 32  # bytes


def columns_back(columns):
    content = packed(columns)
    return [unpacked(memoryview(content), number) for number in range(len(columns))]


@pytest.mark.parametrize("span", [0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40, 2**63 - 1])
@pytest.mark.parametrize("least", [LIMITS.min, -(2**32), -1, 0, 7, 2**31 - 1, 2**32 - 1])
def test_columns_come_back_as_they_were(span, least):
    some = least + np.array([0, span, span // 2, span // 3, 0], dtype=np.uint64).astype(np.int64)
    others = [np.arange(5, dtype=np.int32) - 3, np.array([-1, 127, -128, 0, 5], dtype=np.int8)]
    for restored, was in zip(columns_back([others[0], some, others[1]]), [others[0], some, others[1]], strict=True):
        assert restored.dtype == np.int64
        assert restored.tolist() == was.tolist()


def test_the_least_and_the_greatest_number_share_a_column():
    (restored,) = columns_back([np.array([LIMITS.max, LIMITS.min, -1, 0])])
    assert restored.tolist() == [LIMITS.max, LIMITS.min, -1, 0]


@pytest.mark.parametrize("span", [0, 255, 2**32 - 1, 2**32, 2**40, 2**63 - 1])
@pytest.mark.parametrize("least", [LIMITS.min, -(2**32), -1, 0, 7, 2**32 + 7])
def test_the_header_tells_a_lower_bound_that_is_negative_only_if_a_value_is(span, least):
    last = min(least + span, LIMITS.max)
    bound = lower_bound(packed([np.arange(3), np.array([last, least, last])]), 1)
    assert bound <= least
    assert (bound < 0) == (least < 0)
    assert bound == least or last - least >= 2**32


def test_random_columns_come_back_as_they_were():
    rng = np.random.default_rng(4)
    for _ in range(200):
        rows, bits = int(rng.integers(0, 40)), rng.integers(1, 63, 3)
        columns = [rng.integers(-(1 << int(b)), 1 << int(b), rows) for b in bits]
        assert [restored.tolist() for restored in columns_back(columns)] == [column.tolist() for column in columns]


@pytest.mark.parametrize(("span", "width"), [(0, 0), (255, 1), (65_535, 2), (2**32 - 1, 4), (2**32, 5)])
def test_values_take_as_few_bytes_as_their_differences_need(span, width):
    rows = 8_000
    values = 10**18 + np.linspace(0, span, rows).astype(np.int64)
    assert len(packed([values])) == HEADER + COLUMN + rows * width


def test_no_rows_take_a_header():
    content = packed([np.empty(0, dtype=np.int64)] * 3)
    assert len(content) == HEADER + 3 * COLUMN
    assert [unpacked(content, number).tolist() for number in range(3)] == [[], [], []]
