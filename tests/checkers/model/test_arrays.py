"""Questions about arrays of checks, which numpy answers more slowly."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.checkers.model.arrays import MOST_IN_TABLE, among


@pytest.mark.parametrize("few", [[], [3], [-1, 4], [0, MOST_IN_TABLE], [0, MOST_IN_TABLE + 1], [-(2**31), 2**31 - 1], [2**62]])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_values_are_among_a_few_as_numpy_says(few, kind):
    values = np.array([-(2**31), -2, -1, 0, 1, 3, 4, 5, MOST_IN_TABLE, MOST_IN_TABLE + 1, 2**31 - 1], dtype=kind)
    assert among(values, few).tolist() == np.isin(values, few).tolist()
