"""Needs of providers: a Docker daemon (the machine's own, else one that the tests start), and hosts to log in to."""

from __future__ import annotations

import getpass
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from support import redpanda_double
from support.ssh_hosts import SSHD, keygen

from fencepost.clusters.docker import engine, images
from fencepost.clusters.docker.provider import Docker
from fencepost.clusters.fault_tools import faketime
from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.local import class_archive
from fencepost.clusters.ssh.remote import file_transfer
from fencepost.harness.api import TopicSpec
from fencepost.harness.fetching.java import java

DAEMON_S = 240
BASE, IMAGE = "fencepost-test/java:1", "fencepost-test/kafka:{version}"


@pytest.fixture(scope="session")
def docker_daemon(tmp_path_factory):
    """DOCKER_HOST of a daemon that may be used. Starts Debian's where there is none and we are root; else a visible skip."""
    reason = engine.trouble()
    if not reason:
        yield os.environ.get("DOCKER_HOST", "")
        return
    if shutil.which("dockerd") is None or os.getuid() != 0:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have Docker: {reason}")
        pytest.skip(f"{reason}; nor may a test start one here (it takes dockerd, from docker.io, and root)")
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("docker")
        patch.setenv("DOCKER_HOST", f"unix://{place}/docker.sock")
        daemon = start_daemon(place)
        try:
            yield os.environ["DOCKER_HOST"]
        finally:
            daemon.terminate()
            daemon.wait(DAEMON_S)


def start_daemon(place):
    """A dockerd with everything it keeps in `place`, answering."""
    # no default bridge and addresses of its own: rules that another daemon left for these would apply to ours
    argv = ["dockerd", "--bridge", "none", "--default-address-pool", "base=10.74.0.0/16,size=24"]
    argv += ["--data-root", f"{place}/lib", "--exec-root", f"{place}/run", "--pidfile", f"{place}/pid"]
    with open(place / "log", "wb") as log:
        argv += ["--host", f"unix://{place}/docker.sock"]
        daemon = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + DAEMON_S
    while reason := engine.trouble():
        if daemon.poll() is not None or time.monotonic() > deadline:
            daemon.kill()
            words = (place / "log").read_text(errors="replace").strip().splitlines()[-3:]
            pytest.fail(f"dockerd did not start: {reason}; its last words: {' / '.join(words)}")
        time.sleep(0.2)
    return daemon


@pytest.fixture(scope="session")
def kafka_image(docker_daemon, tmp_path_factory):
    """The name of images, with the version left open. There is one of 4.4.0, on a base with this machine's Java and nothing else.

    It has an archive of its classes too, so that brokers start sooner (`clusters.local.class_archive`).
    """
    with engine.opened() as client:
        base = a_base_with_java(client)
        plain = images.build("4.4.0", base=base, name="fencepost-test/plain:4.4.0")
        add_classes(client, plain, IMAGE.replace("{version}", "4.4.0"), tmp_path_factory.mktemp("classes"))
    return IMAGE


@pytest.fixture(scope="session")
def older_kafka_image(kafka_image):
    """The image of Kafka 3.9.1 beside it."""
    images.build("3.9.1", base=BASE, name=kafka_image.replace("{version}", "3.9.1"))


@pytest.fixture(scope="session")
def redpanda_image(kafka_image, tmp_path_factory):
    """The image of a double of Redpanda, with the version left open."""
    files = redpanda_double.files(tmp_path_factory.mktemp("redpanda"))
    with engine.opened() as client:
        name = redpanda_double.IMAGE.replace("{version}", redpanda_double.VERSION)
        derive(client, name, redpanda_double.lines(kafka_image.replace("{version}", "4.4.0")), files)
    return redpanda_double.IMAGE


def add_classes(client, plain, name, run):
    """An image with the archive that a broker of a plain one makes when it ends, unless it is there."""
    label = f"fencepost.test={plain.id}"
    if client.images.list(name, filters={"label": label}):
        return
    learning, made = "fencepost-test/learning:1", run / "data" / "n1" / "classes.jsa"
    derive(client, learning, [f"FROM {plain.name}", f"ENV JDK_JAVA_OPTIONS=-XX:ArchiveClassesAtExit={made}"])
    with Docker(brokers=1, heap_mb=256, image=learning).up(run, {"t": TopicSpec(partitions=1)}) as cluster:
        cluster.stop("n1")
        deadline = time.monotonic() + DAEMON_S
        while cluster.pid("n1") is not None and time.monotonic() < deadline:
            time.sleep(0.1)
        classes = made.read_bytes()
    known = "ENV JDK_JAVA_OPTIONS=-XX:SharedArchiveFile=/opt/kafka/classes.jsa"
    lines = [f"FROM {plain.name}", "COPY classes.jsa /opt/kafka/", known, f"LABEL {label}"]
    derive(client, name, lines, {"classes.jsa": classes})


