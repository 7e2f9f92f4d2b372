"""Properties of clusters on this machine alone, in a real sandbox (what all providers share: test_providers.py)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.play_scenes import play

from fencepost.clusters.fault_tools.disk_throttle import throttles
from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.local import Local

pytestmark = pytest.mark.cluster

UNPRIVILEGED = 65534
SLOW = [] if throttles.trouble() else ["slow_disk"]


def test_the_sandbox_holds_no_process_but_its_own():
    """Its supervisor, and what it was asked to run."""
    count = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))"
    argv = Local().sandbox([sys.executable, "-c", count])
    assert subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240).stdout == "2\n"


def test_loopback_starts_too_and_says_what_it_cannot_do(tmp_path):
    """Kill, pause and heal work; cutting the network is refused with the reason, as are disks and clocks, which were not asked
    for. Log segments are kept when asked.
    """
    seen = play(tmp_path, "start", "frozen_and_killed", brokers=1, loopback=True, keep_storage=True)
    assert (seen["frozen"], seen["thawed"]) == ([True, False], [True, True, True])
    assert (seen["killed"], seen["started"]) == ([None, False], [True, True])
    killable, network, disk, clock = seen["unavailable"]
    assert killable is None
    assert "loopback = true" in network
    assert "disk_mb = 300" in disk
    assert "skewable = true" in clock
    assert seen["left in the run"] == ["logs", "storage"]
    assert list((tmp_path / "storage").glob("n1/t-*/*.log"))


def test_a_controller_apart_gives_the_cluster_the_features_of_its_version(tmp_path):
    """A broker's directory has none of them since 4.4: transactions were of the first protocol, and no group of the new one."""
    seen = play(tmp_path, "features", brokers=1, controllers=1, loopback=True)
    assert (seen["features"]["transaction.version"], seen["features"]["group.version"]) == (2, 1)


def test_the_first_sandbox_leaves_an_archive_of_classes_beside_the_jars():
    """Made once, whole, and with nothing left beside it."""
    Local().sandbox(["true"])
    made = fetch("4.4.0").classes()
    assert made.stat().st_size > 1_000_000
    assert not list(made.parent.glob(".classes-*"))


def test_a_setting_that_kafka_refuses_is_quoted(tmp_path):
    """Found when the storage is formatted."""
    with pytest.raises(AssertionError, match=r"could not format its storage .*Invalid value many"):
        play(tmp_path, brokers=1, settings={"num.io.threads": "many"})


def test_a_broker_that_dies_early_is_quoted(tmp_path):
    """Its own words from the log are in the error, and the deadline is not waited for."""
    with pytest.raises(AssertionError, match=r"n1 ended with status 1 while waiting for .*no\.such\.Reporter"):
        play(tmp_path, brokers=1, settings={"metric.reporters": "no.such.Reporter"})


def test_an_ordinary_user_needs_no_root(tmp_path):
    """One broker, started as `nobody` when we are root, else as ourselves: root only inside its own namespace.

    Its disk can be slow, too: nothing of that takes root.
    """
    if os.getuid() != 0:
        seen = play(tmp_path, "start", *SLOW, brokers=1, slow_disks=bool(SLOW))
        assert seen["uid"] == 0
        a_slow_disk_held_back_what_was_written(seen)
        return
    with TemporaryDirectory() as place:
        modules = os.pathsep.join(filter(None, sys.path))
        env = {**os.environ, "PYTHONPATH": modules, "FENCEPOST_CACHE": f"{place}/cache", "HOME": place}
        shutil.copytree(fetch("4.4.0").directory, f"{place}/cache/kafka/4.4.0")
        Path(place).chmod(0o777)
        slow = {"slow_disks": bool(SLOW), "interpreter": _unprivileged_python(env), "env": env}
        seen = play(Path(place, "run"), "start", *SLOW, brokers=1, **slow)
        assert Path(place, "run").stat().st_uid == UNPRIVILEGED
    assert seen["uid"] == 0
    assert seen["answers"] == [True]
    a_slow_disk_held_back_what_was_written(seen)


def a_slow_disk_held_back_what_was_written(seen):
    """By the count of what was held back, by what the kernel shows of the broker's threads, and by a client's record."""
    if not SLOW:
        pytest.skip(throttles.trouble())
    struck = seen["slow disk"]
    assert (struck["effective"], struck["note"]) == (True, "")
    assert struck["evidence"]["held"]["n1"]["operations"] >= 1
    assert struck["evidence"]["held"]["n1"]["longest_ms"] >= 150
    assert struck["evidence"]["during"]["n1"] >= 75
    assert (seen["records left over"], seen["acknowledged after ms"] >= 150) == (0, True)
    assert struck["healing"]["held"]["n1"]["bytes"] > 0
    assert seen["quick again"]
    assert struck["again"] == {key: value for key, value in struck.items() if key != "again"}
    assert seen["in sync after the slow disk"]


def _unprivileged_python(env):
    """The words before a script that `nobody` runs: our Python, or the system's when ours lies in a closed home."""
    drop = (
        "setpriv",
        f"--reuid={UNPRIVILEGED}",
        f"--regid={UNPRIVILEGED}",
        "--clear-groups",
        "env",
    )  # `env`: the capabilities that setpriv itself keeps end there
    for program in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        words = (*drop, program)
        if (
            subprocess.run([*words, "-c", "import fencepost.clusters.local.cluster"], env=env, capture_output=True).returncode
            == 0
        ):
            return words
    raise AssertionError("no Python here that the user nobody may run")
