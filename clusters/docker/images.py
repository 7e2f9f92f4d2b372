"""The images of broker containers: built here or official, and a base that is built without any registry.

An image needs `java` in its PATH and the jars in /opt/kafka/libs, as apache/kafka has; nothing else of it is used.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError, ImageNotFound

from fencepost.clusters.docker import engine
from fencepost.clusters.kafka.distribution import Distribution, fetch
from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.system import liveness

OFFICIAL, OURS, BASE = "apache/kafka", "fencepost/kafka", "fencepost/base:bookworm"
_SUITE, _PACKAGES = "bookworm", "openjdk-17-jre-headless,libfaketime"
_BOOTSTRAP_S = 1200.0
_JARS, _HELD = "fencepost.jars", "fencepost.packages"
_CONFIG = "/opt/kafka/config"
_LOG4J = (
    f"-Dlog4j2.configurationFile={_CONFIG}/log4j2.yaml",  # since 4.0
    f"-Dlog4j.configuration=file:{_CONFIG}/log4j.properties",
    "-Dkafka.logs.dir=/tmp",
)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Image:
    """An image for brokers.

    name: by which Docker knows it.
    id: the digest of its content.
    origin: where it came from, as text.
    flags: options for its Java; images of others log by log4j, which writes nothing without the image's own settings.
    """

    name: str
    id: str
    origin: str
    flags: tuple[str, ...] = ()


def build(kafka: str = "4.4.0", base: str = "", on_progress: Progress = lambda _: None, name: str = "") -> Image:
    """An image with the jars of this Kafka version on `base`, or on a base that debootstrap makes (a minute, once).

    name: what to call it instead of fencepost/kafka:VERSION.

    Needs a daemon; without `base` also debootstrap and root. Raises ClusterError with the remedy.
    """
    with engine.opened() as client:
        base_image = base or _ensure_base(client, on_progress)
        return _build(client, fetch(kafka, on_progress), base_image, on_progress, name)


def resolve(client: Any, kafka: str, named: str = "", on_progress: Progress = lambda _: None) -> Image:
    """The image for this Kafka version: the one `named`, ours, or the official one; ours is built where its base is there.

    Raises CampaignError with what to do when there is none and no registry gives one, ClusterError when the daemon fails.
    """
    if named:
        given = _present(client, named, "named") or _pulled(client, named, on_progress)
        return (
            given
            if isinstance(given, Image)
            else _none(f"the image {named} is not here, and could not be pulled: {given}", kafka)
        )
    image: Image | None = _present(client, f"{OURS}:{kafka}", "built here") or _present(client, f"{OFFICIAL}:{kafka}", "official")
    if image is None and _present(client, BASE, "built here"):
        image = _build(client, fetch(kafka, on_progress), BASE, on_progress)
    pulled = image or _pulled(client, f"{OFFICIAL}:{kafka}", on_progress)
    if isinstance(pulled, Image):
        return pulled
    return _none(f"there is no image of Kafka {kafka}: {OFFICIAL}:{kafka} could not be pulled: {pulled}", kafka)


def third_party(client: Any, name: str, what: str, on_progress: Progress = lambda _: None) -> Image:
    """An image of other brokers, pulled where it is not here. Raises CampaignError with what to do, and ClusterError."""
    image = _present(client, name, "present") or _pulled(client, name, on_progress)
    if not isinstance(image, Image):
        remedy = f"docker pull {name}; for a machine without one, bring it over by docker save and docker load"
        what_is_missing = f"the image of {what}, {name}, is not here, and could not be pulled: {image}"
        raise CampaignError([f"{what_is_missing}. Where a registry can be reached: {remedy}"])
    return image


def _none(what: str, kafka: str) -> Image:
    raise CampaignError([f"{what}. Build one without a registry (as root): fencepost cluster image --kafka {kafka}"])


def _present(client: Any, name: str, origin: str) -> Image | None:
    try:
        docker_image = client.images.get(name)
    except ImageNotFound:
        return None
    return Image(name, docker_image.id, origin, () if _JARS in docker_image.labels else _LOG4J)


def _pulled(client: Any, name: str, on_progress: Progress) -> Image | str:
    """The image from its registry; why there is none, in the registry's own words. Raises ClusterError when the daemon fails."""
    on_progress(f"pulling {name}")
    last = "it did not come"
    try:
        for line in client.api.pull(*name.rpartition(":")[::2], stream=True, decode=True):
            last = str(line.get("error", "")).strip() or last
    except APIError as error:
        last = engine.reason(error)
    except engine.ERRORS as error:
        raise ClusterError(f"the image {name} is not here, and could not be pulled: {engine.reason(error)}") from error
    return _present(client, name, "pulled") or last


