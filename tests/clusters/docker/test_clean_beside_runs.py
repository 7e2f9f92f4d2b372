"""`fencepost clean` beside whole runs in Docker, in the same PID namespace and in another."""

from __future__ import annotations

import pytest
from support import clean_scenes
from support.clean_scenes import APART, Place

from fencepost.clusters.docker import leftovers

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.nightly]
WHERE = pytest.mark.parametrize("prefix", [(), APART], ids=["beside", "apart"])


@pytest.fixture
def options(kafka_image):
    return ("--cluster", "docker", "--cluster-set", f"image={kafka_image}", "--cluster-set", "heap_mb=256")


@WHERE
def test_a_live_run_is_named_and_left_alone(prefix, options, tmp_path):
    text, run = clean_scenes.a_live_run_is_left_alone(Place(tmp_path), options, prefix)
    assert f"of run {run.name} in Docker; its {'directory is in use by fencepost run' if prefix else 'process '}" in text
    assert [left for left in leftovers.find() if left.run == run.name] == []


@WHERE
def test_a_killed_run_is_removed(prefix, options, tmp_path):
    place = Place(tmp_path)
    run = clean_scenes.a_killed_run_is_removed(place, options, prefix)
    assert [left for left in leftovers.find() if left.run == run.name] == []
