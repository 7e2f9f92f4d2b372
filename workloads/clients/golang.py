"""Client libraries of Go: the library is vendored once, and the driver is compiled of it and our sources without a network."""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.fetching import tools

SOURCES = Path(__file__).parent.parent / "drivers"
SHARED = SOURCES / "golang"
PROGRAM = "driver"
FETCH_S, BUILD_S = 600.0, 1800.0
_OLDEST_LANGUAGE = "1.21"  # of our sources; the library's own go.mod demands more where it needs more
_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
_MISSING = f"Go is missing: install {_OLDEST_LANGUAGE}, or as new as the library demands (Debian, Ubuntu: apt install golang-go)"


class GoFamily(ABC):
    """The common part of the families of Go: `go` brings the module and all that it needs into a vendor directory."""

    default: ClassVar[str]
    versions: ClassVar[str]
    name: ClassVar[str]
    module: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]  # below the module: those that the driver imports
    oldest: ClassVar[tuple[int, int, int]]
    why_oldest: ClassVar[str]

    @abstractmethod
    def tags(self, library: Path) -> Sequence[str]:
        """Go's build tags for what only some versions have."""

    def refusal(self, version: str) -> str:
        if not _VERSION.fullmatch(version):
            return f"{version!r} is no version of {self.name}; {self.versions}"
        if tuple(map(int, version.split("-")[0].split("."))) < self.oldest:
            return f"{version} is older than {'.'.join(map(str, self.oldest))}: {self.why_oldest}"
        return ""

    def missing(self, built: bool = False) -> str:
        return "" if built or shutil.which("go") else _MISSING

    def sources(self) -> Sequence[Path]:
        return sorted([*SHARED.glob("*.go"), *self._own.glob("*.go")])

    def download(self, version: str, directory: Path, progress: Callable[[str], None]) -> None:
        """The module and what it imports: `go.mod`, `go.sum` and `vendor`. The module cache is not needed afterwards."""
        imports = directory / "imports.go"
        imports.write_text(_imports(self.module, self.packages))
        (directory / "go.mod").write_text(f"module fencepost/driver\n\ngo {_OLDEST_LANGUAGE}\n")
        cache = directory / ".modules"  # a name that Go does not take for packages of ours
        env = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod -modcacherw", "GOMODCACHE": str(cache), "GOWORK": "off"}
        try:
            self._get(version, directory, env)
            tools.run(["go", "mod", "vendor"], f"fetching {self.name} {version}", cwd=directory, env=env, timeout_s=FETCH_S)
        finally:
            shutil.rmtree(cache, ignore_errors=True)
        imports.unlink()

    def _get(self, version: str, directory: Path, env: Mapping[str, str]) -> None:
        wanted = [f"{self.module}{'/' if package else ''}{package}@v{version}" for package in self.packages]
        try:
            tools.run(["go", "get", *wanted], f"fetching {self.name} {version}", cwd=directory, env=env, timeout_s=FETCH_S)
        except tools.ToolError as error:
            if "unknown revision" in error.output or "invalid version" in error.output:
                raise CampaignError([f"there is no {self.name} {version}: {self.versions}"]) from error
            if "running go" in error.output:
                raise ClusterError(f"{error}. Install the Go that it needs, or choose an older {self.name}") from error
            raise

    def build(self, version: str, library: Path, directory: Path) -> None:
        """Compile a static program offline. Go's own build cache makes the next version quicker; nothing needs it later."""
        place = directory / "build"
        shutil.copytree(library / "vendor", place / "vendor")
        for path in (library / "go.mod", library / "go.sum", *self.sources()):
            shutil.copy(path, place)
        argv = [
            "go",
            "build",
            "-trimpath",
            "-ldflags=-s -w",
            "-tags",
            ",".join(self.tags(library)),
            "-o",
            str(directory / PROGRAM),
            ".",
        ]
        tools.run(argv, f"building the driver of {self.name} {version}", cwd=place, env=_offline(directory), timeout_s=BUILD_S)
        shutil.rmtree(place)
        shutil.rmtree(directory / "cache", ignore_errors=True)

    def command(self, version: str, library: Path, built: Path) -> Sequence[str]:
        return [str(built / PROGRAM)]

    def reads(self) -> Sequence[Path]:
        return []

    @property
    def _own(self) -> Path:
        return SOURCES / self.name.replace("-", "_")


def _imports(module: str, packages: Sequence[str]) -> str:
    """A program that does nothing but import what the driver imports, for `go mod vendor`."""
    lines = [f'import _ "{module}{"/" if package else ""}{package}"' for package in packages]
    return "\n".join(["package main", *lines, "func main() {}", ""])


def _offline(directory: Path) -> Mapping[str, str]:
    env = {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=vendor -buildvcs=false",
        "GOPROXY": "off",
        "GOWORK": "off",
    }
    placed = any(os.environ.get(name) for name in ("GOCACHE", "XDG_CACHE_HOME", "HOME"))
    return env if placed else {**env, "GOCACHE": str(directory / "cache")}
