"""Promises of every provider of clusters, on real brokers.

Each is started once; the tests look at what its scenes saw (`support/cluster_scenes.py`).
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.play_scenes import OUTSIDE, play

from fencepost.clusters.docker import engine, leftovers
from fencepost.clusters.fault_tools import faketime
from fencepost.clusters.local import Local
from fencepost.harness.api import Partitionable
from fencepost.harness.runs.leftovers import processes

pytestmark = pytest.mark.cluster

GONE_S = 120
FAULTS = (
    "bandwidth", "bridge", "corrupt", "cut-client", "cut-clients", "delete-topic", "graceful-stop", "halves", "isolate",
    "isolate-then-kill", "latency", "link-flap", "move-coordinator", "move-group-coordinator", "move-leaders", "one-way",
    "packet-loss", "pause", "power-off", "reassign", "topic-settings", "transaction-version",
)  # fmt: skip
HOSTS = []  # those that the present provider uses by ssh, once there are any
UNABLE = {  # provider -> faults that it cannot do, and words of the reason that the receipt gives
    "docker": {
        "corrupt": "the brokers' files are where only containers see them",
    },
    "ssh": {
        "corrupt": "files on other hosts are not damaged",
        "cut-client": "a host that is reached by ssh cannot tell one from another",
    },
}


@pytest.fixture(scope="module", params=["local", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("docker", "ssh"))])
def provider(request):
    """The options that name a provider on this machine."""
    if request.param == "local":
        assert Partitionable not in Local().missing(), (
            "this machine allows no namespaces, so the local cluster cannot be tested here"
        )
        return {"kind": "local", "heap_mb": 256}
    if request.param == "ssh":
        HOSTS.append(request.getfixturevalue("ssh_hosts"))
        return {"kind": "ssh", "heap_mb": 256, **HOSTS[0].options}
    return {"kind": "docker", "heap_mb": 256, "image": request.getfixturevalue("kafka_image")}


@pytest.fixture(scope="module")
def seen(provider, tmp_path_factory):
    run = tmp_path_factory.mktemp("run")
    scenes = ["start", "kill", "pause", "partition", "roles", "heal", "faults", "disk_and_clock", "versions"]
    if provider["kind"] == "local" and faketime.trouble() == "":
        scenes.append("clocks")
    zone = {**os.environ, "TZ": "Asia/Tokyo"}  # not that of a container
    seen = play(run, *scenes, env=zone, **provider, **own_disk_and_clock(provider))
    return {**seen, "left": remains(run) + [rule for hosts in HOSTS for rule in hosts.rules()]}


def own_disk_and_clock(provider):
    """Options that give each broker a small disk, and a clock that can be set; a local cluster is refused without the library."""
    return {"disk_mb": 200, "skewable": provider["kind"] != "local" or faketime.trouble() == ""}


def remains(run):
    """Leftovers of a run: processes that name its directory, all with its label in Docker, anything on a host."""
    mine = [process.command for process in processes() if str(run) in process.command and process.pid != os.getpid()]
    return mine + [str(left) for left in in_docker(run)] + [left for hosts in HOSTS for left in hosts.remains(run.name)]


def in_docker(run):
    """A daemon that does not answer runs nothing of ours."""
    return [] if engine.trouble() else [left for left in leftovers.find() if left.run == run.name]


def test_three_brokers_come_up_with_their_topics(seen):
    """Everybody answers, every partition is led, in sync, served and empty."""
    assert seen["brokers"] == ["n1", "n2", "n3"]
    assert seen["answers"] == [True, True, True]
    assert seen["ends"] == seen["starts"] == {"t-0": 0, "t-1": 0, "t-2": 0}
    assert seen["lagging"] == {}
    assert seen["unavailable"][:3] == [None, None, None]


def test_an_open_transaction_holds_the_last_stable_offset_back(seen):
    """Record 0 is written and not committed, whoever leads; after the commit there is a marker too, and all is stable."""
    assert seen["open"]
    assert seen["open under a new leader"]
    assert seen["committed"]


def test_a_killed_leader_is_gone_replaced_and_comes_back(seen):
    """Its process is gone at once; another leads; started again (twice) it is a new process, and catches up."""
    assert seen["killed"] == [None, False, False]
    assert seen["led by another"]
    assert seen["missed"]
    assert seen["answers again"]
    assert seen["new pid"]
    assert seen["in sync again"]
    assert seen["others untouched"]


def test_a_paused_broker_is_frozen_and_thaws(seen):
    """T in the process table, silent on the wire, then alive."""
    assert seen["frozen"] == [True, False]
    assert seen["thawed"]


def test_a_cut_is_one_way_counted_and_undone(seen):
    """n1 no longer reaches n2, c0 no longer n1; n2 still reaches n1, and n1 still n3."""
    assert seen["cut"] == [False, True, True, False]
    assert seen["dropped"] == [True, False, False, True]
    assert seen["uncut"] == [True, True, True, True]
    assert seen["count kept"]


def test_a_cut_outlives_the_node_that_it_hurts(seen):
    """A broker that is killed and started again while it is cut off is still cut off."""
    assert seen["cut after a restart"] == [False, True]


def test_clients_are_nodes(seen):
    """A spawned process lives, is killed like a broker, and is not started again by the cluster."""
    assert seen["client"] == [["c0"], True, True]
    assert seen["client killed"] == [None, False, ""]
    assert seen["client not restarted"]


def test_roles_agree_with_the_brokers_own_answers(seen):
    """Coordinators as FindCoordinator names them; a killed controller is followed by another."""
    assert seen["noted"] == [["fp-a-1"], ["g"]]
    assert all(seen["coordinators"])
    assert seen["spread"] > 1
    assert seen["new controller"]


def test_heal_makes_the_cluster_whole(seen):
    """The controller killed, one other frozen and cut off: healed twice, all answer and talk."""
    assert seen["healed"] == [True, True, True]
    assert seen["whole"] == [True, True]
    assert seen["all in sync"]


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_takes_hold_and_is_healed(seen, provider, kind):
    """By its own evidence, with nothing to remark; healing twice does no harm, and every pair talks again.

    What a provider cannot do has no effect, does no harm, and says why.
    """
    if words := UNABLE.get(provider["kind"], {}).get(kind):
        assert words in seen["faults"][kind].pop("notes")[0]
        assert seen["faults"][kind] == {"effective": False, "healing": False, "whole": True}
        return
    assert seen["faults"][kind] == {"effective": True, "notes": ["", "", ""], "healing": True, "whole": True}


def test_no_fault_is_left_out_and_none_hurts_a_client(seen):
    assert tuple(seen["faults"]) == FAULTS
    assert seen["clients"] == [None, None, None]
    assert seen["in sync after all faults"]


def test_a_full_disk_is_noticed_and_healing_brings_the_broker_back(seen):
    """Its own log says so; the broker ends, is started again, and catches up with the others, whose disks stay as they were."""
    struck = seen["disk"]
    assert (struck["effective"], struck["note"]) == (True, "")
    assert struck["evidence"]["before"]["n2"] > 50 << 20
    assert struck["evidence"]["during"]["n2"] < 64 << 10
    assert "No space left on device" in struck["evidence"]["words"]["n2"]
    assert struck["healing"]["after"]["n2"] > 50 << 20
    assert struck["healing"]["started"] == ["n2"]
    assert seen["others"] == [True, True]
    assert seen["in sync after the full disk"]


@pytest.fixture
def clocks(seen, provider):
    """Observations of clocks; visibly skipped where libfaketime is missing."""
    if faketime.library() is None:
        reason = faketime.trouble() if provider["kind"] == "local" else seen["no clock"]
        assert "libfaketime" in reason
        pytest.skip(f"no libfaketime on this machine, so none in the image and on the hosts of the tests: {reason}")
    return seen


def test_a_wrong_clock_outlives_the_broker_and_is_set_right(clocks):
    """An hour ahead by the broker's own word, also by that of the one that was started in its place."""
    assert clocks["clock"]["note"] == ""
    assert clocks["clock"]["before"]["n2"] == pytest.approx(0, abs=1)
    assert clocks["clock"]["during"]["n2"] == pytest.approx(3600, abs=1)
    assert clocks["wrong after a restart"] == pytest.approx(3600, abs=1)
    assert clocks["clock"]["after"]["n2"] == pytest.approx(0, abs=1)