def derive(client, name, lines, files=None):
    """Build an image by the lines of a Dockerfile."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path, content in {"Dockerfile": "\n".join(lines).encode(), **(files or {})}.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755 if content[:4] == b"\x7fELF" else 0o644
            tar.addfile(entry, io.BytesIO(content))
    made.seek(0)
    client.images.build(fileobj=made, custom_context=True, tag=name, rm=True)


def a_base_with_java(client):
    """A named base image: the Java that is here, libfaketime if it is here, and the libraries they are linked against."""
    home = Path(java()[0]).resolve().parents[1]
    clocks = {library} if (library := faketime.library()) else set()
    linked = [home / "bin/java", *home.glob("lib/**/*.so"), *clocks]
    listed = subprocess.run(["ldd", *map(str, linked)], capture_output=True, text=True)
    libraries = {
        Path(os.path.normpath(word))
        for word in listed.stdout.split()
        if word.startswith(("/lib", "/usr/lib")) and word[-1] != ":"
    }
    made = io.BytesIO()
    files = {path for part in ("bin", "conf", "lib") for path in (home / part).rglob("*") if path.is_file()}  # no dead links
    with tarfile.open(fileobj=made, mode="w", dereference=True) as tar:
        for path in sorted(map(str, files | libraries | clocks)):
            if not path.endswith((".zip", "_nocoops.jsa")):
                tar.add(path, path.lstrip("/"))
    label = f"fencepost.test={hashlib.sha256(made.getbuffer()).hexdigest()}"
    if not client.images.list(BASE, filters={"label": label}):  # else every session would leave a set of images without a name
        changes = [f"ENV PATH={home}/bin", f"LABEL {label}"]
        repository, tag = BASE.split(":")
        client.api.import_image_from_data(made.getvalue(), repository=repository, tag=tag, changes=changes)
    return BASE


class Hosts:
    """Three hosts that let us in (`ssh_hosts.py`).

    options: those of a cluster on them.
    own: their directories as we see them.
    """

    LEASE_S = 15

    def __init__(self, place):
        keygen(place / "key")
        (place / "authorized_keys").write_text((place / "key.pub").read_text())
        root = [] if os.getuid() == 0 else ["sudo", "-n"]
        argv = [
            *root,
            sys.executable,
            str(Path(__file__).parents[1] / "support" / "ssh_hosts.py"),
            str(place),
            getpass.getuser(),
            "3",
        ]
        self._program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        entry = json.loads(self._program.stdout.readline())
        self.place, self.addresses = place, entry["hosts"]
        self.own = [place / f"h{i + 1}" / "directory" for i in range(3)]
        self.options = {
            "hosts": entry["hosts"],
            "directory": entry["directory"],
            "key": str(place / "key"),
            "known_hosts": str(place / "known_hosts"),
            "sudo": bool(root),
            "python": sys.executable,
            "java": str(place / "java"),
            "lease_s": self.LEASE_S,
        }
        self._use_what_is_here(fetch("4.4.0"))

    def _use_what_is_here(self, kafka):
        """Links to this machine's jars on every host, and a `java` that knows the archive of their classes: brokers start sooner.

        Jars of other versions are not there, and come by ssh.
        """
        for own in self.own:
            for name, checksum in kafka.jars.items():
                link = file_transfer.jar_path(own / "jars", name, checksum)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(kafka.directory / name)
        classes = f"-XX:SharedArchiveFile={kafka.classes()}" if class_archive.ensure(kafka) else ""
        program = self.place / "java"
        program.write_text(f'#!/bin/sh\nexec "{java()[0]}" {classes} "$@"\n')
        program.chmod(0o755)

    def ask(self, host, do, **more):
        """Answer of a host (0, 1, 2)."""
        self._program.stdin.write(json.dumps({"host": host, "do": do, **more}) + "\n")
        self._program.stdin.flush()
        return json.loads(self._program.stdout.readline())

    def remains(self, name):
        """Leftovers on the hosts of a run whose directory has this name."""
        left = [str(path) for own in self.own for path in own.glob(f"runs/{name}-*")]
        left += [disk for i in range(3) for disk in self.ask(i, "disks") if f"/runs/{name}-" in disk]
        return left + [command for i in range(3) for command in self.ask(i, "processes").values() if f"/runs/{name}-" in command]

    def rules(self):
        return [rule for i in range(3) for rule in self.ask(i, "rules")]

    def end(self):
        self._program.stdin.close()
        self._program.wait(DAEMON_S)


@pytest.fixture(scope="session")
def ssh_hosts(tmp_path_factory):
    """Hosts that are reached by ssh. Needs OpenSSH's server and root (or sudo without a password); else a visible skip."""
    lacking = [] if Path(SSHD).exists() else [f"{SSHD} (Debian, Ubuntu: sudo apt install openssh-server)"]
    if os.getuid() != 0 and subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        lacking.append("root, or sudo without a password")
    if lacking:
        reason = f"hosts to log in to take {' and '.join(lacking)}"
        if os.environ.get("CI"):
            pytest.fail(f"CI must have them: {reason}")
        pytest.skip(reason)
    hosts = Hosts(tmp_path_factory.mktemp("hosts"))
    try:
        yield hosts
    finally:
        hosts.end()
