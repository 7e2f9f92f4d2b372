"""Releases of librdkafka: the shared library of any confluent-kafka, in a driver (workloads/drivers/python)."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import ClassVar

from fencepost.harness.api import ClusterError
from fencepost.harness.fetching import pip

PROJECT = "confluent-kafka"
LIBRARIES = "confluent_kafka.libs"
PYTHONS = ("311", "38", "314")  # every release from 1.4 on has a wheel for one of these, whose library is the same for all
OLDEST = (1, 4)
DRIVERS = Path(__file__).parents[1] / "drivers" / "python"
INTERPRETER = (sys.executable, "-E", "-s", "-S", "-B")  # Python's own library only, and nothing written beside the sources


class LibrdkafkaReleases:
    """librdkafka as confluent-kafka's wheels bring it; versions are those of confluent-kafka.

    After a failed call (`client.recovery`): what the error's flags say, by rdkafka.h.
    """

    default: ClassVar[str] = metadata.version(PROJECT)
    versions: ClassVar[str] = "releases of confluent-kafka from 1.4.0 on; each brings the librdkafka of nearly the same number"

    def refusal(self, version: str) -> str:
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version)
        if not match:
            return f'"{version}" is no version of confluent-kafka; they look like {self.default}'
        if (int(match[1]), int(match[2])) < OLDEST:
            return "librdkafka has transactions from 1.4.0 on"
        return ""

    def missing(self, built: bool = False) -> str:
        return "" if built else pip.missing()

    def sources(self) -> Sequence[Path]:
        return [DRIVERS / name for name in ("driver.py", "librdkafka_library.py", "librdkafka_driver.py")]

    def download(self, version: str, directory: Path, progress: Callable[[str], None]) -> None:
        """The library of the installed confluent-kafka when it is that version, else of the wheel."""
        if version == metadata.version(PROJECT) and (installed := _installed()):
            for path in installed:
                shutil.copy2(path, directory)
            return
        wheel = pip.wheel(PROJECT, version, PYTHONS, directory)
        _unpack(wheel, directory)
        wheel.unlink()
        _library(directory)

    def build(self, version: str, library: Path, directory: Path) -> None:
        return

    def command(self, version: str, library: Path, built: Path) -> Sequence[str]:
        return [*INTERPRETER, str(DRIVERS / "librdkafka_driver.py"), str(_library(library)), version]

    def reads(self) -> Sequence[Path]:
        return [Path(sys.prefix), Path(sys.base_prefix)]


def _installed() -> list[Path]:
    """The libraries that the installed confluent-kafka brought; none when it was built against the system's."""
    files = metadata.files(PROJECT) or []
    libraries = [Path(str(file.locate())) for file in files if LIBRARIES in file.parts]
    return libraries if any(path.name.startswith("librdkafka") for path in libraries) else []


def _unpack(wheel: Path, directory: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.filename.startswith(f"{LIBRARIES}/") and not member.is_dir():
                (directory / Path(member.filename).name).write_bytes(archive.read(member))


def _library(directory: Path) -> Path:
    """librdkafka among the libraries of a wheel. Raises ClusterError."""
    libraries = sorted(directory.glob("librdkafka*.so*"))
    if not libraries:
        raise ClusterError(f"{directory} has no librdkafka: this wheel of confluent-kafka brings none that can be used here")
    return libraries[0]