@pytest.mark.parametrize("provider", ["local"], indirect=True)
def test_a_clock_jumps_ahead_and_behind_and_is_set_right(clocks, provider):
    """An hour each, by the broker's own word, while other clocks stay right; healing the whole cluster sets it right too."""
    for direction, by_s in (("ahead", 3600), ("behind", -3600)):
        struck = clocks["clocks"][direction]
        assert (struck["effective"], struck["note"]) == (True, "")
        assert struck["evidence"]["during"]["n2"] == pytest.approx(by_s, abs=1)
        assert struck["evidence"]["before"]["n2"] == pytest.approx(0, abs=1)
        assert struck["healing"]["after"]["n2"] == pytest.approx(0, abs=1)
    assert clocks["other clock"] == pytest.approx(0, abs=1)
    assert clocks["right after all"] == pytest.approx(0, abs=1)


def test_brokers_log_their_own_words(seen):
    assert seen["versions"] == {"n1": "4.4.0", "n2": "4.4.0", "n3": "4.4.0"}


def test_nothing_but_logs_stays(seen):
    """The brokers' data is gone from the run, and the run from the machine."""
    assert seen["left in the run"] == ["logs"]
    assert seen["left"] == []


@pytest.mark.nightly
def test_nodes_may_run_different_versions(provider, tmp_path, request):
    """Two brokers of 3.9.1 and 4.4.0 with a controller of its own, all as the older one wants it, are upgraded in turn.

    Then, since controllers are apart, one may lose its disk.
    """
    if provider["kind"] == "docker":
        request.getfixturevalue("older_kafka_image")
    apart = {"kafka": "3.9.1", "brokers": 2, "controllers": 1, "versions": {"n2": "4.4.0"}, "upgrades": ["4.4.0"]}
    seen = play(tmp_path, "start", "versions", "upgrade", "replace", **provider, **apart)
    assert seen["version"] == "3.9.1"
    assert seen["answers"] == [True, True]
    assert seen["versions"] == {"n1": "3.9.1", "n2": "4.4.0"}
    assert seen["upgrade"] == {"effective": True, "notes": ["", "", ""], "healing": True, "whole": True}
    assert seen["upgraded"] == {"n1": "4.4.0", "n2": "4.4.0", "k1": "4.4.0"}
    assert seen["versions of n1"] == ["3.9.1", "4.4.0"]
    assert seen["replaced"] == {"effective": True, "notes": ["", "", ""], "healing": True, "whole": True}
    assert seen["data"] == [True, True]
    assert seen["lagging"] == {}


