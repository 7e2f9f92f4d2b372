"""The examination of this machine: what it can do for fencepost, and what to do about what it cannot."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.harness.api import HarnessError
from fencepost.harness.drivers import families
from fencepost.harness.plugins import registry, services
from fencepost.harness.system import limits
from fencepost.harness.system.memory import available_memory

GIB = 1 << 30
NEWEST_KAFKA = "4.4.0"
_USERNS_SYSCTL = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


@dataclass(frozen=True)
class Examination:
    """The result of examining a part of the machine.

    name: the part.
    ok: True: good; False: no run is possible; None: a run is possible, but with less.
    text: what was seen.
    remedy: empty when there is nothing to do.
    """

    name: str
    ok: bool | None
    text: str
    remedy: str = ""


def examine(results: Path = Path()) -> list[Examination]:
    """Look at everything a run needs. `results` is where runs would land."""
    return [
        python(sys.version_info[:3]),
        java(),
        unshare(shutil.which("unshare")),
        namespaces(),
        memory(_available_gib()),
        cores(os.cpu_count() or 1),
        disk(_free_gib(results)),
        files(limits.open_files()),
        kafka_jars(),
        chromium(shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")),
        docker(),
        clients(families.missing(), families.drivable),
    ]


def possible(findings: Sequence[Examination]) -> bool:
    """Return whether a run is possible at all."""
    return all(finding.ok is not False for finding in findings)


def python(version: tuple[int, ...]) -> Examination:
    text = ".".join(map(str, version))
    return Examination("python", version >= (3, 10), text, "" if version >= (3, 10) else "use Python 3.10 or newer")


def java() -> Examination:
    """Java 17 or newer, from JAVA_HOME or PATH; brokers and Spark need it."""
    try:
        path, version = services.kafka().java()
    except HarnessError as error:
        return Examination(
            "java",
            False,
            str(error),
            "install OpenJDK 17 or newer (Debian: apt install openjdk-17-jre-headless), or have JAVA_HOME name its directory",
        )
    return Examination("java", True, f"{version} ({path})")


def unshare(path: str | None) -> Examination:
    remedy = "" if path else "install util-linux, for network faults"
    return Examination("unshare", True if path else None, path or "not found", remedy)


def namespaces() -> Examination:
    """A real trial by the `local` cluster: which faults can be had here."""
    try:
        flags = dict.fromkeys(("skewable", "slow_disks", "acls", "proxy"), True)
        missing = registry.load("cluster", "local")(
            controllers=1, disk_mb=64, **flags
        ).missing()  # every option that a fault needs
    except HarnessError as error:
        return Examination("namespaces", False, str(error), "install fencepost completely")
    return from_missing(missing, _USERNS_SYSCTL.read_text().strip() if _USERNS_SYSCTL.exists() else "0")


def from_missing(missing: dict[type, str], apparmor: str) -> Examination:
    """`missing` as `ClusterProvider.missing` gives it; `apparmor` is what the kernel's setting holds ("1": restricted)."""
    if not missing:
        return Examination("namespaces", True, "user, network, mount and pid namespaces work: every fault can be had")
    reasons = "; ".join(f"{capability.__name__}: {reason}" for capability, reason in missing.items())
    sysctl = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu 24.04 forbids namespaces to ordinary users)"
    return Examination(
        "namespaces", None, f"not every fault can be had: {reasons}", sysctl if apparmor == "1" else "see the reason"
    )


def memory(available_gib: float) -> Examination:
    """Three brokers take 1.5 GiB, Spark 2 GiB, clients and harness the rest."""
    ok = True if available_gib >= 5 else None if available_gib >= 3 else False
    remedy = "" if ok else "free some memory, or run fewer brokers (--brokers 1)"
    return Examination("memory", ok, f"{available_gib:.1f} GiB available; 5 are comfortable, 3 the least", remedy)


def cores(count: int) -> Examination:
    remedy = "" if count >= 2 else "expect brokers to miss their heartbeats: use longer timeouts"
    return Examination("cores", True if count >= 2 else None, f"{count}; 2 or more are wanted", remedy)


