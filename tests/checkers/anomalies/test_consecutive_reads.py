"""The order of many reads by process."""

from __future__ import annotations

import numpy as np
import pytest

from fencepost.checkers.anomalies.consecutive_reads import FEW, _by_process


@pytest.mark.parametrize("processes", [1, 3, FEW, FEW + 1, 300])
@pytest.mark.parametrize("reads", [10, 1 << 16])
def test_reads_are_ordered_by_process_and_those_of_one_stay_as_they_are(processes, reads):
    process = np.random.default_rng(processes).integers(0, processes, size=reads).astype(np.uint16) * 7
    order = _by_process(process, np.int32)
    assert order.dtype == np.int32
    assert np.array_equal(order, np.argsort(process, kind="stable"))
