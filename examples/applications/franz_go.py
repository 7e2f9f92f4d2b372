"""Runs franz_go/main.go with a release of franz-go, which is fetched and built once, by Go (1.21 or newer; as new as it demands).

fencepost example franz_go fetch
fencepost run -w application --set 'command={python} {examples}/applications/franz_go.py' -n kill,target=client

A version is another release than 1.22.3: `franz_go.py fetch 1.21.3`, `franz_go.py 1.21.3`. A run may have no network but its own,
so fetch first. All other words are for the program: `-aborts 0.1 -think 20ms`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from fencepost.harness.drivers import families
from fencepost.harness.fetching import tools
from fencepost.harness.fetching.store import Store, cache_dir

VERSION = "1.22.3"
SOURCE = Path(__file__).with_name("franz_go") / "main.go"
STORE = Store(cache_dir() / "franz-go-application", "the program with franz-go", "fetch it again")
OFFLINE = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOFLAGS": "-mod=vendor -buildvcs=false",
    "GOPROXY": "off",
    "GOWORK": "off",
}


def fetch(version: str) -> None:
    """Put franz-go, and the program made with it, into the cache, if they are not there."""
    families.obtain(f"franz-go@{version}", print)
    library = cache_dir() / "clients" / "franz-go" / version
    STORE.fetch(_name(version), lambda directory: build(library, directory), print)


def build(library: Path, directory: Path) -> None:
    """Compile the program with the packages that the client's driver brought, without a network."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        shutil.copytree(library / "vendor", place / "vendor")
        for path in (library / "go.mod", library / "go.sum", SOURCE):
            shutil.copy(path, place)
        argv = ["go", "build", "-trimpath", "-o", str(directory / "application"), "main.go"]
        tools.run(argv, "building the program", cwd=place, env=OFFLINE, timeout_s=1800)


def run(version: str, arguments: list[str]) -> None:
    """Become the program."""
    manifest = STORE.present(_name(version))
    if manifest is None:
        sys.exit(f"the program is not there yet: fencepost example franz_go fetch {version}")
    program = str(manifest.directory / "application")
    os.execv(program, [program, *arguments])


def _name(version: str) -> str:
    return f"{version}-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"


def main(words: list[str]) -> None:
    fetched = words[:1] == ["fetch"]
    rest = words[1:] if fetched else words
    version, arguments = (rest[0], rest[1:]) if rest and rest[0][0].isdigit() else (VERSION, rest)
    fetch(version) if fetched else run(version, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
