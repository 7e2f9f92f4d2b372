"""Properties of clusters in Docker alone (what all providers share: test_providers.py)."""

import importlib
import itertools
import json
import os
import queue
import re
import subprocess
import sys
from collections import deque
from datetime import datetime, timedelta, timezone
from http.client import RemoteDisconnected
from pathlib import Path

import pytest
from docker.errors import APIError, ImageNotFound
from requests.exceptions import ConnectionError
from support.fencepost_command import JUDGED_HERE, fencepost
from urllib3.exceptions import ProtocolError

from fencepost.clusters.docker import documents, engine, host_python, images, leftovers
from fencepost.clusters.docker.cluster import DockerCluster
from fencepost.clusters.docker.container import _common
from fencepost.clusters.docker.network import Helper
from fencepost.clusters.docker.provider import Docker
from fencepost.clusters.docker.run_resources import mount
from fencepost.clusters.kafka.distribution import fetch
from fencepost.harness.api import CampaignError, ClusterError, TopicSpec
from fencepost.harness.api.plans import Choice, Test
from fencepost.harness.planning.plan import obtain
from fencepost.harness.system import liveness
from fencepost.nemesis.support.waiting import poll_until

TOPICS = {"t": TopicSpec(partitions=1)}
PATIENCE_S = 120.0


# ---- decided without a daemon


def test_all_mistakes_in_options_are_reported_at_once():
    """A container too small for its heap, no version, and a version for a node that is not there."""
    with pytest.raises(CampaignError) as caught:
        Docker(brokers=2, heap_mb=512, memory_mb=512, controllers=1, versions={"n3": "3.9.1"}, upgrades=("4",))
    assert caught.value.mistakes == [
        "versions.n3: no such node; there are k1, n1, n2",
        'upgrades: "4" is no version of Kafka; one is written like 4.4.0',
        "memory_mb = 512: a heap of 512 MB needs 640 or more",
    ]
    with pytest.raises(CampaignError, match="brokers = 0: must be between 1 and 50"):
        Docker(brokers=0)
    with pytest.raises(CampaignError, match="one image cannot hold several versions"):
        Docker(image="my/kafka:4.4.0", versions={"n1": "3.9.1"})


def test_versions_are_compared_by_number():
    """Not by letter; the oldest decides how storage is formatted."""
    options = Docker(kafka="4.4.0", versions={"n1": "3.10.0", "n2": "3.9.1"})
    assert options.all_versions() == ["3.9.1", "3.10.0", "4.4.0"]
    assert [options.version(node) for node in ("n1", "n2", "n3")] == ["3.10.0", "3.9.1", "4.4.0"]


HERE = liveness.identity()
DEAD = " ".join([*HERE.split(" ")[:3], str(1 << 22), "7"])
ELSEWHERE = " ".join([*HERE.split(" ")[:2], "4026500000", "1", "7"])  # in another PID namespace: in a container, say


@pytest.mark.parametrize(
    ("owners", "lock", "running", "age_s", "user"),
    [
        ([HERE], None, [], 9999, f"its process {os.getpid()} is alive"),
        ([HERE], "", [], 9999, f"its process {os.getpid()} is alive"),
        ([DEAD, HERE], None, ["n1"], 9999, f"its process {os.getpid()} is alive"),
        ([DEAD], None, ["n1"], 1, ""),
        (
            [ELSEWHERE],
            None,
            ["n1"],
            9999,
            "its process is not to be seen from here, and n1 runs, which ends 60 s after its harness",
        ),
        ([ELSEWHERE], None, [], 5, "its process is not to be seen from here, and it was made 5 s ago"),
        ([ELSEWHERE], None, [], 9999, ""),
        ([ELSEWHERE], "", ["n1"], 5, ""),
        ([ELSEWHERE], "fencepost run (process 1)", [], 9999, "its directory is in use by fencepost run (process 1)"),
        (
            ["of an older version"],
            None,
            ["n1"],
            9999,
            "its process is not to be seen from here, and n1 runs, which ends 60 s after",
        ),
    ],
    ids=itertools.count(),  # not by the process id, which differs among the processes of the tests
)
def test_what_a_run_has_is_removed_only_if_the_run_is_surely_over(owners, lock, running, age_s, user):
    owner = leftovers.user_of(owners, lock, running, age_s)
    assert owner.startswith(user)
    assert bool(owner) == bool(user)


