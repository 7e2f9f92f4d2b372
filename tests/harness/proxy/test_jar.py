"""The jar of the proxy is what its sources say."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.harness.fetching import built_jars
from fencepost.harness.proxy.build import PROXY


def test_the_jar_was_built_from_the_sources_beside_it():
    assert PROXY.entries()[built_jars.SUMS].decode() == PROXY.sums().decode()
    assert int.from_bytes(PROXY.entries()["fencepost/proxy/Proxy.class"][6:8], "big") == 44 + int(PROXY.release)


@pytest.mark.nightly
def test_building_again_gives_the_same_jar(tmp_path: Path):
    """Fetches the compiler and the libraries."""
    PROXY.fetch(tmp_path)
    assert PROXY.build(tmp_path) == PROXY.entries()
