"""An image that stands for Redpanda's: its command line, files, Admin API and versions of requests, before a broker of Kafka.

So the provider is performed as a whole. What Redpanda itself does with transactions is no part of it.
"""

from __future__ import annotations

import io
import subprocess
import zipfile
from pathlib import Path

from fencepost.clusters.kafka.distribution import fetch
from fencepost.harness.fetching.java import java
from fencepost.harness.proxy.build import PROXY

IMAGE = "fencepost-test/redpanda:{version}"  # as the provider's option `image` has it
VERSION = "double"
_SOURCE = Path(__file__).with_name("redpanda.java")


def files(place: Path) -> dict[str, bytes]:
    """What its image has beside Kafka's jars. place: an empty directory.

    rpk: Java's launcher under this name takes the word behind it, `redpanda`, for the class to run.
    """
    javac = Path(java()[0]).resolve().with_name("javac")
    classpath = f"{fetch('4.4.0').directory}/*"
    argv = [javac, "--release", "17", "-cp", classpath, "-d", place, _SOURCE]
    made = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode:
        raise RuntimeError(f"{_SOURCE} does not compile: {made.stdout}")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        for path in sorted(place.glob("*.class")):
            jar.writestr(path.name, path.read_bytes())
    launcher = Path(java()[0]).resolve().read_bytes()
    return {"rpk": launcher, "double.jar": packed.getvalue(), "proxy.jar": PROXY.jar.read_bytes()}


def lines(base: str) -> list[str]:
    """Its Dockerfile, on an image of Kafka that the tests have made."""
    home = Path(java()[0]).resolve().parents[1]
    options = "-Xmx400m -XX:+UseSerialGC -cp /opt/kafka/libs/*:/opt/double/double.jar"
    return [
        f"FROM {base}",
        f"COPY rpk {home}/bin/",
        "COPY double.jar proxy.jar /opt/double/",
        f'ENV JDK_JAVA_OPTIONS="{options}"',
    ]
