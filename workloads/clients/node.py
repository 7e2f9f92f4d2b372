"""Client libraries for Node.js: fetched by npm, driven by the programs in `workloads/drivers/node`."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import msgspec

from fencepost.harness.api import CampaignError
from fencepost.harness.fetching import tools
from fencepost.harness.system.answers import WrongAnswer, decoded

SOURCES = Path(__file__).parent.parent / "drivers" / "node"
SHARED = "driver.js"
OLDEST = (18, 0, 0)
HEAP_MB = 256
RUNTIME = "^24.6.0"  # where the machine's Node.js is older than the library asks for
_REMEDY = "install Node.js 20 or newer (Debian, Ubuntu: sudo apt install nodejs npm)"
_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
_FETCH_S = 600.0
_ABSENT = ("E404", "ETARGET", "No match found", "No matching version")
Version = tuple[int, int, int]


class NodeFamily:
    """A package of npm's registry, and the driver program that loads it.

    A library that asks for a newer Node.js than the machine has gets one of its own, by npm too.
    """

    default: ClassVar[str]
    versions: ClassVar[str]
    package: ClassVar[str]
    program: ClassVar[str]
    companions: ClassVar[tuple[str, ...]] = ()  # packages that the library imports and forgets to name

    def refusal(self, version: str) -> str:
        if re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", version):
            return ""
        return f'"{version}" is no version of {self.package}; there are {self.versions}'

    def missing(self, built: bool = False) -> str:
        node = shutil.which("node")
        if node is None:
            return f"Node.js is missing: {_REMEDY}"
        if (version := node_version(node)) < OLDEST:
            return f"{node} is Node.js {_text(version)}, and {_text(OLDEST)} is the oldest that will do: {_REMEDY}"
        return "" if built or shutil.which("npm") else "npm is missing: install it (Debian, Ubuntu: sudo apt install npm)"

    def sources(self) -> Sequence[Path]:
        return [SOURCES / SHARED, SOURCES / self.program]

    def download(self, version: str, directory: Path, progress: Callable[[str], None]) -> None:
        _install(directory, f"{self.package}@{version}", *self.companions)
        wanted = wanted_node(directory / "node_modules" / self.package)
        if node_version(shutil.which("node") or "") < wanted:
            progress(f"{self.package} {version} asks for Node.js {_text(wanted)}: fetching it")
            _install(directory, f"{_runtime_package()}@{RUNTIME}")

    def build(self, version: str, library: Path, directory: Path) -> None:
        for source in self.sources():
            shutil.copy(source, directory)

    def command(self, version: str, library: Path, built: Path) -> Sequence[str]:
        own = library / "node_modules" / _runtime_package() / "bin" / "node"
        node = str(own) if own.exists() else shutil.which("node") or "node"
        return [node, f"--max-old-space-size={HEAP_MB}", str(built / self.program), str(library)]

    def reads(self) -> Sequence[Path]:
        """The prefix of a Node.js that lies outside the system's directories (of a version manager, for example)."""
        node = shutil.which("node")
        prefix = Path(node).resolve().parent.parent if node else Path("/usr")
        return [] if prefix.is_relative_to("/usr") or prefix == Path("/") else [prefix]


@lru_cache(maxsize=8)
def node_version(node: str) -> Version:
    """The version of a Node.js program; 0.0.0 for none. Raises ClusterError when it does not run."""
    return _numbers(tools.run([node, "--version"], "asking Node.js for its version", timeout_s=60)) if node else (0, 0, 0)


class _Engines(msgspec.Struct):
    node: str = ""


class _Package(msgspec.Struct):
    engines: _Engines = msgspec.field(default_factory=_Engines)


def wanted_node(package: Path) -> Version:
    """The oldest Node.js that a fetched package says it runs on; 0.0.0 when it says nothing."""
    try:
        engines = decoded((package / "package.json").read_bytes(), _Package).engines
    except (OSError, WrongAnswer):
        return (0, 0, 0)
    return min((_numbers(part) for part in engines.node.split("||") if re.search(r"\d", part)), default=(0, 0, 0))


def _install(directory: Path, *packages: str) -> None:
    """`npm install` with npm's ordinary configuration and a cache that is thrown away.

    Raises CampaignError when there is no such version, ClusterError when it cannot be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-npm-") as cache:
        argv = ["npm", "install", "--prefix", str(directory), "--cache", cache, "--loglevel", "error"]
        flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-bin-links", "--no-update-notifier", "--save-exact"]
        try:
            tools.run([*argv, *flags, *packages], f"fetching {packages[0]}", timeout_s=_FETCH_S)
        except tools.ToolError as error:
            if any(mark in error.output for mark in _ABSENT):
                raise CampaignError([f"npm has no {packages[0]}"]) from error
            raise


def _runtime_package() -> str:
    machine = platform.machine()
    return f"node-linux-{_MACHINES.get(machine, machine)}"


def _numbers(text: str) -> Version:
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return (*numbers, 0, 0, 0)[:3]  # type: ignore[return-value]


def _text(version: Version) -> str:
    return ".".join(map(str, version))