def test_the_age_of_things_is_read_as_docker_writes_it():
    made = datetime.now(timezone.utc) - timedelta(seconds=100)
    zulu = made.strftime("%Y-%m-%dT%H:%M:%S")
    for item in ({"Created": made.timestamp()}, {"Created": f"{zulu}.123456789Z"}, {"CreatedAt": f"{zulu}+00:00"}):
        assert 95 < leftovers._age_s(documents.read(item, documents.Listed)) < 160
    assert leftovers._age_s(documents.Listed()) == 0


def test_no_daemon_is_one_clear_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert engine.trouble().startswith(
        f"no Docker daemon answers (unix://{tmp_path}/none.sock): there is no such socket. Install"
    )
    with pytest.raises(ClusterError, match="no cluster in Docker here: no Docker daemon answers"):
        Docker().sandbox(["true"])
    with pytest.raises(ClusterError, match="no Docker daemon answers"):
        leftovers.find()


def test_a_machine_without_docker_has_nothing_in_it(monkeypatch, tmp_path):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(engine, "_SOCKET", tmp_path / "docker.sock")
    assert leftovers.find() == []


class Closed(DockerCluster):
    """Three nodes, of which n3 is not heard under its own address."""

    def __init__(self, opens_after):
        self._planned, self._opens_after = dict.fromkeys(("n1", "n2", "n3")), opens_after

    def probe(self, pairs):
        self._opens_after -= 1
        return {pair: pair[0] != "n3" or self._opens_after < 0 for pair in pairs}


def test_a_network_that_hides_senders_is_refused_before_anything_is_concluded_from_it():
    """A masquerading rule of another daemon would make every cut a cut of nothing; a single lost probe is no reason."""
    with pytest.raises(ClusterError, match=r"sender's address: n3 to n1, n3 to n2\. Is there a rule"):
        Closed(opens_after=9)._require_open_network()
    Closed(opens_after=2)._require_open_network()


def test_leftovers_are_described_in_words():
    left = leftovers.Leftover(sandbox="x", run="nightly-1", live=False, containers=("a", "b"), networks=("n",))
    assert str(left) == "2 containers and 1 network of run nightly-1 in Docker"
    assert str(leftovers.Leftover(sandbox="x", run="y", live=False, networks=("n",))) == "1 network of run y in Docker"
    all_kinds = leftovers.Leftover(sandbox="x", run="y", live=False, containers=("c",), networks=("n",), volumes=("v", "w"))
    assert str(all_kinds) == "1 container, 1 network and 2 volumes of run y in Docker"


class Daemon:
    """A daemon that describes itself as it is made to."""

    def __init__(self, **info):
        self._info = info

    def info(self):
        return self._info

    def close(self):
        pass


@pytest.mark.parametrize(
    ("place", "info", "words"),
    [
        ("unix:///var/run/docker.sock", {"OSType": "windows"}, "runs windows containers"),
        ("unix:///run/user/1000/docker.sock", {"SecurityOptions": ["name=seccomp", "name=rootless"]}, "is rootless"),
        ("tcp://10.0.0.7:2375", {}, "must be on this machine"),
        ("unix:///var/run/docker.sock", {"SecurityOptions": None}, ""),
    ],
)
def test_a_daemon_that_cannot_serve_is_refused_with_the_reason(monkeypatch, place, info, words):
    monkeypatch.setenv("DOCKER_HOST", place)
    monkeypatch.setattr(engine, "connect", lambda: Daemon(**info))
    assert words in engine.trouble()
    assert bool(words) == bool(engine.trouble())


def test_a_base_needs_debootstrap_and_root(monkeypatch):
    monkeypatch.setattr(images.shutil, "which", lambda name, path=None: None)
    with pytest.raises(ClusterError, match=r"not installed .*apt install debootstrap\); or name an image .*--base IMAGE"):
        images._debootstrap()
    monkeypatch.setattr(images.shutil, "which", lambda name, path=None: "/usr/sbin/debootstrap")
    monkeypatch.setattr(images.os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="debootstrap needs root"):
        images._debootstrap()


