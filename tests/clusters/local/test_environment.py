"""What surrounds brokers and needs options of its own, on one real local cluster."""

import pytest
from support.play_scenes import play

from clusters.fault_tools import faketime
from clusters.fault_tools.disk_throttle import throttles

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    skewable = faketime.trouble() == ""
    slow_disks = throttles.trouble() == ""
    scenes = [*["slow_disk"] * slow_disks, *(["clocks", "disk_and_wrong_clock"] if skewable else ["disk"])]
    return play(tmp_path_factory.mktemp("run"), *scenes, heap_mb=256, disk_mb=200, skewable=skewable, slow_disks=slow_disks)


@pytest.fixture
def clock(seen):
    """What was seen of clocks; visibly skipped where libfaketime is missing."""
    if "clocks" not in seen:
        reason = faketime.trouble()
        assert "libfaketime" in reason
        pytest.skip(reason)
    return seen


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


def test_a_slow_disk_holds_back_what_its_broker_writes(seen):
    """By the count of what was held back, by what the kernel shows of the broker's threads, and by a client's record."""
    if "slow disk" not in seen:
        pytest.skip(throttles.trouble())
    struck = seen["slow disk"]
    assert (struck["effective"], struck["note"]) == (True, "")
    assert struck["evidence"]["held"]["n3"]["operations"] >= 1
    assert struck["evidence"]["held"]["n3"]["longest_ms"] >= 150
    assert struck["evidence"]["during"]["n3"] >= 75
    assert (seen["records left over"], seen["acknowledged after ms"] >= 150) == (0, True)
    assert struck["healing"]["held"]["n3"]["bytes"] > 0
    assert struck["healing"]["after"]["n3"] < struck["evidence"]["during"]["n3"]
    assert struck["again"] == {key: value for key, value in struck.items() if key != "again"}
    assert seen["in sync after the slow disk"]


def test_a_clock_jumps_and_is_set_right(clock):
    """An hour ahead and an hour behind, by the broker's own word."""
    for direction, by_s in (("ahead", 3600), ("behind", -3600)):
        struck = clock["clocks"][direction]
        assert (struck["effective"], struck["note"]) == (True, "")
        assert struck["evidence"]["during"]["n2"] == pytest.approx(by_s, abs=1)
        assert struck["evidence"]["before"]["n2"] == pytest.approx(0, abs=1)
        assert struck["healing"]["after"]["n2"] == pytest.approx(0, abs=1)


def test_a_wrong_clock_outlives_the_broker_but_not_the_healing_of_the_cluster(clock):
    assert clock["wrong after a restart"] == pytest.approx(600, abs=1)
    assert clock["other clock"] == pytest.approx(0, abs=1)
    assert clock["right after all"] == pytest.approx(0, abs=1)
