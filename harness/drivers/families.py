"""A client's name becomes a driver: `java@4.3.0` is a version of a family, fetched once and kept; `./my-driver` is a program.

Libraries lie in `clients/FAMILY/VERSION` of the cache, what is built of them and of the driver's sources in `drivers/FAMILY`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from fencepost.harness.api import CallError, CampaignError, ClusterError, DriverFamily
from fencepost.harness.api.errors import UnusableLibrary
from fencepost.harness.drivers.answers import CheckAnswer
from fencepost.harness.drivers.process import DriverProcess, Hello
from fencepost.harness.fetching.manifest import Manifest, sha256
from fencepost.harness.fetching.store import Store, cache_dir
from fencepost.harness.plugins import registry
from fencepost.harness.system.logs import ShortLog
from fencepost.harness.system.programs import no_program

GROUP = "driver"
T = TypeVar("T")


@dataclass(frozen=True)
class Driver:
    """A driver that can be started. checksum: of all files of the library, or of the program."""

    kind: str
    version: str
    command: tuple[str, ...]
    checksum: str
    reads: tuple[str, ...]


def is_driver(kind: str) -> bool:
    """Return whether a client's name means a driver, and no client in the worker's process."""
    return "/" in kind or "@" in kind or (kind in registry.names(GROUP) and kind not in registry.names("client"))


def mistakes(kind: str) -> list[str]:
    """The mistakes in a driver's name, before anything is fetched: a sentence each."""
    if "/" in kind:
        return [] if os.access(kind, os.X_OK) and Path(kind).is_file() else [no_program(kind)]
    try:
        driver_family, version = _family(kind)
    except CampaignError as error:
        return error.mistakes
    text = driver_family.refusal(version) or _Release(kind.partition("@")[0], version, driver_family).missing()
    return [f"{kind}: {text}"] if text else []


def obtain(kind: str, progress: Callable[[str], None] = lambda _: None, repair: bool = False) -> Driver:
    """The driver of this name, from the cache or else fetched and built.

    Raises CampaignError for what cannot be had, and ClusterError when it could not be fetched or is damaged.
    """
    if wrong := mistakes(kind):
        raise CampaignError(wrong)
    if "/" in kind:
        program = Path(kind).resolve()
        return Driver(kind, "", (str(program),), sha256(program), (str(program.parent),))
    family, version = _family(kind)
    release = _Release(kind.partition("@")[0], version, family)
    library = release.library(progress, repair)
    try:
        return release.driver(library, progress)
    except UnusableLibrary:
        if not repair:
            raise
        return release.driver(release.library(progress, repair, anew=True), progress)


def fetched() -> list[Manifest]:
    """The manifests of the libraries in the cache; the family is the name of the directory above."""
    return [manifest for name in registry.names(GROUP) for manifest in _libraries(name).all()]


def missing() -> dict[str, str]:
    """The sentence for each family on what this machine lacks to drive any version of it; empty for nothing."""
    return {name: family(name).missing() for name in registry.names(GROUP)}


def family(name: str) -> DriverFamily:
    """The family of this name. Raises CampaignError."""
    if name not in registry.names(GROUP):
        raise CampaignError([unknown(name)])
    made: DriverFamily = registry.load(GROUP, name)()
    return made


def unknown(name: str) -> str:
    """The mistake of a name that no client and no family has, with the nearest one."""
    program = f"; a program of yours is written ./{name}" if "/" not in name and os.path.isfile(name) else ""
    return registry.unknown("client", name, {*registry.names("client"), *registry.names(GROUP)}) + program


def drivable(name: str) -> list[str]:
    """The versions of a family in the cache for which this machine lacks nothing."""
    driver_family = family(name)
    return [
        manifest.version for manifest in _libraries(name).all() if not _Release(name, manifest.version, driver_family).missing()
    ]


@lru_cache(maxsize=50)
def hello(driver: Driver) -> Hello:
    """The driver's own description. Raises ClusterError when it does not start."""
    return _answer_of(driver, lambda _process, answer: answer)


def refusals(driver: Driver, producer: Mapping[str, Any], consumer: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The settings that the driver refuses: (`producer` or `consumer`, key, sentence). Raises ClusterError."""

    def check(process: DriverProcess, _: Hello) -> list[tuple[str, str, str]]:
        return process.answer(CheckAnswer, "check", producer=dict(producer), consumer=dict(consumer)).refused or []

    return _answer_of(driver, check)


def _answer_of(driver: Driver, question: Callable[[DriverProcess, Hello], T]) -> T:
    """The answer of a driver that is started for it. What it writes to its standard error is shown only if it does not work."""
    with ShortLog() as log:
        process = DriverProcess(driver.command, stderr=log.file, on_wait=log.shorten)
        try:
            return question(process, process.start())
        except CallError as error:
            process.end()
            wrote = f"; it wrote: {words}" if (words := log.last_words()) else ""
            text = f"the driver of {driver.kind} does not work here: {error}{wrote}. See: fencepost client check {driver.kind}"
            raise ClusterError(text) from error
        finally:
            process.end()


@dataclass(frozen=True)
class _Release:
    """A version of a family: its library and its driver in the cache."""

    name: str
    version: str
    family: DriverFamily

    def library(self, progress: Callable[[str], None], repair: bool, anew: bool = False) -> Manifest:
        def download(directory: Path) -> None:
            progress(f"fetching the client {self.name}@{self.version}")
            self.family.download(self.version, directory, progress)

        return _libraries(self.name).fetch(self.version, download, progress, repair, anew)

    def driver(self, library: Manifest, progress: Callable[[str], None]) -> Driver:
        def build(directory: Path) -> None:
            progress(f"building the driver of {self.name}@{self.version}")
            self.family.build(self.version, library.directory, directory)

        built = _drivers(self.name).fetch(self._build_name(library), build, progress, repair=True)
        command = tuple(self.family.command(self.version, library.directory, built.directory))
        sources = {path.parent for path in self.family.sources()}
        reads = (library.directory, built.directory, *self.family.reads(), *sources)
        return Driver(f"{self.name}@{self.version}", self.version, command, library.checksum(), tuple(map(str, reads)))

    def missing(self) -> str:
        """The sentence on what this machine lacks to drive it, empty for nothing."""
        text = self.family.missing()
        return self.family.missing(built=True) if text and self._is_built() else text

    def _is_built(self) -> bool:
        library = _libraries(self.name).present(self.version)
        return library is not None and _drivers(self.name).present(self._build_name(library)) is not None

    def _build_name(self, library: Manifest) -> str:
        return f"{self.version}-{_fingerprint(self.family, library)}"


def _family(kind: str) -> tuple[DriverFamily, str]:
    name, _, version = kind.partition("@")
    driver_family = family(name)
    return driver_family, version or driver_family.default


def _libraries(name: str) -> Store:
    return Store(cache_dir() / "clients" / name, f"the client {name}", f"fencepost client fetch {name}@{{}}")


def _drivers(name: str) -> Store:
    return Store(cache_dir() / "drivers" / name, f"the driver of {name}", f"fencepost client fetch {name}@{{}}")


def _fingerprint(family: DriverFamily, library: Manifest) -> str:
    """The checksum, in 12 letters, of everything that a driver is built of."""
    digest = hashlib.sha256(library.checksum().encode())
    for path in sorted(_files(family.sources())):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _files(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
