"""The program of kfake: built once of a pinned version, and kept."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from fencepost.harness.api import ClusterError
from fencepost.harness.fetching import tools
from fencepost.harness.fetching.store import Store, cache_dir

HERE = Path(__file__).parent
SOURCES = ("main.go", "go.mod", "go.sum")
PROGRAM = "kfake"
BUILD_S = 1800.0
_PINNED = re.compile(r"franz-go/pkg/kfake v\S+-([0-9a-f]{12})")


def version() -> str:
    """The pinned version, as the report names it."""
    match = _PINNED.search((HERE / "go.mod").read_text())
    assert match, "go.mod pins kfake"
    return f"kfake {match[1]}"


def missing() -> str:
    """The reason why there is no kfake here; empty when it is built or can be."""
    built = _store().present(_name()) is not None
    return "" if built or shutil.which("go") else "kfake is built by Go, which is missing: install it (https://go.dev/dl)"


def ensure(progress: Callable[[str], None] = lambda _: None) -> Path:
    """The program, from the cache or else built (about a minute, once). Raises ClusterError."""
    if reason := missing():
        raise ClusterError(reason)
    return _store().fetch(_name(), lambda directory: _build(directory, progress), progress, repair=True).directory / PROGRAM


def _build(directory: Path, progress: Callable[[str], None]) -> None:
    """Compile it with the modules that go.sum names, in a module cache that is removed again."""
    progress("building kfake")
    place, modules = directory / "build", directory / "modules"
    place.mkdir()
    for name in SOURCES:
        shutil.copy(HERE / name, place)
    env = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false"}
    if not any(os.environ.get(name) for name in ("GOCACHE", "XDG_CACHE_HOME", "HOME")):
        env["GOCACHE"] = str(directory / "cache")
    argv = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", str(directory / PROGRAM), "."]
    tools.run(argv, "building kfake", cwd=place, env={**env, "GOMODCACHE": str(modules)}, timeout_s=BUILD_S)
    for left in (place, modules, directory / "cache"):
        shutil.rmtree(left, ignore_errors=True)


def _name() -> str:
    """The checksum, in 12 letters, of what it is built of."""
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name in SOURCES)).hexdigest()[:12]


def _store() -> Store:
    return Store(cache_dir() / "kfake", "kfake", "fencepost run --cluster kfake")
