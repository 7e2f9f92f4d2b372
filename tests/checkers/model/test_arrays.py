"""Questions about arrays of checks, which numpy answers more slowly."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.checkers.model.arrays import MOST_IN_TABLE, among, distinct


@pytest.mark.parametrize("few", [[], [3], [-1, 4], [0, MOST_IN_TABLE], [0, MOST_IN_TABLE + 1], [-(2**31), 2**31 - 1], [2**62]])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_values_are_among_a_few_as_numpy_says(few, kind):
    values = np.array([-(2**31), -2, -1, 0, 1, 3, 4, 5, MOST_IN_TABLE, MOST_IN_TABLE + 1, 2**31 - 1], dtype=kind)
    assert among(values, few).tolist() == np.isin(values, few).tolist()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("values", [[], [3], [-1, 5, 5, -1, 2], [7] * 9, [-(2**31), 2**31 - 1], [1, MOST_IN_TABLE + 1]])
def test_values_are_distinct_as_numpy_says(values, kind):
    given = np.array(values, dtype=kind)
    found = distinct(given)
    assert found.dtype == kind
    assert found.tolist() == np.unique(given).tolist()
