"""One Kafka broker at 127.0.0.1:9092 until Ctrl-C, to try things on.

Topics appear when they are used, and what was written goes with the broker.

    fencepost example one_broker
    fencepost example one_broker --kafka 3.9.1 --port 9192

It needs Java 17, and the network once: Kafka's jars are fetched and kept. The port behind `--port` is its controller's.

Exit code: 0 ended by Ctrl-C or SIGTERM, 1 when it did not start.
"""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from fencepost.clusters.kafka.distribution import fetch
from fencepost.clusters.kafka.node_directory import kafka_uuid

HOST, START_S = "127.0.0.1", 120.0


def settings(port: int, folder: Path) -> str:
    """A broker that is its own controller, and whose internal topics have one replica and few partitions."""
    lines = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{port + 1}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "data",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def listens(port: int) -> bool:
    """True if somebody does at this port."""
    try:
        socket.create_connection((HOST, port), 1.0).close()
    except OSError:
        return False
    return True


def await_start(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the broker listens; False when it ends, or does not in time."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        if listens(port):
            return True
        time.sleep(0.1)
    return False


def serve(version: str, port: int, folder: Path) -> NoReturn:
    """Start it, and wait until it ends. Raises SystemExit with what its log says, and KeyboardInterrupt."""
    kafka, config, log = fetch(version), folder / "server.properties", folder / "server.log"
    config.write_text(settings(port, folder))
    process: subprocess.Popen[bytes] | None = None
    try:
        with log.open("wb") as out:
            tool = kafka.command("kafka.tools.StorageTool", ["format", "-t", kafka_uuid(), "-c", str(config)], heap_mb=128)
            subprocess.run(tool, check=True, stdout=out, stderr=out)
            command = kafka.command("kafka.Kafka", [str(config)], heap_mb=256)
            process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        if not await_start(process, port):
            ended = process.poll()
            how = f"does not listen after {START_S:g} s" if ended is None else f"has ended, with exit {ended}"
            sys.exit(f"it {how}:\n{log.read_text(errors='replace')[-2000:]}")
        print(f"Kafka {version} listens at {HOST}:{port}; its log is {log}. Ctrl-C ends it", flush=True)
        sys.exit(f"it has ended by itself, with exit {process.wait()}:\n{log.read_text(errors='replace')[-2000:]}")
    finally:
        if process is not None:
            process.kill()
            process.wait()


def main() -> None:
    """Start it, and wait."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--kafka", default="4.4.0", help="the broker's version")
    parser.add_argument("--port", default=9092, type=int)
    given = parser.parse_args()
    if taken := [port for port in (given.port, given.port + 1) if listens(port)]:
        sys.exit(f"somebody listens at {HOST}:{taken[0]} already; choose another one by --port")
    for number in (signal.SIGINT, signal.SIGTERM):  # both end it, also where a shell in the background ignores the first
        signal.signal(number, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="fencepost-broker-") as name:
            serve(given.kafka, given.port, Path(name))
    except KeyboardInterrupt:  # the way to end it
        pass


if __name__ == "__main__":
    main()