def disk(free_gib: float) -> Examination:
    ok = True if free_gib >= 5 else None if free_gib >= 1 else False
    return Examination(
        "disk",
        ok,
        f"{free_gib:.1f} GiB free for results; 5 are comfortable, 1 the least",
        "" if ok else "free some space, or use --results",
    )


def files(count: int) -> Examination:
    """The number of files that a process may open."""
    ok = True if count >= limits.COMFORTABLE else None if count >= limits.LEAST else False
    text = f"a process may open {count}; {limits.COMFORTABLE} are comfortable, {limits.LEAST} the least"
    return Examination("files", ok, text, "" if ok else f"ulimit -n {limits.COMFORTABLE}, or /etc/security/limits.conf")


def kafka_jars() -> Examination:
    try:
        kafka = services.kafka()
        versions = [jars.version for jars in kafka.installed()]
        damage = {version: wrong for version in versions if (wrong := kafka.damage(version))}
    except HarnessError as error:
        return Examination("kafka", False, str(error), "install fencepost completely")
    return from_cache(versions, damage)


def from_cache(versions: Sequence[str], damage: Mapping[str, Sequence[str]]) -> Examination:
    """versions: those in the cache. damage: for those that are not as they were fetched, what is wrong."""
    if damage:
        texts = "; ".join(text for wrong in damage.values() for text in wrong)
        remedy = " && ".join(f"fencepost cluster fetch {version}" for version in damage)
        return Examination("kafka", False if NEWEST_KAFKA in damage else None, f"damaged in the cache: {texts}", remedy)
    if versions:
        return Examination("kafka", True, f"cached, all as fetched: {', '.join(versions)}")
    return Examination(
        "kafka", None, "no version cached; the first run fetches one (45 MB)", f"fencepost cluster fetch {NEWEST_KAFKA}"
    )


def chromium(path: str | None) -> Examination:
    return Examination("chromium", True if path else None, path or "not found; only the report's own tests need it")


def docker() -> Examination:
    """The examination of Docker, which only `--cluster docker` needs."""
    images: Sequence[str] = ()
    try:
        if not (trouble := services.docker().trouble()):
            images = services.docker().images(NEWEST_KAFKA)
    except HarnessError as error:
        trouble = str(error)
    return from_docker(trouble, images)


def from_docker(trouble: str, images: Sequence[str]) -> Examination:
    """trouble: why there can be no cluster in Docker; empty when there can. images: of brokers, that are here."""
    if trouble:
        return Examination("docker", None, f"--cluster docker cannot be used: {trouble}")
    if not images:
        text = (
            f"a daemon answers, and has no image of Kafka {NEWEST_KAFKA}: the first run pulls one, if a registry can be reached"
        )
        return Examination("docker", None, text, "without a registry: sudo fencepost cluster image")
    return Examination("docker", True, f"a daemon answers, and has {images[0]}: --cluster docker can be used")


def clients(missing: Mapping[str, str], drivable: Callable[[str], Sequence[str]]) -> Examination:
    """The families of clients that can be driven.

    missing: what the machine lacks for each family, empty for nothing.
    drivable: the versions of a family that can be driven all the same.
    """
    possible_ = [name for name, lack in missing.items() if not lack]
    reasons: dict[str, list[str]] = {}
    for name, lack in missing.items():
        reasons.setdefault(lack, []).append(name)
    lacks = "; ".join(f"not {', '.join(names)}: {lack}" for lack, names in reasons.items() if lack)
    cached = [f"{name}@{version}" for name, lack in missing.items() if lack for version in drivable(name)]
    lacks += f"; built already, and usable: {', '.join(cached)}" if cached else ""
    text = f"librdkafka in the workers, and versions of {', '.join(possible_) or 'no other client'} as drivers"
    return Examination("clients", None if lacks else True, f"{text}; {lacks}" if lacks else text)


def _available_gib() -> float:
    """Memory that can be had without swapping, as far as this process's control group has it."""
    if platform.system() == "Linux":
        return available_memory() / GIB
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB


def _free_gib(directory: Path) -> float:
    place = Path(os.path.realpath(directory))
    there = next(path for path in [place, *place.parents] if os.path.exists(path))
    return shutil.disk_usage(there).free / GIB
