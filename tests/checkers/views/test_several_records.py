"""Operations with several records over all partitions, from what each partition hands out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fencepost.checkers.views.several_records import count, record_counts


@pytest.mark.parametrize("span", [5, 50, 20_000])  # the last one: numbers instead of bits
def test_the_partitions_together_say_which_operations_have_several_records(span):
    random = np.random.default_rng(span)
    for _ in range(100):
        parts, records = [], Counter[int]()
        for low in random.integers(0, 300, size=4):
            ops = np.sort(random.integers(low, low + random.choice([span, 40]), size=random.integers(0, 30)))
            parts.append(record_counts(ops))
            records.update(ops.tolist())
        several, single = (sum(many(number) for number in records.values()) for many in (lambda n: n > 1, lambda n: n == 1))
        assert count(parts) == (several, single)
