"""Runs Streams.java, or StreamsState.java, with kafka-streams, which is fetched once, from Maven's central repository.

fencepost example streams fetch
fencepost run -w application --set 'command={python} {examples}/applications/streams.py' -n kill,target=client

`count` and `join` run the one with a state. A version is another release than 4.3.0: `streams.py fetch 4.2.0`,
`streams.py count 4.2.0`.
GUARANTEE=at_least_once in the environment is the other guarantee, STANDBYS=1 a standby task for each task.

A run may have no network but its own, so fetch first. A JDK of 17 or newer compiles the program as it starts. A machine that has
only a Java runtime needs a class file, made once where there is a JDK: `javac -cp 'DIRECTORY/*' -d DIRECTORY Streams.java`; then
`java -cp 'DIRECTORY:DIRECTORY/*' Streams` is the command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fencepost.harness.fetching import maven
from fencepost.harness.fetching.java import java
from fencepost.harness.fetching.store import Store, cache_dir

VERSION = "4.3.0"
LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
STORE = Store(cache_dir() / "streams", "kafka-streams", "fencepost example streams fetch")
HERE = Path(__file__).parent
MEMORY = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def fetch(version: str) -> None:
    """Put kafka-streams and what it needs into the cache, if it is not there."""
    wanted = (("org.apache.kafka", "kafka-streams", version), LOGGING)
    STORE.fetch(version, lambda directory: maven.fetch(f"kafka-streams {version}", wanted, directory), print)


def run(version: str, source: Path, *words: str) -> None:
    """Become the program."""
    if STORE.present(version) is None:
        sys.exit(f"kafka-streams {version} is not there yet: fencepost example streams fetch {version}")
    program = java()[0]
    os.execv(program, [program, *MEMORY, QUIET, "-cp", f"{STORE.directory / version}/*", str(source), *words])


def main(words: list[str]) -> None:
    version = next((word for word in words if word[0].isdigit()), VERSION)
    if "fetch" in words:
        fetch(version)
    else:
        state = [word for word in words if word in ("count", "join")]
        run(version, HERE / ("StreamsState.java" if state else "Streams.java"), *state)


if __name__ == "__main__":
    main(sys.argv[1:])
