"""Runs Streams.java with kafka-streams, which is fetched once, from Maven's central repository.

.venv/bin/python examples/applications/streams.py fetch
fencepost run -w application --set 'command=.venv/bin/python examples/applications/streams.py' -n kill,target=client

A run may have no network but its own, so fetch first. A JDK of 17 or newer compiles the program as it starts. A machine that has
only a Java runtime needs a class file, made once where there is a JDK: `javac -cp 'DIRECTORY/*' -d DIRECTORY Streams.java`; then
`java -cp 'DIRECTORY:DIRECTORY/*' Streams` is the command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harness.fetching import maven
from harness.fetching.java import java
from harness.fetching.store import Store, cache_dir

VERSION = "4.3.0"
WANTED = (("org.apache.kafka", "kafka-streams", VERSION), ("org.slf4j", "slf4j-simple", "1.7.36"))
STORE = Store(cache_dir() / "streams", "kafka-streams", ".venv/bin/python examples/applications/streams.py fetch")
SOURCE = Path(__file__).with_name("Streams.java")
MEMORY = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def fetch() -> None:
    """Put kafka-streams and what it needs into the cache, if it is not there."""
    STORE.fetch(VERSION, lambda directory: maven.fetch(f"kafka-streams {VERSION}", WANTED, directory), print)


def run() -> None:
    """Become the program."""
    if STORE.present(VERSION) is None:
        sys.exit("kafka-streams is not there yet: .venv/bin/python examples/applications/streams.py fetch")
    program = java()[0]
    os.execv(program, [program, *MEMORY, QUIET, "-cp", f"{STORE.directory / VERSION}/*", str(SOURCE)])


if __name__ == "__main__":
    fetch() if sys.argv[1:] == ["fetch"] else run()
