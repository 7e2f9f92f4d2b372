"""kafka-python and aiokafka: any release with transactions, installed by pip into a directory of its own, in a driver."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from fencepost.harness.api.errors import UnusableLibrary
from fencepost.harness.fetching import pip, tools

DRIVERS = Path(__file__).parents[1] / "drivers" / "python"
SHARED = ("driver.py", "python_client.py", "python_settings.py")
PYTHON = "FENCEPOST_DRIVER_PYTHON"  # names another interpreter, for releases that fencepost's own is too new for
OPTIONS = ("-E", "-s", "-S", "-B")  # Python's own library and the package only, and nothing written beside the sources
CODECS = ("lz4", "snappy", "zstd")  # without them a consumer cannot read what a topic has compressed so
_START_S = 30.0
_DESCRIBE = """import sys, sysconfig
print(getattr(sys, "_base_executable", sys.executable))
print(sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag)"""


class PythonPackage:
    """A family whose library is a package on PyPI."""

    project: ClassVar[str]
    default: ClassVar[str]
    versions: ClassVar[str]
    oldest: ClassVar[tuple[int, int, int]]
    reason: ClassVar[str]  # why there is nothing older
    driver: ClassVar[str]

    def refusal(self, version: str) -> str:
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", version)
        if not match:
            return f'"{version}" is no version of {self.project}; they look like {self.default}'
        number = (int(match[1]), int(match[2]), int(match[3]))
        return "" if number >= self.oldest else self.reason

    def missing(self, built: bool = False) -> str:
        named = os.environ.get(PYTHON)
        if named and not shutil.which(named):
            return f"{PYTHON} names {named}, which cannot be run: name a Python interpreter, or nothing"
        return "" if built else pip.missing()

    def sources(self) -> Sequence[Path]:
        return [DRIVERS / name for name in (*SHARED, self.driver)]

    def download(self, version: str, directory: Path, progress: Callable[[str], None]) -> None:
        """The package and what it needs; the interpreter they were installed for, and its ABI."""
        python = _interpreter()
        pip.install(self.project, version, python, directory / "packages", CODECS)
        shutil.rmtree(directory / "packages" / "bin", ignore_errors=True)
        for name, text in zip(("python", "abi"), _described(python), strict=True):
            (directory / name).write_text(text)

    def build(self, version: str, library: Path, directory: Path) -> None:
        return

    def command(self, version: str, library: Path, built: Path) -> Sequence[str]:
        return [self._python(version, library), *OPTIONS, str(DRIVERS / self.driver), str(library / "packages")]

    def _python(self, version: str, library: Path) -> str:
        """The interpreter that runs now, where it is of the ABI that the packages were installed for; else the one of then."""
        abi = (library / "abi").read_text() if (library / "abi").exists() else ""
        now, kind = _described(_interpreter())
        if abi and kind == abi:
            return now
        former = (library / "python").read_text()
        if os.access(former, os.X_OK) and abi in ("", _described(former)[1]):
            return former
        raise UnusableLibrary(
            f"{self.project} {version} in the cache was installed for {former} ({abi or 'unknown'}), which is no more, and "
            f"{now} is {kind}. Fetch it anew: fencepost client fetch {self.project}@{version}"
        )

    def reads(self) -> Sequence[Path]:
        code = "import sys; print(sys.prefix); print(sys.base_prefix)"
        prefixes = tools.run([_interpreter(), "-c", code], "asking Python where it lies", timeout_s=_START_S)
        return [Path(line) for line in prefixes.split("\n") if line]


class KafkaPython(PythonPackage):
    """kafka-python.

    After a failed call (`client.recovery`): what its transaction manager's state says, as in Java.
    """

    project, driver = "kafka-python", "kafka_python_driver.py"
    default = "3.0.12"
    versions = "releases of kafka-python from 2.2.15 on"
    oldest = (2, 2, 15)
    reason = "kafka-python has had transactions since 2.2.0, and before 2.2.15 no commit of a written record ends"


class Aiokafka(PythonPackage):
    """aiokafka.

    After a failed call (`client.recovery`): what its transaction manager's state says, as `producer.transaction()` does.
    """

    project, driver = "aiokafka", "aiokafka_driver.py"
    default = "0.14.0"
    versions = "releases of aiokafka from 0.9.0 on"
    oldest = (0, 9, 0)
    reason = "before 0.9.0 aiokafka needs modules of a kafka-python that is gone"


def _described(python: str) -> tuple[str, str]:
    """The interpreter, or the one that a virtual environment, which may go, was made of; and its ABI (`cpython-311-...`)."""
    if python == sys.executable:
        return getattr(sys, "_base_executable", python), sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag or ""
    lines = tools.run([python, "-c", _DESCRIBE], "asking Python what it is", timeout_s=_START_S).split("\n")
    return (lines[0], lines[1]) if len(lines) > 1 else (python, "")


def _interpreter() -> str:
    named = os.environ.get(PYTHON)
    return shutil.which(named) or named if named else sys.executable
