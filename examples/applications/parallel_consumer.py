r"""Runs ParallelConsumer.java with Confluent's parallel-consumer, which is fetched once, from Maven's central repository.

fencepost example parallel_consumer fetch
fencepost run -w application --set 'command={python} {examples}/applications/parallel_consumer.py' \
  --set 'outputs_per_input=[5,5]' -n none

A version is another release than 0.5.3.3. TOO_LARGE=100 in the environment has one output in a hundred inputs refused by the
producer at first. A run may have no network but its own, so fetch first. A JDK of 17 or newer compiles the program as it starts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fencepost.harness.fetching import maven
from fencepost.harness.fetching.java import java
from fencepost.harness.fetching.store import Store, cache_dir

VERSION = "0.5.3.3"
LOGGING = ("org.slf4j", "slf4j-simple", "2.0.13")
STORE = Store(cache_dir() / "parallel-consumer", "parallel-consumer", "fencepost example parallel_consumer fetch")
SOURCE = Path(__file__).with_name("ParallelConsumer.java")
MEMORY = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def fetch(version: str) -> None:
    """Put parallel-consumer and what it needs into the cache, if it is not there."""
    wanted = (("io.confluent.parallelconsumer", "parallel-consumer-core", version), LOGGING)
    STORE.fetch(version, lambda directory: maven.fetch(f"parallel-consumer {version}", wanted, directory), print)


def run(version: str) -> None:
    """Become the program."""
    if STORE.present(version) is None:
        sys.exit(f"parallel-consumer {version} is not there yet: fencepost example parallel_consumer fetch {version}")
    program = java()[0]
    os.execv(program, [program, *MEMORY, QUIET, "-cp", f"{STORE.directory / version}/*", str(SOURCE)])


def main(words: list[str]) -> None:
    version = next((word for word in words if word[0].isdigit()), VERSION)
    if "fetch" in words:
        fetch(version)
    else:
        run(version)


if __name__ == "__main__":
    main(sys.argv[1:])
