"""The cluster: the options of `local`, with other defaults."""

from __future__ import annotations

from fencepost_example.cluster import Frugal

from fencepost.harness.plugins.validation import breaches


def test_it_is_local_with_a_smaller_heap():
    assert breaches("cluster", Frugal) == []
    assert (Frugal().heap_mb, Frugal(heap_mb=300).heap_mb, Frugal().brokers) == (192, 300, 3)