def test_a_debootstrap_that_fails_is_quoted(tmp_path):
    program = tmp_path / "debootstrap"
    program.write_text("#!/bin/sh\necho I: Retrieving InRelease\necho 'E: no such mirror'\nexit 3\n")
    program.chmod(0o755)
    messages = []
    with pytest.raises(ClusterError, match=r"debootstrap ended with status 3: .*E: no such mirror"):
        images._bootstrap(str(program), tmp_path / "root", messages.append)
    assert messages[-1] == "debootstrap: Retrieving InRelease"


def test_workers_see_this_machines_python_and_may_write_only_the_run(tmp_path):
    """Read-only but for the run; and of the environment no more than they need."""
    shown = {mount["Target"]: mount["ReadOnly"] for mount in host_python.mounts(writable=[tmp_path])}
    assert shown.pop(str(tmp_path)) is False
    assert all(shown.values())
    assert "/" not in shown
    assert any(os.path.realpath(sys.prefix).startswith(target) for target in shown)
    passed = host_python.environment(
        {"PATH": "/bin", "LC_ALL": "C", "FENCEPOST_NODE": "c0", "AWS_SECRET_ACCESS_KEY": "x", "HOME": "/root"}
    )
    assert passed.keys() == {"PATH", "LC_ALL", "FENCEPOST_NODE", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}


def test_of_the_working_directory_only_what_was_imported_is_shown(tmp_path, monkeypatch):
    """It may be a home, or /tmp; packages and files that are imported from it are shown, and nothing beside them."""
    for name in ("a_plugin.py", "a_package/__init__.py", "a_package/inner.py", "secret.txt", "not_imported.py", ".ssh/id"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(empty)])
    importlib.invalidate_caches()
    for name in ("a_plugin", "a_package", "a_package.inner"):
        monkeypatch.setitem(sys.modules, name, importlib.import_module(name))
    shown = {Path(mount["Target"]) for mount in host_python.mounts()}
    assert {path for path in shown if path.is_relative_to(tmp_path)} == {tmp_path / "a_plugin.py", tmp_path / "a_package"}
    assert not any(tmp_path.is_relative_to(path) for path in shown)
    search = host_python.environment({})["PYTHONPATH"].split(os.pathsep)
    assert str(tmp_path) in search
    assert str(empty) not in search


def test_of_our_own_sources_the_packages_are_shown_and_not_what_lies_beside_them():
    """Results, say, or the repository."""
    root = Path(host_python.__file__).resolve().parents[2]
    shown = {Path(mount["Target"]) for mount in host_python.mounts()}
    assert {root / "harness", root / "clusters"} <= shown
    assert root not in shown


def test_a_module_directly_in_tmp_takes_the_place_of_the_containers_own():
    """Two mounts at one place are refused by Docker."""
    assert "tmpfs" not in _common({"mounts": [mount(Path("/tmp"))]})
    assert _common({"mounts": [mount(Path("/tmp/fencepost"))]})["tmpfs"] == {"/tmp": "rw,exec,mode=1777"}


class Registry:
    """A daemon without images, whose registry answers as it is made to."""

    def __init__(self, *lines, error=None):
        self.lines, self.error = lines, error
        self.api = self.images = self

    def get(self, name):
        raise ImageNotFound(name)

    def close(self):
        """Nothing is open."""

    def pull(self, *_, **__):
        if self.error:
            raise self.error
        return iter(self.lines)


