"""`fencepost clean` beside whole runs on this machine, in the same PID namespace and in another."""

from __future__ import annotations

import pytest
from support import clean_scenes
from support.clean_scenes import APART, Place

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.nightly]
WHERE = pytest.mark.parametrize("prefix", [(), APART], ids=["beside", "apart"])


@WHERE
def test_a_live_run_is_named_and_left_alone(prefix, tmp_path):
    """While it performs, while it is judged, and while it is judged again."""
    place = Place(tmp_path)
    text, run = clean_scenes.a_live_run_is_left_alone(place, (), prefix)
    assert f"left alone: {run}, in use by fencepost run (process " in text
    clean_scenes.a_live_check_is_left_alone(place, run, prefix)


@WHERE
def test_a_killed_run_is_removed(prefix, tmp_path):
    clean_scenes.a_killed_run_is_removed(Place(tmp_path), (), prefix)