def present(kafka: str) -> list[str]:
    """Images of this version that brokers can be started from without a registry. Raises ClusterError."""
    with engine.opened() as client:
        names = [f"{OURS}:{kafka}", f"{OFFICIAL}:{kafka}", BASE]
        return [name for name in names if _present(client, name, "present")]


# ---- a base, from Debian's mirror


def _ensure_base(client: Any, on_progress: Progress) -> str:
    if not _is_up_to_date(client):
        program = _debootstrap()
        with liveness.temporary_directory("base") as directory:
            _bootstrap(program, directory / "root", on_progress)
            on_progress(f"importing it as {BASE}")
            _import(client, directory / "root")
    return BASE


def _is_up_to_date(client: Any) -> bool:
    """Return whether the base is here, with every package that it needs."""
    try:
        return bool(client.images.get(BASE).labels.get(_HELD) == _PACKAGES)
    except ImageNotFound:
        return False


def _debootstrap() -> str:
    program = shutil.which("debootstrap") or shutil.which("debootstrap", path="/usr/sbin:/sbin")
    if program is None:
        raise ClusterError(
            "a base image is built by debootstrap, which is not installed (Debian, Ubuntu: sudo apt install debootstrap); "
            "or name an image that has Java 17 or newer: --base IMAGE"
        )
    if os.geteuid() != 0:
        raise ClusterError("debootstrap needs root: run this command once with sudo, or name an image with Java: --base IMAGE")
    return program


def _bootstrap(program: str, root: Path, on_progress: Progress) -> None:
    """A small Debian with Java in `root`, from the machine's default mirror."""
    argv = [program, "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(root)]
    on_progress(f"debootstrap: Debian {_SUITE} with {_PACKAGES} (a minute or two)")
    last: list[str] = []
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = [*last[-4:], line.strip()]
            if "Configuring openjdk" in line or line.startswith(("I: Retrieving InRelease", "I: Unpacking the base")):
                on_progress(f"debootstrap: {line.removeprefix('I: ').strip()}")
        process.wait(_BOOTSTRAP_S)
    if process.returncode != 0:
        raise ClusterError(f"debootstrap ended with status {process.returncode}: {' / '.join(last)}")
    for archive in (root / "var/cache/apt/archives").glob("*.deb"):
        archive.unlink()


def _import(client: Any, root: Path) -> None:
    repository, tag = BASE.split(":")
    labels = [f'LABEL "fencepost"="base" "fencepost.suite"="{_SUITE}" "{_HELD}"="{_PACKAGES}"']
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
        client.api.import_image_from_stream(tar.stdout, repository=repository, tag=tag, changes=labels)
    if tar.returncode != 0:
        raise ClusterError(f"the base image could not be packed: tar ended with status {tar.returncode}")


# ---- Kafka on a base


def _build(client: Any, distribution: Distribution, base: str, on_progress: Progress, name: str = "") -> Image:
    name = name or f"{OURS}:{distribution.version}"
    on_progress(f"building {name} on {base}")
    output = []
    context = _context(distribution, base)
    for line in client.api.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True, decode=True):
        output.append(str(line.get("stream", "")).strip())
        if "error" in line:
            raise ClusterError(
                f"{name} could not be built on {base}: {line['error'].strip()} ({' / '.join(filter(None, output[-3:]))})"
            )
    image = _present(client, name, "built here")
    if image is None:
        raise ClusterError(f"Docker built {name} and does not have it")
    return image


def _context(distribution: Distribution, base: str) -> io.BytesIO:
    """The Dockerfile and the jars, as a tar."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        text = _dockerfile(distribution, base).encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
        for jar in sorted(distribution.jars):
            tar.add(distribution.directory / jar, f"libs/{jar}", filter=_plain)
    made.seek(0)
    return made


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode, entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0o644, 0, 0, 0, "", ""
    return entry


def _dockerfile(distribution: Distribution, base: str) -> str:
    labels = {"fencepost": "kafka", "fencepost.kafka": distribution.version, _JARS: digest(distribution.jars)}
    pairs = " ".join(f'"{key}"="{value}"' for key, value in labels.items())
    return f'FROM {base}\nRUN ["java", "-version"]\nCOPY libs /opt/kafka/libs\nLABEL {pairs}\n'


def digest(jars: Mapping[str, str]) -> str:
    """One checksum over the names and checksums of all jars."""
    return hashlib.sha256(json.dumps(dict(sorted(jars.items()))).encode()).hexdigest()
