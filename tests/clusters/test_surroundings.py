"""What surrounds brokers and needs options of its own, on one real local cluster."""

import pytest
from playing import play

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return play(tmp_path_factory.mktemp("run"), "disk", heap_mb=256, disk_mb=200)


def test_a_full_disk_is_noticed_and_healing_brings_the_broker_back(seen):
    """Its own log says so; the broker ends, is started again, and catches up with the others."""
    struck = seen["disk"]
    assert struck["note"] == ""
    assert struck["effective"] is True
    assert struck["evidence"]["before"]["n2"] > 50 << 20
    assert struck["evidence"]["during"]["n2"] < 64 << 10
    assert "No space left on device" in struck["evidence"]["words"]["n2"]
    assert struck["healing"]["after"]["n2"] > 50 << 20
    assert struck["healing"]["started"] == ["n2"]
    assert seen["in sync after the full disk"]


def test_other_disks_stay_as_they_were(seen):
    """The full disk is n2's alone."""
    assert seen["others"] == [True, True]
    assert seen["left in the run"] == ["logs"]
