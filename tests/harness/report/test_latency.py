"""The order of latencies by the bin in which they ended, on which the percentiles of the chart rest."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.harness.report.series import _ranked


@pytest.mark.parametrize("longest", [10, 1 << 40, 1 << 62])  # with the last one, place and time have no room in one number
@pytest.mark.parametrize("count", [1, 5, 1000])
def test_times_rise_within_their_places(longest, count):
    random = np.random.default_rng(count)
    place, took = random.integers(0, 300, count), random.integers(-5, longest, count)
    ranks = np.arange(count)
    assert _ranked(place, took, ranks).tolist() == took[np.lexsort((took, place))].tolist()
