"""Real brokers in a real sandbox. Each cluster is started once; the stories are what it saw (`inside.py`)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clusters.kafka import fetch
from clusters.local import Local, archive

pytestmark = pytest.mark.cluster

OUTSIDE = Path(__file__).with_name("outside.py")
NOBODY = 65534


def play(run_dir, *scenes, python=(sys.executable,), env=None, **options):
    """What the script saw, played inside the sandbox of `Local(**options)`."""
    argv = [*python, str(OUTSIDE), json.dumps(options), str(run_dir), *scenes]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    assert Local().missing() == {}, "this machine allows no namespaces, so the local cluster cannot be tested here"
    return play(tmp_path_factory.mktemp("run"), "start", "transaction", "kill", "pause", "partition", "roles", "heal")


def test_three_brokers_come_up_with_their_topics(seen):
    """Everybody answers, every partition is led, in sync, served and empty."""
    assert seen["brokers"] == ["n1", "n2", "n3"]
    assert seen["answers"] == [True, True, True]
    assert seen["ends"] == seen["starts"] == {"t-0": 0, "t-1": 0, "t-2": 0}
    assert seen["lagging"] == {}
    assert seen["unavailable"] == [None, None]


def test_an_open_transaction_holds_the_last_stable_offset_back(seen):
    """Record 0 is written and not committed, whoever leads; after the commit there is a marker too, and all is stable."""
    assert seen["open"] == [0, 1]
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


def test_clients_are_nodes(seen):
    """A spawned process lives, is killed like a broker, and is not started again by the cluster."""
    assert seen["client"] == [["c0"], True, "S"]
    assert seen["client killed"] == [None, False, ""]
    assert seen["client not restarted"]


def test_roles_agree_with_the_brokers_own_answers(seen):
    """Coordinators as FindCoordinator names them; a killed controller is followed by another."""
    assert seen["noted"] == [["fp-a-1"], ["g"]]
    assert all(seen["coordinators"])
    assert seen["spread"] > 1
    assert seen["new controller"]


def test_heal_makes_the_cluster_whole(seen):
    """One cut off, one frozen, one killed: healed twice, all answer and talk."""
    assert seen["healed"] == [True, True, True]
    assert seen["whole"] == [True, True]
    assert seen["all in sync"]


def test_nothing_but_logs_stays_in_the_run(seen):
    """The brokers' data is gone; the sandbox held no process but its own."""
    assert seen["left in the run"] == ["logs"]
    assert seen["processes"] == 2


def test_loopback_starts_too_and_says_what_it_cannot_do(tmp_path):
    """Kill, pause and heal work; cutting the network is refused with the reason. Log segments are kept when asked."""
    seen = play(tmp_path, "start", "heal", brokers=3, loopback=True, keep_storage=True)
    assert seen["healed"] == [True, True, True]
    assert seen["unavailable"][0] is None
    assert "loopback = true" in seen["unavailable"][1]
    assert seen["left in the run"] == ["logs", "storage"]
    assert list((tmp_path / "storage").glob("n1/t-*/*.log"))


def test_an_older_kafka_and_separate_controllers(tmp_path):
    """3.9.1 with two brokers and one controller of its own."""
    seen = play(tmp_path, "start", kafka="3.9.1", brokers=2, controllers=1)
    assert seen["version"] == "3.9.1"
    assert seen["answers"] == [True, True]
    assert seen["lagging"] == {}


def test_the_first_sandbox_leaves_an_archive_of_classes_beside_the_jars():
    """Made once, whole, and with nothing left beside it."""
    Local().sandbox(["true"])
    made = archive.path(fetch("4.3.0"))
    assert made.stat().st_size > 1_000_000
    assert not list(made.parent.glob(".classes-*"))


def test_a_setting_that_kafka_refuses_is_quoted(tmp_path):
    """Found when the storage is formatted."""
    with pytest.raises(AssertionError, match=r"could not format its storage .*Invalid value many"):
        play(tmp_path, brokers=1, settings={"num.io.threads": "many"})


def test_a_broker_that_dies_early_is_quoted(tmp_path):
    """Its own words from the log are in the error, and nobody waits for the deadline."""
    with pytest.raises(AssertionError, match=r"n1 ended with status 1 while waiting for .*no\.such\.Reporter"):
        play(tmp_path, brokers=1, settings={"metric.reporters": "no.such.Reporter"})


def test_an_ordinary_user_needs_no_root(tmp_path):
    """One broker, started as `nobody` when we are root, else as ourselves: root only inside its own namespace."""
    if os.getuid() != 0:
        assert play(tmp_path, "start", brokers=1)["uid"] == 0
        return
    with TemporaryDirectory() as place:
        modules = os.pathsep.join(filter(None, sys.path))
        env = {**os.environ, "PYTHONPATH": modules, "FENCEPOST_CACHE": f"{place}/cache", "HOME": place}
        shutil.copytree(fetch("4.3.0").directory, f"{place}/cache/kafka/4.3.0")
        Path(place).chmod(0o777)
        seen = play(Path(place, "run"), "start", brokers=1, python=_python_of_nobody(env), env=env)
        assert Path(place, "run").stat().st_uid == NOBODY
    assert seen["uid"] == 0
    assert seen["answers"] == [True]


def _python_of_nobody(env):
    """The words before a script that `nobody` runs: our Python, or the system's when ours lies in a closed home."""
    drop = (
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "env",
    )  # `env`: the capabilities that setpriv itself keeps end there
    for program in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        words = (*drop, program)
        if subprocess.run([*words, "-c", "import clusters.local.cluster"], env=env, capture_output=True).returncode == 0:
            return words
    raise AssertionError("no Python here that the user nobody may run")