@pytest.mark.parametrize(
    ("registry", "why", "error"),
    [
        (Registry({"status": "Pulling"}, {"error": "toomanyrequests: rate limit"}), "toomanyrequests: rate limit", CampaignError),
        (Registry(error=APIError("x", explanation="manifest unknown")), "manifest unknown", CampaignError),
        (
            Registry(error=ConnectionError(ProtocolError("x", RemoteDisconnected()))),
            "the daemon ended amid a request",
            ClusterError,
        ),
    ],
)
def test_a_registrys_own_reason_is_shown(registry, why, error):
    """A missing image is the user's to mend, a daemon that dies is not."""
    with pytest.raises(error, match=rf"mine/kafka:1 is not here, and could not be pulled: .*{why}"):
        images.resolve(registry, "4.4.0", "mine/kafka:1")
    with pytest.raises(error, match=rf"apache/kafka:4\.4\.0 .*could not be pulled: .*{why}"):
        images.resolve(registry, "4.4.0")
    with pytest.raises(error, match=rf"redpandadata/redpanda:1,? is not here, and could not be pulled: .*{why}"):
        images.third_party(registry, "redpandadata/redpanda:1", "Redpanda")


def test_images_are_obtained_before_the_first_run(monkeypatch):
    """One mistake for all of a test's images, where `fencepost run` asks for what it needs."""
    registry = Registry(error=APIError("x", explanation="manifest unknown"))
    monkeypatch.setattr(engine, "connect", lambda: registry)
    with pytest.raises(CampaignError) as caught:
        obtain([Test(name="t", cluster=Choice(kind="docker", options={"kafka": "9.9.9"}))], lambda _: None)
    assert caught.value.mistakes == [
        "there is no image of Kafka 9.9.9: apache/kafka:9.9.9 could not be pulled: manifest unknown. "
        "Build one without a registry (as root): fencepost cluster image --kafka 9.9.9"
    ]


def test_a_daemon_that_dies_amid_a_request_is_one_sentence(monkeypatch):
    class Dies(Daemon):
        def info(self):
            raise ConnectionError(ProtocolError("Connection aborted.", RemoteDisconnected("Remote end closed connection")))

    monkeypatch.setattr(engine, "connect", Dies)
    assert engine.trouble() == "Docker: the daemon ended amid a request"


def test_what_ends_a_helper_is_in_the_message():
    """Its exit status and its last lines."""

    class Ended:
        def wait(self, timeout_s):
            return 137

    helper = Helper.__new__(Helper)
    helper.node, helper.container, helper._replies = "n1", Ended(), queue.Queue()
    helper._errors = deque(["Traceback", "MemoryError"])
    helper.close()
    with pytest.raises(ClusterError, match=r"^the helper of n1: it ended with status 137: Traceback / MemoryError$"):
        helper.await_ready()


def test_a_directory_inside_another_is_not_shown_twice(tmp_path):
    inner = tmp_path / "a" / "b"
    assert host_python.outermost([inner, tmp_path / "a", tmp_path / "ab"]) == [tmp_path / "a", tmp_path / "ab"]


# ---- on a daemon


@pytest.mark.cluster
def test_an_image_that_is_nowhere_is_a_mistake_of_one_sentence_and_nothing_is_started(docker_daemon, tmp_path):
    code, out, err = fencepost(tmp_path, "run", "--cluster", "docker", "--cluster-set", "image=no-such/image:1")
    assert (code, out) == (254, "  note: pulling no-such/image:1\n")
    pattern = r"the image no-such/image:1 is not here, and could not be pulled: .*fencepost cluster image --kafka 4\.4\.0"
    assert re.search(pattern, " ".join(err.split())), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cluster
def test_a_base_without_java_is_refused_when_the_image_is_built(docker_daemon):
    with engine.opened() as client:
        host_python.ensure_image(client)
    with pytest.raises(ClusterError, match=r"could not be built on fencepost/shell:1: .*java"):
        images.build("4.4.0", base=host_python.IMAGE, name="fencepost-test/broken:1")


@pytest.mark.cluster
def test_an_image_is_labelled_with_what_it_holds(kafka_image):
    with engine.opened() as client:
        labels = client.images.get(kafka_image.replace("{version}", "4.4.0")).labels
    assert labels["fencepost.kafka"] == "4.4.0"
    assert labels["fencepost.jars"] == images.digest(fetch("4.4.0").jars)


