"""Runs tansu 0.6.0 (https://tansu.io), a broker in Rust, as a node of the cluster `command`. It is built once, by cargo.

fencepost example tansu fetch
fencepost campaign campaigns/museum-brokers.toml --only 'tansu 0.6.0, aborted records'

In a campaign the command is `{python} {examples}/brokers/tansu.py {host} {port}`, or with `proxy = true`
`... {host} {listen_port} --advertised-listener-url tcp://{host}:{port}`; further words are tansu's own
(`--storage-engine libsql://tansu.db`; without one it keeps everything in memory). The build takes Rust 1.85 or newer, cmake and
some ten minutes on two cores.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from fencepost.harness.fetching import tools
from fencepost.harness.fetching.store import Store, cache_dir

VERSION = "0.6.0"
STORE = Store(cache_dir() / "tansu", "tansu", "fencepost example tansu fetch")
SOURCES = Path(__file__).parent / "tansu"
BUILD_S = 7200.0


def build(directory: Path) -> None:
    """Compile it, and keep the program alone."""
    place = directory / "build"
    shutil.copytree(SOURCES, place)
    tools.run(["cargo", "build", "--release"], f"building tansu {VERSION}", cwd=place, timeout_s=BUILD_S)
    shutil.move(place / "target" / "release" / "tansu", directory / "tansu")
    shutil.rmtree(place)


def run(host: str, port: str, *words: str) -> None:
    """Become the broker."""
    if STORE.present(VERSION) is None:
        sys.exit(f"tansu {VERSION} is not there yet: fencepost example tansu fetch")
    program, address = str(STORE.directory / VERSION / "tansu"), f"tcp://{host}:{port}"
    storage = () if "--storage-engine" in words else ("--storage-engine", "memory://tansu/")
    advertised = () if "--advertised-listener-url" in words else ("--advertised-listener-url", address)
    os.execv(program, [program, "broker", "--listener-url", address, *advertised, *storage, *words])


if __name__ == "__main__":
    if sys.argv[1:] == ["fetch"]:
        STORE.fetch(VERSION, build, print)
    else:
        run(*sys.argv[1:])