def begin(run, provider, *scenes):
    """A harness of one broker in a process of its own, that plays scenes; and its first line, when it is up."""
    run.mkdir()
    more = {"ssh": {"lease_s": 8, "disk_mb": 100, "skewable": True}, "docker": {"disk_mb": 100}}.get(provider["kind"], {})
    argv = [sys.executable, str(OUTSIDE), json.dumps({**provider, **more, "brokers": 1}), str(run), *scenes]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def gone(run):
    """Return whether nothing of the run is left within two minutes."""
    deadline = time.monotonic() + GONE_S
    while (left := remains(run)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left == [] or left


def until_there_is_something(run):
    """Wait until a run that is starting has its first broker's log."""
    deadline = time.monotonic() + GONE_S
    while not (run / "logs" / "n1" / "server.log").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert remains(run)


@pytest.mark.parametrize("provider", ["local", "docker", "ssh"], indirect=True)
def test_a_harness_that_is_killed_as_it_starts_leaves_nothing(provider, tmp_path):
    """kill -9 as soon as its first broker says something."""
    starting = begin(tmp_path / "starting", provider, "wait")
    until_there_is_something(tmp_path / "starting")
    starting.kill()
    assert gone(tmp_path / "starting") is True


@pytest.mark.nightly
def test_two_runs_at_once_do_not_touch_each_other(provider, tmp_path):
    """Both are up, each with a frozen broker; one is killed, and leaves nothing; the other goes on, and is alive in the eyes
    of `clean`.

    Then all its processes are killed at the same moment, so that none can tidy up: its nodes end all the same, and what
    may stay (an empty network and volume in Docker) is found and removed.
    """
    apart = {"port": 9192} if provider["kind"] == "ssh" else {}  # two runs on the same hosts
    first, second = begin(tmp_path / "one", provider, "wait"), begin(tmp_path / "other", {**provider, **apart}, "wait")
    assert [first.stdout.readline(), second.stdout.readline()] == ["up\n", "up\n"]
    first.kill()
    assert gone(tmp_path / "one") is True
    assert remains(tmp_path / "other")
    assert all(left.live for left in in_docker(tmp_path / "other"))
    os.killpg(second.pid, signal.SIGKILL)
    deadline = time.monotonic() + GONE_S
    while [left for left in in_docker(tmp_path / "other") if left.containers] and time.monotonic() < deadline:
        time.sleep(0.2)
    for left in in_docker(tmp_path / "other"):
        assert (left.live, left.containers) == (False, ())
        left.remove()
    assert gone(tmp_path / "other") is True