@pytest.mark.cluster
def test_somebody_elses_image_is_given_the_place_of_its_logging_settings(kafka_image):
    """Log4j without settings would keep the broker's words to itself; our own images log by another library."""
    with engine.opened() as client:
        host_python.ensure_image(client)
        theirs, ours = (
            images.resolve(client, "4.4.0", name) for name in (host_python.IMAGE, kafka_image.replace("{version}", "4.4.0"))
        )
    assert "-Dlog4j2.configurationFile=/opt/kafka/config/log4j2.yaml" in theirs.flags
    assert ours.flags == ()


@pytest.fixture(scope="module")
def seen(kafka_image, tmp_path_factory):
    """A cluster of one broker and one client: its containers, what `clean` said of it meanwhile, and what stayed."""
    run = tmp_path_factory.mktemp("run")
    mine = {"label": f"{engine.RUN}={run.name}"}
    provider = Docker(brokers=1, heap_mb=256, memory_mb=900, cpus=1.5, image=kafka_image, keep_storage=True, disk_mb=100)
    with provider.up(run, TOPICS) as cluster, engine.opened() as client:
        with cluster.spawn("c0", ["sleep", "600"]) as worker:
            listed = client.api.containers(filters=mine)
            containers = {container["Names"][0]: client.api.inspect_container(container["Id"]) for container in listed}
            networks = client.api.networks(filters=mine)
            worker.kill()
        clean = subprocess.run([sys.executable, "-m", "fencepost", "clean"], capture_output=True, text=True, cwd=run)
        [left] = [left for left in leftovers.find() if left.run == run.name]
        with pytest.raises(ClusterError, match="are in use"):
            left.remove()
        answers = poll_until(lambda: cluster.answers("n1"), bool, PATIENCE_S)
        program = a_program_beside_its_worker(cluster, kafka_image.replace("{version}", "4.4.0"), run)
    remains = [str(left) for left in leftovers.find() if left.run == run.name]
    return {
        "run": run,
        "containers": containers,
        "networks": networks,
        "clean": clean.stdout,
        "answers": answers,
        "program": program,
        "left": remains,
    }


WAIT = """
public class Wait {
  public static void main(String[] arguments) throws Exception {
    java.nio.file.Files.writeString(java.nio.file.Path.of(System.getenv("FENCEPOST_STORE"), "items"), "1");
    System.out.println(System.getenv("FENCEPOST_INPUT") + " " + System.getenv("FENCEPOST_DIRECTORY_OF_OURS"));
    Thread.sleep(600_000);
  }
}
"""


def a_program_beside_its_worker(cluster, image, run):
    """An image at a client node: what it says, the node's states while it is frozen and thawed, and how both end by a kill."""
    directory, log, store = run / "data" / "c1", run / "logs" / "c1.log", run / "data" / "store"
    own = {"FENCEPOST_INPUT": "in", "FENCEPOST_STORE": str(store)}
    directory.mkdir(parents=True)
    store.mkdir()
    (directory / "Wait.java").write_text(WAIT)
    with cluster.spawn("c1", ["sleep", "600"]) as worker:
        program = cluster.run_image("c1", image, ["java", str(directory / "Wait.java")], own, log, directory)
        poll_until(log.read_text, lambda text: "in " in text, PATIENCE_S)
        cluster.pause("c1")
        states = [poll_until(lambda: cluster.process_state("c1"), lambda state: state == "T", PATIENCE_S)]
        cluster.resume("c1")
        states.append(poll_until(lambda: cluster.process_state("c1"), lambda state: state != "T", PATIENCE_S))
        cluster.kill("c1")
        ended = [program.wait(PATIENCE_S), worker.wait(PATIENCE_S)]
        return {"log": log.read_text(), "states": states, "ended": ended, "stored": (store / "items").read_text()}


@pytest.mark.cluster
def test_an_image_is_one_node_with_its_worker_and_sees_what_it_is_given(seen):
    program = seen["program"]
    assert program["log"].splitlines()[-1] == "in null"
    assert program["states"][0] == "T"
    assert program["states"][1] != "T"
    assert program["ended"] == [137, 137]
    assert program["stored"] == "1", "the store of a sink is a directory of this machine"


@pytest.mark.cluster
def test_containers_are_given_no_more_than_they_need(seen):
    """No container is privileged, only helpers may change rules, no port is published, no way leads out."""
    assert len(seen["containers"]) == 4  # a broker, a client, and their helpers
    assert [network["Internal"] for network in seen["networks"]] == [True]
    for name, container in seen["containers"].items():
        settings = container["HostConfig"]
        added = [capability.removeprefix("CAP_") for capability in settings["CapAdd"] or ()]
        assert added == (["NET_ADMIN"] if name.endswith("helper") else [])
        assert settings["CapDrop"] == ["ALL"]
        assert not settings["Privileged"]
        assert settings["ReadonlyRootfs"]
        assert not any(container["NetworkSettings"]["Ports"].values())
        assert not any("docker.sock" in mount["Source"] for mount in container["Mounts"])


@pytest.mark.cluster
def test_a_broker_has_limits_and_runs_as_we_do(seen):
    [broker] = [container for name, container in seen["containers"].items() if "-n1-" in name and not name.endswith("helper")]
    assert (broker["HostConfig"]["Memory"], broker["HostConfig"]["NanoCpus"]) == (1000 << 20, 1_500_000_000)  # with its disk
    assert broker["Config"]["User"] == f"{os.getuid()}:{os.getgid()}"


@pytest.mark.cluster
def test_clean_names_a_live_run_and_leaves_it_alone(seen):
    """So does the removal by hand; when the run is over nothing is left to find."""
    assert re.search(rf"of run {seen['run'].name} in Docker; its process \d+ is alive", seen["clean"])
    assert seen["answers"]
    assert seen["left"] == []


@pytest.mark.cluster
def test_storage_stays_when_the_option_says_so(seen):
    assert sorted(path.name for path in seen["run"].iterdir()) == ["logs", "storage"]
    assert list((seen["run"] / "storage").glob("n1/t-*/*.log"))


@pytest.mark.cluster
def test_a_broker_that_dies_early_is_quoted(kafka_image, tmp_path):
    """Its own words from the log are in the error, and the deadline is not waited for."""
    provider = Docker(brokers=1, heap_mb=256, image=kafka_image, settings={"metric.reporters": "no.such.Reporter"})
    with pytest.raises(ClusterError, match=r"n1 ended with status 1 while waiting for .*no\.such\.Reporter"):
        provider.up(tmp_path, TOPICS).__enter__()
    assert [left for left in leftovers.find() if left.run == tmp_path.name] == []


@pytest.mark.cluster
def test_a_whole_run_from_plan_to_verdict(kafka_image, tmp_path):
    """Workers write their histories from containers of their own; a broker is killed, a client freezes, another is cut off; all
    is read back.

    One kill, of one broker of two: where no replica of a partition lives, Kafka 4.4.0 forgets its markers (KAFKA-20734).
    """
    wanted = ("heap_mb=256", "brokers=2", "controllers=1", f"image={kafka_image}")
    cluster = ["--cluster", "docker", *(word for option in wanted for word in ("--cluster-set", option))]
    faults = [
        word
        for kind in (
            "kill,lane=brokers,every_s=[3,4],lasts_s=[2,3]",
            "pause,target=client,every_s=[1,2],lasts_s=[1,2]",
            "cut-client,lane=net,every_s=[1,2],lasts_s=[1,2]",
        )
        for word in ("-n", kind)
    ]
    few = [word for option in ("writers=2", "readers=1", "uncommitted_readers=0") for word in ("--set", option)]
    options = [*few, "--rate", "60", "--time", "8", "--seed", "5", "--json", "--results", str(tmp_path)]
    argv = [*JUDGED_HERE, "run", *cluster, *faults, *options]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    [run] = tmp_path.glob("*/*/")
    plan = json.loads((run / "plan.json").read_text())
    receipts = [json.loads(line) for line in (run / "history" / "faults.jsonl").read_text().splitlines()]
    assert verdict["verdict"] == "valid"
    assert verdict["counts"]["final_read"] > 0
    assert list(plan["cluster"]["description"]["images"]) == ["4.4.0"]
    assert {receipt["kind"] for receipt in receipts if receipt["effective"]} == {"kill", "pause", "cut-client"}
    assert [left for left in leftovers.find() if left.run == run.name] == []
